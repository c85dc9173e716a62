"""Elements found, picked, sorted and told apart."""

import builtins
from typing import Literal, NamedTuple

from .. import _core, ops
from .._core import Tensor
from .._types import ArrayLike, Axis, Operand
from .common import axis_in, beside, flat, is_number, tensor, together
from .dtypes import broadcast_shapes, result_type
from .reduction import sum

__all__ = [
    "argmax", "argmin", "argsort", "count_nonzero", "isin", "nonzero", "searchsorted", "sort", "take",
    "take_along_axis", "unique_all", "unique_counts", "unique_inverse", "unique_values", "where",
]


def argmax(x: ArrayLike, /, *, axis: int | None = None, keepdims: builtins.bool = False) -> Tensor:
    """The index of the first largest element, along an axis or in all, flat."""
    return ops.argmax(x, axis, keepdims)


def argmin(x: ArrayLike, /, *, axis: int | None = None, keepdims: builtins.bool = False) -> Tensor:
    """The index of the first smallest element, along an axis or in all, flat."""
    return ops.argmin(x, axis, keepdims)


def nonzero(x: ArrayLike, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are not zero, a tensor for each axis."""
    return _core.nonzero(tensor("nonzero", x))


def count_nonzero(x: ArrayLike, /, *, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    """How many elements are not zero."""
    x = tensor("count_nonzero", x)
    found = x if x.dtype.kind == "b" else ops.not_equal(x, beside("count_nonzero", 0, x))
    return sum(ops.cast(found, _core.int64), axis=axis, keepdims=keepdims)


def where(condition: ArrayLike, x1: Operand, x2: Operand, /) -> Tensor:
    """The elements of `x1` where the condition holds, those of `x2` elsewhere."""
    condition = tensor("where", condition)
    if is_number(x1) and is_number(x2):
        one = _core.asarray(x1), _core.asarray(x2)
        common = result_type(one[0], x2) if type(x1) is not int else result_type(one[1], x1)
        x1, x2 = _core.asarray(x1, dtype=common), _core.asarray(x2, dtype=common)
    return ops.where(condition, *together("where", x1, x2))


def searchsorted(
    x1: ArrayLike,
    x2: Operand,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: ArrayLike | None = None,
) -> Tensor:
    """Where the numbers `x2` would be put into the sorted `x1`: before equal ones, or after (`"right"`)."""
    if side not in ("left", "right"):
        raise ValueError(f'searchsorted: side is {side!r}, expected "left" or "right"')
    x1 = tensor("searchsorted", x1)
    x2 = beside("searchsorted", x2, x1)
    if sorter is not None:
        x1 = take(x1, tensor("searchsorted", sorter), axis=0)
    return ops.searchsorted(x1, x2, side == "right")


def take(x: ArrayLike, indices: ArrayLike, /, *, axis: int | None = None) -> Tensor:
    """The elements at indices along an axis; indices below 0 count from the end."""
    x, indices = tensor("take", x), tensor("take", indices)
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: a tensor of {x.ndim} dimensions needs an axis")
        axis = 0
    axis = axis_in("take", axis, x.ndim)
    return ops.take(x, _core.wrap_index(indices, axis, x.shape[axis]), axis)


def take_along_axis(x: ArrayLike, indices: ArrayLike, /, *, axis: int = -1) -> Tensor:
    """The elements of each line along an axis at that line's own indices."""
    x, indices = tensor("take_along_axis", x), tensor("take_along_axis", indices)
    if x.ndim != indices.ndim:
        raise ValueError("take_along_axis: x and indices have as many dimensions as each other")
    axis = axis_in("take_along_axis", axis, x.ndim)
    others = [tuple(1 if k == axis else n for k, n in enumerate(y.shape)) for y in (x, indices)]
    shape = [size or 0 for size in broadcast_shapes(*others)]
    wide = []
    for y in (x, indices):
        shape[axis] = y.shape[axis]
        wide.append(ops.broadcast_to(y, shape))
    return ops.gather(wide[0], _core.wrap_index(wide[1], axis, x.shape[axis]), axis)


def _sortable(name: str, x: ArrayLike, axis: int) -> tuple[Tensor, int]:
    x = tensor(name, x)
    return x, axis_in(name, axis, x.ndim)


def sort(
    x: ArrayLike, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True,
) -> Tensor:
    """The elements sorted along an axis; it is always stable."""
    x, axis = _sortable("sort", x, axis)
    return ops.sort(x, axis, descending) if x.ndim else x


def argsort(
    x: ArrayLike, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True,
) -> Tensor:
    """The indices that sort the elements along an axis; it is always stable."""
    x, axis = _sortable("argsort", x, axis)
    return ops.argsort(x, axis, descending) if x.ndim else _core.full((), 0, dtype=_core.int64)


def isin(x1: Operand, x2: Operand, /, *, invert: builtins.bool = False) -> Tensor:
    """Whether each element of `x1` is among those of `x2` (or is not, with `invert`)."""
    both = together("isin", x1, x2)
    common = result_type(*both)
    x1, x2 = (ops.cast(x, common) for x in both)
    known = ops.sort(flat(x2), 0)
    if known.size == 0:
        found = _core.full(x1.shape, False)
    else:
        at = ops.searchsorted(known, x1, False)
        at = ops.minimum(at, _core.asarray(known.size - 1))
        found = ops.equal(ops.take(known, at, 0), x1)
    return ops.logical_not(found) if invert else found


class _All(NamedTuple):
    """What `unique_all` returns."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class _Counts(NamedTuple):
    """What `unique_counts` returns."""

    values: Tensor
    counts: Tensor


class _Inverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: ArrayLike, /) -> _All:
    """The distinct elements, sorted, with their first indices, which one each element is, and how
    often each occurs. NaNs are distinct."""
    return _All(*_core.unique(tensor("unique_all", x)))


def unique_counts(x: ArrayLike, /) -> _Counts:
    """The distinct elements, sorted, and how often each occurs."""
    found = unique_all(x)
    return _Counts(found.values, found.counts)


def unique_inverse(x: ArrayLike, /) -> _Inverse:
    """The distinct elements, sorted, and which one each element is."""
    found = unique_all(x)
    return _Inverse(found.values, found.inverse_indices)


def unique_values(x: ArrayLike, /) -> Tensor:
    """The distinct elements, sorted."""
    return unique_all(x).values
