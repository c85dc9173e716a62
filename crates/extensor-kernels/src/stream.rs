//! Writing past the caches, and reading what lies beyond them.
//!
//! What is larger than the caches need not pass through them on its way to memory: an ordinary
//! store reads the line that it is about to overwrite, which is a third of the traffic of a simple
//! formula. Results are made in a small buffer that stays in the first cache, and copied from there.

use crate::buffer::Buffer;
#[cfg(target_arch = "x86_64")]
use crate::isa::{Isa, isa};
use crate::native::Native;
use crate::stop;
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

/// From so many bytes of results on they are written past the caches.
pub(crate) const FROM: usize = 8 << 20;

/// Bytes that memory is fetched in.
pub(crate) const LINE: usize = 64;

/// How numbers are best read from memory at several positions at once. That is a matter of the processor:
/// what saves one a third of the time takes another twice as long (`docs/decisions/0007`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursors {
    /// How many positions, or cursors, [`Cursors::MOST`] at most. Memory stays quick if each is far
    /// from the next.
    pub count: usize,
    /// How many groups of numbers are read at one cursor before the next.
    pub batch: usize,
    /// How many bytes ahead of each cursor memory is prefetched.
    pub ahead: usize,
    /// Whether what is asked for is to come to the first cache, or to the second.
    pub near: bool,
    /// Whether a cheap formula over numbers from memory is as fast as can be with the widest registers:
    /// `add` of 16 M numbers takes a tenth longer with them on a Zen 4, and a sixth less on a Xeon.
    pub widest: bool,
}

impl Cursors {
    pub(crate) const MOST: usize = 16;
    /// For Intel's processors.
    pub(crate) const MANY: Cursors =
        Cursors { count: Cursors::MOST, batch: 2, ahead: 2048, near: true, widest: true };
    /// For AMD's and others: their second cache can wait for many more lines than the first.
    pub(crate) const SOME: Cursors =
        Cursors { count: 2, batch: 8, ahead: 1024, near: false, widest: false };

    /// What suits this machine.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn here() -> Cursors {
        static HERE: OnceLock<Cursors> = OnceLock::new();
        *HERE.get_or_init(|| {
            let maker = std::arch::x86_64::__cpuid(0);
            let intel = [b"Genu", b"ineI", b"ntel"].map(|part| u32::from_le_bytes(*part));
            if [maker.ebx, maker.edx, maker.ecx] == intel { Cursors::MANY } else { Cursors::SOME }
        })
    }

    /// What suits this machine.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn here() -> Cursors {
        Cursors::SOME
    }

    /// Asks for the numbers that lie ahead of `len` numbers at `start`.
    #[inline(always)]
    pub(crate) fn ask<T>(self, start: *const T, len: usize) {
        let start = start.cast::<u8>().wrapping_add(self.ahead);
        let mut at = 0;
        while at < len * size_of::<T>() {
            let address = start.wrapping_add(at);
            if self.near {
                ask::<false>(address)
            } else {
                ask_from_far(address)
            }
            at += LINE;
        }
    }
}

/// Asks for a line of memory to be brought as near as the second cache. It may be any address.
#[inline(always)]
pub(crate) fn ask_from_far(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: this reads and writes nothing, and any address will do.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for a line of memory that will be needed soon. It may be any address.
#[inline(always)]
pub(crate) fn ask<const TO_WRITE: bool>(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: this reads and writes nothing, and any address will do.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
        if TO_WRITE {
            _mm_prefetch::<_MM_HINT_ET0>(address.cast());
        } else {
            _mm_prefetch::<_MM_HINT_T0>(address.cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Numbers that are worked on before more are asked for, and before they are written.
pub(crate) const PIECE: usize = 128;

/// Asks for the numbers that lie `ahead` numbers behind those of `piece`: the same piece of the next
/// row, say, which is wanted as soon as this one has been looked at several times. Asked for all at
/// once a row would be waited for; a piece at a time it arrives while this one is worked on. What lies
/// further ahead than the first cache reaches is left alone: it would be gone again before its turn.
#[inline(always)]
pub(crate) fn ask_ahead<T>(piece: &[T], ahead: usize) {
    const FAR: usize = 8 * 1024;
    if ahead > FAR / size_of::<T>() {
        return;
    }
    let start = piece.as_ptr().wrapping_add(ahead).cast::<u8>();
    let mut at = 0;
    while at < size_of_val(piece) {
        ask::<false>(start.wrapping_add(at));
        at += LINE;
    }
}

/// A way past the caches. When it is dropped, all it has written is there for other threads to see.
pub struct Stream(());

impl Stream {
    pub(crate) fn new() -> Stream {
        Stream(())
    }

    /// Copies a slice to another of the same length.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn write<T: Native>(&self, from: &[T], to: &mut [T]) {
        assert!(from.len() == to.len(), "stream: {} numbers to {}", from.len(), to.len());
        let wide = isa() == Isa::V4;
        let unit = if wide { LINE } else { 16 };
        let aligned = to.as_ptr().addr().is_multiple_of(unit);
        let whole = if aligned { to.len() / (unit / size_of::<T>()) } else { 0 };
        let (source, target) = (from.as_ptr().cast(), to.as_mut_ptr().cast());
        // SAFETY: `whole` units are within both slices, which do not overlap, and are numbers of a
        // type that has no padding. `target` is a multiple of the unit. The instructions of V4 were
        // detected; SSE2 every processor of the architecture has.
        unsafe {
            if wide {
                lines(source, target, whole);
            } else {
                quarters(source, target, whole);
            }
        }
        let done = whole * (unit / size_of::<T>());
        to[done..].copy_from_slice(&from[done..]);
    }

    /// Copies a slice to another of the same length.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn write<T: Native>(&self, from: &[T], to: &mut [T]) {
        to.copy_from_slice(from);
    }
}

/// Copies whole lines. One store fills one: with smaller ones, each holds up a buffer that reading
/// memory could use.
///
/// # Safety
/// There must be `count` lines at both addresses, which do not overlap; `to` must be a multiple of a
/// line. What is written is ordered before later stores by the fence of [`Stream`]'s drop only.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn lines(from: *const u8, to: *mut u8, count: usize) {
    use std::arch::x86_64::{_mm512_loadu_si512, _mm512_stream_si512};
    for i in 0..count {
        // SAFETY: the caller's promise.
        unsafe {
            let value = _mm512_loadu_si512(from.add(i * LINE).cast());
            _mm512_stream_si512(to.add(i * LINE).cast(), value);
        }
    }
}

/// [`lines`] in units of 16 bytes.
///
/// # Safety
/// Likewise.
#[cfg(target_arch = "x86_64")]
unsafe fn quarters(from: *const u8, to: *mut u8, count: usize) {
    use std::arch::x86_64::{_mm_loadu_si128, _mm_stream_si128};
    for i in 0..count {
        // SAFETY: the caller's promise.
        unsafe {
            let value = _mm_loadu_si128(from.add(i * 16).cast());
            _mm_stream_si128(to.add(i * 16).cast(), value);
        }
    }
}

/// Where numbers go that are made in a buffer, a piece at a time as they become final: reading what
/// comes next, computing and writing go on side by side, which they would not if a whole row were
/// written at once.
pub struct Sink<'a, T> {
    to: Option<(&'a Stream, &'a mut [T])>,
    done: usize,
}

impl<'a, T> Sink<'a, T> {
    /// Nowhere: the numbers are made where they belong.
    pub(crate) fn none() -> Self {
        Sink { to: None, done: 0 }
    }

    /// Past the caches, to `to`.
    pub(crate) fn new(stream: &'a Stream, to: &'a mut [T]) -> Self {
        Sink { to: Some((stream, to)), done: 0 }
    }
}

impl<T: Native> Sink<'_, T> {
    /// The first `count` numbers of `made` are final.
    #[inline(always)]
    pub(crate) fn ready(&mut self, made: &[T], count: usize) {
        if let Some((stream, to)) = &mut self.to
            && self.done < count
        {
            stream.write(&made[self.done..count], &mut to[self.done..count]);
            self.done = count;
        }
    }
}

/// A buffer in which numbers are made, line by line as they will lie in memory.
pub(crate) fn room<T: Native>(len: usize) -> Buffer {
    // Where there is no memory, a vector says so.
    let bytes = len.saturating_mul(size_of::<T>());
    let mut room =
        Buffer::scratch(bytes).unwrap_or_else(|| stop::raise(stop::Stop::NoMemory(bytes)));
    room.as_mut_slice::<u8>().fill(0);
    room
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: needs SSE, which every processor of the architecture has.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_arrives_whatever_its_place() {
        let from: Vec<f32> = (0..1000).map(|i| i as f32).collect();
        for start in 0..9 {
            for len in [0, 1, 3, 4, 15, 16, 17, 900] {
                let mut to = vec![-1.0; 1000];
                let stream = Stream::new();
                stream.write(&from[start..start + len], &mut to[start..start + len]);
                drop(stream);
                for i in 0..1000 {
                    let inside = (start..start + len).contains(&i);
                    assert_eq!(to[i], if inside { from[i] } else { -1.0 });
                }
            }
        }
    }
}
