//! Moving averages of a model's parameters. This module must not know an optimiser.

use super::engine::{average, average_at, expect};
use super::state::{expect_parameter, wide};
use crate::autodiff::{Path, leaves};
use crate::{DType, Error, Result, Tensor, Tree, ops};

/// An exponential moving average of a model's parameters: `a ← d·a + (1 − d)·p` after every step.
///
/// It begins with the parameters themselves, or, [`debiased`](Ema::debiased), with 0. The average of
/// reduced precision parameters is kept in `f32`. Buffers are not averaged: those of the average are
/// the last model's. It is a [`Tree`] of which the leaves are the average's.
///
/// ```
/// use extensor::optim::Ema;
/// use extensor::tensor;
/// let mut ema = Ema::new(&tensor([0.0]), 0.75)?;
/// ema = ema.update(&tensor([4.0]))?;
/// ema = ema.update(&tensor([4.0]))?;
/// assert_eq!(ema.model()?.to_vec::<f64>()?, [1.0 + 0.25 * 3.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ema<T> {
    /// How many models have been averaged.
    pub step: u64,
    /// The product of the decays so far: the weight that is left of where it began.
    pub start_weight: f64,
    decay: f64,
    warm_up: bool,
    debiased: bool,
    average: T,
    /// Those of the parameters, in order.
    dtypes: Vec<DType>,
    /// In a program that is being recorded: what `step` (as `i64`) and `start_weight` will be.
    recorded: Option<(Tensor, Tensor)>,
}

impl<T: Tree> Ema<T> {
    /// An average that begins with the model's parameters, and keeps the share `decay` of itself at
    /// each step.
    pub fn new(model: &T, decay: f64) -> Result<Ema<T>> {
        expect("ema", "the decay", decay, "from 0 to 1", (0.0..=1.0).contains(&decay))?;
        let mut dtypes = Vec::new();
        let average = model.map(&Path::ROOT, &mut |path, x| {
            if path.is_buffer() {
                return Ok(x.clone());
            }
            expect_parameter("ema", path, x)?;
            dtypes.push(x.dtype());
            ops::cast(x, wide(x.dtype()))
        })?;
        let (warm_up, debiased) = (false, false);
        Ok(Ema {
            step: 0,
            start_weight: 1.0,
            decay,
            warm_up,
            debiased,
            average,
            dtypes,
            recorded: None,
        })
    }

    /// With a decay that begins small: in step t (from 0 on) it is `min(decay, (1 + t)/(10 + t))`.
    pub fn warm_up(self) -> Ema<T> {
        Ema { warm_up: true, ..self }
    }

    /// With an average that begins at 0 instead, and a [`model`](Ema::model) that is divided by the
    /// weight of what was averaged, `1 − d₁d₂…dₜ`: where it began has no influence on it.
    ///
    /// ```
    /// use extensor::optim::Ema;
    /// use extensor::tensor;
    /// let ema = Ema::new(&tensor([100.0]), 0.75)?.debiased()?;
    /// let ema = ema.update(&tensor([1.0]))?.update(&tensor([8.0]))?;
    /// assert_eq!(ema.model()?.to_vec::<f64>()?, [(0.75 * 1.0 + 8.0) / 1.75]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn debiased(self) -> Result<Ema<T>> {
        let average = self.average.map(&Path::ROOT, &mut |path, x| {
            if path.is_buffer() { Ok(x.clone()) } else { x.zeros_like() }
        })?;
        Ok(Ema { debiased: true, average, ..self })
    }

    /// The average after another model.
    pub fn update(mut self, model: &T) -> Result<Ema<T>> {
        let new = leaves(model);
        let count = leaves(&self.average).len();
        if new.len() != count {
            let [expected, got] = [count, new.len()].map(|n| format!("a model of {n} leaves"));
            return Err(Error::Inputs { op: "ema", expected, got });
        }
        let steps = self.step as f64;
        let decay =
            if self.warm_up { self.decay.min((1.0 + steps) / (10.0 + steps)) } else { self.decay };
        let recorded =
            self.recorded.as_ref().map(|(step, _)| self.recorded_decay(step)).transpose()?;
        let blend = recorded.as_ref().map(|decay| ops::subtract(&crate::tensor(1.0), decay));
        let blend = blend.transpose()?;
        let mut new = new.into_iter();
        let mut dtypes = self.dtypes.iter();
        self.average.visit_mut(&Path::ROOT, &mut |path, mean| {
            let Some(x) = new.next() else {
                return Ok(());
            };
            if path.is_buffer() {
                *mean = x.clone();
                return Ok(());
            }
            expect_parameter("ema", path, x)?;
            let dtype = dtypes.next().copied().unwrap_or(x.dtype());
            if x.shape() != mean.shape() || x.dtype() != dtype {
                let leaf = format!("the parameter {path}");
                let expected = format!("{dtype} {}", mean.shape());
                let got = format!("{} {}", x.dtype(), x.shape());
                return Err(Error::Leaf { op: "ema", leaf, expected, got });
            }
            match &blend {
                Some(blend) => average_at(mean, x, blend),
                None => average(mean, x, 1.0 - decay),
            }
        })?;
        if let (Some((step, weight)), Some(decay)) = (&mut self.recorded, &recorded) {
            *step = ops::add(step, &crate::tensor(1i64))?;
            *weight = ops::multiply(weight, decay)?;
        }
        self.step = self.step.saturating_add(1);
        self.start_weight *= decay;
        Ok(self)
    }

    /// The decay after so many steps, in the arithmetic of [`update`](Ema::update).
    fn recorded_decay(&self, step: &Tensor) -> Result<Tensor> {
        let decay = crate::tensor(self.decay);
        if !self.warm_up {
            return Ok(decay);
        }
        let steps = ops::cast(step, DType::F64)?;
        let [above, below] = [1.0, 10.0].map(|c| ops::add(&crate::tensor(c), &steps));
        ops::minimum(&decay, &ops::divide(&above?, &below?)?)
    }

    /// The averaged model, in the dtypes of the model. A [`debiased`](Ema::debiased) average of
    /// nothing is an error.
    pub fn model(&self) -> Result<T> {
        if let (Some(_), true) = (&self.recorded, self.debiased) {
            return Err(Error::recorded("ema"));
        }
        let weight = if self.debiased { 1.0 - self.start_weight } else { 1.0 };
        expect("ema", "the weight of what was averaged", weight, "more than 0", weight > 0.0)?;
        let mut dtypes = self.dtypes.iter();
        self.average.map(&Path::ROOT, &mut |path, x| {
            if path.is_buffer() {
                return Ok(x.clone());
            }
            let dtype = dtypes.next().copied().unwrap_or(x.dtype());
            let x = match weight {
                1.0 => x.clone(),
                _ => ops::divide(x, &Tensor::scalar_of(weight, x.dtype())?)?,
            };
            ops::cast(&x, dtype)
        })
    }
}

impl<T: Tree> Tree for Ema<T> {
    fn numbers(&self, f: &mut dyn FnMut(Tensor)) {
        match &self.recorded {
            Some((step, weight)) => [step, weight].into_iter().for_each(|x| f(x.clone())),
            None => {
                f(crate::tensor(self.step as i64));
                f(crate::tensor(self.start_weight));
            }
        }
        self.average.numbers(f);
    }

    fn set_numbers(&mut self, f: &mut dyn FnMut() -> Result<Tensor>) -> Result<()> {
        let (step, weight) = (f()?, f()?);
        self.recorded = None;
        if step.is_recorded() || weight.is_recorded() {
            self.recorded = Some((step, weight));
        } else {
            (self.step, self.start_weight) = (step.item::<i64>()? as u64, weight.item()?);
        }
        self.average.set_numbers(f)
    }

    fn visit<'a>(
        &'a self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &'a Tensor) -> Result<()>,
    ) -> Result<()> {
        self.average.visit(path, f)
    }

    fn map(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Tensor) -> Result<Tensor>,
    ) -> Result<Self> {
        let average = self.average.map(path, f)?;
        let (dtypes, recorded) = (self.dtypes.clone(), self.recorded.clone());
        Ok(Ema { average, dtypes, recorded, ..*self })
    }

    fn visit_mut(
        &mut self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &mut Tensor) -> Result<()>,
    ) -> Result<()> {
        self.average.visit_mut(path, f)
    }
}
