//! The Python package `extensor`: what of it is compiled.
//!
//! It binds the library and computes nothing itself. What can be said in Python is said there
//! (`python/extensor`): trees, the standard's argument lists, layers, reports.

mod absent;
mod autodiff;
mod backward;
mod buffers;
mod convert;
mod create;
mod dlpack;
mod dtype;
mod error;
mod function;
mod index;
mod random;
mod search;
mod tensor;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use crate::autodiff::{
        Pullback, checkpoint, custom_jvp, custom_vjp, jvp, stop_gradient, value_and_grad, vjp,
    };
    #[pymodule_export]
    use crate::backward::Backward;
    #[pymodule_export]
    use crate::create::{arange, eye, full, linspace};
    #[pymodule_export]
    use crate::dlpack::from_dlpack;
    #[pymodule_export]
    use crate::dtype::{PyDType, dtype_of_name};
    #[pymodule_export]
    use crate::function::{Function, operation_of_name, operations};
    #[pymodule_export]
    use crate::index::wrap_index;
    #[pymodule_export]
    use crate::random::PyKey;
    #[pymodule_export]
    use crate::search::{nonzero, unique};
    #[pymodule_export]
    use crate::tensor::{PyTensor, asarray, shares_memory, tensor_of_bytes};

    use extensor::DType;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        for dtype in DType::ALL {
            let object = crate::dtype::object(module.py(), dtype)?;
            module.add(crate::dtype::python_name(dtype), object)?;
        }
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }

    /// How many threads operations use.
    #[pyfunction]
    fn get_threads() -> usize {
        extensor::threads::get()
    }

    /// Sets how many threads operations use.
    #[pyfunction]
    fn set_threads(count: usize) -> PyResult<()> {
        if count == 0 {
            return Err(pyo3::exceptions::PyValueError::new_err(
                "there must be at least one thread",
            ));
        }
        extensor::threads::set(count);
        Ok(())
    }
}
