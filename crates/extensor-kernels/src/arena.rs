//! One block of memory that many arrays share, each in a range of its own while it is needed.
//!
//! Who lies where is somebody else's plan; what is read and written at one time is looked at here, so
//! that a wrong plan is a panic and never a race.

use crate::buffer::{ALIGNMENT, Buffer};
use smallvec::SmallVec;
use std::ops::Range;

/// Memory for arrays at ranges that a plan gives them.
pub struct Arena(Buffer);

/// What is read and what is written at one time.
pub type Parts<'a> = (SmallVec<[&'a [u8]; 4]>, SmallVec<[&'a mut [u8]; 2]>);

impl Arena {
    /// So many bytes, or `None` if there is no such memory.
    pub fn new(bytes: usize) -> Option<Arena> {
        Buffer::new(bytes).map(Arena)
    }

    /// How many bytes an array of `bytes` takes: the next one begins where any number may.
    pub fn room(bytes: usize) -> usize {
        bytes.next_multiple_of(ALIGNMENT)
    }

    /// The ranges to be read, and those to be written.
    ///
    /// # Panics
    /// If a range that is written overlaps another of either kind, or one lies outside.
    pub fn parts(&mut self, read: &[Range<usize>], write: &[Range<usize>]) -> Parts<'_> {
        let all = self.0.as_mut_slice::<u8>();
        let apart = |a: &Range<usize>, b: &Range<usize>| {
            a.end <= b.start || b.end <= a.start || a.is_empty() || b.is_empty()
        };
        for range in read.iter().chain(write) {
            assert!(
                range.start <= range.end && range.end <= all.len(),
                "a range outside of the arena"
            );
        }
        for (k, range) in write.iter().enumerate() {
            let others = read.iter().chain(&write[..k]);
            assert!(others.into_iter().all(|other| apart(range, other)), "two arrays in one place");
        }
        let start = all.as_mut_ptr();
        // SAFETY: all ranges lie in the buffer, which `self` borrows mutably, and is initialised. No
        // range that is written overlaps another one; those that are read may overlap each other.
        unsafe {
            let part = |range: &Range<usize>| {
                let at = start.add(range.start).cast_const();
                std::slice::from_raw_parts(at, range.len())
            };
            let part_mut = |range: &Range<usize>| {
                std::slice::from_raw_parts_mut(start.add(range.start), range.len())
            };
            (read.iter().map(part).collect(), write.iter().map(part_mut).collect())
        }
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // lists of one range are meant
mod tests {
    use super::*;

    #[test]
    fn what_is_written_to_a_range_is_read_from_it() {
        let mut arena = Arena::new(256).unwrap();
        arena.parts(&[], &[64..68, 128..130]).1[0].fill(7);
        let (read, mut write) = arena.parts(&[64..68, 66..68], &[68..69]);
        assert_eq!((read[0], read[1]), (&[7; 4][..], &[7; 2][..]));
        write[0].fill(1);
    }

    #[test]
    #[should_panic(expected = "two arrays in one place")]
    fn a_range_that_is_read_is_not_written() {
        Arena::new(64).unwrap().parts(&[0..8], &[7..16]);
    }

    #[test]
    #[should_panic(expected = "two arrays in one place")]
    fn no_two_that_are_written_overlap() {
        Arena::new(64).unwrap().parts(&[], &[0..8, 4..6]);
    }

    #[test]
    #[should_panic(expected = "outside of the arena")]
    fn a_range_outside_is_refused() {
        Arena::new(64).unwrap().parts(&[60..80], &[]);
    }
}
