//! The micro kernel: one tile of C, held in registers while the depth runs by.
//!
//! Every element of C is one chain of fused multiply-adds in the order of the depth, begun from
//! zero or from what C held. A chain that is written to C and picked up again for the next stretch
//! of depth is the same chain, so neither the cutting of the work nor the register width shows in
//! the result.

use super::Real;
use super::simd::{Simd, Work, prefetch};

/// The most rows a tile has with any instruction set.
pub(super) const MAX_ROWS: usize = 9;

/// Registers a tile is wide, at most.
pub(super) const WIDTH: usize = 3;

/// The most rows of a tile whose operands are read where they lie: an address for each row of A
/// must fit in the general registers.
pub(super) const DIRECT_ROWS: usize = 4;

/// One tile: `c[i, j] = (start: c[i, j] or 0) + Σ_p a[i, p] * b[p, j]`.
pub(super) struct Tile<T> {
    /// Rows of the tile.
    pub rows: usize,
    /// Columns of the tile, at most `WIDTH` registers.
    pub cols: usize,
    /// How far `p` runs.
    pub depth: usize,
    /// A: element `(i, p)` is at `i * a_row + p * a_step`; packed, at `p * rows + i`.
    pub a: *const T,
    /// See `a`; not looked at in a packed tile.
    pub a_row: isize,
    /// See `a`; not looked at in a packed tile.
    pub a_step: isize,
    /// B: element `(p, j)` is at `p * b_step + j`; packed, `b_step` is `cols` rounded up to whole
    /// registers.
    pub b: *const T,
    /// See `b`; not looked at in a packed tile.
    pub b_step: isize,
    /// C: element `(i, j)` is at `i * c_row + j`.
    pub c: *mut T,
    /// See `c`.
    pub c_row: usize,
    /// Where the tile after this one begins in C: brought near while this one is computed, because
    /// nothing can be added to a tile before it is there.
    pub next_c: *const T,
    /// Whether to start from what C holds rather than from zero.
    pub load_c: bool,
}

/// Computes a tile of packed operands.
///
/// # Safety
/// The addresses the fields describe must be valid, those of `c` for writing and not shared,
/// `1 <= rows <= S::ROWS`, `1 <= cols <= WIDTH * S::LANES`, and the machine must have `S`.
#[inline(always)]
pub(super) unsafe fn packed<S: Simd>(tile: &Tile<S::T>) {
    macro_rules! by_rows {
        ($width:literal; $($rows:literal)*) => {
            match tile.rows {
                // SAFETY: the caller's promise.
                $($rows if const { $rows <= S::ROWS } => unsafe { S::call(Fixed::<_, $rows, $width, true>(tile)) },)*
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

/// Computes a tile whose operands are read where they lie (B may be a packed panel all the same).
///
/// # Safety
/// As for [`packed`], with at most `DIRECT_ROWS` rows.
#[inline(always)]
pub(super) unsafe fn direct<S: Simd>(tile: &Tile<S::T>) {
    macro_rules! by_rows {
        ($width:literal; $($rows:literal)*) => {
            match tile.rows {
                // SAFETY: the caller's promise.
                $($rows if const { $rows <= S::ROWS } => unsafe { S::call(Fixed::<_, $rows, $width, false>(tile)) },)*
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
struct Fixed<'a, T, const ROWS: usize, const WIDE: usize, const PACKED: bool>(&'a Tile<T>);

impl<R: Real, const ROWS: usize, const WIDE: usize, const PACKED: bool> Work<R>
    for Fixed<'_, R, ROWS, WIDE, PACKED>
{
    #[inline(always)]
    fn run<S: Simd<T = R>>(self) {
        // SAFETY: made by `packed` and `direct` only, from tiles of this size.
        unsafe { run::<S, ROWS, WIDE, PACKED>(self.0) }
    }
}

/// The kernel, with its size known to the compiler so that `acc` becomes registers.
///
/// # Safety
/// As for [`packed`], with `rows == ROWS` and `cols` filling the last of `WIDE` registers in part
/// at least.
#[inline(always)]
unsafe fn run<S: Simd, const ROWS: usize, const WIDE: usize, const PACKED: bool>(
    tile: &Tile<S::T>,
) {
    // SAFETY: what is read and written is what the fields of `tile` describe: rows below `ROWS`,
    // depths below `depth`, and of the last register only the lanes below `cols` (packed B is
    // padded to whole registers).
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
        if PACKED {
            let line = 64 / size_of::<S::T>();
            for i in 0..ROWS {
                let next = tile.next_c.wrapping_add(i * tile.c_row);
                for v in 0..(WIDE * S::LANES).div_ceil(line) {
                    prefetch(next.wrapping_add(v * line));
                }
            }
        }
        let (a_row, a_step, b_step) = if PACKED {
            (1, ROWS as isize, (WIDE * S::LANES) as isize)
        } else {
            (tile.a_row, tile.a_step, tile.b_step)
        };
        let (mut a, mut b) = (tile.a, tile.b);
        for _ in 0..tile.depth {
            let mut row = [S::zero(); WIDE];
            for (v, x) in row.iter_mut().enumerate() {
                let from = b.add(v * S::LANES);
                *x = if PACKED || v + 1 < WIDE {
                    S::load(from)
                } else {
                    S::load_mask(from, last)
                };
            }
            for (i, acc) in acc.iter_mut().enumerate() {
                let x = S::splat(*a.offset(i as isize * a_row));
                for v in 0..WIDE {
                    acc[v] = S::fma(x, row[v], acc[v]);
                }
            }
            a = a.wrapping_offset(a_step);
            b = b.wrapping_offset(b_step);
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
