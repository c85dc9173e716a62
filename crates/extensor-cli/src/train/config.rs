//! What a run is to be: flags on top of a file on top of defaults.
//!
//! Every flag can stand in the file under its own name. This module knows names and types, and nothing
//! of training.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The flags of `extensor train`; what is not given is left to the file, then to the model's defaults.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Settings {
    /// The network: mlp, lenet5, resnet or gpt
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(MODELS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What to learn: mnist or shakespeare (built in), a folder of IDX or CIFAR files or shards, a CSV or text file
    #[arg(long, value_name = "DIR|FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// How often to go through the data
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// Stop after so many steps, whatever the epoch
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Examples in a step
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// The largest learning rate
    #[arg(long, value_name = "RATE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lr: Option<f64>,
    /// sgd, adam, adamw, rmsprop, adagrad or lion
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(OPTIMIZERS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<String>,
    /// How the learning rate moves: constant, step, cosine, warmup-cosine, one-cycle or plateau
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(SCHEDULES))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Weight decay, of weights with two axes or more
    #[arg(long, value_name = "RATE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_decay: Option<f64>,
    /// Hold the norm of the gradient to this; 0: no limit
    #[arg(long, value_name = "NORM")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<f64>,
    /// Micro-batches in a step
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accumulate: Option<u64>,
    /// Into how many parts a batch is cut, which mpirun's ranks share out; by default one for each rank.
    /// Results depend on it, and not on how many ranks there are
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u64).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<u64>,
    /// Add the gradients of mpirun's ranks in the order that MPI finds fastest: other bits for another number
    /// of ranks
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fastest: Option<bool>,
    /// Let a batch norm's running statistics be the means over a step's parts, not those of the last
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synchronised: Option<bool>,
    /// The decay of a moving average of the weights, which is what is evaluated; 0: none
    #[arg(long, value_name = "DECAY")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ema: Option<f64>,
    /// Stop when so many evaluations brought nothing better; 0: never
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<u64>,
    /// The arithmetic: f32, bf16 or f16
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(PRECISIONS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    /// Move pictures at random by a pixel or two
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub augment: Option<bool>,
    /// The width of an mlp or a gpt
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65536))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u64>,
    /// The number of layers of an mlp or a gpt
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u64>,
    /// How many letters a gpt sees
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=65536))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// Where all random numbers come from
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// How many threads to use; results do not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u64>,
    /// Record each step once and then only run it: the same results to the bit, in less time
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compile: Option<bool>,
    /// Cut what the optimiser remembers among mpirun's ranks: the same results to the bit, in less memory
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<bool>,
    /// The folder of the run
    #[arg(long, value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<PathBuf>,
    /// Go on with the run in this folder
    #[arg(long, value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<PathBuf>,
    /// Save a checkpoint after so many steps; 0: only after each epoch
    #[arg(long, value_name = "STEPS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_every: Option<u64>,
    /// Evaluate after so many steps; 0: after each epoch
    #[arg(long, value_name = "STEPS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_every: Option<u64>,
    /// How many checkpoints to keep beside the best
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<u64>,
    /// First prove the gradient of the whole model on one batch
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_gradients: Option<bool>,
    /// Print nothing but the result
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet: Option<bool>,
}

/// The networks there are.
pub const MODELS: [&str; 4] = ["mlp", "lenet5", "resnet", "gpt"];
/// The optimisers there are.
pub const OPTIMIZERS: [&str; 6] = ["sgd", "adam", "adamw", "rmsprop", "adagrad", "lion"];
/// The schedules there are.
pub const SCHEDULES: [&str; 6] =
    ["constant", "step", "cosine", "warmup-cosine", "one-cycle", "plateau"];
/// The precisions there are.
pub const PRECISIONS: [&str; 3] = ["f32", "bf16", "f16"];

/// What a key may hold.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A whole number from this on.
    Whole(u64),
    Number,
    Flag,
    Text,
    OneOf(&'static [&'static str]),
}

/// The keys of a file: the flags without their dashes.
const KEYS: &[(&str, Kind)] = &[
    ("model", Kind::OneOf(&MODELS)),
    ("data", Kind::Text),
    ("epochs", Kind::Whole(1)),
    ("steps", Kind::Whole(1)),
    ("batch", Kind::Whole(1)),
    ("lr", Kind::Number),
    ("optimizer", Kind::OneOf(&OPTIMIZERS)),
    ("schedule", Kind::OneOf(&SCHEDULES)),
    ("weight-decay", Kind::Number),
    ("clip", Kind::Number),
    ("accumulate", Kind::Whole(1)),
    ("parts", Kind::Whole(1)),
    ("fastest", Kind::Flag),
    ("synchronised", Kind::Flag),
    ("ema", Kind::Number),
    ("patience", Kind::Whole(0)),
    ("precision", Kind::OneOf(&PRECISIONS)),
    ("augment", Kind::Flag),
    ("width", Kind::Whole(1)),
    ("depth", Kind::Whole(1)),
    ("context", Kind::Whole(2)),
    ("seed", Kind::Whole(0)),
    ("threads", Kind::Whole(1)),
    ("compile", Kind::Flag),
    ("shard", Kind::Flag),
    ("out", Kind::Text),
    ("resume", Kind::Text),
    ("checkpoint-every", Kind::Whole(0)),
    ("eval-every", Kind::Whole(0)),
    ("keep", Kind::Whole(1)),
    ("check-gradients", Kind::Flag),
    ("quiet", Kind::Flag),
];

/// The names of all keys.
pub fn keys() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|(name, _)| *name)
}

impl Settings {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Settings, String> {
        let shown = path.display();
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("cannot read {shown}: {error}"))?;
        Settings::parse(&text).map_err(|error| format!("{shown}: {error}"))
    }

    /// The settings that a text in TOML states.
    ///
    /// ```
    /// use extensor_cli::train::config::Settings;
    /// let settings = Settings::parse("epochs = 3\nweight_decay = 0.1").unwrap();
    /// assert_eq!((settings.epochs, settings.weight_decay), (Some(3), Some(0.1)));
    /// let error = Settings::parse("epoch = 3").unwrap_err();
    /// assert_eq!(error, "there is no key \"epoch\"; did you mean \"epochs\"?");
    /// ```
    pub fn parse(text: &str) -> Result<Settings, String> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |s| 1 + text[..s.start].matches('\n').count());
            format!("line {line}: {}", error.message())
        })?;
        let mut known = Table::new();
        for (key, value) in table {
            let name = key.replace('_', "-");
            let Some((name, kind)) = KEYS.iter().find(|(known, _)| *known == name) else {
                return Err(unknown(&key));
            };
            let value = fit(name, *kind, value)?;
            if known.insert((*name).into(), value).is_some() {
                return Err(format!("the key {name:?} stands there twice"));
            }
        }
        Value::Table(known).try_into().map_err(|error: toml::de::Error| error.message().to_string())
    }

    /// These settings, and where they state nothing, those of `below`.
    pub fn over(self, below: Settings) -> Settings {
        macro_rules! first {
            ($($field:ident)*) => { Settings { $($field: self.$field.or(below.$field)),* } };
        }
        first! {
            model data epochs steps batch lr optimizer schedule weight_decay clip accumulate parts
            fastest synchronised ema patience precision augment width depth context seed threads compile shard out
            resume checkpoint_every eval_every keep check_gradients quiet
        }
    }

    /// What a run computes, without where it is and how that is computed.
    pub fn of_results(&self) -> Settings {
        Settings {
            out: None,
            resume: None,
            threads: None,
            compile: None,
            shard: None,
            quiet: None,
            check_gradients: None,
            ..self.clone()
        }
    }

    /// The settings as a file.
    pub fn text(&self) -> Result<String, String> {
        toml::to_string(self).map_err(|error| error.to_string())
    }
}

fn unknown(key: &str) -> String {
    let near = keys().map(|known| (known, strsim::jaro_winkler(key, known)));
    match near.max_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((near, likeness)) if likeness > 0.7 => {
            format!("there is no key {key:?}; did you mean {near:?}?")
        }
        _ => {
            let all: Vec<&str> = keys().collect();
            format!("there is no key {key:?}; there are {}", all.join(", "))
        }
    }
}

/// The value as the key's type, or an error that says key, expected and got.
fn fit(key: &str, kind: Kind, value: Value) -> Result<Value, String> {
    let (expected, fits) = match (kind, &value) {
        (Kind::Whole(low), Value::Integer(n)) => {
            (format!("a whole number from {low} on"), u64::try_from(*n).is_ok_and(|n| n >= low))
        }
        (Kind::Whole(low), _) => (format!("a whole number from {low} on"), false),
        (Kind::Number, Value::Integer(n)) => return Ok(Value::Float(*n as f64)),
        (Kind::Number, Value::Float(_)) => ("a number".into(), true),
        (Kind::Number, _) => ("a number".into(), false),
        (Kind::Flag, _) => ("true or false".into(), value.is_bool()),
        (Kind::Text, _) => ("a text in quotes".into(), value.is_str()),
        (Kind::OneOf(names), _) => {
            let quoted: Vec<String> = names.iter().map(|n| format!("{n:?}")).collect();
            (
                format!("one of {}", quoted.join(", ")),
                value.as_str().is_some_and(|v| names.contains(&v)),
            )
        }
    };
    if fits {
        return Ok(value);
    }
    let got = match &value {
        Value::Table(_) => "a table".into(),
        Value::Array(_) => "an array".into(),
        Value::String(text) => format!("the text {text:?}"),
        other => other.to_string(),
    };
    Err(format!("{key}: expected {expected}, got {got}"))
}
