//! What all optimisers share: the walk over a model, its gradients and its state, the checks on the way,
//! and where the new numbers are written. It must not know a formula.

use super::groups::{Factors, Groups};
use super::late::{Late, Numbers};
use super::state::{State, expect_parameter};
use crate::autodiff::{Path, leaves, parameters};
use crate::exec::launch_in_place;
use crate::exec::update::Update;
use crate::exec::{Call, Kernel};
use crate::gradients::{clip_factor, clip_grad_value, global_norm};
use crate::{DType, Error, Result, Tensor, Tree};
use extensor_kernels::update::RealUpdate;
use smallvec::SmallVec;

/// What every optimiser can be told.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Common {
    pub lr: f64,
    pub weight_decay: f64,
    pub groups: Groups,
    pub clip_norm: Option<f64>,
    pub clip_value: Option<f64>,
}

impl Common {
    pub fn new(lr: f64) -> Common {
        let groups = Groups::new();
        Common { lr, weight_decay: 0.0, groups, clip_norm: None, clip_value: None }
    }
}

/// An optimiser, as the engine sees it.
pub(super) trait Method: Clone + Send + Sync + 'static {
    /// Its name in errors.
    const NAME: &'static str;
    /// What every optimiser can be told.
    fn common(&self) -> &Common;
    /// The names of what it remembers for each parameter.
    fn slots(&self) -> &'static [&'static str];
    /// What that is before the first step.
    fn start(&self) -> f64 {
        0.0
    }
    /// An error if a setting of its own is outside what is allowed.
    fn check(&self) -> Result<()>;
    /// Makes a step for one parameter.
    fn step(&self, now: Now, leaf: Leaf<'_, '_>) -> Result<()>;
}

/// The numbers of a step for a parameter.
#[derive(Clone, Copy)]
pub(super) struct Now {
    pub lr: f64,
    pub weight_decay: f64,
    /// The number of the step, from 1 on.
    pub step: u64,
}

/// A parameter in a step.
pub(super) struct Leaf<'a, 'b> {
    /// A factor on the gradient.
    pub scale: f64,
    pub of: Of<'a, 'b>,
}

/// Where a parameter, its gradient and its slots are.
pub(super) enum Of<'a, 'b> {
    Tensors {
        parameter: &'a mut Tensor,
        gradient: &'a Tensor,
        slots: &'a mut [Tensor],
    },
    /// In the arguments of a kernel.
    Call(Call<'a, 'b>),
}

/// An error unless a number is finite and at least 0.
pub(super) fn at_least_0(op: &'static str, parameter: &'static str, value: f64) -> Result<()> {
    expect(op, parameter, value, "a finite number of at least 0", value.is_finite() && value >= 0.0)
}

/// An error unless a number is at least 0 and below 1.
pub(super) fn share(op: &'static str, parameter: &'static str, value: f64) -> Result<()> {
    expect(op, parameter, value, "at least 0 and below 1", (0.0..1.0).contains(&value))
}

pub(super) fn expect(
    op: &'static str,
    parameter: &'static str,
    value: f64,
    expected: &str,
    holds: bool,
) -> Result<()> {
    if holds {
        return Ok(());
    }
    let (expected, got) = (expected.into(), format!("{value:?}"));
    Err(Error::Parameter { op, parameter, expected, got })
}

/// An error unless a number can be a learning rate.
pub(super) fn expect_rate(op: &'static str, lr: f64) -> Result<()> {
    at_least_0(op, "the learning rate", lr)
}

fn check<M: Method>(method: &M, lr: f64) -> Result<()> {
    expect_rate(M::NAME, lr)?;
    at_least_0(M::NAME, "the weight decay", method.common().weight_decay)?;
    method.check()
}

pub(super) fn init<T: Tree, M: Method>(method: &M, model: &T) -> Result<State<T>> {
    check(method, method.common().lr)?;
    method.common().groups.factors(M::NAME, model)?;
    State::new(M::NAME, method.slots(), method.start(), model)
}

/// A step with a learning rate that is a number. `whole`: all gradients, where `grads` are slices of them.
pub(super) fn advance<T: Tree, M: Method>(
    method: &M,
    lr: f64,
    model: &mut T,
    grads: &T,
    state: &mut State<T>,
    whole: Option<&T>,
) -> Result<()> {
    check(method, lr)?;
    let recorded = state.is_recorded() || leaves(grads).iter().any(|x| x.is_recorded());
    if recorded {
        return advance_late(method, &crate::tensor(lr), model, grads, state, whole);
    }
    let common = method.common();
    expect_state(method, model, state)?;
    let within = Within::of(common, grads, whole)?;
    let grads = within.grads.as_ref().unwrap_or(grads);
    fits(M::NAME, model, grads)?;
    let scale = match common.clip_norm {
        None => 1.0,
        Some(limit) => {
            let whole = within.whole.as_ref().or(whole).unwrap_or(grads);
            let (scale, norm) = clip_scale(M::NAME, whole, limit)?;
            state.grad_norm = Some(norm);
            scale
        }
    };
    state.step = state.step.saturating_add(1);
    let step = state.step;
    each(method, model, grads, state, |factor, parameter, gradient, slots| {
        let weight_decay = common.weight_decay * factor.weight_decay;
        let now = Now { lr: lr * factor.lr, weight_decay, step };
        method.step(now, Leaf { scale, of: Of::Tensors { parameter, gradient, slots } })
    })
}

/// A step with a learning rate that is a tensor of one number. Whatever is a number on the host otherwise
/// is one of a tensor here, so that it can be recorded.
pub(super) fn advance_at<T: Tree, M: Method>(
    method: &M,
    lr: &Tensor,
    model: &mut T,
    grads: &T,
    state: &mut State<T>,
) -> Result<()> {
    let recorded =
        lr.is_recorded() || state.is_recorded() || leaves(grads).iter().any(|x| x.is_recorded());
    if !recorded {
        return advance(method, super::rate(M::NAME, lr)?, model, grads, state, None);
    }
    check(method, method.common().lr)?;
    advance_late(method, lr, model, grads, state, None)
}

/// Gradients with every element held within a limit, if there is one.
struct Within<T> {
    grads: Option<T>,
    /// All of them, where the norm of all is wanted and `grads` are slices.
    whole: Option<T>,
}

impl<T: Tree> Within<T> {
    fn of(common: &Common, grads: &T, whole: Option<&T>) -> Result<Within<T>> {
        let clipped = |tree: &T| common.clip_value.map(|limit| clip_grad_value(tree, limit));
        let whole = whole.filter(|_| common.clip_norm.is_some());
        Ok(Within {
            grads: clipped(grads).transpose()?,
            whole: whole.and_then(clipped).transpose()?,
        })
    }
}

fn advance_late<T: Tree, M: Method>(
    method: &M,
    lr: &Tensor,
    model: &mut T,
    grads: &T,
    state: &mut State<T>,
    whole: Option<&T>,
) -> Result<()> {
    let common = method.common();
    expect_state(method, model, state)?;
    let within = Within::of(common, grads, whole)?;
    let grads = within.grads.as_ref().unwrap_or(grads);
    fits(M::NAME, model, grads)?;
    let mut scale = crate::tensor(1.0);
    if let Some(limit) = common.clip_norm {
        expect(M::NAME, "the largest norm", limit, "at least 0", limit >= 0.0)?;
        let norm = global_norm(within.whole.as_ref().or(whole).unwrap_or(grads))?;
        scale = clip_factor(&norm, limit)?;
        state.note_norm(&norm)?;
    }
    let numbers = Numbers { lr, step: &state.next_step()?, scale: &scale }.tensor(M::NAME)?;
    each(method, model, grads, state, |factor, parameter, gradient, slots| {
        let weight_decay = common.weight_decay * factor.weight_decay;
        let kernel = Late { method: method.clone(), lr: factor.lr, weight_decay };
        in_place(&kernel, parameter, &[gradient, &numbers], slots)
    })
}

/// An error unless the state is of this optimiser and of this model.
fn expect_state<T: Tree, M: Method>(method: &M, model: &T, state: &State<T>) -> Result<()> {
    state.expect(M::NAME, method.slots(), parameters(model).len())
}

/// Calls `f` with each parameter, the factors that it is given, its gradient and its slots.
fn each<T: Tree, M: Method>(
    method: &M,
    model: &mut T,
    grads: &T,
    state: &mut State<T>,
    mut f: impl FnMut(Factors, &mut Tensor, &Tensor, &mut [Tensor]) -> Result<()>,
) -> Result<()> {
    let factors = method.common().groups.factors(M::NAME, model)?;
    let grads = leaves(grads);
    let mut grads = grads.into_iter();
    let mut index = 0;
    model.visit_mut(&Path::ROOT, &mut |path, parameter| {
        let Some(gradient) = grads.next() else {
            return Ok(());
        };
        if path.is_buffer() {
            return Ok(());
        }
        let factor = factors.as_ref().map_or(Factors::NONE, |all| all[index]);
        let slots = state.of_parameter(M::NAME, index, path, parameter)?;
        index += 1;
        f(factor, parameter, gradient, slots)
    })
}

/// An error unless there is a gradient of the right kind for every parameter.
fn fits<T: Tree>(op: &'static str, model: &T, grads: &T) -> Result<()> {
    let found = leaves(grads);
    let wanted = leaves(model).len();
    if found.len() != wanted {
        let [expected, got] = [wanted, found.len()].map(|n| format!("{n} leaves of gradients"));
        return Err(Error::Inputs { op, expected, got });
    }
    let mut found = found.into_iter();
    model.visit(&Path::ROOT, &mut |path, x| {
        let (Some(grad), false) = (found.next(), path.is_buffer()) else {
            return Ok(());
        };
        expect_parameter(op, path, x)?;
        if grad.is_traced() {
            return expect_parameter(op, path, grad);
        }
        let reduced = [DType::F16, DType::BF16].contains(&x.dtype());
        let dtype_fits = grad.dtype() == x.dtype() || reduced && grad.dtype() == DType::F32;
        if dtype_fits && grad.shape() == x.shape() {
            return Ok(());
        }
        let leaf = format!("the gradient of {path}");
        let [expected, got] = [x, grad].map(|x| format!("{} {}", x.dtype(), x.shape()));
        Err(Error::Leaf { op, leaf, expected, got })
    })
}

/// The factor that brings the norm of all gradients down to `limit`, and the norm.
fn clip_scale<T: Tree>(op: &'static str, grads: &T, limit: f64) -> Result<(f64, f64)> {
    expect(op, "the largest norm", limit, "at least 0", limit >= 0.0)?;
    let found = global_norm(grads)?;
    let norm = found.plain(op)?.to_f64_vec()[0];
    if !norm.is_finite() || norm <= limit {
        return Ok((1.0, norm));
    }
    // In the precision of the norm, as `clip_grad_norm` has it.
    let scale = match found.dtype() {
        DType::F64 => limit / norm,
        _ => f64::from(limit as f32 / norm as f32),
    };
    Ok((scale, norm))
}

impl Leaf<'_, '_> {
    /// Replaces the parameter and its slots by what the rule makes of them.
    pub fn update<const S: usize>(self, rule: &(dyn RealUpdate<S> + 'static)) -> Result<()> {
        let kernel = Update::<_, S> { rule, scale: self.scale };
        match self.of {
            Of::Tensors { parameter, gradient, slots } => {
                in_place(&kernel, parameter, &[gradient], slots)
            }
            Of::Call(call) => kernel.run(call),
        }
    }
}

fn in_place(
    kernel: &dyn Kernel,
    parameter: &mut Tensor,
    inputs: &[&Tensor],
    slots: &mut [Tensor],
) -> Result<()> {
    let mut targets: SmallVec<[&mut Tensor; 4]> = SmallVec::new();
    targets.push(parameter);
    targets.extend(slots);
    launch_in_place("update", kernel, inputs, &mut targets)
}

/// A moving average `average` of `x`, in place where nobody else sees it.
pub(super) fn average(average: &mut Tensor, x: &Tensor, blend: f64) -> Result<()> {
    use extensor_kernels::update::{Average, Rules};
    let of = Of::Tensors { parameter: average, gradient: x, slots: &mut [] };
    Leaf { scale: 1.0, of }.update(&Rules(Average { blend }))
}

/// The same with a share that is a tensor of one number.
pub(super) fn average_at(average: &mut Tensor, x: &Tensor, blend: &Tensor) -> Result<()> {
    in_place(&super::late::Average, average, &[x, blend], &mut [])
}

/// The methods that every optimiser has, and the trait.
macro_rules! optimizer {
    ($name:ident) => {
        impl $name {
            /// With factors on the learning rate and the weight decay of some parameters.
            pub fn groups(mut self, groups: $crate::optim::Groups) -> Self {
                self.common.groups = groups;
                self
            }

            /// With all gradients scaled down together where their norm is above `max_norm`, as
            /// [`clip_grad_norm`](crate::gradients::clip_grad_norm) does, in the same pass over memory.
            /// The norm that was found is in the state then.
            pub fn clip_norm(mut self, max_norm: f64) -> Self {
                self.common.clip_norm = Some(max_norm);
                self
            }

            /// With every element of the gradients held within ±`max_value`, as
            /// [`clip_grad_value`](crate::gradients::clip_grad_value) does (before
            /// [`clip_norm`](Self::clip_norm), if that is asked for too).
            pub fn clip_value(mut self, max_value: f64) -> Self {
                self.common.clip_value = Some(max_value);
                self
            }
        }

        impl<T: $crate::Tree> $crate::optim::Optimizer<T> for $name {
            fn learning_rate(&self) -> f64 {
                self.common.lr
            }
            fn init(&self, model: &T) -> $crate::Result<$crate::optim::State<T>> {
                $crate::optim::engine::init(self, model)
            }
            fn advance(
                &self,
                lr: f64,
                model: &mut T,
                grads: &T,
                state: &mut $crate::optim::State<T>,
            ) -> $crate::Result<()> {
                $crate::optim::engine::advance(self, lr, model, grads, state, None)
            }
            fn advance_slice(
                &self,
                lr: f64,
                model: &mut T,
                grads: &T,
                state: &mut $crate::optim::State<T>,
                whole: &T,
            ) -> $crate::Result<()> {
                $crate::optim::engine::advance(self, lr, model, grads, state, Some(whole))
            }
            fn advance_at(
                &self,
                lr: &$crate::Tensor,
                model: &mut T,
                grads: &T,
                state: &mut $crate::optim::State<T>,
            ) -> $crate::Result<()> {
                $crate::optim::engine::advance_at(self, lr, model, grads, state)
            }
        }
    };
}
pub(super) use optimizer;
