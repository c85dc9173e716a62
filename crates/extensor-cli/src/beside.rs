//! What is in the library and is no operation of the catalogue: it makes tensors, looks at one, or gives as many numbers as
//! the numbers say. Whoever asks for it by the name it has in PyTorch, JAX or NumPy is told where it is.

/// Defines the list. The documentation links every path, so that rustdoc finds one that leads nowhere.
macro_rules! beside {
    ($($path:literal: $($name:literal)*;)*) => {
        /// What is there, and what others call it:
        ///
        $(#[doc = concat!("- [`", $path, "`]")])*
        pub const BESIDE: &[(&str, &[&str])] = &[$(($path, &[$($name),*])),*];
    };
}

beside! {
    "extensor::ops::nonzero": "nonzero" "argwhere" "flatnonzero" "nonzero_static";
    "extensor::ops::unique": "unique" "unique_all" "unique_counts" "unique_inverse" "unique_values";
    "extensor::ops::masked_fill": "masked_fill";
    "extensor::ops::masked_select": "masked_select" "boolean_mask" "extract";
    "extensor::ops::masked_scatter": "masked_scatter" "place";
    "extensor::ops::index_put": "index_put" "scatter_nd";
    "extensor::ops::median": "median";
    "extensor::ops::nanmedian": "nanmedian";
    "extensor::ops::quantile": "quantile" "percentile";
    "extensor::ops::nanquantile": "nanquantile" "nanpercentile";
    "extensor::ops::nansum": "nansum";
    "extensor::ops::nanprod": "nanprod";
    "extensor::ops::nanmean": "nanmean";
    "extensor::ops::nanmax": "nanmax";
    "extensor::ops::nanmin": "nanmin";
    "extensor::ops::cov": "cov" "covariance";
    "extensor::ops::corrcoef": "corrcoef" "correlation";
    "extensor::ops::bincount": "bincount";
    "extensor::ops::histogram": "histogram" "histc" "histogram_bin_edges";
    "extensor::ops::maxpool2d_with_indices": "maxpool2d_with_indices" "max_pool2d_with_indices";
    "extensor::ops::sort_with_indices": "sort_with_indices" "sort_key_val";
    "extensor::ops::sum_to_shape": "sum_to_shape" "sum_to_size";
    "extensor::ops::broadcast_shapes": "broadcast_shapes";
    "extensor::tensor": "tensor" "array" "asarray" "as_tensor" "from_numpy";
    "extensor::Tensor::zeros": "zeros" "new_zeros";
    "extensor::Tensor::zeros_like": "zeros_like";
    "extensor::Tensor::ones": "ones" "new_ones";
    "extensor::Tensor::ones_like": "ones_like";
    "extensor::Tensor::full": "full" "new_full";
    "extensor::Tensor::full_like": "full_like";
    "extensor::Tensor::arange": "arange" "range" "iota";
    "extensor::Tensor::linspace": "linspace";
    "extensor::Tensor::eye": "eye" "identity";
    "extensor::Tensor::allclose": "allclose" "isclose";
    "extensor::Tensor::item": "item";
    "extensor::Tensor::to_vec": "tolist";
    "extensor::Tensor::len": "numel" "nelement" "size";
    "extensor::Tensor::ndim": "ndim" "dim" "ndimension";
    "extensor::Tensor::contiguous": "contiguous";
    "extensor::DType::promote": "promote_types" "result_type";
    "extensor::Key::uniform": "rand" "rand_like" "uniform" "rng_uniform";
    "extensor::Key::normal": "randn" "randn_like" "normal";
    "extensor::Key::integers": "randint" "randint_like";
    "extensor::Key::new": "manual_seed" "seed";
    "extensor::autodiff::stop_gradient": "stop_gradient" "detach";
    "extensor::autodiff::grad": "grad" "backward";
    "extensor::io::safetensors::save": "save";
    "extensor::io::safetensors::load": "load";
    "extensor::io::npy::write_npz": "savez";
    "extensor::compile::compile": "compile" "jit";
}

/// Where it is that others call `name`.
///
/// ```
/// use extensor_cli::beside::beside;
/// assert_eq!(beside("argwhere"), Some("extensor::ops::nonzero"));
/// assert_eq!(beside("silu"), None);
/// ```
pub fn beside(name: &str) -> Option<&'static str> {
    BESIDE.iter().find(|(_, names)| names.contains(&name)).map(|(path, _)| *path)
}
