//! The Python package `extensor`: what of it is compiled.
//!
//! It binds the library and computes nothing itself. What can be said in Python is said there
//! (`python/extensor`): trees, the standard's argument lists, layers, reports.

mod absent;
mod autodiff;
mod average;
mod backward;
mod buffers;
mod check;
mod compile;
mod convert;
mod create;
mod curvature;
mod data;
mod distributed;
mod dlpack;
mod dtype;
mod error;
mod files;
mod function;
mod gradients;
mod imported;
mod index;
mod metrics;
mod minimize;
mod named;
mod nn;
mod numbers;
mod optim;
mod random;
mod recipe;
mod schedule;
mod search;
mod statistics;
mod stored;
mod tensor;
mod train;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use crate::autodiff::{
        Pullback, checkpoint, custom_jvp, custom_vjp, expect_room_for_jacobian, jvp, stop_gradient,
        value_and_grad, vjp, vmap,
    };
    #[pymodule_export]
    use crate::average::PyAverage;
    #[pymodule_export]
    use crate::backward::Backward;
    #[pymodule_export]
    use crate::check::{PyReport, check_grad, check_gradient, difference, numerical_gradient};
    #[pymodule_export]
    use crate::compile::{PyProgram, signature};
    #[pymodule_export]
    use crate::create::{arange, asarray, eye, full, linspace, shares_memory, tensor_of_bytes};
    #[pymodule_export]
    use crate::curvature::{
        fisher_vp, gauss_newton_vp, gradient_penalty, hessian_diagonal, laplacian,
    };
    #[pymodule_export]
    use crate::data::{
        PyBatcher, PyBatches, PyDataset, PyImages, PyTable, PyVocabulary, cifar_folder, cifar_read,
        csv_read, idx_folder, idx_read, images_of, pairs, subset, text_read, windows,
    };
    #[pymodule_export]
    use crate::distributed::PyGroup;
    #[pymodule_export]
    use crate::dlpack::from_dlpack;
    #[pymodule_export]
    use crate::dtype::{PyDType, dtype_of_name};
    #[pymodule_export]
    use crate::files::{
        atomic_clean, npy_load, npy_save, npz_load, npz_save, safetensors_expect_checksums,
        safetensors_load, safetensors_load_like, safetensors_save,
    };
    #[pymodule_export]
    use crate::function::{Function, aliases, operation_of_name, operations};
    #[pymodule_export]
    use crate::gradients::{
        PyAccumulator, all_finite, clip_grad_norm, clip_grad_value, global_norm,
    };
    #[pymodule_export]
    use crate::index::wrap_index;
    #[pymodule_export]
    use crate::metrics::{PyConfusion, auroc, perplexity};
    #[pymodule_export]
    use crate::minimize::minimize;
    #[pymodule_export]
    use crate::nn::{
        attention_parameters, class_loss, convolution_parameters, embedding_parameters,
        group_norm_parameters, init_by_fan_in, init_fans, init_kaiming_normal,
        init_kaiming_uniform, init_normal, init_orthogonal, init_truncated_normal,
        init_xavier_normal, init_xavier_uniform, linear_parameters,
    };
    #[pymodule_export]
    use crate::optim::PyMethod;
    #[pymodule_export]
    use crate::random::PyKey;
    #[pymodule_export]
    use crate::schedule::{
        PyPlateau, PySchedule, plateau_at, schedule_constant, schedule_cosine,
        schedule_cosine_restarts, schedule_exponential, schedule_multi_step, schedule_one_cycle,
        schedule_step,
    };
    #[pymodule_export]
    use crate::search::{einsum_path, nonzero, unique};
    #[pymodule_export]
    use crate::statistics::{
        bincount, corrcoef, cov, histogram, index_put, masked_fill, masked_scatter, masked_select,
        quantile, without_nan,
    };
    #[pymodule_export]
    use crate::stored::{
        PyRows, PyStoredImages, find_shards, rows, shards_found, stored_images_of, stored_pairs,
    };
    #[pymodule_export]
    use crate::tensor::{PyTensor, sum_to_shape};
    #[pymodule_export]
    use crate::train::{PyClaim, PyJsonLines, PyLossScale, call_watched, loss_scale_at};

    use extensor::DType;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        extensor::settings::check().map_err(pyo3::exceptions::PyValueError::new_err)?;
        for dtype in DType::ALL {
            let object = crate::dtype::object(module.py(), dtype)?;
            module.add(crate::dtype::python_name(dtype), object)?;
        }
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }

    /// How many bytes of free buffers are kept for reuse right now.
    #[pyfunction]
    fn pool_bytes() -> usize {
        extensor::memory::pool_bytes()
    }

    /// Sets how many bytes of free buffers are kept for reuse, and frees what is above that.
    #[pyfunction]
    fn set_pool_limit(bytes: usize) {
        extensor::memory::set_pool_limit(bytes);
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
