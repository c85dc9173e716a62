//! Programs run on arrays: each instruction is a loop over a block that fits the first cache.
//!
//! Every instruction is the machine's own copy of a loop that was compiled beforehand, and computes what
//! the instruction is in a compiled formula: a program has the bits of the formula it was made of. This
//! module must not know what a program means.

use crate::map::{Block, Formula, Formulas};
use crate::math::{Float, TrigConstants};
use crate::native::{Compute, Native};
use crate::number::{Lane, Real, Smooth, functions};
use crate::program::{Binary, Compare, Instruction, Narrow, Program, Unary};
use crate::reduce::{Floats, Fold, Line, scaled_sums};
use crate::steps::{Desk, Steps};
use crate::view::View;
use crate::walk::{Layout, Reader, Room, Walk};
use half::{bf16, f16};
use smallvec::SmallVec;

/// A loop that does an instruction to a block: operands, of which there are as many as it has, and the
/// result are slices of equal length.
pub type Operation<T> = fn(&Instruction, [&[T]; 3], &mut [T]);

/// What programs are computed in: `f32` and `f64`.
pub trait Machine:
    Real<Mask = bool> + Float + TrigConstants + Native + Floats<Wide = Self>
{
    /// The loop for an instruction that is neither a variable nor a constant.
    fn operation(instruction: &Instruction) -> Operation<Self>;
    /// One loop for two cheap instructions, of which the second takes what the first makes as operand
    /// number `side`, if there is one: of the first's operands and the second's others. It rounds twice, as
    /// two loops do.
    fn pair(first: &Instruction, second: &Instruction, side: usize) -> Option<Operation<Self>>;
    /// The numbers themselves, if `f32` is what is computed in.
    fn of_single(values: &[f32]) -> Option<&[Self]>;
    /// The numbers themselves, if `f64` is.
    fn of_double(values: &[f64]) -> Option<&[Self]>;
    /// How sums are made again that left the range, if they can.
    fn scaled_sums() -> Option<&'static dyn Fold<Self, f64, Line>>;
    /// From `f32`, exactly.
    fn from_single(from: &[f32], to: &mut [Self]);
    /// The nearest `f32`.
    fn to_single(from: &[Self], to: &mut [f32]);
    /// From `f64`, rounded.
    fn from_double(from: &[f64], to: &mut [Self]);
    /// As `f64`, exactly.
    fn to_double(from: &[Self], to: &mut [f64]);
    /// The numbers themselves, if they are `f32`.
    fn as_single(values: &[Self]) -> Option<&[f32]>;
    /// The numbers themselves, if they are `f64`.
    fn as_double(values: &[Self]) -> Option<&[f64]>;
}

/// Elements that are widened or rounded at a time.
pub(crate) const BLOCK: usize = 512;
/// Elements that one thread takes at a time.
pub(crate) const CHUNK: usize = 16 * 1024;

/// `out[i] = program(inputs[0][i], …)` over arrays of one shape, in row-major order.
///
/// # Panics
/// If an input has not as many elements as `out`.
pub fn run<T: Compute>(program: &Program, inputs: &[View<'_, T>], out: &mut [T])
where
    T::Wide: Machine,
{
    assert_eq!(inputs.len(), program.variables, "run: the program has other variables");
    for input in inputs {
        assert_eq!(input.len(), out.len(), "run: an input's length differs from the output's");
    }
    if out.is_empty() {
        return;
    }
    let steps = Steps::new(program.variables, &program.instructions, &[program.result]);
    let layouts: Vec<Layout<'_>> = inputs.iter().map(View::layout).collect();
    let walk = Walk::new(out.len(), steps.block(), &layouts).in_chunks(CHUNK);
    let readers: Vec<Reader<'_, T>> =
        inputs.iter().enumerate().map(|(number, x)| Reader::new(x, number)).collect();
    walk.run(out, &|pieces| {
        let size = walk.longest();
        let mut desk = Desk::new(&steps, size);
        let mut rooms: Vec<(Room<T>, Vec<T::Wide>)> =
            readers.iter().map(|_| (Room::new(), Vec::new())).collect();
        while let Some((piece, out)) = pieces.next() {
            let rooms = readers.iter().zip(&mut rooms);
            let variables: SmallVec<[&[T::Wide]; 8]> = rooms
                .map(|(reader, (room, wide))| {
                    let x = reader.read(&walk, &piece, room);
                    T::as_wide(x).unwrap_or_else(|| {
                        wide.resize(size, T::Wide::ZERO);
                        T::widen(x, &mut wide[..x.len()]);
                        &wide[..x.len()]
                    })
                })
                .collect();
            desk.run(&variables, piece.len, |_, _| {});
            T::narrow(desk.result(0, &variables, piece.len), out);
        }
    });
}

/// The loop over a formula of one expression.
macro_rules! formula {
    ($t:ty, [$($x:ident),*] => $result:expr $(, trig $trig:expr)? $(, with $field:ident: $of:ty = $given:pat)*) => {{
        #[derive(Clone)]
        struct Expression { $($field: $of),* }
        impl Formula<{ 0 $(+ formula!(@one $x))* }> for Expression {
            $(const TRIG: bool = $trig;)?
            #[inline(always)]
            fn f<R: Real>(&self, [$($x),*]: [R; { 0 $(+ formula!(@one $x))* }]) -> R {
                $(let $field = self.$field;)*
                $result
            }
        }
        let operation: Operation<$t> = |_instruction, operands, out| {
            $(let $given = *_instruction else { unreachable!("another instruction") };)*
            let formula = Formulas(Expression { $($field),* });
            let mut all = operands.into_iter();
            let x = [$(formula!(@next $x all)),*];
            Block::<$t, $t, { 0 $(+ formula!(@one $x))* }>::run(&formula, x, out, None)
        };
        operation
    }};
    (@next $x:ident $all:ident) => { $all.next().unwrap_or_default() };
    (@one $x:ident) => { 1 };
}

/// 1 for true.
#[inline(always)]
fn truth<R: Real>(like: R, mask: R::Mask) -> R {
    R::select(mask, like.lit(1.0), like.lit(0.0))
}

/// Whether a truth is one.
#[inline(always)]
fn mask<R: Real>(truth: R) -> R::Mask {
    truth.lit(0.5).lt(truth)
}

macro_rules! machine {
    ($($t:tt),*) => {$(
        impl Machine for $t {
            fn operation(instruction: &Instruction) -> Operation<$t> {
                match *instruction {
                    Instruction::Variable(_) | Instruction::Constant(_) => |_, _, _| {},
                    Instruction::Unary(f, _) => unary_of::<$t>(f),
                    Instruction::Binary(f, ..) => binary_of::<$t>(f),
                    Instruction::Compare(Compare::Equal, ..) => {
                        formula!($t, [x, y] => truth(x, x.eq(y)))
                    }
                    Instruction::Compare(Compare::Less, ..) => {
                        formula!($t, [x, y] => truth(x, x.lt(y)))
                    }
                    Instruction::Compare(Compare::LessEqual, ..) => {
                        formula!($t, [x, y] => truth(x, x.le(y)))
                    }
                    Instruction::And(..) => formula!($t, [x, y] => truth(x, mask(x) & mask(y))),
                    Instruction::Or(..) => formula!($t, [x, y] => truth(x, mask(x) | mask(y))),
                    Instruction::Not(_) => formula!($t, [x] => truth(x, !mask(x))),
                    Instruction::Select(..) => {
                        formula!($t, [m, x, y] => R::select(mask(m), x, y))
                    }
                    Instruction::MulAdd(..) => formula!($t, [x, y, z] => x.mul_add(y, z)),
                    Instruction::Capped(..) => formula!($t, [x, m] => x.capped(mask(m), limit),
                        with limit: f64 = Instruction::Capped(_, _, limit)),
                    Instruction::PowerTimes(..) => formula!($t, [x, n, q] => x.power_times(n, q, less),
                        with less: u8 = Instruction::PowerTimes(_, _, _, less)),
                    Instruction::NthDerivative(..) => formula!($t, [x] => x.nth_derivative(of, order),
                        with of: Smooth = Instruction::NthDerivative(of, ..),
                        with order: u8 = Instruction::NthDerivative(_, _, order)),
                    Instruction::Like(..) => |_, [a, ..], out| out.copy_from_slice(a),
                    Instruction::Round(Narrow::F16, _) => |_, [a, ..], out| rounded::<f16, $t>(a, out),
                    Instruction::Round(Narrow::BF16, _) => {
                        |_, [a, ..], out| rounded::<bf16, $t>(a, out)
                    }
                }
            }
            fn pair(first: &Instruction, second: &Instruction, side: usize) -> Option<Operation<$t>> {
                pair_of::<$t>(first, second, side)
            }
            fn from_single(from: &[f32], to: &mut [$t]) {
                from.iter().zip(to).for_each(|(from, to)| *to = *from as $t);
            }
            fn to_single(from: &[$t], to: &mut [f32]) {
                from.iter().zip(to).for_each(|(from, to)| *to = *from as f32);
            }
            fn from_double(from: &[f64], to: &mut [$t]) {
                from.iter().zip(to).for_each(|(from, to)| *to = *from as $t);
            }
            fn to_double(from: &[$t], to: &mut [f64]) {
                from.iter().zip(to).for_each(|(from, to)| *to = *from as f64);
            }
            machine!(@as $t);
        }
    )*};
    (@as f32) => {
        fn as_single(values: &[f32]) -> Option<&[f32]> {
            Some(values)
        }
        fn as_double(_: &[f32]) -> Option<&[f64]> {
            None
        }
        fn of_single(values: &[f32]) -> Option<&[f32]> {
            Some(values)
        }
        fn of_double(_: &[f64]) -> Option<&[f32]> {
            None
        }
        fn scaled_sums() -> Option<&'static dyn Fold<f32, f64, Line>> {
            None
        }
    };
    (@as f64) => {
        fn as_single(_: &[f64]) -> Option<&[f32]> {
            None
        }
        fn as_double(values: &[f64]) -> Option<&[f64]> {
            Some(values)
        }
        fn of_single(_: &[f32]) -> Option<&[f64]> {
            None
        }
        fn of_double(values: &[f64]) -> Option<&[f64]> {
            Some(values)
        }
        fn scaled_sums() -> Option<&'static dyn Fold<f64, f64, Line>> {
            Some(scaled_sums())
        }
    };
}
machine!(f32, f64);

/// The nearest numbers of 16 bits.
fn rounded<T: Compute<Wide = f32>, W: Machine>(from: &[W], to: &mut [W]) {
    let (mut wide, mut narrow) = ([0.0; BLOCK], [T::ZERO; BLOCK]);
    for (from, to) in from.chunks(BLOCK).zip(to.chunks_mut(BLOCK)) {
        let (wide, narrow) = (&mut wide[..from.len()], &mut narrow[..from.len()]);
        W::to_single(from, wide);
        T::narrow(wide, narrow);
        T::widen(narrow, wide);
        W::from_single(wide, to);
    }
}

macro_rules! unary_match {
    ($t:ty, $f:ident; $([$kind:ident] $doc:literal $name:ident $method:ident;)*) => {
        match $f {
            Unary::Negate => formula!($t, [x] => -x),
            Unary::Abs => formula!($t, [x] => x.abs()),
            $(Unary::$name => formula!($t, [x] => x.$method(), trig unary_match!(@ $kind)),)*
        }
    };
    (@ trig) => { true };
    (@ $kind:ident) => { false };
}

fn unary_of<T: Machine>(f: Unary) -> Operation<T>
where
    Lane<T>: Real,
{
    functions!(unary_match T, f;)
}

fn binary_of<T: Machine>(f: Binary) -> Operation<T>
where
    Lane<T>: Real,
{
    match f {
        Binary::Add => formula!(T, [x, y] => x + y),
        Binary::Subtract => formula!(T, [x, y] => x - y),
        Binary::Multiply => formula!(T, [x, y] => x * y),
        Binary::Divide => formula!(T, [x, y] => x / y),
        Binary::Maximum => formula!(T, [x, y] => x.maximum(y)),
        Binary::Minimum => formula!(T, [x, y] => x.minimum(y)),
        Binary::FloorDivide => formula!(T, [x, y] => x.floor_divide(y)),
        Binary::Modulo => formula!(T, [x, y] => x.modulo(y)),
        Binary::Power => formula!(T, [x, y] => x.pow(y)),
        Binary::CopySign => formula!(T, [x, y] => x.copysign(y)),
        Binary::Atan2 => formula!(T, [x, y] => x.atan2(y)),
        Binary::Hypot => formula!(T, [x, y] => x.hypot(y)),
        Binary::Times => formula!(T, [x, y] => x.times(y)),
        Binary::NanOr => formula!(T, [x, y] => x.nan_or(y)),
    }
}

fn pair_of<T: Machine>(
    first: &Instruction,
    second: &Instruction,
    side: usize,
) -> Option<Operation<T>>
where
    Lane<T>: Real,
{
    use Binary::{Add, Multiply, Subtract};
    use Instruction::Binary as Two;
    let negative = |x: &Instruction| matches!(x, Instruction::Unary(Unary::Negate, _));
    Some(match (first, second, side) {
        (Two(Multiply, ..), Two(Add, ..), _) => formula!(T, [x, y, z] => x * y + z),
        (Two(Multiply, ..), Two(Subtract, ..), 0) => formula!(T, [x, y, z] => x * y - z),
        (Two(Multiply, ..), Two(Subtract, ..), _) => formula!(T, [x, y, z] => z - x * y),
        (Two(Multiply, ..), Two(Multiply, ..), _) => formula!(T, [x, y, z] => x * y * z),
        (Two(Add, ..), Two(Multiply, ..), _) => formula!(T, [x, y, z] => (x + y) * z),
        (Two(Add, ..), Two(Add, ..), _) => formula!(T, [x, y, z] => x + y + z),
        (Two(Subtract, ..), Two(Multiply, ..), _) => formula!(T, [x, y, z] => (x - y) * z),
        (Two(Multiply, ..), second, _) if negative(second) => formula!(T, [x, y] => -(x * y)),
        (first, Two(Multiply, ..), _) if negative(first) => formula!(T, [x, y] => -x * y),
        _ => return None,
    })
}
