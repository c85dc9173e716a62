//! `extensor eval`: how good a checkpoint is.

use crate::output::Output;
use crate::train::data::{Data, Task};
use crate::train::{evaluate, recipe, report, saved};
use std::path::PathBuf;

/// What to evaluate, and on what.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The folder of a run (its best checkpoint), or a checkpoint
    #[arg(value_name = "DIR|FILE")]
    path: PathBuf,
    /// Other data than it was trained with
    #[arg(long, value_name = "DIR|FILE")]
    data: Option<String>,
    /// How many threads to use
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<bool, String> {
    if let Some(threads) = arguments.threads {
        extensor::threads::set(threads);
    }
    let saved = saved::chosen(&arguments.path)?;
    let model = saved.network()?;
    let mut settings = saved.settings.clone();
    if arguments.data.is_some() {
        settings.data.clone_from(&arguments.data);
    }
    let data = Data::load(&settings)?;
    fits(&data.task, &saved.task)?;
    let policy = recipe::policy(&settings);
    let scores = evaluate::evaluate(&model, &*data.test, policy, usize::MAX);
    let scores = scores.map_err(|error| error.to_string())?;
    let mut output = Output::default();
    output.line(&format!("checkpoint  {}", saved.path.display()));
    output.line(&format!("data        {}", data.name));
    output.line(&format!("result      {}", report::describe(&data.task, &scores)));
    if let Task::Images { classes, .. } | Task::Table { classes, .. } = &data.task {
        let counts = scores.confusion(*classes);
        for (class, row) in counts.iter().enumerate() {
            let all: u64 = row.iter().sum();
            let right = row.get(class).copied().unwrap_or(0);
            let share = 100.0 * right as f64 / all.max(1) as f64;
            output.line(&format!("class {class:<5} {share:6.2} % of {all}"));
        }
    }
    output.finish()?;
    Ok(true)
}

/// An error unless data can be given to a model that has learnt `learnt`.
fn fits(data: &Task, learnt: &Task) -> Result<(), String> {
    let fit = match (data, learnt) {
        (Task::Images { shape: a, classes: n, .. }, Task::Images { shape: b, classes: m, .. }) => {
            a == b && n <= m
        }
        (
            Task::Table { features: a, classes: n, .. },
            Task::Table { features: b, classes: m, .. },
        ) => a == b && n <= m,
        (Task::Text { letters: a }, Task::Text { letters: b }) => a == b,
        _ => false,
    };
    match fit {
        true => Ok(()),
        false => Err(format!(
            "the model has learnt {} and cannot be given these {}: their shape, classes or letters differ",
            learnt.kind(),
            data.kind()
        )),
    }
}
