//! Calls at which attention is tested, and calls that must fail.

use crate::ops::params::Params;
use crate::ops::samples::{Bad, Sampler};
use crate::{DType, Shape, Tensor};

pub(super) fn samples(s: &mut Sampler) {
    let causal = |causal: bool| Params::new().with("causal", causal);
    let shapes: [(&[usize], [usize; 4]); 7] = [
        (&[2, 2], [5, 5, 4, 4]),
        (&[], [3, 4, 2, 5]),
        (&[3], [4, 2, 3, 1]),
        (&[2], [1, 1, 1, 1]),
        (&[0, 2], [3, 3, 2, 2]),
        (&[2], [0, 3, 2, 2]),
        (&[2], [3, 2, 2, 0]),
    ];
    for (outer, [queries, keys, width, value_width]) in shapes {
        let shape = |last: [usize; 2]| [outer, &last].concat();
        for is_causal in [false, true] {
            let q = s.normal(&shape([queries, width]));
            let k = s.normal(&shape([keys, width]));
            let v = s.normal(&shape([keys, value_width]));
            s.add([q.clone(), k.clone(), v.clone()], causal(is_causal));
            let first = Shape::from([queries, keys]);
            let mask = with_first(s, &first);
            s.add([q, k, v, mask], causal(is_causal).with("scale", 0.7));
        }
    }
    // Each head of keys and values for two or three of queries, one for all, one batch for all.
    let served: [[&[usize]; 3]; 5] = [
        [&[2, 4], &[2, 2], &[2, 2]],
        [&[2, 6], &[1, 2], &[2, 3]],
        [&[3], &[1], &[3]],
        [&[2, 3], &[2, 1], &[1, 1]],
        [&[0, 4], &[0, 2], &[1, 2]],
    ];
    for (i, [a, b, c]) in served.into_iter().enumerate() {
        let q = s.normal(&[a, &[3, 2]].concat());
        let (k, v) = (s.normal(&[b, &[4, 2]].concat()), s.normal(&[c, &[4, 3]].concat()));
        if i % 2 == 0 {
            s.add_noted([q, k, v], causal(true), "fewer heads of keys and values");
        } else {
            let mask = with_first(s, &Shape::from([3, 4]));
            s.add_noted([q, k, v, mask], causal(false), "fewer heads of keys and values");
        }
    }
    // More keys, queries and both than a block has.
    let (q, k, v) = (s.normal(&[2, 1]), s.normal(&[258, 1]), s.normal(&[258, 1]));
    s.add_noted([q, k, v], causal(false), "several blocks of keys");
    let (q, k, v) = (s.normal(&[130, 1]), s.normal(&[3, 1]), s.normal(&[3, 1]));
    s.add_noted([q, k, v], causal(true), "several blocks of queries");
    let (q, k, v) = (s.normal(&[131, 2]), s.normal(&[259, 2]), s.normal(&[259, 1]));
    s.add_large([q, k, v], causal(true), "several blocks of both");
    let (q, k, v) = (s.normal(&[3, 70, 9]), s.normal(&[3, 300, 9]), s.normal(&[3, 300, 5]));
    s.add_large([q, k, v], causal(false), "several blocks of both, on threads");
    let (q, k, v) = (s.normal(&[2, 3, 2]), s.normal(&[2, 4, 2]), s.normal(&[2, 4, 3]));
    let mask = with_first(s, &Shape::from([2, 1, 4]));
    s.add_noted([q.clone(), k.clone(), v.clone(), mask], causal(false), "a mask for all queries");
    let hidden = crate::tensor([[true, false, true, true], [false; 4], [true; 4]]);
    s.add_noted([q, k, v, hidden], causal(false), "a query that may attend to nothing");
    let (q, k, v) = (s.normal(&[3, 2]), s.normal(&[0, 2]), s.normal(&[0, 3]));
    s.add_noted([q, k, v], causal(false), "nothing to attend to");
    added(s);
    let (q, k) =
        (crate::tensor([[100.0, 0.0], [0.0, -90.0]]), crate::tensor([[9.0, 1.0], [8.0, 3.0]]));
    s.add_far([q, k, crate::tensor([[1.0], [2.0]])], causal(false), "large scores");
}

/// Masks that are added to the scores, and weights that are dropped.
fn added(s: &mut Sampler) {
    let causal = |causal: bool| Params::new().with("causal", causal);
    let shapes: [&[usize]; 5] = [&[2, 2, 3, 4], &[2, 1, 3, 4], &[4], &[3, 4], &[2, 1, 1, 4]];
    for (i, shape) in shapes.into_iter().enumerate() {
        let (q, k, v) = (s.normal(&[2, 2, 3, 2]), s.normal(&[2, 2, 4, 2]), s.normal(&[2, 2, 4, 3]));
        let mask = s.normal(shape);
        s.add_noted([q, k, v, mask], causal(i % 2 == 1), "a mask that is added");
    }
    let (q, k, v) = (s.normal(&[2, 4, 3, 2]), s.normal(&[2, 2, 4, 2]), s.normal(&[1, 2, 4, 3]));
    let mask = s.normal(&[4, 3, 4]);
    s.add_noted([q, k, v, mask], causal(false).with("scale", 0.7), "added, with fewer heads");
    let (q, k, v) = (s.normal(&[2, 3, 2]), s.normal(&[2, 4, 2]), s.normal(&[2, 4, 3]));
    let low = crate::tensor([[0.3, -1e30, 0.0, -1e30]]);
    s.add_far([q, k, v, low], causal(true), "added, and nearly hidden");
    for (outer, [queries, keys]) in
        [(&[2, 2][..], [3, 4]), (&[], [4, 3]), (&[2], [0, 3]), (&[2], [3, 0]), (&[0], [2, 2])]
    {
        let shape = |last: [usize; 2]| [outer, &last].concat();
        for p in [0.3, 0.8] {
            let (q, k) = (s.normal(&shape([queries, 2])), s.normal(&shape([keys, 2])));
            let v = s.normal(&shape([keys, 3]));
            let params = causal(p > 0.5).with("dropout", p).with("key", 7);
            s.add_noted([q.clone(), k.clone(), v.clone()], params.clone(), "some dropped");
            if outer.len() == 2 {
                let (mask, added) = (with_first(s, &[queries, keys].into()), s.normal(&[keys]));
                let inputs = [q.clone(), k.clone(), v.clone(), mask];
                s.add_noted(inputs, params.clone(), "a mask, and some dropped");
                s.add_noted([q, k, v, added], params, "added, and some dropped");
            }
        }
    }
    let (q, k, v) = (s.normal(&[2, 70, 9]), s.normal(&[2, 130, 9]), s.normal(&[2, 130, 5]));
    let mask = s.normal(&[70, 130]);
    let params = causal(false).with("dropout", 0.1).with("key", 3);
    s.add_large([q, k, v, mask], params, "added, and some dropped, of many");
}

/// A mask in which every query may attend to the first key.
fn with_first(s: &mut Sampler, shape: &Shape) -> Tensor {
    let keys = shape.last().copied().unwrap_or(1).max(1);
    let drawn = s.mask(shape).to_f64_vec().into_iter().enumerate();
    let mask = drawn.map(|(i, v)| i % keys == 0 || v != 0.0).collect::<Vec<bool>>();
    match Tensor::from_vec(mask, shape.clone()) {
        Ok(mask) => mask,
        Err(error) => panic!("a sample cannot be made: {error}"),
    }
}

pub(super) fn errors(bad: &mut Bad) {
    let ones = |shape: &[usize]| bad.ones(shape, DType::F64);
    let (q, k, v) = (ones(&[2, 3, 4]), ones(&[2, 5, 4]), ones(&[2, 5, 6]));
    let (vector, narrow) = (ones(&[4]), ones(&[2, 5, 3]));
    let (single, short) = (ones(&[5, 4]), ones(&[2, 4, 6]));
    let (whole, mask) = (bad.ones(&[2, 3, 4], DType::I64), bad.ones(&[3, 4], DType::Bool));
    let whole_mask = bad.ones(&[3, 5], DType::I64);
    let (soft, heads, part) = (ones(&[3, 4]), ones(&[6, 3, 4]), ones(&[4, 5, 4]));
    let none = Params::new;
    bad.add(
        [vector, k.clone(), v.clone()],
        none(),
        "q has shape [4], expected […, queries, width]",
    );
    let message = "k has shape [2, 5, 3], expected [2, keys, 4]";
    bad.add([q.clone(), narrow, v.clone()], none(), message);
    let message = "k has shape [5, 4], expected [2, keys, 4]";
    bad.add([q.clone(), single, v.clone()], none(), message);
    let message = "k has shape [4, 5, 4], expected [6, keys, 4]";
    bad.add([heads, part, v.clone()], none(), message);
    let message = "v has shape [2, 4, 6], expected [2, 5, value width]";
    bad.add([q.clone(), k.clone(), short], none(), message);
    bad.add([whole, k.clone(), v.clone()], none(), "q has dtype i64, expected a float type");
    let inputs = [q.clone(), k.clone(), v.clone(), mask];
    bad.add(inputs, none(), "mask has shape [3, 4], expected one that broadcasts to [2, 3, 5]");
    let inputs = [q.clone(), k.clone(), v.clone(), soft];
    bad.add(inputs, none(), "mask has shape [3, 4], expected one that broadcasts to [2, 3, 5]");
    let inputs = [q.clone(), k.clone(), v.clone(), whole_mask];
    bad.add(inputs, none(), "mask has dtype i64, expected bool or a float type");
    let inputs = [q.clone(), k.clone(), v.clone()];
    let message = "dropout is 1.0, expected a number from 0 up to but without 1";
    bad.add(inputs.clone(), none().with("dropout", 1.0).with("key", 1), message);
    bad.add(inputs, none().with("dropout", 0.5), "key is None, expected a key, for dropout");
    let scale = none().with("scale", f64::INFINITY);
    bad.add([q, k, v], scale, "scale is inf, expected a finite number");
}
