//! A buffer cut into pieces, each of which is its holder's alone until they are put together again.
//!
//! What arrives from elsewhere is written straight to where it belongs: several senders fill pieces of
//! one buffer, at times of their own, and nobody has to hold the whole of it.

use crate::buffer::Buffer;
use crate::native::{Native, numbers, numbers_mut};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// A range of a buffer that nobody else can reach.
pub struct Piece {
    whole: Arc<Whole>,
    range: Range<usize>,
}

/// The buffer, which is reached by its address alone as long as there are pieces of it.
struct Whole {
    start: NonNull<u8>,
    buffer: Buffer,
}

// SAFETY: the address is that of the buffer, which may cross threads; the pieces that write and read by it
// are disjoint ranges of it.
unsafe impl Send for Whole {}
// SAFETY: as above.
unsafe impl Sync for Whole {}

impl Piece {
    /// All of a buffer.
    ///
    /// # Panics
    /// If the buffer is over somebody else's memory.
    pub fn of(mut buffer: Buffer) -> Piece {
        let bytes = buffer.bytes();
        let start = NonNull::from(buffer.as_mut_slice::<u8>()).cast();
        Piece { whole: Arc::new(Whole { start, buffer }), range: 0..bytes }
    }

    /// The first `bytes` bytes, and the rest.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn split(self, bytes: usize) -> (Piece, Piece) {
        let Range { start, end } = self.range;
        assert!(bytes <= end - start, "a piece is cut behind its end");
        let first = Piece { whole: self.whole.clone(), range: start..start + bytes };
        (first, Piece { whole: self.whole, range: start + bytes..end })
    }

    /// This piece and the one that follows it in the buffer, as one.
    ///
    /// # Panics
    /// If another follows.
    pub fn join(self, next: Piece) -> Piece {
        let neighbours =
            Arc::ptr_eq(&self.whole, &next.whole) && self.range.end == next.range.start;
        assert!(neighbours, "two pieces are joined that are not neighbours");
        Piece { range: self.range.start..next.range.end, whole: self.whole }
    }

    /// The buffer, if this is all of it.
    ///
    /// # Panics
    /// If pieces are still elsewhere.
    pub fn into_buffer(self) -> Buffer {
        let all = self.range.len() == self.whole.buffer.bytes();
        match Arc::try_unwrap(self.whole) {
            Ok(whole) if all => whole.buffer,
            _ => panic!("a buffer is taken of which pieces are elsewhere"),
        }
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Its contents.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the range is in the buffer, which is initialised and kept by `whole`; nobody but this
        // piece reaches it, and `self` is borrowed.
        unsafe {
            let start = self.whole.start.as_ptr().add(self.range.start);
            std::slice::from_raw_parts(start, self.len())
        }
    }

    /// Its contents, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; the borrow is unique.
        unsafe {
            let start = self.whole.start.as_ptr().add(self.range.start);
            std::slice::from_raw_parts_mut(start, self.len())
        }
    }

    /// Its contents as numbers.
    ///
    /// # Panics
    /// If it does not lie where such numbers may.
    pub fn as_slice<T: Native>(&self) -> &[T] {
        numbers(self.bytes())
    }

    /// Its contents as numbers to be changed.
    ///
    /// # Panics
    /// If it does not lie where such numbers may.
    pub fn as_mut_slice<T: Native>(&mut self) -> &mut [T] {
        numbers_mut(self.bytes_mut())
    }
}

impl AsMut<[u8]> for Piece {
    fn as_mut(&mut self) -> &mut [u8] {
        self.bytes_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_write_into_pieces_is_in_the_whole() {
        let (mut a, rest) = Piece::of(Buffer::new(1000).unwrap()).split(300);
        let (mut b, mut c) = rest.split(0);
        std::thread::scope(|scope| {
            scope.spawn(|| a.bytes_mut().fill(1));
            scope.spawn(|| b.bytes_mut().fill(2));
            scope.spawn(|| c.bytes_mut().fill(3));
        });
        let whole = a.join(b).join(c).into_buffer();
        assert_eq!(whole.as_slice::<u8>()[..300], [1; 300]);
        assert_eq!(whole.as_slice::<u8>()[300..], [3; 700]);
    }

    #[test]
    #[should_panic(expected = "pieces are elsewhere")]
    fn a_part_is_not_the_whole() {
        let (a, _b) = Piece::of(Buffer::new(10).unwrap()).split(10);
        a.into_buffer();
    }

    #[test]
    #[should_panic(expected = "not neighbours")]
    fn pieces_of_two_buffers_do_not_join() {
        let [a, b] = [1, 2].map(|_| Piece::of(Buffer::new(8).unwrap()));
        a.split(8).0.join(b.split(8).1);
    }
}
