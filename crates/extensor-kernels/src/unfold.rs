//! The windows of planes side by side, and the way back: windows added up where they lie.
//!
//! Both go through a plane in an order of its own, so results do not depend on the number of threads.

use crate::conv::Axis;
use crate::native::{Compute, Native};
use crate::par::{parallel_chunks, share};
use crate::stop;
use std::ops::{AddAssign, Range};

/// Numbers that a task takes at a time, nearly.
const TASK: usize = 64 * 1024;
/// At the least.
const LEAST: usize = 8 * 1024;

/// The positions of the window whose element `tap` lies on the axis.
fn inside(axis: &Axis, tap: usize) -> Range<usize> {
    let shift = tap * axis.dilation;
    let low = axis.padding.saturating_sub(shift).div_ceil(axis.stride);
    let high = (axis.input + axis.padding).saturating_sub(shift).div_ceil(axis.stride);
    let high = high.min(axis.output);
    low.min(high)..high
}

/// Where on the axis element `tap` of the window at `position` lies.
fn place(axis: &Axis, position: usize, tap: usize) -> usize {
    position * axis.stride + tap * axis.dilation - axis.padding
}

/// Calls `visit` for each element of the window and each row of its positions: with their number, the
/// positions along the row that see the plane, and where in the plane the first of these does.
fn lines(y: &Axis, x: &Axis, mut visit: impl FnMut(usize, Range<usize>, usize)) {
    for down in 0..y.kernel {
        let rows = inside(y, down);
        for right in 0..x.kernel {
            let columns = inside(x, right);
            for row in 0..y.output {
                let line = (down * x.kernel + right) * y.output + row;
                if !rows.contains(&row) || columns.is_empty() {
                    visit(line, 0..0, 0);
                    continue;
                }
                let at = place(y, row, down) * x.input + place(x, columns.start, right);
                visit(line, columns.clone(), at);
            }
        }
    }
}

/// Planes and numbers of a task.
fn together(planes: usize, size: usize) -> usize {
    (share(planes.saturating_mul(size), LEAST, TASK) / size.max(1)).max(1)
}

fn sizes(y: &Axis, x: &Axis) -> (usize, usize) {
    (y.input * x.input, y.kernel * x.kernel * y.output * x.output)
}

/// `out[plane, t, p] = from[plane, p·stride + t·dilation − padding]`, and 0 outside of the plane.
///
/// # Panics
/// If a length does not fit.
pub fn unfold<T: Native>(planes: usize, y: &Axis, x: &Axis, from: &[T], out: &mut [T]) {
    let (plane, windows) = sizes(y, x);
    assert!(from.len() == planes * plane && out.len() == planes * windows, "unfold: a length");
    let together = together(planes, plane.max(windows));
    parallel_chunks(out, together * windows, &|start, out| {
        for (k, out) in out.chunks_exact_mut(windows).enumerate() {
            let from = &from[(start / windows + k) * plane..][..plane];
            lines(y, x, |line, columns, at| {
                let line = &mut out[line * x.output..][..x.output];
                line[..columns.start].fill(T::ZERO);
                line[columns.end..].fill(T::ZERO);
                let line = &mut line[columns];
                if x.stride == 1 {
                    line.copy_from_slice(&from[at..][..line.len()]);
                    return;
                }
                for (i, to) in line.iter_mut().enumerate() {
                    *to = from[at + i * x.stride];
                }
            });
        }
    });
}

/// `out[plane, q] = Σ windows[plane, t, p]` over the `t` and `p` with `p·stride + t·dilation − padding = q`,
/// in the order of `t`.
///
/// # Panics
/// If a length does not fit.
pub fn fold<T: Compute>(planes: usize, y: &Axis, x: &Axis, from: &[T], out: &mut [T])
where
    T::Wide: AddAssign,
{
    let (plane, windows) = sizes(y, x);
    assert!(from.len() == planes * windows && out.len() == planes * plane, "fold: a length");
    let together = together(planes, plane.max(windows));
    parallel_chunks(out, together * plane, &|start, out| {
        for (k, out) in out.chunks_exact_mut(plane).enumerate() {
            let from = &from[(start / plane + k) * windows..][..windows];
            match T::as_wide_mut(out) {
                Some(out) => add(y, x, from, out),
                None => {
                    let mut sums = stop::room(T::Wide::ZERO, plane);
                    add(y, x, from, &mut sums);
                    T::narrow(&sums, out);
                }
            }
        }
    });
}

/// [`fold`] of one plane.
fn add<T: Compute>(y: &Axis, x: &Axis, from: &[T], sums: &mut [T::Wide])
where
    T::Wide: AddAssign,
{
    sums.fill(T::Wide::ZERO);
    lines(y, x, |line, columns, at| {
        if columns.is_empty() {
            return;
        }
        let line = &from[line * x.output..][columns];
        if x.stride == 1 {
            for (sum, from) in sums[at..].iter_mut().zip(line) {
                *sum += from.wide();
            }
            return;
        }
        for (i, from) in line.iter().enumerate() {
            sums[at + i * x.stride] += from.wide();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_what_they_see_and_adding_them_up_is_the_transpose() {
        for (size, kernel, stride, padding, dilation) in
            [(5, 3, 1, 1, 1), (7, 2, 3, 0, 2), (4, 4, 2, 3, 1), (6, 1, 2, 0, 1), (3, 2, 1, 4, 3)]
        {
            let y = Axis::over(size, kernel, stride, padding, dilation).expect("an axis");
            let x = Axis::over(size + 2, kernel, stride, padding, dilation).expect("an axis");
            let (plane, windows) = sizes(&y, &x);
            let planes = 3;
            let from: Vec<f64> = (0..planes * plane).map(|i| i as f64 + 1.0).collect();
            let mut out = vec![f64::NAN; planes * windows];
            unfold(planes, &y, &x, &from, &mut out);
            let back: Vec<f64> = (0..planes * windows).map(|i| (i % 11) as f64).collect();
            let mut sums = vec![f64::NAN; planes * plane];
            fold(planes, &y, &x, &back, &mut sums);
            let mut wanted = vec![0.0; planes * plane];
            for (k, &got) in out.iter().enumerate() {
                let (p, rest) = (k / windows, k % windows);
                let (t, o) = (rest / (y.output * x.output), rest % (y.output * x.output));
                let at = |axis: &Axis, t: usize, o: usize| {
                    let at = (o * stride + t * dilation).checked_sub(padding)?;
                    (at < axis.input).then_some(at)
                };
                let row = at(&y, t / kernel, o / x.output);
                let column = at(&x, t % kernel, o % x.output);
                let place = row.zip(column).map(|(r, c)| p * plane + r * x.input + c);
                assert_eq!(got, place.map_or(0.0, |place| from[place]));
                if let Some(place) = place {
                    wanted[place] += back[k];
                }
            }
            assert_eq!(sums, wanted);
        }
    }
}
