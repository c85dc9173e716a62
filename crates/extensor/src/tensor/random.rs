//! Random tensors from explicit keys.

use super::create::from_f64;
use super::{DType, Error, Result, Shape, Tensor, match_float};
use crate::Tree;
use crate::autodiff::Path;
use crate::compile::Recording;
use crate::exec::launch_one;
use crate::exec::random::{Drawn, Random, derived};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs, apply_one};
use crate::ops::record::{Class, Input, Record};
use crate::{autodiff, ops};
use smallvec::smallvec;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Names a stream of random numbers.
///
/// There is no hidden state: the same key always gives the same numbers, on every machine, for any
/// number of threads, and rounded from the same values in every dtype. Never draw twice from one
/// key; make new ones with [`split`](Key::split) or [`fold_in`](Key::fold_in).
///
/// ```
/// use extensor::{DType, Key};
///
/// let [a, b] = Key::new(7).split();
/// let x = a.normal([2, 3], DType::F32)?;
/// let y = b.uniform([2, 3], -1.0, 1.0, DType::F32)?;
/// assert_eq!(x.to_vec::<f32>()?, a.normal([2, 3], DType::F32)?.to_vec::<f32>()?);
/// assert!(y.to_vec::<f32>()?.iter().all(|v| (-1.0..1.0).contains(v)));
/// # Ok::<(), extensor::Error>(())
/// ```
///
/// In the argument of a [compiled](crate::compile::compile) function a key is taken anew at each call.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The seed; in a program that is being recorded, the value that will be it; under `vmap`, the
    /// number of the examples' seeds.
    seed: u64,
    /// The number of that program; 0: there is none; [`MAPPED`]: the key is another for each example.
    recording: u64,
}

/// Stands for a program in a key that is another one for each example of a batch.
const MAPPED: u64 = u64::MAX;

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.recording {
            0 => f.debug_tuple("Key").field(&self.seed).finish(),
            MAPPED => f.write_str("Key(one for each example)"),
            _ => f.write_str("Key(recorded)"),
        }
    }
}

impl Key {
    /// The key for a seed.
    pub fn new(seed: u64) -> Key {
        Key { seed, recording: 0 }
    }

    /// The seed of this key: [`Key::new`] makes the same key from it.
    ///
    /// ```
    /// use extensor::Key;
    /// let [key, _] = Key::new(7).split();
    /// assert_eq!(Key::new(key.seed()), key);
    /// ```
    ///
    /// # Panics
    /// If the key is an argument of a function that is being compiled: it has no seed yet; or of one
    /// under [`vmap`](crate::autodiff::vmap): it has one for each example.
    #[track_caller]
    pub fn seed(self) -> u64 {
        match self.recording {
            0 => self.seed,
            MAPPED => panic!("{}", Error::Mapped { op: "Key::seed" }),
            _ => panic!("{}", Error::recorded("Key::seed")),
        }
    }

    /// Whether the key has no seed yet, since a function of it is being compiled.
    pub fn is_recorded(self) -> bool {
        !matches!(self.recording, 0 | MAPPED)
    }

    /// `N` keys for independent streams.
    pub fn split<const N: usize>(self) -> [Key; N] {
        std::array::from_fn(|i| self.fold_in(i as u64))
    }

    /// Key number `index` derived from this one, for the steps of a loop or the layers of a model.
    pub fn fold_in(self, index: u64) -> Key {
        let Some(key) = self.recorded() else {
            return Key { seed: derived(self.seed, index), ..self };
        };
        // A key that has outlived its recording stays what it is, and drawing from it is an error.
        if self.is_mapped() {
            let made =
                key.and_then(|key| apply_one(&Draw(Drawn::Key { index }, seed_spec()), &[&key]));
            return made.ok().and_then(|made| Key::of(&made)).unwrap_or(self);
        }
        let fold = Random { key: None, drawn: Drawn::Key { index } };
        let spec = Spec { shape: Shape::default(), dtype: DType::U64 };
        let made = key.and_then(|key| launch_one("fold_in", &fold, &[&key], spec));
        made.ok().and_then(|made| Key::of(&made)).unwrap_or(self)
    }

    /// The key's seed as a value of the program that is being recorded, if it is one.
    fn recorded(self) -> Option<Result<Tensor>> {
        if self.is_mapped() {
            let seeds = SEEDS.lock().unwrap_or_else(|e| e.into_inner());
            return Some(seeds.get(&self.seed).cloned().ok_or(Error::Mapped { op: "a key" }));
        }
        let spec = seed_spec;
        (self.recording != 0).then(|| {
            let recording = Recording::of_number(self.recording);
            let recording = recording.ok_or_else(|| Error::recorded("a key"))?;
            Ok(recording.tensor(self.seed as usize, spec()))
        })
    }

    /// Whether the key is another one for each example of a batch, as in an argument under
    /// [`vmap`](crate::autodiff::vmap).
    pub fn is_mapped(self) -> bool {
        self.recording == MAPPED
    }

    /// The seeds of a key that is another one for each example of a batch, as one of the examples.
    pub(crate) fn mapped_seed(self) -> Result<Option<Tensor>> {
        if self.is_mapped() { self.recorded().transpose() } else { Ok(None) }
    }

    /// The key whose seed is a value of a program that is being recorded, or an example of a batch.
    fn of(seed: &Tensor) -> Option<Key> {
        if let Some(traced) = seed.traced().filter(|traced| traced.is_batch()) {
            static NUMBERS: AtomicU64 = AtomicU64::new(1);
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            let mut seeds = SEEDS.lock().unwrap_or_else(|e| e.into_inner());
            seeds.insert(number, seed.clone());
            let mut levels = LEVELS.lock().unwrap_or_else(|e| e.into_inner());
            levels.entry(traced.level).or_default().push(number);
            return Some(Key { seed: number, recording: MAPPED });
        }
        let symbol = seed.symbol()?;
        Some(Key { seed: symbol.value as u64, recording: symbol.recording.number() })
    }

    /// Evenly distributed in `[low, high)`.
    pub fn uniform(
        self,
        shape: impl Into<Shape>,
        low: f64,
        high: f64,
        dtype: DType,
    ) -> Result<Tensor> {
        let op = "uniform";
        if !(low.is_finite() && high.is_finite() && low <= high && (high - low).is_finite()) {
            return Err(Error::Parameter {
                op,
                parameter: "low, high",
                expected: "finite numbers, the first not above the second".into(),
                got: format!("{low}, {high}"),
            });
        }
        let below = below(high, dtype).max(low);
        dtype.expect_float(op, "the result")?;
        self.draw(op, shape.into(), dtype, Drawn::Uniform { low, high, below })
    }

    /// Normally distributed with mean 0 and variance 1.
    pub fn normal(self, shape: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
        dtype.expect_float("normal", "the result")?;
        self.draw("normal", shape.into(), dtype, Drawn::Normal)
    }

    /// Whole numbers evenly distributed in `0..high`, as `i64`.
    pub fn integers(self, shape: impl Into<Shape>, high: u64) -> Result<Tensor> {
        let op = "integers";
        if high == 0 || high > i64::MAX as u64 {
            return Err(Error::Parameter {
                op,
                parameter: "high",
                expected: "a number from 1 to 2^63 - 1".into(),
                got: high.to_string(),
            });
        }
        self.draw(op, shape.into(), DType::I64, Drawn::Integers { high })
    }

    /// True everywhere, but for a share `p` of false at random.
    pub(crate) fn mask(self, op: &'static str, shape: Shape, p: f64) -> Result<Tensor> {
        self.draw(op, shape, DType::Bool, Drawn::Mask { p })
    }

    fn draw(self, op: &'static str, shape: Shape, dtype: DType, drawn: Drawn) -> Result<Tensor> {
        let spec = Spec { shape, dtype };
        match self.recorded() {
            Some(key) if self.is_mapped() => apply_one(&Draw(drawn, spec), &[&key?]),
            None => launch_one(op, &Random { key: Some(self.seed), drawn }, &[], spec),
            Some(key) => launch_one(op, &Random { key: None, drawn }, &[&key?], spec),
        }
    }
}

fn seed_spec() -> Spec {
    Spec { shape: Shape::default(), dtype: DType::U64 }
}

/// The seeds of keys that are other ones for each example, by number, while their `vmap` runs.
static SEEDS: Mutex<BTreeMap<u64, Tensor>> = Mutex::new(BTreeMap::new());
/// Which of them belong to which level of `vmap`.
static LEVELS: Mutex<BTreeMap<u64, Vec<u64>>> = Mutex::new(BTreeMap::new());

/// A call of `vmap`: the keys of its examples live as long as it runs.
pub(crate) struct Scope {
    level: u64,
    size: usize,
}

impl Scope {
    pub fn new(level: u64, size: usize) -> Scope {
        Scope { level, size }
    }

    /// Gives example `i` of a tree that is mapped `key.fold_in(i)` for each key that is not a tensor.
    pub fn split_keys<T: Tree>(&self, tree: &mut T) -> Result<()> {
        let mut numbers = Vec::new();
        tree.numbers(&mut |x| numbers.push(x));
        let mut numbers = numbers.into_iter();
        tree.set_numbers(&mut || {
            let number = numbers.next().ok_or(Error::Mapped { op: "a key" })?;
            // A key is the only number of this dtype.
            if number.dtype() != DType::U64 || number.ndim() != 0 {
                return Ok(number);
            }
            let key = of_seed(&number)?;
            let mut seeds = Vec::with_capacity(self.size);
            for i in 0..self.size {
                let folded = key.fold_in(i as u64);
                seeds.push(match folded.recorded() {
                    Some(seed) => seed?,
                    None => super::tensor(folded.seed),
                });
            }
            Ok(autodiff::example(self.level, ops::stack(&seeds, 0)?))
        })
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let mut levels = LEVELS.lock().unwrap_or_else(|e| e.into_inner());
        let mut seeds = SEEDS.lock().unwrap_or_else(|e| e.into_inner());
        for number in levels.remove(&self.level).unwrap_or_default() {
            seeds.remove(&number);
        }
    }
}

/// The key that has this seed: a number, a value of a program, or an example's.
pub(crate) fn of_seed(seed: &Tensor) -> Result<Key> {
    match Key::of(seed) {
        Some(key) => Ok(key),
        None => Ok(Key::new(seed.item()?)),
    }
}

/// Numbers drawn from a key whose seed is an example of a batch.
#[derive(Clone, Debug)]
struct Draw(Drawn, Spec);

static DRAW: Record = Record {
    name: "draw",
    formula: "y = numbers drawn from a key",
    derivative: "none: they do not depend on a number",
    inputs: &[Input::constant("key")],
    class: Class::Constant,
    order: 0,
    ..Record::BLANK
};

impl Operation for Draw {
    fn record(&self) -> &'static Record {
        &DRAW
    }
    fn infer(&self, _: &[&Tensor]) -> Result<Specs> {
        Ok(smallvec![self.1.clone()])
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        // A view of a value of a program is none that a key can name.
        let key = of_seed(&inputs[0].copied()?)?;
        if let Drawn::Key { index } = self.0 {
            let folded = key.fold_in(index);
            return Ok(smallvec![match folded.recorded() {
                Some(seed) => seed?,
                None => super::tensor(folded.seed),
            }]);
        }
        let Spec { shape, dtype } = self.1.clone();
        Ok(smallvec![key.draw(DRAW.name, shape, dtype, self.0)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        Ok(smallvec![None; call.inputs.len()])
    }
}

impl Tree for Key {
    fn visit<'a>(
        &'a self,
        _: &Path<'_>,
        _: &mut dyn FnMut(&Path<'_>, &'a Tensor) -> Result<()>,
    ) -> Result<()> {
        Ok(())
    }
    fn map(
        &self,
        _: &Path<'_>,
        _: &mut dyn FnMut(&Path<'_>, &Tensor) -> Result<Tensor>,
    ) -> Result<Self> {
        Ok(*self)
    }
    fn visit_mut(
        &mut self,
        _: &Path<'_>,
        _: &mut dyn FnMut(&Path<'_>, &mut Tensor) -> Result<()>,
    ) -> Result<()> {
        Ok(())
    }
    fn numbers(&self, f: &mut dyn FnMut(Tensor)) {
        f(match self.recorded() {
            None => super::tensor(self.seed),
            Some(Ok(key)) => key,
            // One that has outlived its recording stays without a seed.
            Some(Err(_)) => {
                Recording::new().argument(Spec { shape: Shape::default(), dtype: DType::U64 })
            }
        });
    }
    fn set_numbers(&mut self, f: &mut dyn FnMut() -> Result<Tensor>) -> Result<()> {
        *self = of_seed(&f()?)?;
        Ok(())
    }
}

/// The largest value of the dtype below `high`: rounding must not reach an open end.
fn below(high: f64, dtype: DType) -> f64 {
    #[allow(clippy::useless_conversion)] // f64 is one of the types
    let round = |x: f64| match_float!(dtype, T => f64::from(from_f64::<T>(x)), else x);
    let mut step = high.abs().max(f64::MIN_POSITIVE) * dtype.epsilon() / 4.0;
    while step > 0.0 && step.is_finite() {
        let candidate = round(high - step);
        if candidate < high {
            return candidate;
        }
        step *= 2.0;
    }
    high
}
