//! The sum of a formula over arrays, without an array of its values.

use super::{Floats, Room, in_tasks, tree};
use crate::map::Block;
use crate::native::Native;
use crate::number::Number;
use crate::par::Shared;
use crate::stop;
use crate::view::{Gather, View};

/// Values of the formula that are computed, then summed while they are in the first cache.
pub const PIECE: usize = 1024;

/// What values are scaled by where their sum leaves the range of `f64`.
const SMALL: f64 = f64::from_bits((1023 - 600) << 52);

/// `Σ block(inputs[0][i], …) / divisor` over arrays of one shape, in `f64`.
///
/// Values are summed as [`float_sum`](super::float_sum) does: in `f64`, pieces joined in a balanced
/// tree, so that the result does not depend on threads or on strides. Where the sum of `f64` leaves
/// the range although its values do not, it is made again from scaled ones.
///
/// # Panics
/// If the inputs have not all the same number of elements.
pub fn map_sum<T: Floats, const N: usize>(
    block: &dyn Block<T::Wide, T::Wide, N>,
    inputs: [View<'_, T>; N],
    divisor: f64,
) -> f64 {
    let sum = sum_scaled(block, inputs, None);
    if sum.is_finite() || T::as_f64(inputs[0]).is_none() {
        return sum / divisor;
    }
    sum_scaled(block, inputs, Some(SMALL)) / divisor / SMALL
}

fn sum_scaled<T: Floats, const N: usize>(
    block: &dyn Block<T::Wide, T::Wide, N>,
    inputs: [View<'_, T>; N],
    scale: Option<f64>,
) -> f64 {
    let len = inputs[0].len();
    assert!(inputs.iter().all(|x| x.len() == len), "map_sum: inputs of several lengths");
    if len == 0 {
        return 0.0;
    }
    let gathers = inputs.each_ref().map(Gather::new);
    let pieces = len.div_ceil(PIECE);
    let mut partial = stop::room(0.0, pieces);
    let shared = Shared::new(&mut partial);
    in_tasks(pieces, PIECE, &|units| {
        let mut rooms = [(); N].map(|()| Room::new());
        let mut values = vec![T::Wide::ZERO; PIECE.min(len)];
        for unit in units {
            let start = unit * PIECE;
            let values = &mut values[..PIECE.min(len - start)];
            let mut slices: [&[T::Wide]; N] = [&[]; N];
            for ((slice, room), x) in slices.iter_mut().zip(&mut rooms).zip(&gathers) {
                *slice = room.read(x, start, values.len());
            }
            block.run(slices, values, None);
            if let Some(scale) = scale {
                values.iter_mut().for_each(|v| *v = *v * v.lit(scale));
            }
            // SAFETY: every unit has one number of `partial` to itself.
            let out = unsafe { shared.part(unit, unit + 1) };
            T::sums().rows(values, values.len(), &[()], out);
        }
    });
    tree(T::sums(), &mut partial, pieces, 1);
    partial[0]
}

/// `Σ x / divisor` of numbers in `f64` that lie together: what [`map_sum`] does with its values.
pub fn slice_mean(x: &[f64], divisor: f64) -> f64 {
    let total = |scale: f64| {
        let mut partial: Vec<f64> = Vec::with_capacity(x.len().div_ceil(PIECE));
        for piece in x.chunks(PIECE) {
            let scaled: Vec<f64> = piece.iter().map(|v| v * scale).collect();
            let mut sum = [0.0];
            <f64 as super::Arithmetic>::sums().rows(&scaled, scaled.len(), &[()], &mut sum);
            partial.push(sum[0]);
        }
        let pieces = partial.len();
        tree(<f64 as super::Arithmetic>::sums(), &mut partial, pieces, 1);
        partial.first().copied().unwrap_or(0.0)
    };
    let sum = total(1.0);
    if sum.is_finite() { sum / divisor } else { total(SMALL) / divisor / SMALL }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Formula, Formulas};
    use crate::number::Real;
    use crate::par::with_threads;

    #[derive(Clone)]
    struct Difference;

    impl Formula<2> for Difference {
        #[inline(always)]
        fn f<R: Real>(&self, [a, b]: [R; 2]) -> R {
            a - b
        }
    }

    #[test]
    fn the_sum_of_a_formula_is_that_of_its_values_for_any_length_strides_and_threads() {
        for len in [0usize, 1, 7, 1023, 1024, 1025, 200_000] {
            let a: Vec<f64> = (0..len).map(|i| (i % 37) as f64).collect();
            let b: Vec<f64> = (0..2 * len).map(|i| (i % 11) as f64).collect();
            let want: f64 = (0..len).map(|i| a[i] - b[2 * i]).sum();
            let (shape, one, two) = ([len], [1], [2]);
            for threads in [1, 3] {
                let views = [View::new(&a, 0, &shape, &one), View::new(&b, 0, &shape, &two)];
                let got = with_threads(threads, || map_sum(&Formulas(Difference), views, 1.0));
                assert_eq!(got, want);
            }
        }
    }

    #[test]
    fn a_mean_of_finite_numbers_is_finite() {
        let (a, b) = ([1.5e308, 1.5e308, -1.5e308, -1.5e308, 1e308], [0.0; 5]);
        let views = [View::new(&a, 0, &[5], &[1]), View::new(&b, 0, &[5], &[1])];
        let got = map_sum(&Formulas(Difference), views, 5.0);
        assert!((got / 2e307 - 1.0).abs() < 1e-12, "{got}");
        assert!((slice_mean(&a, 5.0) / 2e307 - 1.0).abs() < 1e-12);
        assert!(slice_mean(&[], 0.0).is_nan());
    }
}
