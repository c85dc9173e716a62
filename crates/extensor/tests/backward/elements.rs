//! Backward functions of elementwise operations and reductions.

use super::{Tried, normal, random};
use extensor::ops::*;
use extensor::*;

pub fn elements(tried: &mut Tried) {
    of_one!(tried, [-1.5, 1.5], from x: relu relu_backward, relu6 relu6_backward, selu selu_backward,
        hard_sigmoid hard_sigmoid_backward, hard_swish hard_swish_backward, swish swish_backward,
        mish mish_backward, tanhshrink tanhshrink_backward, log_sigmoid log_sigmoid_backward,
        softsign softsign_backward, expm1 expm1_backward, square square_backward,
        reciprocal reciprocal_backward, abs abs_backward, sign sign_backward, sin sin_backward,
        cos cos_backward, atan atan_backward, sinh sinh_backward, cosh cosh_backward,
        asinh asinh_backward, erf erf_backward, erfc erfc_backward, ceil ceil_backward,
        floor floor_backward, trunc trunc_backward, round round_backward, exp2 exp2_backward,
        sinc sinc_backward, ndtr ndtr_backward, log_ndtr log_ndtr_backward, i0 i0_backward,
        i0e i0e_backward, i1 i1_backward, i1e i1e_backward);
    of_one!(tried, [-1.5, 1.5], from output: sigmoid sigmoid_backward, tanh tanh_backward,
        exp exp_backward, tan tan_backward);
    of_one!(tried, [0.2, 0.9], from x: log log_backward, log1p log1p_backward, log2 log2_backward,
        log10 log10_backward, rsqrt rsqrt_backward, asin asin_backward, acos acos_backward,
        atanh atanh_backward, logit logit_backward, entr entr_backward, lgamma lgamma_backward,
        digamma digamma_backward, erfinv erfinv_backward, ndtri ndtri_backward);
    of_one!(tried, [0.2, 0.9], from output: sqrt sqrt_backward, cbrt cbrt_backward);
    of_one!(tried, [1.2, 3.0], from x: acosh acosh_backward);
    of_two!(tried: atan2 atan2_backward, hypot hypot_backward, logaddexp logaddexp_backward,
        copysign copysign_backward, xlogy xlogy_backward, xlog1py xlog1py_backward,
        multiply multiply_backward, divide divide_backward,
        power power_backward, floor_divide floor_divide_backward, modulo modulo_backward,
        fmod fmod_backward, fmax fmax_backward, fmin fmin_backward,
        maximum maximum_backward, minimum minimum_backward);
    let (a, b) = (normal(1, &[2, 3]), normal(2, &[3]));
    let both = [a.clone(), b.clone()];
    let pair = |(a, b)| vec![a, b];
    tried.compare(
        "add",
        &both,
        |x| add(&x[0], &x[1]),
        |g, _| Ok(pair(add_backward(g, a.shape(), b.shape())?)),
    );
    tried.compare(
        "subtract",
        &both,
        |x| subtract(&x[0], &x[1]),
        |g, _| Ok(pair(subtract_backward(g, a.shape(), b.shape())?)),
    );
    let condition = greater(&normal(3, &[2, 3]), &tensor(0.0)).unwrap();
    tried.compare(
        "where",
        &both,
        |x| where_(&condition, &x[0], &x[1]),
        |g, _| Ok(pair(where_backward(g, &condition, a.shape(), b.shape())?)),
    );
    tried.compare(
        "prelu",
        &both,
        |x| prelu(&x[0], &x[1]),
        |g, _| Ok(pair(prelu_backward(g, &a, &b)?)),
    );
    let one = [a.clone()];
    tried.compare("negate", &one, |x| negate(&x[0]), |g, _| Ok(vec![negate_backward(g)?]));
    for approximate in [Approximate::None, Approximate::Tanh] {
        tried.compare(
            "gelu",
            &one,
            |x| gelu(&x[0], approximate),
            |g, _| Ok(vec![gelu_backward(g, &a, approximate)?]),
        );
    }
    tried.compare(
        "leaky_relu",
        &one,
        |x| leaky_relu(&x[0], 0.3),
        |g, _| Ok(vec![leaky_relu_backward(g, &a, 0.3)?]),
    );
    for n in [0, 1, 2] {
        tried.compare(
            "polygamma",
            &one,
            |x| polygamma(&x[0], n),
            |g, _| Ok(vec![polygamma_backward(g, &a, n)?]),
        );
    }
    tried.compare("elu", &one, |x| elu(&x[0], 0.7), |g, _| Ok(vec![elu_backward(g, &a, 0.7)?]));
    let back = |d: Tensor| Ok(vec![d]);
    tried.compare("celu", &one, |x| celu(&x[0], 0.7), |g, _| back(celu_backward(g, &a, 0.7)?));
    tried.compare(
        "softplus",
        &one,
        |x| softplus(&x[0], 0.7),
        |g, _| back(softplus_backward(g, &a, 0.7)?),
    );
    tried.compare(
        "hardshrink",
        &one,
        |x| hardshrink(&x[0], 0.3),
        |g, _| back(hardshrink_backward(g, &a, 0.3)?),
    );
    tried.compare(
        "softshrink",
        &one,
        |x| softshrink(&x[0], 0.3),
        |g, _| back(softshrink_backward(g, &a, 0.3)?),
    );
    tried.compare(
        "threshold",
        &one,
        |x| threshold(&x[0], 0.3, 2.0),
        |g, _| back(threshold_backward(g, &a, 0.3, 2.0)?),
    );
    tried.compare(
        "nan_to_num",
        &one,
        |x| nan_to_num(&x[0], NanToNumOptions::new()),
        |g, _| back(nan_to_num_backward(g, &a)?),
    );
    tried.compare("glu", &one, |x| glu(&x[0], 0), |g, _| back(glu_backward(g, &a, 0)?));
    let c = random(7, &[2, 1], 0.4, 1.6);
    let three = [a.clone(), b.clone(), c.clone()];
    let triple = |(a, b, c)| vec![a, b, c];
    tried.compare(
        "lerp",
        &three,
        |x| lerp(&x[0], &x[1], &x[2]),
        |g, _| Ok(triple(lerp_backward(g, &a, &b, &c)?)),
    );
    tried.compare(
        "addcmul",
        &three,
        |x| addcmul(&x[0], &x[1], &x[2], 0.7),
        |g, _| Ok(triple(addcmul_backward(g, &a, &b, &c, 0.7)?)),
    );
    tried.compare(
        "addcdiv",
        &three,
        |x| addcdiv(&x[0], &x[1], &x[2], 0.7),
        |g, _| Ok(triple(addcdiv_backward(g, &a, &b, &c, 0.7)?)),
    );
    tried.compare(
        "hard_tanh",
        &one,
        |x| hard_tanh(&x[0], -0.5, 0.8),
        |g, _| Ok(vec![hard_tanh_backward(g, &a, -0.5, 0.8)?]),
    );
    tried.compare(
        "clip",
        &one,
        |x| clip(&x[0], -0.5, 0.8),
        |g, _| Ok(vec![clip_backward(g, &a, -0.5, 0.8)?]),
    );
    tried.compare(
        "cast",
        &one,
        |x| cast(&x[0], DType::F64),
        |g, _| Ok(vec![cast_backward(g, DType::F64)?]),
    );
    let (_, mask) = dropout(&a, 0.4, Key::new(5)).unwrap();
    tried.compare(
        "dropout",
        &one,
        |x| Ok(dropout(&x[0], 0.4, Key::new(5))?.0),
        |g, _| Ok(vec![dropout_backward(g, &mask, 0.4)?]),
    );
    let x = normal(4, &[2, 3, 2, 2]);
    let (_, mask) = dropout2d(&x, 0.4, Key::new(5)).unwrap();
    tried.compare(
        "dropout2d",
        &[x],
        |x| Ok(dropout2d(&x[0], 0.4, Key::new(5))?.0),
        |g, _| Ok(vec![dropout2d_backward(g, &mask, 0.4)?]),
    );
}

pub fn reductions(tried: &mut Tried) {
    let x = random(1, &[2, 3, 4], 0.3, 1.7);
    let (one, shape) = ([x.clone()], x.shape().to_vec());
    let axes = || Axes::from(1);
    for keep in [false, true] {
        tried.compare(
            "sum",
            &one,
            |x| sum(&x[0], over(axes()).keepdims(keep)),
            |g, _| Ok(vec![sum_backward(g, &shape, over(axes()).keepdims(keep))?]),
        );
        tried.compare(
            "mean",
            &one,
            |x| mean(&x[0], over(axes()).keepdims(keep)),
            |g, _| Ok(vec![mean_backward(g, &shape, over(axes()).keepdims(keep))?]),
        );
        tried.compare(
            "prod",
            &one,
            |x| prod(&x[0], over(axes()).keepdims(keep)),
            |g, y| Ok(vec![prod_backward(g, &x, y, over(axes()).keepdims(keep))?]),
        );
        tried.compare(
            "max_reduce",
            &one,
            |x| max_reduce(&x[0], over(axes()).keepdims(keep)),
            |g, _| Ok(vec![max_reduce_backward(g, &x, over(axes()).keepdims(keep))?]),
        );
        tried.compare(
            "min_reduce",
            &one,
            |x| min_reduce(&x[0], over(axes()).keepdims(keep)),
            |g, _| Ok(vec![min_reduce_backward(g, &x, over(axes()).keepdims(keep))?]),
        );
        tried.compare(
            "variance",
            &one,
            |x| variance(&x[0], over(axes()).keepdims(keep), 1),
            |g, _| Ok(vec![variance_backward(g, &x, over(axes()).keepdims(keep), 1)?]),
        );
        tried.compare(
            "std",
            &one,
            |x| std(&x[0], over(axes()).keepdims(keep), 1),
            |g, y| Ok(vec![std_backward(g, &x, y, over(axes()).keepdims(keep), 1)?]),
        );
        tried.compare(
            "norm",
            &one,
            |x| norm(&x[0], over(axes()).keepdims(keep)),
            |g, y| Ok(vec![norm_backward(g, &x, y, over(axes()).keepdims(keep))?]),
        );
        tried.compare(
            "logsumexp",
            &one,
            |x| logsumexp(&x[0], over(axes()).keepdims(keep)),
            |g, _| Ok(vec![logsumexp_backward(g, &x, over(axes()).keepdims(keep))?]),
        );
    }
    tried.compare("cumsum", &one, |x| cumsum(&x[0], 1), |g, _| Ok(vec![cumsum_backward(g, 1)?]));
    tried.compare(
        "cumprod",
        &one,
        |x| cumprod(&x[0], 1),
        |g, _| Ok(vec![cumprod_backward(g, &x, 1)?]),
    );
    tried.compare(
        "logcumsumexp",
        &one,
        |x| logcumsumexp(&x[0], 1),
        |g, _| Ok(vec![logcumsumexp_backward(g, &x, 1)?]),
    );
    tried.compare(
        "softmax",
        &one,
        |x| softmax(&x[0], 1),
        |g, y| Ok(vec![softmax_backward(g, y, 1)?]),
    );
    tried.compare(
        "log_softmax",
        &one,
        |x| log_softmax(&x[0], 1),
        |g, y| Ok(vec![log_softmax_backward(g, y, 1)?]),
    );
}
