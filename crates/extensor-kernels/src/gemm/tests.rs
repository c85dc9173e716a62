//! What the product promises, against a triple loop.

use super::*;
use crate::par::with_threads;
use half::{bf16, f16};

/// Marsaglia's xorshift: the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n
    }

    fn extent(&mut self) -> usize {
        match self.below(6) {
            0 => self.below(3),
            1 => 1 + self.below(6),
            2 => 1 + self.below(20),
            3 | 4 => 1 + self.below(70),
            _ => 1 + self.below(420),
        }
    }
}

/// A type under test: how numbers get in and out, and half the distance from 1 to the next.
trait Tested: Element + PartialEq + std::fmt::Debug {
    const EPS: f64;
    const ACC_EPS: f64;
    fn of(x: f64) -> Self;
    fn to(self) -> f64;
    fn bits(self) -> u64;
}

macro_rules! tested {
    ($($t:ident $eps:expr, $acc:expr, $of:expr, $to:expr;)*) => {$(
        impl Tested for $t {
            const EPS: f64 = $eps;
            const ACC_EPS: f64 = $acc;
            fn of(x: f64) -> Self {
                $of(x)
            }
            fn to(self) -> f64 {
                $to(self)
            }
            fn bits(self) -> u64 {
                self.to_bits() as u64
            }
        }
    )*};
}

tested! {
    f32 f32::EPSILON as f64 / 2.0, f32::EPSILON as f64 / 2.0, |x| x as f32, |x| x as f64;
    f64 f64::EPSILON / 2.0, f64::EPSILON / 2.0, |x| x, |x| x;
    f16 1.0 / 2048.0, f32::EPSILON as f64 / 2.0, f16::from_f64, f16::to_f64;
    bf16 1.0 / 256.0, f32::EPSILON as f64 / 2.0, bf16::from_f64, bf16::to_f64;
}

/// The ways in which one matrix can lie in memory.
const LAYOUTS: usize = 7;

/// Values, row after row, and where they lie.
struct Stored<T> {
    data: Vec<T>,
    offset: usize,
    row_stride: isize,
    col_stride: isize,
}

impl<T: Tested> Stored<T> {
    fn new(values: &[T], rows: usize, cols: usize, layout: usize) -> Self {
        let (r, c) = (rows.max(1) as isize, cols.max(1) as isize);
        let (row_stride, col_stride) = match layout {
            0 => (c, 1),
            1 => (1, r),
            2 => (c + 3, 1),
            3 => (1, r + 5),
            4 => (3 * c + 1, 3),
            5 => (-c, 1),
            _ => (2, -2 * r - 1),
        };
        // An odd start, so that nothing is aligned by luck.
        let first = 1 + layout as isize;
        let back = |n: isize, stride: isize| (n - 1) * (-stride).max(0);
        let offset = (first + back(r, row_stride) + back(c, col_stride)) as usize;
        let len = offset as isize + (r - 1) * row_stride.max(0) + (c - 1) * col_stride.max(0) + 1;
        // What is not in the matrix must not be in the result.
        let mut data = vec![T::of(f64::NAN); len as usize];
        for (at, &value) in values.iter().enumerate() {
            let (i, j) = ((at / cols) as isize, (at % cols) as isize);
            data[(offset as isize + i * row_stride + j * col_stride) as usize] = value;
        }
        Stored {
            data,
            offset,
            row_stride,
            col_stride,
        }
    }

    fn matrix(&self) -> Matrix<'_, T> {
        let &Stored {
            offset,
            row_stride,
            col_stride,
            ..
        } = self;
        Matrix {
            data: &self.data,
            offset,
            row_stride,
            col_stride,
        }
    }
}

fn values<T: Tested>(random: &mut Random, len: usize) -> Vec<T> {
    (0..len)
        .map(|_| T::of((random.next() >> 40) as f64 / (1u64 << 23) as f64 - 1.0))
        .collect()
}

/// Below this, `f16` has fewer digits.
const SMALL: f64 = 1.0 / 16384.0;

/// The product by its definition, and the bound on the error of any order of summation.
fn expected<T: Tested>(dims: Dims, a: &[T], b: &[T], c: Option<&[T]>) -> Vec<(f64, f64)> {
    let Dims { m, k, n } = dims;
    let one = |at: usize| {
        let (i, j) = (at / n, at % n);
        let start = c.map_or(0.0, |c| c[at].to());
        let (mut sum, mut size) = (start, start.abs());
        for p in 0..k {
            let term = a[i * k + p].to() * b[p * n + j].to();
            sum += term;
            size += term.abs();
        }
        (
            sum,
            size * (k + 2) as f64 * (T::ACC_EPS + f64::EPSILON)
                + sum.abs().max(SMALL) * T::EPS * 1.01,
        )
    };
    (0..m * n).map(one).collect()
}

fn assert_near<T: Tested>(dims: Dims, got: &[T], expected: &[(f64, f64)], what: &str) {
    assert_eq!(got.len(), expected.len());
    for (at, (&got, &(value, bound))) in got.iter().zip(expected).enumerate() {
        let off = (got.to() - value).abs();
        assert!(
            off <= bound,
            "{dims:?} {what} at {at}: {got:?} for {value}, bound {bound}"
        );
    }
}

fn bits<T: Tested>(values: &[T]) -> Vec<u64> {
    values.iter().map(|x| x.bits()).collect()
}

/// One shape: every layout of A with some layout of B, against the definition and each other.
fn check<T: Tested>(random: &mut Random, dims: Dims) {
    let Dims { m, k, n } = dims;
    let (a, b) = (values::<T>(random, m * k), values::<T>(random, k * n));
    let before = values::<T>(random, m * n);
    let plain = expected(dims, &a, &b, None);
    let added = expected(dims, &a, &b, Some(&before));
    let mut first: Option<[Vec<u64>; 2]> = None;
    for layout in 0..LAYOUTS {
        let other = random.below(LAYOUTS);
        let (sa, sb) = (Stored::new(&a, m, k, layout), Stored::new(&b, k, n, other));
        let threads = [1, 2, 4][layout % 3];
        let got = with_threads(threads, || {
            // Rows apart, with something between them that must stay.
            let stride = n + layout;
            let mut c = vec![T::of(7.0); m * stride];
            matmul(dims, sa.matrix(), sb.matrix(), false, &mut c, stride);
            let rows = c.chunks(stride.max(1));
            let outside = rows.clone().flat_map(|row| &row[n.min(row.len())..]);
            assert!(
                outside.into_iter().all(|&x| x == T::of(7.0)),
                "{dims:?} wrote beyond C"
            );
            let c: Vec<T> = rows.flat_map(|row| row[..n].iter().copied()).collect();
            let mut sum = before.clone();
            matmul(dims, sa.matrix(), sb.matrix(), true, &mut sum, n);
            [c, sum]
        });
        let what = format!("layouts {layout} and {other}, {threads} threads");
        assert_near(dims, &got[0], &plain, &what);
        assert_near(dims, &got[1], &added, &what);
        let got = got.map(|c| bits(&c));
        let first = first.get_or_insert_with(|| got.clone());
        assert_eq!(
            &got, first,
            "{dims:?} {what}: other bits than those of the first layout"
        );
    }
}

fn check_many<T: Tested>(seed: u64) {
    let mut random = Random(seed);
    for _ in 0..40 {
        let dims = Dims {
            m: random.extent(),
            k: random.extent(),
            n: random.extent(),
        };
        check::<T>(&mut random, dims);
    }
    // One row, one column or both; and shapes on either side of a choice of kernel.
    let shapes = [
        (1, 300, 1),
        (1, 1000, 40),
        (33, 517, 1),
        (600, 70, 1),
        (1, 70, 600),
        (5, 1, 9),
        (1, 1, 1),
        (32, 32, 32),
        (33, 32, 32),
        (9, 800, 48),
        (10, 385, 49),
        (100, 20, 3),
        (3, 20, 100),
        (2, 900, 2),
        (300, 130, 5),
    ];
    for (m, k, n) in shapes {
        check::<T>(&mut random, Dims { m, k, n });
    }
}

#[test]
fn products_of_f32_match_the_definition_with_the_same_bits_for_any_layout_and_threads() {
    check_many::<f32>(0x9E37_79B9_7F4A_7C15);
}

#[test]
fn products_of_f64_match_the_definition_with_the_same_bits_for_any_layout_and_threads() {
    check_many::<f64>(0xBF58_476D_1CE4_E5B9);
}

#[test]
fn products_of_f16_match_the_definition_with_the_same_bits_for_any_layout_and_threads() {
    check_many::<f16>(0x94D0_49BB_1331_11EB);
}

#[test]
fn products_of_bf16_match_the_definition_with_the_same_bits_for_any_layout_and_threads() {
    check_many::<bf16>(0xD6E8_FEB8_6659_FD93);
}

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
    one::<f32>(
        &mut random,
        Dims {
            m: 2900,
            k: 300,
            n: 17,
        },
    );
    one::<f32>(
        &mut random,
        Dims {
            m: 17,
            k: 300,
            n: 2900,
        },
    );
    one::<f64>(
        &mut random,
        Dims {
            m: 1500,
            k: 390,
            n: 11,
        },
    );
    one::<bf16>(
        &mut random,
        Dims {
            m: 800,
            k: 20,
            n: 790,
        },
    );
    one::<f16>(
        &mut random,
        Dims {
            m: 5,
            k: 900,
            n: 4000,
        },
    );
}

#[test]
fn every_element_is_one_chain_of_fused_multiply_adds_in_order() {
    let mut random = Random(11);
    for (m, k, n) in [
        (4, 4, 4),
        (16, 100, 30),
        (70, 900, 65),
        (12, 1000, 3),
        (3, 1000, 12),
    ] {
        let (a, b) = (
            values::<f32>(&mut random, m * k),
            values::<f32>(&mut random, k * n),
        );
        let mut c = values::<f32>(&mut random, m * n);
        let mut chain = c.clone();
        for (at, sum) in chain.iter_mut().enumerate() {
            for p in 0..k {
                *sum = a[at / n * k + p].mul_add(b[p * n + at % n], *sum);
            }
        }
        let dims = Dims { m, k, n };
        matmul(
            dims,
            Matrix::row_major(&a, k),
            Matrix::row_major(&b, n),
            true,
            &mut c,
            n,
        );
        assert_eq!(bits(&c), bits(&chain), "{dims:?}");
    }
}

#[test]
fn long_sums_have_the_same_bits_for_any_layout_and_threads() {
    let mut random = Random(5);
    for (m, n) in [(1, 1), (3, 1), (1, 20), (9, 1)] {
        let dims = Dims { m, k: 200_003, n };
        let (a, b) = (
            values(&mut random, m * dims.k),
            values(&mut random, dims.k * n),
        );
        let expected = expected::<f32>(dims, &a, &b, None);
        let mut first = None;
        for (layout, threads) in [(0, 1), (1, 2), (2, 4), (3, 1), (4, 2)] {
            let (a, b) = (
                Stored::new(&a, m, dims.k, layout),
                Stored::new(&b, dims.k, n, layout),
            );
            let mut c = vec![0.0; m * n];
            with_threads(threads, || {
                matmul(dims, a.matrix(), b.matrix(), false, &mut c, n)
            });
            assert_near(dims, &c, &expected, "long");
            assert_eq!(
                *first.get_or_insert(bits(&c)),
                bits(&c),
                "{dims:?} layout {layout}"
            );
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
        matmul(
            dims,
            Matrix::row_major(&a, k),
            Matrix::row_major(&b, n),
            false,
            &mut full,
            n,
        );
        let a = Matrix {
            data: &row,
            offset: 0,
            row_stride: 0,
            col_stride: 1,
        };
        let b = Matrix {
            data: &column,
            offset: 0,
            row_stride: 1,
            col_stride: 0,
        };
        let mut repeated = vec![0.0; m * n];
        matmul(dims, a, b, false, &mut repeated, n);
        assert_eq!(bits(&full), bits(&repeated), "{dims:?}");
        assert_near(
            dims,
            &full,
            &expected(dims, &full_rows(&row, m), &wide(&column, n), None),
            "",
        );
    }
    fn full_rows(row: &[f32], m: usize) -> Vec<f32> {
        row.repeat(m)
    }
    fn wide(column: &[f32], n: usize) -> Vec<f32> {
        column.iter().flat_map(|&x| vec![x; n]).collect()
    }
}

#[test]
fn zero_times_infinity_is_nan_in_every_kernel() {
    for (m, k, n) in [
        (3, 3, 3),
        (50, 40, 60),
        (1, 20, 30),
        (30, 20, 1),
        (1, 40, 1),
        (60, 50, 3),
    ] {
        let (a, mut b) = (vec![0f32; m * k], vec![1f32; k * n]);
        b[(k - 1) * n] = f32::INFINITY;
        let mut c = vec![0.0; m * n];
        let dims = Dims { m, k, n };
        matmul(
            dims,
            Matrix::row_major(&a, k),
            Matrix::row_major(&b, n),
            false,
            &mut c,
            n,
        );
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
    for (batch, m, k, n) in [
        (5, 3, 4, 5),
        (40, 20, 30, 10),
        (3, 70, 80, 90),
        (7, 1, 50, 6),
        (0, 2, 2, 2),
    ] {
        let dims = Dims { m, k, n };
        let (a, b) = (
            values::<f32>(&mut random, 4 * m * k),
            values::<f32>(&mut random, 4 * k * n),
        );
        let a_offsets: Vec<usize> = (0..batch).map(|i| i % 4 * m * k).collect();
        let b_offsets: Vec<usize> = (0..batch).map(|i| (i / 2 % 4) * k * n).collect();
        let (a, b) = (Matrix::row_major(&a, k), Matrix::row_major(&b, n));
        let mut each = vec![0.0; batch * m * n];
        for (i, c) in each.chunks_mut(m * n).enumerate() {
            let a = Matrix {
                offset: a_offsets[i],
                ..a
            };
            let b = Matrix {
                offset: b_offsets[i],
                ..b
            };
            matmul(dims, a, b, false, c, n);
            matmul(dims, a, b, true, c, n);
        }
        for threads in [1, 2, 4] {
            let mut c = vec![0.0; batch * m * n];
            with_threads(threads, || {
                matmul_batched(dims, a, &a_offsets, b, &b_offsets, false, &mut c);
                matmul_batched(dims, a, &a_offsets, b, &b_offsets, true, &mut c);
            });
            assert_eq!(
                bits(&c),
                bits(&each),
                "{batch} of {dims:?} with {threads} threads"
            );
        }
    }
}

#[test]
#[should_panic(expected = "matrix B of 3 by 4 with strides 4 and 1 reaches elements 0 to 11 of 11")]
fn an_operand_that_reaches_outside_its_slice_is_refused() {
    let (a, b, mut c) = ([0f32; 6], [0f32; 11], [0f32; 8]);
    let dims = Dims { m: 2, k: 3, n: 4 };
    matmul(
        dims,
        Matrix::row_major(&a, 3),
        Matrix::row_major(&b, 4),
        false,
        &mut c,
        4,
    );
}

#[test]
#[should_panic(expected = "reaches elements -1 to")]
fn an_operand_that_reaches_before_its_slice_is_refused() {
    let (a, b, mut c) = ([0f32; 6], [0f32; 12], [0f32; 8]);
    let a = Matrix {
        data: &a,
        offset: 2,
        row_stride: -3,
        col_stride: 1,
    };
    matmul(
        Dims { m: 2, k: 3, n: 4 },
        a,
        Matrix::row_major(&b, 4),
        false,
        &mut c,
        4,
    );
}

#[test]
#[should_panic(expected = "matrix C of 2 by 4 with rows 3 apart")]
fn rows_of_the_result_that_overlap_are_refused() {
    let (a, b, mut c) = ([0f32; 6], [0f32; 12], [0f32; 8]);
    let dims = Dims { m: 2, k: 3, n: 4 };
    matmul(
        dims,
        Matrix::row_major(&a, 3),
        Matrix::row_major(&b, 4),
        false,
        &mut c,
        3,
    );
}
