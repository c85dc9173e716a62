//! Arrays of several types, as numbers that are computed with.

use crate::buffer::Buffer;
use crate::interpret::{BLOCK, Machine};
use crate::native::Compute;
use crate::number::Number;
use crate::par::Shared;
use crate::reduce::Arithmetic;
use crate::stop;
use crate::stream::Stream;
use crate::view::View;
use crate::walk::{Layout, Piece, Reader, Room, Walk};
use half::{bf16, f16};

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
    pub(super) fn len(&self) -> usize {
        each!(Source, self, x => x.len())
    }
    pub(super) fn layout(&self) -> Layout<'_> {
        each!(Source, self, x => x.layout())
    }
}

impl Sink<'_> {
    pub(super) fn len(&self) -> usize {
        each!(Sink, self, x => x.len())
    }
    pub(super) fn bytes(&self) -> usize {
        each!(Sink, self, x => size_of_val(&**x))
    }
}

/// A source as it is read piece by piece.
pub(super) enum Reading<'a> {
    F16(Reader<'a, f16>),
    BF16(Reader<'a, bf16>),
    F32(Reader<'a, f32>),
    F64(Reader<'a, f64>),
    Mask(Reader<'a, u8>),
}

/// Where a reader puts what it had to pack, and what as numbers that are computed with.
pub(super) struct Packed {
    room: AnyRoom,
    wide: Option<Buffer>,
    /// Whether all blocks are the same, which is there already.
    always: bool,
}

enum AnyRoom {
    F16(Room<f16>),
    BF16(Room<bf16>),
    F32(Room<f32>),
    F64(Room<f64>),
    Mask(Room<u8>),
}

/// A sink that tasks share, each its own part.
pub(super) enum Writing {
    F16(Shared<f16>),
    BF16(Shared<bf16>),
    F32(Shared<f32>),
    F64(Shared<f64>),
    Mask(Shared<u8>),
}

impl<'a> Reading<'a> {
    pub fn new(source: &Source<'a>, number: usize) -> Self {
        match source {
            Source::F16(x) => Reading::F16(Reader::new(x, number)),
            Source::BF16(x) => Reading::BF16(Reader::new(x, number)),
            Source::F32(x) => Reading::F32(Reader::new(x, number)),
            Source::F64(x) => Reading::F64(Reader::new(x, number)),
            Source::Mask(x) => Reading::Mask(Reader::new(x, number)),
        }
    }

    /// Room for blocks of up to `size` elements.
    pub fn room<W: Machine>(&self, size: usize) -> Packed {
        let single = |x: f32| {
            let mut one = [W::ZERO];
            W::from_single(&[x], &mut one);
            one[0]
        };
        let double = |x: f64| {
            let mut one = [W::ZERO];
            W::from_double(&[x], &mut one);
            one[0]
        };
        let mask = |x: u8| if x != 0 { W::ZERO.lit(1.0) } else { W::ZERO };
        let (room, one) = match self {
            Reading::F16(x) => (AnyRoom::F16(Room::new()), x.constant().map(|x| single(x.wide()))),
            Reading::BF16(x) => {
                (AnyRoom::BF16(Room::new()), x.constant().map(|x| single(x.wide())))
            }
            Reading::F32(x) => (AnyRoom::F32(Room::new()), x.constant().map(single)),
            Reading::F64(x) => (AnyRoom::F64(Room::new()), x.constant().map(double)),
            Reading::Mask(x) => (AnyRoom::Mask(Room::new()), x.constant().map(mask)),
        };
        let mut packed = Packed { room, wide: None, always: one.is_some() };
        if let Some(one) = one {
            filled(&mut packed.wide, size, size, |to| to.fill(one));
        }
        packed
    }

    /// Whether the numbers are read where they lie, one after the other.
    pub fn is_plain<W: Machine>(source: &Source<'a>) -> bool {
        match source {
            Source::F32(x) => x.as_slice().is_some() && W::of_single(&[]).is_some(),
            Source::F64(x) => x.as_slice().is_some() && W::of_double(&[]).is_some(),
            _ => false,
        }
    }

    /// The elements of a piece, as numbers that are computed with.
    #[inline]
    pub fn load<'r, W: Machine>(
        &'r self,
        walk: &Walk,
        piece: &Piece<'_>,
        packed: &'r mut Packed,
    ) -> &'r [W] {
        let (len, size) = (piece.len, walk.longest());
        let Packed { room, wide, always } = packed;
        if *always {
            return &wide.as_ref().map_or(&[][..], Buffer::as_slice)[..len];
        }
        match (self, room) {
            (Reading::F16(x), AnyRoom::F16(room)) => {
                let x = x.read(walk, piece, room);
                filled(wide, size, len, |to| widen(x, to))
            }
            (Reading::BF16(x), AnyRoom::BF16(room)) => {
                let x = x.read(walk, piece, room);
                filled(wide, size, len, |to| widen(x, to))
            }
            (Reading::F32(x), AnyRoom::F32(room)) => {
                let x = x.read(walk, piece, room);
                match W::of_single(x) {
                    Some(x) => x,
                    None => filled(wide, size, len, |to| W::from_single(x, to)),
                }
            }
            (Reading::F64(x), AnyRoom::F64(room)) => {
                let x = x.read(walk, piece, room);
                match W::of_double(x) {
                    Some(x) => x,
                    None => filled(wide, size, len, |to| W::from_double(x, to)),
                }
            }
            (Reading::Mask(x), AnyRoom::Mask(room)) => {
                let x = x.read(walk, piece, room);
                filled(wide, size, len, |to: &mut [W]| {
                    for (to, x) in to.iter_mut().zip(x) {
                        *to = if *x != 0 { W::ZERO.lit(1.0) } else { W::ZERO };
                    }
                })
            }
            _ => unreachable!("a room of the reader's type"),
        }
    }
}

/// The first `len` of so many numbers, as they are filled in.
fn filled<W: Machine>(
    wide: &mut Option<Buffer>,
    size: usize,
    len: usize,
    fill: impl FnOnce(&mut [W]),
) -> &[W] {
    let wide = &mut wide.get_or_insert_with(|| buffer::<W>(size)).as_mut_slice()[..len];
    fill(wide);
    wide
}

/// Room for so many numbers.
pub(super) fn buffer<W: Machine>(size: usize) -> Buffer {
    let bytes = (size * size_of::<W>()).max(1);
    Buffer::scratch(bytes).unwrap_or_else(|| stop::no_memory(bytes))
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
    pub fn new(sink: &mut Sink<'_>) -> Self {
        match sink {
            Sink::F16(x) => Writing::F16(Shared::new(x)),
            Sink::BF16(x) => Writing::BF16(Shared::new(x)),
            Sink::F32(x) => Writing::F32(Shared::new(x)),
            Sink::F64(x) => Writing::F64(Shared::new(x)),
            Sink::Mask(x) => Writing::Mask(Shared::new(x)),
        }
    }

    /// Whether numbers are written as they are computed.
    pub fn is_plain<W: Machine>(&self) -> bool {
        match self {
            Writing::F32(_) => W::of_single(&[]).is_some(),
            Writing::F64(_) => W::of_double(&[]).is_some(),
            _ => false,
        }
    }

    /// Writes a piece's numbers to their place.
    ///
    /// # Safety
    /// The piece must lie in the sink, and nobody else may write to it.
    pub unsafe fn store<W: Machine>(&self, start: usize, from: &[W], stream: Option<&Stream>) {
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

    /// Writes sums over a divisor, rounded.
    ///
    /// # Safety
    /// As for [`store`](Self::store).
    pub unsafe fn sums(&self, start: usize, sums: &[f64], divisor: f64) {
        /// # Safety
        /// Likewise.
        unsafe fn rounded<T: Arithmetic<Acc = f64>>(
            out: &Shared<T>,
            start: usize,
            sums: &[f64],
            divisor: f64,
        ) {
            // SAFETY: the caller's promise.
            let out = unsafe { out.part(start, start + sums.len()) };
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = T::round(sum / divisor);
            }
        }
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Writing::F16(x) => rounded(x, start, sums, divisor),
                Writing::BF16(x) => rounded(x, start, sums, divisor),
                Writing::F32(x) => rounded(x, start, sums, divisor),
                Writing::F64(x) => rounded(x, start, sums, divisor),
                Writing::Mask(_) => unreachable!("masks have no sums"),
            }
        }
    }

    /// Writes sums over a divisor where the numbers there are not finite.
    ///
    /// # Safety
    /// As for [`store`](Self::store).
    pub unsafe fn instead(&self, start: usize, sums: &[f64], divisor: f64, scale: f64) {
        if let Writing::F64(x) = self {
            // SAFETY: the caller's promise.
            let out = unsafe { x.part(start, start + sums.len()) };
            for (out, sum) in out.iter_mut().zip(sums).filter(|(out, _)| !out.is_finite()) {
                *out = sum / divisor / scale;
            }
        }
    }
}
