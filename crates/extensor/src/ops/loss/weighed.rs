//! Cross entropy whose classes have weights, or some of whose targets do not count.
//!
//! Of class indices that are not smoothed each row is the plain loss times a factor. All others are rows of targets
//! like any: `m = w·((1 − smoothing)·t + smoothing/C)`, whose sum is not 1.

use super::cross_entropy::{CrossEntropy, class_axis, classes_back, classes_last, rest};
use super::weighing::{Counted, reduced};
use super::*;
use crate::exec::classes::{ClassGradient, ClassLosses, Classes};
use crate::ops::operation::Forward;
use crate::ops::reduction::wide;
use crate::{ops, over};

const OP: &str = "cross_entropy";

/// What the rows should be, and what they weigh.
struct Weighed {
    /// The classes' numbers, or `m`, rows by classes, lying together.
    targets: Tensor,
    /// What rows are multiplied by, for class indices.
    factor: Option<Counted>,
    /// Whether they are `m`.
    dense: bool,
    /// What a mean divides by.
    whole: Tensor,
}

impl CrossEntropy {
    /// Whether rows are not all alike.
    pub(super) fn weighs(self, inputs: &[&Tensor]) -> bool {
        inputs.len() > 2 || self.ignore.is_some()
    }

    fn weighed(self, inputs: &[&Tensor], dtype: DType) -> Result<Weighed> {
        let (x, targets, weight) = (inputs[0], inputs[1], inputs.get(2).copied());
        let (classes, losses) = (x.shape()[class_axis(x)], rest(x.shape()));
        if targets.dtype().is_float() {
            let whole = Tensor::scalar_of(Reduce::Mean.divisor(&losses), dtype)?;
            let targets = self.mixed(&classes_last(&ops::cast(targets, dtype)?)?, weight)?;
            return Ok(Weighed {
                targets: targets.contiguous()?,
                factor: None,
                dense: true,
                whole,
            });
        }
        let counted = Counted::new(OP, targets, (weight, self.ignore), classes, dtype)?;
        let whole = counted.whole(&losses, dtype)?;
        if self.smoothing == 0.0 || weight.is_none() {
            let targets = counted.classes.clone();
            return Ok(Weighed { targets, factor: Some(counted), dense: false, whole });
        }
        let rows = self.mixed(&ops::one_hot(&counted.classes, classes as i64, dtype)?, weight)?;
        // The classes' weights are in the rows; left is which of these do not count.
        let kept = Counted::new(OP, targets, (None, self.ignore), classes, dtype)?;
        Ok(Weighed { targets: rows.contiguous()?, factor: Some(kept), dense: true, whole })
    }

    /// `w·((1 − smoothing)·t + smoothing/C)` for targets with classes last.
    fn mixed(self, t: &Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
        let classes = t.shape().last().copied().unwrap_or(0).max(1);
        let number = |v: f64| Tensor::scalar_of(v, t.dtype());
        let mut mixed = t.clone();
        if self.smoothing != 0.0 {
            let kept = ops::multiply(t, &number(1.0 - self.smoothing)?)?;
            mixed = ops::add(&kept, &number(self.smoothing / classes as f64)?)?;
        }
        match weight {
            Some(weight) => ops::multiply(&mixed, &ops::cast(weight, t.dtype())?),
            None => Ok(mixed),
        }
    }

    /// The kernel for rows that are not reduced.
    fn rows_alone(self, x: &Tensor, dense: bool) -> Result<Classes> {
        let rows = rest(x.shape()).count(OP)?;
        let smoothing = if dense { 0.0 } else { self.smoothing };
        let classes = x.shape()[class_axis(x)];
        Ok(Classes { op: OP, rows, classes, smoothing, divisor: None })
    }

    pub(super) fn forward_weighed(self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let (x, dtype) = (inputs[0], specs[0].dtype);
        let between = wide(dtype);
        let Weighed { targets, factor, dense, whole } = self.weighed(inputs, between)?;
        let rows = classes_last(&ops::cast(x, between)?)?.contiguous()?;
        let kernel = ClassLosses(self.rows_alone(x, dense)?);
        let losses = Spec { shape: rest(x.shape()), dtype: between };
        let mut losses = launch_one(OP, &kernel, &[&rows, &targets], losses)?;
        if let Some(counted) = &factor {
            losses = counted.times_factor(&losses)?;
        }
        Ok(smallvec![ops::cast(&reduced(&losses, &whole, self.reduction)?, dtype)?])
    }

    pub(super) fn backward_weighed(self, call: &Backward<'_>) -> Result<Grads> {
        let (x, dtype) = (call.inputs[0], call.grad().dtype());
        let between = wide(dtype);
        let Weighed { targets, factor, dense, whole } = self.weighed(call.inputs, between)?;
        let rows = classes_last(&ops::cast(x, between)?)?.contiguous()?;
        let losses = rest(x.shape());
        let mut g = ops::cast(call.grad(), between)?;
        if self.reduction == Reduce::Mean {
            g = ops::divide(&g, &whole)?;
        }
        g = ops::broadcast_to(&g, &losses)?;
        if let Some(counted) = &factor {
            g = counted.times_factor(&g)?;
        }
        let g = g.contiguous()?;
        let of = self.rows_alone(x, dense)?;
        let gradient = |by_targets: bool| {
            let kernel = ClassGradient { of, by_targets };
            let spec = Spec { shape: rows.shape().clone(), dtype: between };
            launch_one("cross_entropy_backward", &kernel, &[&g, &rows, &targets], spec)
        };
        let mut grads: Grads = smallvec![None; call.inputs.len()];
        if call.wanted[0] {
            grads[0] = Some(ops::cast(&classes_back(&gradient(false)?)?, dtype)?);
        }
        if call.wanted[1] {
            // The rows' targets move by so much for the caller's.
            let kept = Tensor::scalar_of(1.0 - self.smoothing, between)?;
            let mut dt = ops::multiply(&gradient(true)?, &kept)?;
            if let Some(weight) = call.inputs.get(2) {
                dt = weighty(&dt, &ops::cast(weight, between)?)?;
            }
            grads[1] = Some(ops::cast(&classes_back(&dt)?, dtype)?);
        }
        Ok(grads)
    }

    pub(super) fn derivative_weighed(self, call: &Forward<'_>) -> Result<Outputs> {
        let (x, targets, weight) = (call.inputs[0], call.inputs[1], call.inputs.get(2).copied());
        let dtype = call.outputs[0].dtype();
        let classes = x.shape()[class_axis(x)];
        let rows = classes_last(&ops::cast(x, dtype)?)?;
        let losses = rest(x.shape());
        let (m, whole) = if targets.dtype().is_float() {
            let whole = Tensor::scalar_of(Reduce::Mean.divisor(&losses), dtype)?;
            (self.mixed(&classes_last(&ops::cast(targets, dtype)?)?, weight)?, whole)
        } else {
            let weights = (weight, self.ignore);
            let counted = Counted::new(OP, targets, weights, classes, dtype)?;
            let plain = Counted::new(OP, targets, (None, self.ignore), classes, dtype)?;
            let m = self.mixed(&ops::one_hot(&counted.classes, classes as i64, dtype)?, weight)?;
            let m = match &plain.factor {
                Some(kept) => ops::multiply(&m, &ops::expand_dims(kept, -1)?)?,
                None => m,
            };
            (m, counted.whole(&losses, dtype)?)
        };
        let mut moved: Option<Tensor> = None;
        if let Some(dx) = call.tangents[0] {
            let sum = ops::sum(&m, over(-1).keepdims(true))?;
            let pull = ops::subtract(&ops::multiply(&ops::softmax(&rows, -1)?, &sum)?, &m)?;
            moved = Some(ops::multiply(&pull, &classes_last(&ops::cast(dx, dtype)?)?)?);
        }
        if let Some(dt) = call.tangents[1] {
            let mut dm = classes_last(&ops::cast(dt, dtype)?)?;
            dm = ops::multiply(&dm, &Tensor::scalar_of(self.smoothing - 1.0, dtype)?)?;
            if let Some(weight) = weight {
                dm = ops::multiply(&dm, &ops::cast(weight, dtype)?)?;
            }
            let part = weighty(&ops::log_softmax(&rows, -1)?, &dm)?;
            moved = Some(match moved {
                Some(sum) => ops::add(&sum, &part)?,
                None => part,
            });
        }
        let Some(moved) = moved else {
            return Ok(smallvec![call.outputs[0].zeros_like()?]);
        };
        Ok(smallvec![reduced(&ops::sum(&moved, -1)?, &whole, self.reduction)?])
    }
}

/// `x·w`, and nothing where the weight is 0: a class that cannot be has an infinite loss, of which nothing moves nothing.
fn weighty(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let zero = Tensor::scalar_of(0.0, w.dtype())?;
    let none = ops::logical_and(&ops::isinf(x)?, &ops::equal(w, &zero)?)?;
    ops::where_(&none, &zero, &ops::multiply(x, w)?)
}

pub(super) fn samples(s: &mut Sampler) {
    let shapes: [&[usize]; 4] = [&[5, 4], &[4], &[3, 5, 2], &[2, 3, 2, 2]];
    for (i, shape) in shapes.into_iter().enumerate() {
        let losses = rest(&Shape::from(shape));
        let classes = shape[usize::from(shape.len() > 1)];
        for (j, reduction) in [Reduce::None, Reduce::Mean, Reduce::Sum].into_iter().enumerate() {
            let smoothing = if (i + j) % 2 == 0 { 0.0 } else { 0.1 };
            let params = || reduction.params().with("label_smoothing", smoothing);
            let weight = s.uniform(0.2, 2.0, &[classes]);
            let (x, k) = (s.normal(shape), s.integers(classes as u64, &losses));
            s.add([x.clone(), k.clone(), weight.clone()], params());
            // The class that does not count is there, in most.
            s.add([x.clone(), k.clone()], params().with("ignore_index", 1));
            s.add([x.clone(), k, weight.clone()], params().with("ignore_index", 0));
            let t = s.uniform(0.0, 1.0, shape);
            s.add([x, t, weight], params());
        }
    }
    let (x, k) = (s.normal(&[4, 3]), crate::tensor([2i64, -100, 0, -100]));
    let some = Params::new().with("ignore_index", -100);
    s.add_noted([x, k], some, "some do not count");
}

pub(super) fn bad_weights(bad: &mut Bad) {
    let x = bad.ones(&[2, 3], DType::F64);
    let (k, none) = (crate::tensor([0i64, 1]), Params::new);
    let short = bad.ones(&[2], DType::F64);
    bad.add([x.clone(), k.clone(), short], none(), "weight has shape [2], expected [3]");
    let whole = bad.ones(&[3], DType::I64);
    let message = "weight has dtype i64, expected a float type";
    bad.add([x.clone(), k, whole], none(), message);
    let some = none().with("ignore_index", -100);
    let message = "ignore_index is Some(-100), expected None for targets that are probabilities";
    bad.add([x.clone(), x.clone()], some.clone(), message);
    let beyond = crate::tensor([-100i64, -1]);
    bad.add([x, beyond], some, "class index -1 is out of range for 3 classes");
}
