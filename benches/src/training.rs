//! Gradients of whole functions, and training steps of whole networks.

use crate::work::{Workload, made, random};
use extensor::autodiff::{grad, value_and_grad_with_aux, vjp};
use extensor::compile::compile;
use extensor::nn::models::{Gpt, GptConfig, LeNet5, Mlp};
use extensor::nn::{
    Activation, BatchNorm2d, Conv2d, Flatten, GlobalAvgPool, Layer, Linear, MaxPool2d, Mode, Model,
    Sequential, class_loss,
};
use extensor::ops::ConvOptions;
use extensor::optim::{Adam, AdamW, Optimizer, State};
use extensor::precision::{self, LossScale, Policy};
use extensor::{DType, Key, Result, Tensor, Tree, tensor};
use std::hint::black_box;
use std::rc::Rc;

/// All of them.
pub fn all() -> Vec<Workload> {
    vec![chain(), chain_fb(), small(), small_all(), mlp(), lenet(), cnn(), gpt()]
}

/// `tanh(a·x + b)·sigmoid(x) − exp(−x²)`, `a` and `b` being one number each.
fn formula((x, a, b): &(Tensor, Tensor, Tensor)) -> Result<Tensor> {
    let wave = a.multiply(x)?.add(b)?.tanh()?.multiply(&x.sigmoid()?)?;
    wave.subtract(&x.multiply(x)?.negate()?.exp()?)
}

fn chain_data() -> (Tensor, Tensor, Tensor) {
    (random(31, &[1 << 24]), tensor(1.5f32), tensor(-0.25f32))
}

/// A chain of operations over 16 M elements: what fusing is worth.
fn chain() -> Workload {
    let given = chain_data();
    let (same, compiled) = (given.clone(), compile(formula));
    Workload::new("chain", move || drop(black_box(made(formula(&given)))))
        .compiled(move || drop(black_box(made(compiled.call(&same)))))
}

/// The same with its backward pass by `x`.
fn chain_fb() -> Workload {
    type Given = ((Tensor, Tensor, Tensor), Tensor);
    let both = |((x, a, b), g): &Given| {
        let (y, pull) = vjp(|x: &Tensor| formula(&(x.clone(), a.clone(), b.clone())), x)?;
        Ok((y, pull.call(g)?))
    };
    let given = (chain_data(), random(32, &[1 << 24]));
    let (same, compiled) = (given.clone(), compile(both));
    Workload::new("chain_fb", move || drop(black_box(made(both(&given)))))
        .compiled(move || drop(black_box(made(compiled.call(&same)))))
}

/// 100 × tanh(h·w + b) on 16 elements, and the gradient by `h`: what an operation costs when there
/// is no arithmetic.
fn small() -> Workload {
    let f = |(h, w, b): &(Tensor, Tensor, Tensor)| grad(|h| layers(h, w, b), h);
    gradients("small", f)
}

/// The same with the gradients by `w` and `b`, which are sums over the 100 uses of each.
fn small_all() -> Workload {
    let f = |(h, w, b): &(Tensor, Tensor, Tensor)| layers(h, w, b);
    gradients("small_all", move |args| grad(f, args))
}

/// A function of three tensors of 16 elements.
fn gradients<T: Tree + 'static>(
    name: &str,
    f: impl Fn(&(Tensor, Tensor, Tensor)) -> Result<T> + Copy + 'static,
) -> Workload {
    let args = (random(20, &[16]), random(21, &[16]), random(22, &[16]));
    let (same, compiled) = (args.clone(), compile(f));
    Workload::new(name, move || drop(black_box(made(f(&args)))))
        .compiled(move || drop(black_box(made(compiled.call(&same)))))
}

fn layers(h: &Tensor, w: &Tensor, b: &Tensor) -> Result<Tensor> {
    let mut y = h.clone();
    for _ in 0..100 {
        y = extensor::ops::tanh(&extensor::ops::add(&extensor::ops::multiply(&y, w)?, b)?)?;
    }
    extensor::ops::sum(&y, ..)
}

/// The loss of a model, and the model with new running statistics if it has some.
type Loss<'a, M> = &'a dyn Fn(&M) -> Result<(Tensor, Option<M>)>;

/// One training step of a network: loss, gradient, optimiser; new running statistics where it has some.
fn step<M: Model + 'static>(
    name: &str,
    model: M,
    data: (Tensor, Tensor),
    optimizer: impl Optimizer<M> + Clone + 'static,
) -> Workload {
    let (compiled, profile) = compiled_step(model.clone(), data.clone(), optimizer.clone());
    let eager = repeated(name, model, data, optimizer, |loss, model| {
        let (_, grads, next) = made(value_and_grad_with_aux(loss, model));
        (grads, next)
    });
    eager.compiled(compiled).profiled(profile)
}

/// The whole step as one compiled function, and what says which of its kernels take how long.
fn compiled_step<M: Model + 'static>(
    model: M,
    data: (Tensor, Tensor),
    optimizer: impl Optimizer<M> + 'static,
) -> (impl FnMut(), impl Fn(usize) -> String) {
    type Given<M> = ((M, State<M>), (Tensor, Tensor));
    let (state, mode) = (made(optimizer.init(&model)), Mode::Training(Key::new(1)));
    let mut kept = Some((model, state));
    let first = kept.clone();
    let step = Rc::new(compile(move |((model, state), (x, targets)): &Given<M>| {
        let loss = |model: &M| {
            let output = model.forward(x, &mode)?;
            Ok((class_loss(&output.logits, targets, 0.0)?, output.model))
        };
        let (loss, grads, next) = value_and_grad_with_aux(loss, model)?;
        let after =
            optimizer.update(next.unwrap_or_else(|| model.clone()), &grads, state.clone())?;
        Ok((after, loss))
    }));
    let (same, given) = (step.clone(), data.clone());
    let run = move || {
        let Some(now) = kept.take() else { unreachable!("put back by every step") };
        let (after, loss) = made(step.call_owned((now, data.clone())));
        drop(black_box(loss));
        kept = Some(after);
    };
    let profile = move |runs| {
        let Some(first) = first.clone() else { unreachable!("there is a first one") };
        made(same.profile(&(first, given.clone()), runs))
    };
    (run, profile)
}

/// The same with arithmetic in `bf16` and parameters in `f32`.
fn mixed_step<M: Model + 'static>(
    name: &str,
    model: M,
    data: (Tensor, Tensor),
    optimizer: impl Optimizer<M> + 'static,
) -> Workload {
    repeated(name, model, data, optimizer, |loss, model| {
        let found =
            precision::value_and_grad(loss, model, Policy::mixed(DType::BF16), LossScale::NONE);
        let found = made(found);
        let Some(grads) = found.grads else { unreachable!("random numbers do not overflow") };
        (grads, found.aux)
    })
}

/// Steps whose gradients, and what else is new, are found by `gradients`.
fn repeated<M: Model + 'static>(
    name: &str,
    model: M,
    (x, targets): (Tensor, Tensor),
    optimizer: impl Optimizer<M> + 'static,
    gradients: impl Fn(Loss<'_, M>, &M) -> (M, Option<M>) + 'static,
) -> Workload {
    let state = made(optimizer.init(&model));
    let (mut kept, mode) = (Some((model, state)), Mode::Training(Key::new(1)));
    let work = move || {
        let Some((model, state)) = kept.take() else { unreachable!("put back by every step") };
        let loss = |model: &M| {
            let output = model.forward(&x, &mode)?;
            Ok((class_loss(&output.logits, &targets, 0.0)?, output.model))
        };
        let (grads, next) = gradients(&loss, &model);
        kept = Some(made(optimizer.update(next.unwrap_or(model), &grads, state)));
    };
    Workload::new(name, work)
}

fn classes(count: usize, of: i64) -> Tensor {
    tensor((0..count as i64).map(|i| i % of).collect::<Vec<_>>().as_slice())
}

/// 784-512-512-10, ReLU, cross-entropy, batch 128, Adam.
fn mlp() -> Workload {
    let model = made(Mlp::new(Key::new(23), &[784, 512, 512, 10]));
    step("mlp", model, (random(24, &[128, 784]), classes(128, 10)), Adam::new(1e-3))
}

/// LeNet-5, batch 64, Adam.
fn lenet() -> Workload {
    let model = made(LeNet5::new(Key::new(25)));
    step("lenet", model, (random(26, &[64, 1, 28, 28]), classes(64, 10)), Adam::new(1e-3))
}

/// Four convolutions with batch normalisation, batch 32 of 3×32×32, Adam.
fn cnn() -> Workload {
    let (model, data) = cnn_parts();
    step("cnn", model, data, Adam::new(1e-3))
}

/// Its model and its batch.
pub fn cnn_parts() -> (Sequential, (Tensor, Tensor)) {
    let keys: [Key; 5] = Key::new(27).split();
    let mut layers = Vec::<Layer>::new();
    for (k, (inputs, outputs)) in [(3, 32), (32, 64), (64, 128), (128, 128)].into_iter().enumerate()
    {
        let options = ConvOptions::new().padding(1);
        layers.push(made(Conv2d::with(keys[k], inputs, outputs, 3, options)).without_bias().into());
        layers.push(made(BatchNorm2d::new(outputs)).into());
        layers.push(Activation::Relu.into());
        if k == 1 || k == 2 {
            layers.push(MaxPool2d::new(2).into());
        }
    }
    layers.extend([GlobalAvgPool.into(), Flatten.into()]);
    layers.push(made(Linear::new(keys[4], 128, 10)).into());
    (Sequential::new(layers), (random(28, &[32, 3, 32, 32]), classes(32, 10)))
}

/// Four blocks of width 128 with 4 heads, 64 characters, batch 12, AdamW.
fn gpt() -> Workload {
    let (model, data) = gpt_parts();
    step("gpt", model, data, AdamW::new(1e-3))
}

/// Its model and its batch.
pub fn gpt_parts() -> (Gpt, (Tensor, Tensor)) {
    let model = made(Gpt::new(Key::new(29), GptConfig::default()));
    let tokens = made(extensor::ops::reshape(&classes(12 * 64, 65), [12, 64]));
    (model, (tokens.clone(), tokens))
}

/// Six blocks of width 384 with 6 heads, 256 characters, batch 16, AdamW: in `f32`, and with
/// arithmetic in `bf16`.
pub fn large() -> Vec<Workload> {
    let sizes = GptConfig { context: 256, layers: 6, heads: 6, width: 384, ..GptConfig::default() };
    let model = || made(Gpt::new(Key::new(30), sizes));
    let tokens = made(extensor::ops::reshape(&classes(16 * 256, 65), [16, 256]));
    let data = (tokens.clone(), tokens);
    vec![
        step("large_gpt", model(), data.clone(), AdamW::new(1e-3)),
        mixed_step("large_gpt_bf16", model(), data, AdamW::new(1e-3)),
    ]
}
