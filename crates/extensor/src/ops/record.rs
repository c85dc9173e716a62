//! An operation's record: all that tests, the command line, the reference pages and the bindings
//! need to know of it.

use super::Operation;
pub use super::accuracy::{Accuracy, Bound};
use super::params::Params;
use super::samples::{Bad, Sample, Sampler};
pub(super) use super::signature::signature;
pub use super::signature::{Argument, Kind, Signature};
use crate::DType;
use std::fmt;

/// The families that operations come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Addition to comparison, with broadcasting.
    Arithmetic,
    /// Functions of one number.
    Elementwise,
    /// Products of matrices.
    Matrix,
    /// Decompositions of matrices, and what is solved with them.
    Linalg,
    /// Many numbers to one.
    Reduction,
    /// Numbers moved and picked.
    Shape,
    /// Nonlinear functions between the layers of networks.
    Activation,
    /// Sums over windows, with weights.
    Convolution,
    /// Sums and maxima over windows, without weights.
    Pooling,
    /// Numbers brought to mean 0 and variance 1.
    Normalization,
    /// Averages weighted by the similarity of queries and keys.
    Attention,
    /// Numbers left out at random.
    Dropout,
    /// How far predictions are from targets.
    Loss,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Family::Arithmetic => "arithmetic",
            Family::Elementwise => "elementwise",
            Family::Matrix => "matrix",
            Family::Linalg => "linalg",
            Family::Reduction => "reduction",
            Family::Shape => "shape",
            Family::Activation => "activation",
            Family::Convolution => "convolution",
            Family::Pooling => "pooling",
            Family::Normalization => "normalization",
            Family::Attention => "attention",
            Family::Dropout => "dropout",
            Family::Loss => "loss",
        })
    }
}

/// What kind of function an operation is: forward mode follows from it and from the backward rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Element by element on broadcast inputs: the Jacobian is diagonal, so it is its own transpose.
    /// The engine reduces each gradient to its operand's shape.
    Elementwise,
    /// Linear in all differentiable inputs together, up to a constant: the derivative is the
    /// operation, without the constant, at the tangents.
    Linear,
    /// Affine in each differentiable input by itself (linear, bilinear):
    /// the derivative along `t` is the operation at `t` less the operation at 0.
    Affine,
    /// Many elements to one: each gradient is the output's, broadcast, times a weight; the derivative
    /// along `t` is the sum of weights times `t`.
    Reduction,
    /// None of these: the operation itself says what its derivative along a tangent is (see
    /// [`Operation::derivative`]), and the adjoint identity checks it against the backward rule.
    General,
    /// Its rules are made of operations, whatever the operation itself is made of: they run on
    /// tensors that are being differentiated just as on any others.
    Composite,
    /// Not differentiable at all.
    Constant,
}

/// Which values the backward rule reads; what it does not read need not be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Only shapes and dtypes.
    Shapes,
    /// The inputs.
    Inputs,
    /// The outputs. (Where the rule of a [`Class::Elementwise`] is itself differentiated, the inputs
    /// are kept for it too.)
    Outputs,
    /// Both.
    InputsAndOutputs,
    /// Of the outputs, only the auxiliary ones (see [`Record::auxiliary`]).
    Auxiliary,
    /// The inputs and the auxiliary outputs.
    InputsAndAuxiliary,
}

impl Needs {
    /// Whether the inputs' values are read.
    pub const fn inputs(self) -> bool {
        matches!(self, Needs::Inputs | Needs::InputsAndOutputs | Needs::InputsAndAuxiliary)
    }

    /// Whether the values of output number `index` are read, where `results` come before the
    /// auxiliary ones.
    pub const fn output(self, index: usize, results: usize) -> bool {
        match self {
            Needs::Outputs | Needs::InputsAndOutputs => true,
            Needs::Auxiliary | Needs::InputsAndAuxiliary => index >= results,
            Needs::Shapes | Needs::Inputs => false,
        }
    }
}

/// A tensor that an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its name.
    pub name: &'static str,
    /// Whether the operation can be differentiated by it.
    pub differentiable: bool,
    /// Whether it is given once, may be left out, or stands for any number of tensors.
    pub count: Count,
    /// The whole number that stands for it where it is left out and one after it is given.
    pub neutral: Option<i64>,
}

/// How often an input is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Always, once.
    One,
    /// Once or not at all (the last inputs only).
    Optional,
    /// Once or more, named `x0`, `x1`, … (the only input).
    Many,
}

impl Input {
    /// An input to differentiate by.
    pub const fn new(name: &'static str) -> Input {
        Input { name, differentiable: true, count: Count::One, neutral: None }
    }

    /// An input to differentiate by that may be left out.
    pub const fn optional(name: &'static str) -> Input {
        Input { name, differentiable: true, count: Count::Optional, neutral: None }
    }

    /// An input that has no derivative: an index, a mask.
    pub const fn constant(name: &'static str) -> Input {
        Input { name, differentiable: false, count: Count::One, neutral: None }
    }

    /// An input that has no derivative and may be left out.
    pub const fn optional_constant(name: &'static str) -> Input {
        Input { name, differentiable: false, count: Count::Optional, neutral: None }
    }

    /// A factor that has no derivative and may be left out, also where one after it is given.
    pub const fn optional_factor(name: &'static str) -> Input {
        Input { name, differentiable: false, count: Count::Optional, neutral: Some(1) }
    }

    /// Any number of inputs to differentiate by.
    pub const fn many(name: &'static str) -> Input {
        Input { name, differentiable: true, count: Count::Many, neutral: None }
    }
}

/// A parameter that is not a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it can be, in words.
    pub what: &'static str,
    /// What stands for it when it is not given, as text; `None`: it must be given.
    pub default: Option<&'static str>,
}

/// Everything there is to know about an operation, in one place.
pub struct Record {
    /// Its name, also the name of its function.
    pub name: &'static str,
    /// Its family.
    pub family: Family,
    /// What it computes.
    pub formula: &'static str,
    /// Its derivative.
    pub derivative: &'static str,
    /// Where it is defined (and differentiable).
    pub domain: &'static str,
    /// What holds at kinks, ties and singular points.
    pub conventions: &'static str,
    /// The tensors it takes.
    pub inputs: &'static [Input],
    /// The parameters it takes.
    pub params: &'static [Parameter],
    /// The explicit backward function, if there is one.
    pub backward: Option<Signature>,
    /// What kind of function it is.
    pub class: Class,
    /// How often it can be differentiated with a result that is not identically zero or undefined:
    /// 0 (not at all), 1, or 2 for any number of times.
    pub order: u8,
    /// What the backward rule reads.
    pub needs: Needs,
    /// For a [`Class::Affine`]: the number of the input, if it is given, that is merely added to a
    /// product of the others. What does not depend on an input then need not be subtracted again.
    pub added: Option<usize>,
    /// How many of the outputs, the last ones, are auxiliary: found on the way (indices, a mask,
    /// statistics), returned because they are useful or saved for the backward rule, and without a
    /// derivative.
    pub auxiliary: usize,
    /// The operation with these parameters.
    pub build: fn(&Params) -> crate::Result<Box<dyn Operation>>,
    /// Inputs at which it is tested.
    pub samples: fn(&mut Sampler),
    /// Whether the function cannot be differentiated, twice, at a sample: it has a kink there, a
    /// step, a tie, a singular point or the end of its domain, and the conventions hold. Everywhere
    /// else its derivatives are compared with differences; the suite catches a record that calls a
    /// smooth point a kink.
    pub kinks: fn(&Sample) -> bool,
    /// The float dtypes that it takes, if it takes floats.
    pub dtypes: &'static [DType],
    /// Whether the operation takes inputs that the suite made of its samples' (rounded, with zeros, far
    /// out), and its derivatives can be told from rounding there: not every matrix has an inverse.
    pub takes: fn(&Sample) -> bool,
    /// Calls that must fail, with a part of the message.
    pub errors: fn(&mut Bad),
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Record {
    /// A record to start from: `Record { name: "exp", …, ..Record::BLANK }`.
    pub const BLANK: Record = Record {
        name: "",
        family: Family::Elementwise,
        formula: "",
        derivative: "",
        domain: "all numbers",
        conventions: "",
        inputs: &[Input::new("x")],
        params: &[],
        backward: None,
        class: Class::Elementwise,
        order: 2,
        needs: Needs::Inputs,
        added: None,
        auxiliary: 0,
        build: |_| Err(crate::Error::UnknownOperation { name: String::new() }),
        samples: |_| {},
        kinks: |_| false,
        dtypes: &DType::FLOATS,
        takes: |_| true,
        errors: |_| {},
    };

    /// `clip(x, min = None, max = None)`.
    pub fn signature(&self) -> String {
        let inputs = self.inputs.iter().map(|i| match i.count {
            Count::One => i.name.to_string(),
            Count::Optional => format!("{} = None", i.name),
            Count::Many => format!("{}0, {0}1, …", i.name),
        });
        let params = self.params.iter().map(|p| match p.default {
            Some(default) => format!("{} = {default}", p.name),
            None => p.name.to_string(),
        });
        let arguments: Vec<String> = inputs.chain(params).collect();
        format!("{}({})", self.name, arguments.join(", "))
    }

    /// `clip_backward(grad_output, x, min, max)`; nothing where there is no such function.
    pub fn backward_signature(&self) -> String {
        self.backward.map_or(String::new(), |signature| signature.to_string())
    }

    /// The name of the explicit backward function, or the operation's own where there is none: what
    /// errors in the backward pass are reported under.
    pub fn backward_name(&self) -> &'static str {
        self.backward.map_or(self.name, |signature| signature.name)
    }

    /// Whether the operation has a derivative at all.
    pub fn is_differentiable(&self) -> bool {
        self.class != Class::Constant && self.order > 0
    }

    /// How many of `outputs` outputs are results, which have derivatives: all but the auxiliary.
    pub fn results(&self, outputs: usize) -> usize {
        outputs.saturating_sub(self.auxiliary)
    }

    /// Whether input number `index` can be differentiated by.
    pub fn differentiable_input(&self, index: usize) -> bool {
        let many = |i: &&Input| i.count == Count::Many;
        let input = self.inputs.get(index).or_else(|| self.inputs.last().filter(many));
        self.is_differentiable() && input.is_some_and(|i| i.differentiable)
    }
}
