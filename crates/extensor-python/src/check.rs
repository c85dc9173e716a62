//! Checking gradients of Python functions by the library's own engine.
//!
//! Functions take and return lists of tensors; `_check.py` makes them of whatever a person has. It
//! must not judge anything: what is right or wrong is the engine's business, and how a report looks
//! is `_report.py`'s.

use crate::autodiff::{list, tensors};
use crate::error::{OrRaise, callback};
use crate::tensor::{PyTensor, expect_numbers};
use extensor::check::{self, Comparison, Mode, Options, Place, Problem};
use extensor::{Tensor, Tolerance};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// An argument's name and the index of an element; no index for a direction through arguments.
type At = (String, Option<Vec<usize>>);

/// A place, the analytic and the numeric derivative, their distance and what is allowed.
type Entry = (String, Option<Vec<usize>>, f64, f64, f64, f64);

/// A place, the derivatives from below and from above, and the gradient.
type Sides = (String, Option<Vec<usize>>, f64, f64, f64);

/// What the engine found.
#[pyclass(module = "extensor._core", frozen, name = "Report")]
pub struct PyReport(check::Report);

fn at(place: &Place) -> At {
    match place {
        Place::Element { input, index } => (input.clone(), Some(index.clone())),
        Place::Direction { inputs } => (inputs.clone(), None),
    }
}

fn entry(comparison: &Comparison) -> Entry {
    let (name, index) = at(&comparison.place);
    let Comparison { analytic, numeric, tolerance, .. } = *comparison;
    (name, index, analytic, numeric, comparison.error(), tolerance)
}

#[pymethods]
impl PyReport {
    /// Whether the gradient is right.
    #[getter]
    fn passed(&self) -> bool {
        self.0.passed()
    }

    /// What the function is called.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The name of the least precise dtype among the inputs differentiated by.
    #[getter]
    fn dtype(&self) -> &'static str {
        crate::dtype::python_name(self.0.dtype)
    }

    /// "full" or "fast".
    #[getter]
    fn mode(&self) -> &'static str {
        if self.0.mode == Mode::Fast { "fast" } else { "full" }
    }

    /// The step.
    #[getter]
    fn eps(&self) -> f64 {
        self.0.eps
    }

    /// How many derivatives were compared.
    #[getter]
    fn checked(&self) -> usize {
        self.0.checked
    }

    /// How many elements the inputs differentiated by have.
    #[getter]
    fn elements(&self) -> usize {
        self.0.elements
    }

    /// Where the error is largest in units of what is allowed.
    #[getter]
    fn worst(&self) -> Option<Entry> {
        self.0.worst.as_ref().map(entry)
    }

    /// All comparisons.
    #[getter]
    fn comparisons(&self) -> Vec<Entry> {
        self.0.comparisons.iter().map(entry).collect()
    }

    /// ε, the difference quotient and the error, for the worst place.
    #[getter]
    fn steps(&self) -> Vec<(f64, f64, f64)> {
        self.0.steps.iter().map(|s| (s.eps, s.numeric, s.error)).collect()
    }

    /// Where the function has a kink, the differences from below and above, and the gradient.
    #[getter]
    fn kinks(&self) -> Vec<Sides> {
        let row = |kink: &check::Kink| {
            let (name, index) = at(&kink.place);
            (name, index, kink.left, kink.right, kink.analytic)
        };
        self.0.kinks.iter().map(row).collect()
    }

    /// At how many places the function has a kink.
    #[getter]
    fn kink_count(&self) -> usize {
        self.0.kink_count
    }

    /// The slope of the Taylor remainder.
    #[getter]
    fn taylor(&self) -> Option<f64> {
        self.0.taylor
    }

    /// What kind of problem there is, in one word.
    #[getter]
    fn problem(&self) -> Option<&'static str> {
        self.0.problem.as_ref().map(|problem| match problem {
            Problem::Nondeterministic { .. } => "nondeterministic",
            Problem::Count { .. } => "count",
            Problem::Shape { .. } => "shape",
            Problem::DType { .. } => "dtype",
            Problem::NotFinite { .. } => "not finite",
            Problem::Forward { .. } => "forward",
            Problem::Wrong { .. } => "wrong",
            Problem::Unresolved { .. } => "unresolved",
            Problem::Adjoint { .. } => "adjoint",
            Problem::Taylor { .. } => "taylor",
            Problem::NothingChecked => "nothing checked",
        })
    }

    /// The problem in a sentence.
    #[getter]
    fn message(&self) -> Option<String> {
        self.0.problem.as_ref().map(Problem::to_string)
    }

    /// What kind of mistake it looks like.
    #[getter]
    fn diagnosis(&self) -> Option<&str> {
        self.0.diagnosis.as_deref()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }
}

/// The engine's options from a dict of them.
fn options(given: &Bound<'_, PyDict>) -> PyResult<Options> {
    let mut options = Options { record: true, ..Options::default() };
    for (key, value) in given.iter() {
        let key: String = key.extract()?;
        match key.as_str() {
            "name" => options.name = value.extract()?,
            "input_names" => options.input_names = value.extract()?,
            "wrt" => options.wrt = value.extract()?,
            "eps" => options.eps = value.extract()?,
            "rtol" => options.rtol = value.extract()?,
            "atol" => options.atol = value.extract()?,
            "directions" => options.directions = value.extract()?,
            "seed" => options.seed = value.extract()?,
            "own_dtype" => options.own_dtype = value.extract()?,
            "taylor" => options.taylor = value.extract()?,
            "shown" => options.shown = value.extract()?,
            "forward" => options.forward = value.extract()?,
            "order" => options.order = value.extract()?,
            "cotangent" => {
                let given: Option<PyRef<'_, PyTensor>> = value.extract()?;
                options.cotangent = given.map(|tensor| tensor.0.clone());
            }
            "mode" => {
                options.mode = match value.extract::<Option<String>>()?.as_deref() {
                    None | Some("auto") => Mode::Auto,
                    Some("full") => Mode::Full,
                    Some("fast") => Mode::Fast,
                    Some(other) => {
                        let text =
                            format!(r#"mode is "{other}", expected "auto", "full" or "fast""#);
                        return Err(PyValueError::new_err(text));
                    }
                }
            }
            _ => return Err(PyValueError::new_err(format!("there is no option {key}"))),
        }
    }
    Ok(options)
}

/// Checks `f(inputs)` and `f_backward(grad_outputs, inputs)`, which take and return lists.
#[pyfunction]
pub fn check_gradient(
    f: &Bound<'_, PyAny>,
    f_backward: &Bound<'_, PyAny>,
    inputs: &Bound<'_, PyAny>,
    given: &Bound<'_, PyDict>,
) -> PyResult<PyReport> {
    const OP: &str = "check_gradient";
    let py = f.py();
    let forward = |x: &[Tensor]| {
        let called = || tensors(&f.call1((list(py, x)?,))?);
        called().map_err(|error| callback(OP, error))
    };
    let backward = |g: &[Tensor], x: &[Tensor]| {
        let called = || tensors(&f_backward.call1((list(py, g)?, list(py, x)?))?);
        called().map_err(|error| callback(OP, error))
    };
    check::check_gradients(forward, backward, &numbers(OP, inputs)?, &options(given)?)
        .or_raise()
        .map(PyReport)
}

/// The tensors of a list, which differences are made of: not those of a function that is being recorded.
fn numbers(op: &'static str, list: &Bound<'_, PyAny>) -> PyResult<Vec<Tensor>> {
    let all = tensors(list)?;
    all.iter().try_for_each(|x| expect_numbers(op, x))?;
    Ok(all)
}

/// Checks what automatic differentiation makes of `f(inputs)`, which takes and returns lists.
#[pyfunction]
pub fn check_grad(
    f: &Bound<'_, PyAny>,
    inputs: &Bound<'_, PyAny>,
    given: &Bound<'_, PyDict>,
) -> PyResult<PyReport> {
    let py = f.py();
    let forward = |x: &Vec<Tensor>| {
        let called = || tensors(&f.call1((list(py, x)?,))?);
        called().map_err(|error| callback("check_grad", error))
    };
    check::check_grad(forward, &numbers("check_grad", inputs)?, &options(given)?)
        .or_raise()
        .map(PyReport)
}

/// The weights `w` of the output and the gradients of `<w, f(inputs)>` by differences, of a function that
/// takes a list and returns a list of one.
#[pyfunction]
pub fn numerical_gradient<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    inputs: &Bound<'py, PyAny>,
    given: &Bound<'py, PyDict>,
) -> PyResult<(PyTensor, Bound<'py, PyList>)> {
    const OP: &str = "numerical_gradient";
    let forward = |x: &[Tensor]| {
        let called = || {
            let mut found = tensors(&f.call1((list(py, x)?,))?)?;
            match found.len() {
                1 => Ok(found.swap_remove(0)),
                n => {
                    Err(PyTypeError::new_err(format!("{OP}: f returned {n} arrays, expected one")))
                }
            }
        };
        called().map_err(|error| callback(OP, error))
    };
    let found = check::numerical_gradient(forward, &numbers(OP, inputs)?, &options(given)?);
    let found = found.or_raise()?;
    Ok((PyTensor(found.cotangent), list(py, &found.gradients)?))
}

/// How two tensors differ by more than a tolerance, by default that of the dtype, in a sentence.
#[pyfunction]
#[pyo3(signature = (got, want, rtol = None, atol = None))]
pub fn difference(
    got: &PyTensor,
    want: &PyTensor,
    rtol: Option<f64>,
    atol: Option<f64>,
) -> PyResult<Option<String>> {
    [got, want].into_iter().try_for_each(|x| expect_numbers("difference", &x.0))?;
    let usual = Tolerance::of(want.0.dtype());
    let (rtol, atol) = (rtol.unwrap_or(usual.relative), atol.unwrap_or(usual.absolute));
    let found = got.0.difference(&want.0, Tolerance::new(rtol, atol));
    Ok(found.map(|found| crate::error::in_python(&found.to_string())))
}
