//! Running products, and the recurrence that their derivatives are.

use crate::exec::launch;
use crate::exec::reduce::Scan;
use crate::ops::batching::{Batch, Batched, shifted};
use crate::ops::operation::{Backward, Forward, Grads, Operation, Outputs, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::pointwise::{Takes, infer_unary};
use crate::ops::record::{Class, Family, Input, Needs, Parameter, Record, signature};
use crate::ops::reduction::wide;
use crate::tensor::axis_index;
use crate::{DType, Result, Tensor, ops};
use extensor_derive::method;
use smallvec::smallvec;

/// `yᵢ = x₀ · … · xᵢ` along an axis.
///
/// The product so far is kept in more precision than the results, as with
/// [`cumsum`](crate::ops::cumsum). Whole numbers wrap around.
///
/// Conventions: whole numbers wrap around.
///
/// ```
/// use extensor::ops::cumprod;
/// use extensor::tensor;
/// let y = cumprod(&tensor([[1, 2, 3], [4, 5, 6]]), 1)?;
/// assert_eq!(y.to_vec::<i32>()?, [1, 2, 6, 4, 20, 120]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn cumprod(x: &Tensor, axis: i64) -> Result<Tensor> {
    apply_one(&Cumprod { axis }, &[x])
}

/// The gradient of [`cumprod`]: for each element the sum of `grad_output` times the products it is
/// a factor of, without it. Nothing is divided: it is right with any number of zeros.
#[track_caller]
#[extensor_derive::noted]
pub fn cumprod_backward(grad_output: &Tensor, x: &Tensor, axis: i64) -> Result<Tensor> {
    let output = placeholder(grad_output.shape(), grad_output.dtype())?;
    let [grad] = backward_of(&Cumprod { axis }, grad_output, &[x], &output)?;
    Ok(grad)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cumprod {
    axis: i64,
}

impl Cumprod {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "cumprod",
        family: Family::Reduction,
        formula: "yᵢ = x₀ · … · xᵢ",
        derivative: "xⱼ′ = Σ yᵢ′ · (yᵢ without xⱼ) over i >= j",
        conventions: "whole numbers wrap around",
        params: &[Parameter {
            name: "axis",
            what: "an axis, negative if counted from the end",
            default: None,
        }],
        backward: signature!(cumprod_backward(grad_output, x; axis)),
        class: Class::Composite,
        build: |p| Ok(Box::new(Cumprod { axis: p.int("cumprod", "axis")? })),
        samples: |s| {
            let cases: [(&[usize], i64); 8] = [
                (&[5], 0),
                (&[3, 4], 0),
                (&[3, 4], 1),
                (&[2, 3, 4], -2),
                (&[2, 3, 4], 0),
                (&[1], 0),
                (&[0, 3], 0),
                (&[3, 0], 0),
            ];
            for (shape, axis) in cases {
                let x = s.away(-1.6, 1.6, &[0.0], shape);
                s.add([x], Params::new().with("axis", axis));
            }
            let zeros: [f64; 5] = [2.0, 0.0, 3.0, 0.0, 1.5];
            s.add_noted([crate::tensor(zeros)], Params::new().with("axis", 0), "two zeros");
        },
        errors: |bad| {
            let axis = |axis: i64| Params::new().with("axis", axis);
            let x = bad.ones(&[2, 3], DType::F64);
            bad.add([x.clone()], axis(2), "axis 2 is out of range for 2 dimensions");
            bad.add([x], Params::new(), "axis is None, expected a whole number");
            let mask = bad.ones(&[2], DType::Bool);
            bad.add([mask], axis(0), "x has dtype bool, expected a number type");
        },
        ..Record::BLANK
    };
}

/// The neighbours of the elements along an axis: those after (`ahead`) or before them, and `end` for
/// those that have none.
pub(in crate::ops) fn neighbours(x: &Tensor, axis: usize, ahead: bool, end: f64) -> Result<Tensor> {
    if x.shape()[axis] == 0 {
        return Ok(x.clone());
    }
    let along = axis as i64;
    let mut pads = vec![(0, 0); x.ndim()];
    let kept = if ahead {
        pads[axis].1 = 1;
        ops::slice(x, along, 1, None, 1)?
    } else {
        pads[axis].0 = 1;
        ops::slice(x, along, None, -1, 1)?
    };
    ops::pad(&kept, pads, end)
}

impl Operation for Cumprod {
    fn record(&self) -> &'static Record {
        Cumprod::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        axis_index("cumprod", self.axis, inputs[0].ndim())?;
        infer_unary("cumprod", inputs[0], Takes::Numbers)
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let (op, x) = ("cumprod", inputs[0]);
        let axis = axis_index(op, self.axis, x.ndim())?;
        launch(op, &Scan::Products { axis }, &[x], specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (g, x) = (call.grad(), call.inputs[0]);
        let axis = axis_index("cumprod_backward", self.axis, x.ndim())?;
        // xⱼ′ = (x₀ · … · xⱼ₋₁) · sⱼ with sⱼ = gⱼ + xⱼ₊₁·sⱼ₊₁.
        call.one(|| {
            let dtype = wide(g.dtype());
            let (g, x) = (ops::cast(g, dtype)?, ops::cast(x, dtype)?);
            let before = neighbours(&cumprod(&x, self.axis)?, axis, false, 1.0)?;
            let after = neighbours(&x, axis, true, 0.0)?;
            let sums = apply_one(&Recurrence { axis, reverse: true, cut: false }, &[&after, &g])?;
            ops::multiply(&before, &sums)
        })
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let (x, y) = (call.inputs[0], call.outputs[0]);
        let Some(tangent) = call.tangents[0] else { return Ok(smallvec![y.zeros_like()?]) };
        let axis = axis_index("cumprod", self.axis, x.ndim())?;
        // yᵢ′ = (x₀ · … · xᵢ₋₁)·xᵢ′ + xᵢ·yᵢ₋₁′.
        let dtype = wide(x.dtype());
        let (x, tangent) = (ops::cast(x, dtype)?, ops::cast(tangent, dtype)?);
        let before = neighbours(&cumprod(&x, self.axis)?, axis, false, 1.0)?;
        let own = ops::multiply(&before, &tangent)?;
        let along = apply_one(&Recurrence { axis, reverse: false, cut: false }, &[&x, &own])?;
        Ok(smallvec![ops::cast(&along, y.dtype())?])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        axis_index("cumprod", self.axis, inputs[0].ndim()).map_or(1, |axis| inputs[0].shape()[axis])
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.whole(Cumprod { axis: shifted(self.axis) })
    }
}

/// `sᵢ = bᵢ + aᵢ·sᵢ₋₁` along an axis, or `bᵢ + aᵢ·sᵢ₊₁` if reversed; the first is its `b`. With `cut`,
/// an `a` of 0 begins a line of its own: nothing comes of what is before it, infinite or not. Not in
/// the catalogue: the derivatives of [`cumprod`] and other operations, of every order, are made of it.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Recurrence {
    pub axis: usize,
    pub reverse: bool,
    pub cut: bool,
}

static RECURRENCE: Record = Record {
    name: "recurrence",
    family: Family::Reduction,
    formula: "sᵢ = bᵢ + aᵢ·sᵢ₋₁",
    derivative: "(uᵢ·sᵢ₋₁, uᵢ) with uᵢ = gᵢ + aᵢ₊₁·uᵢ₊₁",
    inputs: &[Input::new("a"), Input::new("b")],
    class: Class::Composite,
    needs: Needs::InputsAndOutputs,
    ..Record::BLANK
};

impl Operation for Recurrence {
    fn record(&self) -> &'static Record {
        &RECURRENCE
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        Ok(spec(inputs[1].shape().clone(), inputs[1].dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let op = "recurrence";
        let (a, b) = (inputs[0].contiguous()?, inputs[1].contiguous()?);
        let Recurrence { axis, reverse, cut } = *self;
        let kernel = Scan::Recurrence { axis, reverse, cut };
        launch(op, &kernel, &[&a, &b], specs)
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (g, a, s) = (call.grad(), call.inputs[0], call.output());
        let after = neighbours(a, self.axis, !self.reverse, 0.0)?;
        let back = Recurrence { reverse: !self.reverse, ..*self };
        let u = apply_one(&back, &[&after, g])?;
        call.two(
            || ops::multiply(&u, &neighbours(s, self.axis, self.reverse, 0.0)?),
            || Ok(u.clone()),
        )
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let (a, s) = (call.inputs[0], call.outputs[0]);
        let bent = call.tangents[0]
            .map(|t| ops::multiply(t, &neighbours(s, self.axis, self.reverse, 0.0)?))
            .transpose()?;
        let own = match (bent, call.tangents[1]) {
            (Some(bent), Some(b)) => ops::add(&bent, b)?,
            (Some(bent), None) => bent,
            (None, Some(b)) => b.clone(),
            (None, None) => s.zeros_like()?,
        };
        Ok(smallvec![apply_one(self, &[a, &own])?])
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.whole(Recurrence { axis: self.axis + 1, ..*self })
    }
}
