//! What can be found out about an operation by asking it.

use super::example::backward_arguments;
use extensor::ops::operation::{Operation, apply, backward, input_name};
use extensor::ops::record::{Class, Family, Needs, Record};
use extensor::ops::samples::{Bad, Sample};
use extensor::ops::source::backward_function;
use extensor::{DType, Tensor};

/// The name of the explicit backward function; empty where there is none.
pub fn backward_name(record: &'static Record) -> &'static str {
    backward_function(record)
}

/// The dtypes that the operation takes, at one sample or another, in place of floats (or of whatever
/// it takes where there are none).
pub fn dtypes(record: &'static Record, samples: &[Sample]) -> Vec<&'static str> {
    let takes = |dtype: DType, sample: &Sample| -> extensor::Result<()> {
        let floats = sample.inputs.iter().any(|x| x.dtype().is_float());
        let recast = |x: &Tensor| {
            if x.dtype().is_float() || !floats {
                Tensor::ones(x.shape().clone(), dtype)
            } else {
                Ok(x.clone())
            }
        };
        let inputs: Vec<Tensor> = sample.inputs.iter().map(recast).collect::<Result<_, _>>()?;
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        record.operation(&sample.params)?.infer(&inputs).map(|_| ())
    };
    let all = DType::ALL.into_iter().rev();
    let taken = all.filter(|&d| samples.iter().any(|s| takes(d, s).is_ok()));
    taken.map(DType::name).collect()
}

/// Whether inputs of the shapes `[3, 1]` and `[4]` give a result of `[3, 4]`.
pub fn broadcasts(record: &'static Record, samples: &[Sample]) -> bool {
    let Some(sample) = samples.first() else { return false };
    if record.inputs.len() < 2 || sample.inputs.len() < 2 {
        return false;
    }
    let shaped = |i: usize, shape: &[usize]| Tensor::ones(shape, sample.inputs[i].dtype());
    let shapes: [&[usize]; 3] = [&[3, 1], &[4], &[1]];
    let inputs: extensor::Result<Vec<Tensor>> =
        (0..sample.inputs.len().min(3)).map(|i| shaped(i, shapes[i])).collect();
    let Ok(inputs) = inputs else { return false };
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let specs = record.operation(&sample.params).and_then(|op| op.infer(&inputs));
    specs.is_ok_and(|specs| specs[0].shape[..] == [3, 4])
}

/// What the backward pass keeps, in words.
pub fn keeps(record: &Record) -> &'static str {
    if !record.is_differentiable() {
        return "nothing: there is no backward pass";
    }
    match record.needs {
        Needs::Shapes => "no values, only shapes and dtypes",
        Needs::Inputs => "the inputs",
        Needs::Outputs => "the output",
        Needs::InputsAndOutputs => "the inputs and the output",
        Needs::Auxiliary => "the auxiliary outputs",
        Needs::InputsAndAuxiliary => "the inputs and the auxiliary outputs",
    }
}

/// How often it can be differentiated, in words.
pub fn derivatives(record: &Record) -> &'static str {
    match record.order {
        _ if !record.is_differentiable() => "not at all",
        0 => "not at all",
        1 => "once; the second derivative is 0 or not defined",
        _ => "any number of times",
    }
}

/// The class, in words.
pub fn class(record: &Record) -> &'static str {
    match record.class {
        Class::Elementwise => "elementwise: the Jacobian is diagonal",
        Class::Linear => "linear: the derivative is the operation itself, at the tangents",
        Class::Affine => "affine in each input by itself",
        Class::Reduction => "reduction: many elements to one",
        Class::General => "general: it has a forward rule of its own",
        Class::Composite => "composite: its rules are made of operations",
        Class::Constant => "constant: not differentiable",
    }
}

/// The calls that the record says must fail, and the messages they fail with.
pub fn errors(record: &'static Record) -> Vec<(String, String)> {
    let mut bad = Bad::default();
    (record.errors)(&mut bad);
    let mut all: Vec<(String, String)> = Vec::new();
    for call in bad.finish() {
        let inputs: Vec<&Tensor> = call.inputs.iter().collect();
        let Err(error) = record.call(&inputs, &call.params) else { continue };
        let tensors = inputs.iter().map(|x| format!("{}{}", x.dtype(), x.shape()));
        let params = call.params.iter().map(|(n, v)| format!("{n} = {v}"));
        let arguments: Vec<String> = tensors.chain(params).collect();
        let pair = (format!("{}({})", record.name, arguments.join(", ")), error.to_string());
        if !all.iter().any(|(_, message)| *message == pair.1) {
            all.push(pair);
        }
    }
    all
}

/// What a call moves through memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Of the call itself.
    pub forward: Traffic,
    /// Of the backward pass, for all gradients; nothing without one.
    pub backward: Option<Traffic>,
    /// Multiplications with additions, forward and backward, as formulas in LaTeX; of operations that do
    /// more than a few for each number they move.
    pub work: Option<(&'static str, &'static str)>,
}

/// What is read and written, each once.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// The tensors that are read, by name.
    pub reads: Vec<String>,
    /// The tensors that are written.
    pub writes: Vec<String>,
    /// Bytes for each element in `f32`, where all have the same number of elements.
    pub bytes: Option<usize>,
}

impl Traffic {
    const NONE: Traffic = Traffic { reads: Vec::new(), writes: Vec::new(), bytes: Some(0) };

    /// How many times an array goes through memory.
    pub fn passes(&self) -> usize {
        self.reads.len() + self.writes.len()
    }
}

/// Multiply-adds of the operations that do many.
const WORK: [(&str, &str, &str); 11] = [
    ("matmul", "m \\cdot n \\cdot k", "2 \\cdot m \\cdot n \\cdot k"),
    ("dot", "n", "2n"),
    ("outer", "m \\cdot n", "2 \\cdot m \\cdot n"),
    (
        "linear",
        "\\mathrm{rows} \\cdot \\mathrm{in} \\cdot \\mathrm{out}",
        "2 \\cdot \\mathrm{rows} \\cdot \\mathrm{in} \\cdot \\mathrm{out}",
    ),
    (
        "conv1d",
        "N \\cdot C_{\\mathrm{out}} \\cdot L_{\\mathrm{out}} \\cdot \\frac{C_{\\mathrm{in}}}{\\mathrm{groups}} \\cdot k",
        "\\text{twice as many}",
    ),
    (
        "conv2d",
        "N \\cdot C_{\\mathrm{out}} \\cdot H_{\\mathrm{out}} W_{\\mathrm{out}} \\cdot \\frac{C_{\\mathrm{in}}}{\\mathrm{groups}} \\cdot k_h k_w",
        "\\text{twice as many}",
    ),
    (
        "conv3d",
        "N \\cdot C_{\\mathrm{out}} \\cdot D_{\\mathrm{out}} H_{\\mathrm{out}} W_{\\mathrm{out}} \\cdot \\frac{C_{\\mathrm{in}}}{\\mathrm{groups}} \\cdot k_d k_h k_w",
        "\\text{twice as many}",
    ),
    (
        "conv_transpose1d",
        "N \\cdot C_{\\mathrm{in}} \\cdot L_{\\mathrm{in}} \\cdot \\frac{C_{\\mathrm{out}}}{\\mathrm{groups}} \\cdot k",
        "\\text{twice as many}",
    ),
    (
        "conv_transpose3d",
        "N \\cdot C_{\\mathrm{in}} \\cdot D_{\\mathrm{in}} H_{\\mathrm{in}} W_{\\mathrm{in}} \\cdot \\frac{C_{\\mathrm{out}}}{\\mathrm{groups}} \\cdot k_d k_h k_w",
        "\\text{twice as many}",
    ),
    (
        "conv_transpose2d",
        "N \\cdot C_{\\mathrm{in}} \\cdot H_{\\mathrm{in}} W_{\\mathrm{in}} \\cdot \\frac{C_{\\mathrm{out}}}{\\mathrm{groups}} \\cdot k_h k_w",
        "\\text{twice as many}",
    ),
    (
        "scaled_dot_product_attention",
        "2 \\cdot Q \\cdot K \\cdot d",
        "5 \\cdot Q \\cdot K \\cdot d",
    ),
];

/// What the operation costs: found by calling it at a sample and seeing which results are views of
/// what was there already. Every kernel reads what it needs once and writes its result once.
pub fn cost(record: &'static Record, samples: &[Sample]) -> Option<Cost> {
    let fits = |s: &&Sample| !s.large && s.inputs.iter().all(|x| x.len() > 1);
    let costs: Vec<Cost> =
        samples.iter().filter(fits).take(8).filter_map(|s| cost_at(record, s)).collect();
    // One that does something, if there is one: not a cast to the same dtype.
    let moving = costs.iter().find(|c| c.forward.passes() > 0);
    moving.or(costs.first()).cloned()
}

fn cost_at(record: &'static Record, sample: &Sample) -> Option<Cost> {
    let op = record.operation(&sample.params).ok()?;
    let inputs: Vec<Tensor> =
        sample.inputs.iter().map(Tensor::contiguous).collect::<Result<_, _>>().ok()?;
    let references: Vec<&Tensor> = inputs.iter().collect();
    let outputs: Vec<Tensor> = apply(&*op, &references).ok()?.into_iter().collect();
    let names: Vec<String> = (0..inputs.len()).map(|i| input_name(record, i)).collect();
    let work = WORK.iter().find(|(name, ..)| *name == record.name).map(|&(_, f, b)| (f, b));
    let view = |made: &Tensor| references.iter().any(|x| made.shares_memory_with(x));
    let made = outputs.iter().enumerate().filter(|(_, y)| !view(y));
    let made: Vec<_> = made.map(|(k, y)| (output_name(record, k, outputs.len()), y)).collect();
    let read: Vec<_> = names.iter().cloned().zip(&inputs).collect();
    let forward = if made.is_empty() { Traffic::NONE } else { traffic(&read, &made, 1) };
    let backward = differentiated(record, &*op, &inputs, &outputs, &names);
    Some(Cost { forward, backward, work })
}

/// The reads are done `times` over.
fn traffic(reads: &[(String, &Tensor)], writes: &[(String, &Tensor)], times: usize) -> Traffic {
    let width = |x: &Tensor| if x.dtype().is_float() { 4 } else { x.dtype().size() };
    let sum = |all: &[(String, &Tensor)]| all.iter().map(|(_, x)| width(x)).sum::<usize>();
    let same = reads.iter().chain(writes).all(|(_, x)| x.len() == reads[0].1.len());
    let named =
        |all: &[(String, &Tensor)]| all.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    Traffic {
        reads: std::iter::repeat_n(named(reads), times).flatten().collect(),
        writes: named(writes),
        bytes: same.then(|| times * sum(reads) + sum(writes)),
    }
}

fn output_name(record: &Record, index: usize, outputs: usize) -> String {
    let results = record.results(outputs);
    match index {
        0 if results == 1 => "y".into(),
        k if k < results => format!("y{k}"),
        k => format!("auxiliary output {}", k - results),
    }
}

fn differentiated(
    record: &'static Record,
    op: &dyn Operation,
    inputs: &[Tensor],
    outputs: &[Tensor],
    names: &[String],
) -> Option<Traffic> {
    let wanted: Vec<bool> = inputs
        .iter()
        .enumerate()
        .map(|(i, x)| record.differentiable_input(i) && x.dtype().is_float())
        .collect();
    let results = record.results(outputs.len());
    let moving = &outputs[..results];
    if !wanted.contains(&true) || moving.iter().any(|y| !y.dtype().is_float()) {
        return None;
    }
    let ones: Vec<Tensor> =
        moving.iter().map(|y| y.ones_like()?.contiguous()).collect::<Result<_, _>>().ok()?;
    let given: Vec<&Tensor> = ones.iter().collect();
    let (all, produced): (Vec<&Tensor>, Vec<&Tensor>) =
        (inputs.iter().collect(), outputs.iter().collect());
    let grads = backward(op, &given, &all, &produced, &wanted).ok()?;
    let fresh = |g: &Tensor| !given.iter().any(|c| g.shares_memory_with(c));
    let made = grads
        .iter()
        .zip(names)
        .filter_map(|(g, name)| g.as_ref().map(|g| (format!("the gradient for {name}"), g)));
    let made: Vec<(String, &Tensor)> = made.filter(|(_, g)| fresh(g)).collect();
    if made.is_empty() {
        return Some(Traffic::NONE);
    }
    // What the explicit backward function takes is what is read.
    let mut read: Vec<(String, &Tensor)> =
        given.iter().map(|g| ("grad_output".to_string(), *g)).collect();
    let takes = |name: &str| backward_arguments(record).iter().any(|a| a.name == name);
    read.extend(names.iter().cloned().zip(inputs).filter(|(name, _)| takes(name)));
    for (k, y) in outputs.iter().enumerate() {
        let asked = if k < results { takes("output") } else { record.needs.output(k, results) };
        if asked {
            read.push((output_name(record, k, outputs.len()), y));
        }
    }
    // Functions of each number by itself, and losses, make each gradient in a pass of its own.
    let apart = record.class == Class::Elementwise || record.family == Family::Loss;
    Some(traffic(&read, &made, if apart { made.len() } else { 1 }))
}
