//! Elementwise work: a formula over the elements of one, two or three arrays.
//!
//! A formula is compiled only for slices (and for each instruction set); [`map`] brings everything
//! else into that form: it walks over strided and broadcast arrays in blocks that fit the first
//! cache, widens reduced precisions there, and shares large work among threads.

use crate::array::each;
use crate::isa::{Kernel, dispatch, dispatch_narrow};
use crate::math::{Float, TrigConstants};
use crate::native::{Compute, Native};
use crate::number::{Lane, Number, Real};
use crate::par::{parallel_chunks, share};
use crate::program::Program;
use crate::stream::{self, Cursors, Stream};
use crate::view::View;
use crate::walk::{Reader, Room, Walk};
use std::mem::MaybeUninit;
use std::num::Wrapping;
use std::sync::Arc;

/// A real function of `N` variables.
pub trait Formula<const N: usize>: Clone + Send + Sync + 'static {
    /// Whether it contains a sine, cosine or tangent, of its last variable.
    const TRIG: bool = false;
    /// The formula.
    fn f<R: Real>(&self, x: [R; N]) -> R;
}

/// A function of `N` numbers, whole ones included.
pub trait NumberFormula<const N: usize>: Clone + Send + Sync + 'static {
    /// The formula.
    fn f<R: Number>(&self, x: [R; N]) -> R;
}

/// A question about `N` numbers.
pub trait Predicate<const N: usize>: Clone + Send + Sync + 'static {
    /// The answer.
    fn f<R: Number>(&self, x: [R; N]) -> R::Mask;
}

/// A question about a real number.
pub trait RealPredicate: Clone + Send + Sync + 'static {
    /// The answer.
    fn f<R: Real>(&self, x: R) -> R::Mask;
}

/// Something that can be done to slices of equal length.
pub trait Block<I, O, const N: usize>: Send + Sync {
    /// Computes `out` from `x`, and writes it past the caches if `past` is given.
    fn run(&self, x: [&[I]; N], out: &mut [O], past: Option<&Stream>);
}

/// A [`Formula`] as a [`Block`].
#[derive(Clone)]
pub struct Formulas<F>(pub F);
/// A [`NumberFormula`] as a [`Block`].
#[derive(Clone)]
pub struct Numbers<F>(pub F);
/// A [`Predicate`] as a [`Block`].
#[derive(Clone)]
pub struct Predicates<F>(pub F);
/// A [`RealPredicate`] as a [`Block`].
#[derive(Clone)]
pub struct RealPredicates<F>(pub F);

struct Loop<'a, I, O, const N: usize, G> {
    x: [&'a [I]; N],
    out: &'a mut [O],
    g: G,
    past: Option<&'a Stream>,
}

/// A function in a form that is sure to be inlined into the loop (a closure is not).
trait Inline<I, O, const N: usize> {
    fn call(&self, x: [I; N]) -> O;
}

impl<I: Copy, O: Native, const N: usize, G: Inline<I, O, N>> Kernel for Loop<'_, I, O, N, G> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        self.elements::<false>();
    }

    #[inline(always)]
    fn run_plainly(self) {
        self.elements::<true>();
    }
}

impl<I: Copy, O: Native, const N: usize, G: Inline<I, O, N>> Loop<'_, I, O, N, G> {
    // Plain indices instead of iterators: this is compiled once for every formula, type and
    // instruction set, and every adapter would be compiled along with it.
    #[inline(always)]
    fn elements<const PLAINLY: bool>(self) {
        let Loop { x, out, g, past } = self;
        let len = out.len();
        let mut k = 0;
        while k < N {
            assert!(x[k].len() == len);
            k += 1;
        }
        // What goes past the caches is made here first. One loop over the formula serves both ways.
        let mut made: Made<O> = Made([const { MaybeUninit::uninit() }; STREAMED]);
        let step = if past.is_some() { STREAMED } else { len };
        let mut start = 0;
        while start < len {
            let count = if step < len - start { step } else { len - start };
            let mut to = out[start..].as_mut_ptr();
            if past.is_some() {
                let mut k = 0;
                while k < N {
                    stream::ask_ahead(&x[k][start..start + count], AHEAD);
                    k += 1;
                }
                to = made.0.as_mut_ptr().cast();
            }
            let mut i = 0;
            while i < count {
                // SAFETY: `start + i` is below the length of `out` and of every input, which were
                // compared, and `i` below that of `made` where that is written.
                unsafe {
                    let mut values = [*x[0].get_unchecked(start + i); N];
                    let mut k = 1;
                    while k < N {
                        values[k] = *x[k].get_unchecked(start + i);
                        k += 1;
                    }
                    *to.add(i) = g.call(values);
                }
                // What the compiler cannot see through it neither vectorises nor unrolls.
                i = if PLAINLY { std::hint::black_box(i + 1) } else { i + 1 };
            }
            if let Some(stream) = past {
                // SAFETY: the first `count` were written above.
                let made = unsafe { std::slice::from_raw_parts(made.0.as_ptr().cast(), count) };
                stream.write(made, &mut out[start..start + count]);
            }
            start += count;
        }
    }
}

/// Results on their way past the caches, line by line where they will lie.
#[repr(align(64))]
struct Made<O>([MaybeUninit<O>; STREAMED]);

struct AsIs<'a, F>(&'a F);
struct AsLane<'a, F>(&'a F);

impl<T: Real, F: Formula<N>, const N: usize> Inline<T, T, N> for AsIs<'_, Formulas<F>> {
    #[inline(always)]
    fn call(&self, x: [T; N]) -> T {
        self.0.0.f(x)
    }
}

impl<T: Copy, F: Formula<N>, const N: usize> Inline<T, T, N> for AsLane<'_, F>
where
    Lane<T>: Real,
{
    #[inline(always)]
    fn call(&self, x: [T; N]) -> T {
        let mut lanes = [Lane(x[0]); N];
        let mut k = 1;
        while k < N {
            lanes[k] = Lane(x[k]);
            k += 1;
        }
        self.0.f(lanes).0
    }
}

impl<T: Number, F: NumberFormula<N>, const N: usize> Inline<T, T, N> for AsIs<'_, Numbers<F>> {
    #[inline(always)]
    fn call(&self, x: [T; N]) -> T {
        self.0.0.f(x)
    }
}

impl<T: Number<Mask = bool>, F: Predicate<N>, const N: usize> Inline<T, u8, N>
    for AsIs<'_, Predicates<F>>
{
    #[inline(always)]
    fn call(&self, x: [T; N]) -> u8 {
        u8::from(self.0.0.f(x))
    }
}

impl<T: Real<Mask = bool>, F: RealPredicate> Inline<T, u8, 1> for AsIs<'_, RealPredicates<F>> {
    #[inline(always)]
    fn call(&self, [x]: [T; 1]) -> u8 {
        u8::from(self.0.0.f(x))
    }
}

impl<T, F, const N: usize> Block<T, T, N> for Formulas<F>
where
    T: Real + Float + TrigConstants + Native,
    Lane<T>: Real,
    F: Formula<N>,
{
    fn run(&self, x: [&[T]; N], out: &mut [T], past: Option<&Stream>) {
        if !F::TRIG {
            return dispatch(Loop { x, out, g: AsIs(self), past });
        }
        // The branch-free reduction serves small arguments; a piece with a large one takes the
        // general one.
        const PIECE: usize = 512;
        for (k, out) in out.chunks_mut(PIECE).enumerate() {
            let x = x.map(|x| &x[k * PIECE..k * PIECE + out.len()]);
            let large =
                x[N - 1].iter().fold(false, |any, v| any | (Float::abs(*v) > T::TRIG_LIMIT));
            if large {
                Loop { x, out, g: AsIs(self), past }.run_plainly();
            } else {
                dispatch(Loop { x, out, g: AsLane(&self.0), past });
            }
        }
    }
}

macro_rules! numbers {
    ($dispatch:ident: $($t:ty),*) => {$(
        impl<F: NumberFormula<N>, const N: usize> Block<$t, $t, N> for Numbers<F> {
            fn run(&self, x: [&[$t]; N], out: &mut [$t], past: Option<&Stream>) {
                $dispatch(Loop { x, out, g: AsIs(self), past });
            }
        }
    )*};
}
numbers!(by_registers: f32, f64);
numbers!(dispatch_narrow: Wrapping<i8>, Wrapping<i16>, Wrapping<i32>, Wrapping<i64>);
numbers!(dispatch_narrow: Wrapping<u8>, Wrapping<u16>, Wrapping<u32>, Wrapping<u64>);

/// Runs a formula that whole numbers have too, which is cheap: past the caches it waits for memory, on
/// some processors for longer with the widest registers.
#[inline]
fn by_registers<T: Native, const N: usize, G: Inline<T, T, N>>(kernel: Loop<'_, T, T, N, G>) {
    if kernel.past.is_some() && !Cursors::here().widest {
        dispatch_narrow(kernel)
    } else {
        dispatch(kernel)
    }
}

impl<T, F, const N: usize> Block<T, u8, N> for Predicates<F>
where
    T: Number<Mask = bool> + Native,
    F: Predicate<N>,
{
    fn run(&self, x: [&[T]; N], out: &mut [u8], past: Option<&Stream>) {
        dispatch_narrow(Loop { x, out, g: AsIs(self), past });
    }
}

impl<T: Real<Mask = bool> + Native, F: RealPredicate> Block<T, u8, 1> for RealPredicates<F> {
    fn run(&self, x: [&[T]; 1], out: &mut [u8], past: Option<&Stream>) {
        dispatch_narrow(Loop { x, out, g: AsIs(self), past });
    }
}

/// A block for every float type: what is not compiled again for each formula takes one of these.
pub trait RealBlock<const N: usize>: Block<f32, f32, N> + Block<f64, f64, N> {
    /// The formula's steps.
    fn program(&self) -> Program;
    /// The same block, to be kept.
    fn keep(&self) -> Arc<dyn RealBlock<N>>;
}

impl<const N: usize> std::fmt::Debug for dyn RealBlock<N> + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.program().fmt(f)
    }
}

impl<F: Formula<N>, const N: usize> RealBlock<N> for Formulas<F> {
    fn program(&self) -> Program {
        Program::of(&self.0)
    }
    fn keep(&self) -> Arc<dyn RealBlock<N>> {
        Arc::new(self.clone())
    }
}

impl<F: NumberFormula<N>, const N: usize> RealBlock<N> for Numbers<F> {
    fn program(&self) -> Program {
        Program::of_number(&self.0)
    }
    fn keep(&self) -> Arc<dyn RealBlock<N>> {
        Arc::new(self.clone())
    }
}

macro_rules! blocks_for_all_numbers {
    ($($int:ty),*) => {
        /// A block for every number type.
        pub trait NumberBlock<const N: usize>:
            RealBlock<N> $(+ Block<Wrapping<$int>, Wrapping<$int>, N>)*
        {
            /// The same block, to be kept.
            fn keep_number(&self) -> Arc<dyn NumberBlock<N>>;
        }
        impl<F: NumberFormula<N>, const N: usize> NumberBlock<N> for Numbers<F> {
            fn keep_number(&self) -> Arc<dyn NumberBlock<N>> {
                Arc::new(self.clone())
            }
        }

        /// A block that makes a mask of every number type.
        pub trait MaskBlock<const N: usize>:
            Block<f32, u8, N> + Block<f64, u8, N> $(+ Block<Wrapping<$int>, u8, N>)*
        {
            /// The question's steps.
            fn program(&self) -> Program;
            /// The same block, to be kept.
            fn keep(&self) -> Arc<dyn MaskBlock<N>>;
        }
        impl<F: Predicate<N>, const N: usize> MaskBlock<N> for Predicates<F> {
            fn program(&self) -> Program {
                Program::of_question(N, |x| self.0.f(std::array::from_fn(|k| x[k])))
            }
            fn keep(&self) -> Arc<dyn MaskBlock<N>> {
                Arc::new(self.clone())
            }
        }
    };
}
blocks_for_all_numbers!(i8, i16, i32, i64, u8, u16, u32, u64);

/// A block that makes a mask of every float type.
pub trait RealMaskBlock: Block<f32, u8, 1> + Block<f64, u8, 1> {
    /// The question's steps.
    fn program(&self) -> Program;
    /// The same block, to be kept.
    fn keep(&self) -> Arc<dyn RealMaskBlock>;
}

impl<F: RealPredicate> RealMaskBlock for RealPredicates<F> {
    fn program(&self) -> Program {
        Program::of_question(1, |x| self.0.f(x[0]))
    }
    fn keep(&self) -> Arc<dyn RealMaskBlock> {
        Arc::new(self.clone())
    }
}

/// Elements that one thread takes at a time, at most and at least.
const CHUNK: usize = 64 * 1024;
const LEAST: usize = 8 * 1024;
/// Elements that are packed or widened at a time.
const BLOCK: usize = 1024;
/// Elements that are made before they are written past the caches: few, so that reading, computing
/// and writing alternate often enough to go on side by side.
const STREAMED: usize = stream::PIECE;
/// How many elements ahead memory is asked for on the way there.
const AHEAD: usize = 1024;

/// `out[i] = block(inputs[0][i], …)` over arrays of one shape, in row-major order.
///
/// # Panics
/// If an input has not as many elements as `out`.
#[inline]
pub fn map<T, O, const N: usize>(
    block: &dyn Block<T::Wide, O::Wide, N>,
    inputs: [View<'_, T>; N],
    out: &mut [O],
) where
    T: Compute,
    O: Compute,
{
    for input in &inputs {
        assert_eq!(input.len(), out.len(), "map: an input's length differs from the output's");
    }
    let mut slices: [&[T]; N] = [&[]; N];
    for (slice, input) in slices.iter_mut().zip(&inputs) {
        match input.as_slice() {
            Some(s) => *slice = s,
            None => return map_packed(block, inputs, out),
        }
    }
    map_slices(block, slices, out);
}

/// The elements `start..start + len` of each. (`array::map` would be compiled anew, five functions
/// deep, for each of the closures below.)
#[inline]
fn parts<'a, T, const N: usize>(x: &[&'a [T]; N], start: usize, len: usize) -> [&'a [T]; N] {
    let mut parts: [&[T]; N] = [&[]; N];
    for k in 0..N {
        parts[k] = &x[k][start..start + len];
    }
    parts
}

/// [`map`] over slices.
///
/// # Panics
/// If an input has not as many elements as `out`.
#[inline]
pub fn map_slices<T, O, const N: usize>(
    block: &dyn Block<T::Wide, O::Wide, N>,
    inputs: [&[T]; N],
    out: &mut [O],
) where
    T: Compute,
    O: Compute,
{
    let len = out.len();
    let mut slices: [&[T::Wide]; N] = [&[]; N];
    for (slice, input) in slices.iter_mut().zip(inputs) {
        assert_eq!(input.len(), len, "map: an input's length differs from the output's");
        match T::as_wide(input) {
            Some(s) => *slice = s,
            None => return map_converted(block, inputs, out),
        }
    }
    match O::as_wide_mut(out) {
        Some(out) if len <= LEAST => block.run(slices, out, None),
        Some(out) => {
            let past = size_of_val(out) >= stream::FROM;
            parallel_chunks(out, chunk(len), &|start, out| {
                let stream = past.then(Stream::new);
                block.run(parts(&slices, start, out.len()), out, stream.as_ref());
            });
        }
        None => map_converted(block, inputs, out),
    }
}

/// How many of `len` elements a task takes: whole blocks.
fn chunk(len: usize) -> usize {
    share(len, LEAST, CHUNK).next_multiple_of(BLOCK)
}

/// [`map_slices`] where something has to be converted.
fn map_converted<T: Compute, O: Compute, const N: usize>(
    block: &dyn Block<T::Wide, O::Wide, N>,
    inputs: [&[T]; N],
    out: &mut [O],
) {
    let shape = [out.len()];
    map_packed(block, each(inputs, |x| View::new(x, 0, &shape, &[1])), out);
}

/// [`map`] where something has to be gathered or converted.
fn map_packed<T: Compute, O: Compute, const N: usize>(
    block: &dyn Block<T::Wide, O::Wide, N>,
    inputs: [View<'_, T>; N],
    out: &mut [O],
) {
    if out.is_empty() {
        return;
    }
    let layouts = each(inputs.each_ref(), |x| x.layout());
    let walk = Walk::new(out.len(), BLOCK, &layouts);
    let mut number = 0;
    let readers = each(inputs.each_ref(), |x| {
        number += 1;
        Reader::new(x, number - 1)
    });
    let constants = each(readers.each_ref(), |x| x.constant().map(T::wide));
    walk.run(out, &|pieces| {
        let mut rooms = [const { Room::new() }; N];
        let mut wide = [[T::Wide::ZERO; BLOCK]; N];
        let mut result = [O::Wide::ZERO; BLOCK];
        let longest = walk.longest();
        for (buffer, constant) in wide.iter_mut().zip(&constants) {
            if let Some(constant) = constant {
                buffer[..longest].fill(*constant);
            }
        }
        while let Some((piece, out)) = pieces.next() {
            let len = piece.len;
            let mut slices: [&[T::Wide]; N] = [&[]; N];
            for ((((slice, buffer), reader), constant), room) in
                slices.iter_mut().zip(&mut wide).zip(&readers).zip(&constants).zip(&mut rooms)
            {
                if constant.is_none() {
                    let source = reader.read(&walk, &piece, room);
                    if let Some(direct) = T::as_wide(source) {
                        *slice = direct;
                        continue;
                    }
                    T::widen(source, &mut buffer[..len]);
                }
                *slice = &buffer[..len];
            }
            match O::as_wide_mut(out) {
                Some(out) => block.run(slices, out, piece.stream),
                None => {
                    block.run(slices, &mut result[..len], None);
                    O::narrow(&result[..len], out);
                }
            }
        }
    });
}

/// `out[i] = if condition[i] { a[i] } else { b[i] }`, for numbers that are moved and not looked at.
///
/// # Panics
/// If an input has not as many elements as `out`.
pub fn choose<T: Native>(condition: View<'_, u8>, a: View<'_, T>, b: View<'_, T>, out: &mut [T]) {
    assert!(
        [condition.len(), a.len(), b.len()] == [out.len(); 3],
        "choose: an input's length differs from the output's"
    );
    let walk = Walk::new(out.len(), BLOCK, &[condition.layout(), a.layout(), b.layout()]);
    let condition = Reader::new(&condition, 0);
    let (a, b) = (Reader::new(&a, 1), Reader::new(&b, 2));
    walk.run(out, &|pieces| {
        let (mut mask, mut ones, mut others) = (Room::new(), Room::new(), Room::new());
        while let Some((piece, out)) = pieces.next() {
            let mask = condition.read(&walk, &piece, &mut mask);
            let a = a.read(&walk, &piece, &mut ones);
            let b = b.read(&walk, &piece, &mut others);
            for (((out, a), b), mask) in out.iter_mut().zip(a).zip(b).zip(mask) {
                *out = if *mask != 0 { *a } else { *b };
            }
        }
    });
}
