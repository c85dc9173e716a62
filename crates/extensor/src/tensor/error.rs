//! What can go wrong, as data; the sentence is made in one place.

use crate::{DType, Shape};
use std::panic::Location;

/// The result of every named function.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong: in which operation, what it expected and what it got.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument's shape is not the one required.
    #[error("{op}: {argument} has shape {got}, expected {expected}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// The argument.
        argument: &'static str,
        /// What it had to be.
        expected: String,
        /// What it was.
        got: Shape,
    },
    /// Two shapes do not broadcast.
    #[error(
        "{op}: shapes {a} and {b} do not broadcast: each pair of sizes, from the last axis on, must be equal or one of them 1"
    )]
    Broadcast {
        /// The operation.
        op: &'static str,
        /// One shape.
        a: Shape,
        /// The other.
        b: Shape,
    },
    /// An argument's dtype is not one that the operation takes.
    #[error("{op}: {argument} has dtype {got}, expected {expected}")]
    DType {
        /// The operation.
        op: &'static str,
        /// The argument.
        argument: &'static str,
        /// What it had to be.
        expected: &'static str,
        /// What it was.
        got: DType,
    },
    /// Two dtypes that no common dtype holds.
    #[error("{op}: dtypes {a} and {b} do not mix; cast one of them")]
    MixedDTypes {
        /// The operation.
        op: &'static str,
        /// One dtype.
        a: DType,
        /// The other.
        b: DType,
    },
    /// An axis that the tensor does not have.
    #[error("{op}: axis {axis} is out of range for {ndim} dimensions")]
    AxisOutOfRange {
        /// The operation.
        op: &'static str,
        /// The axis asked for.
        axis: i64,
        /// The tensor's dimensions.
        ndim: usize,
    },
    /// An axis named twice.
    #[error("{op}: axis {axis} is named twice")]
    RepeatedAxis {
        /// The operation.
        op: &'static str,
        /// The axis.
        axis: i64,
    },
    /// An index outside its axis.
    #[error("{op}: index {index} is out of range for axis {axis} of size {size}")]
    IndexOutOfRange {
        /// The operation.
        op: &'static str,
        /// The index.
        index: i64,
        /// The axis it points into.
        axis: usize,
        /// That axis' size.
        size: usize,
    },
    /// The index of a class that does not exist.
    #[error("{op}: class index {index} is out of range for {classes} classes")]
    ClassOutOfRange {
        /// The operation.
        op: &'static str,
        /// The class.
        index: i64,
        /// How many there are.
        classes: usize,
    },
    /// A number of values that does not fill the shape.
    #[error("{op}: {got} values do not fill shape {shape}, which has {expected}")]
    Length {
        /// The operation.
        op: &'static str,
        /// The shape.
        shape: Shape,
        /// Its number of elements.
        expected: usize,
        /// The number of values given.
        got: usize,
    },
    /// A shape with more elements than can be counted.
    #[error("{op}: shape {shape} has more elements than memory can address")]
    Overflow {
        /// The operation.
        op: &'static str,
        /// The shape.
        shape: Shape,
    },
    /// The system does not have that much memory.
    #[error("{op}: no memory for {bytes} bytes")]
    OutOfMemory {
        /// The operation.
        op: &'static str,
        /// The number of bytes asked for.
        bytes: usize,
    },
    /// The function given to [`watch`](crate::interrupt::watch) asked for the work to end.
    #[error("interrupted")]
    Interrupted,
    /// A number that is not finite, computed from finite ones, as
    /// [`debug::finite`](crate::debug::finite) finds it.
    #[error("{op}: {what} is {value} at {index:?}, from finite {of}; called at {at}")]
    NotFinite {
        /// The operation.
        op: &'static str,
        /// The output or gradient.
        what: String,
        /// The first such element.
        index: Vec<usize>,
        /// Its value.
        value: f64,
        /// What was finite.
        of: &'static str,
        /// The line of the call.
        at: String,
    },
    /// A parameter outside what is allowed.
    #[error("{op}: {parameter} is {got}, expected {expected}")]
    Parameter {
        /// The operation.
        op: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// What is allowed.
        expected: String,
        /// What it was.
        got: String,
    },
    /// A leaf of a tree that is not what it must be.
    #[error("{op}: {leaf} is {got}, expected {expected}")]
    Leaf {
        /// The operation.
        op: &'static str,
        /// What it is of, and its name.
        leaf: String,
        /// What it had to be.
        expected: String,
        /// What it was.
        got: String,
    },
    /// The largest or smallest of no elements.
    #[error("{op}: there is no such element in an empty axis (shape {shape})")]
    Empty {
        /// The operation.
        op: &'static str,
        /// The input's shape.
        shape: Shape,
    },
    /// A whole number divided by zero.
    #[error("{op}: a whole number is divided by zero")]
    DivisionByZero {
        /// The operation.
        op: &'static str,
    },
    /// A matrix that something cannot be done with.
    #[error("{op}: {matrix} {what}")]
    Matrix {
        /// The operation.
        op: &'static str,
        /// Which one: the only one, or one of a batch.
        matrix: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Something that this build of the library is without.
    #[error("{op}: the library was built without its feature {feature:?}")]
    Unavailable {
        /// The operation.
        op: &'static str,
        /// The feature to build it with.
        feature: &'static str,
    },
    /// A gradient was asked for where there is none.
    #[error("{op}: cannot be differentiated with respect to {argument}: {reason}")]
    NotDifferentiable {
        /// The operation.
        op: &'static str,
        /// The argument.
        argument: String,
        /// Why not.
        reason: &'static str,
    },
    /// Numbers were to be taken out of a tensor that is being differentiated.
    #[error(
        "{op}: the tensor is being differentiated, and its gradient would be lost; if that is meant, write stop_gradient first"
    )]
    Traced {
        /// What was to take them.
        op: &'static str,
    },
    /// Numbers were to be taken out of a tensor that stands for every example of a batch.
    #[error(
        "{op}: under vmap the tensor stands for every example at once, whose numbers differ; compute with tensors (where_ instead of if), or do this outside of vmap"
    )]
    Mapped {
        /// What was to take them.
        op: &'static str,
    },
    /// Numbers are wanted of a tensor that has none yet, since a function of it is being compiled, or
    /// that has outlived the compilation.
    #[error(
        "{op}: the tensor has no numbers yet, since compile is recording what is done to it (at {at}); compute with tensors (where_ instead of if), or do this outside of the compiled function"
    )]
    Recorded {
        /// What wanted them.
        op: &'static str,
        /// Where that was called.
        at: &'static Location<'static>,
    },
    /// A call by name with inputs that the operation does not take.
    #[error("{op}: got inputs ({got}), expected ({expected})")]
    Inputs {
        /// The operation.
        op: &'static str,
        /// The inputs it takes.
        expected: String,
        /// Those given.
        got: String,
    },
    /// A call by name with a parameter that the operation does not have.
    #[error("{op}: has no parameter {parameter:?}; it has {known}")]
    UnknownParameter {
        /// The operation.
        op: &'static str,
        /// The parameter.
        parameter: String,
        /// Those it has.
        known: String,
    },
    /// A name that is not in the catalogue.
    #[error("there is no operation {name:?} in the catalogue")]
    UnknownOperation {
        /// The name.
        name: String,
    },
    /// A gradient check that could not be carried out, or found two runs to differ.
    #[error("{op}: {reason}")]
    Check {
        /// The function checked.
        op: String,
        /// What happened.
        reason: String,
    },
    /// A function that the caller passed in failed.
    #[error("{op}: the function given failed: {message}")]
    Callback {
        /// The operation that called it.
        op: &'static str,
        /// What it said.
        message: String,
    },
    /// A file that cannot be read or written, or does not hold what it should.
    #[error("{op}: {file}: {reason}")]
    File {
        /// The operation.
        op: &'static str,
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A tensor in a file that is not there, not expected, or not as it should be.
    #[error("{op}: {file}: tensor {tensor:?} {reason}")]
    TensorInFile {
        /// The operation.
        op: &'static str,
        /// The file.
        file: String,
        /// The tensor's name.
        tensor: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A panic in code that the caller passed in, caught on its thread.
    #[error("{op}: {what} panicked: {message}")]
    Panic {
        /// The operation.
        op: &'static str,
        /// Whose code it was.
        what: &'static str,
        /// What the panic said.
        message: String,
    },
    /// A layer that could not be made, among others.
    #[error("layer {number}: {error}")]
    InLayer {
        /// Its number among the layers, from 0 on.
        number: usize,
        /// What was wrong.
        error: Box<Error>,
    },
    /// One of several processes that work as one has failed, is gone, or is not at one with the others.
    #[error("{op}: rank {rank} {reason}")]
    Rank {
        /// What was being done.
        op: &'static str,
        /// The rank.
        rank: usize,
        /// What it did, or what became of it.
        reason: String,
    },
    /// Training that went wrong: a loss or a gradient that is not finite.
    #[error("step {step}: {what}: {reason}")]
    Diverged {
        /// The step.
        step: u64,
        /// What is not finite.
        what: String,
        /// The operation that made it so.
        reason: String,
    },
}

impl Error {
    /// Numbers of a recorded tensor were wanted by `op`, which is called where this is.
    #[track_caller]
    pub(crate) fn recorded(op: &'static str) -> Error {
        Error::Recorded { op, at: Location::caller() }
    }
}
