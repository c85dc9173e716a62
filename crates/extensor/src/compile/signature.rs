//! What a program is recorded for: what an argument looks like, beside its numbers.

use crate::autodiff::{Item, Path};
use crate::ops::operation::Spec;
use crate::{Tensor, Tree};
use std::fmt::{self, Write};

/// What an argument is made of: where its tensors are and what they look like, the names of its types,
/// its settings.
pub(super) struct Signature {
    parts: Vec<(String, Part)>,
    numbers: Vec<Spec>,
}

#[derive(Debug, PartialEq)]
enum Part {
    Node(&'static str),
    Leaf(Spec),
    Setting(String),
}

impl Signature {
    /// That of an argument with these numbers.
    pub fn new<T: Tree>(tree: &T, numbers: &[Tensor]) -> Signature {
        let mut parts = Vec::new();
        tree.describe(&Path::ROOT, &mut |path, item| {
            let part = match item {
                Item::Node(name) => Part::Node(name),
                Item::Leaf(x) => Part::Leaf(spec(x)),
                Item::Setting(text) => Part::Setting(text),
            };
            parts.push((path.to_string(), part));
        });
        Signature { parts, numbers: numbers.iter().map(spec).collect() }
    }

    /// Whether it is that of this argument.
    pub fn is_of<T: Tree>(&self, tree: &T, numbers: &[Tensor]) -> bool {
        let alike = |(spec, x): (&Spec, &Tensor)| is(spec, x);
        if self.numbers.len() != numbers.len() || !self.numbers.iter().zip(numbers).all(alike) {
            return false;
        }
        let (mut parts, mut same) = (self.parts.iter(), true);
        tree.describe(&Path::ROOT, &mut |path, item| {
            same = same
                && parts.next().is_some_and(|(place, part)| {
                    let alike = match (part, &item) {
                        (Part::Node(a), Item::Node(b)) => a == b,
                        (Part::Leaf(spec), Item::Leaf(x)) => is(spec, x),
                        (Part::Setting(a), Item::Setting(b)) => a == b,
                        _ => false,
                    };
                    alike && prints_as(path, place)
                });
        });
        same && parts.next().is_none()
    }

    /// The first thing in which it differs from another, in words.
    pub fn difference(&self, other: &Signature) -> Option<String> {
        let mut pairs = self.parts.iter().zip(&other.parts);
        let (a, b) = pairs.find(|(a, b)| a != b)?;
        Some(format!("{}: {} instead of {}", a.0, a.1, b.1))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Node(name) => f.write_str(name),
            Part::Leaf(spec) => write!(f, "{} {}", spec.dtype, spec.shape),
            Part::Setting(text) => f.write_str(text),
        }
    }
}

fn spec(x: &Tensor) -> Spec {
    Spec { shape: x.shape().clone(), dtype: x.dtype() }
}

fn is(spec: &Spec, x: &Tensor) -> bool {
    spec.dtype == x.dtype() && spec.shape == *x.shape()
}

/// Whether a path prints as the text, without printing it.
fn prints_as(path: &Path<'_>, text: &str) -> bool {
    struct Rest<'a>(&'a str);
    impl Write for Rest<'_> {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            self.0 = self.0.strip_prefix(part).ok_or(fmt::Error)?;
            Ok(())
        }
    }
    let mut rest = Rest(text);
    write!(rest, "{path}").is_ok() && rest.0.is_empty()
}
