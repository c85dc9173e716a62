//! The kernels against loops over all indices, on any number of threads, in every precision.

use super::*;
use crate::par::with_threads;

/// A geometry of planes, not too small to reach every kernel.
fn geometry(
    [images, groups, channels, filters]: [usize; 4],
    sizes: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
) -> Geometry {
    let axis = |i: usize| axis(sizes[i], kernel[i], stride[i], padding[i], dilation[i]);
    Geometry { images, groups, channels, filters, z: Axis::SINGLE, y: axis(0), x: axis(1) }
}

fn axis(size: usize, kernel: usize, stride: usize, padding: usize, dilation: usize) -> Axis {
    Axis::over(size, kernel, stride, padding, dilation).expect("an axis")
}

/// Whole numbers from -3 to 3: their products and sums are exact in any order.
fn numbers(len: usize, seed: usize) -> Vec<f64> {
    (0..len).map(|i| ((i * 7919 + seed * 104_729) % 1009 % 7) as f64 - 3.0).collect()
}

/// Calls `visit` with the indices of `x`, `weight` and `y` of every product.
fn products(g: &Geometry, mut visit: impl FnMut(usize, usize, usize)) {
    let seen = |axis: &Axis, o: usize, t: usize| {
        (o * axis.stride + t * axis.dilation)
            .checked_sub(axis.padding)
            .filter(|&at| at < axis.input)
    };
    for at in 0..g.images * g.groups {
        for filter in 0..g.filters {
            for channel in 0..g.channels {
                for p in 0..g.output_volume() {
                    for t in 0..g.taps() {
                        let row = |at: usize, columns: usize, rows: usize| {
                            (at / columns / rows, at / columns % rows, at % columns)
                        };
                        let at_p = row(p, g.x.output, g.y.output);
                        let at_t = row(t, g.x.kernel, g.y.kernel);
                        let z = seen(&g.z, at_p.0, at_t.0);
                        let y = seen(&g.y, at_p.1, at_t.1);
                        let x = seen(&g.x, at_p.2, at_t.2);
                        let (Some(z), Some(y), Some(x)) = (z, y, x) else { continue };
                        let of = at % g.groups * g.filters + filter;
                        let plane = (at * g.channels + channel) * g.z.input + z;
                        visit(
                            (plane * g.y.input + y) * g.x.input + x,
                            (of * g.channels + channel) * g.taps() + t,
                            (at * g.filters + filter) * g.output_volume() + p,
                        );
                    }
                }
            }
        }
    }
}

fn check<T: Convolve + PartialEq + std::fmt::Debug>(g: &Geometry, of: impl Fn(f64) -> T) {
    let outputs = g.images * g.groups * g.filters * g.output_volume();
    let inputs = g.images * g.groups * g.channels * g.input_volume();
    let x = numbers(inputs, 1);
    let weight = numbers(g.groups * g.weights(), 2);
    let grad = numbers(outputs, 3);
    let (y_bias, x_bias) = (numbers(g.groups * g.filters, 4), numbers(g.groups * g.channels, 5));
    let mut y: Vec<f64> =
        (0..outputs).map(|i| y_bias[i / g.output_volume() % y_bias.len()]).collect();
    let mut dx: Vec<f64> =
        (0..inputs).map(|i| x_bias[i / g.input_volume() % x_bias.len()]).collect();
    let mut dweight = vec![0.0; weight.len()];
    products(g, |i, j, k| {
        y[k] += weight[j] * x[i];
        dx[i] += weight[j] * grad[k];
        dweight[j] += x[i] * grad[k];
    });
    let all = |values: &[f64]| values.iter().map(|&v| of(v)).collect::<Vec<T>>();
    let [y, dx, dweight] = [y, dx, dweight].map(|values| all(&values));
    let [x, weight, grad, y_bias, x_bias] = [x, weight, grad, y_bias, x_bias].map(|v| all(&v));
    for threads in [1, 3] {
        with_threads(threads, || {
            let mut got = vec![of(99.0); y.len()];
            T::forward(g, &x, &weight, Some(&y_bias), &mut got);
            assert!(got == y, "forward of {g:?}");
            let mut got = vec![of(99.0); dx.len()];
            T::input_gradient(g, &grad, &weight, Some(&x_bias), &mut got);
            assert!(got == dx, "input gradient of {g:?}");
            let mut got = vec![of(99.0); dweight.len()];
            T::weight_gradient(g, &grad, &x, &mut got);
            assert!(got == dweight, "weight gradient of {g:?}");
        });
    }
}

fn geometries() -> Vec<Geometry> {
    let one = [1, 1];
    vec![
        geometry([2, 1, 5, 6], [9, 40], [3, 3], one, one, one),
        geometry([1, 1, 7, 20], [33, 35], [3, 3], one, one, one),
        geometry([9, 1, 6, 5], [7, 7], [3, 3], one, one, one),
        geometry([3, 2, 5, 3], [12, 37], [3, 4], [2, 2], [1, 2], one),
        geometry([3, 1, 5, 9], [40, 37], [3, 2], [3, 3], [0, 1], [2, 1]),
        geometry([2, 1, 9, 5], [20, 50], one, one, [0, 0], one),
        geometry([2, 1, 9, 5], [20, 21], one, [2, 3], [1, 0], one),
        geometry([5, 6, 1, 1], [20, 70], [3, 3], one, one, one),
        geometry([2, 3, 1, 2], [19, 33], [5, 3], [2, 3], [2, 1], [1, 2]),
        geometry([2, 2, 2, 4], [65, 49], [2, 5], [1, 2], [3, 0], [4, 1]),
        geometry([70, 2, 2, 1], [5, 5], [3, 3], one, [4, 4], one),
        geometry([1, 1, 40, 3], [1, 300], [1, 7], [1, 4], [0, 3], [1, 3]),
        // Loops along rows with every number of planes and filters that is taken at once, several
        // images together, bands of rows; and products of many channels in rows that fill no vector.
        geometry([7, 1, 1, 6], [14, 28], [5, 5], one, [2, 2], one),
        geometry([20, 1, 3, 23], [14, 14], [5, 5], one, [0, 0], one),
        geometry([3, 1, 17, 7], [40, 61], [3, 3], one, one, one),
        geometry([2, 1, 11, 2], [300, 45], [3, 2], [2, 1], one, one),
        geometry([2, 1, 31, 18], [9, 19], [3, 3], one, one, one),
        geometry([1, 1, 64, 4], [6, 32], [2, 2], one, [0, 0], one),
        geometry([2, 1, 5, 5], [30, 30], [2, 2], [7, 5], [0, 0], one),
        geometry([0, 1, 5, 5], [6, 6], [2, 2], one, one, one),
        geometry([2, 1, 0, 5], [6, 6], [2, 2], one, one, one),
    ]
}

/// The same kinds with a depth: of every way that windows can lie along it, beside products, loops along
/// rows, planes that lie side by side and ones that do not, and images that are taken together.
fn volumes() -> Vec<Geometry> {
    let one = [1, 1];
    let of = |planes: Geometry, z: Axis| Geometry { z, ..planes };
    vec![
        of(geometry([2, 1, 7, 20], [9, 19], [3, 3], one, one, one), axis(6, 3, 1, 1, 1)),
        of(geometry([3, 2, 5, 9], [7, 5], [3, 2], [2, 1], one, one), axis(7, 2, 2, 0, 3)),
        of(geometry([2, 1, 9, 12], [11, 9], [3, 3], [2, 2], one, one), axis(8, 3, 3, 2, 1)),
        of(geometry([9, 1, 5, 6], [3, 3], [2, 2], one, one, one), axis(3, 2, 1, 0, 1)),
        of(geometry([2, 1, 9, 5], [6, 20], one, one, [0, 0], one), axis(4, 1, 1, 0, 1)),
        of(geometry([2, 1, 9, 5], [6, 20], one, one, [0, 0], one), axis(9, 1, 4, 0, 1)),
        of(geometry([2, 1, 20, 9], [6, 20], one, one, [0, 0], one), axis(5, 3, 2, 1, 1)),
        of(geometry([3, 1, 1, 2], [12, 20], [3, 3], one, one, one), axis(5, 3, 1, 1, 1)),
        of(geometry([2, 2, 2, 3], [12, 33], [3, 2], [2, 2], one, one), axis(7, 3, 2, 1, 2)),
        of(geometry([2, 1, 2, 3], [9, 32], [2, 2], [3, 3], [0, 0], one), axis(8, 2, 3, 0, 1)),
        of(geometry([2, 1, 3, 2], [90, 90], [3, 3], one, one, one), axis(3, 3, 1, 1, 1)),
        // A volume of depth 1 that is seen from more positions than one.
        of(geometry([2, 1, 5, 7], [9, 20], [3, 3], one, one, one), axis(1, 2, 1, 2, 1)),
        of(geometry([2, 1, 1, 2], [9, 20], [3, 3], one, one, one), axis(1, 1, 1, 1, 1)),
        of(geometry([0, 1, 5, 5], [6, 6], [2, 2], one, one, one), axis(3, 2, 1, 0, 1)),
    ]
}

#[test]
fn f32_and_f64_agree_with_loops_over_all_indices() {
    for g in &[geometries(), volumes()].concat() {
        check(g, |v| v as f32);
        check(g, |v| v);
    }
}

#[test]
fn reduced_precisions_round_the_exact_sum_once() {
    for g in &[geometries(), volumes()].concat() {
        check(g, f16::from_f64);
        check(g, bf16::from_f64);
    }
}

#[test]
fn elements_that_no_window_sees_have_no_gradient_and_are_not_read() {
    // The last row and column are never seen; windows are further apart than they are large.
    for channels in [1, 6] {
        let g = geometry([1, 1, channels, 6], [8, 38], [2, 2], [3, 3], [0, 0], [1, 1]);
        let mut x = vec![1.0f32; channels * 8 * 38];
        for (i, x) in x.iter_mut().enumerate() {
            let (row, column) = (i / 38 % 8, i % 38);
            if row % 3 == 2 || column % 3 == 2 {
                *x = f32::NAN;
            }
        }
        let weight = vec![1.0f32; g.weights()];
        let mut y = vec![0.0; 6 * g.output_plane()];
        f32::forward(&g, &x, &weight, None, &mut y);
        assert!(y.iter().all(|&y| y == 4.0 * channels as f32));
        let mut dweight = vec![0.0; weight.len()];
        f32::weight_gradient(&g, &y, &x, &mut dweight);
        assert!(dweight.iter().all(|d| d.is_finite()));
        let mut dx = vec![f32::NAN; x.len()];
        f32::input_gradient(&g, &y, &weight, None, &mut dx);
        for (i, (dx, x)) in dx.iter().zip(&x).enumerate() {
            assert_eq!(*dx == 0.0, x.is_nan(), "element {i}");
        }
    }
}

#[test]
fn windows_whose_elements_are_very_far_apart_take_no_memory_for_what_lies_between() {
    // Only the middle of the window ever sees the image.
    for (down, right) in [(1usize << 43, (1 << 20) - 8), (20_000, 20_000), (5, 1 << 40)] {
        let y = Axis::over(2, 3, 1, down, down).expect("an axis");
        let x = Axis::over(2, 3, 1, right, right).expect("an axis");
        let g = Geometry { images: 1, groups: 1, channels: 1, filters: 1, z: Axis::SINGLE, y, x };
        let (image, weight) =
            ([1.0f64, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0]);
        let mut result = [0.0; 4];
        f64::forward(&g, &image, &weight, None, &mut result);
        assert_eq!(result, [2.0, 4.0, 6.0, 8.0]);
        f64::input_gradient(&g, &image, &weight, None, &mut result);
        assert_eq!(result, [2.0, 4.0, 6.0, 8.0]);
        let mut gradient = [f64::NAN; 9];
        f64::weight_gradient(&g, &image, &image, &mut gradient);
        assert_eq!(gradient, [0.0, 0.0, 0.0, 0.0, 30.0, 0.0, 0.0, 0.0, 0.0]);
    }
    let huge = Axis::over(1 << 40, 1, 1 << 40, 0, 1).expect("an axis");
    let none = Axis::over(0, 1, 1, 1, 1).expect("an axis");
    let g = Geometry { images: 1, groups: 1, channels: 1, filters: 1, z: huge, y: huge, x: none };
    let mut result = [f32::NAN; 2];
    f32::forward(&g, &[], &[1.0], Some(&[3.0]), &mut result);
    assert_eq!(result, [3.0; 2]);
}
