//! Promises that need a shape or values of their own.

use super::super::*;
use super::*;
use crate::par::with_threads;

#[test]
fn products_larger_than_the_packed_memory_are_cut_without_a_seam() {
    fn one<T: Tested>(random: &mut Random, dims: Dims) {
        let Dims { m, k, n } = dims;
        let (a, b) = (values::<T>(random, m * k), values::<T>(random, k * n));
        let expected = expected(dims, &a, &b, None);
        let (b_rows, b_cols) = (Stored::new(&b, k, n, 0), Stored::new(&b, k, n, 1));
        for (b, threads) in [(&b_rows, 1), (&b_cols, 3)] {
            let mut c = vec![T::of(0.0); m * n];
            let a = Matrix::row_major(&a, k);
            with_threads(threads, || matmul(dims, a, b.matrix(), false, &mut c, n));
            assert_near(dims, &c, &expected, "large");
        }
    }
    let mut random = Random(3);
    one::<f32>(&mut random, Dims { m: 2900, k: 300, n: 17 });
    one::<f32>(&mut random, Dims { m: 17, k: 300, n: 2900 });
    one::<f64>(&mut random, Dims { m: 1500, k: 390, n: 11 });
    one::<bf16>(&mut random, Dims { m: 800, k: 20, n: 790 });
    one::<f16>(&mut random, Dims { m: 5, k: 900, n: 4000 });
}

#[test]
fn every_element_is_one_chain_of_fused_multiply_adds_in_order() {
    let mut random = Random(11);
    for (m, k, n) in [(4, 4, 4), (16, 100, 30), (70, 900, 65), (12, 1000, 3), (3, 1000, 12)] {
        let (a, b) = (values::<f32>(&mut random, m * k), values::<f32>(&mut random, k * n));
        let mut c = values::<f32>(&mut random, m * n);
        let mut chain = c.clone();
        for (at, sum) in chain.iter_mut().enumerate() {
            for p in 0..k {
                *sum = a[at / n * k + p].mul_add(b[p * n + at % n], *sum);
            }
        }
        let dims = Dims { m, k, n };
        matmul(dims, Matrix::row_major(&a, k), Matrix::row_major(&b, n), true, &mut c, n);
        assert_eq!(bits(&c), bits(&chain), "{dims:?}");
    }
}

#[test]
fn long_sums_have_the_same_bits_for_any_layout_and_threads() {
    let mut random = Random(5);
    for (m, n) in [(1, 1), (3, 1), (1, 20), (9, 1)] {
        let dims = Dims { m, k: 200_003, n };
        let (a, b) = (values(&mut random, m * dims.k), values(&mut random, dims.k * n));
        let expected = expected::<f32>(dims, &a, &b, None);
        let mut first = None;
        for (layout, threads) in [(0, 1), (1, 2), (2, 4), (3, 1), (4, 2)] {
            let (a, b) = (Stored::new(&a, m, dims.k, layout), Stored::new(&b, dims.k, n, layout));
            let mut c = vec![0.0; m * n];
            with_threads(threads, || matmul(dims, a.matrix(), b.matrix(), false, &mut c, n));
            assert_near(dims, &c, &expected, "long");
            assert_eq!(*first.get_or_insert(bits(&c)), bits(&c), "{dims:?} layout {layout}");
        }
    }
}

#[test]
fn long_sums_of_whole_numbers_are_exact() {
    let mut random = Random(6);
    for (m, n) in [(1, 1), (3, 1), (1, 20), (9, 1)] {
        let dims = Dims { m, k: 200_003, n };
        let mut whole =
            |len: usize| -> Vec<f32> { (0..len).map(|_| random.below(9) as f32 - 4.0).collect() };
        let (a, b) = (whole(m * dims.k), whole(dims.k * n));
        let expected: Vec<f32> =
            expected(dims, &a, &b, None).iter().map(|&(sum, _)| sum as f32).collect();
        for layout in 0..LAYOUTS {
            let (a, b) = (Stored::new(&a, m, dims.k, layout), Stored::new(&b, dims.k, n, layout));
            let mut c = vec![0.0; m * n];
            matmul(dims, a.matrix(), b.matrix(), false, &mut c, n);
            assert_eq!(c, expected, "{dims:?} layout {layout}");
        }
    }
}

#[test]
fn a_stride_of_zero_repeats_a_row_or_a_column() {
    let mut random = Random(17);
    for (m, k, n) in [(5, 7, 9), (40, 90, 60), (1, 30, 20), (20, 30, 1)] {
        let (row, column) = (values::<f32>(&mut random, k), values::<f32>(&mut random, k));
        let a: Vec<f32> = (0..m).flat_map(|_| row.clone()).collect();
        let b: Vec<f32> = column.iter().flat_map(|&x| vec![x; n]).collect();
        let dims = Dims { m, k, n };
        let mut full = vec![0.0; m * n];
        matmul(dims, Matrix::row_major(&a, k), Matrix::row_major(&b, n), false, &mut full, n);
        let a = Matrix { data: &row, offset: 0, row_stride: 0, col_stride: 1 };
        let b = Matrix { data: &column, offset: 0, row_stride: 1, col_stride: 0 };
        let mut repeated = vec![0.0; m * n];
        matmul(dims, a, b, false, &mut repeated, n);
        assert_eq!(bits(&full), bits(&repeated), "{dims:?}");
    }
}

#[test]
fn zero_times_infinity_is_nan_in_every_kernel() {
    for (m, k, n) in [(3, 3, 3), (50, 40, 60), (1, 20, 30), (30, 20, 1), (1, 40, 1), (60, 50, 3)] {
        let (a, mut b) = (vec![0f32; m * k], vec![1f32; k * n]);
        b[(k - 1) * n] = f32::INFINITY;
        let mut c = vec![0.0; m * n];
        let dims = Dims { m, k, n };
        matmul(dims, Matrix::row_major(&a, k), Matrix::row_major(&b, n), false, &mut c, n);
        for (at, x) in c.iter().enumerate() {
            assert_eq!(x.is_nan(), at % n == 0, "{dims:?} at {at}");
        }
    }
}

#[test]
fn without_depth_the_product_is_zero_and_adds_nothing() {
    for (m, n) in [(1, 1), (3, 4), (0, 4), (4, 0)] {
        let dims = Dims { m, k: 0, n };
        let none = Matrix::row_major(&[0f32; 0], 0);
        let mut c = vec![5.0; m * n];
        matmul(dims, none, none, true, &mut c, n);
        assert!(c.iter().all(|&x| x == 5.0));
        matmul(dims, none, none, false, &mut c, n);
        assert!(c.iter().all(|&x| x == 0.0));
    }
}

#[test]
fn a_batch_has_the_bits_of_its_products_for_any_number_of_threads() {
    let mut random = Random(23);
    for (batch, m, k, n) in
        [(5, 3, 4, 5), (40, 20, 30, 10), (3, 70, 80, 90), (7, 1, 50, 6), (0, 2, 2, 2)]
    {
        let dims = Dims { m, k, n };
        let (a, b) = (values::<f32>(&mut random, 4 * m * k), values::<f32>(&mut random, 4 * k * n));
        let a_offsets: Vec<usize> = (0..batch).map(|i| i % 4 * m * k).collect();
        let b_offsets: Vec<usize> = (0..batch).map(|i| (i / 2 % 4) * k * n).collect();
        let (a, b) = (Matrix::row_major(&a, k), Matrix::row_major(&b, n));
        let mut each = vec![0.0; batch * m * n];
        for (i, c) in each.chunks_mut(m * n).enumerate() {
            let a = Matrix { offset: a_offsets[i], ..a };
            let b = Matrix { offset: b_offsets[i], ..b };
            matmul(dims, a, b, false, c, n);
            matmul(dims, a, b, true, c, n);
        }
        for threads in [1, 2, 4] {
            let mut c = vec![0.0; batch * m * n];
            with_threads(threads, || {
                matmul_batched(dims, a, &a_offsets, b, &b_offsets, false, &mut c);
                matmul_batched(dims, a, &a_offsets, b, &b_offsets, true, &mut c);
            });
            assert_eq!(bits(&c), bits(&each), "{batch} of {dims:?} with {threads} threads");
        }
    }
}

#[test]
#[should_panic(expected = "matrix B of 3 by 4 with strides 4 and 1 reaches elements 0 to 11 of 11")]
fn an_operand_that_reaches_outside_its_slice_is_refused() {
    let (a, b, mut c) = ([0f32; 6], [0f32; 11], [0f32; 8]);
    let dims = Dims { m: 2, k: 3, n: 4 };
    matmul(dims, Matrix::row_major(&a, 3), Matrix::row_major(&b, 4), false, &mut c, 4);
}

#[test]
#[should_panic(expected = "reaches elements -1 to")]
fn an_operand_that_reaches_before_its_slice_is_refused() {
    let (a, b, mut c) = ([0f32; 6], [0f32; 12], [0f32; 8]);
    let a = Matrix { data: &a, offset: 2, row_stride: -3, col_stride: 1 };
    matmul(Dims { m: 2, k: 3, n: 4 }, a, Matrix::row_major(&b, 4), false, &mut c, 4);
}

#[test]
#[should_panic(expected = "matrix C of 2 by 4 with rows 3 apart")]
fn rows_of_the_result_that_overlap_are_refused() {
    let (a, b, mut c) = ([0f32; 6], [0f32; 12], [0f32; 8]);
    let dims = Dims { m: 2, k: 3, n: 4 };
    matmul(dims, Matrix::row_major(&a, 3), Matrix::row_major(&b, 4), false, &mut c, 3);
}
