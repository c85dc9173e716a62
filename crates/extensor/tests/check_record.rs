//! What a check keeps on request, and how it gets from a wrong direction to a wrong element.

use extensor::check::{Mode, Options, Place, Problem, check_gradient, check_gradients};
use extensor::ops::*;
use extensor::*;

fn options() -> Options {
    Options { record: true, ..Options::named("sin") }
}

fn points(count: usize) -> [Tensor; 1] {
    [Key::new(5).normal([count], DType::F64).unwrap()]
}

/// The gradient of the sine, `factor` times too large at one element.
fn spoiled(at: usize, factor: f64) -> impl Fn(&Tensor, &[Tensor]) -> Result<Vec<Tensor>> {
    move |grad, x| {
        let mut values = sin_backward(grad, &x[0])?.to_vec::<f64>()?;
        values[at] *= factor;
        Ok(vec![Tensor::from_vec(values, x[0].shape().clone())?])
    }
}

#[test]
fn a_record_holds_every_comparison_and_the_curve_also_of_a_check_that_passes() {
    let right = spoiled(0, 1.0);
    let report = check_gradient(|x| sin(&x[0]), right, &points(7), &options()).unwrap();
    assert!(report.passed(), "{report}");
    assert_eq!(report.comparisons.len(), 7);
    let largest = report.comparisons.iter().map(|c| c.ratio()).fold(0.0, f64::max);
    assert_eq!(report.worst_ratio(), largest);
    let errors: Vec<f64> = report.steps.iter().map(|s| s.error).collect();
    let best = errors.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(errors.len() == 15 && errors[0] > 100.0 * best && errors[14] > 100.0 * best, "a V");
    let plain = Options::named("sin");
    let report = check_gradient(|x| sin(&x[0]), spoiled(0, 1.0), &points(7), &plain).unwrap();
    assert!(report.comparisons.is_empty() && report.steps.is_empty());
}

#[test]
fn a_fast_check_finds_the_one_element_that_is_wrong() {
    for at in [0, 1234, 4999] {
        let report = check_gradient(|x| sin(&x[0]), spoiled(at, 1.5), &points(5000), &options());
        let report = report.unwrap();
        assert_eq!(report.mode, Mode::Fast);
        assert!(matches!(report.problem, Some(Problem::Wrong { places: 1, .. })), "{report}");
        let place = Place::Element { input: "input 0".into(), index: vec![at] };
        assert_eq!(report.worst.map(|c| c.place), Some(place));
    }
}

#[test]
fn the_wrong_element_is_found_in_the_input_that_it_is_of() {
    let ([first], [second]) = (points(700), points(900));
    let inputs = [first, second];
    let report = check_gradients(
        |x| Ok(vec![sin(&x[0])?, cos(&x[1])?]),
        |g, x| {
            let mut second = cos_backward(&g[1], &x[1])?.to_vec::<f64>()?;
            second[333] = 0.0;
            Ok(vec![sin_backward(&g[0], &x[0])?, Tensor::from_vec(second, [900])?])
        },
        &inputs,
        &options(),
    );
    let place = Place::Element { input: "input 1".into(), index: vec![333] };
    assert_eq!(report.unwrap().worst.map(|c| c.place), Some(place));
}

/// The sine computed in f32, of f64 numbers.
fn coarse(x: &[Tensor]) -> Result<Tensor> {
    sin(&cast(&x[0], DType::F32)?)
}

#[test]
fn a_function_that_rounds_more_coarsely_than_its_inputs_is_judged_by_its_own_precision() {
    let whole = |factor: f64| {
        move |grad: &Tensor, x: &[Tensor]| {
            let grad = cast(grad, DType::F64)?;
            Ok(vec![multiply(&sin_backward(&grad, &x[0])?, &tensor(factor))?])
        }
    };
    for mode in [Mode::Full, Mode::Fast] {
        let options = Options { mode, rtol: Some(1e-2), atol: Some(1e-3), ..Options::named("sin") };
        let right = check_gradient(coarse, whole(1.0), &points(9), &options).unwrap();
        assert!(right.passed() && right.kinks.is_empty(), "{right}");
        for factor in [1.5, -1.0, 0.0] {
            let wrong = check_gradient(coarse, whole(factor), &points(9), &options).unwrap();
            assert!(!wrong.passed(), "{factor}: {wrong}");
        }
    }
}
