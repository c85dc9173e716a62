//! Programs run on arrays: each instruction is a loop over a block that fits the first cache.
//!
//! Every instruction is the machine's own copy of a loop that was compiled beforehand, and computes what
//! the instruction is in a compiled formula: a program has the bits of the formula it was made of. This
//! module must not know what a program means.

use crate::map::{Block, Formula, Formulas};
use crate::math::{Float, TrigConstants};
use crate::native::{Compute, Native};
use crate::number::{Lane, Real, functions};
use crate::program::{Binary, Compare, Instruction, Narrow, Program, Unary, needed};
use crate::view::View;
use crate::walk::{Layout, Reader, Room, Walk};
use half::{bf16, f16};

/// What programs are computed in: `f32` and `f64`.
pub trait Machine: Real<Mask = bool> + Float + TrigConstants + Native {
    /// Runs an instruction that is not a variable on slices of equal length.
    fn instruction(instruction: &Instruction, operands: [&[Self]; 3], out: &mut [Self]);
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

/// Elements that an instruction is done for at a time.
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
    let plan = Plan::new(&program.instructions, &[program.result]);
    let layouts: Vec<Layout<'_>> = inputs.iter().map(View::layout).collect();
    let walk = Walk::new(out.len(), BLOCK, &layouts).in_chunks(CHUNK);
    let readers: Vec<Reader<'_, T>> =
        inputs.iter().enumerate().map(|(number, x)| Reader::new(x, number)).collect();
    walk.run(out, &|pieces| {
        let size = walk.longest();
        let mut rooms: Vec<Room<T>> = readers.iter().map(|_| Room::new()).collect();
        let mut slots: Vec<Vec<T::Wide>> = vec![vec![T::Wide::ZERO; size]; plan.slots];
        while let Some((piece, out)) = pieces.next() {
            let len = piece.len;
            for action in &plan.actions {
                let mut to = std::mem::take(&mut slots[action.to]);
                match action.instruction {
                    Instruction::Variable(number) => {
                        let x = readers[number].read(&walk, &piece, &mut rooms[number]);
                        T::widen(x, &mut to[..len]);
                    }
                    _ => {
                        let operands = action.from.map(|slot| match slots.get(slot) {
                            Some(values) => &values[..len],
                            None => &[],
                        });
                        T::Wide::instruction(&action.instruction, operands, &mut to[..len]);
                    }
                }
                slots[action.to] = to;
            }
            T::narrow(&slots[plan.results[0]][..len], out);
        }
    });
}

/// Which instruction runs when, and where its result goes: a slot is used again when nothing needs
/// what is in it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub actions: Vec<Action>,
    pub slots: usize,
    /// The slots in which the results are at the end.
    pub results: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Action {
    pub instruction: Instruction,
    /// The slots of what it is computed from; none has number `usize::MAX`.
    pub from: [usize; 3],
    pub to: usize,
}

impl Plan {
    pub fn new(instructions: &[Instruction], results: &[usize]) -> Plan {
        let needed = needed(instructions, results, false);
        let mut last = vec![0; instructions.len()];
        for (k, instruction) in instructions.iter().enumerate().filter(|(k, _)| needed[*k]) {
            instruction.operands().for_each(|operand| last[operand] = k);
        }
        results.iter().for_each(|&result| last[result] = usize::MAX);
        let (mut free, mut slots) = (Vec::new(), 0);
        let mut slot_of = vec![usize::MAX; instructions.len()];
        let mut actions = Vec::new();
        for (k, instruction) in instructions.iter().enumerate().filter(|(k, _)| needed[*k]) {
            // Not yet free: a loop must not write what it reads.
            let to = free.pop().unwrap_or_else(|| {
                slots += 1;
                slots - 1
            });
            slot_of[k] = to;
            let mut from = [usize::MAX; 3];
            for (slot, operand) in from.iter_mut().zip(instruction.operands()) {
                *slot = slot_of[operand];
            }
            actions.push(Action { instruction: *instruction, from, to });
            for operand in instruction.operands() {
                if last[operand] == k {
                    // An operand that is used twice is freed once.
                    last[operand] = 0;
                    free.push(slot_of[operand]);
                }
            }
        }
        Plan { actions, slots, results: results.iter().map(|&result| slot_of[result]).collect() }
    }
}

/// Makes a formula of one expression and runs it.
macro_rules! formula {
    ($t:ty, $out:ident, [$($x:ident = $value:expr),*] => $result:expr $(, trig $trig:expr)? $(, with $field:ident: $of:ty = $given:expr)?) => {{
        #[derive(Clone)]
        struct Expression { $($field: $of)? }
        impl Formula<{ 0 $(+ formula!(@one $x))* }> for Expression {
            $(const TRIG: bool = $trig;)?
            #[inline(always)]
            fn f<R: Real>(&self, [$($x),*]: [R; { 0 $(+ formula!(@one $x))* }]) -> R {
                $(let $field = self.$field;)?
                $result
            }
        }
        let formula = Formulas(Expression { $($field: $given)? });
        Block::<$t, $t, { 0 $(+ formula!(@one $x))* }>::run(&formula, [$($value),*], $out, None)
    }};
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
            fn instruction(instruction: &Instruction, [a, b, c]: [&[$t]; 3], out: &mut [$t]) {
                match *instruction {
                    Instruction::Variable(_) => {}
                    Instruction::Constant(value) => out.fill(value as $t),
                    Instruction::Unary(f, _) => unary_of::<$t>(f, a, out),
                    Instruction::Binary(f, ..) => binary_of::<$t>(f, a, b, out),
                    Instruction::Compare(Compare::Equal, ..) => {
                        formula!($t, out, [x = a, y = b] => truth(x, x.eq(y)))
                    }
                    Instruction::Compare(Compare::Less, ..) => {
                        formula!($t, out, [x = a, y = b] => truth(x, x.lt(y)))
                    }
                    Instruction::Compare(Compare::LessEqual, ..) => {
                        formula!($t, out, [x = a, y = b] => truth(x, x.le(y)))
                    }
                    Instruction::And(..) => {
                        formula!($t, out, [x = a, y = b] => truth(x, mask(x) & mask(y)))
                    }
                    Instruction::Or(..) => {
                        formula!($t, out, [x = a, y = b] => truth(x, mask(x) | mask(y)))
                    }
                    Instruction::Not(_) => formula!($t, out, [x = a] => truth(x, !mask(x))),
                    Instruction::Select(..) => {
                        formula!($t, out, [m = a, x = b, y = c] => R::select(mask(m), x, y))
                    }
                    Instruction::MulAdd(..) => {
                        formula!($t, out, [x = a, y = b, z = c] => x.mul_add(y, z))
                    }
                    Instruction::Capped(_, _, limit) => {
                        formula!($t, out, [x = a, m = b] => x.capped(mask(m), limit), with limit: f64 = limit)
                    }
                    Instruction::PowerTimes(_, _, _, less) => {
                        formula!($t, out, [x = a, n = b, q = c] => x.power_times(n, q, less), with less: u8 = less)
                    }
                    Instruction::Like(..) => out.copy_from_slice(a),
                    Instruction::Round(Narrow::F16, _) => rounded::<f16, $t>(a, out),
                    Instruction::Round(Narrow::BF16, _) => rounded::<bf16, $t>(a, out),
                }
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
    };
    (@as f64) => {
        fn as_single(_: &[f64]) -> Option<&[f32]> {
            None
        }
        fn as_double(values: &[f64]) -> Option<&[f64]> {
            Some(values)
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
    ($t:ty, $f:ident, $a:ident, $out:ident; $([$kind:ident] $doc:literal $name:ident $method:ident;)*) => {
        match $f {
            Unary::Negate => formula!($t, $out, [x = $a] => -x),
            Unary::Abs => formula!($t, $out, [x = $a] => x.abs()),
            $(Unary::$name => formula!($t, $out, [x = $a] => x.$method(), trig unary_match!(@ $kind)),)*
        }
    };
    (@ trig) => { true };
    (@ $kind:ident) => { false };
}

fn unary_of<T: Machine>(f: Unary, a: &[T], out: &mut [T])
where
    Lane<T>: Real,
{
    functions!(unary_match T, f, a, out;)
}

fn binary_of<T: Machine>(f: Binary, a: &[T], b: &[T], out: &mut [T])
where
    Lane<T>: Real,
{
    match f {
        Binary::Add => formula!(T, out, [x = a, y = b] => x + y),
        Binary::Subtract => formula!(T, out, [x = a, y = b] => x - y),
        Binary::Multiply => formula!(T, out, [x = a, y = b] => x * y),
        Binary::Divide => formula!(T, out, [x = a, y = b] => x / y),
        Binary::Maximum => formula!(T, out, [x = a, y = b] => x.maximum(y)),
        Binary::Minimum => formula!(T, out, [x = a, y = b] => x.minimum(y)),
        Binary::FloorDivide => formula!(T, out, [x = a, y = b] => x.floor_divide(y)),
        Binary::Modulo => formula!(T, out, [x = a, y = b] => x.modulo(y)),
        Binary::Power => formula!(T, out, [x = a, y = b] => x.pow(y)),
        Binary::CopySign => formula!(T, out, [x = a, y = b] => x.copysign(y)),
        Binary::Atan2 => formula!(T, out, [x = a, y = b] => x.atan2(y)),
        Binary::Hypot => formula!(T, out, [x = a, y = b] => x.hypot(y)),
        Binary::Times => formula!(T, out, [x = a, y = b] => x.times(y)),
        Binary::NanOr => formula!(T, out, [x = a, y = b] => x.nan_or(y)),
    }
}
