//! What an equation says: which axes of the operands and of the result are the same.

use super::OP;
use crate::{Error, Result, Shape};
use smallvec::SmallVec;

/// What axes are called: the letters in their order in ASCII, then the axes that an ellipsis stands for.
pub(super) type Label = u8;
pub(in crate::ops::matrix) type Labels = SmallVec<[Label; 8]>;

/// Labels as bits.
pub(super) type Set = u128;

/// How many letters there are, and how many labels a [`Set`] can hold.
const LETTERS: usize = 52;
pub(in crate::ops::matrix) const MOST: usize = 128;

/// The axes of an operand or of the result as they are written, with those after an ellipsis apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Term {
    before: Labels,
    after: Option<Labels>,
}

/// An equation, as it is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Equation {
    text: String,
    inputs: Vec<Term>,
    output: Option<Term>,
}

/// An equation with the shapes of its operands: a label for each axis, and the size of each label.
#[derive(Clone, Debug)]
pub(super) struct Resolved {
    pub inputs: SmallVec<[Labels; 3]>,
    pub output: Labels,
    /// By label; an operand may have 1 where others have more.
    pub sizes: Vec<usize>,
}

/// The labels as a set.
pub(super) fn set(labels: &[Label]) -> Set {
    labels.iter().fold(0, |all, &label| all | bit(label))
}

pub(super) fn bit(label: Label) -> Set {
    1 << label
}

fn letter(label: Label) -> Option<char> {
    let label = usize::from(label);
    let code = if label < LETTERS / 2 { label } else { label + 6 };
    (label < LETTERS).then(|| char::from(b'A' + code as u8))
}

impl Equation {
    /// Reads an equation; what an ellipsis stands for and whether sizes fit is seen later.
    pub fn parse(text: &str) -> Result<Equation> {
        let bad = |expected: String| Error::Parameter {
            op: OP,
            parameter: "equation",
            expected,
            got: format!("{text:?}"),
        };
        let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match plain.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (&*plain, None),
        };
        let term = |part: &str| Term::parse(part).map_err(bad);
        let inputs = left.split(',').map(term).collect::<Result<Vec<_>>>()?;
        let output = right.map(term).transpose()?;
        if let Some(output) = &output {
            let written: Labels = output.written().collect();
            for (i, label) in written.iter().enumerate() {
                let name = letter(*label).unwrap_or('?');
                if written[..i].contains(label) {
                    return Err(bad(format!("{name:?} once in the result")));
                }
                if !inputs.iter().any(|input| input.written().any(|l| l == *label)) {
                    return Err(bad(format!("{name:?} of the result in an operand")));
                }
            }
        }
        Ok(Equation { text: text.to_string(), inputs, output })
    }

    /// An equation of labels, which need not be letters.
    pub fn of(inputs: Vec<Labels>, output: Labels) -> Equation {
        let term = |before| Term { before, after: None };
        let inputs: Vec<Term> = inputs.into_iter().map(term).collect();
        Equation { text: String::new(), inputs, output: Some(term(output)) }
    }

    /// The equation for operands of these shapes, or what is wrong with them.
    pub fn resolve(&self, shapes: &[&Shape]) -> Result<Resolved> {
        if shapes.len() != self.inputs.len() {
            let count = |n: usize| format!("{n} tensor{}", if n == 1 { "" } else { "s" });
            let expected = format!("{} for {:?}", count(self.inputs.len()), self.text);
            return Err(Error::Inputs { op: OP, expected, got: count(shapes.len()) });
        }
        let mut hidden = 0;
        for (i, (term, shape)) in self.inputs.iter().zip(shapes).enumerate() {
            hidden = hidden.max(self.expect_axes(term, i, shape)?);
        }
        if LETTERS + hidden > MOST {
            let expected = format!("at most {} axes in place of \"...\"", MOST - LETTERS);
            let (parameter, got) = ("equation", format!("{:?} with {hidden}", self.text));
            return Err(Error::Parameter { op: OP, parameter, expected, got });
        }
        let mut sizes = vec![1; if self.text.is_empty() { MOST } else { LETTERS + hidden }];
        let mut from = vec![0; sizes.len()];
        let mut inputs: SmallVec<[Labels; 3]> = SmallVec::new();
        for (i, (term, shape)) in self.inputs.iter().zip(shapes).enumerate() {
            let labels = term.labels(shape.len() - term.written().count(), hidden);
            for (axis, (&label, &size)) in labels.iter().zip(shape.iter()).enumerate() {
                let at = usize::from(label);
                // One operand's axes of one label are one axis: there is nothing to broadcast.
                let twin = labels[..axis].iter().position(|l| *l == label);
                if twin.is_some_and(|twin| shape[twin] != size)
                    || size != 1 && sizes[at] != 1 && sizes[at] != size
                {
                    let size = twin.map_or(sizes[at], |twin| shape[twin]);
                    let other = if twin.is_some() { i } else { from[at] };
                    return Err(self.differs(i, shape, label, size, other));
                }
                if size != 1 {
                    (sizes[at], from[at]) = (size, i);
                }
            }
            inputs.push(labels);
        }
        let output = self.result(&inputs, hidden)?;
        Ok(Resolved { inputs, output, sizes })
    }

    /// How many axes an ellipsis stands for; an error if operand number `i` has not the axes written.
    fn expect_axes(&self, term: &Term, i: usize, shape: &Shape) -> Result<usize> {
        let written = term.written().count();
        match shape.len().checked_sub(written) {
            Some(hidden) if hidden == 0 || term.after.is_some() => Ok(hidden),
            _ => {
                let least = if term.after.is_some() { "at least " } else { "" };
                let plural = if written == 1 { "" } else { "s" };
                let expected = format!("{least}{written} dimension{plural}, as {term} says");
                Err(Error::Shape { op: OP, argument: nth(i), expected, got: shape.clone() })
            }
        }
    }

    fn differs(&self, i: usize, shape: &Shape, label: Label, size: usize, other: usize) -> Error {
        let along = match letter(label) {
            Some(name) => format!("along {name:?}"),
            None => "in place of \"...\"".into(),
        };
        let expected = format!("size {size} {along}, as {} has in {:?}", nth(other), self.text);
        Error::Shape { op: OP, argument: nth(i), expected, got: shape.clone() }
    }

    /// The result's labels: those written, or, in alphabetical order, those that are written once.
    fn result(&self, inputs: &[Labels], hidden: usize) -> Result<Labels> {
        if let Some(output) = &self.output {
            if hidden > 0 && output.after.is_none() {
                let expected = "\"...\" in the result, since operands have it".to_string();
                let (parameter, got) = ("equation", format!("{:?}", self.text));
                return Err(Error::Parameter { op: OP, parameter, expected, got });
            }
            return Ok(output.labels(hidden, hidden));
        }
        let times = |label: Label| inputs.iter().flatten().filter(|l| **l == label).count();
        let hidden = (LETTERS..LETTERS + hidden).map(|label| label as Label);
        Ok(hidden.chain((0..LETTERS as Label).filter(|&label| times(label) == 1)).collect())
    }
}

impl Term {
    /// The axes of a part of an equation, or what was expected in it.
    fn parse(part: &str) -> std::result::Result<Term, String> {
        let (before, after) = match part.split_once("...") {
            Some((before, after)) => (before, Some(after)),
            None => (part, None),
        };
        let labels = |text: &str| text.bytes().map(label).collect::<Option<Labels>>();
        let expected = || "letters, commas, one \"->\" and one \"...\" for each tensor".to_string();
        let before = labels(before).ok_or_else(expected)?;
        let after = after.map(|after| labels(after).ok_or_else(expected)).transpose()?;
        Ok(Term { before, after })
    }

    /// The letters.
    fn written(&self) -> impl Iterator<Item = Label> + '_ {
        self.before.iter().chain(self.after.iter().flatten()).copied()
    }

    /// The labels of all axes where the ellipsis stands for `own` axes, the last ones of `hidden`.
    fn labels(&self, own: usize, hidden: usize) -> Labels {
        let mut labels = self.before.clone();
        if let Some(after) = &self.after {
            labels.extend((LETTERS + hidden - own..LETTERS + hidden).map(|label| label as Label));
            labels.extend_from_slice(after);
        }
        labels
    }
}

impl std::fmt::Display for Term {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |labels: &[Label]| labels.iter().filter_map(|l| letter(*l)).collect::<String>();
        match &self.after {
            Some(after) => write!(f, "\"{}...{}\"", text(&self.before), text(after)),
            None => write!(f, "{:?}", text(&self.before)),
        }
    }
}

impl Resolved {
    /// The sizes of these labels.
    pub fn shape(&self, labels: &[Label]) -> Shape {
        labels.iter().map(|&label| self.sizes[usize::from(label)]).collect()
    }

    /// What a label is written as: its letter; for what an ellipsis stands for one that is free.
    pub fn name(&self, label: Label) -> char {
        let used = self.inputs.iter().fold(0, |all, labels| all | set(labels));
        let free = (0..LETTERS as Label).rev().filter(|l| used & bit(*l) == 0);
        let place = usize::from(label).checked_sub(LETTERS);
        letter(label).or_else(|| letter(free.clone().nth(place?)?)).unwrap_or('?')
    }
}

/// The label of a letter.
fn label(letter: u8) -> Option<Label> {
    match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + LETTERS as u8 / 2),
        _ => None,
    }
}

/// The name of operand number `i`, as far as errors count.
fn nth(i: usize) -> &'static str {
    const NAMES: [&str; 10] = ["x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9"];
    NAMES.get(i).copied().unwrap_or("a later tensor")
}
