//! What a result in some dtype should be, and how far from that rounding may take it.
//!
//! The answer is that of `f64` on the same, rounded, arguments. What rounding does to it is not
//! guessed: the arguments are moved a little, each number by itself and at random, and what the
//! answer moves by is the size of the terms that it is made of. A result may be off by a few units
//! of its dtype of its own size and of theirs, and by nothing else: no tolerance here is a number
//! without a unit.

use crate::check::bits::bit_difference;
use crate::check::prepare::signed;
use crate::ops::operation::Operation;
use crate::ops::record::Class;
use crate::ops::samples::Sample;
use crate::tensor::unravel;
use crate::{DType, Key, Result, Tensor};

/// How many units of its own size, and of that of its terms, a result may be off by. What is
/// computed in `f32` or `f64` is rounded at each of a handful of steps.
const STEPS: f64 = 4.0;
/// The 16-bit types are computed in `f32`, and rounded where an operation ends.
const ENDS: f64 = 2.0;
/// Second derivatives are made of several operations, in every dtype.
const TWICE: f64 = 8.0;

/// Something that `f64` answers exactly enough.
pub(super) struct Question<'a> {
    /// The answer from arguments in `f64`.
    pub answer: &'a dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    /// Those arguments.
    pub arguments: Vec<Tensor>,
    /// Which of them rounding may act on: not those at a kink, where a little is much.
    pub moved: Vec<bool>,
    /// Whether each number of the answer is made of many of the arguments: then it may be off by the
    /// size of the others that were made of them.
    pub mixing: bool,
    /// How large terms are that cancel and are not seen from outside.
    pub least: f64,
    /// How many numbers are added up on the way to one of the answer: the rounding errors of a sum
    /// grow with the root of it, since they are not all of one sign.
    pub terms: f64,
    /// Whether it is asked at a singular point, where conventions are finite in every dtype.
    pub singular: bool,
    /// Whether it is made of terms that are rounded, and may overflow, by themselves.
    pub sum: bool,
    /// How often something is differentiated: 0, 1 or 2.
    pub order: u8,
    /// The dtype that it is asked in.
    pub dtype: DType,
    /// Where the random moves come from.
    pub key: Key,
}

/// An answer: the numbers, in one tensor after another.
type Numbers = Vec<Vec<f64>>;

impl Question<'_> {
    /// The largest error of these tensors in units of what is allowed, or what is wrong with them.
    pub fn judge(&self, got: &[Tensor]) -> Result<std::result::Result<f64, String>> {
        let exact = (self.answer)(&self.arguments)?;
        if got.len() != exact.len() {
            return Ok(Err(format!("{} tensors are not {}", got.len(), exact.len())));
        }
        for (y, want) in got.iter().zip(&exact) {
            if y.shape() != want.shape() {
                return Ok(Err(format!("shape {} is not {}", y.shape(), want.shape())));
            }
        }
        let numbers: Numbers = exact.iter().map(Tensor::to_f64_vec).collect();
        // Most results are right to a unit of their own size.
        let none = numbers.iter().map(|list| vec![0.0; list.len()]).collect();
        let plain = self.compare(got, &exact, &numbers, &none);
        if plain.is_ok() {
            return Ok(plain);
        }
        let sizes = self.sizes(&numbers)?;
        Ok(self.compare(got, &exact, &numbers, &sizes))
    }

    /// How large the terms are that each number of the answer is made of: what it moves by with one
    /// argument after another.
    fn sizes(&self, numbers: &Numbers) -> Result<Numbers> {
        const TRIALS: u64 = 2;
        const MOVE: f64 = 9.5367431640625e-7; // 2⁻²⁰
        let mut sizes: Numbers = numbers.iter().map(|list| vec![0.0; list.len()]).collect();
        for (k, x) in self.arguments.iter().enumerate() {
            if !self.moved[k] || !x.dtype().is_float() || x.is_empty() {
                continue;
            }
            let mut squares: Numbers = numbers.iter().map(|list| vec![0.0; list.len()]).collect();
            for trial in 0..TRIALS {
                // Not all by as much: what is added twice must not cancel.
                let speeds = signed(self.key.fold_in(trial).fold_in(k as u64), x.len())?;
                let values = x.to_f64_vec().into_iter().zip(speeds);
                let values = values.map(|(x, speed)| x * (1.0 + MOVE * speed)).collect();
                let mut moved = self.arguments.clone();
                moved[k] =
                    crate::ops::cast(&Tensor::from_vec(values, x.shape().clone())?, x.dtype())?;
                let there = (self.answer)(&moved)?;
                for ((squares, numbers), there) in squares.iter_mut().zip(numbers).zip(there) {
                    let pairs = there.to_f64_vec().into_iter().zip(numbers);
                    for (square, (there, here)) in squares.iter_mut().zip(pairs) {
                        let speed = (there - here) / MOVE;
                        if speed.is_finite() {
                            *square += speed * speed / TRIALS as f64;
                        }
                    }
                }
            }
            for (size, square) in sizes.iter_mut().flatten().zip(squares.iter().flatten()) {
                *size += square.sqrt();
            }
        }
        if self.mixing {
            for (sizes, numbers) in sizes.iter_mut().zip(numbers) {
                let all = sizes.iter().chain(numbers).map(|v| v.abs());
                let largest = all.filter(|v| v.is_finite()).fold(self.least, f64::max);
                sizes.fill(largest);
            }
        }
        Ok(sizes)
    }

    fn compare(
        &self,
        got: &[Tensor],
        exact: &[Tensor],
        numbers: &Numbers,
        sizes: &Numbers,
    ) -> std::result::Result<f64, String> {
        let mut worst = 0.0f64;
        let factor = self.factor();
        for (k, y) in got.iter().enumerate() {
            if !y.dtype().is_float() {
                match bit_difference(y, &exact[k]) {
                    Some(difference) => return Err(difference),
                    None => continue,
                }
            }
            for (at, found) in y.to_f64_vec().into_iter().enumerate() {
                let (want, bound) = self.bound(y.dtype(), numbers[k][at], sizes[k][at], factor);
                // What terms that are too large for the dtype add up to is not finite.
                let beyond = |v: f64| v.abs() > y.dtype().max_finite();
                if self.sum && !found.is_finite() && beyond(numbers[k][at].abs() + sizes[k][at]) {
                    continue;
                }
                // At a singular point nothing is larger than the limit, on the way either: what terms
                // that are held there add up to is not the sum of those that f64 need not hold.
                if self.sum && self.singular && beyond(numbers[k][at]) {
                    continue;
                }
                let limit = y.dtype().max_finite();
                let capped = self.singular && found.abs() == limit && want.abs() > limit / 64.0;
                // A slope that is too large for the dtype is so for a gradient of ½ too.
                let over = found.is_infinite() && want.abs() > limit / 2.0;
                if (capped || over) && found * want > 0.0 {
                    continue;
                }
                match ratio(y.dtype(), found, want, bound) {
                    Some(ratio) => worst = worst.max(ratio),
                    None => {
                        let index = unravel(at, y.shape());
                        let number =
                            if got.len() > 1 { format!("number {k}, ") } else { "".into() };
                        let error = (found - want).abs();
                        return Err(format!(
                            "{number}at {index:?}: {found:?} is not {want:?}, which f64 gives on \
                             the same inputs (error {error:.3e}, allowed {bound:.3e})"
                        ));
                    }
                }
            }
        }
        Ok(worst)
    }

    /// The largest of the arguments, if that is more than 1.
    fn factor(&self) -> f64 {
        let values = self.arguments.iter().flat_map(Tensor::to_f64_vec).map(f64::abs);
        values.filter(|v| v.is_finite()).fold(1.0, f64::max)
    }

    /// What a number should be, and how far from it it may be.
    fn bound(&self, dtype: DType, exact: f64, size: f64, factor: f64) -> (f64, f64) {
        let limit = dtype.max_finite();
        let want =
            if self.singular && exact.is_finite() { exact.clamp(-limit, limit) } else { exact };
        let unit = dtype.epsilon().max(self.dtype.epsilon());
        let root = self.terms.sqrt();
        let (steps, terms) = match self.dtype {
            _ if self.order > 1 => (TWICE, root),
            // They are added up in f32.
            DType::F16 | DType::BF16 => (ENDS, 1.0),
            _ => (STEPS, root),
        };
        // What is too small to be held on the way is lost, and may have been multiplied then.
        let lost = smallest(dtype).max(smallest(self.dtype)) * (1.0 + self.terms) * factor;
        (want, unit * steps * (want.abs() + terms * size) + lost)
    }
}

/// The size of second derivatives that is natural: of gradients that change as much as they are when
/// the inputs do. Far out nothing may be left of them, and that of numbers of about 1 counts.
pub(super) fn natural(far: bool, [gradients, tangents, inputs, weights]: [&[Tensor]; 4]) -> f64 {
    let largest = |list: &[Tensor]| {
        let values = list.iter().flat_map(Tensor::to_f64_vec).map(f64::abs);
        values.filter(|v| v.is_finite()).fold(0.0, f64::max)
    };
    let size = largest(gradients) * largest(tangents) / largest(inputs);
    let least = if far { largest(weights) * largest(tangents) } else { 0.0 };
    if size.is_finite() { size.max(least) } else { least }
}

/// Whether an operation makes its results of many numbers each.
pub(super) fn mixing(op: &dyn Operation) -> bool {
    op.record().class != Class::Elementwise
}

/// Whether the numbers of a sample may be moved in proportion to them: a kink that is there all the
/// same is one at 0, and stays as it is.
pub(super) fn may_move(kinks: fn(&Sample) -> bool, sample: &Sample) -> Result<bool> {
    if !kinks(sample) {
        return Ok(true);
    }
    let mut moved = sample.clone();
    for (k, x) in moved.inputs.iter_mut().enumerate().filter(|(_, x)| x.dtype().is_float()) {
        let speeds = signed(Key::new(k as u64), x.len())?;
        let values = x.to_f64_vec().into_iter().zip(speeds);
        let values = values.map(|(x, speed)| x * (1.0 + 1e-6 * speed)).collect();
        *x = Tensor::from_vec(values, x.shape().clone())?;
    }
    Ok(kinks(&moved))
}

/// The error in units of the bound, if it is within it. What is too large for the dtype is infinite.
fn ratio(dtype: DType, found: f64, want: f64, bound: f64) -> Option<f64> {
    let limit = dtype.max_finite();
    if found == want || (found.is_nan() && want.is_nan()) {
        return Some(0.0);
    }
    if found.is_infinite() {
        let beyond = want.abs() + bound >= limit && found.signum() == want.signum();
        return beyond.then_some(0.0);
    }
    let error = (found - want).abs();
    (error <= bound && want.is_finite()).then(|| error / bound)
}

/// The smallest positive number of a float dtype.
pub(super) fn smallest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-24),
        DType::BF16 => 2f64.powi(-133),
        DType::F32 => 2f64.powi(-149),
        _ => f64::from_bits(1),
    }
}
