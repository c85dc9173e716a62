//! Shapes, axes and how arguments give them.

use crate::{Error, Result};
use smallvec::SmallVec;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// How many axes a shape holds without allocating. With five it takes 48 bytes, three whole vector
/// registers: every tensor has a shape and strides, and they are written and read in the same pieces.
const IN_PLACE: usize = 5;

/// The sizes of a tensor's axes, outermost first; no axes: a scalar.
#[derive(Eq, Default)]
pub struct Shape(SmallVec<[usize; IN_PLACE]>);

impl PartialEq for Shape {
    #[inline]
    fn eq(&self, other: &Shape) -> bool {
        // Shapes are short: a call that compares memory would take longer than a loop.
        self.len() == other.len() && self.iter().zip(other.iter()).all(|(a, b)| a == b)
    }
}

impl Hash for Shape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Clone for Shape {
    #[inline]
    fn clone(&self) -> Shape {
        // One copy of memory; the derived one goes element by element.
        Shape(SmallVec::from_slice(&self.0))
    }
}

impl Shape {
    /// The shape of a scalar.
    pub fn scalar() -> Shape {
        Shape::default()
    }

    /// The number of elements, if it (and its size in bytes) can be counted.
    pub fn checked_len(&self) -> Option<usize> {
        let (mut len, mut overflows, mut empty) = (1usize, false, false);
        for &size in self.iter() {
            let (product, over) = len.overflowing_mul(size);
            len = product;
            overflows |= over;
            empty |= size == 0;
        }
        // An empty tensor is small whatever its other sizes are.
        if empty {
            return Some(0);
        }
        (!overflows && len <= isize::MAX as usize / 8).then_some(len)
    }

    /// The number of elements, or an error in the name of `op`.
    pub(crate) fn count(&self, op: &'static str) -> Result<usize> {
        self.checked_len().ok_or_else(|| Error::Overflow { op, shape: self.clone() })
    }

    /// The strides of a row-major array of this shape.
    #[inline]
    pub(crate) fn strides(&self) -> Strides {
        let by = |size: usize, step: isize| step.wrapping_mul(size as isize);
        let few = Strides::from_buf_and_len;
        // A few axes without a loop: they are put together in registers.
        match **self {
            [] => return Strides::new(),
            [_] => return few([1, 0, 0, 0, 0], 1),
            [_, b] => return few([by(b, 1), 1, 0, 0, 0], 2),
            [_, b, c] => return few([by(b, by(c, 1)), by(c, 1), 1, 0, 0], 3),
            _ => {}
        }
        let mut strides = Strides::from_elem(0, self.len());
        let mut step = 1isize;
        for (stride, &size) in strides.iter_mut().zip(self.iter()).rev() {
            *stride = step;
            step = by(size, step);
        }
        strides
    }

    pub(crate) fn push(&mut self, size: usize) {
        self.0.push(size);
    }

    pub(crate) fn insert(&mut self, at: usize, size: usize) {
        self.0.insert(at, size);
    }

    pub(crate) fn remove(&mut self, at: usize) {
        self.0.remove(at);
    }

    pub(crate) fn set(&mut self, at: usize, size: usize) {
        self.0[at] = size;
    }
}

pub(crate) type Strides = SmallVec<[isize; IN_PLACE]>;

impl Deref for Shape {
    type Target = [usize];
    #[inline]
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl AsRef<[usize]> for Shape {
    fn as_ref(&self) -> &[usize] {
        &self.0
    }
}

impl From<&[usize]> for Shape {
    #[inline]
    fn from(sizes: &[usize]) -> Shape {
        Shape(SmallVec::from_slice(sizes))
    }
}

impl From<Vec<usize>> for Shape {
    fn from(sizes: Vec<usize>) -> Shape {
        Shape(SmallVec::from_vec(sizes))
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(sizes: [usize; N]) -> Shape {
        Shape(SmallVec::from_slice(&sizes))
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(sizes: I) -> Shape {
        Shape(sizes.into_iter().collect())
    }
}

impl PartialEq<[usize]> for Shape {
    fn eq(&self, other: &[usize]) -> bool {
        **self == *other
    }
}

impl<const N: usize> PartialEq<[usize; N]> for Shape {
    fn eq(&self, other: &[usize; N]) -> bool {
        **self == other[..]
    }
}

impl<const N: usize> PartialEq<[usize; N]> for &Shape {
    fn eq(&self, other: &[usize; N]) -> bool {
        ***self == other[..]
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0[..])
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The shape that both broadcast to, by NumPy's rule.
pub(crate) fn broadcast(op: &'static str, a: &Shape, b: &Shape) -> Result<Shape> {
    if a == b {
        return Ok(a.clone());
    }
    let ndim = a.len().max(b.len());
    let mut sizes: SmallVec<[usize; IN_PLACE]> = SmallVec::from_elem(1, ndim);
    for (i, size) in sizes.iter_mut().enumerate() {
        let of = |s: &Shape| (i + s.len()).checked_sub(ndim).map_or(1, |k| s[k]);
        *size = match (of(a), of(b)) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            _ => {
                return Err(Error::Broadcast { op, a: a.clone(), b: b.clone() });
            }
        };
    }
    Ok(Shape(sizes))
}

/// `axis`, which may count from the end, as an index below `ndim`.
pub(crate) fn axis_index(op: &'static str, axis: i64, ndim: usize) -> Result<usize> {
    let n = ndim as i64;
    if axis >= n || axis < -n {
        return Err(Error::AxisOutOfRange { op, axis, ndim });
    }
    Ok(if axis < 0 { axis + n } else { axis } as usize)
}

/// Which axes an operation works on: all, or a list in which negative axes count from the end.
///
/// Arguments are written `None` or `..` (all), `0`, `-1`, `[0, 2]` or a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Axes {
    /// Every axis.
    All,
    /// These.
    List(SmallVec<[i64; 4]>),
}

impl Axes {
    /// For each of `ndim` axes whether it is meant; repeated or missing ones are errors.
    pub(crate) fn mask(&self, op: &'static str, ndim: usize) -> Result<SmallVec<[bool; 6]>> {
        let Axes::List(list) = self else {
            return Ok(SmallVec::from_elem(true, ndim));
        };
        let mut mask = SmallVec::from_elem(false, ndim);
        for &axis in list {
            let index = axis_index(op, axis, ndim)?;
            if std::mem::replace(&mut mask[index], true) {
                return Err(Error::RepeatedAxis { op, axis });
            }
        }
        Ok(mask)
    }
}

/// The axes that a reduction runs over, and whether they stay, with size 1.
///
/// A plain axis, a list of axes, or `..` for all can be written wherever this is expected; [`over`]
/// is for axes that are to stay.
///
/// ```
/// use extensor::{over, tensor};
/// let x = tensor([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(x.sum(..)?.item::<f64>()?, 10.0);
/// assert_eq!(x.sum(-1)?.to_vec::<f64>()?, [3.0, 7.0]);
/// assert_eq!(x.sum(over(-1).keepdims(true))?.shape(), [2, 1]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Over {
    /// The axes that are reduced.
    pub axes: Axes,
    /// Whether they stay, with size 1, so that the result broadcasts against the input.
    pub keepdims: bool,
}

impl Over {
    /// With or without the reduced axes, as axes of size 1.
    #[must_use]
    pub fn keepdims(self, keepdims: bool) -> Over {
        Over { keepdims, ..self }
    }
}

/// The axes that a reduction goes over, for options to be added; see [`Over`].
pub fn over(axis: impl Into<Over>) -> Over {
    axis.into()
}

impl<A> From<A> for Over
where
    Axes: From<A>,
{
    fn from(axes: A) -> Over {
        Over { axes: axes.into(), keepdims: false }
    }
}

impl From<Option<&[i64]>> for Axes {
    fn from(axes: Option<&[i64]>) -> Axes {
        axes.map_or(Axes::All, |list| Axes::List(SmallVec::from_slice(list)))
    }
}

impl From<std::ops::RangeFull> for Axes {
    fn from(_: std::ops::RangeFull) -> Axes {
        Axes::All
    }
}

/// A list of sizes or axes as an argument: an array, slice or vector of integers of any width, or one
/// integer.
pub trait Integers {
    /// The integers.
    fn integers(&self) -> SmallVec<[i64; 4]>;
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Integers for [$t] {
            fn integers(&self) -> SmallVec<[i64; 4]> {
                self.iter().map(|&v| i64::try_from(v).unwrap_or(i64::MAX)).collect()
            }
        }
        impl<const N: usize> Integers for [$t; N] {
            fn integers(&self) -> SmallVec<[i64; 4]> {
                self[..].integers()
            }
        }
        impl Integers for $t {
            fn integers(&self) -> SmallVec<[i64; 4]> {
                [*self].integers()
            }
        }
        impl Integers for Vec<$t> {
            fn integers(&self) -> SmallVec<[i64; 4]> {
                self[..].integers()
            }
        }
        impl<const N: usize> From<[$t; N]> for Axes {
            fn from(axes: [$t; N]) -> Axes {
                Axes::List(axes.integers())
            }
        }
        impl From<&[$t]> for Axes {
            fn from(axes: &[$t]) -> Axes {
                Axes::List(axes.integers())
            }
        }
        impl From<&Vec<$t>> for Axes {
            fn from(axes: &Vec<$t>) -> Axes {
                Axes::List(axes.integers())
            }
        }
        impl From<$t> for Axes {
            fn from(axis: $t) -> Axes {
                Axes::List([axis].integers())
            }
        }
    )*};
}

integers!(i32, i64, isize, usize);

impl<T: Integers + ?Sized> Integers for &T {
    fn integers(&self) -> SmallVec<[i64; 4]> {
        (**self).integers()
    }
}

impl Integers for Shape {
    fn integers(&self) -> SmallVec<[i64; 4]> {
        self[..].integers()
    }
}

impl Integers for SmallVec<[i64; 4]> {
    fn integers(&self) -> SmallVec<[i64; 4]> {
        self.clone()
    }
}
