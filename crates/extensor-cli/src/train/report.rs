//! What a run ends with: a table, plots and a few lines of a play.

use super::config::Settings;
use super::data::{Data, Task};
use super::evaluate::{self, Scores};
use super::network::Network;
use super::pictures::Pictures;
use super::progress::{Progress, clock};
use super::saved;
use crate::plot::{Panel, Picture, Series, attention, confusion, curves, mistakes};
use crate::text;
use extensor::autodiff::parameters;
use extensor::io::atomic;
use extensor::nn::models::Gpt;
use extensor::train::{Directory, End, Plan, State, metrics};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How many mistaken pictures a sheet shows.
const SHOWN: usize = 40;

/// What is about to happen.
pub fn head(
    settings: &Settings,
    data: &Data,
    state: &State<Network>,
    plan: &Plan,
    ranks: usize,
) -> String {
    let count: usize = parameters(&state.model).iter().map(|x| x.len()).sum();
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let each = match ranks {
        1 => String::new(),
        _ => format!(" on each of {ranks} ranks"),
    };
    format!(
        "{} with {} parameters learns {} ({} to train on, {} to test with): {} steps of {} with {}, {}, {} threads{each}",
        text(&settings.model),
        thousands(count as u64),
        data.name,
        thousands(data.train.len() as u64),
        thousands(data.test.len() as u64),
        thousands(plan.steps),
        settings.batch.unwrap_or(1) * settings.accumulate.unwrap_or(1),
        text(&settings.optimizer),
        text(&settings.precision),
        extensor::threads::get(),
    )
}

fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Evaluates the best checkpoint, draws the plots and prints the table.
#[allow(clippy::too_many_arguments)] // each is a different thing, and all are needed
pub fn finish(
    settings: &Settings,
    state: &State<Network>,
    folder: &Path,
    directory: &Directory,
    progress: &mut Progress,
    started: Instant,
    end: End,
) -> Result<(), String> {
    let failed = |error: extensor::Error| error.to_string();
    let total = started.elapsed().as_secs_f64();
    let data = progress.data.clone();
    // The best is what is kept, and what `extensor eval` and `predict` take.
    let best = state.best.map(|best| saved::open(&directory.path_of(best.step)));
    let model = match best {
        Some(saved) => saved?.network()?,
        None => state.result().map_err(failed)?,
    };
    let last = state.result().map_err(failed)?;
    let test = |model: &Network| {
        evaluate::evaluate(model, &*data.test, progress.policy, usize::MAX).map_err(failed)
    };
    let (best_scores, last_scores) = (test(&model)?, test(&last)?);
    let plots = draw(folder, &data, &model, &best_scores).map_err(|error| error.to_string())?;

    let count: usize = parameters(&state.model).iter().map(|x| x.len()).sum();
    let name = settings.model.as_deref().unwrap_or("model");
    let mut rows = vec![
        ("model", format!("{name}, {} parameters", thousands(count as u64))),
        ("data", data.name.clone()),
        (
            "steps",
            format!(
                "{} of {}, {} epochs",
                thousands(state.step),
                settings.batch.unwrap_or(1) * settings.accumulate.unwrap_or(1),
                state.position.epoch
            ),
        ),
    ];
    let seconds = progress.training.as_secs_f64();
    if progress.seen > 0 {
        let rate = progress.seen as f64 / seconds.max(1e-9);
        rows.push((
            "time",
            format!(
                "{} training at {} examples/s, {} in all",
                clock(seconds),
                thousands(rate as u64),
                clock(total)
            ),
        ));
    }
    if state.overflows > 0 {
        rows.push(("overflows", format!("{}, each survived", state.overflows)));
    }
    if end == End::NoBetter {
        rows.push(("ended", format!("{} evaluations brought nothing better", state.stale)));
    }
    rows.push(("last", describe(&data.task, &last_scores)));
    let at = state.best.map_or(state.step, |best| best.step);
    rows.push(("best", format!("{}, after step {at}", describe(&data.task, &best_scores))));
    rows.push(("folder", folder.display().to_string()));
    for (i, path) in plots.iter().enumerate() {
        rows.push((if i == 0 { "plots" } else { "" }, path.display().to_string()));
    }
    let output = &mut progress.output;
    output.line("");
    for (name, value) in &rows {
        output.line(&format!("{name:9}  {value}"));
    }
    if let (Network::Gpt(model), Task::Text { letters }) = (&model, &data.task) {
        let seed = settings.seed.unwrap_or(0);
        // A text begins after a line's end, if there are lines.
        let first = letters.chars().find(|c| *c == '\n').or(letters.chars().next());
        let start = first.map_or(String::new(), String::from);
        let sample = text::sample(model, letters, &start, 600, 0.8, seed)?;
        let path = folder.join("plots").join("sample.txt");
        atomic::write(&path, |f| f.write_all(sample.as_bytes())).map_err(failed)?;
        output.line("");
        output.line(sample.trim());
    }
    Ok(())
}

/// Scores in words.
pub fn describe(task: &Task, scores: &Scores) -> String {
    match task {
        Task::Text { .. } => format!(
            "validation loss {:.4} nats a letter, {:.2} % of letters right",
            scores.loss,
            100.0 * scores.accuracy
        ),
        _ => format!(
            "{:.2} % of {} right, loss {:.4}",
            100.0 * scores.accuracy,
            thousands(scores.predictions.len() as u64),
            scores.loss
        ),
    }
}

/// Draws what there is to draw; the files.
fn draw(
    folder: &Path,
    data: &Data,
    model: &Network,
    scores: &Scores,
) -> extensor::Result<Vec<PathBuf>> {
    let plots = folder.join("plots");
    let mut pages = vec![("curves.svg", lines(&folder.join("metrics.jsonl"), &data.task)?)];
    match &data.task {
        Task::Images { classes, .. } | Task::Table { classes, .. } => {
            let names: Vec<String> = (0..*classes).map(|c| c.to_string()).collect();
            pages.push(("confusion.svg", confusion(&scores.confusion(*classes), &names)));
        }
        Task::Text { .. } => {}
    }
    if let Some(images) = &data.pictures {
        let wrong = scores.mistakes();
        let pictures = wrong.iter().take(SHOWN).map(|p| picture(images, p));
        let pictures = pictures.collect::<extensor::Result<Vec<_>>>()?;
        pages.push(("mistakes.svg", mistakes(&pictures, wrong.len())));
    }
    if let (Network::Gpt(model), Task::Text { letters }) = (model, &data.task) {
        pages.push(("attention.svg", looks(model, letters)?));
    }
    std::fs::create_dir_all(&plots).map_err(|error| extensor::Error::File {
        op: "train",
        file: plots.display().to_string(),
        reason: error.to_string(),
    })?;
    let mut paths = Vec::new();
    for (name, page) in pages {
        let path = plots.join(name);
        atomic::write(&path, |f| f.write_all(page.as_bytes()))?;
        paths.push(path);
    }
    Ok(paths)
}

fn picture(images: &Pictures, p: &evaluate::Prediction) -> extensor::Result<Picture> {
    Ok(Picture {
        pixels: images.image(p.example)?.to_vec::<u8>()?,
        size: images.size(),
        truth: p.truth.to_string(),
        predicted: p.predicted.to_string(),
        probability: p.probability,
    })
}

/// The curves of the metrics that were written.
fn lines(path: &Path, task: &Task) -> extensor::Result<String> {
    let records = metrics::read(path)?;
    let series = |name: &str, metric: &str, factor: f64, noisy: bool| {
        let value = |values: &[(String, f64)]| {
            values.iter().find(|(n, _)| n == metric).map(|(_, v)| v * factor)
        };
        let points =
            records.iter().filter_map(|(step, values)| Some((*step as f64, value(values)?)));
        Series { name: name.into(), points: points.collect(), noisy }
    };
    let held = if matches!(task, Task::Text { .. }) { "validation" } else { "test" };
    let panel = |title: &str, series: Vec<Series>, logarithmic: bool| Panel {
        title: title.into(),
        across: "step".into(),
        series,
        logarithmic,
    };
    let loss = vec![series("training", "loss", 1.0, true), series(held, "test_loss", 1.0, false)];
    let mut training = series("training", "accuracy", 100.0, true);
    // The first steep rise would press all that matters into a line.
    let last = records.last().map_or(0, |(step, _)| *step) as f64;
    training.points.retain(|(step, _)| *step >= 0.1 * last);
    let accuracy = vec![training, series(held, "test_accuracy", 100.0, false)];
    let logarithmic = !matches!(task, Task::Text { .. });
    Ok(curves(&[panel("Loss", loss, logarithmic), panel("Accuracy (%)", accuracy, false)]))
}

/// Where the letters of a line look.
fn looks(model: &Gpt, letters: &str) -> extensor::Result<String> {
    let line = "To be, or not to be, that is the";
    let line: String = line.chars().filter(|c| letters.contains(*c)).collect();
    let line: String = match line.is_empty() {
        true => letters.chars().take(16).collect(),
        false => line.chars().take(model.config.context).collect(),
    };
    let maps = text::attention(model, letters, &line)?;
    let tokens: Vec<String> = line.chars().map(String::from).collect();
    let title = format!("Where block {} looks", model.blocks.len());
    Ok(attention(&title, &maps, &tokens))
}
