//! A program in words: its kernels, what they read and write, and where.

use super::plan::{From, Program, Step, To};
use super::record::Operand;
use crate::DType;
use crate::exec::Kind;
use extensor_kernels::fused::fold::Fold;
use extensor_kernels::program::{Binary, Compare, Instruction, Program as Formula, Unary};
use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

/// Formulas of more characters are not written out.
const LONG: usize = 300;

impl Program {
    /// How large it is, in a line.
    pub fn head(&self) -> String {
        let made: usize = self.made.iter().map(|(spec, _)| spec.bytes()).sum();
        let [mut read, mut written] = [0; 2];
        for step in &self.steps {
            let (reads, writes) = step.traffic();
            (read, written) = (read + reads, written + writes);
        }
        format!(
            "{} kernels read {} and write {}; {} of memory for what is on the way, {} for results",
            self.steps.len(),
            bytes(read),
            bytes(written),
            bytes(self.arena),
            bytes(made),
        )
    }
}

impl Program {
    /// The kernels, those that took longest first.
    pub fn profile(&self, took: &[Duration]) -> String {
        let total: Duration = took.iter().sum();
        let mut order: Vec<usize> = (0..self.steps.len()).collect();
        order.sort_by_key(|&k| Reverse(took[k]));
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let mut text = format!("{}; {:.1} µs in all\n", self.head(), micros(total));
        for k in order {
            let (time, step) = (micros(took[k]), &self.steps[k]);
            let (reads, writes) = step.traffic();
            let moved = bytes(reads + writes);
            text += &format!("{time:10.1} µs {k:4}  {step}  [{moved}]\n");
        }
        text
    }
}

impl Step {
    /// How many bytes of arrays it reads and writes. What is broadcast is read once.
    fn traffic(&self) -> (usize, usize) {
        let read = |(operand, dtype): (&Operand, &DType)| {
            let axes = operand.layout.shape.iter().zip(&operand.layout.strides);
            let distinct: usize =
                axes.map(|(n, stride)| if *stride == 0 { 1 } else { *n }).product();
            distinct * dtype.size()
        };
        let reads = self.call.inputs.iter().zip(&self.dtypes).map(read).sum();
        (reads, self.specs.iter().map(|spec| spec.bytes()).sum())
    }
}

/// A number of bytes as people read it.
fn bytes(count: usize) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.head())?;
        self.steps.iter().enumerate().try_for_each(|(k, step)| {
            let (reads, writes) = step.traffic();
            writeln!(f, "{k:4}  {step}  [reads {}, writes {}]", bytes(reads), bytes(writes))
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.inputs.len() - self.call.replaced;
        let inputs = self.call.inputs.iter().zip(&self.inputs).zip(&self.dtypes).take(kept);
        let mut listed = Vec::new();
        for ((operand, from), dtype) in inputs {
            let whose = match from {
                From::Argument(k) => format!("argument {k}"),
                From::Constant(k) => format!("constant {k}"),
                From::Made(k) => format!("result {k}"),
                From::Arena(k) => format!("@{}", self.reads[*k].start),
                From::InPlace => "in place".into(),
            };
            listed.push(format!("{whose} {dtype}{}", operand.layout.shape));
        }
        let mut written = Vec::new();
        for (to, spec) in self.outputs.iter().zip(&self.specs) {
            let whose = match to {
                To::Made(k) => format!("result {k}"),
                To::Arena(k) => format!("@{}", self.writes[*k].start),
            };
            written.push(format!("{whose} {}{}", spec.dtype, spec.shape));
        }
        let (inputs, outputs) = (listed.join(", "), written.join(", "));
        write!(f, "{} ({inputs}) → ({outputs}): {}", self.call.op, what(&self.call.kernel.kind()))
    }
}

/// What a kernel is, with its parameters.
pub(super) fn what(kind: &Kind<'_>) -> String {
    match kind {
        Kind::Map(mapping) => formula(&mapping.program()),
        Kind::Fused(fused) => {
            let all = texts(&fused.bundle.instructions, &fused.bundle.results);
            let Some((folds, _)) = &fused.folds else { return all.join("; ") };
            let folded = |(text, fold): (&String, &Fold)| match fold {
                Fold::Each => text.clone(),
                Fold::Sum { divisor } if *divisor == 1.0 => format!("Σ {text}"),
                Fold::Sum { divisor } => format!("Σ {text} / {divisor}"),
                Fold::Largest => format!("max {text}"),
                Fold::Smallest => format!("min {text}"),
            };
            all.iter().zip(folds).map(folded).collect::<Vec<_>>().join("; ")
        }
        Kind::MapSum(block, divisor) => format!("Σ {} / {divisor}", formula(&block.program())),
        Kind::Reduce(fold, over) => {
            let axes: Vec<usize> = (0..over.len()).filter(|&axis| over[axis]).collect();
            format!("{fold:?} over axes {axes:?}")
        }
        Kind::ExtremeGradient(x) => format!("{x:?}"),
        Kind::Scan(x) => format!("{x:?}"),
        Kind::Update => "an optimiser's step".into(),
        Kind::Product(x) => format!("{x:?}"),
        Kind::Linalg(x) => format!("{x:?}"),
        Kind::Convolution(x) => format!("{x:?}"),
        Kind::Pool(x) => format!("{x:?}"),
        Kind::Unfold(x) => format!("{x:?}"),
        Kind::Resample(x) => format!("{x:?}"),
        Kind::Rows(x) => format!("{x:?}"),
        Kind::Normalize(x) => format!("{x:?}"),
        Kind::NormalizeGradient(x) => format!("{x:?}"),
        Kind::BatchNormalize(x) => format!("{x:?}"),
        Kind::BatchNormalizeGradient(x) => format!("{x:?}"),
        Kind::Distance(x) => format!("{x:?}"),
        Kind::Attention(x) => format!("{x:?}"),
        Kind::AttentionGradient(x) => format!("{x:?}"),
        Kind::ClassLosses(x) => format!("{x:?}"),
        Kind::ClassGradient(x) => format!("{x:?}"),
        Kind::Copy(x) => format!("{x:?}"),
        Kind::Cast => "a cast".into(),
        Kind::Index(x) => format!("{x:?}"),
        Kind::Sort(x) => format!("{x:?}"),
        Kind::Random(x) => format!("{x:?}"),
        Kind::Bits(x) => format!("{x:?}"),
        Kind::Choose(x) => format!("{x:?}"),
        Kind::Check(x) => format!("{x:?}"),
    }
}

/// A formula of the variables `a`, `b`, …, or how long it is.
fn formula(program: &Formula) -> String {
    texts(&program.instructions, &[program.result]).remove(0)
}

/// Formulas of the variables `a`, `b`, …, or how long they are.
fn texts(instructions: &[Instruction], results: &[usize]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::with_capacity(instructions.len());
    for instruction in instructions {
        let t = |k: usize| texts[k].as_str();
        let text = match *instruction {
            Instruction::Variable(k) => {
                char::from_u32('a' as u32 + k as u32 % 26).unwrap_or('x').to_string()
            }
            Instruction::Constant(value) => format!("{value}"),
            Instruction::Unary(Unary::Negate, a) => format!("-{}", t(a)),
            Instruction::Unary(f, a) => format!("{}({})", format!("{f:?}").to_lowercase(), t(a)),
            Instruction::Binary(f, a, b) => match f {
                Binary::Add => format!("({} + {})", t(a), t(b)),
                Binary::Subtract => format!("({} - {})", t(a), t(b)),
                Binary::Multiply | Binary::Times => format!("{}·{}", t(a), t(b)),
                Binary::Divide => format!("{}/{}", t(a), t(b)),
                _ => format!("{}({}, {})", format!("{f:?}").to_lowercase(), t(a), t(b)),
            },
            Instruction::Compare(Compare::Equal, a, b) => format!("({} = {})", t(a), t(b)),
            Instruction::Compare(Compare::Less, a, b) => format!("({} < {})", t(a), t(b)),
            Instruction::Compare(Compare::LessEqual, a, b) => format!("({} ≤ {})", t(a), t(b)),
            Instruction::And(a, b) => format!("({} and {})", t(a), t(b)),
            Instruction::Or(a, b) => format!("({} or {})", t(a), t(b)),
            Instruction::Not(a) => format!("not {}", t(a)),
            Instruction::Select(m, a, b) => format!("({} ? {} : {})", t(m), t(a), t(b)),
            Instruction::MulAdd(a, b, c) => format!("({}·{} + {})", t(a), t(b), t(c)),
            Instruction::Capped(a, m, limit) => format!("capped({}, {}, {limit})", t(a), t(m)),
            Instruction::PowerTimes(x, n, q, m) => {
                format!("{}·{}^({} - {m})", t(q), t(x), t(n))
            }
            Instruction::NthDerivative(f, a, n) => {
                format!("derivative {n} of {}({})", format!("{f:?}").to_lowercase(), t(a))
            }
            Instruction::Like(a, _) => t(a).to_string(),
            Instruction::Round(to, a) => format!("{}({})", format!("{to:?}").to_lowercase(), t(a)),
        };
        texts.push(if text.len() > LONG { "…".into() } else { text });
    }
    let of = |result: &usize| match &texts[*result] {
        long if long.contains('…') => {
            format!("a formula of {} steps", steps(instructions, *result))
        }
        text => text.clone(),
    };
    results.iter().map(of).collect()
}

/// How many instructions a result is computed with, variables and constants not counted.
fn steps(instructions: &[Instruction], result: usize) -> usize {
    let mut needed = vec![false; instructions.len()];
    needed[result] = true;
    for k in (0..instructions.len()).rev().filter(|&k| k <= result) {
        if needed[k] {
            instructions[k].operands().for_each(|operand| needed[operand] = true);
        }
    }
    let leaf =
        |k: usize| matches!(instructions[k], Instruction::Variable(_) | Instruction::Constant(_));
    (0..instructions.len()).filter(|&k| needed[k] && !leaf(k)).count()
}
