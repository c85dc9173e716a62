//! What layers and models do in training and in use, and what they say of bad input.

use super::values::{filled, inputs, tokens};
use extensor::autodiff::{leaves, value_and_grad_with_aux};
use extensor::nn::models::{Gpt, GptConfig, LeNet5, Mlp, ResNet};
use extensor::nn::*;
use extensor::ops::ConvOptions;
use extensor::{DType, Key, Tensor, tensor};

fn key() -> Key {
    Key::new(5)
}

fn numbers(x: &Tensor) -> Vec<f64> {
    extensor::ops::cast(x, DType::F64).unwrap().to_vec().unwrap()
}

#[test]
fn dropout_is_active_in_training_only_and_its_mask_follows_from_the_key() {
    let (layer, x) = (Dropout::new(0.25), Tensor::ones([40, 50], DType::F64).unwrap());
    let run = |mode: Mode| numbers(&layer.forward(&x, &mode).unwrap());
    assert_eq!(run(Mode::Inference), vec![1.0; 2000]);
    let first = run(Mode::Training(Key::new(1)));
    assert_eq!(first, run(Mode::Training(Key::new(1))));
    assert_ne!(first, run(Mode::Training(Key::new(2))));
    let dropped = first.iter().filter(|x| **x == 0.0).count();
    assert!((420..580).contains(&dropped), "{dropped} of 2000");
    assert!(first.iter().all(|x| *x == 0.0 || *x == 1.0 / 0.75));
}

#[test]
fn layers_of_one_model_drop_different_numbers() {
    let model = Sequential::new([Dropout::new(0.5).into(), Dropout::new(0.5).into()]);
    let x = Tensor::ones([4000], DType::F64).unwrap();
    let y = model.forward(&x, &Mode::Training(Key::new(3))).unwrap().logits;
    let left = numbers(&y).iter().filter(|y| **y != 0.0).count();
    assert!((850..1150).contains(&left), "{left} of 4000 are left by two layers");
}

#[test]
fn a_gpt_with_dropout_depends_on_the_key_in_training_alone() {
    let config = GptConfig { layers: 1, width: 8, heads: 2, dropout: 0.5, ..GptConfig::default() };
    let model = Gpt::new(key(), config).unwrap();
    let x = tokens(0, 65, &[2, 8]);
    let run = |mode: Mode| numbers(&model.forward(&x, &mode).unwrap().logits);
    let training = |seed| run(Mode::Training(Key::new(seed)));
    assert_eq!(training(1), training(1));
    assert_ne!(training(1), training(2));
    assert_eq!(run(Mode::Inference), run(Mode::Inference));
    assert_ne!(run(Mode::Inference), training(1));
}

#[test]
fn a_token_changes_no_logits_before_it() {
    let config =
        GptConfig { vocabulary: 9, context: 8, layers: 2, heads: 2, width: 8, dropout: 0.0 };
    let model = filled(Gpt::new(key(), config));
    let start = tokens(0, 9, &[1, 8]).to_vec::<i64>().unwrap();
    let logits = |tokens: &[i64]| {
        let x = Tensor::from_slice(tokens, [1, 8]).unwrap();
        numbers(&model.forward(&x, &Mode::Inference).unwrap().logits)
    };
    let before = logits(&start);
    for t in 0..8 {
        let mut changed = start.clone();
        changed[t] = (changed[t] + 1) % 9;
        let after = logits(&changed);
        assert_eq!(before[..9 * t], after[..9 * t], "token {t} is seen too early");
        assert_ne!(before[9 * t..9 * (t + 1)], after[9 * t..9 * (t + 1)]);
        assert_ne!(before[9 * 7..], after[9 * 7..], "token {t} is never seen again");
    }
}

#[test]
fn text_is_drawn_as_temperature_and_top_k_say() {
    let config =
        GptConfig { vocabulary: 6, context: 4, layers: 1, heads: 1, width: 4, dropout: 0.0 };
    let model = filled(Gpt::new(key(), config));
    let draw = |temperature, top_k, seed| {
        model.generate(&[1, 2, 3, 4, 5], 30, temperature, top_k, Key::new(seed)).unwrap()
    };
    assert_eq!(draw(0.0, None, 1), draw(0.0, None, 2));
    assert_eq!(draw(0.0, None, 1), draw(5.0, Some(1), 2));
    assert_ne!(draw(1.0, None, 1), draw(1.0, None, 2));
    let first = draw(0.0, None, 1)[0];
    let logits = model.forward(&tensor([[2i64, 3, 4, 5]]), &Mode::Inference).unwrap().logits;
    let last = numbers(&logits)[18..].to_vec();
    assert!(last.iter().all(|x| *x <= last[first as usize]));
    // Drawn often, tokens come as often as their probabilities say.
    let mut counts = [0.0; 6];
    for seed in 0..2000 {
        let token = model.generate(&[2, 3, 4, 5], 1, 0.5, Some(4), Key::new(seed)).unwrap()[0];
        counts[token as usize] += 1.0 / 2000.0;
    }
    let mut order: Vec<usize> = (0..6).collect();
    order.sort_by(|&a, &b| last[b].total_cmp(&last[a]));
    let weights: Vec<f64> = order[..4].iter().map(|&i| (last[i] / 0.5).exp()).collect();
    let total: f64 = weights.iter().sum();
    for (&i, weight) in order.iter().zip(&weights) {
        assert!((counts[i] - weight / total).abs() < 0.045, "token {i}: {counts:?}");
    }
    assert_eq!(counts[order[4]] + counts[order[5]], 0.0);
    for (prompt, temperature, top_k) in [
        (&[][..], 1.0, None),
        (&[1][..], f64::NAN, None),
        (&[1][..], 1.0, Some(0)),
        (&[6][..], 1.0, None),
    ] {
        assert!(model.generate(prompt, 3, temperature, top_k, Key::new(1)).is_err());
    }
}

#[test]
fn a_step_of_training_returns_new_statistics_and_the_same_parameters() {
    let model = ResNet::with_widths(key(), 1, 3, 1, [4, 4, 8]).unwrap();
    let x = key().normal([4, 1, 28, 28], DType::F32).unwrap();
    let labels = tensor([0i64, 1, 2, 0]);
    let (_, grads, next) = value_and_grad_with_aux(
        |model: &ResNet| {
            let output = model.forward(&x, &Mode::Training(key()))?;
            Ok((class_loss(&output.logits, &labels, 0.0)?, output.model))
        },
        &model,
    )
    .unwrap();
    let next = next.expect("the model has running statistics");
    let norms = |m: &ResNet| {
        let more = [&m.layer1, &m.layer2, &m.layer3].map(|stage| {
            let block = &stage[0];
            let brought = block.downsample.as_ref().map(|(_, norm)| norm.clone());
            vec![Some(block.bn1.clone()), Some(block.bn2.clone()), brought]
        });
        let more = more.into_iter().flatten().flatten();
        std::iter::once(m.bn1.clone()).chain(more).collect::<Vec<_>>()
    };
    for (old, new) in norms(&model).iter().zip(&norms(&next)) {
        assert_eq!(new.num_batches_tracked.item::<i64>().unwrap(), 1);
        assert_ne!(numbers(&new.running_var), numbers(&old.running_var));
        assert_eq!(new.running_mean.dtype(), DType::F32);
        assert!(new.weight.shares_memory_with(&old.weight));
    }
    assert_eq!(norms(&next).len(), 9);
    assert_eq!(leaves(&grads).len(), leaves(&model).len());
    assert_eq!(grads.bn1.num_batches_tracked.item::<i64>().unwrap(), 0);
    assert!(model.forward(&x, &Mode::Inference).unwrap().model.is_none());
}

#[test]
fn a_sequence_returns_itself_with_new_statistics() {
    let norm = || BatchNorm2d::new(2).unwrap();
    let inner = Sequential::new([norm().into()]);
    let model = Sequential::new([Flatten.into(), inner.into(), norm().into()]);
    let x = inputs(0, &[5, 2, 1]);
    let next = model.forward(&x, &Mode::Training(key())).unwrap().model.unwrap();
    let counts: Vec<i64> = leaves(&next)
        .into_iter()
        .filter(|x| x.dtype() == DType::I64)
        .map(|x| x.item().unwrap())
        .collect();
    assert_eq!(counts, [1, 1]);
}

#[test]
fn statistics_stay_in_their_dtype_whatever_is_computed_in() {
    let layer = BatchNorm2d::new(2).unwrap();
    for dtype in [DType::F16, DType::BF16, DType::F64] {
        let x = extensor::ops::cast(&inputs(0, &[5, 2]), dtype).unwrap();
        let layer = extensor::autodiff::map_parameters(&layer, |x| extensor::ops::cast(x, dtype));
        let (y, next) = layer.unwrap().forward(&x, &Mode::Training(key())).unwrap();
        assert_eq!((y.dtype(), next.running_var.dtype()), (dtype, DType::F32));
    }
}

#[test]
fn bad_shapes_are_errors_that_name_the_operation() {
    let x = inputs(0, &[2, 3]);
    let message = |error: extensor::Error| error.to_string();
    let images = inputs(0, &[2, 3, 4, 4]);
    let whole = tensor([[1i64, 2]]);
    let short = Gpt::new(key(), GptConfig { context: 4, ..GptConfig::default() }).unwrap();
    let found = [
        ("linear: ", message(Linear::new(key(), 4, 3).unwrap().forward(&x).unwrap_err())),
        ("conv1d: ", message(Conv1d::new(key(), 2, 3, 3).unwrap().forward(&x).unwrap_err())),
        ("conv2d: ", message(Conv2d::new(key(), 2, 3, 3).unwrap().forward(&images).unwrap_err())),
        (
            "conv_transpose2d: ",
            message(ConvTranspose2d::new(key(), 2, 3, 3).unwrap().forward(&images).unwrap_err()),
        ),
        (
            "batch_norm2d: ",
            message(BatchNorm2d::new(4).unwrap().forward(&images, &Mode::Inference).unwrap_err()),
        ),
        ("layer_norm: ", message(LayerNorm::new([4]).unwrap().forward(&x).unwrap_err())),
        ("rms_norm: ", message(RMSNorm::new([4]).unwrap().forward(&x).unwrap_err())),
        ("group_norm: ", message(GroupNorm::new(2, 4).unwrap().forward(&x).unwrap_err())),
        ("embedding: ", message(Embedding::new(key(), 4, 2).unwrap().forward(&x).unwrap_err())),
        (
            "multi_head_attention: query has shape [2, 3], expected [batch, length, 4]",
            message(MultiHeadAttention::new(key(), 4, 2).unwrap().forward(&x).unwrap_err()),
        ),
        ("maxpool2d: ", message(MaxPool2d::new(2).forward(&x).unwrap_err())),
        ("avgpool2d: ", message(AvgPool2d::new(0).forward(&images).unwrap_err())),
        ("dropout: ", {
            let mode = Mode::Training(key());
            message(Dropout::new(1.5).forward(&x, &mode).unwrap_err())
        }),
        ("conv2d: ", {
            let model = LeNet5::new(key()).unwrap();
            message(model.forward(&images, &Mode::Inference).unwrap_err())
        }),
        ("linear: ", {
            let model = Mlp::new(key(), &[4, 2]).unwrap();
            message(model.forward(&x, &Mode::Inference).unwrap_err())
        }),
        ("gpt: tokens has shape [2, 3, 4, 4], expected [batch, at most 4 tokens]", {
            message(short.forward(&images, &Mode::Inference).unwrap_err())
        }),
        ("gpt: tokens has shape [1, 5], expected [batch, at most 4 tokens]", {
            let long = tensor([[1i64, 2, 3, 4, 5]]);
            message(short.forward(&long, &Mode::Inference).unwrap_err())
        }),
        ("cross_entropy: ", {
            let logits = short.forward(&whole, &Mode::Inference).unwrap().logits;
            message(class_loss(&logits, &tensor([1i64]), 0.0).unwrap_err())
        }),
    ];
    for (wanted, message) in found {
        assert!(message.starts_with(wanted), "{message:?} does not begin with {wanted:?}");
    }
}

#[test]
fn bad_settings_are_errors_when_a_layer_is_made() {
    let groups = |groups| ConvOptions::new().groups(groups);
    let message = |error: extensor::Error| error.to_string();
    let found = [
        message(Conv2d::with(key(), 4, 6, 3, groups(0)).unwrap_err()),
        message(Conv2d::with(key(), 4, 6, 3, groups(4)).unwrap_err()),
        message(Conv2d::new(key(), 4, 6, [3, -1]).unwrap_err()),
        message(Conv1d::new(key(), 4, 6, 0).unwrap_err()),
        message(GroupNorm::new(0, 4).unwrap_err()),
        message(MultiHeadAttention::new(key(), 6, 4).unwrap_err()),
        message(Mlp::new(key(), &[3]).unwrap_err()),
        message(LeNet5::sized(key(), [1, 11, 28], 10).unwrap_err()),
        message(ResNet::new(key(), 3, 10, 0).unwrap_err()),
        message(Linear::new(key(), usize::MAX, 2).unwrap_err()),
        message(Gpt::new(key(), GptConfig { heads: 3, ..GptConfig::default() }).unwrap_err()),
        message(Gpt::new(key(), GptConfig { dropout: 1.0, ..GptConfig::default() }).unwrap_err()),
    ];
    let wanted = [
        "conv2d: groups is 0, expected a divisor of 4 and of 6 channels",
        "conv2d: groups is 4, expected a divisor of 4 and of 6 channels",
        "conv2d: kernel is [3, -1], expected at least 1",
        "conv1d: kernel is [0, 0], expected at least 1",
        "group_norm: groups is 0, expected a divisor of 4 channels",
        "multi_head_attention: heads is 4, expected a divisor of the size 6",
        "mlp: sizes is [3], expected at least two numbers",
        "lenet5: image is [1, 11, 28]",
        "resnet: blocks is 0, expected at least 1",
        "uniform: shape",
        "multi_head_attention: heads is 3, expected a divisor of the size 128",
        "gpt: dropout is 1, expected a number from 0 up to 1",
    ];
    for (message, wanted) in found.iter().zip(wanted) {
        assert!(message.starts_with(wanted), "{message:?} does not begin with {wanted:?}");
    }
}
