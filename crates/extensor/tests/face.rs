//! The API as its readers see it: what is a method, and what is found under another name.

use extensor::ops::catalogue::{CATALOGUE, known_as};
use extensor::ops::{self, params::Params};
use extensor::{Over, over, tensor};
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn every_operation_is_a_method_of_the_tensor() {
    // Functions are made methods by an attribute; nothing at run time knows which have it.
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ops"), &mut files);
    let mut functions = 0;
    for file in files {
        // What operations are made of, and called by.
        if ["operation.rs", "catalogue.rs", "curve.rs"].iter().any(|name| file.ends_with(name)) {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (i, line) in lines.iter().enumerate().skip(2) {
            let Some(rest) = line.strip_prefix("pub fn ") else { continue };
            let tensors = rest.contains("&Tensor") || rest.contains("Borrow<Tensor>");
            let first = lines[i + 1..].iter().next().copied().unwrap_or("");
            let many = rest.ends_with('(') && first.contains("&Tensor");
            let called = lines[i - 1] == "#[track_caller]" && (tensors || many);
            let backward = rest.contains("backward") || rest.contains("grad_output");
            if !called || backward || rest.contains("&self") || first == "&self," {
                continue;
            }
            functions += 1;
            assert!(lines[i - 2].ends_with("method]"), "{}: {line}", file.display());
        }
    }
    assert!(functions > 80, "{functions} functions were found");
}

#[test]
fn another_librarys_name_is_not_one_of_ours_and_stands_for_an_operation() {
    let mut all = 0;
    for record in CATALOGUE {
        for name in record.aliases() {
            all += 1;
            assert!(CATALOGUE.iter().all(|r| r.name != *name), "{name} is an operation here");
            assert!(known_as(name).any(|r| r.name == record.name), "{name}");
        }
    }
    assert!(all > 150, "{all} names");
}

#[test]
fn the_names_of_pytorch_and_jax_are_found() {
    // torch, torch.nn.functional, jax.numpy, jax.nn and jax.lax, of what there is here.
    let names = "abs absolute acos acosh add addmm adaptive_avg_pool2d \
        adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d all amax amin any arccos \
        arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin argsort array_split asin asinh \
        astype atan atan2 atanh avg_pool1d avg_pool2d avg_pool3d batch_norm binary_cross_entropy \
        binary_cross_entropy_with_logits bitwise_and bitwise_left_shift bitwise_not bitwise_or \
        bitwise_right_shift bitwise_xor bmm broadcast_to bucketize cat ceil chunk clamp clip concat \
        concatenate conv1d conv2d conv3d conv_general_dilated \
        conv_transpose1d conv_transpose2d conv_transpose3d copysign cos cosh \
        cross_entropy cumprod cumsum div divide dot dot_general dot_product_attention dropout \
        dropout2d elu embedding eq equal erf erfc exp expand expand_dims expit expm1 flatten flip \
        floor floor_divide fold gather ge gelu greater greater_equal group_norm gt hard_silu \
        hard_swish hard_tanh hardsigmoid hardswish hardtanh huber_loss hypot index_select inner \
        instance_norm interpolate isfinite isinf isnan kl_div l1_loss layer_norm le leaky_relu left_shift less \
        less_equal linear log log10 log1p log2 log_sigmoid log_softmax logaddexp logical_and \
        logical_not logical_or logical_xor logistic logsigmoid logsumexp lt matmul max max_pool1d max_pool2d max_pool3d \
        maximum mean min minimum mish mm mod moveaxis movedim mse_loss mul multiply mv narrow ne neg \
        negative nextafter norm not_equal one_hot outer pad permute permute_dims pow power \
        prelu prod ravel reciprocal relu relu6 remainder repeat repeat_interleave reshape rms_norm \
        roll round rsqrt scaled_dot_product_attention scatter_add searchsorted segment_sum selu \
        sigmoid sign signbit silu sin sinh smooth_l1_loss softmax softplus softsign sort split sqrt \
        square squeeze stack std sub subtract sum swapaxes swish take take_along_axis take_along_dim \
        tan tanh tensor_split tile transpose tril triu true_divide trunc unbind unfold unsqueeze unstack var \
        vdot vecdot view where";
    for name in names.split_whitespace() {
        let ours = CATALOGUE.iter().any(|record| record.name == name);
        assert!(ours || known_as(name).next().is_some(), "{name} is not found");
    }
}

#[test]
fn axes_stay_only_where_they_are_told_to() -> extensor::Result<()> {
    let x = tensor([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]]);
    assert_eq!(x.sum(1)?.shape(), [2]);
    assert_eq!(x.sum([0, 1])?.shape(), []);
    assert_eq!(x.sum(over([0, 1]).keepdims(true))?.shape(), [1, 1]);
    assert_eq!(x.argmax(over(..).keepdims(true))?.shape(), [1, 1]);
    let kept: Over = over(0).keepdims(true).keepdims(false);
    assert_eq!(x.mean(kept)?.shape(), [3]);
    // By name it is the same call.
    let record = extensor::ops::catalogue::find("sum")?;
    let params = Params::new().with("axis", [1]).with("keepdims", true);
    let named = record.call(&[&x], &params)?.swap_remove(0);
    assert_eq!(named.to_vec::<f64>()?, x.sum(over(1).keepdims(true))?.to_vec::<f64>()?);
    let error = ops::argmax(&x, [0, 1]).unwrap_err().to_string();
    assert_eq!(error, "argmax: axis is [0, 1], expected one axis, or all");
    Ok(())
}
