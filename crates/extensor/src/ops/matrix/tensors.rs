//! Products over any axes of tensors. Each is an [`einsum`](super::einsum()) whose labels are counted
//! instead of written, so that its derivatives, of every order and in both modes, are einsum's.

use super::einsum::{Einsum, Labels, MOST};
use crate::ops::pointwise::{Takes, promote};
use crate::ops::reduction::wide;
use crate::tensor::{axis_index, broadcast};
use crate::{Error, Integers, Result, Shape, Tensor, ops};
use extensor_derive::method;
use smallvec::SmallVec;

/// Which axes of two tensors [`tensordot`] sums over: how many, or which of each.
#[derive(Clone, Debug)]
pub enum Contracted {
    /// The last so many of the first tensor with the first so many of the second.
    Count(usize),
    /// These of the first with these of the second, pair by pair.
    Pairs(SmallVec<[i64; 4]>, SmallVec<[i64; 4]>),
}

impl From<usize> for Contracted {
    fn from(count: usize) -> Contracted {
        Contracted::Count(count)
    }
}

impl<A: Integers, B: Integers> From<(A, B)> for Contracted {
    fn from((a, b): (A, B)) -> Contracted {
        Contracted::Pairs(a.integers(), b.integers())
    }
}

/// The sums of products over axes of two tensors: over the last `axes` of `a` with the first of `b`, or
/// over pairs of axes. The result has the other axes of `a`, then those of `b`.
///
/// An [`einsum`](super::einsum()), by which it is differentiated.
///
/// ```
/// use extensor::ops::tensordot;
/// use extensor::{DType, Tensor};
/// let a = Tensor::ones([2, 3, 4], DType::F32)?;
/// let b = Tensor::ones([4, 3, 5], DType::F32)?;
/// assert_eq!(tensordot(&a, &b, 1)?.shape(), [2, 3, 3, 5]);
/// let y = tensordot(&a, &b, ([1, 2], [1, 0]))?;
/// assert_eq!(y.shape(), [2, 5]);
/// assert_eq!(y.to_vec::<f32>()?, [12.0; 10]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn tensordot(a: &Tensor, b: &Tensor, axes: impl Into<Contracted>) -> Result<Tensor> {
    let op = "tensordot";
    expect_numbers(op, a, b)?;
    let axes = axes.into();
    let bad = |expected: String| {
        let (parameter, got) = ("axes", format!("{axes:?}"));
        Err(Error::Parameter { op, parameter, expected, got })
    };
    let [first, second]: [SmallVec<[usize; 4]>; 2] = match &axes {
        Contracted::Count(count) => {
            let most = a.ndim().min(b.ndim());
            if *count > most {
                return bad(format!("at most {most}, the axes of either"));
            }
            [(a.ndim() - count..a.ndim()).collect(), (0..*count).collect()]
        }
        Contracted::Pairs(of_a, of_b) => {
            if of_a.len() != of_b.len() {
                return bad("as many axes of one as of the other".into());
            }
            [chosen(op, of_a, a)?, chosen(op, of_b, b)?]
        }
    };
    expect_labels(op, a.ndim() + b.ndim())?;
    for (&i, &k) in first.iter().zip(&second) {
        if a.shape()[i] != b.shape()[k] {
            let expected =
                format!("size {} along axis {k}, that of a along axis {i}", a.shape()[i]);
            return super::product::shape_error(op, "b", b, expected);
        }
    }
    let of_a: Labels = (0..a.ndim()).map(|axis| axis as u8).collect();
    let other = |axis: usize| match second.iter().position(|k| *k == axis) {
        Some(pair) => first[pair] as u8,
        None => (a.ndim() + axis) as u8,
    };
    let of_b: Labels = (0..b.ndim()).map(other).collect();
    let own = |labels: &Labels, others: &Labels| -> Labels {
        labels.iter().copied().filter(|label| !others.contains(label)).collect()
    };
    let mut output = own(&of_a, &of_b);
    output.extend(own(&of_b, &of_a));
    Einsum::of(vec![of_a, of_b], output, &[a, b])
}

/// The axes named, none of them twice.
fn chosen(op: &'static str, axes: &[i64], x: &Tensor) -> Result<SmallVec<[usize; 4]>> {
    let mut found: SmallVec<[usize; 4]> = SmallVec::new();
    for &axis in axes {
        let at = axis_index(op, axis, x.ndim())?;
        if found.contains(&at) {
            return Err(Error::RepeatedAxis { op, axis });
        }
        found.push(at);
    }
    Ok(found)
}

/// The products of vectors along an axis, `y = Σ aᵢ·bᵢ`; the other axes broadcast.
///
/// An [`einsum`](super::einsum()), by which it is differentiated. The axis is that of both before they are
/// broadcast: counted from the end it is the same one, whatever their dimensions.
///
/// ```
/// use extensor::ops::vecdot;
/// use extensor::tensor;
/// let a = tensor([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(vecdot(&a, &tensor([10.0, 1.0]), -1)?.to_vec::<f64>()?, [12.0, 34.0]);
/// assert_eq!(vecdot(&a, &a, 0)?.to_vec::<f64>()?, [10.0, 20.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn vecdot(a: &Tensor, b: &Tensor, axis: i64) -> Result<Tensor> {
    let op = "vecdot";
    expect_numbers(op, a, b)?;
    let [at_a, at_b] = [axis_index(op, axis, a.ndim())?, axis_index(op, axis, b.ndim())?];
    if a.shape()[at_a] != b.shape()[at_b] {
        let expected = format!("size {} along axis {axis}, that of a", a.shape()[at_a]);
        return super::product::shape_error(op, "b", b, expected);
    }
    let rest = |x: &Tensor, at: usize| -> Shape {
        x.shape().iter().enumerate().filter(|(axis, _)| *axis != at).map(|(_, &n)| n).collect()
    };
    let whole = broadcast(op, &rest(a, at_a), &rest(b, at_b))?.len();
    expect_labels(op, whole + 1)?;
    let labels = |x: &Tensor, at: usize| -> Labels {
        let mut next = (whole + 1 - x.ndim()..whole).map(|label| label as u8);
        (0..x.ndim())
            .filter_map(|k| if k == at { Some(whole as u8) } else { next.next() })
            .collect()
    };
    let output = (0..whole).map(|label| label as u8).collect();
    Einsum::of(vec![labels(a, at_a), labels(b, at_b)], output, &[a, b])
}

/// Kronecker's product: each element of `a` replaced by `b` times it.
///
/// An [`einsum`](super::einsum()) without sums, reshaped. The tensor with fewer dimensions gets axes of
/// size 1 in front.
///
/// ```
/// use extensor::ops::kron;
/// use extensor::tensor;
/// let y = kron(&tensor([[1, 10]]), &tensor([[1, 2], [3, 4]]))?;
/// assert_eq!(y.shape(), [2, 4]);
/// assert_eq!(y.to_vec::<i32>()?, [1, 2, 10, 20, 3, 4, 30, 40]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn kron(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let op = "kron";
    expect_numbers(op, a, b)?;
    let n = a.ndim().max(b.ndim());
    expect_labels(op, 2 * n)?;
    let size = |x: &Tensor, axis: usize| {
        (axis + x.ndim()).checked_sub(n).map_or(1, |axis| x.shape()[axis])
    };
    let sizes = (0..n).map(|axis| size(a, axis).checked_mul(size(b, axis)));
    let shape = ops::shape::countable(op, sizes)?;
    // Axis by axis, those of `a` before those of `b`; those that a tensor does not have are left out.
    let labels = |x: &Tensor, second: u8| -> Labels {
        (n - x.ndim()..n).map(|axis| 2 * axis as u8 + second).collect()
    };
    let both = [labels(a, 0), labels(b, 1)];
    let mut output: Labels = both.iter().flatten().copied().collect();
    output.sort_unstable();
    let y = Einsum::of(both.to_vec(), output, &[a, b])?;
    ops::reshape(&y, &shape)
}

/// The vector product of vectors of three elements along an axis, `a × b`; the other axes broadcast.
///
/// Made of products and a difference, by which it is differentiated; `f16` and `bf16` are rounded once.
///
/// ```
/// use extensor::ops::cross;
/// use extensor::tensor;
/// let y = cross(&tensor([1.0, 2.0, 3.0]), &tensor([4.0, 5.0, 6.0]), -1)?;
/// assert_eq!(y.to_vec::<f64>()?, [-3.0, 6.0, -3.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn cross(a: &Tensor, b: &Tensor, axis: i64) -> Result<Tensor> {
    let op = "cross";
    expect_numbers(op, a, b)?;
    let dtype = promote(op, a, b)?;
    // An axis of the broadcast vectors; counted from the end it is an axis of each.
    let n = broadcast(op, a.shape(), b.shape())?.len();
    let from_end = axis_index(op, axis, n)? as i64 - n as i64;
    for (name, x) in [("a", a), ("b", b)] {
        let at = from_end + x.ndim() as i64;
        if at < 0 || x.shape()[at as usize] != 3 {
            let expected = format!("size 3 along axis {axis}");
            return super::product::shape_error(op, name, x, expected);
        }
    }
    let (a, b) = (ops::cast(a, wide(dtype))?, ops::cast(b, wide(dtype))?);
    let turned = |x: &Tensor, by: i64| ops::roll(x, by, from_end);
    let ahead = ops::multiply(&turned(&a, -1)?, &turned(&b, -2)?)?;
    let behind = ops::multiply(&turned(&a, -2)?, &turned(&b, -1)?)?;
    ops::cast(&ops::subtract(&ahead, &behind)?, dtype)
}

fn expect_numbers(op: &'static str, a: &Tensor, b: &Tensor) -> Result<()> {
    [("a", a), ("b", b)]
        .into_iter()
        .try_for_each(|(name, x)| Takes::Numbers.expect(op, name, x.dtype()))?;
    promote(op, a, b).map(|_| ())
}

/// An error if there are not as many labels as axes.
fn expect_labels(op: &'static str, axes: usize) -> Result<()> {
    if axes <= MOST {
        return Ok(());
    }
    let (parameter, expected) = ("number of axes", format!("at most {MOST} of both together"));
    Err(Error::Parameter { op, parameter, expected, got: axes.to_string() })
}
