//! What people reach for: arithmetic with names from elsewhere, losses' options, grouped queries.

use extensor::autodiff::{grad, value_and_grad};
use extensor::ops::*;
use extensor::*;

fn numbers(x: &Tensor) -> Vec<f64> {
    x.to_f64_vec()
}

#[test]
fn what_lies_between_two_is_exactly_either_at_the_ends() {
    let (a, b) = (tensor([0.1, 1e308, -0.7]), tensor([0.3, -1e308, 1e-300]));
    assert_eq!(numbers(&lerp(&a, &b, &tensor(0.0)).unwrap()), numbers(&a));
    assert_eq!(numbers(&lerp(&a, &b, &tensor(1.0)).unwrap()), numbers(&b));
    // Nothing overflows on the way, and what is equal stays so.
    assert_eq!(numbers(&lerp(&a, &b, &tensor(0.5)).unwrap())[1], 0.0);
    assert_eq!(numbers(&lerp(&a, &a, &tensor(0.3)).unwrap()), numbers(&a));
    assert!(numbers(&lerp(&a, &a, &tensor(f64::NAN)).unwrap())[0].is_nan());
}

#[test]
fn a_number_beside_what_is_none_is_the_larger_and_the_smaller_and_has_the_gradient() {
    let (a, b) = (tensor([f64::NAN, 2.0, 3.0]), tensor([1.0, f64::NAN, 3.0]));
    let g = tensor([1.0, 1.0, 1.0]);
    for (y, back) in [
        (fmax(&a, &b).unwrap(), fmax_backward(&g, &a, &b)),
        (fmin(&a, &b).unwrap(), fmin_backward(&g, &a, &b)),
    ] {
        assert_eq!(numbers(&y), [1.0, 2.0, 3.0]);
        let (da, db) = back.unwrap();
        assert_eq!((numbers(&da), numbers(&db)), (vec![0.0, 1.0, 0.5], vec![1.0, 0.0, 0.5]));
    }
}

#[test]
fn remainders_of_whole_numbers_have_the_sign_of_the_dividend() {
    let (a, b) = (tensor([7i64, -7, 7, -7, i64::MIN, 5]), tensor([3i64, 3, -3, -3, 3, i64::MIN]));
    let rest = fmod(&a, &b).unwrap().to_vec::<i64>().unwrap();
    assert_eq!(rest, [1, -1, 1, -1, i64::MIN % 3, 5]);
    assert!(fmod(&a, &tensor([0i64])).is_err());
    let signs = fmod(&tensor([-4.0, 4.0, -0.0]), &tensor([2.0, -2.0, 2.0])).unwrap();
    let signs: Vec<bool> = numbers(&signs).iter().map(|x| x.is_sign_negative()).collect();
    assert_eq!(signs, [true, false, true]);
}

#[test]
fn shrinkage_by_nothing_is_the_identity_with_its_gradient_at_0_too() {
    let x = tensor([-1.0, 0.0, 2.0]);
    for f in [hardshrink, softshrink] {
        let (y, g) = value_and_grad(|x: &Tensor| f(x, 0.0)?.sum(..), &x).unwrap();
        assert_eq!((y.item::<f64>().unwrap(), numbers(&g)), (1.0, vec![1.0; 3]));
        let g = grad(|x: &Tensor| f(x, 2.0)?.sum(..), &x).unwrap();
        assert_eq!(numbers(&g), [0.0; 3]);
    }
}

#[test]
fn a_mean_divides_by_the_weights_of_what_counts() {
    let x = tensor([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0], [2.0, 2.0, 2.0]]);
    let (k, weight) = (tensor([0i64, -100, 2]), tensor([0.5, 1.0, 2.0]));
    let each = CrossEntropyOptions::new().weight(&weight).ignore_index(-100);
    let losses = numbers(&x.cross_entropy(&k, each.reduction(Reduce::None)).unwrap());
    assert_eq!(losses[1], 0.0);
    let mean = x.cross_entropy(&k, each).unwrap().item::<f64>().unwrap();
    assert!((mean - (losses[0] + losses[2]) / 2.5).abs() < 1e-15);
    // The loss of the logarithms is the same.
    let options = NllOptions::new().weight(&weight).ignore_index(-100);
    let logs = x.log_softmax(1).unwrap();
    let other = logs.nll_loss(&k, options).unwrap().item::<f64>().unwrap();
    assert!((mean - other).abs() < 1e-15);
    // Nothing counts: the mean is none, and moves nothing.
    let nothing = tensor([-100i64; 3]);
    let f = |x: &Tensor| x.cross_entropy(&nothing, each.label_smoothing(0.1));
    let (mean, g) = value_and_grad(f, &x).unwrap();
    assert!(mean.item::<f64>().unwrap().is_nan());
    assert_eq!(numbers(&g), [0.0; 9]);
}

#[test]
fn a_divergence_of_distributions_is_divided_by_how_many_these_are() {
    let (x, t) = (tensor([[-1.0, -2.0], [-0.5, -1.0]]), tensor([[0.5, 0.5], [0.2, 0.8]]));
    let of = |how: Reduce| kl_divergence(&x, &t, how).unwrap().item::<f64>().unwrap();
    assert_eq!(of(Reduce::BatchMean), of(Reduce::Sum) / 2.0);
    let error = mean_squared_error(&x, &t, Reduce::BatchMean).unwrap_err().to_string();
    assert!(error.contains("reduction is \"batchmean\", expected \"none\", \"mean\" or \"sum\""));
}

#[test]
fn a_weight_of_the_positive_alone_is_that_with_a_weight_of_1() {
    let (x, t) = (tensor([0.3, -2.0, 5.0]), tensor([1.0, 0.0, 1.0]));
    let (p, one) = (tensor([3.0]), tensor([1.0]));
    let alone = LogitsOptions::new().pos_weight(&p);
    let loss = |options| binary_cross_entropy_with_logits(&x, &t, options).unwrap();
    assert_eq!(numbers(&loss(alone)), numbers(&loss(alone.weight(&one))));
    let (plain, weighed) = (loss(LogitsOptions::new()), loss(LogitsOptions::new().weight(&one)));
    assert!((numbers(&plain)[0] - numbers(&weighed)[0]).abs() < 1e-15);
}

#[test]
fn grouped_queries_are_those_of_keys_and_values_repeated() {
    let draw = |seed: u64, shape: [usize; 4]| Key::new(seed).normal(shape, DType::F32).unwrap();
    let (q, k, v) = (draw(1, [2, 6, 5, 4]), draw(2, [2, 2, 7, 4]), draw(3, [2, 3, 7, 3]));
    let options = AttentionOptions::new().causal(true);
    let each = |x: &Tensor, times: i64| repeat(x, [times], 1).unwrap();
    let (y, wide) = (
        scaled_dot_product_attention(&q, &k, &v, options).unwrap(),
        scaled_dot_product_attention(&q, &each(&k, 3), &each(&v, 2), options).unwrap(),
    );
    assert_eq!(y.to_vec::<f32>().unwrap(), wide.to_vec::<f32>().unwrap());
}

#[test]
fn tensors_are_stacked_and_turned_with_their_gradients() {
    let (a, b) = (tensor([1.0, 2.0]), tensor([3.0, 4.0]));
    let square = |x: Tensor| -> Result<Tensor> { multiply(&x, &x)?.sum(..) };
    let both = (a.clone(), b.clone());
    type Stack = fn(&[Tensor]) -> Result<Tensor>;
    let stacks: [Stack; 4] = [|x| vstack(x), |x| hstack(x), |x| dstack(x), |x| column_stack(x)];
    for f in stacks {
        let loss = |(a, b): &(Tensor, Tensor)| square(f(&[a.clone(), b.clone()])?);
        let (da, db) = grad(loss, &both).unwrap();
        assert_eq!((numbers(&da), numbers(&db)), (vec![2.0, 4.0], vec![6.0, 8.0]));
    }
    let x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let turned: Vec<Vec<f64>> = (0..4).map(|k| numbers(&rot90(&x, k, [0, 1]).unwrap())).collect();
    assert_eq!(turned[1], [3.0, 6.0, 2.0, 5.0, 1.0, 4.0]);
    assert_eq!(turned[2], [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]);
    assert_eq!(turned[3], [4.0, 1.0, 5.0, 2.0, 6.0, 3.0]);
    assert!(rot90(&x, 1, [0, -2]).is_err() && rot90(&x, 1, [0, 2]).is_err());
    let y = tensor([[1.0, 2.0, 4.0], [0.0, 1.0, 0.0]]);
    let along = |axis: i64| TrapezoidOptions::new().dx(2.0).axis(axis);
    assert_eq!(numbers(&trapezoid(&y, along(0)).unwrap()), [1.0, 3.0, 4.0]);
    assert_eq!(numbers(&trapezoid(&y, along(1)).unwrap()), [9.0, 2.0]);
    let x = tensor([0.0, 5.0]);
    assert_eq!(numbers(&trapezoid(&y, along(0).x(&x)).unwrap()), [2.5, 7.5, 10.0]);
}

#[test]
fn losses_of_vectors_have_the_gradients_of_their_formulas() {
    let draw = |seed: u64| Key::new(seed).normal([4, 3], DType::F64).unwrap();
    let all = (draw(1), draw(2), draw(3));
    for (p, swap) in [(2.0, false), (1.0, true), (3.0, false)] {
        let options = TripletMarginOptions::new().p(p).swap(swap).margin(3.0);
        let f = |(a, p, n): &(Tensor, Tensor, Tensor)| triplet_margin_loss(a, p, n, options);
        check::assert_grad(f, &all, &check::Options::named("triplet"));
    }
    let targets = tensor([1.0, -1.0, 1.0, -1.0]);
    let options = CosineEmbeddingOptions::new().margin(-0.9);
    let f = |(a, b): &(Tensor, Tensor)| cosine_embedding_loss(a, b, &targets, options);
    check::assert_grad(f, &(draw(4), draw(5)), &check::Options::named("cosine"));
    // What is large or small does not overflow or vanish.
    let far = multiply(&draw(4), &tensor(1e300)).unwrap();
    let losses = CosineEmbeddingOptions::new().reduction(Reduce::None);
    let near = cosine_embedding_loss(&draw(4), &draw(5), &targets, losses).unwrap();
    let far = cosine_embedding_loss(&far, &draw(5), &targets, losses).unwrap();
    for (a, b) in numbers(&near).into_iter().zip(numbers(&far)) {
        assert!((a - b).abs() < 1e-14);
    }
}
