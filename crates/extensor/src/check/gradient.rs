//! Checking a backward function against differences.

use super::bits::{bit_differences, first_not_finite};
use super::diagnosis::{self, Argument};
use super::differences::{Function, Line, Subject, expect_floats};
use super::judge::Check;
use super::options::{Mode, Options};
use super::prepare::{coarsest, cotangents, forward_problem, misfit, wrt};
use super::report::{ErrorAtStep, Place, Problem, Report};
use crate::{DType, Result, Tensor};

/// A backward function: the gradients for the inputs differentiated by, from those of the outputs
/// and the inputs.
pub(crate) type Pullback<'a> = &'a dyn Fn(&[Tensor], &[Tensor]) -> Result<Vec<Tensor>>;

/// What [`numerical_gradient`] returns.
#[derive(Clone, Debug)]
pub struct NumericalGradient {
    /// The weights `w` of the outputs.
    pub cotangent: Tensor,
    /// The gradients of `<w, f(x)>`, in `f64`, for the inputs differentiated by.
    pub gradients: Vec<Tensor>,
}

/// The gradients of `<w, f(x)>` for a random cotangent `w`, by central differences in `f64`,
/// `(f(x + ε) − f(x − ε)) / 2ε`, element by element. No input is modified.
///
/// ```
/// use extensor::check::{Options, numerical_gradient};
/// use extensor::ops::square;
/// use extensor::tensor;
///
/// let cotangent = Some(tensor([1.0, 10.0]));
/// let options = Options { cotangent, ..Options::default() };
/// let found = numerical_gradient(|x| square(&x[0]), &[tensor([3.0, 4.0])], &options)?;
/// let gradient = found.gradients[0].to_vec::<f64>()?;
/// assert!((gradient[0] - 6.0).abs() < 1e-9 && (gradient[1] - 80.0).abs() < 1e-8);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn numerical_gradient(
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
    inputs: &[Tensor],
    options: &Options,
) -> Result<NumericalGradient> {
    let f = |x: &[Tensor]| Ok(vec![f(x)?]);
    let wrt = wrt(inputs, options)?;
    let outputs = f(inputs)?;
    expect_floats(&options.name, &outputs)?;
    let mut weights = cotangents(&outputs, options)?;
    let subject = Subject::new(&f, inputs, &wrt, &weights, options.own_dtype)?;
    let eps = options.step(coarsest(inputs, &wrt));
    let mut gradients = Vec::with_capacity(wrt.len());
    for (input, &number) in wrt.iter().enumerate() {
        let element = |at: usize| {
            let line = Line::Element { input, at };
            Ok(subject.central(&line, eps * subject.scale(&line))?.value)
        };
        let values = (0..subject.values[input].len()).map(element);
        let values = values.collect::<Result<Vec<f64>>>()?;
        gradients.push(Tensor::from_vec(values, inputs[number].shape().clone())?);
    }
    let cotangent = weights.swap_remove(0);
    Ok(NumericalGradient { cotangent, gradients })
}

/// Checks an explicit backward function, `f_backward(grad_output, inputs)`, which returns the
/// gradients for the inputs differentiated by, against differences of `f`.
///
/// An error means that a function could not be called; a wrong gradient is a [`Report`] that does
/// not pass.
///
/// ```
/// use extensor::check::{Options, check_gradient};
/// use extensor::ops::{multiply, sin, sin_backward};
/// use extensor::tensor;
///
/// let x = [tensor([0.3, 1.1])];
/// let report = check_gradient(
///     |x| sin(&x[0]),
///     |grad_output, x| Ok(vec![sin_backward(grad_output, &x[0])?]),
///     &x,
///     &Options::named("sin"),
/// )?;
/// assert!(report.passed(), "{report}");
///
/// let wrong = check_gradient(
///     |x| sin(&x[0]),
///     |grad_output, x| Ok(vec![multiply(grad_output, &sin(&x[0])?)?]),
///     &x,
///     &Options::named("sin"),
/// )?;
/// assert!(wrong.to_string().contains("a plateau"));
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn check_gradient(
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
    f_backward: impl Fn(&Tensor, &[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    options: &Options,
) -> Result<Report> {
    let many = |x: &[Tensor]| Ok(vec![f(x)?]);
    let pullback = |grads: &[Tensor], x: &[Tensor]| f_backward(&grads[0], x);
    diagnosed(&many, &pullback, inputs, options)
}

/// Panics, at the caller's line, with the [`Report`] of [`check_gradient`] unless it passes.
///
/// ```
/// use extensor::check::{Options, assert_gradients_close};
/// use extensor::ops::{exp, exp_backward};
/// use extensor::tensor;
///
/// assert_gradients_close(
///     |x| exp(&x[0]),
///     |grad_output, x| Ok(vec![exp_backward(grad_output, &exp(&x[0])?)?]),
///     &[tensor([0.5, -1.0])],
///     &Options::named("exp"),
/// );
/// ```
#[track_caller]
pub fn assert_gradients_close(
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
    f_backward: impl Fn(&Tensor, &[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    options: &Options,
) {
    match check_gradient(f, f_backward, inputs, options) {
        Ok(report) if report.passed() => {}
        Ok(report) => panic!("{report}"),
        Err(error) => panic!("{}: cannot be checked: {error}", options.name),
    }
}

/// [`check_gradient`] for functions with any number of outputs: `f_backward(grad_outputs, inputs)`
/// takes as many gradients.
///
/// ```
/// use extensor::check::{Options, check_gradients};
/// use extensor::ops::{cos, cos_backward, sin, sin_backward};
/// use extensor::tensor;
///
/// let report = check_gradients(
///     |x| Ok(vec![sin(&x[0])?, cos(&x[0])?]),
///     |g, x| Ok(vec![sin_backward(&g[0], &x[0])? + cos_backward(&g[1], &x[0])?]),
///     &[tensor([0.3, 1.1])],
///     &Options::named("sin and cos"),
/// )?;
/// assert!(report.passed(), "{report}");
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn check_gradients(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    f_backward: impl Fn(&[Tensor], &[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    options: &Options,
) -> Result<Report> {
    diagnosed(&f, &f_backward, inputs, options)
}

/// [`check_gradients`], as one function for all functions: for somebody who wants to know what is wrong.
pub(super) fn diagnosed(
    f: Function,
    f_backward: Pullback,
    inputs: &[Tensor],
    options: &Options,
) -> Result<Report> {
    check(f, f_backward, inputs, options, true)
}

/// Likewise, for a suite that wants to know whether something is: without a search for elements where a
/// direction is wrong, and without a diagnosis.
pub(crate) fn check_pair(
    f: Function,
    f_backward: Pullback,
    inputs: &[Tensor],
    options: &Options,
) -> Result<Report> {
    check(f, f_backward, inputs, options, false)
}

fn check(
    f: Function,
    f_backward: Pullback,
    inputs: &[Tensor],
    options: &Options,
    diagnose: bool,
) -> Result<Report> {
    let wrt = wrt(inputs, options)?;
    let elements: usize = wrt.iter().map(|&i| inputs[i].len()).sum();
    let dtype = coarsest(inputs, &wrt);
    let eps = options.step(dtype);
    let mode = match options.mode {
        Mode::Auto if elements <= Options::FULL_LIMIT => Mode::Full,
        Mode::Auto => Mode::Fast,
        chosen => chosen,
    };
    let mut report = Report {
        name: options.name.clone(),
        dtype,
        mode,
        eps,
        checked: 0,
        elements,
        worst: None,
        steps: Vec::new(),
        comparisons: Vec::new(),
        kinks: Vec::new(),
        kink_count: 0,
        taylor: None,
        problem: None,
        diagnosis: None,
    };

    let outputs = f(inputs)?;
    expect_floats(&options.name, &outputs)?;
    let cotangents = cotangents(&outputs, options)?;
    let gradients = f_backward(&cotangents, inputs)?;
    let again = [
        ("forward", bit_differences(&f(inputs)?, &outputs)),
        ("backward", bit_differences(&f_backward(&cotangents, inputs)?, &gradients)),
    ];
    for (function, difference) in again {
        if let Some(difference) = difference {
            report.problem = Some(Problem::Nondeterministic { function, difference });
            return Ok(report);
        }
    }
    if let Some(problem) = misfit(&gradients, inputs, &wrt, options) {
        if let Problem::Shape { expected, got, .. } = &problem {
            report.diagnosis = diagnosis::of_shape(expected, got);
        }
        report.problem = Some(problem);
        return Ok(report);
    }

    let subject = Subject::new(f, inputs, &wrt, &cotangents, options.own_dtype)?;
    let finite = subject.center().iter().flatten().all(|y| y.is_finite());
    let analytic: Vec<Vec<f64>> = gradients.iter().map(Tensor::to_f64_vec).collect();
    for (values, &input) in analytic.iter().zip(&wrt) {
        let shape = inputs[input].shape();
        if let Some((index, value)) = first_not_finite(values, shape).filter(|_| finite) {
            let input = options.input_name(input);
            let place = Place::Element { input, index };
            report.problem = Some(Problem::NotFinite { place, value });
            return Ok(report);
        }
    }
    let tolerance = options.tolerance(dtype);
    if dtype != DType::F64 && !options.own_dtype {
        report.problem = forward_problem(&outputs, subject.center(), elements, tolerance);
        if report.problem.is_some() {
            return Ok(report);
        }
    }

    let keep = diagnose || options.record;
    let check = Check { subject, analytic, tolerance, eps, options, inputs, keep };
    match mode {
        Mode::Fast => {
            check.directions(&mut report)?;
            if diagnose && matches!(report.problem, Some(Problem::Wrong { .. })) {
                check.locate(&mut report)?;
            }
        }
        _ => check.elements(&mut report)?,
    }
    if diagnose && matches!(report.problem, Some(Problem::Wrong { .. })) {
        let argument = |&input: &usize| Argument {
            name: options.input_name(input),
            shape: inputs[input].shape().to_vec(),
        };
        let arguments: Vec<Argument> = wrt.iter().map(argument).collect();
        let some = mode == Mode::Fast;
        report.diagnosis = Some(diagnosis::of_values(&report.comparisons, &arguments, some));
    }
    if !options.record {
        report.comparisons = Vec::new();
    }
    let smooth = report.kink_count == 0;
    if options.taylor && report.passed() && smooth && dtype == DType::F64 {
        check.taylor(&mut report)?;
    }
    Ok(report)
}

/// How the error of the gradient's largest element moves with ε: the data of the plot that shows
/// truncation on one side and rounding on the other.
pub(crate) fn convergence(
    f: Function,
    f_backward: Pullback,
    inputs: &[Tensor],
    options: &Options,
) -> Result<Vec<ErrorAtStep>> {
    let wrt = wrt(inputs, options)?;
    let outputs = f(inputs)?;
    expect_floats(&options.name, &outputs)?;
    let cotangents = cotangents(&outputs, options)?;
    let gradients = f_backward(&cotangents, inputs)?;
    let subject = Subject::new(f, inputs, &wrt, &cotangents, options.own_dtype)?;
    let analytic: Vec<Vec<f64>> = gradients.iter().map(Tensor::to_f64_vec).collect();
    let elements = analytic.iter().enumerate();
    let elements = elements.flat_map(|(k, g)| (0..g.len()).map(move |at| (k, at)));
    let size = |&(k, at): &(usize, usize)| analytic[k][at].abs();
    let Some((input, at)) = elements.max_by(|a, b| size(a).total_cmp(&size(b))) else {
        return Ok(Vec::new());
    };
    let exact = analytic[input][at];
    let line = Line::Element { input, at };
    let step = |half_decade: i32| {
        let eps = 10f64.powf(f64::from(half_decade) / 2.0);
        let numeric = subject.central(&line, eps * subject.scale(&line))?.value;
        let error = (exact - numeric).abs();
        Ok(ErrorAtStep { eps, numeric, error })
    };
    (-22..=-4).rev().map(step).collect()
}
