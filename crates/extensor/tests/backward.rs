//! Every public backward function, called by itself, gives what differentiating its function gives.
//! (The rules behind them are checked elsewhere; here it is their arguments.)

use extensor::autodiff::vjp;
use extensor::ops::*;
use extensor::*;
use std::collections::BTreeSet;

/// The functions tried so far.
#[derive(Default)]
struct Tried(BTreeSet<String>);

/// Random numbers in an interval.
fn random(seed: u64, shape: &[usize], low: f64, high: f64) -> Tensor {
    Key::new(seed).uniform(shape, low, high, DType::F64).unwrap()
}

fn normal(seed: u64, shape: &[usize]) -> Tensor {
    random(seed, shape, -1.5, 1.5)
}

impl Tried {
    /// Compares what `back` makes of a gradient of the result, and the result, with reverse mode's
    /// gradients of `f`.
    #[track_caller]
    fn compare(
        &mut self,
        name: &str,
        x: &[Tensor],
        f: impl Fn(&Vec<Tensor>) -> Result<Tensor>,
        back: impl FnOnce(&Tensor, &Tensor) -> Result<Vec<Tensor>>,
    ) {
        let (y, pull) = vjp(f, &x.to_vec()).unwrap();
        let g = normal(99, y.shape());
        let want = pull.call(&g).unwrap();
        let got = back(&g, &y).unwrap();
        assert_eq!(got.len(), want.len(), "{name}");
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            assert_eq!(got.shape(), x[i].shape(), "{name}, gradient {i}");
            assert_eq!(got.to_f64_vec(), want.to_f64_vec(), "{name}, gradient {i}");
        }
        self.0.insert(format!("{name}_backward"));
    }
}

macro_rules! of_one {
    ($tried:ident, [$low:literal, $high:literal], from $from:ident: $($f:ident $back:ident),* $(,)?) => {$({
        let x = random(1, &[2, 3], $low, $high);
        let f = |x: &Vec<Tensor>| $f(&x[0]);
        $tried.compare(stringify!($f), std::slice::from_ref(&x), f, |g, y| {
            let from = of_one!(@$from x y);
            Ok(vec![$back(g, from)?])
        });
    })*};
    (@x $x:ident $y:ident) => {{ let _ = $y; &$x }};
    (@output $x:ident $y:ident) => { $y };
}

macro_rules! of_two {
    ($tried:ident: $($f:ident $back:ident),* $(,)?) => {$({
        let (a, b) = (random(1, &[2, 3], 0.3, 2.5), random(2, &[3], 0.4, 1.6));
        let f = |x: &Vec<Tensor>| $f(&x[0], &x[1]);
        $tried.compare(stringify!($f), &[a.clone(), b.clone()], f, |g, _| {
            let (da, db) = $back(g, &a, &b)?;
            Ok(vec![da, db])
        });
    })*};
}

fn elements(tried: &mut Tried) {
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

fn reductions(tried: &mut Tried) {
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

fn shapes(tried: &mut Tried) {
    let x = normal(1, &[3, 1, 4]);
    let (one, shape) = ([x.clone()], x.shape().to_vec());
    tried.compare(
        "squeeze",
        &one,
        |x| squeeze(&x[0], 1),
        |g, _| Ok(vec![squeeze_backward(g, &shape)?]),
    );
    tried.compare(
        "expand_dims",
        &one,
        |x| expand_dims(&x[0], 2),
        |g, _| Ok(vec![expand_dims_backward(g, &shape)?]),
    );
    tried.compare(
        "flatten",
        &one,
        |x| flatten(&x[0], 0, 1),
        |g, _| Ok(vec![flatten_backward(g, &shape)?]),
    );
    tried.compare(
        "reshape",
        &one,
        |x| reshape(&x[0], [2, 6]),
        |g, _| Ok(vec![reshape_backward(g, &shape)?]),
    );
    tried.compare(
        "transpose",
        &one,
        |x| transpose(&x[0], [1, 2, 0]),
        |g, _| Ok(vec![transpose_backward(g, [1, 2, 0])?]),
    );
    tried.compare(
        "broadcast_to",
        &one,
        |x| broadcast_to(&x[0], [2, 3, 5, 4]),
        |g, _| Ok(vec![broadcast_to_backward(g, &shape)?]),
    );
    tried.compare(
        "tile",
        &one,
        |x| tile(&x[0], [2, 1, 3]),
        |g, _| Ok(vec![tile_backward(g, &shape, [2, 1, 3])?]),
    );
    let pads = [(1, 0), (0, 2), (1, 1)];
    tried.compare(
        "pad",
        &one,
        |x| pad(&x[0], pads, 0.5),
        |g, _| Ok(vec![pad_backward(g, &shape, pads, 0.5)?]),
    );
    tried.compare(
        "pad",
        &one,
        |x| pad(&x[0], pads, PadMode::Replicate),
        |g, _| Ok(vec![pad_backward(g, &shape, pads, PadMode::Replicate)?]),
    );
    tried.compare(
        "repeat",
        &one,
        |x| repeat(&x[0], [2, 0, 3], 0),
        |g, _| Ok(vec![repeat_backward(g, &shape, [2, 0, 3], 0)?]),
    );
    tried.compare(
        "roll",
        &one,
        |x| roll(&x[0], [1, -2], [0, 2]),
        |g, _| Ok(vec![roll_backward(g, [1, -2], [0, 2])?]),
    );
    tried.compare(
        "slice",
        &one,
        |x| slice(&x[0], 2, 3, None, -2),
        |g, _| Ok(vec![slice_backward(g, &shape, 2, 3, None, -2)?]),
    );
    tried.compare(
        "flip",
        &one,
        |x| flip(&x[0], [0, 2]),
        |g, _| Ok(vec![flip_backward(g, [0, 2])?]),
    );
    let square = normal(7, &[2, 4, 5]);
    let other = DiagonalOptions::new().offset(1).axis1(2).axis2(0);
    tried.compare(
        "diagonal",
        std::slice::from_ref(&square),
        |x| diagonal(&x[0], other),
        |g, _| Ok(vec![diagonal_backward(g, square.shape(), other)?]),
    );
    for shape in [&[4][..], &[3, 4]] {
        tried.compare(
            "diag",
            &[normal(7, shape)],
            |x| diag(&x[0], -1),
            |g, _| Ok(vec![diag_backward(g, shape, -1)?]),
        );
    }
    tried.compare(
        "tril",
        std::slice::from_ref(&square),
        |x| tril(&x[0], 1),
        |g, _| Ok(vec![tril_backward(g, 1)?]),
    );
    tried.compare("triu", &[square], |x| triu(&x[0], -1), |g, _| Ok(vec![triu_backward(g, -1)?]));
    let (_, places) = sort_with_indices(&x, 2, Order::Descending).unwrap();
    tried.compare(
        "sort",
        &one,
        |x| sort(&x[0], 2, Order::Descending),
        |g, _| Ok(vec![sort_backward(g, &places, 2)?]),
    );
    let (_, places) = topk(&x, 2, 2, Order::Descending).unwrap();
    tried.compare(
        "topk",
        &one,
        |x| Ok(topk(&x[0], 2, 2, Order::Descending)?.0),
        |g, _| Ok(vec![topk_backward(g, x.shape(), &places, 2)?]),
    );
    let (_, places) = kthvalue(&x, 2, 2).unwrap();
    tried.compare(
        "kthvalue",
        &one,
        |x| Ok(kthvalue(&x[0], 2, 2)?.0),
        |g, _| Ok(vec![kthvalue_backward(g, x.shape(), &places, 2)?]),
    );
    let (_, places) = cummax(&x, 2).unwrap();
    tried.compare(
        "cummax",
        &one,
        |x| Ok(cummax(&x[0], 2)?.0),
        |g, _| Ok(vec![cummax_backward(g, &places, 2)?]),
    );
    let (_, places) = cummin(&x, 2).unwrap();
    tried.compare(
        "cummin",
        &one,
        |x| Ok(cummin(&x[0], 2)?.0),
        |g, _| Ok(vec![cummin_backward(g, &places, 2)?]),
    );
    // Parts of other sizes, joined again by something that tells them apart.
    let (sizes, weights) = ([1, 3], [normal(5, &[3, 1, 1]), normal(6, &[3, 1, 3])]);
    let f = |x: &Vec<Tensor>| {
        let parts = split(&x[0], &sizes[..], 2)?;
        concatenate(&[&parts[1] * &weights[1], &parts[0] * &weights[0]], 2)
    };
    tried.compare("split", &one, f, |g, _| {
        let parts = split(g, &[3, 1][..], 2)?;
        Ok(vec![split_backward(&[&parts[1] * &weights[0], &parts[0] * &weights[1]], 2)?])
    });
    let two = [x.clone(), normal(2, &[3, 1, 2])];
    tried.compare(
        "concatenate",
        &two,
        |x| concatenate(x, 2),
        |g, _| concatenate_backward(g, &[4, 2], 2),
    );
    let two = [x.clone(), normal(2, &[3, 1, 4])];
    tried.compare("stack", &two, |x| stack(x, 1), |g, _| stack_backward(g, 1));
    let index = tensor([[[2i64, 0, 0, 3, 1]]; 3]);
    tried.compare(
        "gather",
        &one,
        |x| gather(&x[0], &index, 2),
        |g, _| Ok(vec![gather_backward(g, &index, &shape, 2)?]),
    );
    let list = tensor([2i64, 0, 2]);
    tried.compare(
        "take",
        &one,
        |x| take(&x[0], &list, 0),
        |g, _| Ok(vec![take_backward(g, &list, &shape, 0)?]),
    );
    let words = [normal(3, &[5, 2])];
    tried.compare(
        "embedding",
        &words,
        |x| embedding(&x[0], &list),
        |g, _| Ok(vec![embedding_backward(g, &list, &[5, 2])?]),
    );
    let both = [x.clone(), normal(4, &[3, 1, 5])];
    tried.compare(
        "scatter_add",
        &both,
        |x| scatter_add(&x[0], &index, &x[1], 2),
        |g, _| {
            let (dx, dsource) = scatter_add_backward(g, &index, &[3, 1, 5], 2)?;
            Ok(vec![dx, dsource])
        },
    );
    for reduce in
        [ScatterReduce::Last, ScatterReduce::Prod, ScatterReduce::Mean, ScatterReduce::Max]
    {
        let y = scatter(&both[0], &index, &both[1], 2, reduce).unwrap();
        tried.compare(
            "scatter",
            &both,
            |x| scatter(&x[0], &index, &x[1], 2, reduce),
            |g, _| {
                let (x, source) = (&both[0], &both[1]);
                let (dx, dsource) = scatter_backward(g, x, &index, source, &y, 2, reduce)?;
                Ok(vec![dx, dsource])
            },
        );
    }
}

fn products(tried: &mut Tried) {
    let pair = |(a, b)| vec![a, b];
    let triple = |(a, b, c)| vec![a, b, c];
    let (a, b) = (normal(1, &[2, 3, 4]), normal(2, &[4, 5]));
    tried.compare(
        "matmul",
        &[a.clone(), b.clone()],
        |x| matmul(&x[0], &x[1]),
        |g, _| Ok(pair(matmul_backward(g, &a, &b)?)),
    );
    let (weight, bias) = (normal(2, &[5, 4]), normal(3, &[5]));
    let all = [a.clone(), weight.clone(), bias.clone()];
    tried.compare(
        "linear",
        &all,
        |x| linear(&x[0], &x[1], Some(&x[2])),
        |g, _| Ok(triple(linear_backward(g, &a, &weight)?)),
    );
    let three = [normal(1, &[3, 3, 4]), normal(2, &[4, 5]), normal(3, &[1, 2])];
    let equation = "iij,jk,kl->li";
    tried.compare(
        "einsum",
        &three,
        |x| einsum(equation, x),
        |g, _| einsum_backward(g, &three, equation),
    );
    let (a, b) = (normal(1, &[4]), normal(2, &[4]));
    tried.compare(
        "dot",
        &[a.clone(), b.clone()],
        |x| dot(&x[0], &x[1]),
        |g, _| Ok(pair(dot_backward(g, &a, &b)?)),
    );
    let b = normal(2, &[3]);
    tried.compare(
        "outer",
        &[a.clone(), b.clone()],
        |x| outer(&x[0], &x[1]),
        |g, _| Ok(pair(outer_backward(g, &a, &b)?)),
    );
    let (rows, others) = (normal(5, &[2, 5, 3]), normal(6, &[4, 3]));
    let all = [rows.clone(), others.clone()];
    for p in [2.0, 1.0, 3.0, f64::INFINITY] {
        let options = CdistOptions::new().p(p);
        let distances = cdist(&rows, &others, options).unwrap();
        tried.compare(
            "cdist",
            &all,
            |x| cdist(&x[0], &x[1], options),
            |g, _| Ok(pair(cdist_backward(g, &rows, &others, &distances, options)?)),
        );
    }
    let (others, options) = (normal(6, &[5, 3]), CosineSimilarityOptions::new().axis(1));
    tried.compare(
        "cosine_similarity",
        &[rows.clone(), others.clone()],
        |x| cosine_similarity(&x[0], &x[1], options),
        |g, _| Ok(pair(cosine_similarity_backward(g, &rows, &others, options)?)),
    );
    let [q, k, v] = [(1, [2, 5, 3]), (2, [2, 4, 3]), (3, [2, 4, 6])].map(|(s, d)| normal(s, &d));
    let all = [q.clone(), k.clone(), v.clone()];
    let (output, sums) = scaled_dot_product_attention_with_logsumexp(
        &q,
        &k,
        &v,
        AttentionOptions::new().causal(true).scale(0.4),
    )
    .unwrap();
    let attend = |x: &Vec<Tensor>| {
        scaled_dot_product_attention(
            &x[0],
            &x[1],
            &x[2],
            AttentionOptions::new().causal(true).scale(0.4),
        )
    };
    tried.compare("scaled_dot_product_attention", &all, attend, |g, _| {
        let (inputs, outputs) = ([&q, &k, &v], [&output, &sums]);
        let (dq, dk, dv, _) = scaled_dot_product_attention_backward(
            g,
            inputs,
            outputs,
            AttentionOptions::new().causal(true).scale(0.4),
        )?;
        Ok(vec![dq, dk, dv])
    });
    let added = normal(7, &[5, 4]);
    let all = [q.clone(), k.clone(), v.clone(), added.clone()];
    fn dropping(mask: &Tensor) -> AttentionOptions<'_> {
        AttentionOptions::new().mask(mask).dropout(0.4).key(Key::new(8))
    }
    let (output, sums) =
        scaled_dot_product_attention_with_logsumexp(&q, &k, &v, dropping(&added)).unwrap();
    let attend =
        |x: &Vec<Tensor>| scaled_dot_product_attention(&x[0], &x[1], &x[2], dropping(&x[3]));
    tried.compare("scaled_dot_product_attention", &all, attend, |g, _| {
        let (inputs, outputs) = ([&q, &k, &v], [&output, &sums]);
        let (dq, dk, dv, dmask) =
            scaled_dot_product_attention_backward(g, inputs, outputs, dropping(&added))?;
        Ok(vec![dq, dk, dv, dmask.unwrap()])
    });
    let (x, weight, bias) = (normal(1, &[2, 4, 7]), normal(2, &[6, 2, 3]), normal(3, &[6]));
    let all = [x.clone(), weight.clone(), bias.clone()];
    tried.compare(
        "conv1d",
        &all,
        |x| conv1d(&x[0], &x[1], Some(&x[2]), ConvOptions::new().stride(2).padding(1).groups(2)),
        |g, _| {
            Ok(triple(conv1d_backward(
                g,
                &x,
                &weight,
                ConvOptions::new().stride(2).padding(1).groups(2),
            )?))
        },
    );
    let (x, weight) = (normal(1, &[2, 4, 7, 6]), normal(2, &[6, 2, 3, 2]));
    let all = [x.clone(), weight.clone(), bias.clone()];
    let f = |x: &Vec<Tensor>| {
        conv2d(
            &x[0],
            &x[1],
            Some(&x[2]),
            ConvOptions::new().stride([2, 1]).padding([1, 0]).dilation([1, 2]).groups(2),
        )
    };
    tried.compare("conv2d", &all, f, |g, _| {
        Ok(triple(conv2d_backward(
            g,
            &x,
            &weight,
            ConvOptions::new().stride([2, 1]).padding([1, 0]).dilation([1, 2]).groups(2),
        )?))
    });
    let (weight, bias) = (normal(2, &[4, 3, 3, 2]), normal(3, &[6]));
    let all = [x.clone(), weight.clone(), bias];
    let options = ConvOptions::new().stride([2, 1]).padding([1, 0]).dilation([1, 2]).groups(2);
    let options = options.output_padding([1, 0]);
    let f = |x: &Vec<Tensor>| conv_transpose2d(&x[0], &x[1], &x[2], options);
    tried.compare("conv_transpose2d", &all, f, |g, _| {
        let found = conv_transpose2d_backward(g, &x, &weight, options)?;
        Ok(triple(found))
    });
    let (x, weight, bias) = (normal(1, &[2, 4, 7]), normal(2, &[4, 3, 3]), normal(3, &[6]));
    let all = [x.clone(), weight.clone(), bias];
    let options = ConvOptions::new().stride(2).padding(1).groups(2).output_padding(1);
    let f = |x: &Vec<Tensor>| conv_transpose1d(&x[0], &x[1], &x[2], options);
    tried.compare("conv_transpose1d", &all, f, |g, _| {
        Ok(triple(conv_transpose1d_backward(g, &x, &weight, options)?))
    });
    let (x, bias) = (normal(1, &[2, 4, 5, 4, 3]), normal(3, &[6]));
    let weight = normal(2, &[6, 2, 3, 2, 2]);
    let all = [x.clone(), weight.clone(), bias.clone()];
    let options = Conv3dOptions::new().stride([2, 1, 1]).padding([1, 0, 1]).groups(2);
    let f = |x: &Vec<Tensor>| conv3d(&x[0], &x[1], &x[2], options);
    tried.compare("conv3d", &all, f, |g, _| Ok(triple(conv3d_backward(g, &x, &weight, options)?)));
    let weight = normal(2, &[4, 3, 3, 2, 2]);
    let all = [x.clone(), weight.clone(), bias];
    let options = options.output_padding([1, 0, 0]);
    let f = |x: &Vec<Tensor>| conv_transpose3d(&x[0], &x[1], &x[2], options);
    tried.compare("conv_transpose3d", &all, f, |g, _| {
        Ok(triple(conv_transpose3d_backward(g, &x, &weight, options)?))
    });
    let x = normal(1, &[2, 3, 5, 6]);
    let (one, shape) = ([x.clone()], x.shape().to_vec());
    let options = ConvOptions::new().stride([2, 1]).padding(1).dilation([1, 2]);
    tried.compare(
        "unfold",
        &one,
        |x| unfold(&x[0], [3, 2], options),
        |g, _| Ok(vec![unfold_backward(g, &shape, [3, 2], options)?]),
    );
    let windows = unfold(&x, [3, 2], options).unwrap();
    let list = windows.shape().to_vec();
    tried.compare(
        "fold",
        std::slice::from_ref(&windows),
        |x| fold(&x[0], [5, 6], [3, 2], options),
        |g, _| Ok(vec![fold_backward(g, &list, [5, 6], [3, 2], options)?]),
    );
    for mode in [Interpolation::Nearest, Interpolation::Linear, Interpolation::Cubic] {
        let options = InterpolateOptions::new().size([3, 8]).mode(mode);
        tried.compare(
            "interpolate",
            &one,
            |x| interpolate(&x[0], options.clone()),
            |g, _| Ok(vec![interpolate_backward(g, &shape, options.clone())?]),
        );
    }
    let (image, grid) = (normal(3, &[2, 3, 4, 5]), random(4, &[2, 2, 3, 2], -1.2, 1.2));
    for mode in [Interpolation::Nearest, Interpolation::Linear, Interpolation::Cubic] {
        let options = GridSampleOptions::new().mode(mode).padding_mode(GridPadding::Border);
        tried.compare(
            "grid_sample",
            &[image.clone(), grid.clone()],
            |x| grid_sample(&x[0], &x[1], options),
            |g, _| {
                let (dx, dgrid) = grid_sample_backward(g, &image, &grid, options)?;
                Ok(vec![dx, dgrid])
            },
        );
    }
}

fn windows(tried: &mut Tried) {
    let x = normal(1, &[2, 3, 7, 6]);
    let (one, shape) = ([x.clone()], x.shape().to_vec());
    let (_, places) =
        maxpool2d_with_indices(&x, PoolOptions::new([3, 2]).stride([2, 1]).padding([1, 0]))
            .unwrap();
    tried.compare(
        "maxpool2d",
        &one,
        |x| maxpool2d(&x[0], PoolOptions::new([3, 2]).stride([2, 1]).padding([1, 0])),
        |g, _| {
            Ok(vec![maxpool2d_backward(
                g,
                &places,
                &shape,
                PoolOptions::new([3, 2]).stride([2, 1]).padding([1, 0]),
            )?])
        },
    );
    tried.compare(
        "avgpool2d",
        &one,
        |x| avgpool2d(&x[0], PoolOptions::new([3, 2]).stride([2, 1]).padding([1, 0])),
        |g, _| {
            Ok(vec![avgpool2d_backward(
                g,
                &shape,
                PoolOptions::new([3, 2]).stride([2, 1]).padding([1, 0]),
            )?])
        },
    );
    tried.compare(
        "global_avgpool2d",
        &one,
        |x| global_avgpool2d(&x[0]),
        |g, _| Ok(vec![global_avgpool2d_backward(g, &shape)?]),
    );
    tried.compare(
        "adaptive_avgpool2d",
        &one,
        |x| adaptive_avgpool2d(&x[0], [3, 4]),
        |g, _| Ok(vec![adaptive_avgpool2d_backward(g, &shape, [3, 4])?]),
    );
    let (_, places) = adaptive_maxpool2d_with_indices(&x, [3, 4]).unwrap();
    tried.compare(
        "adaptive_maxpool2d",
        &one,
        |x| adaptive_maxpool2d(&x[0], [3, 4]),
        |g, _| Ok(vec![adaptive_maxpool2d_backward(g, &places, &shape, [3, 4])?]),
    );
    let x = normal(4, &[2, 3, 9]);
    let (one, shape) = ([x.clone()], x.shape().to_vec());
    let options = PoolOptions::new(3).stride(2).padding(1).ceil_mode(true);
    let (_, places) = maxpool1d_with_indices(&x, options).unwrap();
    tried.compare(
        "maxpool1d",
        &one,
        |x| maxpool1d(&x[0], options),
        |g, _| Ok(vec![maxpool1d_backward(g, &places, &shape, options)?]),
    );
    tried.compare(
        "avgpool1d",
        &one,
        |x| avgpool1d(&x[0], options.count_include_pad(false)),
        |g, _| Ok(vec![avgpool1d_backward(g, &shape, options.count_include_pad(false))?]),
    );
    tried.compare(
        "adaptive_avgpool1d",
        &one,
        |x| adaptive_avgpool1d(&x[0], 4),
        |g, _| Ok(vec![adaptive_avgpool1d_backward(g, &shape, 4)?]),
    );
    let (_, places) = adaptive_maxpool1d_with_indices(&x, 4).unwrap();
    tried.compare(
        "adaptive_maxpool1d",
        &one,
        |x| adaptive_maxpool1d(&x[0], 4),
        |g, _| Ok(vec![adaptive_maxpool1d_backward(g, &places, &shape, 4)?]),
    );
    let x = normal(5, &[2, 2, 5, 4, 6]);
    let (one, shape) = ([x.clone()], x.shape().to_vec());
    let options = Pool3dOptions::new([3, 2, 2]).stride([2, 1, 2]).padding([1, 0, 1]);
    let (_, places) = maxpool3d_with_indices(&x, options).unwrap();
    tried.compare(
        "maxpool3d",
        &one,
        |x| maxpool3d(&x[0], options),
        |g, _| Ok(vec![maxpool3d_backward(g, &places, &shape, options)?]),
    );
    tried.compare(
        "avgpool3d",
        &one,
        |x| avgpool3d(&x[0], options.divisor_override(7)),
        |g, _| Ok(vec![avgpool3d_backward(g, &shape, options.divisor_override(7))?]),
    );
    tried.compare(
        "adaptive_avgpool3d",
        &one,
        |x| adaptive_avgpool3d(&x[0], [2, 3, 4]),
        |g, _| Ok(vec![adaptive_avgpool3d_backward(g, &shape, [2, 3, 4])?]),
    );
    let (_, places) = adaptive_maxpool3d_with_indices(&x, [2, 3, 4]).unwrap();
    tried.compare(
        "adaptive_maxpool3d",
        &one,
        |x| adaptive_maxpool3d(&x[0], [2, 3, 4]),
        |g, _| Ok(vec![adaptive_maxpool3d_backward(g, &places, &shape, [2, 3, 4])?]),
    );
}

fn norms(tried: &mut Tried) {
    let triple = |(a, b, c)| vec![a, b, c];
    let (x, gamma, beta) = (normal(1, &[2, 4, 3, 2]), normal(2, &[4]), normal(3, &[4]));
    let all = [x.clone(), gamma.clone(), beta.clone()];
    let running = (normal(4, &[4]), random(5, &[4], 0.5, 2.0));
    for training in [true, false] {
        let call = |x: &[Tensor]| {
            let running = Some((&running.0, &running.1));
            batch_norm2d(
                &x[0],
                &x[1],
                &x[2],
                BatchNormOptions::new().running(running).training(training).momentum(0.2).eps(1e-3),
            )
        };
        let saved = call(&all).unwrap();
        tried.compare(
            "batch_norm2d",
            &all,
            |x| Ok(call(x)?.output),
            |g, _| {
                let BatchNorm { saved_mean, saved_rstd, .. } = &saved;
                let found = batch_norm2d_backward(
                    g,
                    &x,
                    &gamma,
                    saved_mean,
                    saved_rstd,
                    BatchNormOptions::new().training(training),
                )?;
                Ok(triple(found))
            },
        );
    }
    let f = |x: &Vec<Tensor>| group_norm(&x[0], Some(&x[1]), Some(&x[2]), 2, 1e-3);
    tried.compare("group_norm", &all, f, |g, _| {
        Ok(triple(group_norm_backward(g, &x, Some(&gamma), 2, 1e-3)?))
    });
    let f = |x: &Vec<Tensor>| instance_norm(&x[0], Some(&x[1]), Some(&x[2]), 1e-3);
    tried.compare("instance_norm", &all, f, |g, _| {
        Ok(triple(instance_norm_backward(g, &x, Some(&gamma), 1e-3)?))
    });
    let (gamma, beta) = (normal(2, &[3, 2]), normal(3, &[3, 2]));
    let all = [x.clone(), gamma.clone(), beta];
    let f = |x: &Vec<Tensor>| layer_norm(&x[0], Some(&x[1]), Some(&x[2]), &[3, 2], 1e-3);
    tried.compare("layer_norm", &all, f, |g, _| {
        Ok(triple(layer_norm_backward(g, &x, Some(&gamma), &[3, 2], 1e-3)?))
    });
    let rows = normal(4, &[3, 4]);
    for p in [2.0, 1.0, 3.0, f64::INFINITY] {
        let options = NormalizeOptions::new().p(p).axis(0);
        tried.compare(
            "normalize",
            std::slice::from_ref(&rows),
            |x| normalize(&x[0], options),
            |g, _| Ok(vec![normalize_backward(g, &rows, options)?]),
        );
    }
    let f = |x: &Vec<Tensor>| rms_norm(&x[0], Some(&x[1]), &[3, 2], 1e-3);
    tried.compare("rms_norm", &all[..2], f, |g, _| {
        let (dx, dgamma) = rms_norm_backward(g, &x, Some(&gamma), &[3, 2], 1e-3)?;
        Ok(vec![dx, dgamma])
    });
}

fn losses(tried: &mut Tried) {
    let pair = |(a, b)| vec![a, b];
    let (x, t) = (random(1, &[4, 3], 0.1, 0.9), random(2, &[4, 3], 0.1, 0.9));
    let both = [x.clone(), t.clone()];
    for how in [Reduce::None, Reduce::Mean, Reduce::Sum] {
        macro_rules! of_both {
            ($($f:ident $back:ident [$options:expr];)*) => {$(
                let f = |x: &Vec<Tensor>| $f(&x[0], &x[1], $options);
                tried.compare(stringify!($f), &both, f, |g, _| {
                    Ok(pair($back(g, &x, &t, $options)?))
                });
            )*};
        }
        of_both! {
            mean_squared_error mean_squared_error_backward [how];
            mean_absolute_error mean_absolute_error_backward [how];
            smooth_l1_loss smooth_l1_loss_backward [SmoothL1Options::new().beta(0.3).reduction(how)];
            huber_loss huber_loss_backward [HuberOptions::new().delta(0.2).reduction(how)];
            binary_cross_entropy binary_cross_entropy_backward [how];
            binary_cross_entropy_with_logits binary_cross_entropy_with_logits_backward [how];
            kl_divergence kl_divergence_backward [how];
            kl_divergence kl_divergence_backward [KlDivergenceOptions::new().log_target(true).reduction(how)];
            poisson_nll_loss poisson_nll_loss_backward [PoissonNllOptions::new().full(true).reduction(how)];
        }
        let var = random(9, &[4, 3], 0.3, 0.9);
        let options = GaussianNllOptions::new().eps(0.01).reduction(how);
        tried.compare(
            "gaussian_nll_loss",
            &[x.clone(), t.clone(), var.clone()],
            |v| gaussian_nll_loss(&v[0], &v[1], &v[2], options),
            |g, _| {
                let (dx, dt, dv) = gaussian_nll_loss_backward(g, &x, &t, &var, options)?;
                Ok(vec![dx, dt, dv])
            },
        );
        let signs = tensor([[1.0, -1.0, 1.0], [-1.0; 3], [1.0; 3], [1.0, 1.0, -1.0]]);
        let options = MarginRankingOptions::new().margin(0.1).reduction(how);
        tried.compare(
            "margin_ranking_loss",
            &both,
            |v| margin_ranking_loss(&v[0], &v[1], &signs, options),
            |g, _| Ok(pair(margin_ranking_loss_backward(g, &x, &t, &signs, options)?)),
        );
        let (weight, classes) = (tensor([0.5, 1.0, 2.0]), tensor([2i64, -100, 0, 1]));
        let options = NllOptions::new().weight(&weight).ignore_index(-100).reduction(how);
        tried.compare(
            "nll_loss",
            std::slice::from_ref(&x),
            |v| nll_loss(&v[0], &classes, options),
            |g, _| Ok(vec![nll_loss_backward(g, &classes, x.shape(), options)?]),
        );
        let says = random(10, &[5, 2, 3], -3.0, 0.0);
        let (said, steps, counts) =
            (tensor([[1i64, 1], [0, 1]]), tensor([5i64, 3]), tensor([2i64, 1]));
        let options = CtcOptions::new().blank(2).reduction(how);
        tried.compare(
            "ctc_loss",
            std::slice::from_ref(&says),
            |x| ctc_loss(&x[0], &said, &steps, &counts, options),
            |g, _| Ok(vec![ctc_loss_backward(g, &says, &said, &steps, &counts, options)?]),
        );
        let labels = tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]);
        let one = [x.clone()];
        tried.compare(
            "hinge_loss",
            &one,
            |x| hinge_loss(&x[0], &labels, how),
            |g, _| Ok(vec![hinge_loss_backward(g, &x, &labels, how)?]),
        );
        tried.compare(
            "focal_loss",
            &one,
            |x| {
                focal_loss(&x[0], &labels, FocalOptions::new().alpha(0.3).gamma(1.7).reduction(how))
            },
            |g, _| {
                Ok(vec![focal_loss_backward(
                    g,
                    &x,
                    &labels,
                    FocalOptions::new().alpha(0.3).gamma(1.7).reduction(how),
                )?])
            },
        );
        tried.compare(
            "cross_entropy",
            &both,
            |x| {
                cross_entropy(
                    &x[0],
                    &x[1],
                    CrossEntropyOptions::new().label_smoothing(0.1).reduction(how),
                )
            },
            |g, _| {
                let (dx, dt) = cross_entropy_backward(
                    g,
                    &x,
                    &t,
                    CrossEntropyOptions::new().label_smoothing(0.1).reduction(how),
                )?;
                Ok(vec![dx, dt.unwrap()])
            },
        );
        let classes = tensor([2i64, 0, 1, 1]);
        let f = |x: &Vec<Tensor>| {
            cross_entropy(
                &x[0],
                &classes,
                CrossEntropyOptions::new().label_smoothing(0.1).reduction(how),
            )
        };
        tried.compare("cross_entropy", &one, f, |g, _| {
            let (dx, dt) = cross_entropy_backward(
                g,
                &x,
                &classes,
                CrossEntropyOptions::new().label_smoothing(0.1).reduction(how),
            )?;
            assert!(dt.is_none());
            Ok(vec![dx])
        });
    }
}

fn decompositions(tried: &mut Tried) {
    let noise = normal(1, &[2, 3, 3]);
    let eye = Tensor::eye(3, 3, DType::F64).unwrap();
    let a = &noise + &tensor([[3.0, 0.0, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 8.0]]);
    let b = normal(2, &[2, 3, 2]);
    let even = add(&matmul(&a, &matrix_transpose(&a).unwrap()).unwrap(), &eye).unwrap();
    let (one, two) = ([a.clone()], [a.clone(), b.clone()]);
    let alone = |grad: Result<Tensor>| Ok(vec![grad?]);
    let pair = |(da, db)| vec![da, db];
    tried.compare(
        "cholesky",
        std::slice::from_ref(&even),
        |x| cholesky(&x[0], Triangle::Upper),
        |g, y| alone(cholesky_backward(g, y, Triangle::Upper)),
    );
    let options = TriangularOptions::new().upper(true).transposed(true);
    tried.compare(
        "solve_triangular",
        &two,
        |x| solve_triangular(&x[0], &x[1], options),
        |g, y| Ok(pair(solve_triangular_backward(g, &a, &b, y, options)?)),
    );
    let back = |g: &Tensor, y: &Tensor| Ok(pair(solve_backward(g, &a, &b, y)?));
    tried.compare("solve", &two, |x| solve(&x[0], &x[1]), back);
    tried.compare("inv", &one, |x| inv(&x[0]), |g, y| alone(inv_backward(g, y)));
    tried.compare("det", &one, |x| det(&x[0]), |g, _| alone(det_backward(g, &a)));
    tried.compare("expm", &one, |x| expm(&x[0]), |g, _| alone(expm_backward(g, &a)));
    let back = |g: &Tensor, _: &Tensor| alone(eigvalsh_backward(g, &a));
    tried.compare("eigvalsh", &one, |x| eigvalsh(&x[0]), back);
    let back = |g: &Tensor, _: &Tensor| alone(svdvals_backward(g, &a));
    tried.compare("svdvals", &one, |x| svdvals(&x[0]), back);
    let back = |g: &Tensor, y: &Tensor| alone(pinv_backward(g, &a, y, 1e-8));
    tried.compare("pinv", &one, |x| pinv(&x[0], 1e-8), back);
    // Of several results, one after the other, times weights that tell them apart.
    let f = |x: &Vec<Tensor>| {
        let (sign, log) = slogdet(&x[0])?;
        add(&sign, &log)
    };
    let back = |g: &Tensor, _: &Tensor| alone(slogdet_backward(&[g, g], &a));
    tried.compare("slogdet", &one, f, back);
    let weights = [5, 6].map(|seed| normal(seed, &[3, 3]));
    let join = |parts: [&Tensor; 2]| {
        add(&multiply(parts[0], &weights[0])?, &multiply(parts[1], &weights[1])?)
    };
    let f = |x: &Vec<Tensor>| {
        let (q, r) = qr(&x[0], Basis::Complete)?;
        join([&q, &r])
    };
    tried.compare("qr", &one, f, |g, _| {
        let (q, r) = qr(&a, Basis::Complete)?;
        let grads = [multiply(g, &weights[0])?, multiply(g, &weights[1])?];
        alone(qr_backward(&grads, &a, &[q, r], Basis::Complete))
    });
    let f = |x: &Vec<Tensor>| {
        let (w, v) = eigh(&x[0])?;
        join([&expand_dims(&w, -1)?, &v])
    };
    tried.compare("eigh", &one, f, |g, _| {
        let (w, v) = eigh(&a)?;
        let first = sum(&multiply(g, &weights[0])?, -1)?;
        alone(eigh_backward(&[first, multiply(g, &weights[1])?], &a, &[w, v]))
    });
    let f = |x: &Vec<Tensor>| {
        let (u, s, vh) = svd(&x[0], Basis::Reduced)?;
        add(&join([&u, &vh])?, &expand_dims(&s, -1)?)
    };
    tried.compare("svd", &one, f, |g, _| {
        let (u, s, vh) = svd(&a, Basis::Reduced)?;
        let [gu, gvh] = [multiply(g, &weights[0])?, multiply(g, &weights[1])?];
        let grads = [gu, sum(g, -1)?, gvh];
        alone(svd_backward(&grads, &a, &[u, s, vh], Basis::Reduced))
    });
}

#[test]
fn every_backward_function_gives_the_gradients_of_its_function() {
    let mut tried = Tried::default();
    for some in [elements, reductions, shapes, products, decompositions, windows, norms, losses] {
        some(&mut tried);
    }
    let all = catalogue::CATALOGUE.iter().filter_map(|record| record.backward);
    let all: BTreeSet<String> = all.map(|signature| signature.name.to_string()).collect();
    assert_eq!(tried.0, all);
}
