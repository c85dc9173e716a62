//! Several formulas of the same arrays in one pass over memory.
//!
//! A [`Bundle`] is run block by block, as [`interpret`](crate::interpret) runs a program, on arrays of
//! several types; what one formula makes and another takes never leaves the first cache. What is only
//! summed afterwards is never written ([`fold`]). This module must not know where the formulas come from.

mod arrays;
pub mod fold;
mod late;
#[cfg(test)]
mod tests;

pub use arrays::{Sink, Source};

use crate::interpret::{CHUNK, Machine};
use crate::program::Bundle;
use crate::steps::{Desk, Steps};
use crate::stream;
use crate::walk::{Layout, Walk};
use arrays::{Packed, Reading, Writing};
use late::Late;
use smallvec::SmallVec;

/// A bundle that is ready to run, computed in `W`.
#[derive(Clone, Debug)]
pub struct Fused<W> {
    steps: Steps<W>,
}

impl<W: Machine> Fused<W> {
    /// The bundle's instructions, each with its loop and a place for what it makes.
    pub fn new(bundle: &Bundle) -> Fused<W> {
        Fused { steps: Steps::new(bundle.variables, &bundle.instructions, &bundle.results) }
    }

    /// Computes the results and writes each to its sink.
    ///
    /// # Panics
    /// If there is another number of arrays, or one has another length.
    pub fn run(&self, sources: &[Source<'_>], sinks: &mut [Sink<'_>]) {
        let Some(len) = sinks.first().map(Sink::len) else { return };
        self.check(sources, sinks.len(), len);
        assert!(sinks.iter().all(|sink| sink.len() == len), "fused: sinks of different lengths");
        if len == 0 {
            return;
        }
        let layouts: SmallVec<[Layout<'_>; 8]> = sources.iter().map(Source::layout).collect();
        let walk = Walk::new(len, self.steps.block(), &layouts).in_chunks(CHUNK);
        let readers: SmallVec<[Reading<'_>; 8]> =
            sources.iter().enumerate().map(|(number, x)| Reading::new(x, number)).collect();
        let past = sinks.iter().map(Sink::bytes).sum::<usize>() >= stream::FROM;
        let ahead = if walk.is_plain() { ahead::<W>(past, sources) } else { SmallVec::new() };
        let writers: SmallVec<[Writing; 4]> = sinks.iter_mut().map(Writing::new).collect();
        walk.tasks(past, &|mut order| {
            let mut desk = Desk::new(&self.steps, walk.longest());
            let mut rooms: SmallVec<[Packed; 8]> =
                readers.iter().map(|x| x.room::<W>(walk.longest())).collect();
            let late = writers.iter().filter(|_| past);
            let mut late = Late::<W>::new(late, walk.longest(), &ahead);
            while let Some(piece) = order.next() {
                let (len, stream) = (piece.len, piece.stream);
                let variables: SmallVec<[&[W]; 8]> = readers
                    .iter()
                    .zip(&mut rooms)
                    .map(|(x, room)| x.load(&walk, &piece, room))
                    .collect();
                if past {
                    desk.run(&variables, len, |k, of| late.share(k, of, &variables, stream));
                } else {
                    desk.run(&variables, len, |_, _| {});
                }
                let results = writers.iter().enumerate();
                let results = results.map(|(k, writer)| (writer, desk.result(k, &variables, len)));
                // SAFETY: the sinks have the walk's length, and no piece comes twice.
                unsafe {
                    if past {
                        let plain = results.clone().filter(|(writer, _)| writer.is_plain::<W>());
                        late.put(piece.start, len, plain.map(|(_, result)| result), stream);
                    }
                    for (writer, result) in results {
                        if !past || !writer.is_plain::<W>() {
                            writer.store(piece.start, result, stream);
                        }
                    }
                }
            }
            late.finish(order.stream());
        });
    }

    fn check(&self, sources: &[Source<'_>], sinks: usize, len: usize) {
        assert_eq!(sources.len(), self.steps.variables(), "fused: the bundle has other variables");
        assert_eq!(sinks, self.steps.results(), "fused: the bundle has other results");
        let same = sources.iter().all(|source| source.len() == len);
        assert!(same, "fused: arrays of different lengths");
    }
}

/// Of which sources memory is asked for ahead, where numbers come from memory.
fn ahead<W: Machine>(past: bool, sources: &[Source<'_>]) -> SmallVec<[bool; 8]> {
    let mut ahead: SmallVec<[bool; 8]> = SmallVec::new();
    if past {
        ahead.extend(sources.iter().map(Reading::is_plain::<W>));
    }
    if ahead.contains(&true) { ahead } else { SmallVec::new() }
}
