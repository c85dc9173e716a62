//! Elements picked from positions along an axis, and put at such positions. The positions are `i64` or
//! `u64` in row-major order; one that the axis does not have is an error.

use super::copy::copy_into;
use super::{Call, Input, Kernel, Kind};
use crate::tensor::{match_bits, match_int, unravel};
use crate::{DType, Error, Result};
use extensor_kernels::index::{add_rows, first_outside, gather, put_lanes, take};
use extensor_kernels::native::Native;
use extensor_kernels::par::parallel_chunks;
use smallvec::SmallVec;
use std::num::Wrapping;
use std::ops::AddAssign;
use std::sync::Arc;

/// What is done at the positions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Indexing {
    /// Of `x` and positions of the output's shape: for each the element there, along `axis`.
    Gather { axis: usize },
    /// Of `x` and a list: the rows of `x` along `axis` that it names.
    Take { axis: usize },
    /// Of a list: for each position a row that is zero but for the element there, whose bits are
    /// `one`. Errors name `axis`.
    OneHot { axis: usize, one: u64 },
    /// Of `x`, a list and a `source` in row-major order: `x`, with the rows of `source` along `axis`
    /// added to those that the list names.
    AddRows { axis: usize },
    /// Of `x`, positions and a `source` of their shape in row-major order: `x`, with each element of
    /// `source` added at its position along the last axis, which errors call `axis`. Along the other
    /// axes the positions may end before `x` does.
    AddLanes { axis: usize },
    /// The same where elements are not added.
    PutLanes { axis: usize, put: Put },
}

/// What becomes of an element and one that is put in its place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Put {
    /// It goes.
    Last,
    /// Their product; of types that are multiplied as they are.
    Product,
    /// The larger one, NaN if either is; not of 16-bit floats.
    Largest,
    /// The smaller one.
    Smallest,
}

impl Kernel for Indexing {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let (op, inputs, dtype) = (call.op, call.inputs, call.dtype());
        match *self {
            Indexing::Gather { axis } => {
                let (x, index) = (inputs[0], inputs[1]);
                let list = positions(op, &index, axis, x.shape()[axis])?;
                match_bits!(dtype, T => gather(x.view::<T>(), axis, list, index.shape(), call.out()));
            }
            Indexing::Take { axis } => {
                let (x, index) = (inputs[0], inputs[1]);
                let list = positions(op, &index, axis, x.shape()[axis])?;
                match_bits!(dtype, T => take(x.view::<T>(), axis, list, call.out()));
            }
            Indexing::OneHot { axis, one } => {
                let shape = call.outputs[0].shape();
                let classes = shape[shape.len() - 1];
                let list = positions(op, &inputs[0], axis, classes)?;
                match_bits!(dtype, T => rows_of_one(list, classes, one as T, call.out()));
            }
            Indexing::AddRows { .. } | Indexing::AddLanes { .. } => match dtype {
                DType::F32 => self.add::<f32>(&mut call)?,
                DType::F64 => self.add::<f64>(&mut call)?,
                DType::F16 | DType::BF16 => {
                    return call.wrong("x", "a type that sums as it is", dtype);
                }
                // A sum that wraps around has the same bits for signed and unsigned.
                _ => match_bits!(dtype, T => self.add::<Wrapping<T>>(&mut call)?),
            },
            Indexing::PutLanes { axis, put: Put::Last } => {
                match_bits!(dtype, T => lanes::<T>(axis, &mut call, |to, new| *to = new)?);
            }
            Indexing::PutLanes { axis, put: Put::Product } => match dtype {
                DType::F32 => lanes::<f32>(axis, &mut call, |to, new| *to *= new)?,
                DType::F64 => lanes::<f64>(axis, &mut call, |to, new| *to *= new)?,
                DType::F16 | DType::BF16 => {
                    return call.wrong("x", "a type that multiplies as it is", dtype);
                }
                _ => match_bits!(dtype, T => {
                    lanes::<Wrapping<T>>(axis, &mut call, |to, new| *to *= new)?;
                }),
            },
            Indexing::PutLanes { axis, put } => {
                let largest = matches!(put, Put::Largest);
                // What is NaN stays so: no comparison with it is true.
                macro_rules! extreme {
                    ($t:ty, $nan:expr) => {{
                        let nan = $nan;
                        let before = |a: $t, b: $t| if largest { a > b } else { a < b };
                        lanes::<$t>(axis, &mut call, |to, new| {
                            if before(new, *to) || nan(new) {
                                *to = new;
                            }
                        })?
                    }};
                }
                match dtype {
                    DType::F32 => extreme!(f32, f32::is_nan),
                    DType::F64 => extreme!(f64, f64::is_nan),
                    _ => match_int!(dtype, T => extreme!(T, |_: T| false), else {
                        return call.wrong("x", "a type that is compared as it is", dtype);
                    }),
                }
            }
        }
        Ok(())
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Index(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}

impl Indexing {
    fn add<T: Native + AddAssign>(self, call: &mut Call<'_, '_>) -> Result<()> {
        let (x, index, source) = (call.inputs[0], call.inputs[1], call.inputs[2]);
        let (op, shape) = (call.op, x.shape());
        let start: SmallVec<[usize; 6]> = SmallVec::from_elem(0, shape.len());
        if let Indexing::AddRows { axis } = self {
            let size = shape[axis];
            let list = positions(op, &index, axis, size)?;
            let out = call.out::<T>();
            copy_into(out, shape, &start, x.view());
            let inner = shape[axis + 1..].iter().product();
            add_rows(out, [size, inner], list, source.row_major());
        }
        if let Indexing::AddLanes { axis } = self {
            lanes::<T>(axis, call, |to, new| *to += new)?;
        }
        Ok(())
    }
}

/// `x`, with each element of a `source` put at its position along the last axis, which errors call
/// `axis`.
fn lanes<T: Native>(
    axis: usize,
    call: &mut Call<'_, '_>,
    put: impl Fn(&mut T, T) + Sync,
) -> Result<()> {
    let (x, index, source) = (call.inputs[0], call.inputs[1], call.inputs[2]);
    let (op, shape) = (call.op, x.shape());
    let last = shape.len() - 1;
    let size = shape[last];
    let list = positions(op, &index, axis, size)?;
    let start: SmallVec<[usize; 6]> = SmallVec::from_elem(0, shape.len());
    let out = call.out::<T>();
    copy_into(out, shape, &start, x.view());
    let (kept, listed) = (&shape[..last], &index.shape()[..last]);
    let lane = |number: usize| {
        if kept == listed {
            return Some(number);
        }
        let at = unravel(number, kept);
        let mut pairs = at.iter().zip(listed.iter());
        pairs.try_fold(0, |sum, (&i, &size)| (i < size).then_some(sum * size + i))
    };
    put_lanes(out, [size, index.shape()[last]], list, source.row_major(), lane, put);
    Ok(())
}

/// The positions in row-major order, or an error if one of them is not in `0..size`.
pub(super) fn positions<'a>(
    op: &'static str,
    index: &Input<'a>,
    axis: usize,
    size: usize,
) -> Result<&'a [i64]> {
    let list = index.row_major::<i64>();
    match first_outside(list, size) {
        None => Ok(list),
        Some(found) => {
            // What `i64` cannot hold looks negative.
            let beyond = index.dtype() == DType::U64 && found < 0;
            let index = if beyond { i64::MAX } else { found };
            Err(Error::IndexOutOfRange { op, index, axis, size })
        }
    }
}

/// Rows of `classes` elements, zero but for `one` at the position listed.
fn rows_of_one<T: Native>(list: &[i64], classes: usize, one: T, out: &mut [T]) {
    let rows = (64 * 1024 / classes.max(1)).max(1);
    parallel_chunks(out, rows * classes, &|start, out| {
        let list = &list[start / classes..];
        for (row, &class) in out.chunks_mut(classes).zip(list) {
            row.fill(T::ZERO);
            row[class as usize] = one;
        }
    });
}
