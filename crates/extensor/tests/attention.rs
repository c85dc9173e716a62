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
