//! A call of each operation with a telling cotangent, in Python and (where all arguments are tensors)
//! in Rust, with what it really gives.

use extensor::check::suite::samples;
use extensor::ops::operation::{apply, backward, input_name};
use extensor::ops::params::{Params, Value};
use extensor::ops::record::{Argument, Count, Kind, Record};
use extensor::ops::samples::Sample;
use extensor::{DType, Result, Tensor};

/// A program and what it prints.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The program.
    pub code: String,
    /// Its output.
    pub output: String,
}

/// A call with its results, from which programs are written.
pub struct Example {
    record: &'static Record,
    inputs: Vec<Tensor>,
    params: Params,
    outputs: Vec<Tensor>,
    /// The cotangents of the results and the gradients, if there are such.
    gradients: Option<(Vec<Tensor>, Vec<Option<Tensor>>)>,
}

impl Example {
    /// The example of an operation.
    pub fn of(record: &'static Record) -> Option<Example> {
        let all = samples(record, 0);
        let sample = presentable(&all)?;
        rounded(record, sample)
            .or_else(|_| called(record, sample.inputs.clone(), sample.params.clone()))
            .ok()
    }

    /// In Python.
    pub fn python(&self) -> Program {
        let record = self.record;
        let mut lines = vec![
            "import extensor as ex".to_string(),
            "from extensor import ops".into(),
            String::new(),
        ];
        let names: Vec<String> = (0..self.inputs.len()).map(|i| input_name(record, i)).collect();
        for (name, x) in names.iter().zip(&self.inputs) {
            lines.push(format!("{name} = {}", python_tensor(x)));
        }
        let many = record.inputs.iter().any(|i| i.count == Count::Many);
        let tensors = if many { format!("[{}]", names.join(", ")) } else { names.join(", ") };
        let mut arguments = vec![tensors.clone()];
        arguments.extend(self.params.iter().map(|(n, v)| format!("{n}={}", python_value(v))));
        let arguments = arguments.join(", ");
        let moving = record.results(self.outputs.len());
        let several = moving > 1 || many_results(record);
        let mut printed: Vec<String> = Vec::new();
        let explicit = self.gradients.as_ref().and_then(|_| self.backward_call(&names));
        let auxiliary = auxiliary_names(record);
        if let (Some(_), false) = (&explicit, auxiliary.is_empty()) {
            let all: Vec<&str> = std::iter::once("y").chain(auxiliary.iter().copied()).collect();
            let unused = self.outputs.len() - all.len();
            let skipped = vec!["_"; unused].join(", ");
            let left = if unused == 0 {
                all.join(", ")
            } else {
                format!("y, {skipped}, {}", all[1..].join(", "))
            };
            lines.push(format!("{left} = ops.{}.with_auxiliary({arguments})", record.name));
            lines.push("print(y)".into());
            printed.push(python_shown(&self.outputs[0]));
        } else if several {
            lines.push(format!("results = ops.{}({arguments})", record.name));
            lines.push("for y in results:".into());
            lines.push("    print(y)".into());
            printed.extend(self.outputs[..moving].iter().map(python_shown));
        } else {
            let y = self.result();
            lines.push(format!("{y} = ops.{}({arguments})", record.name));
            lines.push(format!("print({y})"));
            printed.push(python_shown(&self.outputs[0]));
        }
        if let Some((cotangents, grads)) = &self.gradients {
            lines.push(String::new());
            let grads: Vec<&Tensor> = grads.iter().flatten().collect();
            match &explicit {
                Some(call) => {
                    lines.push(format!("grad_output = {}", python_tensor(&cotangents[0])));
                    if let [_] = grads[..] {
                        lines.push(format!("print({call})"));
                    } else {
                        lines.push(format!("for gradient in {call}:"));
                        lines.push("    print(gradient)".into());
                    }
                }
                None => {
                    // By all float inputs, through automatic differentiation.
                    let wanted = self.wanted();
                    let by: Vec<&String> =
                        names.iter().zip(&wanted).filter(|(_, w)| **w).map(|(n, _)| n).collect();
                    let by: Vec<&str> = by.into_iter().map(String::as_str).collect();
                    lines.push(format!(
                        "y, pullback = ex.vjp(lambda {0}: ops.{1}({arguments}), {0})",
                        by.join(", "),
                        record.name
                    ));
                    let given: Vec<String> = cotangents.iter().map(python_tensor).collect();
                    let given =
                        if several { format!("({},)", given.join(", ")) } else { given.join(", ") };
                    lines.push(format!("grad_output = {given}"));
                    lines.push("for gradient in pullback(grad_output):".into());
                    lines.push("    print(gradient)".into());
                }
            }
            printed.extend(grads.into_iter().map(python_shown));
        }
        Program { code: lines.join("\n") + "\n", output: printed.join("\n") + "\n" }
    }

    /// In Rust, where the functions take tensors and nothing else.
    pub fn rust(&self) -> Option<Program> {
        let record = self.record;
        let sources = record.sources();
        let plain = |signature: &str| {
            let (_, rest) = signature.split_once('(')?;
            let (arguments, _) = rest.split_once(") ->")?;
            let all: Vec<&str> =
                arguments.split(", ").map(|a| a.split_once(": ").map_or("", |p| p.1)).collect();
            all.iter().all(|kind| *kind == "&Tensor").then_some(())
        };
        plain(sources.function?.signature)?;
        let called = if record.name == "where" { "where_" } else { record.name };
        let names: Vec<String> = (0..self.inputs.len()).map(|i| input_name(record, i)).collect();
        let mut lines = vec!["use extensor::{ops, tensor};".to_string(), String::new()];
        for (name, x) in names.iter().zip(&self.inputs) {
            lines.push(format!("let {name} = tensor({});", rust_literal(x)));
        }
        let references: Vec<String> = names.iter().map(|n| format!("&{n}")).collect();
        let y = self.result();
        lines.push(format!("let {y} = ops::{called}({})?;", references.join(", ")));
        lines.push(format!("println!(\"{{{y}}}\");"));
        let mut printed = vec![self.outputs[0].to_string()];
        if let (Some((cotangents, grads)), Some(source)) = (&self.gradients, sources.backward) {
            plain(source.signature)?;
            lines.push(String::new());
            lines.push(format!("let grad_output = tensor({});", rust_literal(&cotangents[0])));
            let arguments = backward_arguments(record).iter().map(|argument| match argument.kind {
                Kind::Output => format!("&{y}"),
                _ => format!("&{}", argument.name),
            });
            let arguments = arguments.collect::<Vec<_>>().join(", ");
            let by: Vec<&String> =
                names.iter().zip(grads).filter(|(_, g)| g.is_some()).map(|(n, _)| n).collect();
            let bound: Vec<String> = by.iter().map(|n| format!("d{n}")).collect();
            let left =
                if bound.len() == 1 { bound[0].clone() } else { format!("({})", bound.join(", ")) };
            lines.push(format!(
                "let {left} = ops::{}({arguments})?;",
                super::facts::backward_name(record)
            ));
            lines.extend(bound.iter().map(|name| format!("println!(\"{{{name}}}\");")));
            printed.extend(grads.iter().flatten().map(Tensor::to_string));
        }
        Some(Program { code: lines.join("\n") + "\n", output: printed.join("\n") + "\n" })
    }

    /// What the result is called: `y`, unless an input is.
    fn result(&self) -> &'static str {
        let taken = self.record.inputs.iter().any(|input| input.name == "y");
        if taken { "result" } else { "y" }
    }

    fn wanted(&self) -> Vec<bool> {
        let record = self.record;
        let wanted =
            |(i, x): (usize, &Tensor)| record.differentiable_input(i) && x.dtype().is_float();
        self.inputs.iter().enumerate().map(wanted).collect()
    }

    /// The explicit backward function called with what it asks for; nothing where that is more than
    /// inputs, the output, shapes and parameters.
    fn backward_call(&self, names: &[String]) -> Option<String> {
        let record = self.record;
        // It may return a gradient for what was left out, too.
        let absent = record.inputs.iter().skip(self.inputs.len());
        if absent.clone().any(|input| input.differentiable) {
            return None;
        }
        let input = |name: &str| {
            let at = record.inputs.iter().position(|input| input.name == name)?;
            match record.inputs[at].count {
                Count::Many => Some(format!("[{}]", names.join(", "))),
                _ => names.get(at).cloned(),
            }
        };
        let mut arguments = Vec::new();
        for &Argument { name, kind } in backward_arguments(record) {
            arguments.push(match kind {
                Kind::GradOutput => name.to_string(),
                Kind::Output => format!("{name}={}", self.result()),
                Kind::Auxiliary => format!("{name}={name}"),
                Kind::DType(of) => format!("{name}={}.dtype", input(of)?),
                Kind::Shape(of) => format!("{name}={}.shape", input(of)?),
                Kind::Input => match input(name) {
                    Some(given) => format!("{name}={given}"),
                    None => continue,
                },
                Kind::Parameter => match self.params.iter().find(|(n, _)| *n == name) {
                    Some((_, value)) => format!("{name}={}", python_value(value)),
                    None => continue,
                },
                Kind::GradOutputs | Kind::Outputs | Kind::Sizes => return None,
            });
        }
        Some(format!("ops.{}({})", super::facts::backward_name(record), arguments.join(", ")))
    }
}

/// What the explicit backward function asks for, in order.
pub fn backward_arguments(record: &'static Record) -> &'static [Argument] {
    record.backward.map_or(&[], |signature| signature.arguments)
}

/// Whether there may be any number of results.
fn many_results(record: &'static Record) -> bool {
    backward_arguments(record).iter().any(|argument| argument.kind == Kind::GradOutputs)
}

/// The auxiliary outputs that the backward function asks for.
fn auxiliary_names(record: &'static Record) -> Vec<&'static str> {
    let arguments = backward_arguments(record).iter();
    arguments.filter(|a| a.kind == Kind::Auxiliary).map(|a| a.name).collect()
}

/// The first sample that is worth printing: a few numbers with nothing special about them and nothing
/// left out, else any.
pub fn presentable(samples: &[Sample]) -> Option<&Sample> {
    let size = |s: &Sample| {
        let lens = || s.inputs.iter().map(Tensor::len);
        (lens().min().unwrap_or(0), lens().max().unwrap_or(0))
    };
    // Of any number of inputs a few tell as much.
    let most = samples.iter().map(|s| s.inputs.len()).max().unwrap_or(0).min(4);
    let few = |s: &&Sample| matches!(size(s), (1.., 2..=24));
    let plain = |s: &&Sample| few(s) && s.note.is_empty() && s.smooth;
    let whole = |s: &&Sample| plain(s) && s.inputs.len() == most;
    let some = |s: &&Sample| size(s).0 > 0;
    let find = |wanted: &dyn Fn(&&Sample) -> bool| samples.iter().find(|s| wanted(s));
    find(&whole).or(find(&plain)).or(find(&few)).or(find(&some)).or(samples.first())
}

/// The call with numbers of two decimals.
fn rounded(record: &'static Record, sample: &Sample) -> Result<Example> {
    let round = |x: &Tensor| {
        if !x.dtype().is_float() {
            return Ok(x.clone());
        }
        let values = x.to_f64_vec().into_iter().map(|v| (v * 100.0).round() / 100.0 + 0.0);
        Tensor::from_vec(values.collect(), x.shape().clone())
    };
    let inputs: Vec<Tensor> = sample.inputs.iter().map(round).collect::<Result<_>>()?;
    called(record, inputs, sample.params.clone())
}

fn called(record: &'static Record, inputs: Vec<Tensor>, params: Params) -> Result<Example> {
    let op = record.operation(&params)?;
    let references: Vec<&Tensor> = inputs.iter().collect();
    let outputs: Vec<Tensor> = apply(&*op, &references)?.into_iter().collect();
    let moving = &outputs[..record.results(outputs.len())];
    let example = Example {
        record,
        inputs: inputs.clone(),
        params,
        outputs: outputs.clone(),
        gradients: None,
    };
    let wanted = example.wanted();
    if !wanted.contains(&true) || moving.iter().any(|y| !y.dtype().is_float()) {
        return Ok(example);
    }
    let cotangents: Vec<Tensor> = moving.iter().map(cotangent).collect::<Result<_>>()?;
    let given: Vec<&Tensor> = cotangents.iter().collect();
    let results: Vec<&Tensor> = outputs.iter().collect();
    let grads = backward(&*op, &given, &references, &results, &wanted)?;
    Ok(Example { gradients: Some((cotangents, grads.into_iter().collect())), ..example })
}

/// A cotangent that tells which result a gradient came from: 1, 10, 100, …, or 1, 2, 3, ….
fn cotangent(y: &Tensor) -> Result<Tensor> {
    let value = |i: usize| if y.len() <= 4 { 10f64.powi(i as i32) } else { (i + 1) as f64 };
    Tensor::from_vec((0..y.len()).map(value).collect(), y.shape().clone())
}

fn literal(x: &Tensor, number: &dyn Fn(f64) -> String) -> String {
    fn nested(values: &[f64], shape: &[usize], number: &dyn Fn(f64) -> String) -> String {
        let Some((_, inner)) = shape.split_first() else { return number(values[0]) };
        let size = inner.iter().product::<usize>().max(1);
        let parts: Vec<String> =
            values.chunks(size).map(|part| nested(part, inner, number)).collect();
        format!("[{}]", parts.join(", "))
    }
    nested(&x.to_f64_vec(), x.shape(), number)
}

fn rust_literal(x: &Tensor) -> String {
    let integer = x.dtype().name();
    let mut first = true;
    let text = match x.dtype() {
        DType::Bool => literal(x, &|v| (v != 0.0).to_string()),
        d if d.is_float() => literal(x, &|v| format!("{v:?}")),
        _ => literal(x, &|v| format!("{v:.0}")),
    };
    if x.dtype().is_float() || x.dtype() == DType::Bool {
        return text;
    }
    // One literal says the type of all.
    let mut made = String::new();
    for c in text.chars() {
        if first && (c == ',' || c == ']') && made.ends_with(|c: char| c.is_ascii_digit()) {
            made.push_str(integer);
            first = false;
        }
        made.push(c);
    }
    made
}

fn python_tensor(x: &Tensor) -> String {
    let text = match x.dtype() {
        DType::Bool => literal(x, &|v| if v == 0.0 { "False" } else { "True" }.into()),
        d if d.is_float() => literal(x, &|v| {
            format!("{v:?}").replace("NaN", "float(\"nan\")").replace("inf", "float(\"inf\")")
        }),
        _ => literal(x, &|v| format!("{v:.0}")),
    };
    match x.dtype() {
        DType::F64 | DType::Bool | DType::I64 => format!("ex.asarray({text})"),
        other => format!("ex.asarray({text}, dtype=\"{}\")", dtype_name(other)),
    }
}

fn dtype_name(dtype: DType) -> String {
    let name = dtype.name();
    let (kind, bits) = name.split_at(name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len()));
    let kind = match kind {
        "f" => "float",
        "bf" => "bfloat",
        "i" => "int",
        "u" => "uint",
        other => other,
    };
    format!("{kind}{bits}")
}

fn python_value(value: &Value) -> String {
    match value {
        Value::Bool(flag) => if *flag { "True" } else { "False" }.into(),
        Value::Text(word) => match DType::from_name(word) {
            Some(dtype) => format!("{:?}", dtype_name(dtype)),
            None => format!("{word:?}"),
        },
        other => other.to_string(),
    }
}

/// A tensor as Python prints it.
fn python_shown(x: &Tensor) -> String {
    let text = x.to_string();
    let body = text.rsplit_once("  ").map_or(text.as_str(), |(body, _)| body);
    let body =
        body.replace("\n\n", "\n\u{0}\n").replace('\n', "\n       ").replace("       \u{0}", "");
    let body = match x.dtype() {
        DType::Bool => body.replace("true", "True").replace("false", "False"),
        _ => body.replace("NaN", "nan"),
    };
    format!("Tensor({body}, dtype={})", dtype_name(x.dtype()))
}
