"""The names of the functions of the Array API standard, version 2025.12."""

VERSION = "2025.12"

#: The versions that `__array_namespace__` accepts: each is contained in the next.
VERSIONS = ["2021.12", "2022.12", "2023.12", "2024.12", "2025.12"]

NAMES = frozenset(
    """
    arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu zeros
    zeros_like astype broadcast_arrays broadcast_shapes broadcast_to can_cast finfo iinfo isdtype result_type
    abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or
    bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide greater
    greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not
    logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow real reciprocal remainder
    round sign signbit sin sinh square sqrt subtract tan tanh trunc take take_along_axis matmul matrix_transpose
    tensordot vecdot concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack tile unstack
    argmax argmin count_nonzero nonzero searchsorted where isin unique_all unique_counts unique_inverse unique_values
    argsort sort cumulative_prod cumulative_sum max mean min prod std sum var all any diff
    """.split()
)

#: Operations of the catalogue for which the standard has another name. The standard's is shown in
#: `extensor`; the catalogue's works there too, and is shown in `extensor.ops`.
RENAMED = {
    "cast": "astype",
    "concatenate": "concat",
    "cumprod": "cumulative_prod",
    "cumsum": "cumulative_sum",
    "gather": "take_along_axis",
    "max_reduce": "max",
    "min_reduce": "min",
    "modulo": "remainder",
    "negate": "negative",
    "power": "pow",
    "transpose": "permute_dims",
    "variance": "var",
}
