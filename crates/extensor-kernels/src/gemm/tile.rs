//! The micro kernel: one tile of C, held in registers while the depth runs by.
//!
//! Every element of C is one chain of fused multiply-adds in the order of the depth, begun from
//! zero or from what C held. A chain that is written to C and picked up again for the next stretch
//! of depth is the same chain, so neither the cutting of the work nor the register width shows in
//! the result.

use super::Real;
use super::simd::{Simd, Work, prefetch, prefetch_far};

/// The most rows a tile has with any instruction set.
pub(super) const MAX_ROWS: usize = 9;

/// Registers a tile is wide, at most.
pub(super) const WIDTH: usize = 3;

/// The most rows of a tile whose operands are read where they lie: an address for each row of A
/// must fit in the general registers.
pub(super) const DIRECT_ROWS: usize = 4;

/// Rows of A that are reached from one address.
const THIRD: usize = 3;

/// How many depths ahead a tile that copies B asks for it.
const AHEAD: isize = 8;

/// One tile: `c[i, j] = (start: c[i, j] or 0) + Σ_p a[i, p] * b[p, j]`.
pub(super) struct Tile<T> {
    /// Rows of the tile.
    pub rows: usize,
    /// Columns of the tile, at most `WIDTH` registers.
    pub cols: usize,
    /// How far `p` runs.
    pub depth: usize,
    /// A: element `(i, p)` is at `i * a_row + p * a_step`.
    pub a: *const T,
    /// See `a`.
    pub a_row: isize,
    /// See `a`.
    pub a_step: isize,
    /// B: element `(p, j)` is at `p * b_step + j`.
    pub b: *const T,
    /// See `b`; in a panel, `cols` rounded up to whole registers.
    pub b_step: isize,
    /// Where a tile that copies B leaves it as a panel.
    pub panel: *mut T,
    /// C: element `(i, j)` is at `i * c_row + j`.
    pub c: *mut T,
    /// See `c`.
    pub c_row: usize,
    /// Whether to start from what C holds rather than from zero.
    pub load_c: bool,
    /// What the tiles after this one need, brought near while this one is computed.
    pub next: Next<T>,
}

/// What is to be brought near.
#[derive(Clone, Copy)]
pub(super) struct Next<T> {
    /// Where the next tile begins in C: nothing can be added to a tile before it is there.
    pub c: *const T,
    /// A part of the rows of A that come next.
    pub a: *const T,
    /// How far apart those rows are.
    pub a_row: isize,
    /// Cache lines of that part in each row.
    pub a_lines: usize,
}

impl<T> Next<T> {
    /// Nothing.
    pub const NOTHING: Next<T> =
        Next { c: std::ptr::null(), a: std::ptr::null(), a_row: 0, a_lines: 0 };
}

/// How the tile's operands are stored.
mod kind {
    /// Both are read where they lie, at any distance.
    pub const DIRECT: u8 = 0;
    /// B is a panel: aligned, padded, and without gaps.
    pub const PANEL: u8 = 1;
    /// As `PANEL`, but the panel of B is written while B is read where it lies.
    pub const COPY: u8 = 2;
}

/// Computes a tile of a panel of B.
///
/// # Safety
/// The addresses the fields describe must be valid, those of `c` for writing and not shared,
/// `1 <= rows <= S::ROWS`, `1 <= cols <= WIDTH * S::LANES`, and the machine must have `S`.
#[inline(always)]
pub(super) unsafe fn panel<S: Simd>(tile: &Tile<S::T>) {
    macro_rules! by_rows {
        ($width:literal; $($rows:literal)*) => {
            match tile.rows {
                // SAFETY: the caller's promise.
                $($rows if const { $rows <= S::ROWS } => unsafe { S::call(Fixed::<_, $rows, $width, { kind::PANEL }>(tile)) },)*
                _ => unreachable!("a tile has between 1 and S::ROWS rows"),
            }
        };
    }
    match tile.cols.div_ceil(S::LANES) {
        1 => by_rows!(1; 1 2 3 4 5 6 7 8 9),
        2 => by_rows!(2; 1 2 3 4 5 6 7 8 9),
        _ => by_rows!(3; 1 2 3 4 5 6 7 8 9),
    }
}

/// Computes a tile of the largest size, writing the panel of B for the tiles after it.
///
/// # Safety
/// As for [`panel`], with `rows == S::ROWS` and `cols == WIDTH * S::LANES`; `panel` must have room
/// for `cols * depth` numbers.
#[inline(always)]
pub(super) unsafe fn copy<S: Simd>(tile: &Tile<S::T>) {
    const { assert!(WIDTH == 3) };
    // SAFETY: the caller's promise.
    unsafe {
        match S::ROWS {
            4 => S::call(Fixed::<_, 4, 3, { kind::COPY }>(tile)),
            9 => S::call(Fixed::<_, 9, 3, { kind::COPY }>(tile)),
            _ => unreachable!("the largest tiles have 4 or 9 rows"),
        }
    }
}

/// Computes a tile whose operands are read where they lie (B may be a packed panel all the same).
///
/// # Safety
/// As for [`panel`], with at most `DIRECT_ROWS` rows.
#[inline(always)]
pub(super) unsafe fn direct<S: Simd>(tile: &Tile<S::T>) {
    macro_rules! by_rows {
        ($width:literal; $($rows:literal)*) => {
            match tile.rows {
                // SAFETY: the caller's promise.
                $($rows if const { $rows <= S::ROWS } => unsafe { S::call(Fixed::<_, $rows, $width, { kind::DIRECT }>(tile)) },)*
                _ => unreachable!("a tile has between 1 and DIRECT_ROWS rows"),
            }
        };
    }
    match tile.cols.div_ceil(S::LANES) {
        1 => by_rows!(1; 1 2 3 4),
        2 => by_rows!(2; 1 2 3 4),
        _ => by_rows!(3; 1 2 3 4),
    }
}

/// A tile whose size the compiler knows.
struct Fixed<'a, T, const ROWS: usize, const WIDE: usize, const KIND: u8>(&'a Tile<T>);

impl<R: Real, const ROWS: usize, const WIDE: usize, const KIND: u8> Work<R>
    for Fixed<'_, R, ROWS, WIDE, KIND>
{
    #[inline(always)]
    fn run<S: Simd<T = R>>(self) {
        // SAFETY: made by `panel`, `copy` and `direct` only, from tiles of this size.
        unsafe { run::<S, ROWS, WIDE, KIND>(self.0) }
    }
}

/// The kernel, with its size known to the compiler so that `acc` becomes registers.
///
/// # Safety
/// As for the function of this kind, with `rows == ROWS` and `cols` filling the last of `WIDE`
/// registers in part at least.
#[inline(always)]
unsafe fn run<S: Simd, const ROWS: usize, const WIDE: usize, const KIND: u8>(tile: &Tile<S::T>) {
    // SAFETY: what is read and written is what the fields of `tile` describe: rows below `ROWS`,
    // depths below `depth`, and of the last register only the lanes below `cols` (a panel is padded
    // to whole registers). The stretches between prefetches add up to `depth`.
    unsafe {
        let last = S::mask(tile.cols - (WIDE - 1) * S::LANES);
        let mut acc = [[S::zero(); WIDE]; ROWS];
        if tile.load_c {
            for (i, acc) in acc.iter_mut().enumerate() {
                let c = tile.c.add(i * tile.c_row);
                for (v, acc) in acc.iter_mut().enumerate().take(WIDE - 1) {
                    *acc = S::load(c.add(v * S::LANES));
                }
                acc[WIDE - 1] = S::load_mask(c.add((WIDE - 1) * S::LANES), last);
            }
        }
        let mut at = At::<S> {
            a: std::array::from_fn(|i| tile.a.wrapping_offset((i * THIRD) as isize * tile.a_row)),
            a_row: tile.a_row * size_of::<S::T>() as isize,
            a_step: tile.a_step * size_of::<S::T>() as isize,
            b: tile.b,
            b_step: if KIND == kind::PANEL { (WIDE * S::LANES) as isize } else { tile.b_step },
            panel: tile.panel,
            last,
        };
        // The next tiles' numbers are asked for a row at a time, as only so many can be under way.
        let rests = if KIND == kind::DIRECT { 1 } else { ROWS };
        for i in 0..rests {
            if KIND != kind::DIRECT {
                bring::<S, WIDE>(tile, i);
            }
            for _ in tile.depth * i / rests..tile.depth * (i + 1) / rests {
                at.step::<ROWS, WIDE, KIND>(&mut acc);
            }
        }
        for (i, acc) in acc.iter().enumerate() {
            let c = tile.c.add(i * tile.c_row);
            for (v, &acc) in acc.iter().enumerate().take(WIDE - 1) {
                S::store(c.add(v * S::LANES), acc);
            }
            S::store_mask(c.add((WIDE - 1) * S::LANES), last, acc[WIDE - 1]);
        }
    }
}

/// Brings row `i` of what is needed next nearer.
#[inline(always)]
fn bring<S: Simd, const WIDE: usize>(tile: &Tile<S::T>, i: usize) {
    let line = 64 / size_of::<S::T>();
    let c = tile.next.c.wrapping_add(i * tile.c_row);
    for v in 0..(WIDE * S::LANES).div_ceil(line) {
        prefetch(c.wrapping_add(v * line));
    }
    let a = tile.next.a.wrapping_offset(i as isize * tile.next.a_row);
    for v in 0..tile.next.a_lines {
        prefetch_far(a.wrapping_add(v * line));
    }
}

/// Where in its operands a tile is.
struct At<S: Simd> {
    /// Every third row of A; the rows between are a multiple of `a_row` away that a processor adds
    /// as it loads.
    a: [*const S::T; MAX_ROWS / THIRD],
    /// In bytes.
    a_row: isize,
    /// In bytes.
    a_step: isize,
    b: *const S::T,
    b_step: isize,
    panel: *mut S::T,
    last: S::Mask,
}

impl<S: Simd> At<S> {
    /// Computes one depth and goes to the next.
    ///
    /// # Safety
    /// That of [`run`], of which this is a part.
    #[inline(always)]
    unsafe fn step<const ROWS: usize, const WIDE: usize, const KIND: u8>(
        &mut self,
        acc: &mut [[S::V; WIDE]; ROWS],
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut row = [S::zero(); WIDE];
            for (v, x) in row.iter_mut().enumerate() {
                let from = self.b.add(v * S::LANES);
                *x = if KIND != kind::DIRECT || v + 1 < WIDE {
                    S::load(from)
                } else {
                    S::load_mask(from, self.last)
                };
            }
            if KIND == kind::COPY {
                let ahead = self.b.wrapping_offset(AHEAD * self.b_step);
                for (v, &x) in row.iter().enumerate() {
                    S::store(self.panel.add(v * S::LANES), x);
                    prefetch(ahead.wrapping_add(v * S::LANES));
                }
                self.panel = self.panel.add(WIDE * S::LANES);
            }
            for (i, acc) in acc.iter_mut().enumerate() {
                let from =
                    self.a[i / THIRD].wrapping_byte_offset((i % THIRD) as isize * self.a_row);
                let x = S::splat(*from);
                for v in 0..WIDE {
                    acc[v] = S::fma(x, row[v], acc[v]);
                }
            }
            for a in self.a.iter_mut().take(ROWS.div_ceil(THIRD)) {
                *a = S::opaque(a.wrapping_byte_offset(self.a_step));
            }
            self.b = self.b.wrapping_offset(self.b_step);
        }
    }
}
