//! What an optimiser remembers from step to step, as a tree. It must not know what a slot means.

use crate::autodiff::{Item, Path};
use crate::{DType, Error, Result, Tensor, Tree, ops};
use std::marker::PhantomData;
use std::sync::Arc;

/// What an optimiser remembers of a model of type `T`: how many steps it has made, and tensors for
/// each parameter.
///
/// It is a [`Tree`] and can be saved as one. A leaf's name is that of the slot in PyTorch and of the
/// parameter: `exp_avg.layers.0.weight`. The leaves of reduced precision parameters are in `f32`.
/// To load one, fill what [`init`](super::Optimizer::init) gives, and set `step`.
///
/// ```
/// use extensor::autodiff::named_leaves;
/// use extensor::optim::{Adam, Optimizer};
/// use extensor::tensor;
/// let model = vec![tensor([1.0, 2.0]), tensor(3.0)];
/// let state = Adam::new(1e-3).init(&model)?;
/// let names: Vec<String> = named_leaves(&state).into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["exp_avg.0", "exp_avg_sq.0", "exp_avg.1", "exp_avg_sq.1"]);
/// assert_eq!(state.step, 0);
/// # Ok::<(), extensor::Error>(())
/// ```
pub struct State<T> {
    /// How many steps have been made.
    pub step: u64,
    /// The norm of all gradients together before they were clipped, in the last step, if it was
    /// computed.
    pub grad_norm: Option<f64>,
    /// The slots' names.
    kinds: &'static [&'static str],
    /// The parameters' names; empty for a model that is one tensor.
    names: Arc<[String]>,
    /// For each parameter, a tensor for each slot.
    slots: Vec<Tensor>,
    /// In a program that is being recorded: what the two numbers above will be.
    recorded: Option<Recorded>,
    of: PhantomData<fn() -> T>,
}

/// The numbers of a state as values of a program.
#[derive(Clone)]
struct Recorded {
    /// How many steps have been made, as `i64`.
    step: Tensor,
    /// Whether there is a norm, 1 or 0, and the norm, as `f64`.
    norm: Tensor,
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        State {
            kinds: self.kinds,
            names: self.names.clone(),
            slots: self.slots.clone(),
            recorded: self.recorded.clone(),
            of: PhantomData,
            ..*self
        }
    }
}

impl<T: Tree> State<T> {
    /// The state before the first step: `start` everywhere.
    pub(super) fn new(
        op: &'static str,
        kinds: &'static [&'static str],
        start: f64,
        model: &T,
    ) -> Result<State<T>> {
        let (mut names, mut slots) = (Vec::new(), Vec::new());
        model.visit(&Path::ROOT, &mut |path, x| {
            if path.is_buffer() {
                return Ok(());
            }
            expect_parameter(op, path, x)?;
            names.push(if path.is_root() { String::new() } else { path.to_string() });
            for _ in kinds {
                let (shape, dtype) = (x.shape().clone(), wide(x.dtype()));
                slots.push(match start {
                    0.0 => Tensor::zeros(shape, dtype)?,
                    _ => Tensor::full(shape, start, dtype)?,
                });
            }
            Ok(())
        })?;
        let (names, of) = (names.into(), PhantomData);
        Ok(State { step: 0, grad_norm: None, kinds, names, slots, recorded: None, of })
    }

    /// Whether it is part of a program that is being recorded.
    pub(super) fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }

    /// One more step: the number of it.
    pub(super) fn next_step(&mut self) -> Result<Tensor> {
        self.step = self.step.saturating_add(1);
        let Some(recorded) = &mut self.recorded else {
            return Ok(crate::tensor(self.step as i64));
        };
        recorded.step = ops::add(&recorded.step, &crate::tensor(1i64))?;
        Ok(recorded.step.clone())
    }

    /// Keeps the norm of the gradients.
    pub(super) fn note_norm(&mut self, norm: &Tensor) -> Result<()> {
        let norm = ops::cast(norm, DType::F64)?;
        let norm = ops::stack(&[crate::tensor(1.0), norm], 0)?;
        match &mut self.recorded {
            Some(recorded) => recorded.norm = norm,
            // A state that is no argument of the recorded function: what it is after is a value of it.
            None => self.recorded = Some(Recorded { step: crate::tensor(self.step as i64), norm }),
        }
        Ok(())
    }

    /// The names of the slots, as PyTorch has them.
    pub fn slots(&self) -> &'static [&'static str] {
        self.kinds
    }

    /// The tensors of a slot, one for each parameter, in the order of the model's leaves.
    pub fn slot(&self, name: &str) -> Option<Vec<&Tensor>> {
        let at = self.kinds.iter().position(|kind| *kind == name)?;
        Some(self.slots.iter().skip(at).step_by(self.kinds.len()).collect())
    }

    /// The slots of parameter number `index`, which looks like `parameter`.
    pub(super) fn of_parameter(
        &mut self,
        op: &'static str,
        index: usize,
        path: &Path<'_>,
        parameter: &Tensor,
    ) -> Result<&mut [Tensor]> {
        let count = self.kinds.len();
        let (shape, dtype) = (parameter.shape(), wide(parameter.dtype()));
        let slots = self.slots.get_mut(index * count..(index + 1) * count).unwrap_or_default();
        let fits = slots.len() == count && index < self.names.len();
        let other = slots.iter().find(|x| x.shape() != shape || x.dtype() != dtype);
        if fits && other.is_none() {
            return Ok(slots);
        }
        let leaf = format!("the state of {path}");
        let expected = format!("{dtype} {shape}");
        let got = other.map_or("missing".into(), |x| format!("{} {}", x.dtype(), x.shape()));
        Err(Error::Leaf { op, leaf, expected, got })
    }

    /// An error unless the state is of an optimiser with these slots and for so many parameters.
    pub(super) fn expect(&self, op: &'static str, kinds: &[&str], parameters: usize) -> Result<()> {
        if self.kinds != kinds {
            let [expected, got] = [kinds, self.kinds].map(|kinds| match kinds {
                [] => "a state without slots".into(),
                _ => format!("a state with {}", kinds.join(", ")),
            });
            return Err(Error::Inputs { op, expected, got });
        }
        if self.names.len() != parameters {
            let [expected, got] =
                [parameters, self.names.len()].map(|n| format!("a state of {n} parameters"));
            return Err(Error::Inputs { op, expected, got });
        }
        Ok(())
    }
}

/// The dtype in which a parameter's slots are.
pub(super) fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// An error unless a leaf can be updated.
pub(super) fn expect_parameter(op: &'static str, path: &Path<'_>, x: &Tensor) -> Result<()> {
    let reason = match x {
        x if !x.dtype().is_float() => "it is not of a float dtype",
        x if x.is_traced() => "it is being differentiated, and an update cannot be",
        _ => return Ok(()),
    };
    Err(Error::NotDifferentiable { op, argument: path.to_string(), reason })
}

impl<T> Tree for State<T> {
    fn numbers(&self, f: &mut dyn FnMut(Tensor)) {
        match &self.recorded {
            Some(recorded) => {
                f(recorded.step.clone());
                f(recorded.norm.clone());
            }
            None => {
                f(crate::tensor(self.step as i64));
                f(crate::tensor([
                    f64::from(self.grad_norm.is_some()),
                    self.grad_norm.unwrap_or(0.0),
                ]));
            }
        }
    }

    fn set_numbers(&mut self, f: &mut dyn FnMut() -> Result<Tensor>) -> Result<()> {
        let (step, norm) = (f()?, f()?);
        if step.is_recorded() || norm.is_recorded() {
            self.recorded = Some(Recorded { step, norm });
            return Ok(());
        }
        self.recorded = None;
        self.step = step.item::<i64>()? as u64;
        let [has, norm] = [0, 1].map(|k| norm.get::<f64>(&[k]));
        self.grad_norm = if has? == 1.0 { Some(norm?) } else { None };
        Ok(())
    }

    fn visit<'a>(
        &'a self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &'a Tensor) -> Result<()>,
    ) -> Result<()> {
        for (k, slot) in self.slots.iter().enumerate() {
            let place = path.field(self.kinds[k % self.kinds.len()]);
            match self.names[k / self.kinds.len()].as_str() {
                "" => f(&place, slot)?,
                name => f(&place.field(name), slot)?,
            }
        }
        Ok(())
    }

    fn describe(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, Item<'_>)) {
        // Describing cannot fail.
        let _ = self.visit(path, &mut |path, x| {
            f(path, Item::Leaf(x));
            Ok(())
        });
    }

    fn map(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Tensor) -> Result<Tensor>,
    ) -> Result<Self> {
        let mut made = Vec::with_capacity(self.slots.len());
        self.visit(path, &mut |path, x| {
            made.push(f(path, x)?);
            Ok(())
        })?;
        Ok(State { slots: made, ..self.clone() })
    }

    fn visit_mut(
        &mut self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &mut Tensor) -> Result<()>,
    ) -> Result<()> {
        let (kinds, names) = (self.kinds, &self.names);
        for (k, slot) in self.slots.iter_mut().enumerate() {
            let place = path.field(kinds[k % kinds.len()]);
            match names[k / kinds.len()].as_str() {
                "" => f(&place, slot)?,
                name => f(&place.field(name), slot)?,
            }
        }
        Ok(())
    }
}
