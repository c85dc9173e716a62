//! A report says what kind of mistake a wrong gradient looks like.

use extensor::check::{Mode, Options, Problem, check_gradient};
use extensor::prelude::*;

/// What the report says of a backward function of `f` at these inputs.
fn said(
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
    backward: impl Fn(&Tensor, &[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    mode: Mode,
) -> String {
    let input_names = vec!["x".into(), "weight".into(), "bias".into()];
    let options = Options { input_names, mode, ..Options::named("f") };
    let report = check_gradient(f, backward, inputs, &options).unwrap();
    let wrong = matches!(report.problem, Some(Problem::Wrong { .. } | Problem::Shape { .. }));
    assert!(wrong, "{report}");
    let diagnosis = report.diagnosis.clone().unwrap();
    assert!(report.to_string().contains(&format!("it looks like this: {diagnosis}")), "{report}");
    diagnosis
}

fn numbers(seed: u64, shape: impl Into<Shape>) -> Tensor {
    Key::new(seed).normal(shape, DType::F64).unwrap()
}

/// `y = x²`, whose gradient is given.
fn of_square(wrong: impl Fn(&Tensor, &Tensor) -> Result<Tensor>) -> String {
    let backward = |g: &Tensor, x: &[Tensor]| Ok(vec![wrong(&(g * &x[0] * 2.0), &x[0])?]);
    said(|x| x[0].square(), backward, &[numbers(1, [3, 4])], Mode::Auto)
}

#[test]
fn a_constant_factor_is_named() {
    let text = of_square(|right, _| Ok(right * 3.5));
    assert_eq!(text, "off by a constant factor 3.5 everywhere");
    let text = of_square(|right, _| right.negate());
    assert_eq!(text, "the sign is swapped: your gradient is −1 times the right one everywhere");
}

#[test]
fn a_missing_and_a_superfluous_one_over_n_are_named_with_their_size() {
    let mean = |x: &[Tensor]| x[0].square()?.mean(0);
    let backward = |g: &Tensor, x: &[Tensor]| Ok(vec![g * &x[0] * 2.0]);
    assert_eq!(
        said(mean, backward, &[numbers(1, [3, 4])], Mode::Auto),
        "off by a constant factor 3 everywhere (the size of axis 0 of x: a mean's division is missing?)"
    );
    let text = of_square(|right, _| Ok(right / 12.0));
    assert_eq!(
        text,
        "off by a constant factor 0.08333 everywhere (1 over the number of elements of x: divided as for a mean?)"
    );
}

#[test]
fn a_missing_broadcast_sum_is_named_with_its_axes() {
    let add = |x: &[Tensor]| x[0].add(&x[1]);
    let backward = |g: &Tensor, _: &[Tensor]| Ok(vec![g.clone(), g.clone()]);
    assert_eq!(
        said(add, backward, &[numbers(1, [3, 4]), numbers(2, [4])], Mode::Auto),
        "missing broadcast sum: the input was broadcast to the gradient's shape, so its gradient is the sum over axis 0"
    );
    let backward = |g: &Tensor, _: &[Tensor]| Ok(vec![g.clone(), g.transpose(None)?]);
    assert_eq!(
        said(add, backward, &[numbers(1, [3, 4]), numbers(2, [3, 4])], Mode::Auto),
        "transposed: the gradient has the shape of the input's transpose [4, 3]"
    );
}

#[test]
fn a_mistake_in_one_argument_alone_is_said_to_be_there() {
    let inputs = [numbers(1, [5, 3]), numbers(2, [2, 3]), numbers(3, [2])];
    let f = |x: &[Tensor]| x[0].linear(&x[1], &x[2]);
    for mode in [Mode::Full, Mode::Fast] {
        let backward = |g: &Tensor, x: &[Tensor]| {
            let (dx, dw, _) = extensor::ops::linear_backward(g, &x[0], &x[1])?;
            Ok(vec![dx, dw, g.mean(0)?])
        };
        assert_eq!(
            said(f, backward, &inputs, mode),
            "off by a constant factor 0.2 everywhere (1 over the size of axis 0 of x: divided as for a mean?); only in bias: the gradients for x, weight are right"
        );
    }
}

#[test]
fn zeros_rearranged_elements_and_offsets_are_named() {
    assert_eq!(
        of_square(|right, _| Tensor::zeros_like(right)),
        "zero where it should not be: your gradient is 0 everywhere"
    );
    assert_eq!(
        of_square(|right, _| right.flip(1)),
        "flipped: your gradient is the right one backwards along axis 1"
    );
    assert_eq!(
        of_square(|right, _| right.roll(1, 0)),
        "shifted: your gradient is the right one moved by one along axis 0"
    );
    let square = [numbers(4, [3, 3])];
    let backward = |g: &Tensor, x: &[Tensor]| Ok(vec![(g * &x[0] * 2.0).transpose(None)?]);
    assert_eq!(
        said(|x| x[0].square(), backward, &square, Mode::Auto),
        "transposed: your gradient is the right one with its last two axes swapped"
    );
    assert_eq!(
        of_square(|right, _| Ok(right + 0.25)),
        "off by the same amount everywhere (+0.25): a constant term too many or too few"
    );
}

#[test]
fn what_is_like_nothing_known_is_the_gradient_of_another_function() {
    let text = of_square(|right, x| Ok(right + x.sin()?));
    assert!(text.starts_with("the gradient of another function"), "{text}");
    let text = of_square(|right, x| Ok(right + x.sin()? * 1e-5));
    assert!(text.contains("an approximation of the function"), "{text}");
    // Wrong in one row alone.
    let row = tensor([[0.0], [1.0], [0.0]]);
    let text = of_square(|right, x| Ok(right + x.sin()?.multiply(&row)?));
    assert!(text.ends_with("wrong where the index along axis 0 of x is 1"), "{text}");
}

#[test]
fn rounding_of_what_cancels_is_no_disagreement_of_the_modes() {
    // The loss of a trained network: contributions of either sign that nearly cancel, in f32.
    let x = Key::new(1).normal([400, 2], DType::F32).unwrap();
    let labels = x.square().unwrap().sum(-1).unwrap().less(&tensor(1f32)).unwrap();
    let labels = labels.cast(DType::I64).unwrap();
    let net = extensor::nn::models::Mlp::new(Key::new(2), &[2, 16, 2]).unwrap();
    let loss = |net: &extensor::nn::models::Mlp, mode: &extensor::nn::Mode| {
        net.forward(&x, mode)?.logits.cross_entropy(&labels, Reduce::Mean)
    };
    let mut trainer = Trainer::new(net, extensor::optim::AdamW::new(0.03)).unwrap();
    for seed in 0..20 {
        for _ in 0..20 {
            trainer.step(loss).unwrap();
        }
        let loss = |net: &extensor::nn::models::Mlp| loss(net, &extensor::nn::Mode::Inference);
        let options = Options { seed, ..Options::named("a trained network") };
        let report = check_grad(loss, trainer.model(), &options).unwrap();
        assert!(report.passed(), "{report}");
    }
}
