//! What classes weigh, and which targets do not count. Rows of a loss are multiplied by a factor each, and a mean divides by
//! the sum of these.

use super::Reduce;
use crate::exec::check::Check;
use crate::ops::options::options;
use crate::ops::params::Params;
use crate::ops::record::{Input, Parameter};
use crate::{DType, Error, Result, Shape, Tensor, ops};

/// The weight of each class.
pub(super) const WEIGHT: Input = Input::optional_constant("weight");

/// A class that does not count.
pub(super) const IGNORE_INDEX: Parameter = Parameter {
    name: "ignore_index",
    what: "targets that do not count; None if all do",
    default: Some("None"),
};

options! {
    /// The options of [`nll_loss`](super::nll_loss()).
    pub struct NllOptions<'a> {
        /// What the losses of each class are multiplied by, `[C]`: a mean divides by the sum of the weights of what
        /// counts.
        weight: Option<&'a Tensor> = None,
        /// Targets that do not count.
        ignore_index: Option<i64> = None,
        /// What becomes of the losses of all rows.
        reduction: Reduce = Reduce::Mean,
    }
}

impl From<Reduce> for NllOptions<'_> {
    fn from(reduction: Reduce) -> Self {
        NllOptions { reduction, ..NllOptions::default() }
    }
}

/// The parameter `ignore_index`.
pub(super) fn ignored(params: &Params, op: &'static str) -> Result<Option<i64>> {
    params.optional_int(op, "ignore_index")
}

/// An error unless there is a weight for each class, in a float dtype; the dtype that both have in common.
pub(super) fn infer(
    op: &'static str,
    weight: Option<&&Tensor>,
    classes: usize,
    dtype: DType,
) -> Result<DType> {
    let Some(weight) = weight else { return Ok(dtype) };
    weight.dtype().expect_float(op, "weight")?;
    if *weight.shape() != [classes] {
        let (expected, got) = (Shape::from([classes]).to_string(), weight.shape().clone());
        return Err(Error::Shape { op, argument: "weight", expected, got });
    }
    let (a, b) = (dtype, weight.dtype());
    a.promote(b).ok_or(Error::MixedDTypes { op, a, b })
}

/// Class indices as they are computed with.
pub(super) struct Counted {
    /// The classes, in range, as `i64` or `u64`; 0 for those that do not count.
    pub classes: Tensor,
    /// Those that do not count.
    ignored: Option<Tensor>,
    /// What each row is multiplied by, in the dtype that is computed in; `None`: 1.
    pub factor: Option<Tensor>,
}

impl Counted {
    /// Of targets that are among so many classes, or are `ignore`.
    pub fn new(
        op: &'static str,
        targets: &Tensor,
        (weight, ignore): (Option<&Tensor>, Option<i64>),
        classes: usize,
        dtype: DType,
    ) -> Result<Counted> {
        let unsigned = targets.dtype() == DType::U64;
        let targets = if unsigned { targets.clone() } else { ops::cast(targets, DType::I64)? };
        let number = |k: i64| match (unsigned, u64::try_from(k)) {
            (true, Ok(k)) => Some(Tensor::scalar(k)),
            (true, Err(_)) => None,
            (false, _) => Some(Tensor::scalar(k)),
        };
        let ignored = ignore.and_then(number).map(|k| ops::equal(&targets, &k)).transpose()?;
        let classes_of = match (&ignored, number(0)) {
            (Some(ignored), Some(zero)) => ops::where_(ignored, &zero, &targets)?,
            _ => targets,
        };
        let found = classes_of.contiguous()?;
        // Where nothing counts there need be no class.
        if ignored.is_none() || classes > 0 {
            Check::Classes { classes }.on(op, &found)?;
        }
        let mut factor = None;
        if let Some(weight) = weight {
            factor = Some(ops::take(&ops::cast(weight, dtype)?, &found, 0)?);
        }
        if let Some(ignored) = &ignored {
            let [zero, one] = [0.0, 1.0].map(|v| Tensor::scalar_of(v, dtype));
            factor = Some(ops::where_(ignored, &zero?, &factor.map_or(one, Ok)?)?);
        }
        Ok(Counted { classes: found, ignored, factor })
    }

    /// Losses of rows times their factors; 0 for those that do not count, whatever they are.
    pub fn times_factor(&self, losses: &Tensor) -> Result<Tensor> {
        let Some(factor) = &self.factor else { return Ok(losses.clone()) };
        let product = ops::multiply(losses, factor)?;
        match &self.ignored {
            Some(ignored) => {
                ops::where_(ignored, &Tensor::scalar_of(0.0, product.dtype())?, &product)
            }
            None => Ok(product),
        }
    }

    /// What a mean of losses of this shape divides by.
    pub fn whole(&self, shape: &Shape, dtype: DType) -> Result<Tensor> {
        match &self.factor {
            Some(factor) => ops::sum(factor, ..),
            None => Tensor::scalar_of(Reduce::Mean.divisor(shape), dtype),
        }
    }

    /// What each row's loss is multiplied by on the way to the result, with the output's gradient `g`.
    pub fn pull(&self, g: &Tensor, reduction: Reduce, shape: &Shape) -> Result<Tensor> {
        let g = match reduction {
            Reduce::Mean => ops::divide(g, &self.whole(shape, g.dtype())?)?,
            _ => g.clone(),
        };
        self.times_factor(&ops::broadcast_to(&g, shape)?)
    }
}

/// Losses of rows, weighed, in one.
pub(super) fn reduced(losses: &Tensor, whole: &Tensor, reduction: Reduce) -> Result<Tensor> {
    match reduction {
        Reduce::None => Ok(losses.clone()),
        Reduce::Mean => ops::divide(&ops::sum(losses, ..)?, whole),
        Reduce::Sum | Reduce::BatchMean => ops::sum(losses, ..),
    }
}
