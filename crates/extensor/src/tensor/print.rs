//! How tensors look.

use super::{Kind, Tensor};
use std::fmt;

/// Tensors with more elements are shortened.
const WHOLE: usize = 1000;
/// How many elements are shown at either end of a shortened axis.
const EDGE: usize = 3;
/// Tensors of more axes are not shown at all.
const DEEPEST: usize = 100;

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision();
        if let Some(traced) = self.traced().filter(|traced| traced.is_batch()) {
            fmt::Display::fmt(&traced.value, f)?;
            return write!(f, ", {} examples of {}", traced.value.shape()[0], self.shape());
        }
        if self.ndim() > DEEPEST || self.is_recorded() {
            return write!(f, "[...]  {}{}", self.dtype(), self.shape());
        }
        let edges = if self.len() > WHOLE { EDGE } else { usize::MAX };
        let edges = [edges, 1, 0].into_iter().find(|&edge| {
            let count = |&size: &usize| size.min(edge.saturating_mul(2).max(1));
            let each = self.shape().iter().map(count);
            each.fold(1usize, usize::saturating_mul) <= 10 * WHOLE
        });
        // The indices shown along each axis; None stands for the gap. (Of a tensor without elements
        // none is.)
        let edge = if self.is_empty() { 0 } else { edges.unwrap_or(0) };
        let shown: Vec<Vec<Option<usize>>> = self
            .shape()
            .iter()
            .map(|&size| {
                if size > edge.saturating_mul(2).max(1) {
                    let ends = (0..edge.max(1)).map(Some).chain([None]);
                    ends.chain((size - edge..size).map(Some)).collect()
                } else {
                    (0..size).map(Some).collect()
                }
            })
            .collect();
        let mut texts = Vec::new();
        if !self.is_empty() {
            self.collect(&shown, &mut Vec::new(), &mut texts);
        }
        let texts = self.format(&texts, digits);
        let width = texts.iter().map(|t| t.chars().count()).max().unwrap_or(0);
        let mut texts = texts.iter().map(String::as_str);
        nest(f, &shown, 0, width, &mut texts)?;
        write!(f, "  {}{}", self.dtype(), self.shape())
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ndim() > 1 && !self.is_empty() {
            f.write_str("\n")?;
        }
        fmt::Display::fmt(self, f)
    }
}

/// Writes the nested brackets.
fn nest<'a>(
    f: &mut fmt::Formatter<'_>,
    shown: &[Vec<Option<usize>>],
    depth: usize,
    width: usize,
    texts: &mut impl Iterator<Item = &'a str>,
) -> fmt::Result {
    let Some(axis) = shown.get(depth) else {
        return write!(f, "{:>width$}", texts.next().unwrap_or(""));
    };
    let inner = depth + 1 == shown.len();
    f.write_str("[")?;
    // The axes below are empty: nothing to show inside.
    if shown[depth..].iter().any(Vec::is_empty) {
        return f.write_str("]");
    }
    for (i, index) in axis.iter().enumerate() {
        if i > 0 {
            if inner {
                f.write_str(", ")?;
            } else {
                f.write_str(",")?;
                f.write_str(&"\n".repeat(shown.len() - depth - 1))?;
                f.write_str(&" ".repeat(depth + 1))?;
            }
        }
        match index {
            Some(_) => nest(f, shown, depth + 1, width, texts)?,
            None => f.write_str("...")?,
        }
    }
    f.write_str("]")
}

impl Tensor {
    /// The positions of all shown elements, in row-major order.
    fn collect(
        &self,
        shown: &[Vec<Option<usize>>],
        index: &mut Vec<usize>,
        out: &mut Vec<Vec<usize>>,
    ) {
        match shown.get(index.len()) {
            None => out.push(index.clone()),
            Some(axis) => {
                for &i in axis.iter().flatten() {
                    index.push(i);
                    self.collect(shown, index, out);
                    index.pop();
                }
            }
        }
    }

    fn format(&self, indices: &[Vec<usize>], digits: Option<usize>) -> Vec<String> {
        let layout = self.layout();
        let element = |index: &Vec<usize>| {
            let steps = index.iter().zip(&layout.strides);
            let at = layout.offset as isize + steps.map(|(&i, &s)| i as isize * s).sum::<isize>();
            let one = super::Layout {
                shape: super::Shape::scalar(),
                strides: Default::default(),
                offset: at as usize,
            };
            self.bare().with_layout(one)
        };
        match self.dtype().kind() {
            Kind::Bool => {
                let text = |t: Tensor| {
                    (if t.to_f64_vec()[0] != 0.0 { "true" } else { "false" }).to_string()
                };
                indices.iter().map(|i| text(element(i))).collect()
            }
            Kind::Int => {
                let text = |t: Tensor| super::match_int!(t.dtype(), T => t.view::<T>().data()[t.layout().offset].0.to_string(), else String::new());
                indices.iter().map(|i| text(element(i))).collect()
            }
            Kind::Float => {
                let values: Vec<f64> = indices.iter().map(|i| element(i).to_f64_vec()[0]).collect();
                format_floats(&values, digits)
            }
        }
    }
}

/// All with the same number of decimals, no more than are needed (at most four unless asked for),
/// or all in scientific notation when they differ too much in size.
fn format_floats(values: &[f64], digits: Option<usize>) -> Vec<String> {
    let most = digits.unwrap_or(4);
    let finite = || values.iter().filter(|v| v.is_finite() && **v != 0.0).map(|v| v.abs());
    let largest = finite().fold(0.0, f64::max);
    let smallest = finite().fold(f64::INFINITY, f64::min);
    let scientific =
        largest >= 1e8 || (largest > 0.0 && (smallest < 1e-4 || largest / smallest > 1e8));
    let special = |v: f64| -> Option<String> {
        match v {
            v if v.is_nan() => Some("NaN".into()),
            v if v.is_infinite() => Some(if v > 0.0 { "inf" } else { "-inf" }.into()),
            _ => None,
        }
    };
    if scientific {
        return values
            .iter()
            .map(|&v| special(v).unwrap_or_else(|| format!("{v:.most$e}")))
            .collect();
    }
    let needed = |v: f64| {
        let text = format!("{v:.most$}");
        let (_, decimals) = text.split_once('.').unwrap_or(("", ""));
        decimals.trim_end_matches('0').len()
    };
    let decimals = values.iter().filter(|v| v.is_finite()).map(|&v| needed(v)).max().unwrap_or(0);
    let decimals = digits.unwrap_or(decimals.max(1));
    values.iter().map(|&v| special(v).unwrap_or_else(|| format!("{v:.decimals$}"))).collect()
}
