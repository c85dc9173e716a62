//! Running sums.

use super::{BLOCK, PACK, Room, in_tasks};
use crate::native::Compute;
use crate::par::Shared;
use crate::view::{Gather, View};
use half::{bf16, f16};
use std::num::Wrapping;

/// A type that running sums can be made of.
pub trait Scans: Compute {
    /// The sum so far, more exact than the type itself.
    type Run: Copy;
    /// No sum yet.
    const START: Self::Run;
    /// One number more.
    fn add(run: Self::Run, x: Self::Wide) -> Self::Run;
    /// The sum, rounded.
    fn value(run: Self::Run) -> Self;
}

macro_rules! scans {
    ($($t:ty, $wide:ty: $run:ty = $start:expr, |$s:ident, $x:ident| $add:expr, |$r:ident| $value:expr;)*) => {$(
        impl Scans for $t {
            type Run = $run;
            const START: $run = $start;
            #[inline(always)]
            fn add($s: $run, $x: $wide) -> $run {
                $add
            }
            #[inline(always)]
            fn value($r: $run) -> $t {
                $value
            }
        }
    )*};
}

scans! {
    f16, f32: f64 = 0.0, |s, x| s + f64::from(x), |r| f16::from_f64(r);
    bf16, f32: f64 = 0.0, |s, x| s + f64::from(x), |r| bf16::from_f64(r);
    f32, f32: f64 = 0.0, |s, x| s + f64::from(x), |r| r as f32;
    f64, f64: [f64; 2] = [0.0; 2], |s, x| compensated(s, x), |r| r[0] + r[1];
    Wrapping<u8>, Wrapping<u8>: Wrapping<u8> = Wrapping(0), |s, x| s + x, |r| r;
    Wrapping<u16>, Wrapping<u16>: Wrapping<u16> = Wrapping(0), |s, x| s + x, |r| r;
    Wrapping<u32>, Wrapping<u32>: Wrapping<u32> = Wrapping(0), |s, x| s + x, |r| r;
    Wrapping<u64>, Wrapping<u64>: Wrapping<u64> = Wrapping(0), |s, x| s + x, |r| r;
}

/// The sum and what rounding took from it, by Knuth's two-sum: the error does not grow with length.
#[inline(always)]
fn compensated([sum, lost]: [f64; 2], x: f64) -> [f64; 2] {
    let next = sum + x;
    let part = next - sum;
    let error = (sum - (next - part)) + (x - part);
    // Beyond the finite numbers nothing is lost.
    [next, if next.is_finite() { lost + error } else { 0.0 }]
}

/// `out[…, i, …] = x[…, 0, …] + … + x[…, i, …]` along `axis`, or from the end if `reverse`.
///
/// # Panics
/// If there is no such axis, or if `out` has not as many elements as `x`.
pub fn cumsum<T: Scans>(x: View<'_, T>, axis: usize, reverse: bool, out: &mut [T]) {
    assert_eq!(out.len(), x.len(), "cumsum: the number of results");
    if out.is_empty() {
        return;
    }
    let shape = x.shape();
    let outer: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    let scan = Scan { x: Gather::new(&x), rows: shape[axis], inner, reverse };
    let blocks = inner.div_ceil(BLOCK);
    let shared = Shared::new(out);
    in_tasks(outer * blocks, scan.rows * inner.min(BLOCK), |units| {
        let mut room = Room::new();
        for unit in units {
            let start = unit % blocks * BLOCK;
            let columns = start..(start + BLOCK).min(inner);
            scan.block(unit / blocks, columns, &mut room, &shared);
        }
    });
}

struct Scan<'a, T> {
    x: Gather<'a, T>,
    rows: usize,
    inner: usize,
    reverse: bool,
}

impl<T: Scans> Scan<'_, T> {
    /// Running sums of numbers that lie behind each other.
    fn line(&self, mut run: T::Run, values: &[T::Wide], out: &mut [T]) -> T::Run {
        if self.reverse {
            for (out, &x) in out.iter_mut().zip(values).rev() {
                run = T::add(run, x);
                *out = T::value(run);
            }
        } else {
            for (out, &x) in out.iter_mut().zip(values) {
                run = T::add(run, x);
                *out = T::value(run);
            }
        }
        run
    }

    /// Running sums of some columns of one matrix.
    fn block(
        &self,
        matrix: usize,
        columns: std::ops::Range<usize>,
        room: &mut Room<T>,
        out: &Shared<T>,
    ) {
        let width = columns.len();
        let mut runs = vec![T::START; width];
        // Rows that lie behind each other are read together.
        let together = if width == self.inner { (PACK / width).max(1) } else { 1 };
        let pieces = self.rows.div_ceil(together);
        for piece in 0..pieces {
            let piece = if self.reverse { pieces - 1 - piece } else { piece };
            let row = piece * together;
            let count = together.min(self.rows - row);
            let at = (matrix * self.rows + row) * self.inner + columns.start;
            let values = room.read(&self.x, at, count * width);
            // SAFETY: this piece lies in the output, and no other piece of any task overlaps it.
            let out = unsafe { out.part(at, at + count * width) };
            if width == 1 {
                runs[0] = self.line(runs[0], values, out);
                continue;
            }
            for k in 0..count {
                let k = if self.reverse { count - 1 - k } else { k };
                let part = k * width..(k + 1) * width;
                let (values, out) = (&values[part.clone()], &mut out[part]);
                for ((out, &x), run) in out.iter_mut().zip(values).zip(&mut runs) {
                    *run = T::add(*run, x);
                    *out = T::value(*run);
                }
            }
        }
    }
}
