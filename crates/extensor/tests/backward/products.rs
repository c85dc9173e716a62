//! Backward functions of products and decompositions of matrices.

use super::{Tried, normal, random};
use extensor::ops::*;
use extensor::*;

pub fn products(tried: &mut Tried) {
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

pub fn decompositions(tried: &mut Tried) {
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
