//! Medians and other quantiles.

// Where they are is found by a kernel that selects; the values are gathered from there, so that they are
// differentiated as what is gathered, and by `q` as what lies between two of them.

use crate::exec::check::Check;
use crate::exec::launch;
use crate::exec::sort::Sorting;
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Specs};
use crate::ops::operation::{apply_one, spec};
use crate::ops::record::{Class, Family, Input, Needs, Record};
use crate::ops::reduction::Group;
use crate::{DType, Error, Over, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::smallvec;

/// What [`quantile`] gives where it falls between two elements `a <= b`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QuantileMethod {
    /// The number as far from `a` to `b` as the quantile is.
    #[default]
    Linear,
    /// `a`.
    Lower,
    /// `b`.
    Higher,
    /// `(a + b)/2`.
    Midpoint,
    /// The nearer one; half way the one whose rank, from 0, is even.
    Nearest,
}

/// For each of `q` the number below which that part of the elements over the axes lies: the element of
/// rank `q·(n − 1)` in ascending order, or what [`QuantileMethod`] says of the two between which that
/// falls. The axes of `q` come first in the result's shape; it is a scalar or any tensor of floats from 0
/// to 1.
///
/// Differentiable by `x`, where the gradient goes to the elements that were chosen, and by `q`. NaN among
/// the elements gives NaN; nothing to choose from is an error. Computed in `f64` and rounded once.
///
/// ```
/// use extensor::ops::{QuantileMethod, quantile};
/// use extensor::tensor;
/// let x = tensor([3.0, 1.0, 2.0, 5.0]);
/// let y = quantile(&x, &tensor([0.25, 0.5]), .., QuantileMethod::Linear)?;
/// assert_eq!(y.to_vec::<f64>()?, [1.75, 2.5]);
/// let y = quantile(&x, &tensor(0.5), .., QuantileMethod::Lower)?;
/// assert_eq!(y.item::<f64>()?, 2.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn quantile(
    x: &Tensor,
    q: &Tensor,
    axis: impl Into<Over>,
    interpolation: QuantileMethod,
) -> Result<Tensor> {
    between("quantile", x, q, &axis.into(), interpolation, false)
}

/// [`quantile`] of the elements that are not NaN; NaN where all are.
///
/// ```
/// use extensor::ops::{QuantileMethod, nanquantile};
/// use extensor::tensor;
/// let x = tensor([3.0, f64::NAN, 1.0]);
/// let y = nanquantile(&x, &tensor(0.5), .., QuantileMethod::Linear)?;
/// assert_eq!(y.item::<f64>()?, 2.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn nanquantile(
    x: &Tensor,
    q: &Tensor,
    axis: impl Into<Over>,
    interpolation: QuantileMethod,
) -> Result<Tensor> {
    between("nanquantile", x, q, &axis.into(), interpolation, true)
}

/// The middle element over the axes in ascending order, the mean of the two middle ones of an even number
/// (as NumPy has it; PyTorch's `median` takes the lower one, which is [`quantile`] with
/// [`QuantileMethod::Lower`]). NaN if there is one; an error over nothing.
///
/// ```
/// use extensor::ops::median;
/// use extensor::tensor;
/// let x = tensor([[3.0, 1.0, 2.0, 5.0], [4.0, 4.0, 9.0, 0.0]]);
/// assert_eq!(median(&x, 1)?.to_vec::<f64>()?, [2.5, 4.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn median(x: &Tensor, axis: impl Into<Over>) -> Result<Tensor> {
    let half = Tensor::scalar_of(0.5, DType::F64)?;
    between("median", x, &half, &axis.into(), QuantileMethod::Midpoint, false)
}

/// [`median`] of the elements that are not NaN; NaN where all are.
///
/// ```
/// use extensor::ops::nanmedian;
/// use extensor::tensor;
/// let x = tensor([3.0, f64::NAN, 1.0]);
/// assert_eq!(nanmedian(&x, ..)?.item::<f64>()?, 2.0);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn nanmedian(x: &Tensor, axis: impl Into<Over>) -> Result<Tensor> {
    let half = Tensor::scalar_of(0.5, DType::F64)?;
    between("nanmedian", x, &half, &axis.into(), QuantileMethod::Midpoint, true)
}

/// The reduced axes last and in one, as `[kept…, n]`.
fn in_rows(x: &Tensor, group: &Group) -> Result<Tensor> {
    let axes = 0..x.ndim();
    let (kept, reduced): (Vec<usize>, Vec<usize>) = axes.partition(|&axis| !group.mask[axis]);
    let sizes = kept.iter().map(|&axis| x.shape()[axis]).chain([group.count]);
    let shape: Shape = sizes.collect();
    let order: Vec<i64> = kept.into_iter().chain(reduced).map(|axis| axis as i64).collect();
    ops::reshape(&ops::transpose(x, &order)?, &shape)
}

#[track_caller]
fn between(
    op: &'static str,
    x: &Tensor,
    q: &Tensor,
    over: &Over,
    interpolation: QuantileMethod,
    skip: bool,
) -> Result<Tensor> {
    x.dtype().expect_float(op, "x")?;
    q.dtype().expect_float(op, "q")?;
    let Over { axes, keepdims } = over;
    let group = Group::new(op, x.shape(), axes)?;
    if group.count == 0 && !group.kept.contains(&0) {
        return Err(Error::Empty { op, shape: x.shape().clone() });
    }
    Check::Shares { parameter: "q" }.on(op, q)?;
    let rows = in_rows(x, &group)?;
    let last = rows.ndim() as i64 - 1;
    let wide = |x: f64| Tensor::scalar_of(x, DType::F64);
    // The ranks that are asked for, the last of all being the number of elements less 1.
    let most = if skip {
        let there = ops::logical_not(&ops::isnan(&rows)?)?;
        let count = ops::sum(&ops::cast(&there, DType::F64)?, crate::over(last).keepdims(true))?;
        ops::maximum(&ops::subtract(&count, &wide(1.0)?)?, &wide(0.0)?)?
    } else {
        wide(group.count.saturating_sub(1) as f64)?
    };
    let count = q.len();
    let mut asked = rows.shape().clone();
    asked.set(last as usize, count);
    let flat = ops::reshape(&ops::cast(q, DType::F64)?, [count])?;
    let rank = ops::broadcast_to(&ops::multiply(&flat, &most)?, &asked)?;
    let at = |ranks: &Tensor| {
        let indices = apply_one(&Ranked { nan: !skip }, &[&rows, ranks])?;
        ops::cast(&ops::gather(&rows, &indices, last)?, DType::F64)
    };
    let y = match interpolation {
        QuantileMethod::Lower => at(&ops::floor(&rank)?)?,
        QuantileMethod::Higher => at(&ops::ceil(&rank)?)?,
        QuantileMethod::Nearest => at(&ops::round(&rank)?)?,
        QuantileMethod::Linear | QuantileMethod::Midpoint => {
            let (lower, upper) = (ops::floor(&rank)?, ops::ceil(&rank)?);
            let both = at(&ops::concatenate(&[&lower, &upper], last)?)?;
            let a = ops::slice(&both, last, None, count as i64, 1)?;
            let b = ops::slice(&both, last, count as i64, None, 1)?;
            let whole = ops::equal(&lower, &upper)?;
            let along = if interpolation == QuantileMethod::Linear {
                ops::subtract(&rank, &lower)?
            } else {
                wide(0.5)?
            };
            ops::where_(&whole, &a, &mixed(&a, &b, &along)?)?
        }
    };
    let y = ops::cast(&y, x.dtype())?;
    // The axes of `q` first.
    let order: Vec<i64> = std::iter::once(last).chain(0..last).collect();
    let kept = group.shape(*keepdims);
    let shape: Shape = q.shape().iter().chain(kept.iter()).copied().collect();
    ops::reshape(&ops::transpose(&y, &order)?, &shape)
}

/// `a + (b − a)·t`: exactly `a` where both are equal; of infinite numbers the two parts by themselves,
/// whose difference is not.
fn mixed(a: &Tensor, b: &Tensor, t: &Tensor) -> Result<Tensor> {
    let apart = ops::subtract(b, a)?;
    let plain = ops::add(a, &ops::multiply(&apart, t)?)?;
    let one = Tensor::scalar_of(1.0, DType::F64)?;
    let rest = ops::multiply(a, &ops::subtract(&one, t)?)?;
    let parts = ops::add(&rest, &ops::multiply(b, t)?)?;
    ops::where_(&ops::isfinite(&apart)?, &plain, &parts)
}

/// For rows and ranks, in `f64`, the positions along the last axis of the elements that have these ranks.
/// Not in the catalogue: what quantiles are found by.
#[derive(Clone, Copy, Debug)]
struct Ranked {
    /// Whether a row with NaN gives the position of its first.
    nan: bool,
}

static RANKED: Record = Record {
    name: "ranked",
    family: Family::Reduction,
    formula: "y = the positions of the elements of these ranks",
    derivative: "none: the result is an index",
    inputs: &[Input::constant("x"), Input::constant("ranks")],
    class: Class::Constant,
    order: 0,
    needs: Needs::Shapes,
    ..Record::BLANK
};

impl Operation for Ranked {
    fn record(&self) -> &'static Record {
        &RANKED
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        Ok(spec(inputs[1].shape().clone(), DType::I64))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let ranks = ops::cast(inputs[1], DType::I64)?.contiguous()?;
        launch(
            "quantile",
            &Sorting::Ranked { nan: self.nan },
            &[&inputs[0].contiguous()?, &ranks],
            specs,
        )
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        Ok(smallvec![None; call.inputs.len()])
    }
}
