//! A formula as a list of instructions, to be run on something other than machine numbers, or to be
//! changed first.
//!
//! This module must not know where programs come from ([`symbol`](crate::symbol)) nor who runs them
//! ([`interpret`](crate::interpret)).

use crate::number::{Smooth, functions};

/// An instruction of a program: what is done to the results of earlier instructions, which are named by number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Instruction {
    /// The variable with this number.
    Variable(usize),
    /// A constant.
    Constant(f64),
    /// A function of one number.
    Unary(Unary, usize),
    /// A function of two numbers.
    Binary(Binary, usize, usize),
    /// A question about two numbers.
    Compare(Compare, usize, usize),
    /// Both of two masks.
    And(usize, usize),
    /// Either of two masks.
    Or(usize, usize),
    /// The other mask.
    Not(usize),
    /// The second where the first, a mask, is true; the third elsewhere.
    Select(usize, usize, usize),
    /// The first times the second plus the third, rounded once.
    MulAdd(usize, usize, usize),
    /// The first, held within a limit where the second, a mask, is true; see [`Real::capped`](crate::number::Real::capped).
    Capped(usize, usize, f64),
    /// The first to the power of the second less a whole number, times the third; see
    /// [`Real::power_times`](crate::number::Real::power_times).
    PowerTimes(usize, usize, usize, u8),
    /// A derivative of a function at the first; see [`Real::nth_derivative`](crate::number::Real::nth_derivative).
    NthDerivative(Smooth, usize, u8),
    /// The first, which is to be differentiated as the second; see [`Real::like`](crate::number::Real::like).
    Like(usize, usize),
    /// The nearest number of 16 bits.
    Round(Narrow, usize),
}

/// The floats of 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Narrow {
    F16,
    BF16,
}

impl Instruction {
    /// The instructions whose results it is computed from.
    pub fn operands(&self) -> impl Iterator<Item = usize> {
        let (all, count) = match *self {
            Instruction::Variable(_) | Instruction::Constant(_) => ([0; 3], 0),
            Instruction::Unary(_, a) | Instruction::Not(a) | Instruction::Like(a, _) => {
                ([a, 0, 0], 1)
            }
            Instruction::Round(_, a) | Instruction::NthDerivative(_, a, _) => ([a, 0, 0], 1),
            Instruction::Binary(_, a, b) | Instruction::Compare(_, a, b) => ([a, b, 0], 2),
            Instruction::And(a, b) | Instruction::Or(a, b) | Instruction::Capped(a, b, _) => {
                ([a, b, 0], 2)
            }
            Instruction::Select(a, b, c) | Instruction::MulAdd(a, b, c) => ([a, b, c], 3),
            Instruction::PowerTimes(a, b, c, _) => ([a, b, c], 3),
        };
        all.into_iter().take(count)
    }

    /// The same with other numbers for the instructions that it uses.
    pub(crate) fn renumbered(&self, number: impl Fn(usize) -> usize) -> Instruction {
        let n = number;
        match *self {
            Instruction::Variable(_) | Instruction::Constant(_) => *self,
            Instruction::Unary(f, a) => Instruction::Unary(f, n(a)),
            Instruction::Binary(f, a, b) => Instruction::Binary(f, n(a), n(b)),
            Instruction::Compare(f, a, b) => Instruction::Compare(f, n(a), n(b)),
            Instruction::And(a, b) => Instruction::And(n(a), n(b)),
            Instruction::Or(a, b) => Instruction::Or(n(a), n(b)),
            Instruction::Not(a) => Instruction::Not(n(a)),
            Instruction::Select(a, b, c) => Instruction::Select(n(a), n(b), n(c)),
            Instruction::MulAdd(a, b, c) => Instruction::MulAdd(n(a), n(b), n(c)),
            Instruction::Capped(a, b, limit) => Instruction::Capped(n(a), n(b), limit),
            Instruction::PowerTimes(a, b, c, less) => {
                Instruction::PowerTimes(n(a), n(b), n(c), less)
            }
            Instruction::Like(a, b) => Instruction::Like(n(a), n(b)),
            Instruction::Round(to, a) => Instruction::Round(to, n(a)),
            Instruction::NthDerivative(f, a, order) => Instruction::NthDerivative(f, n(a), order),
        }
    }
}

macro_rules! unary_enum {
    ($([$kind:ident] $doc:literal $name:ident $method:ident;)*) => {
        /// Functions of one number; see [`Real`](crate::number::Real).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Unary {
            /// `-x`.
            Negate,
            /// `|x|`.
            Abs,
            $(#[doc = $doc] $name,)*
        }
    };
}
functions!(unary_enum);

/// Functions of two numbers; see [`Number`](crate::number::Number).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Maximum,
    Minimum,
    FloorDivide,
    Modulo,
    Power,
    CopySign,
    Atan2,
    Hypot,
    Times,
    NanOr,
}

/// Questions about two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Compare {
    Equal,
    Less,
    LessEqual,
}

/// The instructions of a formula, in an order in which each uses only earlier ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// How many variables it has.
    pub variables: usize,
    /// The instructions; the variables come first.
    pub instructions: Vec<Instruction>,
    /// The instruction that gives the result.
    pub result: usize,
}

/// The instructions of several formulas of the same variables.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// How many variables there are.
    pub variables: usize,
    /// The instructions; the variables come first.
    pub instructions: Vec<Instruction>,
    /// Those that give the results.
    pub results: Vec<usize>,
}

/// Whether each instruction is needed for the results; `differentiable`: or for their derivatives.
pub(crate) fn needed(
    instructions: &[Instruction],
    results: &[usize],
    differentiable: bool,
) -> Vec<bool> {
    let mut needed = vec![false; instructions.len()];
    results.iter().for_each(|&result| needed[result] = true);
    for k in (0..instructions.len()).rev() {
        if !needed[k] {
            continue;
        }
        instructions[k].operands().for_each(|operand| needed[operand] = true);
        if let (Instruction::Like(_, smooth), true) = (instructions[k], differentiable) {
            needed[smooth] = true;
        }
    }
    needed
}

impl Program {
    /// Without the instructions that neither the result nor its derivatives need.
    pub(crate) fn tidy(self) -> Program {
        let needed = needed(&self.instructions, &[self.result], true);
        let mut numbers = vec![usize::MAX; self.instructions.len()];
        let mut instructions = Vec::with_capacity(self.instructions.len());
        for (k, instruction) in self.instructions.iter().enumerate() {
            if needed[k] || k < self.variables {
                numbers[k] = instructions.len();
                instructions.push(instruction.renumbered(|operand| numbers[operand]));
            }
        }
        Program { variables: self.variables, instructions, result: numbers[self.result] }
    }
}
