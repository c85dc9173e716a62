//! `extensor predict`: what a trained model says of a picture, or makes of a text.

use crate::output::Output;
use crate::text;
use crate::train::data::Task;
use crate::train::network::Network;
use crate::train::saved;
use extensor::nn::{Mode, Model};
use extensor::ops::cast;
use extensor::{DType, Tensor};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// What to ask, and whom.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The folder of a run (its best checkpoint), or a checkpoint
    #[arg(value_name = "DIR|FILE")]
    path: PathBuf,
    /// A picture (PNG), numbers (1.5,2,…), or the beginning of a text
    #[arg(value_name = "IMAGE|NUMBERS|PROMPT", allow_hyphen_values = true)]
    input: String,
    /// How many letters to make
    #[arg(long, value_name = "N", default_value_t = 400)]
    letters: usize,
    /// How daring to be: 0 always takes the most likely letter
    #[arg(long, default_value_t = 0.8)]
    temperature: f64,
    /// Where random numbers come from
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<bool, String> {
    let saved = saved::chosen(&arguments.path)?;
    let model = saved.network()?;
    let mut output = Output::default();
    let Arguments { input, letters: count, temperature, seed, .. } = arguments;
    match (&model, &saved.task) {
        (Network::Gpt(model), Task::Text { letters }) => {
            let unknown = input.chars().find(|c| !letters.contains(*c));
            if let Some(c) = unknown {
                return Err(format!("the model has never seen the letter {c:?}"));
            }
            let made = text::sample(model, letters, input, *count, *temperature, *seed)?;
            output.line(&made);
        }
        (_, Task::Images { shape, mean, std, .. }) => {
            let pixels = picture(Path::new(input), *shape)?;
            let plane = shape[1] * shape[2];
            let scaled = pixels.iter().enumerate().map(|(i, p)| {
                let channel = i / plane.max(1);
                let of = |values: &[f64]| values.get(channel).copied().unwrap_or(1.0);
                ((f64::from(*p) / 255.0 - of(mean)) / of(std)) as f32
            });
            let shape = [1, shape[0], shape[1], shape[2]];
            let inputs = Tensor::from_vec(scaled.collect::<Vec<f32>>(), shape);
            bars(&mut output, &model, &inputs.map_err(|error| error.to_string())?)?;
        }
        (_, Task::Table { features, mean, std, .. }) => {
            let numbers = row(input, *features)?;
            let scaled = numbers.iter().zip(mean.iter().zip(std)).map(|(x, (m, s))| {
                let scaled = ((x - m) / s) as f32;
                match scaled.is_finite() {
                    true => Ok(scaled),
                    false => Err(format!("{x} is not a number that the model can take")),
                }
            });
            let scaled = scaled.collect::<Result<Vec<f32>, String>>()?;
            let inputs = Tensor::from_vec(scaled, [1, *features]);
            bars(&mut output, &model, &inputs.map_err(|error| error.to_string())?)?;
        }
        _ => return Err(format!("{} holds a model without its task", saved.path.display())),
    }
    output.finish()?;
    Ok(true)
}

/// Prints the probability of each class with a bar, the most likely first.
fn bars(output: &mut Output, model: &Network, inputs: &Tensor) -> Result<(), String> {
    let logits = model.forward(inputs, &Mode::Inference);
    let logits = logits.and_then(|output| cast(&output.logits, DType::F64));
    let logits = logits.map_err(|error| error.to_string())?.to_f64_vec();
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !most.is_finite() || logits.iter().any(|x| x.is_nan()) {
        return Err(
            "the model's answer is not finite: it holds numbers that are not, or the input \
                    is far from all it has learnt"
                .into(),
        );
    }
    let sum: f64 = logits.iter().map(|x| (x - most).exp()).sum();
    let mut classes: Vec<(usize, f64)> =
        logits.iter().map(|x| (x - most).exp() / sum).enumerate().collect();
    classes.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (class, probability) in classes {
        let bar = "█".repeat((probability * 40.0).round() as usize);
        let line = format!("{class:>4}  {:6.2} %  {bar}", 100.0 * probability);
        output.line(line.trim_end());
    }
    Ok(())
}

fn row(text: &str, features: usize) -> Result<Vec<f64>, String> {
    let numbers: Result<Vec<f64>, String> = text
        .split(',')
        .map(|field| field.trim().parse().map_err(|_| format!("{field:?} is no number")))
        .collect();
    let numbers = numbers?;
    match numbers.len() == features {
        true => Ok(numbers),
        false => Err(format!("the model takes {features} numbers, got {}", numbers.len())),
    }
}

/// A PNG as bytes, channel by channel, of the size that the model takes.
fn picture(path: &Path, [channels, rows, columns]: [usize; 3]) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let failed = |error: &dyn std::fmt::Display| format!("cannot read {shown} as PNG: {error}");
    let file = File::open(path).map_err(|error| format!("cannot open {shown}: {error}"))?;
    let mut decoder = png::Decoder::new(BufReader::new(file));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(|error| failed(&error))?;
    let size = reader.output_buffer_size().ok_or_else(|| failed(&"it is too large"))?;
    if size > 1 << 28 {
        return Err(failed(&"it is too large"));
    }
    let mut bytes = vec![0; size];
    let info = reader.next_frame(&mut bytes).map_err(|error| failed(&error))?;
    let (width, height) = (info.width as usize, info.height as usize);
    let samples = info.color_type.samples();
    let colours = if samples >= 3 { 3 } else { 1 };
    // Transparent is as white as the paper it lies on.
    let pixel = |x: usize, y: usize, c: usize| {
        let at = (y * width + x) * samples;
        let value = f64::from(bytes[at + c.min(colours - 1)]);
        let alpha = match samples {
            2 | 4 => f64::from(bytes[at + samples - 1]) / 255.0,
            _ => 1.0,
        };
        255.0 + (value - 255.0) * alpha
    };
    let grey = |x: usize, y: usize| match colours {
        1 => pixel(x, y, 0),
        _ => 0.299 * pixel(x, y, 0) + 0.587 * pixel(x, y, 1) + 0.114 * pixel(x, y, 2),
    };
    let value =
        |x: usize, y: usize, c: usize| if channels == 3 { pixel(x, y, c) } else { grey(x, y) };
    let mut made = Vec::with_capacity(channels * rows * columns);
    for c in 0..channels {
        for i in 0..rows {
            for j in 0..columns {
                made.push(average(
                    &|x, y| value(x, y, c),
                    [width, height],
                    [columns, rows],
                    [j, i],
                ));
            }
        }
    }
    // Digits are light on dark in the data; a picture of dark ink on light paper is turned round.
    let edge = |i: usize| i < columns || i >= (rows - 1) * columns || i.is_multiple_of(columns);
    let (sum, count) = made
        .iter()
        .enumerate()
        .filter(|(i, _)| edge(*i % (rows * columns)))
        .fold((0.0, 0.0), |(s, n), (_, v)| (s + v, n + 1.0));
    let turned = channels == 1 && sum / f64::max(count, 1.0) > 127.5;
    Ok(made.iter().map(|v| if turned { 255.0 - v } else { *v }.round() as u8).collect())
}

/// The mean of the part of a picture that one pixel of a picture of another size covers.
fn average(
    value: &dyn Fn(usize, usize) -> f64,
    from: [usize; 2],
    to: [usize; 2],
    at: [usize; 2],
) -> f64 {
    let range = |k: usize| {
        let start = at[k] * from[k] / to[k];
        start..((at[k] + 1) * from[k] / to[k]).max(start + 1).min(from[k].max(start + 1))
    };
    let (mut sum, mut count) = (0.0, 0.0);
    for y in range(1) {
        for x in range(0) {
            sum += value(x, y);
            count += 1.0;
        }
    }
    sum / f64::max(count, 1.0)
}
