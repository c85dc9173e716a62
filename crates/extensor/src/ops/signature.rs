//! What an explicit backward function takes, as data.
//!
//! The function's own signature is noted when it is compiled ([`Source`](super::source::Source)); that
//! the two agree is tested (`tests/signatures.rs`).

use std::fmt;

/// The name of an operation's explicit backward function, and its arguments in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The function's name: the operation's, and `_backward`.
    pub name: &'static str,
    /// What it takes. The parameters come last, since a function may take them together, as options.
    pub arguments: &'static [Argument],
}

/// An argument of an explicit backward function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name.
    pub name: &'static str,
    /// What is expected for it.
    pub kind: Kind,
}

/// What an argument of an explicit backward function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The gradient of the result.
    GradOutput,
    /// The gradients of several results, in a list.
    GradOutputs,
    /// The input of that name.
    Input,
    /// The result.
    Output,
    /// All results, in a list.
    Outputs,
    /// An auxiliary output (see [`Record::auxiliary`](super::record::Record::auxiliary)). Where a
    /// function takes only some of them, it takes the last ones.
    Auxiliary,
    /// The shape of the input with this name, whose elements are not needed.
    Shape(&'static str),
    /// The dtype of the input with this name.
    DType(&'static str),
    /// The sizes of all inputs along the axis that they are joined along.
    Sizes,
    /// The parameter of that name.
    Parameter,
}

impl Signature {
    /// The argument of this kind, if there is one.
    pub fn of_kind(&self, kind: Kind) -> Option<&'static Argument> {
        self.arguments.iter().find(|argument| argument.kind == kind)
    }

    /// The names of the arguments, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.arguments.iter().map(|argument| argument.name)
    }
}

/// `relu_backward(grad_output, x)`.
impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names().collect();
        write!(f, "{}({})", self.name, names.join(", "))
    }
}

/// A [`Signature`], written like a call: `signature!(gather_backward(grad_output, index, shape(x); axis))`.
///
/// `grad_output`, `grad_outputs`, `output`, `outputs` and `sizes` are what they say, `shape(x)` is the shape of
/// an input, `dtype(x)` its dtype, and `auxiliary(mask)` an auxiliary output; any other name is that
/// of an input. Parameters follow after a semicolon.
macro_rules! signature {
    ($name:ident($($argument:ident $(($of:ident))?),* $(; $($parameter:ident),*)?)) => {
        Some($crate::ops::record::Signature {
            name: stringify!($name),
            arguments: {
                #[allow(unused_imports)]
                use $crate::ops::record::{Argument, Kind};
                &[
                    $($crate::ops::record::signature!(@ $argument $($of)?),)*
                    $($(Argument { name: stringify!($parameter), kind: Kind::Parameter },)*)?
                ]
            },
        })
    };
    (@ grad_output) => { Argument { name: "grad_output", kind: Kind::GradOutput } };
    (@ grad_outputs) => { Argument { name: "grad_outputs", kind: Kind::GradOutputs } };
    (@ output) => { Argument { name: "output", kind: Kind::Output } };
    (@ outputs) => { Argument { name: "outputs", kind: Kind::Outputs } };
    (@ sizes) => { Argument { name: "sizes", kind: Kind::Sizes } };
    // What is called `x` is the input.
    (@ shape x) => { Argument { name: "input_shape", kind: Kind::Shape("x") } };
    (@ shape $of:ident) => {
        Argument {
            name: concat!(stringify!($of), "_shape"),
            kind: Kind::Shape(stringify!($of)),
        }
    };
    (@ dtype x) => { Argument { name: "input_dtype", kind: Kind::DType("x") } };
    (@ auxiliary $name:ident) => {
        Argument { name: stringify!($name), kind: Kind::Auxiliary }
    };
    (@ $input:ident) => { Argument { name: stringify!($input), kind: Kind::Input } };
}
pub(super) use signature;
