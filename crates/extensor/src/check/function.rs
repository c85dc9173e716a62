//! Checking what automatic differentiation makes of a function.

use super::gradient::diagnosed;
use super::options::{Mode, Options};
use super::prepare::random_like;
use super::report::{Problem, Report};
use crate::autodiff::{Path, Tree, jvp, leaves, vjp};
use crate::{DType, Error, Key, Result, Tensor};

/// Checks the derivatives that automatic differentiation finds for `f` at `args`: reverse mode
/// against differences, forward mode against reverse mode by the adjoint identity, and with
/// `order: 2` in the options the gradient's own derivative against differences of the gradient.
/// [Buffers](Path::is_buffer) stay as they are.
///
/// ```
/// use extensor::check::{Options, check_grad};
/// use extensor::ops::{exp, sin, sum};
/// use extensor::{autodiff::custom_vjp, tensor, Tensor};
///
/// let x = tensor([0.3, -0.8]);
/// let f = |x: &Tensor| exp(&sin(x)?);
/// let report = check_grad(f, &x, &Options { order: 2, ..Options::named("exp(sin x)") })?;
/// assert!(report.passed(), "{report}");
///
/// let wrong = custom_vjp(|x: &Tensor| Ok((sin(x)?, x.clone())), |x, g| Ok(g * &sin(x)?));
/// assert!(!check_grad(wrong, &x, &Options { forward: false, ..Options::named("sin") })?.passed());
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn check_grad<A: Tree, B: Tree>(
    f: impl Fn(&A) -> Result<B>,
    args: &A,
    options: &Options,
) -> Result<Report> {
    let refill = |list: &[Tensor]| -> Result<A> {
        let mut list = list.iter();
        args.map(&Path::ROOT, &mut |path, x| {
            let given = if path.is_buffer() { None } else { list.next() };
            Ok(given.unwrap_or(x).clone())
        })
    };
    let flat = |list: &Vec<Tensor>| -> Result<Vec<Tensor>> {
        let outputs = f(&refill(list)?)?;
        Ok(leaves(&outputs).into_iter().cloned().collect())
    };
    let mut inputs = Vec::new();
    let mut input_names = options.input_names.clone();
    args.visit(&Path::ROOT, &mut |path, x| {
        if path.is_buffer() {
            return Ok(());
        }
        if input_names.len() <= inputs.len() {
            input_names.push(path.to_string());
        }
        inputs.push(x.clone());
        Ok(())
    })?;
    if options.wrt.is_some() {
        let reason = "check_grad checks all arguments: capture those that are to stay fixed".into();
        return Err(Error::Check { op: options.name.clone(), reason });
    }
    let options = Options { input_names, ..options.clone() };
    let forward = |x: &[Tensor]| flat(&x.to_vec());
    let pull = |grads: &[Tensor], x: &[Tensor]| {
        let (_, pullback) = vjp(flat, &x.to_vec())?;
        pullback.call_once(&grads.to_vec())
    };
    let mut report = diagnosed(&forward, &pull, &inputs, &options)?;
    if !report.passed() {
        return Ok(report);
    }
    let key = Key::new(options.seed);
    let outputs = forward(&inputs)?;
    let weights = random_like(key.fold_in(11), &outputs)?;
    if options.forward {
        let tolerance = options.tolerance(report.dtype).relative;
        // How far apart `<w, Jv>` and `<Jᵀw, v>` may be, in units of their terms.
        let disagree = |inputs: &[Tensor], weights: &Vec<Tensor>, slack: f64| -> Result<_> {
            let tangents = random_like(key.fold_in(12), inputs)?;
            let (_, along) = jvp(flat, &inputs.to_vec(), &tangents)?;
            let gradients = pull(weights, inputs)?;
            let ((forward, size), (reverse, other)) =
                (inner(weights, &along), inner(&gradients, &tangents));
            let error = (forward - reverse).abs();
            let bound = slack * (size + other) + f64::MIN_POSITIVE;
            let wrong = error.is_nan() || error > bound;
            Ok(wrong.then_some(Problem::Adjoint { forward, reverse }))
        };
        report.problem = if report.dtype == DType::F64 {
            disagree(&inputs, &weights, tolerance * 1e-3)?
        } else {
            // What cancels within the function is rounded as if it did not, and both modes round in
            // their own ways: the formulas are compared where that does not show.
            let rounded = disagree(&inputs, &weights, tolerance)?;
            if rounded.is_none() && !options.own_dtype {
                let inputs = inputs.iter().map(widened).collect::<Result<Vec<Tensor>>>()?;
                let weights = random_like(key.fold_in(11), &forward(&inputs)?)?;
                let tolerance = options.tolerance(DType::F64).relative;
                disagree(&inputs, &weights, tolerance * 1e-3)?
            } else {
                rounded
            }
        };
        if !report.passed() {
            return Ok(report);
        }
    }
    if options.order >= 2 {
        let gradient = |x: &[Tensor]| pull(&weights, x);
        let second = |grads: &[Tensor], x: &[Tensor]| {
            let gradient = |x: &Vec<Tensor>| {
                let (_, pullback) = vjp(flat, x)?;
                pullback.call_once(&weights)
            };
            let (_, pullback) = vjp(gradient, &x.to_vec())?;
            pullback.call_once(&grads.to_vec())
        };
        let name = format!("the gradient of {}", options.name);
        let options = Options { name, mode: Mode::Fast, cotangent: None, ..options };
        let found = diagnosed(&gradient, &second, &inputs, &options)?;
        if !found.passed() {
            return Ok(found);
        }
    }
    Ok(report)
}

/// A tensor of floats in `f64`; any other as it is.
fn widened(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_float() { crate::ops::cast(x, DType::F64) } else { Ok(x.clone()) }
}

/// The inner product of two lists of tensors, and the sum of its terms' sizes.
pub(crate) fn inner(a: &[Tensor], b: &[Tensor]) -> (f64, f64) {
    let mut sum = (0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        for (x, y) in a.to_f64_vec().iter().zip(&b.to_f64_vec()) {
            sum.0 += x * y;
            sum.1 += (x * y).abs();
        }
    }
    sum
}

/// Panics, at the caller's line, with the [`Report`] of [`check_grad`] unless it passes.
///
/// ```
/// use extensor::check::{Options, assert_grad};
/// use extensor::ops::exp;
/// use extensor::{Tensor, tensor};
/// assert_grad(|x: &Tensor| exp(x), &tensor([0.5, -1.0]), &Options::named("exp"));
/// ```
#[track_caller]
pub fn assert_grad<A: Tree, B: Tree>(f: impl Fn(&A) -> Result<B>, args: &A, options: &Options) {
    match check_grad(f, args, options) {
        Ok(report) if report.passed() => {}
        Ok(report) => panic!("{report}"),
        Err(error) => panic!("{}: cannot be checked: {error}", options.name),
    }
}
