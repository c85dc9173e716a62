//! Writing past the caches.
//!
//! What is larger than the caches need not pass through them on its way to memory: an ordinary
//! store reads the line that it is about to overwrite, which is a third of the traffic of a simple
//! formula. Results are made in a small buffer that stays in the first cache, and copied from there.

use crate::native::Native;

/// From so many bytes of results on they are written past the caches.
pub(crate) const FROM: usize = 8 << 20;

/// Bytes that memory is fetched in.
pub(crate) const LINE: usize = 64;

/// Asks for a line of memory that will be needed soon. The place may be anywhere.
#[inline(always)]
pub(crate) fn ask<const TO_WRITE: bool>(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: this reads and writes nothing, and any address will do.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
        if TO_WRITE {
            _mm_prefetch::<_MM_HINT_ET0>(place.cast());
        } else {
            _mm_prefetch::<_MM_HINT_T0>(place.cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Asks for as much memory as `row` takes, right behind it: the next row, which is wanted as soon as
/// this one has been looked at several times. Rows that would fill the first cache are left alone.
#[inline(always)]
pub(crate) fn ask_for_next<T>(row: &[T]) {
    const MOST: usize = 8 * 1024;
    let bytes = size_of_val(row);
    if bytes > MOST {
        return;
    }
    let next = row.as_ptr().cast::<u8>().wrapping_add(bytes);
    let mut at = 0;
    while at < bytes {
        ask::<false>(next.wrapping_add(at));
        at += LINE;
    }
}

/// Writes past the caches. When it is dropped, all it has written is there for other threads to see.
pub(crate) struct Stream(());

impl Stream {
    pub(crate) fn new() -> Stream {
        Stream(())
    }

    /// Copies a slice to another of the same length.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn write<T: Native>(&self, from: &[T], to: &mut [T]) {
        use std::arch::x86_64::{_mm_loadu_si128, _mm_stream_si128};
        assert!(from.len() == to.len(), "stream: {} numbers to {}", from.len(), to.len());
        let each = 16 / size_of::<T>();
        let aligned = to.as_ptr().addr().is_multiple_of(16);
        let whole = if aligned { to.len() / each * each } else { 0 };
        let (source, target) = (from.as_ptr(), to.as_mut_ptr());
        let mut i = 0;
        while i < whole {
            // SAFETY: `i..i + each` is within both slices, which do not overlap, and spans 16 bytes
            // of a type that has no padding. `target` is a multiple of 16 and so is `i` times the
            // size of a number. `_mm_stream_si128` needs SSE2, which every processor of the
            // architecture has; what it writes is ordered before later stores by the fence in
            // `drop`, and this thread sees it at once.
            unsafe {
                let value = _mm_loadu_si128(source.add(i).cast());
                _mm_stream_si128(target.add(i).cast(), value);
            }
            i += each;
        }
        to[whole..].copy_from_slice(&from[whole..]);
    }

    /// Copies a slice to another of the same length.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn write<T: Native>(&self, from: &[T], to: &mut [T]) {
        to.copy_from_slice(from);
    }
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
