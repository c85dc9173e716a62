//! `--check-gradients`: the gradient of the whole model on one batch, held against differences.

use super::network::Network;
use crate::output::Output;
use extensor::autodiff::{Path, parameters};
use extensor::check::{Options, check_grad};
use extensor::data::Loader;
use extensor::nn::{Mode, Model, class_loss};
use extensor::ops::cast;
use extensor::train::State;
use extensor::{DType, Result, Tensor, Tree};
use std::time::Instant;

/// The examples of the batch: enough to reach every parameter, few enough for differences.
const EXAMPLES: usize = 4;

/// Prints the report; whether the gradient is right.
pub fn check(state: &State<Network>, loader: &Loader) -> std::result::Result<bool, String> {
    let started = Instant::now();
    let report = report(state, loader).map_err(|error| error.to_string())?;
    let mut output = Output::default();
    output.line(&report.to_string());
    output.line(&format!("checked in {:.1} s", started.elapsed().as_secs_f64()));
    output.finish()?;
    Ok(report.passed())
}

fn report(state: &State<Network>, loader: &Loader) -> Result<extensor::check::Report> {
    let model = &state.model;
    let mut names = Vec::new();
    model.visit(&Path::ROOT, &mut |path, _| {
        if !path.is_buffer() {
            names.push(path.to_string());
        }
        Ok(())
    })?;
    // In f64, so that the formula is measured and not the rounding.
    let wide = |x: &Tensor| cast(x, DType::F64);
    let weights = parameters(model).into_iter().map(wide).collect::<Result<Vec<Tensor>>>()?;
    let indices: Vec<usize> = (0..EXAMPLES.min(loader.dataset().len())).collect();
    let batch = loader.dataset().batch(&indices, state.key)?;
    let mode = Mode::Training(state.key);
    let loss = |weights: &Vec<Tensor>| {
        let dtype = weights.first().map_or(DType::F64, Tensor::dtype);
        let mut weights = weights.iter();
        let model = model.map(&Path::ROOT, &mut |path, x| match path.is_buffer() {
            true if x.dtype().is_float() => cast(x, dtype),
            true => Ok(x.clone()),
            false => Ok(weights.next().unwrap_or(x).clone()),
        })?;
        let inputs = match batch.inputs.dtype().is_float() {
            true => cast(&batch.inputs, dtype)?,
            false => batch.inputs.clone(),
        };
        class_loss(&model.forward(&inputs, &mode)?.logits, &batch.targets, 0.0)
    };
    let name = format!("the loss of {} examples by {} parameters", indices.len(), names.len());
    let options = Options { input_names: names, ..Options::named(name) };
    check_grad(loss, &weights, &options)
}
