//! Small products, computed without packing what can be read where it lies.

use super::blocked::Target;
use super::pack::{Panels, Source, Strided};
use super::simd::{Simd, Work, dispatch, lanes};
use super::tile::{self, DIRECT_ROWS, Next, Tile, WIDTH};
use super::{Dims, Real, scratch};
use std::marker::PhantomData;

/// C = A·B, or C += A·B if `accumulate`, on the calling thread.
///
/// A is read where it lies whatever its strides, because its elements are taken one at a time; B is
/// if its columns are adjacent, and else packed a panel at a time.
///
/// # Safety
/// `a` and `b` must have the extents in `dims`, and `c` be valid for `dims.m` × `dims.n` elements,
/// in rows of adjacent ones, that nobody else uses.
pub(super) unsafe fn product<R: Real>(
    dims: Dims,
    a: &Strided<R>,
    b: &Strided<R>,
    accumulate: bool,
    c: Target<R>,
) {
    if b.lane_stride == 1 || dims.n == 1 {
        dispatch(Direct { dims, a: *a, b: *b, accumulate, c });
        return;
    }
    let lanes = lanes::<R>();
    let width = lanes * WIDTH;
    scratch::with(width * dims.k, |panel: &mut [R]| {
        for j in (0..dims.n).step_by(width) {
            let cols = width.min(dims.n - j);
            let panels = Panels { width, pad: lanes };
            b.pack(j..j + cols, 0..dims.k, panels, panel);
            let b = Strided {
                first: panel.as_ptr(),
                lanes: cols,
                depth: dims.k,
                lane_stride: 1,
                depth_stride: panels.padded(cols) as isize,
                borrow: PhantomData,
            };
            // SAFETY: column `j` exists.
            let first = unsafe { c.first.add(j) };
            let c = Target { first, ..c };
            dispatch(Direct { dims: Dims { n: cols, ..dims }, a: *a, b, accumulate, c });
        }
    });
}

struct Direct<'a, R> {
    dims: Dims,
    a: Strided<'a, R>,
    b: Strided<'a, R>,
    accumulate: bool,
    c: Target<R>,
}

impl<R: Real> Work<R> for Direct<'_, R> {
    #[inline(always)]
    fn run<S: Simd<T = R>>(self) {
        let Dims { m, k, n } = self.dims;
        let most = DIRECT_ROWS.min(S::ROWS);
        let height = m.div_ceil(m.div_ceil(most));
        for j in (0..n).step_by(WIDTH * S::LANES) {
            for i in (0..m).step_by(height) {
                // SAFETY: row `i` of A, column `j` of B and element `(i, j)` of C exist, and the
                // tile ends where they end.
                unsafe {
                    tile::direct::<S>(&Tile {
                        rows: height.min(m - i),
                        cols: (WIDTH * S::LANES).min(n - j),
                        depth: k,
                        a: self.a.at(i, 0),
                        a_row: self.a.lane_stride,
                        a_step: self.a.depth_stride,
                        b: self.b.at(j, 0),
                        b_step: self.b.depth_stride,
                        c: self.c.first.add(i * self.c.row + j),
                        c_row: self.c.row,
                        load_c: self.accumulate,
                        panel: std::ptr::null_mut(),
                        next: Next::NOTHING,
                    });
                }
            }
        }
    }
}
