//! A number that writes down what happens to it: how a formula becomes a list of instructions.
//!
//! A [`Symbol`] is a [`Real`] number. What is written down twice is kept once. This module must not
//! know what the instructions are used for.

use crate::map::{Formula, NumberFormula};
use crate::number::{Number, Real, Smooth, functions};
use crate::program::{Binary, Bundle, Compare, Instruction, Narrow, Program, Unary};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

impl Program {
    /// The instructions of a formula of `N` variables.
    pub fn of<F: Formula<N>, const N: usize>(formula: &F) -> Program {
        Program::record(N, |x| formula.f(std::array::from_fn(|k| x[k])))
    }

    /// Likewise of a formula that whole numbers have too.
    pub fn of_number<F: NumberFormula<N>, const N: usize>(formula: &F) -> Program {
        Program::record(N, |x| formula.f(std::array::from_fn(|k| x[k])))
    }

    /// The instructions of a function of any number of symbols, which must not itself record a program.
    pub fn record(variables: usize, formula: impl FnOnce(&[Symbol]) -> Symbol) -> Program {
        let Bundle { instructions, results, .. } =
            Bundle::record(variables, |symbols| vec![formula(symbols)]);
        Program { variables, instructions, result: results[0] }.tidy()
    }

    /// The instructions of a question, whose answer is 1 for yes and 0 for no.
    pub fn of_question(variables: usize, question: impl FnOnce(&[Symbol]) -> Answer) -> Program {
        Program::record(variables, |symbols| Symbol(question(symbols).0))
    }
}

impl Bundle {
    /// The instructions of a function with several results of any number of symbols, which must not
    /// itself record a program. What two results have in common is there once.
    pub fn record(variables: usize, formulas: impl FnOnce(&[Symbol]) -> Vec<Symbol>) -> Bundle {
        RECORDER.with(|recorder| *recorder.borrow_mut() = Recorder::default());
        let symbols: Vec<Symbol> = (0..variables).map(|k| push(Instruction::Variable(k))).collect();
        let results = formulas(&symbols).into_iter().map(|result| result.0).collect();
        let instructions = RECORDER.with(RefCell::take).instructions;
        Bundle { variables, instructions, results }
    }
}

thread_local! {
    static RECORDER: RefCell<Recorder> = RefCell::new(Recorder::default());
}

/// Writes instructions down, each only once.
#[derive(Default)]
struct Recorder {
    instructions: Vec<Instruction>,
    known: HashMap<[u64; 4], usize>,
}

impl Recorder {
    fn push(&mut self, instruction: Instruction) -> usize {
        if let Some(known) = self.simpler(&instruction) {
            return known;
        }
        let next = self.instructions.len();
        let number = *self.known.entry(key(&instruction)).or_insert(next);
        if number == next {
            self.instructions.push(instruction);
        }
        number
    }

    /// An earlier instruction that has the same result, whatever the numbers are.
    fn simpler(&self, instruction: &Instruction) -> Option<usize> {
        let one = |at: usize| self.instructions[at] == Instruction::Constant(1.0);
        match *instruction {
            Instruction::Binary(Binary::Multiply | Binary::Times | Binary::Divide, a, b)
                if one(b) =>
            {
                Some(a)
            }
            Instruction::Binary(Binary::Multiply | Binary::Times, a, b) if one(a) => Some(b),
            Instruction::Select(_, a, b) if a == b => Some(a),
            _ => None,
        }
    }
}

/// What tells one instruction from another: constants by their bits.
fn key(instruction: &Instruction) -> [u64; 4] {
    let [a, b, c] = {
        let mut all = [u64::MAX; 3];
        for (slot, operand) in all.iter_mut().zip(instruction.operands()) {
            *slot = operand as u64;
        }
        all
    };
    match *instruction {
        Instruction::Variable(k) => [0, k as u64, 0, 0],
        Instruction::Constant(value) => [1, value.to_bits(), 0, 0],
        Instruction::Unary(f, _) => [2 | (f as u64) << 8, a, b, c],
        Instruction::Binary(f, ..) => [3 | (f as u64) << 8, a, b, c],
        Instruction::Compare(f, ..) => [4 | (f as u64) << 8, a, b, c],
        Instruction::And(..) => [5, a, b, c],
        Instruction::Or(..) => [6, a, b, c],
        Instruction::Not(..) => [7, a, b, c],
        Instruction::Select(..) => [8, a, b, c],
        Instruction::MulAdd(..) => [9, a, b, c],
        Instruction::Capped(_, _, limit) => [10, a, b, limit.to_bits()],
        Instruction::Like(_, smooth) => [11, a, smooth as u64, c],
        Instruction::PowerTimes(_, _, _, less) => [12 | u64::from(less) << 8, a, b, c],
        Instruction::Round(to, _) => [13 | (to as u64) << 8, a, b, c],
        Instruction::NthDerivative(f, _, order) => {
            [14 | u64::from(order) << 8 | (f as u64) << 16, a, b, c]
        }
    }
}

fn push(instruction: Instruction) -> Symbol {
    RECORDER.with(|recorder| Symbol(recorder.borrow_mut().push(instruction)))
}

/// A number that writes down what happens to it.
#[derive(Clone, Copy)]
pub struct Symbol(usize);

impl Symbol {
    /// The instruction once more, with these symbols for the results of the instructions that it uses.
    pub fn repeat(instruction: &Instruction, results: &[Symbol]) -> Symbol {
        push(instruction.renumbered(|operand| results[operand].0))
    }

    /// The nearest number of 16 bits.
    pub fn round_to(self, narrow: Narrow) -> Symbol {
        push(Instruction::Round(narrow, self.0))
    }

    /// The symbol as the answer to the question that it came from.
    pub fn answer(self) -> Answer {
        Answer(self.0)
    }
}

/// The answer to a question about symbols.
#[derive(Clone, Copy)]
pub struct Answer(usize);

macro_rules! infix {
    ($($trait:ident $method:ident),*) => {$(
        impl $trait for Symbol {
            type Output = Symbol;
            fn $method(self, other: Symbol) -> Symbol {
                push(Instruction::Binary(infix!(@ $trait), self.0, other.0))
            }
        }
    )*};
    (@ Add) => { Binary::Add };
    (@ Sub) => { Binary::Subtract };
    (@ Mul) => { Binary::Multiply };
    (@ Div) => { Binary::Divide };
}
infix!(Add add, Sub sub, Mul mul, Div div);

impl Neg for Symbol {
    type Output = Symbol;
    fn neg(self) -> Symbol {
        push(Instruction::Unary(Unary::Negate, self.0))
    }
}

impl BitAnd for Answer {
    type Output = Answer;
    fn bitand(self, other: Answer) -> Answer {
        Answer(push(Instruction::And(self.0, other.0)).0)
    }
}

impl BitOr for Answer {
    type Output = Answer;
    fn bitor(self, other: Answer) -> Answer {
        Answer(push(Instruction::Or(self.0, other.0)).0)
    }
}

impl Not for Answer {
    type Output = Answer;
    fn not(self) -> Answer {
        Answer(push(Instruction::Not(self.0)).0)
    }
}

macro_rules! methods {
    (compare: $($name:ident $what:ident),*) => {$(
        fn $name(self, other: Symbol) -> Answer {
            Answer(push(Instruction::Compare(Compare::$what, self.0, other.0)).0)
        }
    )*};
    (binary: $($name:ident $what:ident),*) => {$(
        fn $name(self, other: Symbol) -> Symbol {
            push(Instruction::Binary(Binary::$what, self.0, other.0))
        }
    )*};
}

/// The functions of one number, each an instruction.
macro_rules! unary {
    ($([$kind:ident] $doc:literal $name:ident $method:ident;)*) => {$(
        fn $method(self) -> Symbol {
            push(Instruction::Unary(Unary::$name, self.0))
        }
    )*};
}

impl Number for Symbol {
    type Mask = Answer;
    fn lit(self, c: f64) -> Symbol {
        push(Instruction::Constant(c))
    }
    fn select(mask: Answer, a: Symbol, b: Symbol) -> Symbol {
        push(Instruction::Select(mask.0, a.0, b.0))
    }
    methods!(compare: eq Equal, lt Less, le LessEqual);
    fn abs(self) -> Symbol {
        push(Instruction::Unary(Unary::Abs, self.0))
    }
    fn sign(self) -> Symbol {
        let (zero, one) = (self.lit(0.0), self.lit(1.0));
        let above = Symbol::select(zero.lt(self), one, zero);
        self.nan_or(Symbol::select(self.lt(zero), -one, above))
    }
    fn size(self) -> Symbol {
        Symbol::select(self.lt(self.lit(0.0)), -self, self)
    }
    methods!(binary: maximum Maximum, minimum Minimum, floor_divide FloorDivide);
    methods!(binary: modulo Modulo, pow Power);
}

impl Real for Symbol {
    fn mul_add(self, b: Symbol, c: Symbol) -> Symbol {
        push(Instruction::MulAdd(self.0, b.0, c.0))
    }
    fn capped(self, at: Answer, limit: f64) -> Symbol {
        push(Instruction::Capped(self.0, at.0, limit))
    }
    fn power_times(self, n: Symbol, q: Symbol, m: u8) -> Symbol {
        push(Instruction::PowerTimes(self.0, n.0, q.0, m))
    }
    fn nth_derivative(self, of: Smooth, n: u8) -> Symbol {
        push(Instruction::NthDerivative(of, self.0, n))
    }
    fn like(self, smooth: impl FnOnce() -> Symbol) -> Symbol {
        push(Instruction::Like(self.0, smooth().0))
    }
    methods!(binary: copysign CopySign, atan2 Atan2, hypot Hypot, times Times, nan_or NanOr);
    functions!(unary);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    struct Hypotenuse;
    impl Formula<2> for Hypotenuse {
        fn f<R: Real>(&self, [a, b]: [R; 2]) -> R {
            R::select(a.lt(b), a.lit(2.0), (a * a + b * b).sqrt())
        }
    }

    #[test]
    fn a_program_has_the_steps_of_its_formula() {
        let program = Program::of(&Hypotenuse);
        let expected = [
            Instruction::Variable(0),
            Instruction::Variable(1),
            Instruction::Compare(Compare::Less, 0, 1),
            Instruction::Constant(2.0),
            Instruction::Binary(Binary::Multiply, 0, 0),
            Instruction::Binary(Binary::Multiply, 1, 1),
            Instruction::Binary(Binary::Add, 4, 5),
            Instruction::Unary(Unary::Sqrt, 6),
            Instruction::Select(2, 3, 7),
        ];
        assert_eq!(program.instructions, expected);
        assert_eq!(program.result, 8);
    }
}
