//! Several formulas of the same arrays in one pass over memory.
//!
//! A [`Bundle`] is run block by block, as [`interpret`](crate::interpret) runs a program, on arrays of
//! several types; what one formula makes and another takes never leaves the first cache. This module must
//! not know where the formulas come from.

use crate::buffer::Buffer;
use crate::interpret::{BLOCK, CHUNK, Machine, Plan};
use crate::native::Compute;
use crate::number::Number;
use crate::par::Shared;
use crate::program::{Bundle, Instruction};
use crate::stop;
use crate::stream::{self, Stream};
use crate::view::View;
use crate::walk::{Layout, Piece, Reader, Room, Walk};
use half::{bf16, f16};
use smallvec::SmallVec;

/// An array that is read. Masks are 0 and 1 in bytes, and so are their numbers.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub enum Source<'a> {
    F16(View<'a, f16>),
    BF16(View<'a, bf16>),
    F32(View<'a, f32>),
    F64(View<'a, f64>),
    Mask(View<'a, u8>),
}

/// An array that is written, in row-major order. A mask is true where the number is not 0.
#[allow(missing_docs)]
pub enum Sink<'a> {
    F16(&'a mut [f16]),
    BF16(&'a mut [bf16]),
    F32(&'a mut [f32]),
    F64(&'a mut [f64]),
    Mask(&'a mut [u8]),
}

/// Runs the expression with `$x` standing for what is in it, whatever its type.
macro_rules! each {
    ($enum:ident, $value:expr, $x:ident => $body:expr) => {
        match $value {
            $enum::F16($x) => $body,
            $enum::BF16($x) => $body,
            $enum::F32($x) => $body,
            $enum::F64($x) => $body,
            $enum::Mask($x) => $body,
        }
    };
}

impl Source<'_> {
    fn len(&self) -> usize {
        each!(Source, self, x => x.len())
    }
    fn layout(&self) -> Layout<'_> {
        each!(Source, self, x => x.layout())
    }
}

impl Sink<'_> {
    fn len(&self) -> usize {
        each!(Sink, self, x => x.len())
    }
    fn bytes(&self) -> usize {
        each!(Sink, self, x => size_of_val(&**x))
    }
}

/// A source as it is read piece by piece.
enum Reading<'a> {
    F16(Reader<'a, f16>),
    BF16(Reader<'a, bf16>),
    F32(Reader<'a, f32>),
    F64(Reader<'a, f64>),
    Mask(Reader<'a, u8>),
}

/// Where a reader puts what it had to pack.
enum Packed {
    F16(Room<f16>),
    BF16(Room<bf16>),
    F32(Room<f32>),
    F64(Room<f64>),
    Mask(Room<u8>),
}

/// A sink that tasks share, each its own part.
enum Writing {
    F16(Shared<f16>),
    BF16(Shared<bf16>),
    F32(Shared<f32>),
    F64(Shared<f64>),
    Mask(Shared<u8>),
}

impl<'a> Reading<'a> {
    fn new(source: &Source<'a>, number: usize) -> Self {
        match source {
            Source::F16(x) => Reading::F16(Reader::new(x, number)),
            Source::BF16(x) => Reading::BF16(Reader::new(x, number)),
            Source::F32(x) => Reading::F32(Reader::new(x, number)),
            Source::F64(x) => Reading::F64(Reader::new(x, number)),
            Source::Mask(x) => Reading::Mask(Reader::new(x, number)),
        }
    }

    fn room(&self) -> Packed {
        match self {
            Reading::F16(_) => Packed::F16(Room::new()),
            Reading::BF16(_) => Packed::BF16(Room::new()),
            Reading::F32(_) => Packed::F32(Room::new()),
            Reading::F64(_) => Packed::F64(Room::new()),
            Reading::Mask(_) => Packed::Mask(Room::new()),
        }
    }

    /// Brings the elements of a piece to `to`, as numbers that are computed with.
    fn load<W: Machine>(&self, walk: &Walk, piece: &Piece<'_>, room: &mut Packed, to: &mut [W]) {
        match (self, room) {
            (Reading::F16(x), Packed::F16(room)) => widen(x.read(walk, piece, room), to),
            (Reading::BF16(x), Packed::BF16(room)) => widen(x.read(walk, piece, room), to),
            (Reading::F32(x), Packed::F32(room)) => W::from_single(x.read(walk, piece, room), to),
            (Reading::F64(x), Packed::F64(room)) => W::from_double(x.read(walk, piece, room), to),
            (Reading::Mask(x), Packed::Mask(room)) => {
                let x = x.read(walk, piece, room);
                for (to, x) in to.iter_mut().zip(x) {
                    *to = if *x != 0 { W::ZERO.lit(1.0) } else { W::ZERO };
                }
            }
            _ => unreachable!("a room of the reader's type"),
        }
    }
}

/// From 16 bits, exactly.
fn widen<T: Compute<Wide = f32>, W: Machine>(from: &[T], to: &mut [W]) {
    let mut wide = [0.0; BLOCK];
    for (from, to) in from.chunks(BLOCK).zip(to.chunks_mut(BLOCK)) {
        let wide = &mut wide[..from.len()];
        T::widen(from, wide);
        W::from_single(wide, to);
    }
}

/// To 16 bits.
fn narrow<T: Compute<Wide = f32>, W: Machine>(from: &[W], to: &mut [T]) {
    let mut wide = [0.0; BLOCK];
    for (from, to) in from.chunks(BLOCK).zip(to.chunks_mut(BLOCK)) {
        let wide = &mut wide[..from.len()];
        W::to_single(from, wide);
        T::narrow(wide, to);
    }
}

impl Writing {
    fn new(sink: &mut Sink<'_>) -> Self {
        match sink {
            Sink::F16(x) => Writing::F16(Shared::new(x)),
            Sink::BF16(x) => Writing::BF16(Shared::new(x)),
            Sink::F32(x) => Writing::F32(Shared::new(x)),
            Sink::F64(x) => Writing::F64(Shared::new(x)),
            Sink::Mask(x) => Writing::Mask(Shared::new(x)),
        }
    }

    /// Writes a piece's numbers to their place.
    ///
    /// # Safety
    /// The piece must lie in the sink, and nobody else may write to it.
    unsafe fn store<W: Machine>(&self, start: usize, from: &[W], stream: Option<&Stream>) {
        let end = start + from.len();
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Writing::F16(x) => narrow(from, x.part(start, end)),
                Writing::BF16(x) => narrow(from, x.part(start, end)),
                Writing::F32(x) => match (W::as_single(from), stream) {
                    (Some(from), Some(stream)) => stream.write(from, x.part(start, end)),
                    _ => W::to_single(from, x.part(start, end)),
                },
                Writing::F64(x) => match (W::as_double(from), stream) {
                    (Some(from), Some(stream)) => stream.write(from, x.part(start, end)),
                    _ => W::to_double(from, x.part(start, end)),
                },
                Writing::Mask(x) => {
                    for (to, from) in x.part(start, end).iter_mut().zip(from) {
                        *to = u8::from(!Number::eq(*from, W::ZERO));
                    }
                }
            }
        }
    }
}

/// A bundle that is ready to run.
#[derive(Clone, Debug)]
pub struct Fused {
    plan: Plan,
    variables: usize,
}

impl Fused {
    /// The bundle's instructions, each with a place for what it makes.
    pub fn new(bundle: &Bundle) -> Fused {
        let plan = Plan::new(&bundle.instructions, &bundle.results);
        Fused { plan, variables: bundle.variables }
    }

    /// Computes the results in `W` and writes each to its sink.
    ///
    /// # Panics
    /// If there is another number of arrays, or one has another length.
    pub fn run<W: Machine>(&self, sources: &[Source<'_>], sinks: &mut [Sink<'_>]) {
        assert_eq!(sources.len(), self.variables, "fused: the bundle has other variables");
        assert_eq!(sinks.len(), self.plan.results.len(), "fused: the bundle has other results");
        let Some(len) = sinks.first().map(Sink::len) else { return };
        let lengths = sources.iter().map(Source::len).chain(sinks.iter().map(Sink::len));
        assert!(lengths.into_iter().all(|each| each == len), "fused: arrays of different lengths");
        if len == 0 {
            return;
        }
        let layouts: SmallVec<[Layout<'_>; 8]> = sources.iter().map(Source::layout).collect();
        let walk = Walk::new(len, BLOCK, &layouts).in_chunks(CHUNK);
        let readers: SmallVec<[Reading<'_>; 8]> =
            sources.iter().enumerate().map(|(number, x)| Reading::new(x, number)).collect();
        let past = sinks.iter().map(Sink::bytes).sum::<usize>() >= stream::FROM;
        let writers: SmallVec<[Writing; 4]> = sinks.iter_mut().map(Writing::new).collect();
        walk.tasks(past, &|mut order| {
            let size = walk.longest();
            let bytes = self.plan.slots * size * size_of::<W>();
            let Some(mut memory) = Buffer::new(bytes) else { stop::no_memory(bytes) };
            let mut slots: SmallVec<[&mut [W]; 16]> =
                memory.as_mut_slice::<W>().chunks_mut(size).collect();
            let mut rooms: SmallVec<[Packed; 8]> = readers.iter().map(Reading::room).collect();
            while let Some(piece) = order.next() {
                let len = piece.len;
                for action in &self.plan.actions {
                    let to = std::mem::take(&mut slots[action.to]);
                    match action.instruction {
                        Instruction::Variable(number) => {
                            readers[number].load(&walk, &piece, &mut rooms[number], &mut to[..len]);
                        }
                        _ => {
                            let operands = action.from.map(|slot| match slots.get(slot) {
                                Some(values) => &values[..len],
                                None => &[],
                            });
                            W::instruction(&action.instruction, operands, &mut to[..len]);
                        }
                    }
                    slots[action.to] = to;
                }
                for (writer, &slot) in writers.iter().zip(&self.plan.results) {
                    // SAFETY: the sinks have the walk's length, and no piece comes twice.
                    unsafe { writer.store(piece.start, &slots[slot][..len], piece.stream) };
                }
            }
        });
    }
}
