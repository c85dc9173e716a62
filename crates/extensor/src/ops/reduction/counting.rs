//! How often numbers are there, and how many fall into which interval.

use crate::exec::check::Check;
use crate::ops::options::options;
use crate::ops::shape::expect_index;
use crate::{DType, Error, Result, Shape, Tensor, ops};
use extensor_derive::method;

options! {
    /// The options of [`bincount`].
    pub struct BincountOptions<'a> {
        /// What each number counts, of the shape of the numbers; 1 if it is not given.
        weights: Option<&'a Tensor> = None,
        /// How many counts there are; if it is not given, one more than the largest number.
        length: Option<usize> = None,
    }
    exactly {
        /// How many counts there are at least.
        minlength: usize = 0,
    }
}

/// How often each of the numbers 0, 1, 2, … is in `x`, whole numbers that are not negative: as `i64`, or as
/// the sums of `weights`, by which it can be differentiated.
///
/// How many counts there are depends on the numbers, so that it cannot be compiled, unless `length` says it:
/// then a number that is not below it is an error.
///
/// ```
/// use extensor::ops::{BincountOptions, bincount};
/// use extensor::tensor;
/// let x = tensor([1, 0, 3, 1]);
/// assert_eq!(bincount(&x, BincountOptions::new())?.to_vec::<i64>()?, [1, 2, 0, 1]);
/// let weights = tensor([0.5, 1.0, 2.0, 0.25]);
/// let y = bincount(&x, BincountOptions::new().weights(&weights).length(5))?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 0.75, 0.0, 2.0, 0.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn bincount<'a>(x: &Tensor, options: BincountOptions<'a>) -> Result<Tensor> {
    let (op, BincountOptions { weights, length, minlength }) = ("bincount", options);
    expect_index(op, x)?;
    let flat = ops::reshape(x, [x.len()])?;
    let length = match length {
        Some(length) => length.max(minlength),
        None if x.is_empty() => minlength,
        None => {
            let most = ops::cast(&ops::max_reduce(flat.primal().plain(op)?, ..)?, DType::I64)?;
            usize::try_from(most.item::<i64>()?).map_or(minlength, |most| minlength.max(most + 1))
        }
    };
    counted(op, &flat, weights, length)
}

/// The sums of the weights of what is at each position.
fn counted(
    op: &'static str,
    flat: &Tensor,
    weights: Option<&Tensor>,
    length: usize,
) -> Result<Tensor> {
    let weights = match weights {
        Some(weights) if weights.len() != flat.len() => {
            let (argument, expected) = ("weights", format!("{} elements", flat.len()));
            return Err(Error::Shape { op, argument, expected, got: weights.shape().clone() });
        }
        Some(weights) => ops::reshape(weights, [flat.len()])?,
        None => Tensor::constant(1.0, flat.shape(), DType::I64)?,
    };
    ops::scatter_add(&Tensor::zeros([length], weights.dtype())?, flat, &weights, 0)
}

options! {
    /// The options of [`histogram`].
    pub struct HistogramOptions<'a> {
        /// The intervals' ends, in ascending order; they stand for `bins` and `range`.
        edges: Option<&'a Tensor> = None,
        /// Where the first interval begins and the last ends; if it is not given, at the smallest and the
        /// largest number.
        range: Option<[f64; 2]> = None,
        /// What each number counts, of the shape of the numbers; 1 if it is not given.
        weights: Option<&'a Tensor> = None,
    }
    exactly {
        /// How many intervals there are.
        bins: usize = 10,
    }
}

/// How many of the floats of `x` are in each of `bins` intervals of one size, as `i64` or as the sums of
/// `weights`, and the intervals' ends. A number is in the interval that it begins; the last one has its end
/// too. What is outside of all, and NaN, is not counted.
///
/// Without a range the smallest and largest number are its ends, which must be finite; if they are equal, the
/// range is 1 wide around them, as in NumPy. The counts can be differentiated by the weights.
///
/// ```
/// use extensor::ops::{HistogramOptions, histogram};
/// use extensor::tensor;
/// let x = tensor([1.0, 2.0, 1.5, 4.0, 9.0]);
/// let (counts, edges) = histogram(&x, HistogramOptions::new().bins(4).range([0.0, 4.0]))?;
/// assert_eq!(counts.to_vec::<i64>()?, [0, 2, 1, 1]);
/// assert_eq!(edges.to_vec::<f64>()?, [0.0, 1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn histogram<'a>(x: &Tensor, options: HistogramOptions<'a>) -> Result<(Tensor, Tensor)> {
    let (op, HistogramOptions { edges, range, weights, bins }) = ("histogram", options);
    x.dtype().expect_float(op, "x")?;
    let x = crate::autodiff::stop_gradient(&ops::reshape(x, [x.len()])?);
    let edges = match edges {
        Some(edges) => crate::autodiff::stop_gradient(edges),
        None => spaced(op, &x, bins, range)?,
    };
    if edges.ndim() != 1 || edges.len() < 2 {
        let (argument, expected) = ("edges", "one axis of at least two numbers".into());
        return Err(Error::Shape { op, argument, expected, got: edges.shape().clone() });
    }
    let bins = edges.len() - 1;
    let whole = |k: usize| ops::reshape(&Tensor::whole_numbers(op, 1, |_| k as i64)?, [0i64; 0]);
    let (zero, one, all) = (whole(0)?, whole(1)?, whole(bins)?);
    let begun = ops::searchsorted(&edges, &x, ops::Side::Right)?;
    let last = ops::equal(&x, &ops::slice(&edges, 0, -1, None, 1)?)?;
    let at = ops::where_(&last, &all, &begun)?;
    // What is outside is counted beside the intervals, and left out.
    let at = ops::where_(&ops::equal(&at, &zero)?, &whole(bins + 1)?, &at)?;
    let counts = counted(op, &ops::subtract(&at, &one)?, weights, bins + 1)?;
    Ok((ops::slice(&counts, 0, None, bins as i64, 1)?, edges))
}

/// The ends of `bins` intervals of one size.
fn spaced(op: &'static str, x: &Tensor, bins: usize, range: Option<[f64; 2]>) -> Result<Tensor> {
    let dtype = x.dtype();
    let bad = |parameter: &'static str, expected: &str, got: String| {
        Err(Error::Parameter { op, parameter, expected: expected.into(), got })
    };
    if bins == 0 {
        return bad("bins", "at least 1", "0".into());
    }
    if let Some([low, high]) = range
        && !(low.is_finite() && high.is_finite() && low <= high)
    {
        return bad("range", "finite numbers in ascending order", format!("[{low:?}, {high:?}]"));
    }
    let number = |x: f64| Tensor::scalar_of(x, DType::F64);
    let [low, high] = match range {
        Some(range) => [number(range[0])?, number(range[1])?],
        None if x.is_empty() => [number(0.0)?, number(1.0)?],
        None => {
            let wide = ops::cast(x, DType::F64)?;
            let ends = [ops::min_reduce(&wide, ..)?, ops::max_reduce(&wide, ..)?];
            for end in &ends {
                Check::Infinities { parameter: "x" }.on(op, end)?;
            }
            ends
        }
    };
    // A range of no size is 1 wide.
    let half = ops::where_(&ops::equal(&low, &high)?, &number(0.5)?, &number(0.0)?)?;
    let (low, high) = (ops::subtract(&low, &half)?, ops::add(&high, &half)?);
    let count = Shape::from([bins + 1]);
    count.count(op)?;
    let steps = ops::cast(&Tensor::whole_numbers(op, bins + 1, |i| i as i64)?, DType::F64)?;
    let share = ops::divide(&steps, &number(bins as f64)?)?;
    // The ends themselves are exact.
    let rest = ops::subtract(&number(1.0)?, &share)?;
    let edges = ops::add(&ops::multiply(&low, &rest)?, &ops::multiply(&high, &share)?)?;
    ops::cast(&edges, dtype)
}
