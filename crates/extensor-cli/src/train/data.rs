//! What is learnt: the built-in data sets, and files of the user.
//!
//! A [`Task`] is what must be known to use a trained model; it travels with its checkpoints.

use super::config::Settings;
use super::pictures::{self, Pictures};
use extensor::data::text::{Vocabulary, Windows};
use extensor::data::{Augment, Dataset, Images, Pairs, Subset, cifar, csv, idx, text};
use extensor::{Key, Tensor};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// What a model is given, and what it says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Task {
    /// Pictures into classes.
    Images {
        /// Channels, rows and columns.
        shape: [usize; 3],
        /// How many classes there are.
        classes: usize,
        /// The mean of each channel, which is subtracted.
        mean: Vec<f64>,
        /// The standard deviation of each channel, which it is divided by.
        std: Vec<f64>,
    },
    /// Rows of numbers into classes.
    Table {
        /// How many numbers there are in a row.
        features: usize,
        /// How many classes there are.
        classes: usize,
        /// The mean of each column, which is subtracted.
        mean: Vec<f64>,
        /// The standard deviation of each column, which it is divided by.
        std: Vec<f64>,
    },
    /// A text, letter by letter.
    Text {
        /// The letters, sorted.
        letters: String,
    },
}

impl Task {
    /// What it is about.
    pub fn kind(&self) -> &'static str {
        match self {
            Task::Images { .. } => "pictures",
            Task::Table { .. } => "tables",
            Task::Text { .. } => "text",
        }
    }
}

/// A data set to train on and one to test with.
#[derive(Clone)]
pub struct Data {
    /// What is learnt.
    pub task: Task,
    /// What it is called.
    pub name: String,
    /// To train on.
    pub train: Arc<dyn Dataset>,
    /// To test with.
    pub test: Arc<dyn Dataset>,
    /// The pictures to test with, as they are.
    pub pictures: Option<Pictures>,
}

const MNIST: [&[u8]; 4] = [
    extensor_mnist::IMAGES,
    extensor_mnist::LABELS,
    include_bytes!("../../data/mnist/t10k-images-idx3-ubyte.gz"),
    include_bytes!("../../data/mnist/t10k-labels-idx1-ubyte.gz"),
];
const SHAKESPEARE: &[u8] = include_bytes!("../../data/shakespeare.txt.gz");

impl Data {
    /// The data that the settings name: with no name, what their model usually learns.
    pub fn load(settings: &Settings) -> Result<Data, String> {
        let usual = match settings.model.as_deref() {
            Some("gpt") => "shakespeare",
            _ => "mnist",
        };
        let name = settings.data.as_deref().unwrap_or(usual);
        let found = match name {
            "mnist" if !Path::new(name).exists() => mnist(settings),
            "shakespeare" if !Path::new(name).exists() => {
                text::parse(SHAKESPEARE).and_then(|text| letters(name, &text, settings))
            }
            _ => return Data::read(Path::new(name), settings),
        };
        found.map_err(|error| error.to_string())
    }

    /// A folder of IDX or CIFAR files or of shards, or a file of text or of comma-separated numbers.
    fn read(path: &Path, settings: &Settings) -> Result<Data, String> {
        let shown = path.display();
        let name = path.file_name().map_or("data".into(), |n| n.to_string_lossy().into_owned());
        if path.is_dir() {
            let has =
                |file: &str| path.join(file).is_file() || path.join(format!("{file}.gz")).is_file();
            let in_memory = |(train, test)| [train, test].map(Pictures::Here);
            let found = match () {
                () if has("data_batch_1.bin") => {
                    cifar::folder(path, cifar::Kind::Ten).map(in_memory)
                }
                () if has("train.bin") => {
                    cifar::folder(path, cifar::Kind::HundredFine).map(in_memory)
                }
                () => pictures::folder(path),
            };
            let made = found.and_then(|found| images(&name, found, settings));
            return made.map_err(|error| error.to_string());
        }
        if !path.exists() {
            return Err(format!(
                "there is no {shown}; --data takes a folder, a file, or one of the built-in mnist and shakespeare"
            ));
        }
        let plain = name.strip_suffix(".gz").unwrap_or(&name);
        let made = match plain.rsplit_once('.').map(|(_, end)| end) {
            Some("csv") => csv::read(path, &csv::Options::default())
                .and_then(|table| columns(&name, &table, settings)),
            Some("tsv") => {
                let options = csv::Options { delimiter: '\t', ..csv::Options::default() };
                csv::read(path, &options).and_then(|table| columns(&name, &table, settings))
            }
            _ => text::read(path).and_then(|text| letters(&name, &text, settings)),
        };
        made.map_err(|error| error.to_string())
    }
}

fn mnist(settings: &Settings) -> extensor::Result<Data> {
    let [images_, labels, test_images, test_labels] = MNIST;
    let train = Images::new(idx::parse(images_)?, idx::parse(labels)?)?;
    let test = Images::new(idx::parse(test_images)?, idx::parse(test_labels)?)?;
    images("mnist", [train, test].map(Pictures::Here), settings)
}

fn images(name: &str, [train, test]: [Pictures; 2], settings: &Settings) -> extensor::Result<Data> {
    let (mean, std): (Vec<f64>, Vec<f64>) = train.statistics()?.into_iter().unzip();
    // A channel that is the same everywhere says nothing, however it is scaled.
    let std: Vec<f64> = std.into_iter().map(|s| if s > 0.0 { s } else { 1.0 }).collect();
    let shape = train.size();
    let classes = train.classes().max(test.classes()).max(2);
    let task = Task::Images { shape, classes, mean: mean.clone(), std: std.clone() };
    test.expect_size(shape)?;
    let train = train.normalize(&mean, &std)?;
    let test = test.normalize(&mean, &std)?;
    // Of colour pictures the mirror image shows the same thing; of a digit it does not.
    let colour = shape[0] == 3;
    let augment = Augment { shift: if colour { 4 } else { 2 }, flip: colour };
    let train = if settings.augment == Some(true) { train.augment(augment) } else { train };
    let pictures = Some(test.clone());
    Ok(Data { task, name: name.into(), train: train.dataset(), test: test.dataset(), pictures })
}

fn letters(name: &str, text: &str, settings: &Settings) -> extensor::Result<Data> {
    let vocabulary = Vocabulary::of(text);
    let length = settings.context.unwrap_or(64) as usize;
    let tokens = vocabulary.encode(text)?;
    let (train, test) = text::split(&tokens, 0.9)?;
    let count = (train.len() / length).max(1);
    let train = Windows::random(train, length, count)?;
    let test = Windows::in_order(test, length)?;
    let task = Task::Text { letters: vocabulary.characters() };
    let (train, test) = (Arc::new(train), Arc::new(test));
    Ok(Data { task, name: name.into(), train, test, pictures: None })
}

/// So many classes any table may have, and a longer one as many as it has rows.
const FEW_CLASSES: i64 = 1000;

/// The last column is the class; a fifth of the rows, drawn by the seed, is to test with.
fn columns(name: &str, table: &csv::Table, settings: &Settings) -> extensor::Result<Data> {
    let last = table.columns().len().saturating_sub(1);
    let pairs = table.classification(last)?;
    let [rows, features] = pairs.inputs().shape()[..] else { unreachable!("a table has two axes") };
    let values = pairs.inputs().to_vec::<f32>()?;
    let column = |j: usize| values.iter().skip(j).step_by(features.max(1)).map(|v| f64::from(*v));
    let count = rows.max(1) as f64;
    let mean: Vec<f64> = (0..features).map(|j| column(j).sum::<f64>() / count).collect();
    let spread = |j: usize| {
        let variance = column(j).map(|v| (v - mean[j]).powi(2)).sum::<f64>() / count;
        if variance > 0.0 { variance.sqrt() } else { 1.0 }
    };
    let std: Vec<f64> = (0..features).map(spread).collect();
    let scaled = values.iter().enumerate().map(|(i, v)| {
        let j = i % features.max(1);
        ((f64::from(*v) - mean[j]) / std[j]) as f32
    });
    let inputs = Tensor::from_vec(scaled.collect::<Vec<f32>>(), [rows, features])?;
    let targets = pairs.targets().clone();
    let labels = targets.to_vec::<i64>()?;
    let largest = labels.iter().copied().max().unwrap_or(0);
    // A class takes a part of the last layer, whether it is there or not.
    if largest >= (rows as i64).max(FEW_CLASSES) {
        let mut different = labels;
        different.sort_unstable();
        different.dedup();
        let (op, parameter) = ("train", "the label");
        let expected = format!(
            "below {}: the {} different classes in these {rows} rows should be numbered from 0 on",
            FEW_CLASSES.max(rows as i64),
            different.len()
        );
        return Err(extensor::Error::Parameter {
            op,
            parameter,
            expected,
            got: largest.to_string(),
        });
    }
    let classes = (largest as usize + 1).max(2);
    let all = Arc::new(Pairs::new(inputs, targets)?);
    let draws = Key::new(settings.seed.unwrap_or(0)).fold_in(9).integers([rows], 5)?;
    let draws = draws.to_vec::<i64>()?;
    let part = |test: bool| (0..rows).filter(|&i| (draws[i] == 0) == test).collect::<Vec<_>>();
    let train = Arc::new(Subset::new(all.clone(), part(false))?);
    let test = Arc::new(Subset::new(all, part(true))?);
    let task = Task::Table { features, classes, mean, std };
    Ok(Data { task, name: name.into(), train, test, pictures: None })
}
