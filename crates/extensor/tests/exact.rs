//! Derivatives are exact wherever the function is differentiable, in every order and both modes, and
//! a convention only at a singular point (rules 6, 8 and 13 of the operations' specification).

use extensor::autodiff::{grad, hessian, jvp};
use extensor::ops::*;
use extensor::*;

type Function = fn(&Tensor) -> Result<Tensor>;

/// The derivative of a function of one number, `order` times by reverse mode.
fn reverse(f: &dyn Fn(&Tensor) -> Result<Tensor>, order: usize, x: &Tensor) -> Result<Tensor> {
    match order {
        0 => f(x),
        _ => grad(|x: &Tensor| reverse(f, order - 1, x), x),
    }
}

/// Likewise by forward mode.
fn forward(f: &dyn Fn(&Tensor) -> Result<Tensor>, order: usize, x: &Tensor) -> Result<Tensor> {
    match order {
        0 => f(x),
        _ => Ok(jvp(|x: &Tensor| forward(f, order - 1, x), x, &x.ones_like()?)?.1),
    }
}

/// The derivative in `f64`, the same by both modes.
fn derivative(f: &dyn Fn(&Tensor) -> Result<Tensor>, order: usize, x: f64) -> f64 {
    in_dtype(f, order, x, DType::F64)
}

fn in_dtype(f: &dyn Fn(&Tensor) -> Result<Tensor>, order: usize, x: f64, dtype: DType) -> f64 {
    let x = Tensor::scalar_of(x, dtype).unwrap();
    let [a, b] = [reverse, forward].map(|mode| mode(f, order, &x).unwrap().to_f64_vec()[0]);
    let close = a == b || (a - b).abs() <= 1e-14 * a.abs() || a.is_nan() && b.is_nan();
    assert!(close, "{dtype}, order {order}: {a} by reverse mode, {b} by forward mode");
    a
}

#[track_caller]
fn close(got: f64, want: f64) {
    let equal = got == want || (got - want).abs() <= 1e-14 * want.abs();
    assert!(equal || got.is_nan() && want.is_nan(), "{got:?}, expected {want:?}");
}

#[test]
fn smooth_functions_have_their_second_and_third_derivatives_at_0() {
    for zero in [0.0, -0.0] {
        close(derivative(&swish, 2, zero), 0.5);
        close(derivative(&swish, 3, zero), 0.0);
        close(derivative(&mish, 2, zero), 0.64);
        close(derivative(&mish, 3, zero), -0.096);
        close(derivative(&|x| gelu(x, Approximate::Tanh), 2, zero), 0.797_884_560_802_865_4);
        close(derivative(&|x| gelu(x, Approximate::None), 2, zero), 0.797_884_560_802_865_4);
        close(derivative(&|x| softplus(x, 1.0), 2, zero), 0.25);
        close(derivative(&|x| softplus(x, 3.0), 2, zero), 0.75);
        close(derivative(&tanhshrink, 3, zero), 2.0);
        close(derivative(&log_sigmoid, 2, zero), -0.25);
        for target in [0.0, 1.0, 0.3] {
            let t = tensor(target);
            let logits = |x: &Tensor| binary_cross_entropy_with_logits(x, &t, Reduce::Sum);
            close(derivative(&logits, 2, zero), 0.25);
            close(derivative(&logits, 3, zero), 0.0);
        }
        let label = tensor(1.0);
        let focal = |x: &Tensor| {
            focal_loss(x, &label, FocalOptions::new().alpha(0.25).gamma(2.0).reduction(Reduce::Sum))
        };
        close(derivative(&focal, 2, zero), 0.099_785_849_392_498_3);
    }
}

#[test]
fn the_hessian_of_logistic_regression_at_0_is_not_0() {
    let (x, t) = (tensor([[1.0, 2.0], [3.0, -1.0]]), tensor([1.0, 0.0]));
    let loss = |w: &Tensor| binary_cross_entropy_with_logits(&matmul(&x, w)?, &t, Reduce::Sum);
    let h = hessian(loss, &tensor([0.0, 0.0])).unwrap();
    assert_eq!(h.to_f64_vec(), [2.5, -0.25, -0.25, 1.25]);
}

#[test]
fn small_denominators_are_what_they_are() {
    let k = 1.380649e-23;
    let energy = |e: &Tensor| divide(e, &tensor(k));
    close(derivative(&energy, 1, 1.0), 1.0 / k);
    for x in [1e-300, 1e-20, 3e-11] {
        close(derivative(&log, 1, x), 1.0 / x);
        close(derivative(&log2, 1, x), 1.0 / x / std::f64::consts::LN_2);
        close(derivative(&log10, 1, x), 1.0 / x / std::f64::consts::LN_10);
        close(derivative(&sqrt, 1, x), 0.5 / x.sqrt());
        close(derivative(&rsqrt, 1, x), -0.5 / x.sqrt() / x);
        close(derivative(&reciprocal, 1, x), -1.0 / x / x);
        close(derivative(&|x| power(x, &tensor(0.5)), 1, x), 0.5 / x.sqrt());
        close(derivative(&|x| power(x, &tensor(-1.0)), 1, x), -1.0 / x / x);
    }
    for x in [1e-100, 3e-11] {
        close(derivative(&log, 2, x), -1.0 / x / x);
        close(derivative(&log, 3, x), 2.0 / x / x / x);
        close(derivative(&reciprocal, 2, x), 2.0 / x / x / x);
        close(derivative(&rsqrt, 2, x), 0.75 / x.sqrt() / x / x);
    }
    let near = f64::EPSILON / 2.0;
    close(derivative(&log1p, 1, near - 1.0), 1.0 / near);
    close(derivative(&atanh, 1, 1.0 - near), 1.0 / (near * (2.0 - near)));
    close(derivative(&rsqrt, 2, 1e-8), 0.75e20);
}

#[test]
fn lengths_and_angles_of_tiny_vectors_have_their_gradients() {
    for scale in [1e-11, 1e-100, 1e-200] {
        let x = tensor([3.0 * scale, 4.0 * scale]);
        let g = grad(|x: &Tensor| norm(x, ..), &x).unwrap().to_f64_vec();
        close(g[0], 0.6);
        close(g[1], 0.8);
        let g = grad(|x: &Tensor| std(x, .., 0), &x).unwrap().to_f64_vec();
        close(g[0], -0.5);
        close(g[1], 0.5);
        let (a, b) = (tensor(3.0 * scale), tensor(4.0 * scale));
        let one = tensor(1.0);
        let (da, db) = hypot_backward(&one, &a, &b).unwrap();
        close(da.item().unwrap(), 0.6);
        close(db.item().unwrap(), 0.8);
        let (da, db) = atan2_backward(&one, &a, &b).unwrap();
        close(da.item().unwrap(), 4.0 / 25.0 / scale);
        close(db.item().unwrap(), -3.0 / 25.0 / scale);
    }
    // The length of such a vector has few digits.
    let [a, b] =
        [300.0, 401.0].map(|v| Tensor::scalar_of(v * 2f64.powi(-149), DType::F32).unwrap());
    let (da, _) = hypot_backward(&a.ones_like().unwrap(), &a, &b).unwrap();
    let want = 300.0 / 300f64.hypot(401.0);
    assert!((da.to_f64_vec()[0] / want - 1.0).abs() < 2e-7, "{da}, expected {want}");
}

#[test]
fn normalisation_without_eps_is_exact_for_tiny_numbers_in_both_modes_and_orders() {
    // Of two numbers the layer norm is ±1 whatever they are; of three it is not.
    let base = [1.0, 2.0, 4.0];
    let weights = tensor([1.0, -2.0, 0.5]);
    for scale in [1e-12, 1e-40, 1e-120, 1e130] {
        let x = tensor(base.map(|v| v * scale));
        for centred in [true, false] {
            let f = |x: &Tensor| {
                let y = match centred {
                    true => layer_norm(x, None, None, &[3], 0.0)?,
                    false => rms_norm(x, None, &[3], 0.0)?,
                };
                sum(&multiply(&y, &weights)?, ..)
            };
            let want = grad(f, &tensor(base)).unwrap().to_f64_vec();
            let got = grad(f, &x).unwrap().to_f64_vec();
            let (want2, got2) = (hessian(f, &tensor(base)).unwrap(), hessian(f, &x).unwrap());
            for (got, want) in got.iter().zip(&want) {
                assert!((got * scale - want).abs() < 1e-13, "{scale:e}: {got} {want}");
            }
            for (got, want) in got2.to_f64_vec().iter().zip(want2.to_f64_vec()) {
                let got = got * scale * scale;
                assert!((got - want).abs() < 1e-12, "{scale:e}: {got} {want}");
            }
        }
    }
}

#[test]
fn a_gradient_that_does_not_fit_its_dtype_is_infinite() {
    let cube = |x: &Tensor| power(x, &Tensor::scalar_of(3.0, x.dtype())?);
    assert_eq!(in_dtype(&cube, 1, 200.0, DType::F16), f64::INFINITY);
    assert_eq!(in_dtype(&cube, 1, -200.0, DType::F16), f64::INFINITY);
    assert_eq!(in_dtype(&reciprocal, 1, 1e-3, DType::F16), f64::NEG_INFINITY);
    let fourth = |x: &Tensor| power(x, &Tensor::scalar_of(4.0, x.dtype())?);
    assert_eq!(in_dtype(&fourth, 2, 50.0, DType::F16), 30_000.0);
    close(derivative(&cube, 2, 1e155), 6e155);
    assert_eq!(derivative(&log, 1, 1e-310), f64::INFINITY);
}

#[test]
fn at_a_singular_point_gradients_are_finite_in_every_dtype_order_and_mode() {
    let functions: [(Function, f64); 12] = [
        (log, 0.0),
        (log2, 0.0),
        (log10, 0.0),
        (log1p, -1.0),
        (sqrt, 0.0),
        (rsqrt, 0.0),
        (reciprocal, 0.0),
        (asin, 1.0),
        (acos, -1.0),
        (acosh, 1.0),
        (atanh, 1.0),
        (|x| power(x, &Tensor::scalar_of(0.5, x.dtype())?), 0.0),
    ];
    for (number, (f, x)) in functions.into_iter().enumerate() {
        for dtype in DType::FLOATS {
            for order in 1..=3 {
                let got = in_dtype(&f, order, x, dtype);
                assert!(got.is_finite(), "function {number} in {dtype}, order {order}: {got}");
            }
        }
    }
    assert_eq!(derivative(&log, 1, 0.0), 1e10);
    close(derivative(&log, 2, 0.0), -1e20);
    assert_eq!(in_dtype(&log, 1, 0.0, DType::F16), 65504.0);
}

#[test]
fn where_the_value_is_nan_so_is_the_gradient_and_nothing_comes_of_nothing() {
    let functions: [(Function, f64); 9] = [
        (log, -1.0),
        (log2, -1.0),
        (log10, -1.0),
        (log1p, -2.0),
        (rsqrt, -1.0),
        (asin, 2.0),
        (acosh, 0.5),
        (atanh, 2.0),
        (|x| power(x, &Tensor::scalar_of(0.5, x.dtype())?), -1.0),
    ];
    for (f, x) in functions {
        for order in 0..=3 {
            assert!(derivative(&f, order, x).is_nan(), "{x}, order {order}");
        }
    }
    let zero = tensor(0.0);
    assert_eq!(log_backward(&zero, &tensor(-1.0)).unwrap().item::<f64>().unwrap(), 0.0);
    let nan = tensor(f64::NAN);
    let (_, by_exponent) = power_backward(&tensor(1.0), &nan, &tensor(2.0)).unwrap();
    assert!(by_exponent.item::<f64>().unwrap().is_nan());
    assert_eq!(exp_backward(&zero, &tensor(f64::INFINITY)).unwrap().item::<f64>().unwrap(), 0.0);
}

#[test]
fn the_hessian_of_a_product_is_right_beside_0_and_symmetric() {
    let f = |x: &Tensor| prod(x, ..);
    let h = hessian(f, &tensor([1e-11, 3.0, 2.0])).unwrap().to_f64_vec();
    assert_eq!(h, [0.0, 2.0, 3.0, 2.0, 0.0, 1e-11, 3.0, 1e-11, 0.0]);
}

#[test]
fn the_derivatives_of_powers_hold_for_huge_and_for_tiny_exponents() {
    let by_base = |x: f64, n: f64, dtype: DType| {
        let n = Tensor::scalar_of(n, dtype).unwrap();
        in_dtype(&|x| power(x, &n), 1, x, dtype)
    };
    for dtype in [DType::BF16, DType::F32, DType::F64] {
        // Even numbers, from which no float is 1 less.
        for n in [2f64.powi(60), 3.0 * 2f64.powi(70)] {
            assert_eq!(by_base(-1.0, n, dtype), -n, "{dtype}");
            assert_eq!(by_base(-1.0, -n, dtype), n, "{dtype}");
            assert_eq!(by_base(1.0, n, dtype), n, "{dtype}");
            assert_eq!(by_base(0.0, n, dtype), 0.0, "{dtype}");
            assert_eq!(by_base(0.5, n, dtype), 0.0, "{dtype}");
            assert_eq!(by_base(3.0, n, dtype), f64::INFINITY, "{dtype}");
        }
    }
    // Beside 0, where the power has few digits and its slope has all.
    let (n, x) = (0.975f32, 2f32.powi(-140));
    let want = f64::from(n) * f64::from(x).powf(f64::from(n) - 1.0);
    let got = by_base(x.into(), n.into(), DType::F32);
    assert!((got / want - 1.0).abs() < 1e-6, "{got}, expected {want}");
    // A slope of 0.75 from numbers that have few digits.
    let (n, x) = (3.0 * 2f64.powi(-147), 2f64.powi(-145));
    close(by_base(x, n, DType::F32), 0.75);
    let (n, x) = (3.0 * 2f64.powi(-1072), 2f64.powi(-1070));
    close(by_base(x, n, DType::F64), 0.75);
}

#[test]
fn the_derivatives_of_powers_hold_at_whole_exponents_and_at_0() {
    let f = |p: &Tensor| {
        let [x, n] = [0, 1].map(|i| slice(p, 0, i, i + 1, 1).unwrap());
        sum(&power(&x, &n)?, ..)
    };
    let at = |x: f64, n: f64| hessian(f, &tensor([x, n])).unwrap().to_f64_vec();
    let ln2 = 2f64.ln();
    for (got, want) in at(2.0, 0.0).iter().zip([0.0, 0.5, 0.5, ln2 * ln2]) {
        close(*got, want);
    }
    for (got, want) in at(0.0, 2.0).iter().zip([2.0, 0.0, 0.0, 0.0]) {
        close(*got, want);
    }
    close(derivative(&|x| power(x, x), 3, 1.0), 3.0);
    close(derivative(&|x| power(x, x), 2, 1.0), 2.0);
}

#[test]
fn the_branch_that_is_not_taken_makes_no_nan() {
    for x in [89.0, 711.0, 1e30] {
        assert_eq!(derivative(&|x| elu(x, 1.0), 2, x), 0.0);
        assert_eq!(derivative(&selu, 2, x), 0.0);
        let single = |f: &dyn Fn(&Tensor) -> Result<Tensor>| in_dtype(f, 2, x, DType::F32);
        assert_eq!(single(&|x| elu(x, 1.0)), 0.0);
        assert_eq!(single(&selu), 0.0);
    }
}

#[test]
fn clip_passes_the_gradient_on_the_closed_interval() {
    let x = tensor([-1.5, -1.0, 0.0, 1.0, 1.5]);
    let g = clip_backward(&x.ones_like().unwrap(), &x, -1.0, 1.0).unwrap();
    assert_eq!(g.to_f64_vec(), [0.0, 1.0, 1.0, 1.0, 0.0]);
}
