//! Both modes of automatic differentiation, first and second derivatives, by all inputs together and
//! by each alone, in every dtype: what an operation's rules give is what `f64` gives.

use super::call::{Terms, backward, cast_floats, describe, forward, results, wanted};
use super::precision::{Question, may_move, mixing, natural, smallest};
use super::{Log, Verdict};
use crate::autodiff::{jvp, vjp};
use crate::check::bits::bit_differences;
use crate::check::prepare::random_like;
use crate::ops::operation::{Operation, apply, forward_derivative, input_name};
use crate::ops::record::Needs;
use crate::ops::samples::Sample;
use crate::{DType, Key, Result, Tensor, ops};

/// An operation as a function of the inputs that it can be differentiated by.
pub(super) struct Subject<'a> {
    pub op: &'a dyn Operation,
    pub inputs: &'a [Tensor],
    pub wanted: &'a [bool],
}

impl Subject<'_> {
    /// The inputs differentiated by.
    pub fn moving(&self) -> Vec<Tensor> {
        let all = self.inputs.iter().zip(self.wanted);
        all.filter(|(_, wanted)| **wanted).map(|(x, _)| x.clone()).collect()
    }

    /// The results, with these tensors in place of the inputs differentiated by.
    pub fn results(&self, moving: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut moving = moving.iter();
        let at = self.inputs.iter().zip(self.wanted);
        let at = at.map(|(x, &wanted)| if wanted { moving.next().unwrap_or(x) } else { x });
        let at: Vec<&Tensor> = at.collect();
        Ok(results(self.op, &apply(self.op, &at)?).to_vec())
    }

    /// The gradients of `Σ w·y` for some of the inputs alone.
    pub fn gradient(&self, x: &[Tensor], weights: &[Tensor], of: &[usize]) -> Result<Vec<Tensor>> {
        let f = |part: &Vec<Tensor>| self.results(&with(x, of, part));
        vjp(f, &chosen(x, of))?.1.call_once(&weights.to_vec())
    }

    /// The derivatives of all gradients along tangents of some of the inputs alone: forward over
    /// reverse.
    pub fn forward_over_reverse(
        &self,
        x: &[Tensor],
        [weights, tangents]: [&[Tensor]; 2],
        by: &[usize],
    ) -> Result<Vec<Tensor>> {
        let all: Vec<usize> = (0..x.len()).collect();
        let f = |part: &Vec<Tensor>| self.gradient(&with(x, by, part), weights, &all);
        Ok(jvp(f, &chosen(x, by), &chosen(tangents, by))?.1)
    }

    /// The gradients of `Σ w·ẏ` for the derivatives `ẏ` along tangents of some of the inputs alone:
    /// reverse over forward.
    pub fn reverse_over_forward(
        &self,
        x: &[Tensor],
        [weights, tangents]: [&[Tensor]; 2],
        by: &[usize],
    ) -> Result<Vec<Tensor>> {
        let f = |x: &Vec<Tensor>| self.along(x, tangents, by);
        vjp(f, &x.to_vec())?.1.call_once(&weights.to_vec())
    }

    /// The second derivatives along tangents, and then along others, of some of the inputs alone:
    /// forward over forward.
    pub fn forward_over_forward(
        &self,
        x: &[Tensor],
        [tangents, others]: [&[Tensor]; 2],
        by: &[usize],
    ) -> Result<Vec<Tensor>> {
        let f = |part: &Vec<Tensor>| self.along(&with(x, by, part), tangents, by);
        Ok(jvp(f, &chosen(x, by), &chosen(others, by))?.1)
    }

    /// The derivatives along tangents of some of the inputs alone.
    pub fn along(&self, x: &[Tensor], tangents: &[Tensor], by: &[usize]) -> Result<Vec<Tensor>> {
        let f = |part: &Vec<Tensor>| self.results(&with(x, by, part));
        Ok(jvp(f, &chosen(x, by), &chosen(tangents, by))?.1)
    }

    /// The gradients of `Σ v·g` for the gradients `g` for some of the inputs alone: reverse over
    /// reverse.
    pub fn reverse_over_reverse(
        &self,
        x: &[Tensor],
        [weights, factors]: [&[Tensor]; 2],
        of: &[usize],
    ) -> Result<Vec<Tensor>> {
        let f = |x: &Vec<Tensor>| self.gradient(x, weights, of);
        vjp(f, &x.to_vec())?.1.call_once(&chosen(factors, of))
    }
}

fn chosen(list: &[Tensor], which: &[usize]) -> Vec<Tensor> {
    which.iter().map(|&i| list[i].clone()).collect()
}

/// `x` with `part` at these indices.
fn with(x: &[Tensor], indices: &[usize], part: &[Tensor]) -> Vec<Tensor> {
    let mut x = x.to_vec();
    for (&i, value) in indices.iter().zip(part) {
        x[i] = value.clone();
    }
    x
}

/// A sample at which derivatives are taken, in one dtype.
struct Point<'a> {
    op: &'a dyn Operation,
    wanted: Vec<bool>,
    /// What is known there, in the dtype.
    known: Known,
    /// The same numbers in `f64`.
    wide: Known,
    terms: f64,
    /// The size of second derivatives that is natural.
    natural: f64,
    /// Whether the operation can be differentiated at the rounded inputs.
    smooth: bool,
    /// Whether they may be moved a little.
    moves: bool,
    /// Whether the rule reads an output of which hardly a bit is left in the dtype.
    coarse: bool,
    dtype: DType,
    key: Key,
}

/// What derivatives are made of.
pub(super) struct Known {
    pub inputs: Vec<Tensor>,
    pub outputs: Vec<Tensor>,
    /// The gradients of the results.
    pub weights: Vec<Tensor>,
    /// Tangents for the inputs differentiated by.
    pub tangents: Vec<Tensor>,
    /// Others, for second derivatives along two of them.
    pub others: Vec<Tensor>,
}

impl Known {
    /// All of it as one list.
    pub fn flat(&self) -> Vec<Tensor> {
        [&self.inputs[..], &self.outputs, &self.weights, &self.tangents, &self.others].concat()
    }

    /// From such a list, with as many of each as there are here.
    pub fn refilled(&self, flat: &[Tensor]) -> Known {
        let (inputs, rest) = flat.split_at(self.inputs.len());
        let (outputs, rest) = rest.split_at(self.outputs.len());
        let (weights, rest) = rest.split_at(self.weights.len());
        let (tangents, others) = rest.split_at(self.tangents.len());
        let [inputs, outputs, weights, tangents, others] =
            [inputs, outputs, weights, tangents, others].map(<[Tensor]>::to_vec);
        Known { inputs, outputs, weights, tangents, others }
    }
}

/// A derivative by some of the inputs differentiated by, numbered among them.
pub(super) type Derivative = fn(&dyn Operation, &[bool], &Known, &[usize]) -> Result<Vec<Tensor>>;

pub(super) const FORWARD: Derivative = |op, wanted, known, by| {
    let mut number = 0..;
    let along: Vec<Option<&Tensor>> = wanted
        .iter()
        .map(|&w| if w { number.next().filter(|k| by.contains(k)) } else { None })
        .map(|k| k.map(|k: usize| &known.tangents[k]))
        .collect();
    let [x, y] = [&known.inputs, &known.outputs].map(|list| list.iter().collect::<Vec<&Tensor>>());
    Ok(forward_derivative(op, &x, &y, &along)?.into_vec())
};

pub(super) const REVERSE: Derivative = |op, wanted, known, by| {
    let mut number = 0..;
    let only: Vec<bool> = wanted
        .iter()
        .map(|&w| w && number.next().is_some_and(|k: usize| by.contains(&k)))
        .collect();
    backward(op, &known.weights, &known.inputs, &known.outputs, &only)
};

pub(super) const FORWARD_OVER_REVERSE: Derivative = |op, wanted, known, by| {
    let subject = Subject { op, inputs: &known.inputs, wanted };
    subject.forward_over_reverse(&subject.moving(), [&known.weights, &known.tangents], by)
};

pub(super) const REVERSE_OVER_FORWARD: Derivative = |op, wanted, known, by| {
    let subject = Subject { op, inputs: &known.inputs, wanted };
    subject.reverse_over_forward(&subject.moving(), [&known.weights, &known.tangents], by)
};

pub(super) const FORWARD_OVER_FORWARD: Derivative = |op, wanted, known, by| {
    let subject = Subject { op, inputs: &known.inputs, wanted };
    subject.forward_over_forward(&subject.moving(), [&known.tangents, &known.others], by)
};

pub(super) const REVERSE_OVER_REVERSE: Derivative = |op, wanted, known, of| {
    let subject = Subject { op, inputs: &known.inputs, wanted };
    subject.reverse_over_reverse(&subject.moving(), [&known.weights, &known.tangents], of)
};

impl<'a> Point<'a> {
    fn new(op: &'a dyn Operation, sample: &Sample, dtype: DType, key: Key) -> Result<Point<'a>> {
        let inputs = cast_floats(&sample.inputs, dtype)?;
        let outputs = forward(op, &inputs)?;
        let wanted = wanted(op, &inputs, &outputs);
        let moving = Subject { op, inputs: &inputs, wanted: &wanted }.moving();
        let weights = random_like(key.fold_in(3), results(op, &outputs))?;
        let [tangents, others] = [4, 6].map(|n| random_like(key.fold_in(n), &moving));
        let (tangents, others) = (tangents?, others?);
        let wide = cast_floats(&inputs, DType::F64)?;
        let exact = forward(op, &wide)?;
        // What the f64 operation's outputs have for a dtype is not always f64.
        let like = |list: &[Tensor]| {
            let pairs = list.iter().zip(&exact);
            pairs.map(|(x, y)| ops::cast(x, y.dtype())).collect::<Result<Vec<Tensor>>>()
        };
        let terms = Terms::of(op, &wide, &exact, &wanted)?;
        let least = 16.0 * smallest(dtype);
        let faint = |y: &Tensor| y.to_f64_vec().iter().any(|v| *v != 0.0 && v.abs() < least);
        let reads = matches!(op.record().needs, Needs::Outputs | Needs::InputsAndOutputs);
        let gradients = backward(op, &weights, &inputs, &outputs, &wanted);
        let natural = match gradients {
            Ok(gradients) if !moving.is_empty() => {
                natural(sample.far, [&gradients, &tangents, &moving, &weights])
            }
            _ => 0.0,
        };
        let (kinks, rounded) = (op.record().kinks, Sample { inputs: wide, ..sample.clone() });
        Ok(Point {
            op,
            wanted,
            terms: terms.backward.iter().fold(terms.forward, |most, &t| most.max(t)),
            natural,
            smooth: !kinks(&rounded),
            moves: may_move(kinks, &rounded)?,
            coarse: reads && results(op, &exact).iter().any(faint),
            wide: Known {
                inputs: rounded.inputs,
                outputs: like(&outputs)?,
                weights: like(&weights)?,
                tangents: cast_floats(&tangents, DType::F64)?,
                others: cast_floats(&others, DType::F64)?,
            },
            known: Known { inputs, outputs, weights, tangents, others },
            dtype,
            key: key.fold_in(5),
        })
    }

    /// A derivative in the dtype.
    fn found(&self, derivative: Derivative, by: &[usize]) -> Result<Vec<Tensor>> {
        derivative(self.op, &self.wanted, &self.known, by)
    }

    /// How these tensors do beside a derivative in `f64`.
    fn judge(
        &self,
        (order, derivative): (u8, Derivative),
        by: &[usize],
        got: &[Tensor],
    ) -> Result<std::result::Result<f64, String>> {
        let answer =
            |flat: &[Tensor]| derivative(self.op, &self.wanted, &self.wide.refilled(flat), by);
        let free = self.wide.inputs.len() + self.wide.outputs.len();
        let arguments = self.wide.flat();
        let question = Question {
            answer: &answer,
            moved: (0..arguments.len()).map(|i| i >= free || self.moves).collect(),
            arguments,
            // Second derivatives are made of several operations, whose terms are not seen here.
            mixing: mixing(self.op) || order > 1,
            least: if order > 1 { self.natural } else { 0.0 },
            sum: mixing(self.op) || by.len() > 1 || self.terms > 1.0 || order > 1,
            order,
            terms: self.terms,
            singular: !self.smooth,
            dtype: self.dtype,
            key: self.key,
        };
        question.judge(got)
    }

    /// Reverse mode gives the bits of the operation's own rule.
    fn as_the_rule(&self, of: &[usize]) -> Result<Option<String>> {
        let subject = Subject { op: self.op, inputs: &self.known.inputs, wanted: &self.wanted };
        let found = subject.gradient(&subject.moving(), &self.known.weights, of)?;
        Ok(bit_differences(&found, &self.found(REVERSE, of)?))
    }

    /// Forward mode gives the bits of what follows from the operation's class and rule.
    fn as_the_derivative(&self, by: &[usize]) -> Result<Option<String>> {
        let subject = Subject { op: self.op, inputs: &self.known.inputs, wanted: &self.wanted };
        let moving = subject.moving();
        let found = subject.along(&moving, &self.known.tangents, by)?;
        Ok(bit_differences(&found, &self.found(FORWARD, by)?))
    }
}

pub(super) fn check(
    log: &mut Log,
    op: &dyn Operation,
    number: usize,
    sample: &Sample,
    dtype: DType,
    [seed, order]: [u64; 2],
) -> Verdict {
    let words = |e: crate::Error| format!("in {dtype}: {e}");
    let key = Key::new(seed).fold_in(number as u64);
    let point = Point::new(op, sample, dtype, key).map_err(words)?;
    let moving = (0..point.wanted.len()).filter(|&i| point.wanted[i]);
    let names: Vec<String> = moving.map(|i| input_name(op.record(), i)).collect();
    let all: Vec<usize> = (0..names.len()).collect();
    let mut lists = vec![(all.clone(), String::new())];
    // Much work is done in one way whatever the inputs, and in second derivatives as in the first.
    let main = !sample.large || dtype == DType::F32;
    if names.len() > 1 && main {
        lists.extend(all.iter().map(|&i| (vec![i], format!(" by {} alone", names[i]))));
    }
    if names.is_empty() {
        return Ok(());
    }
    let at = |what: &str| format!("{}, {dtype}{what}", describe(number, sample));
    for (by, what) in &lists {
        log.check("reverse mode", || at(what), same(point.as_the_rule(by)));
        log.check("forward mode", || at(what), same(point.as_the_derivative(by)));
    }
    let mut derivatives = vec![("forward mode", (1, FORWARD)), ("reverse mode", (1, REVERSE))];
    if order > 1 && op.record().order > 1 && main && !point.coarse {
        derivatives.push(("forward over reverse", (2, FORWARD_OVER_REVERSE)));
        derivatives.push(("reverse over reverse", (2, REVERSE_OVER_REVERSE)));
        derivatives.push(("reverse over forward", (2, REVERSE_OVER_FORWARD)));
        derivatives.push(("forward over forward", (2, FORWARD_OVER_FORWARD)));
    }
    for (mode, derivative) in derivatives {
        let mut parts = Vec::new();
        for (by, what) in &lists {
            let got = point.found(derivative.1, by).map_err(words)?;
            if dtype != DType::F64 {
                let verdict = point.judge(derivative, by, &got).map_err(words)?;
                log.measure("every dtype", || at(&format!(", {mode}{what}")), verdict);
            }
            parts.push(got);
        }
        // In f64 all of them together were compared with differences. Second derivatives along two
        // tangents are no sum of those along one.
        if dtype == DType::F64 && parts.len() > 1 && mode != "forward over forward" {
            let sum = match mode {
                "reverse mode" => Ok(parts.split_off(1).concat()),
                _ => added(&parts[1..]),
            };
            let verdict = sum.and_then(|sum| point.judge(derivative, &all, &sum));
            let at = || at(&format!(", {mode}"));
            log.measure("each input alone", at, verdict.map_err(words)?);
        }
    }
    Ok(())
}

/// The sums of lists of tensors, element by element.
fn added(lists: &[Vec<Tensor>]) -> Result<Vec<Tensor>> {
    let mut sum = lists[0].clone();
    for list in &lists[1..] {
        for (total, x) in sum.iter_mut().zip(list) {
            *total = ops::add(total, x)?;
        }
    }
    Ok(sum)
}

fn same(difference: Result<Option<String>>) -> Verdict {
    match difference {
        Ok(None) => Ok(()),
        Ok(Some(difference)) => Err(difference),
        Err(error) => Err(error.to_string()),
    }
}
