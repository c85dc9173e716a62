//! All numbers of a 16-bit type.

use super::in_dtype;
use super::subject::Subject;
use crate::check::nested::Mode;
use crate::check::suite::Log;
use crate::check::units::{floor, ulp, ulps};
use crate::{DType, Result, Tensor, ops};

/// Compares an operation in a 16-bit dtype with itself in `f64`, at every number.
pub(super) fn check(
    log: &mut Log,
    subject: &Subject,
    dtype: DType,
) -> std::result::Result<(), String> {
    let words = |e: crate::Error| e.to_string();
    let numbers = numbers(dtype).map_err(words)?;
    let truth = Truth::of(subject, &numbers).map_err(words)?;
    let all = |x: Result<Tensor>| x.map(|x| x.to_f64_vec()).map_err(words);
    let value = all(subject.call(&numbers))?;
    compare(log, subject, dtype, "value", &value, &truth, 0);
    if !subject.record.is_differentiable() {
        return Ok(());
    }
    for mode in [Mode::Reverse, Mode::Forward] {
        let slope = all(subject.derivative(&numbers, 1, mode))?;
        compare(log, subject, dtype, mode.name(), &slope, &truth, 1);
    }
    if subject.record.order >= 2 {
        let second = all(subject.derivative(&numbers, 2, Mode::Reverse))?;
        compare(log, subject, dtype, "second", &second, &truth, 2);
    }
    Ok(())
}

/// All 65,536 of them.
fn numbers(dtype: DType) -> Result<Tensor> {
    let of = |bits: u16| match dtype {
        DType::F16 => half::f16::from_bits(bits).to_f64(),
        _ => half::bf16::from_bits(bits).to_f64(),
    };
    let values: Vec<f64> = (0..=u16::MAX).map(of).collect();
    ops::cast(&Tensor::from_vec(values, [1 << 16])?, dtype)
}

/// What `f64` says at every number.
struct Truth {
    at: Vec<f64>,
    /// The derivatives of order 0 to 3, the first by the backward rule from the rounded output.
    wants: [Vec<f64>; 4],
    /// Whether the derivatives of order 0, 1 and 2 are the same just beside the number.
    steady: Vec<Vec<bool>>,
}

impl Truth {
    fn of(subject: &Subject, numbers: &Tensor) -> Result<Truth> {
        let x = Subject::widened(numbers)?;
        let at = x.to_f64_vec();
        let derivative = |x: &Tensor, k: usize| -> Result<Vec<f64>> {
            if k > 0 && !subject.record.is_differentiable() {
                return Ok(vec![0.0; x.len()]);
            }
            Ok(subject.derivative(x, k, Mode::Reverse)?.to_f64_vec())
        };
        let mut wants = [vec![], vec![], vec![], vec![]];
        for (k, wants) in wants.iter_mut().enumerate() {
            *wants = derivative(&x, k)?;
        }
        let beside = |towards: fn(f64) -> f64| {
            Tensor::from_vec(at.iter().map(|v| towards(*v)).collect::<Vec<_>>(), [at.len()])
        };
        let (up, down) = (beside(f64::next_up)?, beside(f64::next_down)?);
        let mut steady = Vec::new();
        for (k, want) in wants.iter().enumerate().take(3) {
            let sides = derivative(&up, k)?.into_iter().zip(derivative(&down, k)?);
            let near = |a: f64, b: f64| a == b || (a - b).abs() < 1e-3 * a.abs().max(b.abs());
            steady.push(
                want.iter().zip(sides).map(|(w, (u, d))| near(*w, u) && near(*w, d)).collect(),
            );
        }
        if subject.record.needs.output(0, 1) && subject.record.is_differentiable() {
            let output = Subject::widened(&subject.call(numbers)?)?;
            wants[1] = subject.slope(&x, &output)?.to_f64_vec();
        }
        Ok(Truth { at, wants, steady })
    }

    /// The size of the terms that a derivative may be the difference of: what it changes by when `x`
    /// changes by all of itself, or the output does where the rule reads it.
    fn terms(&self, i: usize, order: usize, of_output: bool) -> f64 {
        let (value, slope) = (self.wants[0][i], self.wants[1][i]);
        let next = self.wants[order + 1][i];
        let from_input = (self.at[i] * next).abs();
        let from_output = if of_output { (value * next / slope).abs() } else { 0.0 };
        let finite = |v: f64| if v.is_finite() { v } else { 0.0 };
        finite(from_input).max(finite(from_output))
    }
}

fn compare(
    log: &mut Log,
    subject: &Subject,
    dtype: DType,
    kind: &'static str,
    got: &[f64],
    truth: &Truth,
    order: usize,
) {
    for (i, (&got, &want)) in got.iter().zip(&truth.wants[order]).enumerate() {
        let (x, steady) = (truth.at[i], truth.steady[order][i]);
        // At a kink, or at infinity, there is no second derivative.
        if order == 2 && (!steady || !x.is_finite()) {
            continue;
        }
        let scale = truth.terms(i, order, subject.record.needs.output(0, 1)) / 16.0;
        let verdict = judge(got, want, order, scale, steady, dtype);
        log.measure(kind, || format!("{subject} at {x:?} in {dtype}"), verdict);
    }
}

/// The error in units of what is allowed, or what is wrong.
fn judge(
    got: f64,
    want: f64,
    order: usize,
    scale: f64,
    steady: bool,
    dtype: DType,
) -> std::result::Result<f64, String> {
    if want.is_nan() || got.is_nan() {
        let same = want.is_nan() && got.is_nan();
        return if same { Ok(0.0) } else { Err(format!("got {got:?}, want {want:?}")) };
    }
    let (most, want) = (dtype.max_finite(), in_dtype(want, dtype));
    let singular = order > 0 && !steady && want.abs() > most && want.is_finite();
    let want = if singular { most.copysign(want) } else { want };
    let half = 0.5 * ulp(want, dtype);
    let working = ulps(order) * ulp(want.abs().max(scale), DType::F32) + floor(order, DType::F32);
    let wrong =
        || Err(format!("got {got:e}, want {want:e}: {:.3} ulp", (got - want).abs() / (2.0 * half)));
    // What is not nearer to the largest finite number than to the next one there would be overflows.
    let edge = most + half;
    if got.is_infinite() {
        let over =
            want.abs() + working >= edge && got.is_sign_positive() == want.is_sign_positive();
        return if over { Ok(0.0) } else { wrong() };
    }
    if want.abs() - working >= edge {
        return wrong();
    }
    let ratio = (got - want).abs() / (half + working);
    if ratio <= 1.0 { Ok(ratio) } else { wrong() }
}
