//! Backward functions of what moves elements, and takes and puts them.

use super::{Tried, normal};
use extensor::ops::*;
use extensor::*;

pub fn shapes(tried: &mut Tried) {
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
