//! What products of `bf16` numbers by a unit promise, for every unit that the machine has.

use super::super::pairs::{self, pack::Side};
use super::super::*;
use super::*;
use crate::isa::{Unit, units};
use crate::par::with_threads;
use std::ops::Range;

/// The product by a unit, of operands that have the extents in `dims`.
fn product<O: Element<Acc = f32>>(
    unit: Unit,
    dims: Dims,
    a: &impl Source<f32>,
    b: &impl Source<f32>,
    accumulate: bool,
    c: &mut [O],
) {
    assert_eq!(c.len(), dims.m * dims.n);
    let c = Target { first: c.as_mut_ptr(), row: dims.n, col: 1 };
    // SAFETY: the machine has the unit, C is all of `c`, and `O` is `bf16` or `f32`.
    unsafe { pairs::product(unit, dims, a, b, accumulate, c) };
}

fn operands<'a>(
    dims: Dims,
    a: &'a Stored<bf16>,
    b: &'a Stored<bf16>,
) -> (Strided<'a, bf16>, Strided<'a, bf16>) {
    let Dims { m, k, n } = dims;
    (a.matrix().lanes(m, k), b.matrix().transposed().lanes(n, k))
}

/// What has its numbers in no memory that anybody could read.
struct Hidden<'a>(Strided<'a, bf16>);

impl Source<f32> for Hidden<'_> {
    fn pack(&self, lanes: Range<usize>, depth: Range<usize>, panels: Panels, out: &mut [f32]) {
        self.0.pack(lanes, depth, panels, out);
    }
}

fn check_unit(random: &mut Random, unit: Unit, dims: Dims) {
    let Dims { m, k, n } = dims;
    let (a, b) = (values::<bf16>(random, m * k), values::<bf16>(random, k * n));
    let before = values::<bf16>(random, m * n);
    let plain = expected(dims, &a, &b, None);
    let added = expected(dims, &a, &b, Some(&before));
    let wide_before: Vec<f32> = before.iter().map(|x| x.to_f32()).collect();
    let mut first = None;
    for (layout, threads) in (0..LAYOUTS).zip([1, 2, 3, 5, 8, 16, 1]) {
        let other = random.below(LAYOUTS);
        let (sa, sb) = (Stored::new(&a, m, k, layout), Stored::new(&b, k, n, other));
        let (a, b) = operands(dims, &sa, &sb);
        let mut c = [vec![bf16::NAN; m * n], before.clone()];
        let mut wide = [vec![f32::NAN; m * n], wide_before.clone()];
        with_threads(threads, || {
            for accumulate in [false, true] {
                let at = usize::from(accumulate);
                product(unit, dims, &a, &b, accumulate, &mut c[at]);
                product(unit, dims, &Hidden(a), &Hidden(b), accumulate, &mut wide[at]);
            }
        });
        let what = format!("{unit:?}, layouts {layout} and {other}, {threads} threads");
        assert_near(dims, &c[0], &plain, &what);
        assert_near(dims, &c[1], &added, &what);
        let rounded = wide
            .each_ref()
            .map(|wide| bits(&wide.iter().map(|&x| bf16::from_f32(x)).collect::<Vec<bf16>>()));
        let got = (c.map(|c| bits(&c)), wide.map(|c| bits(&c)));
        assert_eq!(got.0, rounded, "{dims:?} {what}: sums in f32 are rounded once");
        let first = first.get_or_insert_with(|| got.clone());
        assert_eq!(&got, first, "{dims:?} {what}: other bits than those of the first layout");
    }
}

#[test]
fn products_of_every_unit_match_the_definition_with_the_same_bits_for_any_layout_and_threads() {
    let mut random = Random(0xA076_1D64_78BD_642F);
    for unit in units() {
        for _ in 0..60 {
            let mut extent = || 1 + random.below(70);
            let dims = Dims { m: extent(), k: extent(), n: extent() };
            check_unit(&mut random, unit, dims);
        }
        // Whole tiles, one more and one less; several stretches; several patches.
        for (m, k, n) in [
            (32, 32, 32),
            (16, 64, 48),
            (33, 31, 65),
            (1, 1, 1),
            (17, 512, 15),
            (20, 513, 31),
            (40, 2100, 35),
            (3, 5000, 2),
            (300, 70, 530),
            (260, 1100, 130),
        ] {
            check_unit(&mut random, unit, Dims { m, k, n });
        }
    }
}

#[test]
fn what_does_not_fit_in_the_packed_memory_is_cut_without_a_seam() {
    let mut random = Random(0xE703_7ED1_A0B4_28DB);
    for unit in units() {
        for (m, k, n) in [(1100, 20, 40), (30, 20, 2100), (2, 140_000, 3), (1030, 40, 2060)] {
            let dims = Dims { m, k, n };
            let (a, b) = (values::<bf16>(&mut random, m * k), values::<bf16>(&mut random, k * n));
            let expected = expected(dims, &a, &b, None);
            let (a, b) = (Stored::new(&a, m, k, 0), Stored::new(&b, k, n, 1));
            let (a, b) = operands(dims, &a, &b);
            for threads in [1, 3] {
                let mut c = vec![bf16::NAN; m * n];
                with_threads(threads, || product(unit, dims, &a, &b, false, &mut c));
                assert_near(dims, &c, &expected, "large");
            }
        }
    }
}

#[test]
fn infinities_and_nan_are_where_they_belong_and_nowhere_else() {
    for unit in units() {
        for (m, k, n) in [(3, 3, 3), (50, 40, 60), (33, 520, 17), (60, 50, 3)] {
            let dims = Dims { m, k, n };
            let one = bf16::ONE;
            let (mut a, mut b) = (vec![one; m * k], vec![one; k * n]);
            // Column 0 meets an infinity, which row 0 multiplies by zero; row 1 has a NaN.
            b[(k - 1) * n] = bf16::INFINITY;
            a[k - 1] = bf16::ZERO;
            a[k + 1] = bf16::NAN;
            let (a, b) = (Stored::new(&a, m, k, 0), Stored::new(&b, k, n, 0));
            let (a, b) = operands(dims, &a, &b);
            let mut c = vec![bf16::ZERO; m * n];
            product(unit, dims, &a, &b, false, &mut c);
            for (at, x) in c.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let nan = i == 1 || (i == 0 && j == 0);
                assert_eq!(x.is_nan(), nan, "{unit:?} {dims:?} at {i}, {j}");
                assert_eq!(x.is_infinite(), j == 0 && !nan, "{unit:?} {dims:?} at {i}, {j}");
            }
        }
    }
}

#[test]
fn subnormal_operands_count_and_a_subnormal_that_is_added_to_stays() {
    let tiny = bf16::from_bits(3);
    for unit in units() {
        // The last is shared among threads.
        for (m, k, n) in [(5, 7, 9), (40, 90, 60), (20, 1100, 33), (170, 160, 180)] {
            let dims = Dims { m, k, n };
            for in_a in [false, true] {
                let scale = bf16::from_f32(2f32.powi(120));
                let (mut a, mut b) = (vec![bf16::ZERO; m * k], vec![bf16::ZERO; k * n]);
                let (here, there) = if in_a { (tiny, scale) } else { (scale, tiny) };
                a[(m - 1) * k + k - 1] = here;
                b[(k - 1) * n + n - 1] = there;
                for (layout, threads) in (0..LAYOUTS).zip([1, 2, 3, 5, 8, 16, 1]) {
                    let (a, b) = (Stored::new(&a, m, k, layout), Stored::new(&b, k, n, layout));
                    let (a, b) = operands(dims, &a, &b);
                    let mut c = [vec![bf16::NAN; m * n], vec![bf16::NAN; m * n]];
                    with_threads(threads, || {
                        product(unit, dims, &a, &b, false, &mut c[0]);
                        product(unit, dims, &Hidden(a), &Hidden(b), false, &mut c[1]);
                    });
                    for c in c {
                        let (last, others) = c.split_last().expect("an element");
                        assert_eq!(
                            last.to_f32(),
                            tiny.to_f32() * scale.to_f32(),
                            "{unit:?} {dims:?}"
                        );
                        assert!(others.iter().all(|x| x.to_bits() == 0), "{unit:?} {dims:?}");
                    }
                }
            }
            let (a, b) = (vec![bf16::ZERO; m * k], vec![bf16::ONE; k * n]);
            let (a, b) = (Stored::new(&a, m, k, 0), Stored::new(&b, k, n, 0));
            let (a, b) = operands(dims, &a, &b);
            let mut c = vec![tiny; m * n];
            product(unit, dims, &a, &b, true, &mut c);
            assert!(c.iter().all(|&x| x == tiny), "{unit:?} {dims:?}");
        }
    }
}

#[test]
fn a_stride_of_zero_repeats_a_number() {
    for unit in units() {
        let dims = Dims { m: 37, k: 70, n: 41 };
        let two = [bf16::from_f32(2.0)];
        let all = Matrix { data: &two, offset: 0, row_stride: 0, col_stride: 0 };
        let mut c = vec![0f32; dims.m * dims.n];
        product(unit, dims, &all.lanes(37, 70), &all.lanes(41, 70), false, &mut c);
        assert!(c.iter().all(|&x| x == 280.0));
    }
}

#[test]
fn pairs_are_packed_alike_from_every_layout_and_what_is_beyond_the_ends_is_zero() {
    if units().is_empty() {
        return;
    }
    let mut random = Random(0x8EBC_6AF0_9C88_C6E3);
    for (lanes, depth) in [(16, 32), (5, 7), (37, 71), (64, 1), (1, 64), (100, 530)] {
        let numbers = values::<bf16>(&mut random, lanes * depth);
        for side in [Side::Rows, Side::Columns] {
            let (tiles, groups) = (depth.div_ceil(32), lanes.div_ceil(16));
            let mut right = vec![0u32; groups * tiles * 256];
            for (at, x) in numbers.iter().enumerate() {
                let (lane, p) = (at / depth, at % depth);
                let (row, col) = match side {
                    Side::Rows => (lane % 16, p % 32 / 2),
                    Side::Columns => (p % 32 / 2, lane % 16),
                };
                let tile = (lane / 16 * tiles + p / 32) * 256;
                right[tile + row * 16 + col] |= u32::from(x.to_bits()) << (p % 2 * 16);
            }
            for layout in 0..LAYOUTS {
                let stored = Stored::new(&numbers, lanes, depth, layout);
                let from = stored.matrix().lanes(lanes, depth);
                let mut got = vec![u32::MAX; right.len()];
                assert!(!from.pack_pairs(0..lanes, 0..depth, side, &mut got));
                assert_eq!(got, right, "{lanes} by {depth}, {side:?}, layout {layout}");
                got.fill(u32::MAX);
                assert!(!Hidden(from).pack_pairs(0..lanes, 0..depth, side, &mut got));
                assert_eq!(got, right, "{lanes} by {depth}, {side:?}, layout {layout}, hidden");
            }
        }
    }
}

#[test]
fn sums_are_rounded_as_single_numbers_are() {
    // Each of these times 1, plus another.
    let mut random = Random(0x5899_65CC_7537_4CC3);
    for unit in units() {
        let (m, n) = (40, 50);
        let dims = Dims { m, k: 1, n };
        let a: Vec<bf16> = (0..m).map(|_| bf16::from_bits(random.next() as u16)).collect();
        let before: Vec<bf16> = (0..m * n).map(|_| bf16::from_bits(random.next() as u16)).collect();
        let (a_stored, b) = (Stored::new(&a, m, 1, 0), Stored::new(&vec![bf16::ONE; n], 1, n, 0));
        let (a_lanes, b) = operands(dims, &a_stored, &b);
        let mut c = before.clone();
        product(unit, dims, &a_lanes, &b, true, &mut c);
        for (at, &x) in c.iter().enumerate() {
            let right = bf16::from_f32(before[at].to_f32() + a[at / n].to_f32());
            assert!(x == right || (x.is_nan() && right.is_nan()), "{x} for {right}");
        }
    }
}
