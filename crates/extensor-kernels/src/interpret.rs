//! Programs run on arrays: each instruction is a loop over a block that fits the first cache.
//!
//! Every instruction is the machine's own copy of a loop that was compiled beforehand, and computes what
//! the instruction is in a compiled formula: a program has the bits of the formula it was made of. This
//! module must not know what a program means.

use crate::map::{Block, Formula, Formulas};
use crate::math::{Float, TrigConstants};
use crate::native::{Compute, Native};
use crate::number::{Lane, Real};
use crate::program::{Binary, Compare, Instruction, Program, Unary, unary_functions};
use crate::view::View;
use crate::walk::{Layout, Reader, Room, Walk};

/// What programs are computed in: `f32` and `f64`.
pub trait Machine: Real<Mask = bool> + Float + TrigConstants + Native {
    /// Runs an instruction that is not a variable on slices of equal length.
    fn instruction(instruction: &Instruction, operands: [&[Self]; 3], out: &mut [Self]);
}

/// Elements that an instruction is done for at a time.
const BLOCK: usize = 512;
/// Elements that one thread takes at a time.
const CHUNK: usize = 16 * 1024;

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
    let plan = Plan::new(program);
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
            T::narrow(&slots[plan.result][..len], out);
        }
    });
}

/// Which instruction runs when, and where its result goes: a slot is used again when nothing needs
/// what is in it.
struct Plan {
    actions: Vec<Action>,
    slots: usize,
    result: usize,
}

struct Action {
    instruction: Instruction,
    /// The slots of what it is computed from; none has number `usize::MAX`.
    from: [usize; 3],
    to: usize,
}

impl Plan {
    fn new(program: &Program) -> Plan {
        let needed = program.needed(false);
        let mut last = vec![0; program.instructions.len()];
        for (k, instruction) in program.instructions.iter().enumerate().filter(|(k, _)| needed[*k])
        {
            instruction.operands().for_each(|operand| last[operand] = k);
        }
        last[program.result] = usize::MAX;
        let (mut free, mut slots) = (Vec::new(), 0);
        let mut slot_of = vec![usize::MAX; program.instructions.len()];
        let mut actions = Vec::new();
        for (k, instruction) in program.instructions.iter().enumerate().filter(|(k, _)| needed[*k])
        {
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
        Plan { actions, slots, result: slot_of[program.result] }
    }
}

/// Makes a formula of one expression and runs it.
macro_rules! formula {
    ($t:ty, $out:ident, [$($x:ident = $value:expr),*] => $result:expr $(, trig $trig:expr)? $(, with $field:ident: $of:ty = $given:expr)?) => {{
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
    ($($t:ty),*) => {$(
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
                }
            }
        }
    )*};
}
machine!(f32, f64);

macro_rules! unary_match {
    ($t:ty, $f:ident, $a:ident, $out:ident; $($name:ident $method:ident),*) => {
        match $f {
            Unary::Negate => formula!($t, $out, [x = $a] => -x),
            $(Unary::$name => formula!($t, $out, [x = $a] => x.$method(),
                trig matches!(Unary::$name, Unary::Sin | Unary::Cos | Unary::Tan)),)*
        }
    };
}

fn unary_of<T: Machine>(f: Unary, a: &[T], out: &mut [T])
where
    Lane<T>: Real,
{
    unary_functions!(unary_match T, f, a, out;)
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
