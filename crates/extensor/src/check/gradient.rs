//! Checking a backward function against differences.

use super::bits::{bit_differences, first_not_finite};
use super::differences::{Function, Line, Quotient, Subject, expect_floats};
use super::options::{Mode, Options};
use super::prepare::{coarsest, cotangents, forward_problem, misfit, signed, wrt};
use super::report::{Comparison, Kink, Place, Problem, Report, Step};
use super::taylor;
use crate::tensor::unravel;
use crate::{DType, Key, Result, Tensor, Tolerance};

/// A backward function: the gradients for the inputs differentiated by, from those of the outputs
/// and the inputs.
pub(crate) type Pullback<'a> = &'a dyn Fn(&[Tensor], &[Tensor]) -> Result<Vec<Tensor>>;

/// Once so many places are known to be wrong, the rest is not looked at again.
const ENOUGH: usize = 16;

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
/// use extensor::{square, tensor};
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
    Ok(NumericalGradient {
        cotangent,
        gradients,
    })
}

/// Checks an explicit backward function, `f_backward(grad_output, inputs)`, which returns the
/// gradients for the inputs differentiated by, against differences of `f`.
///
/// An error means that a function could not be called; a wrong gradient is a [`Report`] that does
/// not pass.
///
/// ```
/// use extensor::check::{Options, check_gradient};
/// use extensor::{multiply, sin, sin_backward, tensor};
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
    check_pair(&many, &pullback, inputs, options)
}

/// Panics, at the caller's line, with the [`Report`] of [`check_gradient`] unless it passes.
///
/// ```
/// use extensor::check::{Options, assert_gradients_close};
/// use extensor::{exp, exp_backward, tensor};
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

/// [`check_gradient`] for functions with any number of outputs.
pub(crate) fn check_pair(
    f: Function,
    f_backward: Pullback,
    inputs: &[Tensor],
    options: &Options,
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
        kinks: Vec::new(),
        kink_count: 0,
        taylor: None,
        problem: None,
    };

    let outputs = f(inputs)?;
    expect_floats(&options.name, &outputs)?;
    let cotangents = cotangents(&outputs, options)?;
    let gradients = f_backward(&cotangents, inputs)?;
    let again = [
        ("forward", bit_differences(&f(inputs)?, &outputs)),
        (
            "backward",
            bit_differences(&f_backward(&cotangents, inputs)?, &gradients),
        ),
    ];
    for (function, difference) in again {
        if let Some(difference) = difference {
            report.problem = Some(Problem::Nondeterministic {
                function,
                difference,
            });
            return Ok(report);
        }
    }
    if let Some(problem) = misfit(&gradients, inputs, &wrt, options) {
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

    let check = Check {
        subject,
        analytic,
        tolerance,
        eps,
        options,
        inputs,
    };
    match mode {
        Mode::Fast => check.directions(&mut report)?,
        _ => check.elements(&mut report)?,
    }
    let smooth = report.kink_count == 0;
    if options.taylor && report.passed() && smooth && finite && dtype == DType::F64 {
        check.taylor(&mut report)?;
    }
    Ok(report)
}

/// A check under way.
struct Check<'a> {
    subject: Subject<'a>,
    analytic: Vec<Vec<f64>>,
    tolerance: Tolerance,
    eps: f64,
    options: &'a Options,
    inputs: &'a [Tensor],
}

/// What a closer look at a place found.
enum Finding {
    Close,
    Kink { left: f64, right: f64 },
    Wrong,
    Unresolved { accuracy: f64 },
}

impl Check<'_> {
    /// Compares every element.
    fn elements(&self, report: &mut Report) -> Result<()> {
        let mut places = Vec::new();
        for (input, values) in self.analytic.iter().enumerate() {
            for (at, &analytic) in values.iter().enumerate() {
                let line = Line::Element { input, at };
                let number = self.subject.wrt[input];
                let index = unravel(at, self.inputs[number].shape());
                let input = self.options.input_name(number);
                places.push((line, analytic, Place::Element { input, index }, 1));
            }
        }
        self.judge(places, report)
    }

    /// Compares projections on random directions: one through each input, some through all.
    fn directions(&self, report: &mut Report) -> Result<()> {
        let count = self.subject.wrt.len();
        let each = if count > 1 { count } else { 0 };
        let mut drawn = Vec::new();
        for number in 0..each + self.options.directions.max(1) {
            let only = (number < each).then_some(number);
            let mut inputs = Vec::new();
            let mut speeds = Vec::new();
            for (k, values) in self.subject.values.iter().enumerate() {
                if only.is_some_and(|only| only != k) {
                    speeds.push(vec![0.0; values.len()]);
                    continue;
                }
                inputs.push(self.options.input_name(self.subject.wrt[k]));
                speeds.push(self.draw(number + 1, k)?);
            }
            drawn.push((speeds, inputs.join(", ")));
        }
        let places = drawn.iter().map(|(speeds, inputs)| {
            let moved = speeds.iter().flatten().filter(|v| **v != 0.0).count();
            let inputs = inputs.clone();
            let place = Place::Direction { inputs };
            (Line::Direction(speeds), self.project(speeds), place, moved)
        });
        self.judge(places.collect(), report)
    }

    /// Looks at the slope of the Taylor remainder along a random direction through all inputs.
    fn taylor(&self, report: &mut Report) -> Result<()> {
        let speeds: Vec<Vec<f64>> = (0..self.analytic.len())
            .map(|k| self.draw(0, k))
            .collect::<Result<_>>()?;
        let slope = taylor::slope(&self.subject, &speeds, self.project(&speeds))?;
        report.taylor = Some(slope);
        if slope < taylor::LEAST_SLOPE {
            report.problem = Some(Problem::Taylor { slope });
        }
        Ok(())
    }

    /// Random speeds for the elements of an input, in units of `max(1, |x|)`.
    fn draw(&self, direction: usize, input: usize) -> Result<Vec<f64>> {
        let values = &self.subject.values[input];
        let key = Key::new(self.options.seed).fold_in(1 + direction as u64); // 0: the cotangent
        let speeds = signed(key.fold_in(input as u64), values.len())?;
        let scaled = speeds.iter().zip(values).map(|(v, x)| v * x.abs().max(1.0));
        Ok(scaled.collect())
    }

    /// `<g, v>`.
    fn project(&self, speeds: &[Vec<f64>]) -> f64 {
        let pairs = self.analytic.iter().zip(speeds);
        pairs
            .flat_map(|(g, v)| g.iter().zip(v).map(|(g, v)| g * v))
            .sum()
    }

    fn bound(&self, numeric: f64, terms: usize) -> f64 {
        self.tolerance.absolute * terms.max(1) as f64 + self.tolerance.relative * numeric.abs()
    }

    /// Compares at every place; looks closer where a plain difference does not agree.
    fn judge(&self, places: Vec<(Line, f64, Place, usize)>, report: &mut Report) -> Result<()> {
        let total = places.len();
        let mut suspects = Vec::new();
        let compared = |report: &mut Report, comparison: Comparison| {
            report.checked += 1;
            if comparison.ratio() >= report.worst_ratio() {
                report.worst = Some(comparison);
            }
        };
        for (line, analytic, place, moved) in places {
            let h = self.eps * self.subject.scale(&line);
            let Quotient { value, terms } = self.subject.central(&line, h)?;
            let comparison = Comparison {
                place,
                analytic,
                numeric: value,
                tolerance: self.bound(value, terms.max(moved)),
            };
            if comparison.ratio() <= 1.0 {
                compared(report, comparison);
            } else {
                suspects.push((line, comparison, moved));
            }
        }
        suspects.sort_by(|(_, a, _), (_, b, _)| b.ratio().total_cmp(&a.ratio()));

        let mut wrong: Vec<(Line, Comparison)> = Vec::new();
        let mut unresolved: Option<(Line, Comparison, f64)> = None;
        for (line, first, moved) in suspects {
            let (comparison, finding) = self.look_closer(&line, first, moved)?;
            match finding {
                Finding::Close => compared(report, comparison),
                Finding::Wrong => wrong.push((line, comparison)),
                Finding::Unresolved { accuracy } => {
                    unresolved.get_or_insert((line, comparison, accuracy));
                }
                Finding::Kink { left, right } => {
                    report.kink_count += 1;
                    if report.kinks.len() < self.options.shown {
                        report.kinks.push(Kink {
                            place: comparison.place,
                            left,
                            right,
                            analytic: comparison.analytic,
                        });
                    }
                }
            }
            if wrong.len() >= ENOUGH {
                break;
            }
        }
        let places = wrong.len();
        let factor = common_factor(&wrong);
        let worst = wrong
            .into_iter()
            .max_by(|(_, a), (_, b)| a.ratio().total_cmp(&b.ratio()));
        let (line, comparison, problem) = match (worst, unresolved) {
            (Some((line, comparison)), _) => (line, comparison, Problem::Wrong { places, factor }),
            (None, Some((line, comparison, accuracy))) => {
                (line, comparison, Problem::Unresolved { accuracy })
            }
            (None, None) => {
                if total > 0 && report.checked == 0 {
                    report.problem = Some(Problem::NothingChecked);
                }
                return Ok(());
            }
        };
        report.checked += places;
        report.steps = self.steps(&line, comparison.analytic)?;
        report.worst = Some(comparison);
        report.problem = Some(problem);
        Ok(())
    }

    /// Settles a doubt by extrapolated differences, then by one-sided ones.
    fn look_closer(
        &self,
        line: &Line,
        first: Comparison,
        moved: usize,
    ) -> Result<(Comparison, Finding)> {
        let estimate = self.subject.extrapolate(line, self.eps)?;
        let comparison = Comparison {
            numeric: estimate.value,
            tolerance: self.bound(estimate.value, estimate.terms.max(moved)),
            ..first.clone()
        };
        if comparison.ratio() <= 1.0 {
            return Ok((comparison, Finding::Close));
        }
        if let Some(sides) = self.subject.kink(line, self.eps)? {
            let (left, right) = (sides.left, sides.right);
            return Ok((comparison, Finding::Kink { left, right }));
        }
        if comparison.error() > 3.0 * estimate.error {
            return Ok((comparison, Finding::Wrong));
        }
        let accuracy = estimate.error;
        let comparison = if comparison.numeric.is_nan() {
            first
        } else {
            comparison
        };
        Ok((comparison, Finding::Unresolved { accuracy }))
    }

    /// The error for steps from a thousand times ε down to a ten-thousandth of it.
    fn steps(&self, line: &Line, analytic: f64) -> Result<Vec<Step>> {
        let step = |power: i32| {
            let eps = self.eps * 10f64.powi(power);
            let h = eps * self.subject.scale(line);
            let numeric = self.subject.central(line, h)?.value;
            let error = (analytic - numeric).abs();
            Ok(Step {
                eps,
                numeric,
                error,
            })
        };
        (-4..=3).rev().map(step).collect()
    }
}

/// How the error of the gradient's largest element moves with ε: the data of the plot that shows
/// truncation on one side and rounding on the other.
pub(crate) fn convergence(
    f: Function,
    f_backward: Pullback,
    inputs: &[Tensor],
    options: &Options,
) -> Result<Vec<Step>> {
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
        Ok(Step {
            eps,
            numeric,
            error,
        })
    };
    (-22..=-3).rev().map(step).collect()
}

/// The ratio of both derivatives, if it is the same everywhere.
fn common_factor(wrong: &[(Line, Comparison)]) -> Option<f64> {
    let mut factors = wrong.iter().map(|(_, c)| c.analytic / c.numeric);
    let first = factors.next().filter(|v| v.is_finite())?;
    factors
        .all(|v| (v - first).abs() <= 1e-4 * first.abs())
        .then_some(first)
}
