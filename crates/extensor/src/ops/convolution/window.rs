//! What all convolutions share: their parameters, the checks, and the calls of the kernels.

use crate::exec::convolve::{Convolution, Pass};
use crate::exec::launch_one;
use crate::ops::batching::{Batch, Batched, Together, View};
use crate::ops::operation::{Backward, Grads, Operation, Spec, Specs, spec};
use crate::ops::params::Params;
use crate::ops::pointwise::promote;
use crate::ops::record::Parameter;
use crate::{DType, Error, Result, Shape, Tensor, ops};
use extensor_kernels::conv::{Axis, Geometry};
use smallvec::{SmallVec, smallvec};

/// How windows slide over images: the parameters of every convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub op: &'static str,
    /// Over how many axes, one to three. Numbers are given for three, of which the last are meant.
    pub axes: usize,
    pub stride: [i64; 3],
    pub padding: [i64; 3],
    pub dilation: [i64; 3],
    pub groups: i64,
    /// For a transposed convolution: elements more at the end.
    pub output_padding: Option<[i64; 3]>,
}

/// Numbers by name, one for all axes or one for each of the last `axes`.
pub(super) fn numbers(
    params: &Params,
    op: &'static str,
    axes: usize,
    name: &'static str,
    default: i64,
) -> Result<[i64; 3]> {
    match params.optional_ints(op, name)?.as_deref() {
        None => Ok([default; 3]),
        Some(&[all]) => Ok([all; 3]),
        Some(each) if each.len() == axes => {
            let mut all = [default; 3];
            all[3 - axes..].copy_from_slice(each);
            Ok(all)
        }
        Some(other) => {
            let expected = ["one number", "one number or two", "one number or three"][axes - 1];
            let got = format!("{other:?}");
            Err(Error::Parameter { op, parameter: name, expected: expected.into(), got })
        }
    }
}

/// The parameters that all convolutions take.
pub(super) const PARAMS: &[Parameter] = &[
    Parameter { name: "stride", what: "a number or one for each axis", default: Some("1") },
    Parameter { name: "padding", what: "a number or one for each axis", default: Some("0") },
    Parameter { name: "dilation", what: "a number or one for each axis", default: Some("1") },
    Parameter { name: "groups", what: "a number that divides both channels", default: Some("1") },
];

/// Shape and dtype of a convolution's output, and where its windows lie.
struct Inferred {
    geometry: Geometry,
    spec: Spec,
}

impl Window {
    /// The window over `axes` axes with parameters by name.
    pub(super) fn named(op: &'static str, axes: usize, params: &Params) -> Result<Window> {
        let numbers = |name, default| numbers(params, op, axes, name, default);
        Ok(Window {
            op,
            axes,
            stride: numbers("stride", 1)?,
            padding: numbers("padding", 0)?,
            dilation: numbers("dilation", 1)?,
            groups: params.optional_int(op, "groups")?.unwrap_or(1),
            output_padding: None,
        })
    }

    /// Likewise of a transposed convolution.
    pub(super) fn transposed(op: &'static str, axes: usize, params: &Params) -> Result<Window> {
        let more = numbers(params, op, axes, "output_padding", 0)?;
        Ok(Window { output_padding: Some(more), ..Window::named(op, axes, params)? })
    }

    /// A parameter as sizes, each at least `least`.
    fn sizes(&self, parameter: &'static str, values: [i64; 3], least: usize) -> Result<[usize; 3]> {
        let mut sizes = [least; 3];
        let own = &values[3 - self.axes..];
        for (size, &value) in sizes[3 - self.axes..].iter_mut().zip(own) {
            *size = match usize::try_from(value) {
                Ok(value) if value >= least => value,
                _ => {
                    let expected = format!("at least {least}");
                    let same = own.iter().all(|&other| other == own[0]);
                    let got = if same { own[0].to_string() } else { format!("{own:?}") };
                    return Err(Error::Parameter { op: self.op, parameter, expected, got });
                }
            };
        }
        Ok(sizes)
    }

    fn shape_error<T>(&self, argument: &'static str, x: &Tensor, expected: String) -> Result<T> {
        Err(Error::Shape { op: self.op, argument, expected, got: x.shape().clone() })
    }

    /// Checks a call.
    fn check(&self, inputs: &[&Tensor]) -> Result<Inferred> {
        let (op, axes) = (self.op, self.axes);
        let [x, weight] = [inputs[0], inputs[1]];
        x.dtype().expect_float(op, "x")?;
        weight.dtype().expect_float(op, "weight")?;
        let mut dtype = promote(op, x, weight)?;
        let stride = self.sizes("stride", self.stride, 1)?;
        let padding = self.sizes("padding", self.padding, 0)?;
        let dilation = self.sizes("dilation", self.dilation, 1)?;
        let [.., groups] = self.sizes("groups", [self.groups; 3], 1)?;
        let space = ["length", "height, width", "depth, height, width"][axes - 1];
        if x.ndim() != axes + 2 {
            return self.shape_error("x", x, format!("[images, channels, {space}]"));
        }
        let (images, channels) = (x.shape()[0], x.shape()[1]);
        if !channels.is_multiple_of(groups) {
            let expected = format!("a divisor of the {channels} channels of x");
            let got = groups.to_string();
            return Err(Error::Parameter { op, parameter: "groups", expected, got });
        }
        let transposed = self.output_padding.is_some();
        let (first, second) =
            if transposed { (Some(channels), None) } else { (None, Some(channels / groups)) };
        let name = |size: Option<usize>, name: &str| {
            size.map_or_else(|| name.to_string(), |size| size.to_string())
        };
        let is = |size: Option<usize>, axis: usize| size.is_none_or(|s| weight.shape()[axis] == s);
        let expected = || {
            let kernel = [
                "kernel",
                "kernel height, kernel width",
                "kernel depth, kernel height, kernel width",
            ][axes - 1];
            let out = if transposed { "out / groups" } else { "out" };
            format!("[{}, {}, {kernel}]", name(first, "out"), name(second, out))
        };
        if weight.ndim() != axes + 2 || !is(first, 0) || !is(second, 1) {
            return self.shape_error("weight", weight, expected());
        }
        if weight.shape()[2..].contains(&0) {
            let expected = "a kernel of at least one element".into();
            return self.shape_error("weight", weight, expected);
        }
        let out = weight.shape()[0];
        if !transposed && !out.is_multiple_of(groups) {
            let expected = format!("a divisor of the {out} filters of weight");
            let got = groups.to_string();
            return Err(Error::Parameter { op, parameter: "groups", expected, got });
        }
        let out = if transposed {
            let too_large = || Error::Overflow { op, shape: weight.shape().clone() };
            weight.shape()[1].checked_mul(groups).ok_or_else(too_large)?
        } else {
            out
        };
        if let Some(bias) = inputs.get(2) {
            bias.dtype().expect_float(op, "bias")?;
            let b = bias.dtype();
            dtype = dtype.promote(b).ok_or(Error::MixedDTypes { op, a: dtype, b })?;
            if *bias.shape() != [out] {
                return self.shape_error("bias", bias, format!("[{out}]"));
            }
        }
        let more = match self.output_padding {
            Some(more) => self.more(more, stride, dilation)?,
            None => [0; 3],
        };
        // Images of fewer axes are of depth and height 1.
        let along = |axis: usize| {
            let Some(at) = (axis + axes).checked_sub(3) else { return Ok(Axis::SINGLE) };
            let (size, kernel) = (x.shape()[2 + at], weight.shape()[2 + at]);
            let (stride, padding, dilation) = (stride[axis], padding[axis], dilation[axis]);
            if transposed {
                let more = more[axis];
                return self.under(
                    x,
                    Axis::under(size, kernel, stride, padding, dilation, more),
                    size,
                );
            }
            self.over(x, Axis::over(size, kernel, stride, padding, dilation))
        };
        let all = [along(0)?, along(1)?, along(2)?];
        let mut shape = Shape::from([images, out]);
        for axis in &all[3 - axes..] {
            shape.push(if transposed { axis.input } else { axis.output });
        }
        shape.count(op)?;
        let (channels, filters) = if transposed { (out, channels) } else { (channels, out) };
        let (channels, filters) = (channels / groups, filters / groups);
        let [z, y, x] = all;
        let geometry = Geometry { images, groups, channels, filters, z, y, x };
        Ok(Inferred { geometry, spec: Spec { shape, dtype } })
    }

    /// The axis, if a window fits on it.
    fn over(&self, x: &Tensor, axis: Option<Axis>) -> Result<Axis> {
        match axis {
            Some(axis) if axis.output > 0 => Ok(axis),
            Some(Axis { input, kernel, dilation, padding, .. }) => {
                let least = (kernel - 1) * dilation + 1;
                let expected = format!(
                    "at least {least} elements along each axis for a kernel of {kernel}, where \
                     padding makes {} of {input}",
                    input + 2 * padding
                );
                self.shape_error("x", x, expected)
            }
            None => self.too_large(),
        }
    }

    /// The axis of a transposed convolution's output, if it has elements.
    fn under(&self, x: &Tensor, axis: Option<Axis>, size: usize) -> Result<Axis> {
        match axis {
            Some(axis) if axis.input > 0 && size > 0 => Ok(axis),
            Some(_) => self.shape_error("x", x, "images that become at least one element".into()),
            None if [self.padding, self.stride, self.dilation]
                .iter()
                .flatten()
                .all(|&n| n < 1 << 40) =>
            {
                let expected = "images that padding leaves at least one element of".into();
                self.shape_error("x", x, expected)
            }
            None => self.too_large(),
        }
    }

    fn too_large<T>(&self) -> Result<T> {
        let expected = "sizes that can be computed with".into();
        let [stride, padding, dilation] =
            [&self.stride, &self.padding, &self.dilation].map(|all| &all[3 - self.axes..]);
        let got = format!("{stride:?}, padding {padding:?}, dilation {dilation:?}");
        Err(Error::Parameter { op: self.op, parameter: "stride", expected, got })
    }

    /// The elements that a transposed convolution has more at the end.
    fn more(&self, more: [i64; 3], stride: [usize; 3], dilation: [usize; 3]) -> Result<[usize; 3]> {
        let sizes = self.sizes("output_padding", more, 0)?;
        for axis in 3 - self.axes..3 {
            if sizes[axis] >= stride[axis].max(dilation[axis]) {
                let (op, parameter) = (self.op, "output_padding");
                let expected = "less than the stride or the dilation".into();
                let got = format!("{:?}", &more[3 - self.axes..]);
                return Err(Error::Parameter { op, parameter, expected, got });
            }
        }
        Ok(sizes)
    }

    pub(super) fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let Spec { shape, dtype } = self.check(inputs)?.spec;
        Ok(spec(shape, dtype))
    }

    /// The convolution of a batch of examples. Where weights differ, each example is more groups of
    /// channels.
    pub(super) fn batch(
        &self,
        call: &Batch<'_>,
        make: impl Fn(Window) -> Box<dyn Operation>,
    ) -> Batched {
        let mut inputs: SmallVec<[View; 4]> = smallvec![View::merged(0); call.inputs.len()];
        if call.mapped[0] && !call.mapped[1..].contains(&true) {
            inputs[1..].fill(View::default());
            return Batched::Call(Together {
                op: make(*self),
                inputs,
                outputs: smallvec![View::merged(0)],
            });
        }
        // One image beside the filters of all examples: their filters are more of them.
        let shared = !call.mapped[0] && self.groups == 1 && self.output_padding.is_none();
        inputs[0] = if shared { View::default() } else { View::merged(1) };
        let more = if shared { 1 } else { i64::try_from(call.size).unwrap_or(i64::MAX) };
        let window = Window { groups: self.groups.saturating_mul(more), ..*self };
        Batched::Call(Together { op: make(window), inputs, outputs: smallvec![View::merged(1)] })
    }

    /// The output, for inputs that [`infer`](Self::infer) has accepted.
    pub(super) fn forward(&self, inputs: &[&Tensor]) -> Result<Tensor> {
        let Inferred { geometry, spec } = self.check(inputs)?;
        let [x, weight] = [ready(inputs[0], spec.dtype)?, ready(inputs[1], spec.dtype)?];
        let bias = inputs.get(2).map(|bias| ready(bias, spec.dtype)).transpose()?;
        if self.output_padding.is_some() {
            scatter(self.op, &geometry, &x, &weight, bias.as_ref(), spec)
        } else {
            slide(self.op, &geometry, &x, &weight, bias.as_ref(), spec)
        }
    }

    /// The gradients that are wanted.
    pub(super) fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let Inferred { geometry, spec } = self.check(call.inputs)?;
        let (op, dtype, transposed) = (self.op, spec.dtype, self.output_padding.is_some());
        let [x, weight] = [call.inputs[0], call.inputs[1]];
        let mut grads: Grads = SmallVec::from_elem(None, call.inputs.len());
        let g = ready(call.grad(), dtype)?;
        let like = |x: &Tensor| Spec { shape: x.shape().clone(), dtype };
        if call.wanted[0] {
            let weight = ready(weight, dtype)?;
            grads[0] = Some(if transposed {
                slide(op, &geometry, &g, &weight, None, like(x))?
            } else {
                scatter(op, &geometry, &g, &weight, None, like(x))?
            });
        }
        if call.wanted[1] {
            let x = ready(x, dtype)?;
            // A transposed convolution's input is what its windows' positions hold.
            let (positions, images) = if transposed { (&x, &g) } else { (&g, &x) };
            grads[1] = Some(weigh(op, &geometry, positions, images, like(weight))?);
        }
        if call.wanted.get(2) == Some(&true) {
            let axes: Vec<i64> = (0..g.ndim() as i64).filter(|&axis| axis != 1).collect();
            grads[2] = Some(ops::sum(&g, &axes[..])?);
        }
        Ok(grads)
    }
}

/// The tensor in `dtype`, row by row.
fn ready(x: &Tensor, dtype: DType) -> Result<Tensor> {
    ops::cast(x, dtype)?.contiguous()
}

/// The convolution of `x`.
fn slide(
    op: &'static str,
    geometry: &Geometry,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    spec: Spec,
) -> Result<Tensor> {
    let pass = Pass::Forward { bias: bias.is_some() };
    convolve(op, pass, geometry, [x, weight], bias, spec)
}

/// The gradient for the input of a convolution; also the transposed convolution of `grad`.
fn scatter(
    op: &'static str,
    geometry: &Geometry,
    grad: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    spec: Spec,
) -> Result<Tensor> {
    let pass = Pass::Images { bias: bias.is_some() };
    convolve(op, pass, geometry, [grad, weight], bias, spec)
}

/// The gradient for the weight of a convolution.
fn weigh(
    op: &'static str,
    geometry: &Geometry,
    grad: &Tensor,
    x: &Tensor,
    spec: Spec,
) -> Result<Tensor> {
    convolve(op, Pass::Weights, geometry, [grad, x], None, spec)
}

/// One of the three, of tensors that are [`ready`].
fn convolve(
    op: &'static str,
    pass: Pass,
    geometry: &Geometry,
    [first, second]: [&Tensor; 2],
    bias: Option<&Tensor>,
    spec: Spec,
) -> Result<Tensor> {
    let kernel = Convolution { pass, geometry: *geometry };
    let inputs: SmallVec<[&Tensor; 3]> = [first, second].into_iter().chain(bias).collect();
    launch_one(op, &kernel, &inputs, spec)
}
