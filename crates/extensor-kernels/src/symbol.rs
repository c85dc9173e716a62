//! A formula as a list of steps: what it does, for whoever wants to do it to something else than
//! machine numbers.
//!
//! A [`Symbol`] is a [`Real`] number that writes down what happens to it. This module must not know
//! what the steps are used for.

use crate::map::{Formula, NumberFormula};
use crate::number::{Number, Real};
use std::cell::RefCell;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

/// A step of a program: what is done to the results of earlier steps, which are named by number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Variable number so and so.
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
}

/// Functions of one number; see [`Real`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Unary {
    Negate,
    Abs,
    Sqrt,
    Floor,
    Ceil,
    Round,
    Trunc,
    Exp,
    Expm1,
    Log,
    Log1p,
    Log2,
    Log10,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Erf,
    Erfc,
    Sigmoid,
    Softplus,
    Gelu,
    GeluSlope,
}

/// Functions of two numbers; see [`Number`].
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
}

/// Questions about two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Compare {
    Equal,
    Less,
    LessEqual,
}

/// The steps of a formula, in an order in which each uses only earlier ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The steps; the variables come first.
    pub steps: Vec<Step>,
    /// The step that gives the result.
    pub result: usize,
}

impl Program {
    /// The steps of a formula of `N` variables.
    pub fn of<F: Formula<N>, const N: usize>(formula: &F) -> Program {
        record(&|x| formula.f(x))
    }

    /// Likewise of a formula that whole numbers have too.
    pub fn of_number<F: NumberFormula<N>, const N: usize>(formula: &F) -> Program {
        record(&|x| formula.f(x))
    }
}

thread_local! {
    static STEPS: RefCell<Vec<Step>> = const { RefCell::new(Vec::new()) };
}

fn record<const N: usize>(formula: &dyn Fn([Symbol; N]) -> Symbol) -> Program {
    STEPS.with(|steps| steps.borrow_mut().clear());
    let variables = std::array::from_fn(|k| push(Step::Variable(k)));
    let result = formula(variables).0;
    Program { steps: STEPS.with(RefCell::take), result }
}

fn push(step: Step) -> Symbol {
    STEPS.with(|steps| {
        let mut steps = steps.borrow_mut();
        steps.push(step);
        Symbol(steps.len() - 1)
    })
}

/// A number that writes down what happens to it.
#[derive(Clone, Copy)]
pub struct Symbol(usize);

/// The answer to a question about symbols.
#[derive(Clone, Copy)]
pub struct Answer(usize);

macro_rules! infix {
    ($($trait:ident $method:ident),*) => {$(
        impl $trait for Symbol {
            type Output = Symbol;
            fn $method(self, other: Symbol) -> Symbol {
                push(Step::Binary(infix!(@ $trait), self.0, other.0))
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
        push(Step::Unary(Unary::Negate, self.0))
    }
}

impl BitAnd for Answer {
    type Output = Answer;
    fn bitand(self, other: Answer) -> Answer {
        Answer(push(Step::And(self.0, other.0)).0)
    }
}

impl BitOr for Answer {
    type Output = Answer;
    fn bitor(self, other: Answer) -> Answer {
        Answer(push(Step::Or(self.0, other.0)).0)
    }
}

impl Not for Answer {
    type Output = Answer;
    fn not(self) -> Answer {
        Answer(push(Step::Not(self.0)).0)
    }
}

macro_rules! methods {
    (compare: $($name:ident $what:ident),*) => {$(
        fn $name(self, other: Symbol) -> Answer {
            Answer(push(Step::Compare(Compare::$what, self.0, other.0)).0)
        }
    )*};
    (binary: $($name:ident $what:ident),*) => {$(
        fn $name(self, other: Symbol) -> Symbol {
            push(Step::Binary(Binary::$what, self.0, other.0))
        }
    )*};
    (unary: $($name:ident $what:ident),*) => {$(
        fn $name(self) -> Symbol {
            push(Step::Unary(Unary::$what, self.0))
        }
    )*};
}

impl Number for Symbol {
    type Mask = Answer;
    fn lit(self, c: f64) -> Symbol {
        push(Step::Constant(c))
    }
    fn select(mask: Answer, a: Symbol, b: Symbol) -> Symbol {
        push(Step::Select(mask.0, a.0, b.0))
    }
    methods!(compare: eq Equal, lt Less, le LessEqual);
    methods!(unary: abs Abs);
    methods!(binary: maximum Maximum, minimum Minimum, floor_divide FloorDivide);
    methods!(binary: modulo Modulo, pow Power);
}

impl Real for Symbol {
    fn mul_add(self, b: Symbol, c: Symbol) -> Symbol {
        self * b + c
    }
    methods!(binary: copysign CopySign, atan2 Atan2, hypot Hypot);
    methods!(unary: sqrt Sqrt, floor Floor, ceil Ceil, round Round, trunc Trunc, exp Exp);
    methods!(unary: expm1 Expm1, log Log, log1p Log1p, log2 Log2, log10 Log10, sin Sin, cos Cos);
    methods!(unary: tan Tan, asin Asin, acos Acos, atan Atan, sinh Sinh, cosh Cosh, tanh Tanh);
    methods!(unary: asinh Asinh, acosh Acosh, atanh Atanh, erf Erf, erfc Erfc, sigmoid Sigmoid);
    methods!(unary: softplus Softplus, gelu Gelu, gelu_slope GeluSlope);
}

#[cfg(test)]
mod tests {
    use super::*;

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
            Step::Variable(0),
            Step::Variable(1),
            Step::Compare(Compare::Less, 0, 1),
            Step::Constant(2.0),
            Step::Binary(Binary::Multiply, 0, 0),
            Step::Binary(Binary::Multiply, 1, 1),
            Step::Binary(Binary::Add, 4, 5),
            Step::Unary(Unary::Sqrt, 6),
            Step::Select(2, 3, 7),
        ];
        assert_eq!(program.steps, expected);
        assert_eq!(program.result, 8);
    }
}
