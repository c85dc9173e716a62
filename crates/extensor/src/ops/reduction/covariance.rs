//! How variables vary together. Made of operations, and differentiated as those are.

use crate::exec::check::Check;
use crate::ops::options::options;
use crate::ops::reduction::wide;
use crate::{Error, Result, Tensor, ops, over};
use extensor_derive::method;

options! {
    /// The options of [`cov`].
    pub struct CovOptions<'a> {
        /// How often each observation is counted: whole numbers, none negative.
        fweights: Option<&'a Tensor> = None,
        /// How much each observation weighs: none negative.
        aweights: Option<&'a Tensor> = None,
    }
    exactly {
        /// What is taken from the number of observations in the denominator.
        ddof: usize = 1,
    }
}

/// The covariances of variables, the rows of `x`, of which each column is an observation:
/// `y = (x − mean)·(x − mean)ᵀ / (n − ddof)`. A vector is one variable, and gives a scalar.
///
/// With weights `w = fweights·aweights` the mean is the weighted one, each observation counts `w` times, and
/// the denominator is `Σw − ddof·Σ(w·aweights)/Σw`, as in NumPy and PyTorch. NaN where it is not above 0.
///
/// ```
/// use extensor::ops::{CovOptions, cov};
/// use extensor::tensor;
/// let x = tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]);
/// assert_eq!(cov(&x, CovOptions::new())?.to_vec::<f64>()?, [1.0, -1.0, -1.0, 1.0]);
/// let twice = tensor([1, 1, 2]);
/// let y = cov(&x, CovOptions::new().fweights(&twice).ddof(0))?;
/// assert_eq!(y.to_vec::<f64>()?[0], 0.6875);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn cov<'a>(x: &Tensor, options: CovOptions<'a>) -> Result<Tensor> {
    covariance("cov", x, options)
}

/// The correlations of variables, the rows of `x`, of which each column is an observation: the
/// covariances over the standard deviations of both. A vector is one variable, and gives a scalar.
///
/// They are clipped to the interval from −1 to 1, as in NumPy; NaN for a variable that does not vary.
///
/// ```
/// use extensor::ops::corrcoef;
/// use extensor::tensor;
/// let x = tensor([[0.0, 1.0, 2.0], [4.0, 2.0, 0.0]]);
/// assert_eq!(corrcoef(&x)?.to_vec::<f64>()?, [1.0, -1.0, -1.0, 1.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn corrcoef(x: &Tensor) -> Result<Tensor> {
    let op = "corrcoef";
    let dtype = x.dtype();
    let c = covariance(op, &ops::cast(x, wide(dtype))?, CovOptions::new())?;
    let y = if c.ndim() == 0 {
        ops::divide(&c, &c)?
    } else {
        // The diagonal, and the root of it beside the rows and above the columns.
        let n = c.shape()[0];
        let at = ops::reshape(&Tensor::whole_numbers(op, n, |i| i as i64)?, [n, 1])?;
        let beside = ops::sqrt(&ops::gather(&c, &at, 1)?)?;
        let above = ops::reshape(&beside, [1, n])?;
        ops::divide(&ops::divide(&c, &beside)?, &above)?
    };
    ops::cast(&ops::clip(&y, -1.0, 1.0)?, dtype)
}

fn covariance(op: &'static str, x: &Tensor, options: CovOptions<'_>) -> Result<Tensor> {
    let CovOptions { fweights, aweights, ddof } = options;
    x.dtype().expect_float(op, "x")?;
    if x.ndim() > 2 || x.ndim() == 0 {
        let expected = "one axis, observations, or two, variables and observations".into();
        return Err(Error::Shape { op, argument: "x", expected, got: x.shape().clone() });
    }
    let (dtype, of) = (x.dtype(), wide(x.dtype()));
    let count = x.shape()[x.ndim() - 1];
    let rows = ops::cast(&ops::reshape(x, [x.len() / count.max(1), count])?, of)?;
    for (name, weights) in [("fweights", fweights), ("aweights", aweights)] {
        let Some(weights) = weights else { continue };
        if *weights.shape() != [count] {
            let (expected, got) = (format!("[{count}]"), weights.shape().clone());
            return Err(Error::Shape { op, argument: name, expected, got });
        }
        if name == "fweights" && !weights.dtype().is_int() {
            let (expected, got) = ("a whole-number type", weights.dtype());
            return Err(Error::DType { op, argument: name, expected, got });
        }
        Check::Weights { parameter: name }.on(op, weights)?;
    }
    let [frequencies, importance] =
        [fweights, aweights].map(|w| w.map(|w| ops::cast(w, of)).transpose());
    let (frequencies, importance) = (frequencies?, importance?);
    let weights = match (&frequencies, &importance) {
        (Some(f), Some(a)) => Some(ops::multiply(f, a)?),
        (one, other) => one.as_ref().or(other.as_ref()).cloned(),
    };
    let number = |x: f64| Tensor::scalar_of(x, of);
    let weighted = |x: &Tensor| weights.as_ref().map_or(Ok(x.clone()), |w| ops::multiply(x, w));
    let total = match &weights {
        Some(weights) => ops::sum(weights, ..)?,
        None => number(count as f64)?,
    };
    let mean = |x: &Tensor| ops::divide(&ops::sum(&weighted(x)?, over(-1).keepdims(true))?, &total);
    // Two steps: the mean of large numbers that lie close together is too coarse by itself.
    let apart = ops::subtract(&rows, &mean(&rows)?)?;
    let apart = ops::subtract(&apart, &mean(&apart)?)?;
    let taken = match &importance {
        Some(importance) => {
            let squares = ops::sum(&weighted(importance)?, ..)?;
            ops::multiply(&number(ddof as f64)?, &ops::divide(&squares, &total)?)?
        }
        None => number(ddof as f64)?,
    };
    let freedom = ops::subtract(&total, &taken)?;
    let some = ops::greater(&freedom, &number(0.0)?)?;
    let freedom = ops::where_(&some, &freedom, &number(f64::NAN)?)?;
    let products = ops::matmul(&weighted(&apart)?, &ops::transpose(&apart, [1, 0])?)?;
    let y = ops::cast(&ops::divide(&products, &freedom)?, dtype)?;
    if x.ndim() == 1 { ops::reshape(&y, [0i64; 0]) } else { Ok(y) }
}
