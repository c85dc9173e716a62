//! A formula as a list of steps, for whoever wants to do it to something else than machine numbers,
//! or to change it first.
//!
//! This module must not know where programs come from ([`symbol`](crate::symbol)) nor who runs them
//! ([`interpret`](crate::interpret)).

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
    /// The first times the second plus the third, rounded once.
    MulAdd(usize, usize, usize),
    /// The first, held within a limit where the second, a mask, is true; see [`Real::capped`](crate::number::Real::capped).
    Capped(usize, usize, f64),
    /// The first to the power of the second less a whole number, times the third; see
    /// [`Real::power_times`](crate::number::Real::power_times).
    PowerTimes(usize, usize, usize, u8),
    /// The first, which is to be differentiated as the second; see [`Real::like`](crate::number::Real::like).
    Like(usize, usize),
}

impl Step {
    /// The steps whose results it is computed from.
    pub fn operands(&self) -> impl Iterator<Item = usize> {
        let (all, count) = match *self {
            Step::Variable(_) | Step::Constant(_) => ([0; 3], 0),
            Step::Unary(_, a) | Step::Not(a) | Step::Like(a, _) => ([a, 0, 0], 1),
            Step::Binary(_, a, b) | Step::Compare(_, a, b) => ([a, b, 0], 2),
            Step::And(a, b) | Step::Or(a, b) | Step::Capped(a, b, _) => ([a, b, 0], 2),
            Step::Select(a, b, c) | Step::MulAdd(a, b, c) => ([a, b, c], 3),
            Step::PowerTimes(a, b, c, _) => ([a, b, c], 3),
        };
        all.into_iter().take(count)
    }

    /// The same with other numbers for the steps that it uses.
    pub(crate) fn renumbered(&self, number: impl Fn(usize) -> usize) -> Step {
        let n = number;
        match *self {
            Step::Variable(_) | Step::Constant(_) => *self,
            Step::Unary(f, a) => Step::Unary(f, n(a)),
            Step::Binary(f, a, b) => Step::Binary(f, n(a), n(b)),
            Step::Compare(f, a, b) => Step::Compare(f, n(a), n(b)),
            Step::And(a, b) => Step::And(n(a), n(b)),
            Step::Or(a, b) => Step::Or(n(a), n(b)),
            Step::Not(a) => Step::Not(n(a)),
            Step::Select(a, b, c) => Step::Select(n(a), n(b), n(c)),
            Step::MulAdd(a, b, c) => Step::MulAdd(n(a), n(b), n(c)),
            Step::Capped(a, b, limit) => Step::Capped(n(a), n(b), limit),
            Step::PowerTimes(a, b, c, less) => Step::PowerTimes(n(a), n(b), n(c), less),
            Step::Like(a, b) => Step::Like(n(a), n(b)),
        }
    }
}

/// Calls a macro with the functions of one number: the one list of them.
macro_rules! unary_functions {
    ($callback:ident $($argument:tt)*) => {
        $callback! { $($argument)*
            Abs abs, Sqrt sqrt, Floor floor, Ceil ceil, Round round, Trunc trunc, Exp exp,
            Expm1 expm1, Log log, Log1p log1p, Log2 log2, Log10 log10, Sin sin, Cos cos, Tan tan,
            Asin asin, Acos acos, Atan atan, Sinh sinh, Cosh cosh, Tanh tanh, Asinh asinh,
            Acosh acosh, Atanh atanh, Erf erf, Erfc erfc, Sigmoid sigmoid, Softplus softplus,
            Gelu gelu, GeluSlope gelu_slope, Bell bell, WideBell wide_bell
        }
    };
}
pub(crate) use unary_functions;

macro_rules! unary_enum {
    ($($name:ident $method:ident),*) => {
        /// Functions of one number; see [`Real`](crate::number::Real).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Unary {
            Negate,
            $($name),*
        }
    };
}
unary_functions!(unary_enum);

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

/// The steps of a formula, in an order in which each uses only earlier ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// How many variables it has.
    pub variables: usize,
    /// The steps; the variables come first.
    pub steps: Vec<Step>,
    /// The step that gives the result.
    pub result: usize,
}

impl Program {
    /// Whether each step is needed for the result; `differentiable`: or for its derivatives.
    pub(crate) fn needed(&self, differentiable: bool) -> Vec<bool> {
        let mut needed = vec![false; self.steps.len()];
        needed[self.result] = true;
        for k in (0..self.steps.len()).rev() {
            if !needed[k] {
                continue;
            }
            self.steps[k].operands().for_each(|operand| needed[operand] = true);
            if let (Step::Like(_, smooth), true) = (self.steps[k], differentiable) {
                needed[smooth] = true;
            }
        }
        needed
    }

    /// Without the steps that neither the result nor its derivatives need.
    pub(crate) fn tidy(self) -> Program {
        let needed = self.needed(true);
        let mut places = vec![usize::MAX; self.steps.len()];
        let mut steps = Vec::with_capacity(self.steps.len());
        for (k, step) in self.steps.iter().enumerate() {
            if needed[k] || k < self.variables {
                places[k] = steps.len();
                steps.push(step.renumbered(|operand| places[operand]));
            }
        }
        Program { variables: self.variables, steps, result: places[self.result] }
    }
}
