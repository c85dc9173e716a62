//! The Python class `Tensor`.
//!
//! It holds a tensor of the library and hands every operator to the function that does it; it must
//! not compute anything by itself.

use crate::convert::Argument;
use crate::dtype::{self, PyDType, python_name};
use crate::error::{OrRaise, expect_memory, released};
use crate::function::{self, PowerLike};
use crate::numbers::{MOST_NESTED, element, elements, nested, number};
use crate::{buffers, dlpack, index};
use extensor::autodiff::stop_gradient;
use extensor::{DType, Kind, Tensor};
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyTuple};

/// An immutable array of numbers of one dtype with any number of dimensions.
#[pyclass(name = "Tensor", module = "extensor", frozen, weakref)]
pub struct PyTensor(pub Tensor);

type Binary = fn(&Tensor, &Tensor) -> extensor::Result<Tensor>;

/// An error if the tensor is being differentiated, since its gradient would be lost where it leaves, or
/// recorded, since it has no numbers yet.
pub fn expect_plain(what: &'static str, x: &Tensor) -> PyResult<()> {
    expect_numbers(what, x)?;
    if x.is_mapped() {
        return Err(extensor::Error::Mapped { op: what }).or_raise();
    }
    if x.is_traced() { Err(extensor::Error::Traced { op: what }).or_raise() } else { Ok(()) }
}

/// An error if the tensor has no numbers yet.
pub fn expect_numbers(what: &'static str, x: &Tensor) -> PyResult<()> {
    let at = std::panic::Location::caller();
    if x.is_recorded() {
        return Err(extensor::Error::Recorded { op: what, at }).or_raise();
    }
    Ok(())
}

/// An error unless the device is the host, the only one there is.
pub fn expect_device(device: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    match device {
        None => Ok(()),
        Some(d) if d.is_none() || d.eq("cpu")? => Ok(()),
        Some(d) => {
            Err(PyValueError::new_err(format!("there is no device {}, only 'cpu'", d.repr()?)))
        }
    }
}

/// The other operand beside `x`, which is no tensor of ours; nothing if it is no number and no array.
fn operand(x: &Tensor, other: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
    match Argument::of(other)? {
        Some(Argument::Tensor(y)) => Ok(Some(y)),
        Some(Argument::Number(n)) => n.beside(x.dtype()).map(Some),
        None => Ok(None),
    }
}

#[inline]
fn infix<'py>(
    x: &Tensor,
    other: &Bound<'py, PyAny>,
    swapped: bool,
    f: Binary,
) -> PyResult<Bound<'py, PyAny>> {
    let py = other.py();
    let made;
    let y = match other.cast::<PyTensor>() {
        Ok(other) => &other.get().0,
        Err(_) => match operand(x, other)? {
            Some(y) => {
                made = y;
                &made
            }
            None => return Ok(py.NotImplemented().into_bound(py)),
        },
    };
    let (a, b) = if swapped { (y, x) } else { (x, y) };
    let same = a.shape() == b.shape();
    let work = if same { a.len() } else { a.len().saturating_mul(b.len()) };
    let result = function::compute(py, work, || f(a, b))?;
    Ok(Bound::new(py, PyTensor(result))?.into_any())
}

/// `x` with its last two axes swapped.
pub fn matrix_transpose(x: &Tensor) -> PyResult<Tensor> {
    let n = x.ndim() as i64;
    if n < 2 {
        let text =
            format!("matrix_transpose: x has shape {}, expected at least two axes", x.shape());
        return Err(PyValueError::new_err(text));
    }
    let mut axes: Vec<i64> = (0..n).collect();
    axes.swap(n as usize - 1, n as usize - 2);
    extensor::ops::transpose(x, &axes[..]).or_raise()
}

/// `x` summed over the axes along which a tensor of `shape` would be repeated to have `x`'s shape: what a
/// backward function does with the gradient for an operand that was broadcast.
///
/// >>> import extensor as ex
/// >>> g = ex.asarray([[1.0, 2.0], [3.0, 4.0]])
/// >>> ex.sum_to_shape(g, (2,)), ex.sum_to_shape(g, (2, 1)).tolist()
/// (Tensor([4.0, 6.0], dtype=float64), [[3.0], [7.0]])
#[pyfunction]
#[pyo3(signature = (x, /, shape))]
pub fn sum_to_shape(py: Python<'_>, x: &PyTensor, shape: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
    let shape = crate::random::shape(shape)?;
    function::compute(py, x.0.len(), || extensor::ops::sum_to_shape(&x.0, &shape)).map(PyTensor)
}

#[pymethods]
impl PyTensor {
    /// The type of the elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyDType>> {
        dtype::object(py, self.0.dtype())
    }

    /// Where the elements are: always `'cpu'`.
    #[getter]
    fn device(&self) -> &'static str {
        "cpu"
    }

    /// The sizes of the axes.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.shape().iter())
    }

    /// The number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.0.ndim()
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.0.len()
    }

    /// How many bytes the elements take.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.len().saturating_mul(self.0.dtype().size())
    }

    /// How many elements apart neighbours along each axis lie in memory.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.strides().iter())
    }

    /// Whether the tensor is being differentiated.
    #[getter]
    fn is_traced(&self) -> bool {
        self.0.is_traced()
    }

    /// Whether the tensor has no numbers yet, since a function of it is being compiled.
    #[getter]
    fn is_recorded(&self) -> bool {
        self.0.is_recorded()
    }

    /// The transpose of a matrix.
    #[getter(T)]
    fn transpose(&self) -> PyResult<PyTensor> {
        if self.0.ndim() != 2 {
            let text = format!("T: the tensor has shape {}, expected two axes", self.0.shape());
            return Err(PyValueError::new_err(text));
        }
        matrix_transpose(&self.0).map(PyTensor)
    }

    /// The tensor with its last two axes swapped.
    #[getter(mT)]
    fn m_transpose(&self) -> PyResult<PyTensor> {
        matrix_transpose(&self.0).map(PyTensor)
    }

    /// The tensor on a device: itself, there being one only.
    #[pyo3(signature = (device, /, *, stream = None))]
    fn to_device(
        slf: Bound<'_, Self>,
        device: Bound<'_, PyAny>,
        stream: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyTensor>> {
        expect_device(Some(&device))?;
        if stream.is_some_and(|s| !s.is_none()) {
            return Err(PyValueError::new_err("to_device: the host has no streams"));
        }
        Ok(slf.unbind())
    }

    /// The namespace of the Array API standard.
    #[pyo3(signature = (*, api_version = None))]
    fn __array_namespace__<'py>(
        &self,
        py: Python<'py>,
        api_version: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let module = py.import("extensor")?;
        let known: Vec<String> = module.getattr("_API_VERSIONS")?.extract()?;
        match api_version {
            Some(version) if !known.iter().any(|k| k == version) => {
                Err(PyValueError::new_err(format!(
                    "version {version:?} of the Array API standard is not supported; {} are",
                    known.join(", ")
                )))
            }
            _ => Ok(module.into_any()),
        }
    }

    /// The one element as a Python number.
    fn item<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.0.len() != 1 {
            let text =
                format!("item: the tensor has shape {}, expected one element", self.0.shape());
            return Err(PyValueError::new_err(text));
        }
        expect_plain("item", &self.0)?;
        element(py, &extensor::ops::reshape(&self.0, [0i64; 0]).or_raise()?)
    }

    /// The elements as nested lists of Python numbers.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.0.ndim() > MOST_NESTED {
            let text = format!("tolist: {} axes are too many for nested lists", self.0.ndim());
            return Err(PyValueError::new_err(text));
        }
        let outer = self.0.shape().iter().take_while(|&&n| n > 0);
        let lists = outer.fold(1usize, |all, &n| all.saturating_mul(n));
        if self.0.is_empty() {
            expect_memory("tolist", lists.saturating_mul(64))?;
        }
        expect_plain("tolist", &self.0)?;
        let mut all = elements(py, &self.0)?.into_iter();
        nested(py, self.0.shape(), &mut all)
    }

    /// A NumPy array over the same memory, read-only.
    fn numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("numpy")?.call_method1("asarray", (slf,))
    }

    /// A copy whose memory is its own, in row-major order.
    fn copy(&self, py: Python<'_>) -> PyResult<PyTensor> {
        released(py, || self.0.copied()).map(PyTensor)
    }

    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if stream.is_some_and(|s| !s.is_none()) {
            return Err(PyValueError::new_err("__dlpack__: the host's memory has no streams"));
        }
        if dl_device.is_some_and(|(kind, _)| kind != dlpack::CPU) {
            let text =
                "__dlpack__: the tensor is in the host's memory and cannot be exported elsewhere";
            return Err(pyo3::exceptions::PyBufferError::new_err(text));
        }
        dlpack::export(py, &self.0, max_version, copy)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (dlpack::CPU, 0)
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        buffers::array_interface(py, self)?.ok_or_else(|| {
            pyo3::exceptions::PyAttributeError::new_err(
                "NumPy has no bfloat16: cast the tensor to float32 first",
            )
        })
    }

    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        // An object with nothing but the interface, so that NumPy does not come back here.
        let interface = slf.getattr("__array_interface__")?;
        let numpy = py.import("numpy")?;
        let holder = py.import("extensor._exchange")?.call_method1("Holder", (slf, interface))?;
        let arguments = PyDict::new(py);
        arguments.set_item("dtype", dtype)?;
        if let Some(copy) = copy {
            arguments.set_item("copy", copy)?;
        }
        numpy.call_method(
            if copy.is_some() { "array" } else { "asarray" },
            (holder,),
            Some(&arguments),
        )
    }

    fn __len__(&self) -> PyResult<usize> {
        self.0
            .shape()
            .first()
            .copied()
            .ok_or_else(|| PyTypeError::new_err("len: a 0-d tensor has no length"))
    }

    fn __getitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
        index::get(py, &self.0, key).map(PyTensor)
    }

    fn __setitem__(&self, _key: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "tensors are immutable: make a new one, with extensor.where, concat or scatter_add",
        ))
    }

    fn __iter__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        if slf.get().0.ndim() == 0 {
            return Err(PyTypeError::new_err("iter: a 0-d tensor has no elements to go through"));
        }
        let parts = py.import("extensor")?.call_method1("unstack", (slf,))?;
        Ok(parts.try_iter()?.into_any().unbind())
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        number(py, &self.0, "bool")?.is_truthy()
    }

    fn __float__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.get_type::<PyFloat>().call1((number(py, &self.0, "float")?,))
    }

    fn __int__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.get_type::<pyo3::types::PyInt>().call1((number(py, &self.0, "int")?,))
    }

    fn __complex__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.get_type::<pyo3::types::PyComplex>().call1((number(py, &self.0, "complex")?,))
    }

    fn __index__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if !self.0.dtype().is_int() {
            let name = python_name(self.0.dtype());
            return Err(PyTypeError::new_err(format!("a tensor of dtype {name} is not an index")));
        }
        number(py, &self.0, "index")
    }

    fn __format__<'py>(slf: &Bound<'py, Self>, spec: &str) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if spec.is_empty() {
            return Ok(slf.str()?.into_any());
        }
        // What is read by people may be read while it is differentiated.
        number(py, &stop_gradient(&slf.get().0), "format")?.call_method1("__format__", (spec,))
    }

    fn __repr__(&self) -> String {
        let x = &self.0;
        let text = x.to_string();
        let body = text.rsplit_once("  ").map_or(text.as_str(), |(body, _)| body);
        let body = body.replace("\n\n", "\n\u{0}\n").replace('\n', "\n       ");
        let body = body.replace("       \u{0}", "");
        let body = match x.dtype().kind() {
            Kind::Bool => body.replace("true", "True").replace("false", "False"),
            _ => body.replace("NaN", "nan"),
        };
        let shape = if x.is_empty() || body.contains("...") {
            let sizes: Vec<String> = x.shape().iter().map(usize::to_string).collect();
            let comma = if sizes.len() == 1 { "," } else { "" };
            format!(", shape=({}{comma})", sizes.join(", "))
        } else {
            String::new()
        };
        format!("Tensor({body}, dtype={}{shape})", python_name(x.dtype()))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, x) = (slf.py(), &slf.get().0);
        expect_plain("pickle", x)?;
        let flat = x.contiguous().or_raise()?;
        let bytes = PyBytes::new(py, flat.to_bytes().or_raise()?.as_slice());
        let function = py.import("extensor._core")?.getattr("tensor_of_bytes")?;
        let arguments = (bytes, PyTuple::new(py, x.shape().iter())?, python_name(x.dtype()));
        Ok((function, arguments).into_pyobject(py)?.into_any())
    }

    fn __copy__(slf: Bound<'_, Self>) -> Py<PyTensor> {
        slf.unbind()
    }

    fn __deepcopy__(slf: Bound<'_, Self>, _memo: &Bound<'_, PyAny>) -> Py<PyTensor> {
        slf.unbind()
    }

    fn __richcmp__<'py>(
        &self,
        other: &Bound<'py, PyAny>,
        op: CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        let f: Binary = match op {
            CompareOp::Eq => extensor::ops::equal,
            CompareOp::Ne => extensor::ops::not_equal,
            CompareOp::Lt => extensor::ops::less,
            CompareOp::Le => extensor::ops::less_equal,
            CompareOp::Gt => extensor::ops::greater,
            CompareOp::Ge => extensor::ops::greater_equal,
        };
        infix(&self.0, other, false, f)
    }

    fn __neg__(&self, py: Python<'_>) -> PyResult<PyTensor> {
        function::compute(py, self.0.len(), || extensor::ops::negate(&self.0)).map(PyTensor)
    }
    fn __pos__(slf: Bound<'_, Self>) -> PyResult<Py<PyTensor>> {
        if slf.get().0.dtype() == DType::Bool {
            return Err(PyTypeError::new_err("positive: x has dtype bool, expected a number"));
        }
        Ok(slf.unbind())
    }
    fn __abs__(&self, py: Python<'_>) -> PyResult<PyTensor> {
        function::compute(py, self.0.len(), || extensor::ops::abs(&self.0)).map(PyTensor)
    }
    fn __invert__(&self, py: Python<'_>) -> PyResult<PyTensor> {
        function::compute(py, self.0.len(), || function::named("bitwise_invert", &[&self.0]))
            .map(PyTensor)
    }

    fn __add__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, false, extensor::ops::add)
    }
    fn __radd__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, true, extensor::ops::add)
    }
    fn __sub__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, false, extensor::ops::subtract)
    }
    fn __rsub__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, true, extensor::ops::subtract)
    }
    fn __mul__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, false, extensor::ops::multiply)
    }
    fn __rmul__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, true, extensor::ops::multiply)
    }
    fn __truediv__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, false, extensor::ops::divide)
    }
    fn __rtruediv__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, true, extensor::ops::divide)
    }
    fn __floordiv__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, false, extensor::ops::floor_divide)
    }
    fn __rfloordiv__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, true, extensor::ops::floor_divide)
    }
    fn __mod__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, false, extensor::ops::modulo)
    }
    fn __rmod__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, true, extensor::ops::modulo)
    }
    fn __matmul__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, false, extensor::ops::matmul)
    }
    fn __rmatmul__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, true, extensor::ops::matmul)
    }
    fn __pow__<'py>(
        &self,
        other: &Bound<'py, PyAny>,
        modulo: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        PowerLike::expect_no_modulo(modulo)?;
        infix(&self.0, other, false, extensor::ops::power)
    }
    fn __rpow__<'py>(
        &self,
        other: &Bound<'py, PyAny>,
        modulo: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        PowerLike::expect_no_modulo(modulo)?;
        infix(&self.0, other, true, extensor::ops::power)
    }
    fn __and__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, false, |a, b| function::named("bitwise_and", &[a, b]))
    }
    fn __rand__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, true, |a, b| function::named("bitwise_and", &[a, b]))
    }
    fn __or__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, false, |a, b| function::named("bitwise_or", &[a, b]))
    }
    fn __ror__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, true, |a, b| function::named("bitwise_or", &[a, b]))
    }
    fn __xor__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, false, |a, b| function::named("bitwise_xor", &[a, b]))
    }
    fn __rxor__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, true, |a, b| function::named("bitwise_xor", &[a, b]))
    }
    fn __lshift__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, false, |a, b| function::named("bitwise_left_shift", &[a, b]))
    }
    fn __rlshift__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, true, |a, b| function::named("bitwise_left_shift", &[a, b]))
    }
    fn __rshift__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, false, |a, b| function::named("bitwise_right_shift", &[a, b]))
    }
    fn __rrshift__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        infix(&self.0, other, true, |a, b| function::named("bitwise_right_shift", &[a, b]))
    }
}
