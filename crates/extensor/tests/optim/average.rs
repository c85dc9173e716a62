//! Moving averages of models.

use crate::Model;
use extensor::autodiff::named_leaves;
use extensor::ops::cast;
use extensor::optim::Ema;
use extensor::{DType, Result, Tensor, tensor};
use half::bf16;

fn model(x: f64) -> Model {
    Model { weight: tensor([[x, 2.0 * x]]), seen: tensor([x]), bias: tensor([-x]) }
}

#[test]
fn an_average_follows_its_formula_and_takes_buffers_as_they_are() -> Result<()> {
    let mut ema = Ema::new(&model(1.0), 0.9)?;
    let mut expected = 1.0;
    for step in 0..50 {
        let x = f64::from(step).sin();
        ema = ema.update(&model(x))?;
        expected += (1.0 - 0.9) * (x - expected);
        let found = ema.model()?;
        assert!((found.weight.to_f64_vec()[0] - expected).abs() < 1e-14);
        assert!((found.bias.to_f64_vec()[0] + expected).abs() < 1e-14);
        assert_eq!(found.seen.to_f64_vec(), [x]);
    }
    assert_eq!(ema.step, 50);
    let names: Vec<String> = named_leaves(&ema).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["weight", "seen", "bias"]);
    Ok(())
}

#[test]
fn warm_up_and_bias_correction_follow_their_formulas() -> Result<()> {
    let mut warm = Ema::new(&model(1.0), 0.5)?.warm_up();
    let mut corrected = Ema::new(&model(1.0), 0.9)?.debiased()?;
    assert!(corrected.model().is_err());
    let (mut expected, mut sum, mut weight) = (1.0, 0.0, 0.0);
    for step in 0..30 {
        let t = f64::from(step);
        let x = t.cos();
        let decay = 0.5f64.min((1.0 + t) / (10.0 + t));
        expected = decay * expected + (1.0 - decay) * x;
        (sum, weight) = (0.9 * sum + 0.1 * x, 0.9 * weight + 0.1);
        (warm, corrected) = (warm.update(&model(x))?, corrected.update(&model(x))?);
        assert!((warm.model()?.weight.to_f64_vec()[0] - expected).abs() < 1e-14);
        assert!((corrected.model()?.weight.to_f64_vec()[0] - sum / weight).abs() < 1e-13);
    }
    Ok(())
}

#[test]
fn the_average_of_reduced_precision_parameters_does_not_stand_still() -> Result<()> {
    let x = |v: f64| cast(&tensor([v]), DType::BF16);
    let mut ema = Ema::new(&x(1.0)?, 0.999)?;
    for _ in 0..1000 {
        ema = ema.update(&x(2.0)?)?;
    }
    let found: Tensor = ema.model()?;
    let expected = 2.0 - 0.999f32.powi(1000);
    assert_eq!(found.to_vec::<bf16>()?, [bf16::from_f32(expected)]);
    Ok(())
}

#[test]
fn a_model_of_another_shape_or_a_decay_beyond_1_is_an_error() -> Result<()> {
    let ema = Ema::new(&model(1.0), 0.9)?;
    let other = Model { bias: tensor([1.0, 2.0]), ..model(1.0) };
    let error = ema.clone().update(&other).err().unwrap().to_string();
    assert_eq!(error, "ema: the parameter bias is f64 [2], expected f64 [1]");
    let error = Ema::new(&model(1.0), 1.5).err().unwrap().to_string();
    assert_eq!(error, "ema: the decay is 1.5, expected from 0 to 1");
    assert!(Ema::new(&vec![tensor([1.0])], 0.5)?.update(&vec![]).is_err());
    Ok(())
}
