//! Writing and reading memory while something else is computed.
//!
//! A core can wait for a dozen lines of memory at a time, coming and going: a block that is asked for or
//! written all at once is waited for. So what a block has made goes to memory in shares while the next one
//! is computed, and what the one after that reads is asked for in shares too.

use super::arrays::{Writing, buffer};
use crate::buffer::Buffer;
use crate::interpret::Machine;
use crate::stream::{self, Stream};
use smallvec::SmallVec;

/// What is on its way to and from memory in a task.
pub(super) struct Late<'a, W> {
    /// For each writer the numbers that were made last, where they are not written at once.
    made: SmallVec<[(&'a Writing, Buffer); 2]>,
    /// Where they go, how many there are, and how many have gone.
    start: usize,
    len: usize,
    gone: usize,
    /// Of which variables memory is asked for ahead.
    ahead: &'a [bool],
    asked: usize,
    _of: std::marker::PhantomData<W>,
}

impl<'a, W: Machine> Late<'a, W> {
    /// For these writers, of which those that are not `None` are to be written past the caches.
    pub fn new(writers: impl Iterator<Item = &'a Writing>, size: usize, ahead: &'a [bool]) -> Self {
        let made = writers.filter(|writer| writer.is_plain::<W>());
        let made = made.map(|writer| (writer, buffer::<W>(size))).collect();
        let _of = std::marker::PhantomData;
        Late { made, start: 0, len: 0, gone: 0, ahead, asked: 0, _of }
    }

    /// Does so much of what there is to do, while a block of these variables is computed.
    #[inline]
    pub fn share(&mut self, done: usize, of: usize, variables: &[&[W]], stream: Option<&Stream>) {
        let lines = |len: usize| (len * size_of::<W>()).div_ceil(stream::LINE);
        if let Some(first) = variables.first()
            && !self.ahead.is_empty()
        {
            let until = done * lines(first.len()) / of;
            for (values, _) in variables.iter().zip(self.ahead).filter(|(_, ahead)| **ahead) {
                let next = values.as_ptr().wrapping_add(values.len()).cast::<u8>();
                for line in self.asked..until {
                    stream::ask::<false>(next.wrapping_add(line * stream::LINE));
                }
            }
            self.asked = if done == of { 0 } else { until };
        }
        if self.gone < self.len {
            let line = stream::LINE / size_of::<W>();
            self.write((done * lines(self.len) / of * line).min(self.len), stream);
        }
    }

    /// Writes what was made up to there.
    fn write(&mut self, until: usize, stream: Option<&Stream>) {
        if until <= self.gone {
            return;
        }
        for (writer, made) in &self.made {
            let made = &made.as_slice::<W>()[self.gone..until];
            // SAFETY: what is put here is part of the sink, and put once.
            unsafe { writer.store(self.start + self.gone, made, stream) };
        }
        self.gone = until;
    }

    /// Takes what a block has made for each of the writers; what was made before has gone.
    ///
    /// # Safety
    /// The block must lie in the sinks, and nobody else may write to it.
    pub unsafe fn put<'r>(
        &mut self,
        start: usize,
        len: usize,
        results: impl Iterator<Item = &'r [W]>,
        stream: Option<&Stream>,
    ) {
        self.write(self.len, stream);
        for ((_, made), result) in self.made.iter_mut().zip(results) {
            made.as_mut_slice::<W>()[..len].copy_from_slice(result);
        }
        (self.start, self.len, self.gone) = (start, len, 0);
    }
}

impl<W> Drop for Late<'_, W> {
    fn drop(&mut self) {
        debug_assert!(std::thread::panicking() || self.gone == self.len, "numbers left behind");
    }
}

impl<W: Machine> Late<'_, W> {
    /// Writes all that is left.
    pub fn finish(&mut self, stream: Option<&Stream>) {
        self.write(self.len, stream);
    }
}
