//! The gradient of every layer and every model, by its parameters and its input, against
//! differences.

use super::values::{filled, inputs, tokens};
use extensor::check::{Options, assert_grad};
use extensor::nn::models::{Gpt, GptConfig, LeNet5, Mlp, ResNet};
use extensor::nn::*;
use extensor::ops::{AttentionOptions, Conv3dOptions, ConvOptions, Interpolation};
use extensor::{Key, Result, Tensor, Tree};

fn key() -> Key {
    Key::new(5)
}

fn training() -> Mode {
    Mode::Training(Key::new(9))
}

/// Checks a layer's gradient for its parameters and for its input.
#[track_caller]
fn check<T: Tree>(
    name: &str,
    layer: Result<T>,
    x: Tensor,
    forward: impl Fn(&T, &Tensor) -> Result<Tensor>,
) {
    let args = (filled(layer), x);
    assert_grad(|(layer, x): &(T, Tensor)| forward(layer, x), &args, &Options::named(name));
}

#[test]
fn the_gradients_of_linear_layers_and_convolutions_are_right() {
    check("Linear", Linear::new(key(), 4, 3), inputs(0, &[2, 5, 4]), Linear::forward);
    let options = ConvOptions::new().stride(2).padding(1).groups(2);
    let layer = Conv1d::with(key(), 4, 6, 3, options);
    check("Conv1d", layer, inputs(0, &[2, 4, 7]), Conv1d::forward);
    let layer = Conv2d::with(key(), 4, 6, [3, 2], options);
    check("Conv2d", layer, inputs(0, &[2, 4, 5, 4]), Conv2d::forward);
    let layer = ConvTranspose2d::with(key(), 4, 6, 3, options.output_padding(1));
    check("ConvTranspose2d", layer, inputs(0, &[2, 4, 2, 3]), ConvTranspose2d::forward);
    let layer = ConvTranspose1d::with(key(), 4, 6, 3, options.output_padding(1));
    check("ConvTranspose1d", layer, inputs(0, &[2, 4, 3]), ConvTranspose1d::forward);
    let options = Conv3dOptions::new().stride(2).padding(1).groups(2);
    let layer = Conv3d::with(key(), 4, 6, [3, 2, 2], options);
    check("Conv3d", layer, inputs(0, &[1, 4, 3, 4, 3]), Conv3d::forward);
    let layer = ConvTranspose3d::with(key(), 4, 6, [2, 3, 2], options.padding(0));
    check("ConvTranspose3d", layer, inputs(0, &[1, 4, 2, 2, 2]), ConvTranspose3d::forward);
    let (table, index) = (filled(Embedding::new(key(), 5, 3)), tokens(0, 5, &[2, 4]));
    let look = |table: &Embedding| table.forward(&index);
    assert_grad(look, &table, &Options::named("Embedding"));
}

#[test]
fn the_gradients_of_normalisations_are_right() {
    let x = || inputs(0, &[3, 4, 2, 3]);
    for (name, mode) in [("training", training()), ("inference", Mode::Inference)] {
        check(&format!("BatchNorm2d, {name}"), BatchNorm2d::new(4), x(), |layer, x| {
            Ok(layer.forward(x, &mode)?.0)
        });
    }
    check("LayerNorm", LayerNorm::new([2, 3]), x(), LayerNorm::forward);
    check("RMSNorm", RMSNorm::new([3]), x(), RMSNorm::forward);
    check("GroupNorm", GroupNorm::new(2, 4), x(), GroupNorm::forward);
}

#[test]
fn the_gradients_of_attention_are_right() {
    let layer = || MultiHeadAttention::new(key(), 6, 2);
    check("MultiHeadAttention", layer(), inputs(0, &[2, 4, 6]), MultiHeadAttention::forward);
    let causal = AttentionOptions::new().causal(true);
    let attend = |layer: &MultiHeadAttention, x: &Tensor| layer.attend(x, x, x, causal);
    check("MultiHeadAttention, causal", layer(), inputs(0, &[2, 4, 6]), attend);
    let args = (filled(layer()), inputs(0, &[2, 4, 6]), inputs(1, &[2, 5, 6]));
    let cross = |(layer, x, memory): &(MultiHeadAttention, Tensor, Tensor)| {
        layer.attend(x, memory, memory, AttentionOptions::new())
    };
    assert_grad(cross, &args, &Options::named("MultiHeadAttention, cross"));
}

#[test]
fn the_gradients_of_layers_without_parameters_are_right() {
    let x = || inputs(0, &[2, 3, 6, 6]);
    check("Dropout", Ok(Dropout::new(0.4)), x(), |layer, x| layer.forward(x, &training()));
    check("MaxPool2d", Ok(MaxPool2d::new(2)), x(), MaxPool2d::forward);
    check("AvgPool2d", Ok(AvgPool2d::new(3).padding(1)), x(), AvgPool2d::forward);
    let (line, volume) = (|| inputs(0, &[2, 3, 6]), || inputs(0, &[1, 2, 4, 4, 6]));
    check("MaxPool1d", Ok(MaxPool1d::new(2)), line(), MaxPool1d::forward);
    check("AvgPool1d", Ok(AvgPool1d::new(3).padding(1)), line(), AvgPool1d::forward);
    check("MaxPool3d", Ok(MaxPool3d::new(2)), volume(), MaxPool3d::forward);
    check("AvgPool3d", Ok(AvgPool3d::new(3).padding(1)), volume(), AvgPool3d::forward);
    let layer = Upsample::new(1.5, Interpolation::Linear);
    check("Upsample", Ok(layer), x(), Upsample::forward);
    check("GlobalAvgPool", Ok(GlobalAvgPool), x(), GlobalAvgPool::forward);
    let layer = AdaptiveAvgPool::new([4, 5]);
    check("AdaptiveAvgPool", Ok(layer), x(), AdaptiveAvgPool::forward);
    check("Flatten", Ok(Flatten), x(), Flatten::forward);
    use Activation::*;
    for f in [Relu, LeakyRelu(0.1), Elu(0.7), Gelu, GeluTanh, Swish, Mish, Tanh, Softmax(1)] {
        check(&format!("{f:?}"), Ok(f), inputs(0, &[3, 5]), Activation::forward);
    }
}

#[track_caller]
fn check_model<M: Model>(name: &str, model: Result<M>, x: &Tensor, mode: Mode) {
    let logits = |model: &M| Ok(model.forward(x, &mode)?.logits);
    assert_grad(logits, &filled(model), &Options::named(name));
}

#[test]
fn the_gradients_of_models_are_right() {
    check_model("Mlp", Mlp::new(key(), &[12, 7, 5, 3]), &inputs(0, &[4, 3, 4]), training());
    let lenet = LeNet5::sized(key(), [2, 12, 14], 3);
    check_model("LeNet5", lenet, &inputs(0, &[2, 2, 12, 14]), training());
    let resnet = || ResNet::with_widths(key(), 1, 4, 1, [4, 6, 8]);
    check_model("ResNet, training", resnet(), &inputs(0, &[3, 1, 8, 7]), training());
    check_model("ResNet, inference", resnet(), &inputs(0, &[3, 1, 8, 7]), Mode::Inference);
    let model = || {
        Ok(Sequential::new([
            Conv2d::new(key(), 1, 3, 3)?.into(),
            BatchNorm2d::new(3)?.into(),
            Activation::Gelu.into(),
            Dropout::new(0.3).into(),
            GlobalAvgPool.into(),
            Flatten.into(),
            Linear::new(key(), 3, 2)?.into(),
        ]))
    };
    check_model("Sequential", model(), &inputs(0, &[3, 1, 6, 6]), training());
}

#[test]
fn the_gradient_of_a_gpts_loss_is_right() {
    let config =
        GptConfig { vocabulary: 7, context: 6, layers: 2, heads: 2, width: 4, dropout: 0.1 };
    let (x, targets) = (tokens(0, 7, &[2, 5]), tokens(1, 7, &[2, 5]));
    let model = filled(Gpt::new(key(), config));
    for mode in [training(), Mode::Inference] {
        let loss = |model: &Gpt| class_loss(&model.forward(&x, &mode)?.logits, &targets, 0.0);
        assert_grad(loss, &model, &Options::named("Gpt"));
    }
}
