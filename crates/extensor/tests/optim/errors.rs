//! What optimisers refuse, and what they say then.

use crate::Model;
use extensor::autodiff::grad;
use extensor::ops::sum;
use extensor::optim::{Adagrad, Adam, AdamW, Groups, Lion, Optimizer, RmsProp, Sgd};
use extensor::{Result, Tensor, tensor};

fn model() -> Model {
    Model { weight: tensor([[1.0, 2.0]]), seen: tensor([3i64]), bias: tensor([4.0]) }
}

#[track_caller]
fn init_error(optimiser: &dyn Optimizer<Model>) -> String {
    match optimiser.init(&model()) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("no error"),
    }
}

#[test]
fn a_setting_that_makes_no_sense_is_an_error_that_names_it() {
    let nan = init_error(&Adam::new(f64::NAN));
    assert_eq!(nan, "adam: the learning rate is NaN, expected a finite number of at least 0");
    let expected = "sgd: the learning rate is -0.1, expected a finite number of at least 0";
    assert_eq!(init_error(&Sgd::new(-0.1)), expected);
    let expected = "adamw: beta 2 is 1.0, expected at least 0 and below 1";
    assert_eq!(init_error(&AdamW::new(0.1).betas(0.9, 1.0)), expected);
    let expected = "sgd: the dampening is 0.1, expected 0 for Nesterov's momentum";
    assert_eq!(init_error(&Sgd::new(0.1).momentum(0.9).dampening(0.1).nesterov()), expected);
    let mistakes: [Box<dyn Optimizer<Model>>; 9] = [
        Box::new(Sgd::new(f64::INFINITY)),
        Box::new(Sgd::new(0.1).nesterov()),
        Box::new(Sgd::new(0.1).momentum(-1.0)),
        Box::new(Adam::new(0.1).weight_decay(-1.0)),
        Box::new(Adam::new(0.1).eps(f64::NAN)),
        Box::new(RmsProp::new(0.1).alpha(1.5)),
        Box::new(Adagrad::new(0.1).lr_decay(-1.0)),
        Box::new(Lion::new(0.1).betas(-0.1, 0.5)),
        Box::new(Adam::new(0.1).groups(Groups::new().learning_rate("*", f64::NAN))),
    ];
    for mistake in mistakes {
        init_error(&*mistake);
    }
}

#[test]
fn a_learning_rate_of_a_step_is_looked_at_too() -> Result<()> {
    let optimiser = Sgd::new(0.1);
    let state = optimiser.init(&model())?;
    let error = optimiser.update_with(f64::NAN, model(), &model(), state).err().unwrap();
    assert!(error.to_string().starts_with("sgd: the learning rate is NaN"));
    Ok(())
}

#[test]
fn a_pattern_that_matches_nothing_is_an_error_that_names_it() {
    for optimiser in [
        AdamW::new(0.1).groups(Groups::new().weight_decay("*.bias", 0.0)),
        // A buffer is no parameter.
        AdamW::new(0.1).groups(Groups::new().weight_decay("seen", 0.0)),
    ] {
        let error = init_error(&optimiser);
        let expected = ", expected one that matches the name of a parameter";
        assert!(error.starts_with("adamw: the pattern of a group is \""), "{error}");
        assert!(error.ends_with(expected), "{error}");
    }
}

#[test]
fn gradients_of_another_structure_shape_or_dtype_are_an_error_that_names_the_leaf() -> Result<()> {
    let optimiser = Adam::new(0.1);
    let with = |grads: &Model| {
        let state = optimiser.init(&model()).unwrap();
        optimiser.update(model(), grads, state).err().unwrap().to_string()
    };
    let error = with(&Model { bias: tensor([1.0, 2.0]), ..model() });
    assert_eq!(error, "adam: the gradient of bias is f64 [2], expected f64 [1]");
    let error = with(&Model { weight: tensor([[1f32, 2.0]]), ..model() });
    assert_eq!(error, "adam: the gradient of weight is f32 [1, 2], expected f64 [1, 2]");
    let two = vec![tensor([1.0]), tensor([2.0])];
    let state = optimiser.init(&two)?;
    let error = optimiser.update(two.clone(), &two[..1].to_vec(), state).err().unwrap();
    assert_eq!(
        error.to_string(),
        "adam: got inputs (1 leaves of gradients), expected (2 leaves of gradients)"
    );
    Ok(())
}

#[test]
fn the_state_of_another_optimiser_or_model_is_an_error() -> Result<()> {
    let adam = Adam::new(0.1);
    let state = Sgd::new(0.1).momentum(0.9).init(&model())?;
    let error = adam.update(model(), &model(), state).err().unwrap().to_string();
    let expected = "adam: got inputs (a state with momentum_buffer), expected (a state with exp_avg, exp_avg_sq)";
    assert_eq!(error, expected);
    let (one, two) = (vec![tensor([1.0])], vec![tensor([1.0]), tensor([2.0])]);
    assert!(adam.update(two.clone(), &two, adam.init(&one)?).is_err());
    let other = vec![tensor([1.0, 2.0])];
    let error = adam.update(other.clone(), &other, adam.init(&one)?).err().unwrap().to_string();
    assert_eq!(error, "adam: the state of 0 is f64 [1], expected f64 [2]");
    Ok(())
}

#[test]
fn a_parameter_of_whole_numbers_or_under_differentiation_is_an_error() {
    let adam = Adam::new(0.1);
    let error = adam.init(&vec![tensor([1i64])]).err().unwrap().to_string();
    let expected = "adam: cannot be differentiated with respect to 0: it is not of a float dtype";
    assert_eq!(error, expected);
    let error = grad(
        |x: &Tensor| {
            let state = adam.init(&tensor([1.0]))?;
            let (y, _) = adam.update(tensor([1.0]), x, state)?;
            sum(&y, ..)
        },
        &tensor([1.0]),
    );
    assert!(error.err().unwrap().to_string().contains("it is being differentiated"));
}
