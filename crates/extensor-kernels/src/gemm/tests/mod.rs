//! What the product promises, against a triple loop: in general here, in particular in `cases`.

mod cases;
#[cfg(target_arch = "x86_64")]
mod pairs;

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
        Stored { data, offset, row_stride, col_stride }
    }

    fn matrix(&self) -> Matrix<'_, T> {
        let &Stored { offset, row_stride, col_stride, .. } = self;
        Matrix { data: &self.data, offset, row_stride, col_stride }
    }
}

fn values<T: Tested>(random: &mut Random, len: usize) -> Vec<T> {
    (0..len).map(|_| T::of((random.next() >> 40) as f64 / (1u64 << 23) as f64 - 1.0)).collect()
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
        assert!(off <= bound, "{dims:?} {what} at {at}: {got:?} for {value}, bound {bound}");
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
            assert!(outside.into_iter().all(|&x| x == T::of(7.0)), "{dims:?} wrote beyond C");
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
        assert_eq!(&got, first, "{dims:?} {what}: other bits than those of the first layout");
    }
}

fn check_many<T: Tested>(seed: u64) {
    let mut random = Random(seed);
    for _ in 0..40 {
        let dims = Dims { m: random.extent(), k: random.extent(), n: random.extent() };
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
