//! Backward functions of convolutions, pooling, normalization, attention and losses.

use super::{Tried, normal, random};
use extensor::ops::*;
use extensor::*;

pub fn windows(tried: &mut Tried) {
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

pub fn norms(tried: &mut Tried) {
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

pub fn losses(tried: &mut Tried) {
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
