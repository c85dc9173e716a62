//! Transposing a tile of a matrix in registers.
//!
//! Numbers that are neighbours in one matrix lie a row apart in the other. Read or written one at a
//! time each of them costs a whole line of memory, and where a row is a power of two long all those
//! lines want the same few sets of the caches and are evicted before the next number in them is
//! needed. So whole lines are fetched into a small buffer where they lie together, and transposed
//! from there.

#[cfg(target_arch = "x86_64")]
use crate::isa::{Isa, isa};
use crate::native::Native;
use crate::stream::{self, LINE, Stream};
use std::mem::MaybeUninit;

/// The most bytes that are read together from one column.
pub(crate) const STRETCH: usize = 256;
/// The most columns that are read before they are transposed.
const COLUMNS: usize = 64;

/// The most rows of a tile of numbers of type `T`: as many as are read together.
pub(crate) const fn most_rows<T>() -> usize {
    STRETCH / size_of::<T>()
}

/// Numbers on their way, one column after the other.
#[repr(align(64))]
struct Stage([MaybeUninit<u8>; STRETCH * COLUMNS]);

/// A tile to be transposed: `to[r·to_step + c] = from[c·from_step + r]` for `r` below `rows`, which is
/// [`most_rows`] at most, and `c` below `columns`.
#[derive(Clone, Copy)]
pub(crate) struct Tile<T> {
    pub from: *const T,
    pub from_step: isize,
    pub to: *mut T,
    pub to_step: isize,
    pub rows: usize,
    pub columns: usize,
    /// Whether to write past the caches; what was written is ordered by a fence only.
    pub past: bool,
}

impl<T: Native> Tile<T> {
    /// Moves the numbers.
    ///
    /// # Safety
    /// All of them must lie in memory that may be read or written, and that does not overlap.
    pub(crate) unsafe fn run(self) {
        // SAFETY: the caller's promise. Types of one size hold any bits of each other.
        unsafe {
            match size_of::<T>() {
                1 => self.of::<u8>().blocks(),
                2 => self.of::<u16>().blocks(),
                4 => self.of::<u32>().blocks(),
                _ => self.of::<u64>().blocks(),
            }
        }
    }

    /// Whether lines of the target are lines of memory.
    pub(crate) fn lines(&self) -> bool {
        let step = self.to_step.unsigned_abs() * size_of::<T>();
        self.to.addr().is_multiple_of(LINE) && step.is_multiple_of(LINE)
    }

    /// Moves the numbers by way of `room` and past the caches: rows that begin anywhere are written as
    /// far as possible by whole lines.
    ///
    /// # Safety
    /// As for [`Tile::run`].
    pub(crate) unsafe fn run_through(self, room: &mut Vec<T>, stream: &Stream) {
        const COLUMNS: usize = 256;
        let Tile { from, from_step, to, to_step, rows, columns, .. } = self;
        if room.len() < rows * COLUMNS {
            room.resize(most_rows::<T>() * COLUMNS, T::ZERO);
        }
        for start in (0..columns).step_by(COLUMNS) {
            let count = COLUMNS.min(columns - start);
            let part = Tile {
                from: from.wrapping_offset(start as isize * from_step),
                to: room.as_mut_ptr(),
                to_step: count as isize,
                columns: count,
                past: false,
                ..self
            };
            // SAFETY: part of the tile, which goes to memory of its own that has room for it.
            unsafe { part.run() };
            for (row, made) in room[..rows * count].chunks(count).enumerate() {
                let to = to.wrapping_offset(row as isize * to_step).wrapping_add(start);
                // SAFETY: `count` numbers of a row of the tile lie there.
                let to = unsafe { std::slice::from_raw_parts_mut(to, count) };
                let before = to.as_ptr().align_offset(LINE).min(count);
                to[..before].copy_from_slice(&made[..before]);
                stream.write(&made[before..], &mut to[before..]);
            }
        }
    }

    /// The same tile of numbers of the same size.
    fn of<U>(self) -> Tile<U> {
        assert!(size_of::<T>() == size_of::<U>() && align_of::<T>() == align_of::<U>());
        let Tile { from_step, to_step, rows, columns, past, .. } = self;
        Tile { from: self.from.cast(), from_step, to: self.to.cast(), to_step, rows, columns, past }
    }

    /// [`Tile::run`], some columns at a time.
    ///
    /// # Safety
    /// Likewise.
    unsafe fn blocks(self) {
        let Tile { from, from_step, rows, columns, .. } = self;
        assert!(rows <= most_rows::<T>());
        // A line of results is made at a time, of two lines of them of single bytes.
        let width = (LINE / size_of::<T>()).min(COLUMNS);
        let mut stage = Stage([const { MaybeUninit::uninit() }; STRETCH * COLUMNS]);
        let stage: *mut T = stage.0.as_mut_ptr().cast();
        let mut start = 0;
        while start < columns {
            let count = width.min(columns - start);
            let mut c = 0;
            while c < count {
                // SAFETY: `rows` numbers lie at each of the tile's columns, and that many have room
                // in each of the `COLUMNS` stretches of the stage.
                unsafe {
                    let address = from.wrapping_offset((start + c) as isize * from_step);
                    // The next ones are far away, where the processor does not look for them.
                    let next = address.wrapping_offset(width as isize * from_step);
                    let mut at = 0;
                    while at < rows * size_of::<T>() {
                        stream::ask_from_far(next.cast::<u8>().wrapping_add(at));
                        at += LINE;
                    }
                    std::ptr::copy_nonoverlapping(address, stage.add(c * rows), rows);
                }
                c += 1;
            }
            // SAFETY: the stage holds `rows` numbers of each of `count` columns.
            unsafe { self.transpose(stage, start, count) };
            start += count;
        }
    }

    /// Writes columns `start..start + count`, which lie in `stage`, one behind the other.
    ///
    /// # Safety
    /// That, and as for [`Tile::run`].
    #[inline(always)]
    unsafe fn transpose(&self, stage: *const T, start: usize, count: usize) {
        let &Tile { to, to_step, rows, .. } = self;
        let to = to.wrapping_add(start);
        #[cfg(not(target_arch = "x86_64"))]
        let done = (0, 0);
        #[cfg(target_arch = "x86_64")]
        let done = {
            let bytes = (stage.cast::<u8>(), to.cast::<u8>());
            let step = to_step * size_of::<T>() as isize;
            // SAFETY: the caller's promise; the instructions were detected.
            unsafe {
                match isa() {
                    Isa::V4 if self.past && self.lines() => {
                        v4::<T, true>(bytes.0, bytes.1, step, rows, count)
                    }
                    Isa::V4 => v4::<T, false>(bytes.0, bytes.1, step, rows, count),
                    Isa::V3 => v3::<T>(bytes.0, bytes.1, step, rows, count),
                    Isa::Base => base::<T>(bytes.0, bytes.1, step, rows, count),
                }
            }
        };
        let mut r = 0;
        while r < rows {
            let mut c = if r < done.0 { done.1 } else { 0 };
            while c < count {
                // SAFETY: `r` and `c` are within the tile and the stage.
                unsafe {
                    *to.wrapping_offset(r as isize * to_step).add(c) = *stage.add(c * rows + r)
                };
                c += 1;
            }
            r += 1;
        }
    }
}

/// Transposes blocks with registers of several parts of 16 bytes. In each of these a square of numbers is
/// turned: as often as two goes into its side, the numbers of two registers are interleaved. The parts of
/// a register come from positions a side apart, so that the whole register is part of a row.
#[cfg(target_arch = "x86_64")]
macro_rules! registers {
    (
        $(#[$feature:meta])* $name:ident($($past:ident)?), $parts:literal of $register:ty: $load:expr, $store:expr,
        $low8:ident $high8:ident $low16:ident $high16:ident $low32:ident $high32:ident $low64:ident $high64:ident
    ) => {
        /// Turns as many whole blocks of `count` columns of `rows` numbers as there are, and returns
        /// how many rows and columns these were.
        ///
        /// # Safety
        /// `from` must hold the columns, one behind the other, and `to` have room for the rows, `step`
        /// bytes apart. The processor must have the instructions.
        $(#[$feature])*
        unsafe fn $name<T $(, const $past: bool)?>(
            from: *const u8,
            to: *mut u8,
            step: isize,
            rows: usize,
            count: usize,
        ) -> (usize, usize) {
            use std::arch::x86_64::*;
            let size = size_of::<T>();
            let side = 16 / size;
            let whole = (rows / side * side, count / ($parts * side) * ($parts * side));
            let pitch = rows * size;
            let mut c = 0;
            while c < whole.1 {
                let mut r = 0;
                while r < whole.0 {
                    // SAFETY: the block is within the columns and the rows.
                    unsafe {
                        let at = from.add(c * pitch + r * size);
                        let mut x: [$register; 16] = [$load(at, 0); 16];
                        let mut i = 1;
                        while i < side {
                            x[i] = $load(at.add(i * pitch), side * pitch);
                            i += 1;
                        }
                        x[0] = $load(at, side * pitch);
                        let mut stage = 1;
                        while stage < side {
                            let y = x;
                            let mut i = 0;
                            while i < side / 2 {
                                let (a, b) = (y[i], y[i + side / 2]);
                                (x[2 * i], x[2 * i + 1]) = match size {
                                    1 => ($low8(a, b), $high8(a, b)),
                                    2 => ($low16(a, b), $high16(a, b)),
                                    4 => ($low32(a, b), $high32(a, b)),
                                    _ => ($low64(a, b), $high64(a, b)),
                                };
                                i += 1;
                            }
                            stage *= 2;
                        }
                        let mut i = 0;
                        while i < side {
                            let address = to.offset((r + i) as isize * step).add(c * size);
                            let write = $store;
                            write(address, x[i]);
                            i += 1;
                        }
                    }
                    r += side;
                }
                c += $parts * side;
            }
            whole
        }
    };
}

#[cfg(target_arch = "x86_64")]
registers! {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    v4(PAST), 4 of __m512i:
    |at: *const u8, apart: usize| {
        let x = _mm512_castsi128_si512(_mm_loadu_si128(at.cast()));
        let x = _mm512_inserti32x4::<1>(x, _mm_loadu_si128(at.add(apart).cast()));
        let x = _mm512_inserti32x4::<2>(x, _mm_loadu_si128(at.add(2 * apart).cast()));
        _mm512_inserti32x4::<3>(x, _mm_loadu_si128(at.add(3 * apart).cast()))
    },
    |address: *mut u8, x| if PAST {
        _mm512_stream_si512(address.cast(), x)
    } else {
        _mm512_storeu_si512(address.cast(), x)
    },
    _mm512_unpacklo_epi8 _mm512_unpackhi_epi8 _mm512_unpacklo_epi16 _mm512_unpackhi_epi16
    _mm512_unpacklo_epi32 _mm512_unpackhi_epi32 _mm512_unpacklo_epi64 _mm512_unpackhi_epi64
}

#[cfg(target_arch = "x86_64")]
registers! {
    #[target_feature(enable = "avx2")]
    v3(), 2 of __m256i:
    |at: *const u8, apart: usize| {
        let x = _mm256_castsi128_si256(_mm_loadu_si128(at.cast()));
        _mm256_inserti128_si256::<1>(x, _mm_loadu_si128(at.add(apart).cast()))
    },
    |address: *mut u8, x| _mm256_storeu_si256(address.cast(), x),
    _mm256_unpacklo_epi8 _mm256_unpackhi_epi8 _mm256_unpacklo_epi16 _mm256_unpackhi_epi16
    _mm256_unpacklo_epi32 _mm256_unpackhi_epi32 _mm256_unpacklo_epi64 _mm256_unpackhi_epi64
}

#[cfg(target_arch = "x86_64")]
registers! {
    base(), 1 of __m128i:
    |at: *const u8, _apart: usize| _mm_loadu_si128(at.cast()),
    |address: *mut u8, x| _mm_storeu_si128(address.cast(), x),
    _mm_unpacklo_epi8 _mm_unpackhi_epi8 _mm_unpacklo_epi16 _mm_unpackhi_epi16
    _mm_unpacklo_epi32 _mm_unpackhi_epi32 _mm_unpacklo_epi64 _mm_unpackhi_epi64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transposes<T: Native + PartialEq + std::fmt::Debug>(number: impl Fn(usize) -> T) {
        for rows in [1, 2, 3, 15, 16, 17, 31, 32] {
            for columns in [1, 2, 7, 16, 33, 64, 65, 130] {
                for past in [false, true] {
                    for (pitch, gap) in [(rows, 0), (rows + 5, 3), (64, 64)] {
                        let from: Vec<T> = (0..pitch * columns).map(&number).collect();
                        let mut to = vec![number(0); (columns + gap) * rows];
                        let tile = Tile {
                            from: from.as_ptr(),
                            from_step: pitch as isize,
                            to: to.as_mut_ptr(),
                            to_step: (columns + gap) as isize,
                            rows,
                            columns,
                            past,
                        };
                        // SAFETY: both vectors are as large as the tile says.
                        unsafe { tile.run() };
                        for r in 0..rows {
                            for c in 0..columns + gap {
                                let inside = c < columns;
                                let want = if inside { number(c * pitch + r) } else { number(0) };
                                assert_eq!(to[r * (columns + gap) + c], want, "{rows} × {columns}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_number_of_a_tile_gets_to_its_place_whatever_its_size() {
        transposes(|i| (i % 251) as u8);
        transposes(|i| i as u16);
        transposes(|i| i as u32);
        transposes(|i| i as u64);
    }
}
