//! From settings to what the library takes: optimiser, schedule, precision, plan.

use super::config::Settings;
use super::network::Network;
use extensor::data::Loader;
use extensor::optim::{
    Adagrad, Adam, AdamW, Ema, Groups, Lion, Optimizer, Plateau, RmsProp, Schedule, Sgd,
};
use extensor::precision::Policy;
use extensor::train::{Plan, State, Statistics};
use extensor::{DType, Key, Result};

/// What a model is trained with if nothing else is said.
pub fn defaults(model: &str) -> Settings {
    let text = |text: &str| Some(text.to_string());
    let common = Settings {
        model: text(model),
        epochs: Some(3),
        batch: Some(64),
        lr: Some(2e-3),
        optimizer: text("adamw"),
        schedule: text("one-cycle"),
        weight_decay: Some(0.01),
        clip: Some(0.0),
        accumulate: Some(1),
        parts: Some(1),
        synchronised: Some(false),
        ema: Some(0.0),
        patience: Some(0),
        precision: text("f32"),
        augment: Some(false),
        seed: Some(0),
        checkpoint_every: Some(0),
        eval_every: Some(0),
        keep: Some(3),
        ..Settings::default()
    };
    match model {
        "gpt" => Settings {
            epochs: Some(3),
            batch: Some(16),
            lr: Some(2e-3),
            schedule: text("warmup-cosine"),
            weight_decay: Some(0.1),
            clip: Some(1.0),
            eval_every: Some(250),
            width: Some(128),
            depth: Some(4),
            context: Some(64),
            ..common
        },
        "mlp" => Settings { batch: Some(128), lr: Some(1e-3), ..common },
        "resnet" => Settings { batch: Some(128), lr: Some(4e-3), epochs: Some(3), ..common },
        _ => common,
    }
}

/// The precision of the settings.
pub fn policy(settings: &Settings) -> Policy {
    match settings.precision.as_deref() {
        Some("bf16") => Policy::mixed(DType::BF16),
        Some("f16") => Policy::mixed(DType::F16),
        _ => Policy::full(DType::F32),
    }
}

/// The plan of the settings.
pub fn plan(settings: &Settings, loader: &Loader) -> Plan {
    let accumulate = settings.accumulate.unwrap_or(1);
    let batches = settings.epochs.unwrap_or(1).saturating_mul(loader.batches_per_epoch());
    let all = (batches / accumulate).max(1);
    Plan {
        steps: settings.steps.unwrap_or(all),
        accumulate,
        parts: settings.parts.unwrap_or(1),
        evaluate_every: settings.eval_every.unwrap_or(0),
        checkpoint_every: settings.checkpoint_every.unwrap_or(0),
        patience: settings.patience.unwrap_or(0),
    }
}

/// Which running statistics a step leaves.
pub fn statistics(settings: &Settings) -> Statistics {
    match settings.synchronised {
        Some(true) => Statistics::Mean,
        _ => Statistics::LastPart,
    }
}

/// The optimiser of the settings. Biases and what normalisations learn do not decay.
pub fn optimizer(settings: &Settings) -> Box<dyn Optimizer<Network>> {
    let lr = settings.lr.unwrap_or(1e-3);
    let decay = settings.weight_decay.unwrap_or(0.0);
    macro_rules! boxed {
        ($made:expr) => {{
            let made = $made.weight_decay(decay).groups(Groups::no_decay());
            match settings.clip {
                Some(norm) if norm > 0.0 => Box::new(made.clip_norm(norm)),
                _ => Box::new(made),
            }
        }};
    }
    match settings.optimizer.as_deref() {
        Some("sgd") => boxed!(Sgd::new(lr).momentum(0.9).nesterov()),
        Some("adam") => boxed!(Adam::new(lr)),
        Some("rmsprop") => boxed!(RmsProp::new(lr)),
        Some("adagrad") => boxed!(Adagrad::new(lr)),
        Some("lion") => boxed!(Lion::new(lr)),
        _ => boxed!(AdamW::new(lr)),
    }
}

/// The schedule of the settings over so many steps.
pub fn schedule(settings: &Settings, steps: u64) -> Result<Schedule> {
    let lr = settings.lr.unwrap_or(1e-3);
    match settings.schedule.as_deref() {
        Some("step") => Schedule::step(lr, steps.div_ceil(3).max(1), 0.1),
        Some("cosine") => Schedule::cosine(lr, steps.max(1), 0.0),
        Some("warmup-cosine") => {
            let rise = (steps / 20).min(200);
            Schedule::cosine(lr, (steps - rise).max(1), lr / 20.0)?.warm_up(rise, 0.01)
        }
        Some("one-cycle") => Schedule::one_cycle(lr, steps.max(1)),
        // A plateau stands in the state, and is asked first.
        _ => Schedule::constant(lr),
    }
}

/// The state before the first step.
pub fn state(
    settings: &Settings,
    model: Network,
    optimizer: &dyn Optimizer<Network>,
    key: Key,
) -> Result<State<Network>> {
    let mut state = State::new(model, optimizer, key)?.scale(policy(settings).loss_scale());
    if let Some(decay) = settings.ema.filter(|decay| *decay > 0.0) {
        let average = Ema::new(&state.model, decay)?.warm_up();
        state = state.average(average);
    }
    if settings.schedule.as_deref() == Some("plateau") {
        let lr = settings.lr.unwrap_or(1e-3);
        state = state
            .plateau(Plateau::new(lr)?.rising().patience(2).factor(0.3)?.absolute_threshold(1e-4)?);
    }
    Ok(state)
}
