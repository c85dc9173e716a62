//! All numbers of `f32`, in pieces.

use super::in_dtype;
use super::subject::Subject;
use super::{fail, records};
use crate::check::nested::Mode;
use crate::check::units::{floor, ulp};
use crate::ops::record::Record;
use crate::{DType, Error, Result, Tensor};
use extensor_kernels::par::{threads, with_threads};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many bit patterns there are.
const ALL: u64 = 1 << 32;
/// So many are tried between two looks at the clock.
const BLOCK: u64 = 1 << 22;
/// So many at once: what they take fits the caches.
const PIECE: u64 = 1 << 13;
/// The first line of a saved sweep.
const HEADER: &str = "extensor check --exhaustive --dtype f32, 1";

/// The largest error and where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// In units of the last place; infinite where one of the two is not a number or not finite.
    pub ulps: f64,
    /// The input.
    pub at: f32,
}

impl Worst {
    const NONE: Worst = Worst { ulps: 0.0, at: 0.0 };

    /// The larger of the two; of equal ones that with the smaller bits, whoever found it first.
    fn or(self, other: Worst) -> Worst {
        let larger = other.ulps > self.ulps
            || other.ulps == self.ulps && other.at.to_bits() < self.at.to_bits();
        if larger { other } else { self }
    }
}

/// The worst value and, if there is one, the worst derivative.
type Pair = (Worst, Option<Worst>);

/// What a sweep has found about an operation with one set of parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The operation's name.
    pub name: &'static str,
    /// Its name and parameters.
    pub title: String,
    /// How many of the 2³² inputs were tried (or skipped, in a quick sweep).
    pub tried: u64,
    /// The worst value.
    pub value: Worst,
    /// The worst first derivative, if there is one.
    pub slope: Option<Worst>,
    /// Stands for what the operation computes: another one means other results.
    fingerprint: u64,
}

impl Found {
    /// Whether all inputs were tried.
    pub fn is_complete(&self) -> bool {
        self.tried == ALL
    }
}

/// Tries all 2³² numbers of `f32`: the value and the first derivative of operations of one number
/// against the same operation in `f64`, in units of the last place.
///
/// The error of a value `y` is in units of the last place of `y`, that of a derivative `y′` in those of the
/// larger of `y′` and `x·y″/16`: near a zero of `y′` its terms are larger than itself. What underflow on the way may do
/// (see [`points`](crate::check::points)) is not counted.
///
/// ```
/// use extensor::check::exhaustive::Sweep;
///
/// let mut sweep = Sweep::new("sqrt")?;
/// sweep.step()?; // a few million of them
/// let saved = sweep.save();
/// let again = Sweep::resume("sqrt", &saved)?;
/// assert_eq!(again.tried(), sweep.tried());
/// assert!(again.found()[0].value.ulps <= 0.5);
/// # Ok::<(), extensor::Error>(())
/// ```
pub struct Sweep {
    subjects: Vec<Subject>,
    found: Vec<Found>,
    /// One piece in so many is tried.
    every: u64,
}

impl Sweep {
    /// A sweep over the operations of one number that a pattern names.
    pub fn new(filter: &str) -> Result<Sweep> {
        let of = |record: &'static Record| Subject::of(record, &|p| record.operation(p));
        let subjects: Vec<Subject> = records(filter)?.into_iter().flat_map(of).collect();
        let found = subjects.iter().map(|subject| {
            let slope = subject.record.is_differentiable().then_some(Worst::NONE);
            Ok(Found {
                name: subject.record.name,
                title: subject.to_string(),
                tried: 0,
                value: Worst::NONE,
                slope,
                fingerprint: fingerprint(subject)?,
            })
        });
        let found: Vec<Found> = found.collect::<Result<_>>()?;
        // A default is one of the values that are tried anyway.
        let again = |k: usize| {
            let same = |f: &Found| (f.name, f.fingerprint) == (found[k].name, found[k].fingerprint);
            found[..k].iter().any(same)
        };
        let once: Vec<bool> = (0..found.len()).map(|k| !again(k)).collect();
        let subjects = subjects.into_iter().zip(&once).filter(|(_, once)| **once).map(|(s, _)| s);
        let subjects = subjects.collect();
        let found = found.into_iter().zip(once).filter(|(_, once)| *once).map(|(f, _)| f);
        Ok(Sweep { subjects, found: found.collect(), every: 1 })
    }

    /// A quick sweep: of the pieces that the numbers are tried in, 8192 neighbours each, only one
    /// in `every`.
    pub fn sampled(filter: &str, every: u64) -> Result<Sweep> {
        if every == 0 {
            return Err(fail("one piece in 0 cannot be tried".into()));
        }
        Ok(Sweep { every, ..Sweep::new(filter)? })
    }

    /// Takes up what [`save`](Sweep::save) wrote: for the operations that the pattern names and that still
    /// compute what they did.
    pub fn resume(filter: &str, saved: &str) -> Result<Sweep> {
        let mut sweep = Sweep::new(filter)?;
        let mut lines = saved.lines();
        if lines.next() != Some(HEADER) {
            return Err(fail("the saved state is not one of this check".into()));
        }
        for line in lines {
            let (title, rest) = line.split_once('\t').ok_or_else(|| damaged(line))?;
            let words: Vec<u64> = rest
                .split(' ')
                .map(|w| u64::from_str_radix(w, 16).map_err(|_| damaged(line)))
                .collect::<Result<_>>()?;
            let &[fingerprint, tried, ref worst @ ..] = words.as_slice() else {
                return Err(damaged(line));
            };
            let worst = |k: usize| -> Result<Worst> {
                let (Some(ulps), Some(at)) = (worst.get(2 * k), worst.get(2 * k + 1)) else {
                    return Err(damaged(line));
                };
                let at = u32::try_from(*at).map_err(|_| damaged(line))?;
                Ok(Worst { ulps: f64::from_bits(*ulps), at: f32::from_bits(at) })
            };
            if tried > ALL || !tried.is_multiple_of(BLOCK) {
                return Err(damaged(line));
            }
            let same = |f: &&mut Found| f.title == title && f.fingerprint == fingerprint;
            if let Some(found) = sweep.found.iter_mut().find(same) {
                (found.tried, found.value) = (tried, worst(0)?);
                found.slope = found.slope.map(|_| worst(1)).transpose()?;
            }
        }
        Ok(sweep)
    }

    /// All that was found, as text.
    pub fn save(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for found in &self.found {
            let Found { title, tried, value, slope, fingerprint, .. } = found;
            let _ = write!(text, "{title}\t{fingerprint:x} {tried:x}");
            for Worst { ulps, at } in [Some(value), slope.as_ref()].into_iter().flatten() {
                let _ = write!(text, " {:x} {:x}", ulps.to_bits(), at.to_bits());
            }
            text.push('\n');
        }
        text
    }

    /// How many inputs were tried, of all operations together.
    pub fn tried(&self) -> u64 {
        self.found.iter().map(|f| f.tried).sum()
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.found.len() as u64 * ALL
    }

    /// What was found, for each operation and set of parameters.
    pub fn found(&self) -> &[Found] {
        &self.found
    }

    /// The operation that is being tried; `None` when all are.
    pub fn current(&self) -> Option<&Found> {
        self.found.iter().find(|f| !f.is_complete())
    }

    /// The errors at one input, of the value and of the derivative (0 if there is none): the largest of
    /// all operations and parameters.
    pub fn at(&self, x: f32) -> Result<(f64, f64)> {
        let (mut value, mut slope) = (0.0f64, 0.0f64);
        for (subject, found) in self.subjects.iter().zip(&self.found) {
            let mut worst = (Worst::NONE, found.slope.map(|_| Worst::NONE));
            try_numbers(subject, &[x], &mut worst)?;
            value = value.max(worst.0.ulps);
            slope = slope.max(worst.1.map_or(0.0, |s| s.ulps));
        }
        Ok((value, slope))
    }

    /// Tries the next few million inputs, on all threads; whether any are left.
    pub fn step(&mut self) -> Result<bool> {
        let Some(k) = self.found.iter().position(|f| !f.is_complete()) else {
            return Ok(false);
        };
        let (subject, found) = (&self.subjects[k], &mut self.found[k]);
        let (start, every) = (found.tried, self.every);
        let next = AtomicUsize::new(0);
        let known = (found.value, found.slope);
        let work = || -> Result<Pair> {
            let mut worst = known;
            loop {
                let piece = next.fetch_add(1, Ordering::Relaxed) as u64;
                if piece * PIECE >= BLOCK {
                    return Ok(worst);
                }
                let first = start + piece * PIECE;
                if (first / PIECE).is_multiple_of(every) {
                    let numbers: Vec<f32> =
                        (0..PIECE).map(|k| f32::from_bits((first + k) as u32)).collect();
                    with_threads(1, || try_numbers(subject, &numbers, &mut worst))?;
                }
            }
        };
        let results: Vec<Result<_>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads()).map(|_| scope.spawn(work)).collect();
            workers.into_iter().map(|w| w.join().unwrap_or_else(|_| Err(panicked()))).collect()
        });
        for result in results {
            let (value, slope) = result?;
            found.value = found.value.or(value);
            found.slope = found.slope.and_then(|a| slope.map(|b| a.or(b)));
        }
        found.tried += BLOCK;
        Ok(self.current().is_some())
    }
}

fn damaged(line: &str) -> Error {
    fail(format!("the saved state is damaged at {line:?}"))
}

fn panicked() -> Error {
    fail("an operation panicked".into())
}

/// The operation's value and first derivative at numbers from all over the range, as one number.
fn fingerprint(subject: &Subject) -> Result<u64> {
    let numbers: Vec<f32> =
        (0..=u16::MAX).map(|k| f32::from_bits(u32::from(k) << 16 | 0x55aa)).collect();
    let x = Tensor::from_vec(numbers, [1 << 16])?;
    let y = subject.call(&x)?;
    let mut all = vec![y.to_vec::<f32>()?];
    if subject.record.is_differentiable() {
        all.push(subject.slope(&x, &y)?.to_vec()?);
    }
    // FNV-1a, word by word.
    let words = all
        .into_iter()
        .flatten()
        .map(|v| if v.is_nan() { u64::MAX } else { u64::from(v.to_bits()) });
    Ok(words.fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word).wrapping_mul(0x0100_0000_01b3)))
}

/// Tries the numbers, and remembers the worst.
fn try_numbers(subject: &Subject, numbers: &[f32], worst: &mut Pair) -> Result<()> {
    let x = Tensor::from_slice(numbers, [numbers.len()])?;
    let wide = Subject::widened(&x)?;
    let y = subject.call(&x)?;
    let compared = Compared::new(numbers, &y, &subject.call(&wide)?)?;
    worst.0 = compared.worst(worst.0, 0, |_| 0.0);
    let Some(slope) = &mut worst.1 else { return Ok(()) };
    // A rule that reads the output is given the same one.
    let want = subject.slope(&wide, &Subject::widened(&y)?)?;
    let compared = Compared::new(numbers, &subject.slope(&x, &y)?, &want)?;
    if compared.worst(*slope, 1, |_| 0.0) == *slope {
        return Ok(()); // Measured by a larger unit the errors would be smaller still.
    }
    let second = subject.derivative(&wide, 2, Mode::Reverse)?.to_f64_vec();
    *slope = compared.worst(*slope, 1, |k| {
        let scale = (f64::from(numbers[k]) * second[k]).abs() / 16.0;
        if scale.is_finite() { scale } else { 0.0 }
    });
    Ok(())
}

/// Results in `f32` beside those in `f64`.
struct Compared<'a> {
    numbers: &'a [f32],
    got: Tensor,
    want: Tensor,
}

impl<'a> Compared<'a> {
    fn new(numbers: &'a [f32], got: &Tensor, want: &Tensor) -> Result<Compared<'a>> {
        Ok(Compared { numbers, got: got.contiguous()?, want: want.contiguous()? })
    }

    /// The worst error of these and the one known; `scale` is what is as large as the result at least.
    fn worst(&self, known: Worst, order: usize, scale: impl Fn(usize) -> f64) -> Worst {
        let (Ok(got), Ok(want)) = (self.got.as_slice::<f32>(), self.want.as_slice::<f64>()) else {
            return Worst { ulps: f64::INFINITY, at: f32::NAN };
        };
        let mut worst = known;
        let floor = floor(order, DType::F32);
        for (k, (&got, &want)) in got.iter().zip(want).enumerate() {
            let got = f64::from(got);
            // Most are nearer than the worst so far.
            if (got - want).abs() < floor + worst.ulps * ulp(want, DType::F32) {
                continue;
            }
            let ulps = ulps_apart(got, want, order, scale(k));
            worst = worst.or(Worst { ulps, at: self.numbers[k] });
        }
        worst
    }
}

/// How far apart two results are, in units of the last place of `want` or of `scale`, whichever is
/// larger.
#[inline]
fn ulps_apart(got: f64, want: f64, order: usize, scale: f64) -> f64 {
    /// What the next number after the largest would be.
    const OVER: f64 = 340282366920938463463374607431768211456.0;
    if got == want {
        return 0.0;
    }
    if got.is_nan() || want.is_nan() {
        return if got.is_nan() && want.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let want = in_dtype(want, DType::F32);
    if want.abs() > OVER * (1.0 + 1e-5) && got.is_finite() {
        return f64::INFINITY; // Overflow is to be seen.
    }
    let (got, want) = (got.clamp(-OVER, OVER), want.clamp(-OVER, OVER));
    let distance = ((got - want).abs() - floor(order, DType::F32)).max(0.0);
    distance / ulp(want.abs().max(scale), DType::F32)
}
