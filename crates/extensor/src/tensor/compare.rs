//! Whether two tensors hold the same values, and where they do not.

use super::{DType, Shape, Tensor};
use std::fmt;

/// How far apart two values may be: `|got - want| <= absolute + relative * |want|`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Relative to the value wanted.
    pub relative: f64,
    /// Allowed at any size.
    pub absolute: f64,
}

impl Tolerance {
    /// No difference at all.
    pub const EXACT: Tolerance = Tolerance { relative: 0.0, absolute: 0.0 };

    /// Both bounds.
    pub const fn new(relative: f64, absolute: f64) -> Tolerance {
        Tolerance { relative, absolute }
    }

    /// How far two computations of the same thing may differ in this dtype.
    pub fn of(dtype: DType) -> Tolerance {
        match dtype {
            DType::F64 => Tolerance::new(1e-7, 1e-10),
            DType::F32 => Tolerance::new(1e-4, 1e-7),
            DType::F16 | DType::BF16 => Tolerance::new(1e-2, 1e-4),
            _ => Tolerance::EXACT,
        }
    }

    /// The bound on the difference from `want`.
    pub fn bound(self, want: f64) -> f64 {
        self.absolute + self.relative * want.abs()
    }

    /// Whether `got` is near enough to `want`; NaN is near NaN, infinity near itself.
    pub fn allows(self, got: f64, want: f64) -> bool {
        // The bound on the difference from an infinity is infinite itself: nothing else is near it.
        got == want
            || (got.is_nan() && want.is_nan())
            || (want.is_finite() && (got - want).abs() <= self.bound(want))
    }
}

/// How two tensors differ.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// They have different shapes.
    Shape {
        /// One.
        got: Shape,
        /// The other.
        want: Shape,
    },
    /// They have different dtypes.
    DType {
        /// One.
        got: DType,
        /// The other.
        want: DType,
    },
    /// They have different values.
    Values {
        /// How many elements are too far apart.
        count: usize,
        /// Of how many.
        of: usize,
        /// Where the distance is farthest above what is allowed.
        index: Vec<usize>,
        /// The value there.
        got: f64,
        /// The value wanted there.
        want: f64,
        /// What was allowed there.
        allowed: f64,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Shape { got, want } => write!(f, "shape {got} is not {want}"),
            Difference::DType { got, want } => write!(f, "dtype {got} is not {want}"),
            Difference::Values { count, of, index, got, want, allowed } => write!(
                f,
                "{count} of {of} elements differ, the worst at {index:?}: {got:?} is not {want:?} \
                 (apart by {:.3e}, allowed {allowed:.3e})",
                (got - want).abs()
            ),
        }
    }
}

impl Tensor {
    /// Whether shape, dtype and all values agree within the tolerance.
    ///
    /// ```
    /// use extensor::{Tolerance, tensor};
    /// let x = tensor([1.0, 2.0]);
    /// assert!(x.allclose(&tensor([1.0, 2.0 + 1e-12]), Tolerance::new(1e-9, 0.0)));
    /// let difference = x.difference(&tensor([1.0, 2.5]), Tolerance::new(1e-9, 0.0));
    /// assert_eq!(
    ///     difference.unwrap().to_string(),
    ///     "1 of 2 elements differ, the worst at [1]: 2.0 is not 2.5 (apart by 5.000e-1, allowed 2.500e-9)"
    /// );
    /// ```
    pub fn allclose(&self, want: &Tensor, tolerance: Tolerance) -> bool {
        self.difference(want, tolerance).is_none()
    }

    /// Where `self` differs from `want` by more than the tolerance, and by how much; `None` if it
    /// does not.
    pub fn difference(&self, want: &Tensor, tolerance: Tolerance) -> Option<Difference> {
        if self.dtype() != want.dtype() {
            return Some(Difference::DType { got: self.dtype(), want: want.dtype() });
        }
        if self.shape() != want.shape() {
            let (got, want) = (self.shape().clone(), want.shape().clone());
            return Some(Difference::Shape { got, want });
        }
        if self.dtype().is_int() && tolerance == Tolerance::EXACT {
            return self.integer_difference(want);
        }
        let (a, b) = (self.bare().to_f64_vec(), want.bare().to_f64_vec());
        let mut worst: Option<(f64, usize)> = None;
        let mut count = 0;
        for (i, (&got, &want)) in a.iter().zip(&b).enumerate() {
            if tolerance.allows(got, want) {
                continue;
            }
            count += 1;
            let over = (got - want).abs() / tolerance.bound(want).max(f64::MIN_POSITIVE);
            let over = if over.is_nan() { f64::INFINITY } else { over };
            if worst.is_none_or(|(w, _)| over > w) {
                worst = Some((over, i));
            }
        }
        let (_, at) = worst?;
        Some(Difference::Values {
            count,
            of: a.len(),
            index: unravel(at, self.shape()),
            got: a[at],
            want: b[at],
            allowed: tolerance.bound(b[at]),
        })
    }

    /// Integers are compared as such: 64-bit ones do not fit into `f64`.
    fn integer_difference(&self, want: &Tensor) -> Option<Difference> {
        super::match_int!(self.dtype(), T => {
            let read = |x: &Tensor| {
                let mut values = vec![std::num::Wrapping(0); x.len()];
                extensor_kernels::view::Gather::<T>::new(&x.bare().view::<T>()).read(0, &mut values);
                values
            };
            let (a, b) = (read(self), read(want));
            let at = a.iter().zip(&b).position(|(x, y)| x != y)?;
            Some(Difference::Values {
                count: a.iter().zip(&b).filter(|(x, y)| x != y).count(),
                of: a.len(),
                index: unravel(at, self.shape()),
                got: a[at].0 as f64,
                want: b[at].0 as f64,
                allowed: 0.0,
            })
        }, else None)
    }
}

/// The index along each axis of element number `at` in row-major order.
pub(crate) fn unravel(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (i, &size) in index.iter_mut().zip(shape).rev() {
        *i = at % size;
        at /= size;
    }
    index
}
