//! Attention in blocks of queries and keys, of sizes on either side of a block's.

use extensor::ops::*;
use extensor::*;

/// Averages, logarithms and gradients, by the causal flag or by a mask of the same keys.
fn all(inputs: [&Tensor; 3], g: &Tensor, mask: Option<&Tensor>) -> Result<Vec<Tensor>> {
    let [q, k, v] = inputs;
    let causal = mask.is_none();
    let (y, log) = scaled_dot_product_attention_with_logsumexp(
        q,
        k,
        v,
        AttentionOptions::new().mask(mask).causal(causal),
    )?;
    let (dq, dk, dv, _) = scaled_dot_product_attention_backward(
        g,
        inputs,
        [&y, &log],
        AttentionOptions::new().mask(mask).causal(causal),
    )?;
    Ok(vec![y, log, dq, dk, dv])
}

#[test]
fn causal_attention_is_attention_with_a_triangular_mask() -> Result<()> {
    for (queries, keys) in
        [(1, 1), (63, 64), (64, 64), (65, 40), (130, 300), (300, 130), (257, 600)]
    {
        let [a, b, c, d] = Key::new(5).split();
        let q = a.normal([2, queries, 8], DType::F64)?;
        let (k, v) = (b.normal([2, keys, 8], DType::F64)?, c.normal([2, keys, 5], DType::F64)?);
        let g = d.normal([2, queries, 5], DType::F64)?;
        let seen: Vec<bool> = (0..queries * keys).map(|at| at % keys <= at / keys).collect();
        let mask = Tensor::from_vec(seen, [queries, keys])?;
        let (by_flag, by_mask) =
            (all([&q, &k, &v], &g, None)?, all([&q, &k, &v], &g, Some(&mask))?);
        for (what, (a, b)) in
            ["averages", "logarithms", "dq", "dk", "dv"].iter().zip(by_flag.iter().zip(&by_mask))
        {
            let difference = a.difference(b, Tolerance::new(1e-12, 1e-12));
            assert!(difference.is_none(), "{what}, {queries} × {keys}: {difference:?}");
        }
    }
    Ok(())
}

#[test]
fn a_mask_of_minus_infinities_hides_as_one_of_bools_does() -> Result<()> {
    let [a, b, c, d] = Key::new(6).split();
    let (q, k) = (a.normal([2, 3, 4], DType::F64)?, b.normal([2, 5, 4], DType::F64)?);
    let (v, g) = (c.normal([2, 5, 6], DType::F64)?, d.normal([2, 3, 6], DType::F64)?);
    let mut seen = vec![true; 15];
    // The second query may look at nothing.
    [1, 4, 5, 6, 7, 8, 9, 12].into_iter().for_each(|at| seen[at] = false);
    let low = seen.iter().map(|&s| if s { 0.0 } else { f64::NEG_INFINITY }).collect();
    let (seen, low) = (Tensor::from_vec(seen, [3, 5])?, Tensor::from_vec::<f64>(low, [3, 5])?);
    let inputs = [&q, &k, &v];
    let (hidden, added) = (all(inputs, &g, Some(&seen))?, all(inputs, &g, Some(&low))?);
    for (a, b) in hidden.iter().zip(&added) {
        assert_eq!(a.difference(b, Tolerance::new(1e-12, 1e-12)).map(|_| ()), None);
    }
    let loss = |x: &Tensor| q.scaled_dot_product_attention(&k, &v, AttentionOptions::new().mask(x));
    let slope = autodiff::grad(|x: &Tensor| loss(x)?.square()?.sum(..), &low)?;
    for (slope, low) in slope.to_vec::<f64>()?.into_iter().zip(low.to_vec::<f64>()?) {
        assert!(slope.is_finite() && (low == 0.0 || slope == 0.0), "{slope} at {low}");
    }
    Ok(())
}

#[test]
fn dropped_weights_are_those_that_dropout_drops() -> Result<()> {
    let [a, b, c, key] = Key::new(7).split();
    let (q, k) = (a.normal([2, 3, 4], DType::F64)?, b.normal([2, 5, 4], DType::F64)?);
    let v = c.normal([2, 5, 6], DType::F64)?;
    let options = AttentionOptions::new().scale(1.0).dropout(0.4).key(key);
    let y = q.scaled_dot_product_attention(&k, &v, options)?;
    let weights = q.matmul(&k.transpose([0, 2, 1])?)?.softmax(-1)?;
    let want = weights.dropout(0.4, key)?.0.matmul(&v)?;
    assert!(y.difference(&want, Tolerance::new(1e-12, 1e-12)).is_none());
    let again = q.scaled_dot_product_attention(&k, &v, options)?;
    assert_eq!(y.to_vec::<f64>()?, again.to_vec::<f64>()?);
    // Each example of a batch drops its own, by the same key or by keys of their own.
    let one = |i: i64, x: &Tensor| x.slice(0, i, i + 1, 1)?.reshape(&x.shape()[1..]);
    let mapped = autodiff::vmap(
        |(q, k, v): &(Tensor, Tensor, Tensor)| q.scaled_dot_product_attention(k, v, options),
        &(q.clone(), k.clone(), v.clone()),
    )?;
    let keys = autodiff::vmap(
        |(q, k, v, key): &(Tensor, Tensor, Tensor, Key)| {
            let options = AttentionOptions::new().scale(1.0).dropout(0.4).key(*key);
            q.scaled_dot_product_attention(k, v, options)
        },
        &(q.clone(), k.clone(), v.clone(), key),
    )?;
    for i in 0..2 {
        let options = options.key(key.fold_in(i as u64));
        let want = one(i, &q)?.scaled_dot_product_attention(&one(i, &k)?, &one(i, &v)?, options)?;
        for got in [&mapped, &keys] {
            let got = one(i, got)?;
            assert!(got.difference(&want, Tolerance::new(1e-12, 1e-12)).is_none(), "{i}");
        }
    }
    Ok(())
}
