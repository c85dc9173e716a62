//! `extensor ops`.

use crate::explain;
use crate::output::Output;
use crate::reference::example::presentable;
use crate::reference::facts::dtypes;
use crate::reference::{self, Checked};
use extensor::Tensor;
use extensor::check::suite::samples;
use extensor::ops::catalogue::{self, CATALOGUE};
use extensor::ops::operation::{self, apply, input_name};
use extensor::ops::record::{Bound, Family, Record};
use extensor::ops::samples::Sample;
use std::path::{Path, PathBuf};

/// What to show, and how.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The operation to show, by its name here or in PyTorch, JAX or NumPy
    name: Option<String>,
    /// Print the reference page of the operation, or of all, as Markdown
    #[arg(long)]
    markdown: bool,
    /// Write the whole reference into a folder: a page for each operation, sheets and tables
    #[arg(long, value_name = "DIR", conflicts_with_all = ["name", "markdown"])]
    book: Option<PathBuf>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<bool, String> {
    match (&arguments.book, &arguments.name) {
        (Some(folder), _) => book(folder),
        (None, Some(name)) if arguments.markdown => {
            markdown([reference::page_of(record_of(name)?.name)?])
        }
        (None, None) if arguments.markdown => markdown(
            reference::pages(&Checked::run("*")?)?.into_iter().skip(1).map(|(_, page)| page),
        ),
        (None, Some(name)) => show(name),
        (None, None) => list(),
    }
}

fn book(folder: &Path) -> Result<bool, String> {
    reference::write_book(folder)?;
    let mut output = Output::default();
    output.line(&format!("{} operations in {}", CATALOGUE.len(), folder.display()));
    output.finish()?;
    Ok(true)
}

fn markdown(pages: impl IntoIterator<Item = String>) -> Result<bool, String> {
    let mut output = Output::default();
    for page in pages {
        output.line(page.trim_end());
    }
    output.finish()?;
    Ok(true)
}

/// The operation of this name, or that another library calls so.
fn record_of(name: &str) -> Result<&'static Record, String> {
    let elsewhere: Vec<_> = catalogue::known_as(name).collect();
    match (catalogue::find(name), &elsewhere[..]) {
        (Ok(record), _) | (Err(_), &[record]) => Ok(record),
        (Err(error), _) => Err(explain(&error)),
    }
}

/// Lists the catalogue by family.
pub fn list() -> Result<bool, String> {
    let mut output = Output::default();
    let width = CATALOGUE.iter().map(|r| r.signature().chars().count()).max();
    let width = width.unwrap_or(0);
    let mut family: Option<Family> = None;
    for record in CATALOGUE {
        if family.replace(record.family) != Some(record.family) {
            if record.name != CATALOGUE[0].name {
                output.line("");
            }
            output.line(&format!("{}", record.family));
        }
        output.line(&format!("  {:width$}  {}", record.signature(), record.formula));
    }
    output.line("");
    output.line(&format!("{} operations; `extensor ops NAME` shows one", CATALOGUE.len()));
    output.finish()?;
    Ok(true)
}

/// Shows one operation, with a live example; by another library's name too, if it is that of one.
pub fn show(name: &str) -> Result<bool, String> {
    let record = record_of(name)?;
    let mut output = Output::default();
    let mut field = |name: &str, text: &str| {
        if !text.is_empty() {
            output.line(&format!("{name:12} {text}"));
        }
    };
    field("operation", &record.signature());
    field("family", &record.family.to_string());
    field("elsewhere", &record.aliases().join(", "));
    field("formula", record.formula);
    field("derivative", record.derivative);
    field("backward", &record.backward_signature());
    field("domain", record.domain);
    field("conventions", record.conventions);
    for parameter in record.params {
        let default = parameter.default.map_or(String::new(), |d| format!(" (default {d})"));
        let text = format!("{}: {}{default}", parameter.name, parameter.what);
        field("parameter", &text);
    }
    let samples = samples(record, 0);
    field("dtypes", &dtypes(record, &samples).join(", "));
    field(
        "derivatives",
        match record.order {
            0 => "none",
            1 => "once",
            _ => "any number of times",
        },
    );
    if let Some(accuracy) = record.accuracy() {
        let said = |bound: &Bound| {
            format!("{} ulp in f32, the worst {} at {:e}", bound.ulps, bound.worst, bound.at)
        };
        field("accuracy", &format!("value: {}", said(&accuracy.value)));
        if record.is_differentiable() {
            field("", &format!("derivative: {}", said(&accuracy.slope)));
        }
    }
    if let Some(sample) = presentable(&samples) {
        output.line("");
        example(&mut output, record, sample).map_err(|error| explain(&error))?;
    }
    output.finish()?;
    Ok(true)
}

/// Calls the operation at a sample and prints what goes in and comes out.
fn example(output: &mut Output, record: &'static Record, sample: &Sample) -> extensor::Result<()> {
    let op = record.operation(&sample.params)?;
    let inputs: Vec<&Tensor> = sample.inputs.iter().collect();
    let results = apply(&*op, &inputs)?;
    let mut show = |name: &str, x: &Tensor| {
        let indent = " ".repeat(name.chars().count() + 3);
        let text = x.to_string().replace('\n', &format!("\n{indent}"));
        output.line(&format!("{name} = {text}"));
    };
    for (i, x) in inputs.iter().enumerate() {
        show(&input_name(record, i), x);
    }
    let params: Vec<String> = sample.params.iter().map(|(n, v)| format!(", {n} = {v}")).collect();
    let arguments: Vec<String> = (0..inputs.len()).map(|i| input_name(record, i)).collect();
    let call = format!("{}({}{})", record.name, arguments.join(", "), params.concat());
    let several = results.len() > 1;
    for (k, y) in results.iter().enumerate() {
        let part = if several { format!("[{k}]") } else { String::new() };
        show(&format!("{call}{part}"), y);
    }
    let wanted: Vec<bool> = inputs
        .iter()
        .enumerate()
        .map(|(i, x)| record.differentiable_input(i) && x.dtype().is_float())
        .collect();
    let moving = &results[..record.results(results.len())];
    if !wanted.contains(&true) || moving.iter().any(|y| !y.dtype().is_float()) {
        return Ok(());
    }
    let ones: Vec<Tensor> = moving.iter().map(Tensor::ones_like).collect::<Result<_, _>>()?;
    let ones: Vec<&Tensor> = ones.iter().collect();
    let results: Vec<&Tensor> = results.iter().collect();
    let grads = operation::backward(&*op, &ones, &inputs, &results, &wanted)?;
    for (i, grad) in grads.iter().enumerate() {
        if let Some(grad) = grad {
            show(&format!("gradient for {}, grad_output being ones", input_name(record, i)), grad);
        }
    }
    Ok(())
}
