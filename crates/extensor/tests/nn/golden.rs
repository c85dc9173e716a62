//! What PyTorch's layers give for the same weights: `golden.json`, made by `tools/nn_golden.py`.

use super::values::{filled, inputs, tokens};
use extensor::autodiff::named_leaves;
use extensor::nn::models::{Gpt, GptConfig, LeNet5, Mlp, ResNet};
use extensor::nn::*;
use extensor::ops::{AttentionOptions, ConvOptions, multiply, stack};
use extensor::{Key, Result, Tensor, Tree, tensor};
use serde_json::Value;

fn key() -> Key {
    Key::new(5)
}

fn case(name: &str) -> Value {
    let all: Value = serde_json::from_str(include_str!("golden.json")).unwrap();
    all[name].clone()
}

#[track_caller]
fn assert_close(y: &Tensor, golden: &Value) {
    let shape: Vec<u64> = y.shape().iter().map(|&s| s as u64).collect();
    assert_eq!(golden["shape"], Value::from(shape));
    let wanted = golden["data"].as_array().unwrap();
    assert_eq!(y.len(), wanted.len());
    for (i, (y, wanted)) in y.to_vec::<f64>().unwrap().iter().zip(wanted).enumerate() {
        let wanted = wanted.as_f64().unwrap();
        assert!((y - wanted).abs() <= 1e-10 * (1.0 + wanted.abs()), "{i}: {y} is not {wanted}");
    }
}

/// Names and results are PyTorch's.
#[track_caller]
fn assert_same<T: Tree>(name: &str, layer: &T, y: Result<Tensor>) {
    let golden = case(name);
    let names: Vec<String> = named_leaves(layer).into_iter().map(|(name, _)| name).collect();
    assert_eq!(Value::from(names), golden["names"], "{name}");
    assert_close(&y.unwrap(), &golden["output"]);
}

#[test]
fn linear_layers_and_embeddings_are_pytorchs() {
    let layer = filled(Linear::new(key(), 4, 3));
    assert_same("linear", &layer, layer.forward(&inputs(0, &[2, 5, 4])));
    let layer = filled(Linear::without_bias(key(), 4, 3));
    assert_same("linear without bias", &layer, layer.forward(&inputs(0, &[5, 4])));
    let layer = filled(Embedding::new(key(), 7, 3));
    assert_same("embedding", &layer, layer.forward(&tokens(0, 7, &[2, 4])));
}

#[test]
fn convolutions_are_pytorchs() {
    let options = ConvOptions::new().stride(2).padding(1).dilation(2).groups(2);
    let layer = filled(Conv1d::with(key(), 4, 6, 3, options));
    assert_same("conv1d", &layer, layer.forward(&inputs(0, &[2, 4, 11])));

    let options = ConvOptions::new().stride([2, 1]).padding([1, 2]).dilation([1, 2]);
    let layer = Conv2d::with(key(), 4, 6, [3, 2], options.groups(2));
    let layer = filled(layer.map(Conv2d::without_bias));
    assert_same("conv2d", &layer, layer.forward(&inputs(0, &[2, 4, 7, 6])));
    let layer = filled(Conv2d::new(key(), 3, 2, 3));
    assert_same("conv2d with bias", &layer, layer.forward(&inputs(0, &[2, 3, 5, 5])));

    let options = ConvOptions::new().stride(2).padding(1).output_padding(1).groups(2);
    let layer = filled(ConvTranspose2d::with(key(), 4, 6, 3, options));
    assert_same("conv_transpose2d", &layer, layer.forward(&inputs(0, &[2, 4, 3, 4])));
}

#[test]
fn normalisations_are_pytorchs() {
    let layer = filled(LayerNorm::new([3, 4]));
    assert_same("layer_norm", &layer, layer.forward(&inputs(0, &[2, 3, 4])));
    let layer = filled(RMSNorm::new([4]));
    assert_same("rms_norm", &layer, layer.forward(&inputs(0, &[2, 3, 4])));
    let layer = filled(GroupNorm::new(2, 6));
    assert_same("group_norm", &layer, layer.forward(&inputs(0, &[2, 6, 3, 3])));
}

#[test]
fn running_statistics_of_a_batch_are_pytorchs_after_each_of_three_steps() {
    let mut layer = filled(BatchNorm2d::new(3)).momentum(0.2);
    let golden = case("batch_norm2d");
    for step in 0..3u32 {
        let factor = tensor(f64::from(step + 1));
        let x = multiply(&inputs(step, &[4, 3, 2, 3]), &factor).unwrap();
        let (y, next) = layer.forward(&x, &Mode::Training(key())).unwrap();
        layer = next;
        let golden = &golden["steps"][step as usize];
        assert_close(&y, &golden["output"]);
        assert_close(&layer.running_mean, &golden["state"]["running_mean"]);
        assert_close(&layer.running_var, &golden["state"]["running_var"]);
        let counted = layer.num_batches_tracked.item::<i64>().unwrap();
        assert_eq!(golden["state"]["num_batches_tracked"]["data"][0], counted as f64);
    }
    let (y, after) = layer.forward(&inputs(3, &[4, 3, 2, 3]), &Mode::Inference).unwrap();
    assert_same("batch_norm2d", &layer, Ok(y));
    assert_eq!(after.num_batches_tracked.item::<i64>().unwrap(), 3);
    assert!(after.running_mean.shares_memory_with(&layer.running_mean));
}

#[test]
fn attention_is_pytorchs() {
    let (q, kv) = (inputs(0, &[2, 5, 8]), inputs(1, &[2, 7, 8]));
    let layer = filled(MultiHeadAttention::new(key(), 8, 2));
    assert_same("self attention", &layer, layer.forward(&q));
    let causal = AttentionOptions::new().causal(true);
    assert_same("causal attention", &layer, layer.attend(&q, &q, &q, causal));
    let near = (0..5i64).flat_map(|i| (0..7i64).map(move |j| (i - j).abs() <= 2));
    let mask = Tensor::from_vec(near.collect(), [5, 7]).unwrap();
    let values = multiply(&kv, &tensor(0.5)).unwrap();
    let masked = AttentionOptions::new().mask(&mask);
    assert_same("cross attention", &layer, layer.attend(&q, &kv, &values, masked));
}

#[test]
fn pooling_is_pytorchs() {
    let x = inputs(0, &[2, 3, 7, 7]);
    let layer = MaxPool2d::new(3).stride([2, 2]).padding(1);
    assert_same("max_pool2d", &layer, layer.forward(&x));
    let layer = AvgPool2d::new(3).stride([2, 2]).padding(1);
    assert_same("avg_pool2d", &layer, layer.forward(&x));
    let layer = AdaptiveAvgPool::new([2, 3]);
    assert_same("adaptive_avg_pool", &layer, layer.forward(&x));
    assert_same("global_avg_pool", &GlobalAvgPool, GlobalAvgPool.forward(&x));
}

#[test]
fn activations_are_pytorchs() {
    use Activation::*;
    let all = [
        Relu,
        Relu6,
        LeakyRelu(0.1),
        Elu(0.7),
        Selu,
        Gelu,
        GeluTanh,
        Swish,
        Mish,
        HardSwish,
        Sigmoid,
        HardSigmoid,
        LogSigmoid,
        Tanh,
        Softplus,
        Softsign,
        Softmax(1),
        LogSoftmax(1),
    ];
    let x = multiply(&inputs(0, &[3, 5]), &tensor(8.0)).unwrap();
    let results: Vec<Tensor> = all.iter().map(|f| f.forward(&x).unwrap()).collect();
    assert_same("activations", &(), stack(&results, 0));
}

#[test]
fn a_sequence_of_layers_is_pytorchs() {
    let inner = Sequential::new([Dropout::new(0.5).into(), Flatten.into()]);
    let layers = || {
        Ok(Sequential::new([
            Conv2d::with(key(), 1, 3, 3, ConvOptions::new().padding(1))?.into(),
            BatchNorm2d::new(3)?.into(),
            Activation::Relu.into(),
            MaxPool2d::new(2).into(),
            inner.into(),
            Linear::new(key(), 27, 4)?.into(),
        ]))
    };
    let model = filled(layers());
    let output = model.forward(&inputs(0, &[2, 1, 6, 6]), &Mode::Inference).unwrap();
    assert!(output.model.is_none());
    assert_same("sequential", &model, Ok(output.logits));
}

#[track_caller]
fn assert_same_model<M: Model>(name: &str, model: Result<M>, x: &Tensor) {
    let model = filled(model);
    assert_same(name, &model, model.forward(x, &Mode::Inference).map(|y| y.logits));
}

#[test]
fn models_are_those_written_in_pytorch() {
    assert_same_model("mlp", Mlp::new(key(), &[12, 7, 5, 3]), &inputs(0, &[2, 3, 4]));
    assert_same_model("lenet5", LeNet5::new(key()), &inputs(0, &[2, 1, 28, 28]));
    let resnet = ResNet::with_widths(key(), 3, 4, 2, [4, 6, 8]);
    assert_same_model("resnet", resnet, &inputs(0, &[2, 3, 9, 8]));
    let config =
        GptConfig { vocabulary: 11, context: 8, layers: 2, heads: 2, width: 8, dropout: 0.0 };
    assert_same_model("gpt", Gpt::new(key(), config), &tokens(0, 11, &[2, 6]));
}

#[test]
fn a_lenet_saved_by_pytorch_gives_its_logits_and_is_saved_as_it_was() -> Result<()> {
    use extensor::io::safetensors::{load, save};
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let file = load(format!("{folder}/lenet5.safetensors"))?;
    let metadata = file.metadata().clone();
    let model = file.into_tree(&LeNet5::new(key())?)?;
    let case = load(format!("{folder}/lenet5-case.safetensors"))?;
    let (pictures, wanted) = (case.tensor("pictures")?, case.tensor("logits")?);
    let logits = model.forward(&pictures, &Mode::Inference)?.logits;
    for (y, wanted) in logits.to_vec::<f32>()?.iter().zip(wanted.to_vec::<f32>()?) {
        assert!((y - wanted).abs() <= 1e-5, "{y} is not {wanted}");
    }
    // Saved here it holds the same tensors under the same names.
    let path = std::env::temp_dir().join(format!("extensor-lenet-{}", std::process::id()));
    save(&path, &model, &metadata)?;
    let [ours, theirs] = [load(&path)?, load(format!("{folder}/lenet5.safetensors"))?];
    let names = |file: &extensor::io::safetensors::File| {
        let mut names: Vec<String> = file.names().map(|name| name.to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&ours), names(&theirs));
    for name in names(&ours) {
        let [a, b] = [ours.tensor(&name)?, theirs.tensor(&name)?];
        assert_eq!((a.shape(), a.to_vec::<f32>()?), (b.shape(), b.to_vec::<f32>()?), "{name}");
    }
    std::fs::remove_file(path).unwrap();
    Ok(())
}
