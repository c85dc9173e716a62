//! A data set that is larger than memory: made, learnt from where it is, and measured.
//!
//! ```text
//! cargo run --release -p extensor --example larger_than_memory -- make FOLDER GIGABYTES
//! cargo run --release -p extensor --example larger_than_memory -- train FOLDER STEPS
//! cargo run --release -p extensor --example larger_than_memory -- speed FOLDER
//! ```

use extensor::data::{Batch, Dataset, Images, Loader, StoredPairs, stored};
use extensor::nn::{class_loss, models::LeNet5};
use extensor::optim::Adam;
use extensor::prelude::*;
use extensor::train::{FitOptions, Plan};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// The pixels of a picture, as many as MNIST's have.
const PIXELS: usize = 28 * 28;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &String| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
    let text = |error: Error| error.to_string();
    let done = match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", folder, _] => number(&arguments[2])
            .and_then(|size| make(Path::new(folder), size).map_err(|error| error.to_string())),
        ["train", folder, _] => {
            number(&arguments[2]).and_then(|steps| train(Path::new(folder), steps).map_err(text))
        }
        ["speed", folder] => speed(Path::new(folder)).map_err(text),
        _ => {
            Err("larger_than_memory make FOLDER GIGABYTES, train FOLDER STEPS or speed FOLDER"
                .into())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes shards of a gigabyte: noise in which one of ten stripes is brighter, which is the class.
fn make(folder: &Path, gigabytes: u64) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut state = 1u64;
    for shard in 0..gigabytes {
        // Each has its own number of pictures.
        let count = ((1_000_000_000 - shard * 1_000_000) / (PIXELS as u64 + 1)) as u32;
        let file = |kind: &str, axes: u8| -> std::io::Result<_> {
            let path = folder.join(format!("train-{kind}-{shard}-idx{axes}-ubyte"));
            let mut file = std::io::BufWriter::with_capacity(1 << 20, std::fs::File::create(path)?);
            file.write_all(&[0, 0, 8, axes])?;
            file.write_all(&count.to_be_bytes())?;
            Ok(file)
        };
        let (mut images, mut labels) = (file("images", 3)?, file("labels", 1)?);
        images.write_all(&[0, 0, 0, 28, 0, 0, 0, 28])?;
        let mut picture = [0u8; PIXELS];
        for i in 0..count {
            let class = (i % 10) as usize;
            for eight in picture.chunks_mut(8) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let word = (state ^ state >> 29).to_le_bytes();
                eight.iter_mut().zip(word).for_each(|(pixel, byte)| *pixel = byte / 2);
            }
            let stripe = class * PIXELS / 10;
            picture[stripe..stripe + PIXELS / 10].iter_mut().for_each(|pixel| *pixel += 100);
            images.write_all(&picture)?;
            labels.write_all(&[class as u8])?;
        }
        images.flush()?;
        labels.flush()?;
    }
    println!("made {gigabytes} shards");
    Ok(())
}

fn found(folder: &Path) -> Result<StoredPairs> {
    stored::find(folder, &["train"])
}

/// Trains LeNet-5 on pictures that are drawn from all shards.
fn train(folder: &Path, steps: u64) -> Result<()> {
    let images = found(folder)?.images()?;
    let (mean, std): (Vec<f64>, Vec<f64>) = images.statistics(10_000)?.into_iter().unzip();
    let images = images.normalize(&mean, &std)?;
    println!("{} pictures; {}", images.len(), memory());
    let loader = Loader::new(images, 64, Key::new(2))?.shuffle(true).drop_last(true);
    let model = LeNet5::new(Key::new(1))?;
    let mut trainer = Trainer::new(model, Adam::new(1e-3))?;
    let started = Instant::now();
    let loss = |model: &LeNet5, batch: &Batch, mode: &Mode| {
        model.forward(&batch.inputs, mode)?.loss(|y| class_loss(y, &batch.targets, 0.0))
    };
    trainer.fit(&loader, loss, FitOptions::new(Plan::new(steps)))?;
    let seconds = started.elapsed().as_secs_f64();
    let batch = loader.epoch(1)?.next().transpose()?;
    let Some(batch) = batch.map(|loaded| loaded.batch) else { return Ok(()) };
    let logits = trainer.state.model.forward(&batch.inputs, &Mode::Inference)?.logits;
    let right = logits.argmax(1)?.equal(&batch.targets)?.cast(DType::F32)?.mean(..)?;
    println!("{} steps, {:.0} pictures/s", steps, (64 * steps) as f64 / seconds);
    println!("{:.0} % of a batch right", 100.0 * right.item::<f32>()?);
    println!("{}", memory());
    Ok(())
}

/// Goes through the first 60,000 pictures and through all, in a random order, without training.
fn speed(folder: &Path) -> Result<()> {
    let pairs = found(folder)?;
    let few = pairs.len().min(60_000);
    let [x, y] = [pairs.inputs().range(0..few)?, pairs.targets().range(0..few)?];
    let stored = pairs.images()?;
    println!("{} pictures", stored.len());
    let first = First(stored.clone(), few);
    let batches = few as u64 / 64;
    for round in 0..3 {
        time("in memory", Images::new(x.clone(), y.clone())?, round, batches)?;
        time("the same, in files", first.clone(), round, batches)?;
        time("all, in files", stored.clone(), round, batches)?;
    }
    Ok(())
}

/// The first pictures of a data set.
#[derive(Clone)]
struct First<D>(D, usize);

impl<D: Dataset> Dataset for First<D> {
    fn len(&self) -> usize {
        self.1
    }
    fn batch(&self, indices: &[usize], key: Key) -> Result<Batch> {
        self.0.batch(indices, key)
    }
}

fn time(name: &str, data: impl Dataset + 'static, epoch: u64, batches: u64) -> Result<()> {
    // Made when they are asked for, so that nothing else is measured.
    let loader = Loader::new(data, 64, Key::new(1))?.shuffle(true).drop_last(true).prefetch(0);
    let mut ahead = loader.epoch(epoch)?;
    // The first includes the order of the epoch.
    let started = Instant::now();
    ahead.next().transpose()?;
    let first = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let mut made = 0;
    for loaded in ahead.take(batches as usize - 1) {
        made += loaded?.batch.targets.len();
    }
    let rate = made as f64 / started.elapsed().as_secs_f64();
    println!("{name:20} {rate:9.0} pictures/s; the first batch after {:.1} ms", 1e3 * first);
    Ok(())
}

/// What this process has in memory, where the system tells.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        format!("{name} {:.1} MB", kib.unwrap_or(0) as f64 * 1024.0 / 1e6)
    };
    ["VmHWM", "VmRSS", "RssAnon", "RssFile"].map(of).join(", ")
}
