//! A model in print: its layers, with the shapes, dtypes and numbers of their parameters.
//!
//! It reads what [`Tree::describe`] says and knows no layer.

use super::*;
use crate::DType;
use crate::autodiff::{Item, Path};
use std::fmt;

/// What a model, or any tree of tensors, is made of; it prints as a table.
///
/// The models and layers of this module print themselves in this way: `println!("{model}")`.
///
/// ```
/// use extensor::nn::{LayerNorm, Linear, Sequential, summary};
/// use extensor::prelude::*;
///
/// let model = Sequential::builder(Key::new(1)).linear(2, 8).relu().linear(8, 3).build()?;
/// assert_eq!(model.to_string(), "\
/// Sequential                 51
///   0: Linear                24
///     weight   f32  [8, 2]   16
///     bias     f32  [8]       8
///   1: Relu
///   2: Linear                27
///     weight   f32  [3, 8]   24
///     bias     f32  [3]       3
/// 51 parameters in 4 tensors, 204 bytes");
///
/// #[derive(Tree)]
/// struct Network { first: Linear, norm: LayerNorm }
///
/// let network = Network { first: Linear::new(Key::new(1), 2, 4)?, norm: LayerNorm::new([4])? };
/// println!("{}", summary(&network));
/// assert_eq!(summary(&network).parameters, 20);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn summary<T: Tree>(tree: &T) -> Summary {
    let mut summary = Summary::default();
    // The rows that the next one may belong to, outermost first, with the length of their path.
    let mut open: Vec<(usize, usize)> = Vec::new();
    tree.describe(&Path::ROOT, &mut |path, item| {
        let parts = path.parts();
        // An item at the path of a node, or of one of its ancestors, ends it.
        let within = |length: usize| match item {
            Item::Setting(_) => length <= parts.len(),
            _ => length < parts.len() || (length == 0 && parts.is_empty()),
        };
        while open.last().is_some_and(|&(_, length)| !within(length)) {
            open.pop();
        }
        let from = open.last().map_or(0, |&(_, length)| length);
        let name = parts[from.min(parts.len())..].join(".");
        match item {
            Item::Setting(text) => {
                if let Some(&(row, _)) = open.last() {
                    let named = name.is_empty() || name == "options" || name.parse::<u8>().is_ok();
                    let text = if named { text } else { format!("{name} {text}") };
                    summary.rows[row].settings.push(text);
                }
            }
            Item::Node(kind) => {
                let depth = open.len();
                open.push((summary.rows.len(), parts.len()));
                summary.rows.push(Row { depth, name, kind, ..Row::default() });
            }
            Item::Leaf(x) => {
                let (numbers, buffer) = (x.len(), path.is_buffer());
                let bytes = numbers * x.dtype().size();
                summary.count(numbers, bytes, buffer);
                for &(row, _) in &open {
                    summary.rows[row].numbers += if buffer { 0 } else { numbers };
                }
                let leaf = Some((x.dtype(), x.shape().clone(), buffer));
                summary.rows.push(Row { depth: open.len(), name, leaf, numbers, ..Row::default() });
            }
        }
    });
    summary
}

/// What [`summary`] returns.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// How many numbers are parameters.
    pub parameters: usize,
    /// In how many tensors.
    pub tensors: usize,
    /// How many bytes they take.
    pub bytes: usize,
    /// How many numbers are in buffers, such as running statistics, which are no parameters.
    pub buffers: usize,
    rows: Vec<Row>,
}

/// Name and kind; dtype and shape; numbers.
type Columns = (String, [String; 2], String);

#[derive(Clone, Debug, Default)]
struct Row {
    depth: usize,
    name: String,
    kind: &'static str,
    settings: Vec<String>,
    /// Dtype, shape, and whether it is a buffer.
    leaf: Option<(DType, crate::Shape, bool)>,
    numbers: usize,
}

impl Summary {
    fn count(&mut self, numbers: usize, bytes: usize, buffer: bool) {
        if buffer {
            self.buffers += numbers;
        } else {
            self.parameters += numbers;
            self.tensors += 1;
            self.bytes += bytes;
        }
    }
}

impl Row {
    /// The first column.
    fn head(&self) -> String {
        let indent = "  ".repeat(self.depth);
        let colon = if self.name.is_empty() || self.kind.is_empty() { "" } else { ": " };
        let mut head = format!("{indent}{}{colon}{}", self.name, self.kind);
        if !self.settings.is_empty() {
            head += &format!(" ({})", self.settings.join(", "));
        }
        head
    }

    /// Dtype and shape, where there are some.
    fn body(&self) -> [String; 2] {
        match &self.leaf {
            Some((dtype, shape, _)) => [dtype.to_string(), shape.to_string()],
            None => [String::new(), String::new()],
        }
    }

    /// The last column.
    fn tail(&self) -> String {
        match &self.leaf {
            None if self.numbers == 0 => String::new(),
            Some((_, _, true)) => "buffer".into(),
            _ => thousands(self.numbers),
        }
    }
}

/// `1234567` as `1,234,567`.
fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn size(bytes: usize) -> String {
    match bytes as f64 {
        n if n < 1024.0 => format!("{bytes} bytes"),
        n if n < 1024.0 * 1024.0 => format!("{:.1} KiB", n / 1024.0),
        n if n < 1024.0 * 1024.0 * 1024.0 => format!("{:.1} MiB", n / 1024.0 / 1024.0),
        n => format!("{:.2} GiB", n / 1024.0 / 1024.0 / 1024.0),
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |text: &str| text.chars().count();
        let rows: Vec<Columns> =
            self.rows.iter().map(|row| (row.head(), row.body(), row.tail())).collect();
        let widest =
            |column: &dyn Fn(&Columns) -> usize| rows.iter().map(column).max().unwrap_or(0);
        // What has no dtype may reach into the columns of what has.
        let leaf = |row: &Columns| !row.1[0].is_empty();
        let head = widest(&|row| if leaf(row) { width(&row.0) } else { 0 });
        let dtype = widest(&|row| width(&row.1[0]));
        let shape = widest(&|row| width(&row.1[1]));
        let heads = widest(&|row| if leaf(row) { 0 } else { width(&row.0) });
        let body = (head + 3 + dtype + 2 + shape).max(heads);
        let tail = widest(&|row| width(&row.2));
        for row in &rows {
            let text = match leaf(row) {
                true => format!("{:head$}   {:dtype$}  {}", row.0, row.1[0], row.1[1]),
                false => row.0.clone(),
            };
            let line = format!("{text:body$}   {:>tail$}", row.2);
            writeln!(f, "{}", line.trim_end())?;
        }
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        let Summary { parameters, tensors, buffers, .. } = *self;
        let (numbers, s, t) = (thousands(parameters), plural(parameters), plural(tensors));
        write!(f, "{numbers} parameter{s} in {tensors} tensor{t}, {}", size(self.bytes))?;
        if buffers > 0 {
            write!(f, "; {} number{} in buffers", thousands(buffers), plural(buffers))?;
        }
        Ok(())
    }
}

macro_rules! prints_itself {
    ($($type:ty),* $(,)?) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                summary(self).fmt(f)
            }
        }
    )*};
}

prints_itself!(
    Linear,
    Embedding,
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    BatchNorm2d,
    LayerNorm,
    RMSNorm,
    GroupNorm,
    MultiHeadAttention,
    Activation,
    Dropout,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    Upsample,
    GlobalAvgPool,
    AdaptiveAvgPool,
    Flatten,
    Function,
    Layer,
    Sequential,
    models::Mlp,
    models::LeNet5,
    models::ResNet,
    models::Gpt,
);
