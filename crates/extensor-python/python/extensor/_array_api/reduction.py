"""Many elements to one: sums, means, extremes; and sums on the way."""

import builtins
from collections.abc import Callable

from .. import _core, ops
from .._core import DType, Tensor
from .._types import ArrayLike, Axis, DTypeLike
from .common import axes_in, axis_in, tensor
from .manipulation import concat

__all__ = [
    "all", "any", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod", "std", "sum", "var",
]


def _summed_dtype(x: Tensor, dtype: DTypeLike | None) -> DType:
    """The dtype of a sum: whole numbers are summed in 64 bits unless another dtype is given."""
    if dtype is not None:
        return _core.dtype_of_name(dtype)
    return {"f": x.dtype, "u": _core.uint64}.get(x.dtype.kind, _core.int64)


def _cast(x: Tensor, dtype: DType) -> Tensor:
    return x if x.dtype == dtype else ops.cast(x, dtype)


def _axes(name: str, x: Tensor, axis: Axis) -> list[int] | None:
    return None if axis is None else axes_in(name, axis, x.ndim)


def sum(
    x: ArrayLike, /, *, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: builtins.bool = False,
) -> Tensor:
    """The sum of elements, over all axes or those given.

    >>> import extensor as ex
    >>> ex.sum(ex.asarray([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    Tensor([4.0, 6.0], dtype=float64)
    """
    if type(x) is _core.Tensor and axis is None and dtype is None and x.dtype.is_float:
        return ops.sum(x, None, keepdims) if keepdims else ops.sum(x)
    x = tensor("sum", x)
    return ops.sum(_cast(x, _summed_dtype(x, dtype)), _axes("sum", x, axis), keepdims)


def prod(
    x: ArrayLike, /, *, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: builtins.bool = False,
) -> Tensor:
    """The product of elements, over all axes or those given."""
    x = tensor("prod", x)
    return ops.prod(_cast(x, _summed_dtype(x, dtype)), _axes("prod", x, axis), keepdims)


def mean(x: ArrayLike, /, *, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    """The mean of elements, over all axes or those given."""
    x = tensor("mean", x)
    return ops.mean(x, _axes("mean", x, axis), keepdims)


def max(x: ArrayLike, /, *, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    """The largest element, over all axes or those given."""
    x = tensor("max", x)
    return ops.max_reduce(x, _axes("max", x, axis), keepdims)


def min(x: ArrayLike, /, *, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    """The smallest element, over all axes or those given."""
    x = tensor("min", x)
    return ops.min_reduce(x, _axes("min", x, axis), keepdims)


def var(
    x: ArrayLike, /, *, axis: Axis = None, correction: float = 0.0, keepdims: builtins.bool = False,
) -> Tensor:
    """The variance: the sum of squared distances from the mean over the number of elements less
    `correction`."""
    x = tensor("var", x)
    axes = _axes("var", x, axis)
    whole = int(correction)
    if whole == correction and whole >= 0:
        return ops.variance(x, axes, whole, keepdims)
    count = 1
    for a in range(x.ndim) if axes is None else axes:
        count *= x.shape[a]
    divisor = count - correction
    factor = count / divisor if divisor > 0 else float("nan" if divisor == 0 and count == 0 else "inf")
    return ops.variance(x, axes, 0, keepdims) * factor


def std(
    x: ArrayLike, /, *, axis: Axis = None, correction: float = 0.0, keepdims: builtins.bool = False,
) -> Tensor:
    """The standard deviation, the square root of the variance."""
    x = tensor("std", x)
    whole = int(correction)
    if whole == correction and whole >= 0:
        return ops.std(x, _axes("std", x, axis), whole, keepdims)
    return ops.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def all(x: ArrayLike, /, *, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    """Whether all elements are true (not zero)."""
    x = tensor("all", x)
    return ops.all(x, _axes("all", x, axis), keepdims)


def any(x: ArrayLike, /, *, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    """Whether any element is true (not zero)."""
    x = tensor("any", x)
    return ops.any(x, _axes("any", x, axis), keepdims)


def _cumulative(
    name: str,
    operation: Callable[[Tensor, int], Tensor],
    start: int,
    x: ArrayLike,
    axis: int | None,
    dtype: DTypeLike | None,
    include_initial: builtins.bool,
) -> Tensor:
    x = tensor(name, x)
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{name}: a tensor of {x.ndim} dimensions needs an axis")
        axis = 0
    axis = axis_in(name, axis, x.ndim)
    wide = _summed_dtype(x, dtype)
    y = operation(_cast(x, wide), axis)
    if not include_initial:
        return y
    shape = [1 if k == axis else n for k, n in enumerate(x.shape)]
    return concat([_core.full(shape, start, dtype=wide), y], axis=axis)


def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: builtins.bool = False,
) -> Tensor:
    """The sums of the elements up to each, along an axis."""
    return _cumulative("cumulative_sum", ops.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: builtins.bool = False,
) -> Tensor:
    """The products of the elements up to each, along an axis."""
    return _cumulative("cumulative_prod", ops.cumprod, 1, x, axis, dtype, include_initial)


def diff(
    x: ArrayLike,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Tensor:
    """The differences of neighbours along an axis, `n` times over; with `n=0` the tensor itself, as in
    NumPy, whatever is to be put before or after it."""
    x = tensor("diff", x)
    axis = axis_in("diff", axis, x.ndim)
    if n < 0:
        raise ValueError(f"diff: n is {n}, expected a number from 0 on")
    if n == 0:
        return x
    parts = [part for part in (prepend, x, append) if part is not None]
    if len(parts) > 1:
        x = concat(parts, axis=axis)
    operation: Callable[[Tensor, Tensor], Tensor]
    operation = ops.not_equal if x.dtype.kind == "b" else ops.subtract
    for _ in range(builtins.min(n, x.shape[axis])):
        x = operation(ops.slice(x, axis, 1, None), ops.slice(x, axis, 0, -1))
    return x
