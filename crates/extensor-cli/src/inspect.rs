//! `extensor inspect`: what is in a safetensors file.

use crate::output::Output;
use crate::train::checkpoints;
use extensor::io::safetensors;
use std::path::PathBuf;

/// What to look into.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// A safetensors file, or the folder of a run (its newest checkpoint)
    #[arg(value_name = "FILE")]
    path: PathBuf,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<bool, String> {
    let failed = |error: extensor::Error| error.to_string();
    let path = match checkpoints(&arguments.path) {
        folder if folder.is_dir() => crate::train::saved::newest(&arguments.path)?.path,
        _ => arguments.path.clone(),
    };
    let file = safetensors::load(&path).map_err(failed)?;
    let names: Vec<&str> = file.names().collect();
    let width = names.iter().map(|n| n.chars().count()).max().unwrap_or(0).max("tensor".len());
    let mut output = Output::default();
    output.line(&path.display().to_string());
    output.line(&format!(
        "{:width$}  {:>6}  {:>18}  {:>10}  {:>10} {:>10} {:>10} {:>10}",
        "tensor", "dtype", "shape", "bytes", "least", "mean", "deviation", "greatest"
    ));
    let (mut elements, mut bytes) = (0u64, 0u64);
    for name in &names {
        let Some(info) = file.info(name) else { continue };
        let size = info.bytes();
        let count: usize = info.shape.iter().product();
        elements += count as u64;
        bytes += size;
        let shape = info.shape.to_string();
        let numbers = match info.dtype() {
            Some(_) => statistics(&file.tensor(name).map_err(failed)?.to_f64_vec()),
            None => String::new(),
        };
        let dtype = &info.stored_dtype;
        output.line(&format!("{name:width$}  {dtype:>6}  {shape:>18}  {size:>10}  {numbers}"));
    }
    output.line(&format!("{} tensors, {elements} elements, {bytes} bytes", names.len()));
    if !file.metadata().is_empty() {
        output.line("");
    }
    for (name, value) in file.metadata() {
        let mut lines = value.lines();
        output.line(&format!("{name:20}  {}", lines.next().unwrap_or("")));
        for line in lines {
            output.line(&format!("{:20}  {line}", ""));
        }
    }
    output.finish()?;
    Ok(true)
}

/// The least, the mean, the standard deviation and the greatest, and how many are not finite.
fn statistics(values: &[f64]) -> String {
    let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    if finite.is_empty() {
        return format!("{} not finite", values.len());
    }
    let count = finite.len() as f64;
    let mean = finite.iter().sum::<f64>() / count;
    let variance = finite.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
    let least = finite.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = finite.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let [least, mean, deviation, greatest] = [least, mean, variance.sqrt(), greatest].map(short);
    let bad = values.len() - finite.len();
    let bad = if bad > 0 { format!("  {bad} not finite") } else { String::new() };
    format!("{least:>10} {mean:>10} {deviation:>10} {greatest:>10}{bad}")
}

fn short(x: f64) -> String {
    match x.abs() {
        0.0 => "0".into(),
        v if (1e-3..1e6).contains(&v) => format!("{x:.4}"),
        _ => format!("{x:.2e}"),
    }
}
