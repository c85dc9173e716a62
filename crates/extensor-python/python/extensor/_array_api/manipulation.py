"""Shapes changed, tensors joined, cut and moved."""

import builtins
from collections.abc import Iterable, Sequence
from typing import Any

from .. import _core, ops
from .._core import Tensor
from .._types import ArrayLike, Axis, Shape
from .common import axes_in, axis_in, flat, tensor
from .dtypes import result_type

__all__ = [
    "concat", "expand_dims", "flip", "moveaxis", "permute_dims", "repeat", "reshape", "roll", "squeeze",
    "stack", "tile", "unstack",
]


def _list(name: str, arrays: Iterable[ArrayLike]) -> list[Tensor]:
    found = [tensor(name, x) for x in arrays]
    if not found:
        raise ValueError(f"{name}: there must be at least one tensor")
    common = result_type(*found)
    return [x if x.dtype == common else ops.cast(x, common) for x in found]


def concat(arrays: Sequence[ArrayLike], /, *, axis: int | None = 0) -> Tensor:
    """Tensors one after the other along an axis; None: all elements of each, flat."""
    tensors = _list("concat", arrays)
    if axis is None:
        return ops.concatenate([flat(x) for x in tensors], 0)
    return ops.concatenate(tensors, axis)


def stack(arrays: Sequence[ArrayLike], /, *, axis: int = 0) -> Tensor:
    """Tensors side by side along a new axis."""
    return ops.stack(_list("stack", arrays), axis)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts of a tensor along an axis, without it, as a tuple."""
    x = tensor("unstack", x)
    if x.ndim == 0:
        raise ValueError("unstack: a 0-d tensor has no axis")
    axis = axis_in("unstack", axis, x.ndim)
    before = (builtins.slice(None),) * axis
    return tuple(x[(*before, k)] for k in range(x.shape[axis]))


def expand_dims(x: ArrayLike, /, axis: int | Sequence[int]) -> Tensor:
    """`x` with new axes of size 1."""
    return ops.expand_dims(x, axis)


def squeeze(x: ArrayLike, /, axis: int | Sequence[int]) -> Tensor:
    """`x` without these axes, which have size 1."""
    x = tensor("squeeze", x)
    axes = axes_in("squeeze", axis, x.ndim)
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"squeeze: axis {a} has size {x.shape[a]}, expected 1")
    return ops.squeeze(x, axes) if axes else x


def flip(x: ArrayLike, /, *, axis: Axis = None) -> Tensor:
    """`x` with the order of elements along axes reversed."""
    return ops.flip(x, axis)


def permute_dims(x: ArrayLike, /, axes: Sequence[int]) -> Tensor:
    """`x` with its axes in another order."""
    return ops.transpose(x, tuple(axes))


def moveaxis(x: ArrayLike, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Tensor:
    """`x` with axes moved to other places, the others in their order."""
    x = tensor("moveaxis", x)
    moved = axes_in("moveaxis", source, x.ndim)
    goals = axes_in("moveaxis", destination, x.ndim)
    if len(moved) != len(goals):
        raise ValueError("moveaxis: source and destination have as many axes as each other")
    order = [a for a in range(x.ndim) if a not in moved]
    for to, a in sorted(zip(goals, moved)):
        order.insert(to, a)
    return ops.transpose(x, order)


def reshape(x: ArrayLike, /, shape: Shape, *, copy: builtins.bool | None = None) -> Tensor:
    """The elements of `x`, in row-major order, in another shape, in which one size may be -1.

    The memory is shared where the strides allow; `copy=False` is an error where they do not.
    """
    if copy is None and type(x) is _core.Tensor:
        return ops.reshape(x, shape)
    x = tensor("reshape", x)
    y = ops.reshape(x, _sizes(shape))
    if copy is False and not x.is_traced and x.size and not _core.shares_memory(x, y):
        raise ValueError(f"reshape: shape {x.shape} with strides {x.strides} must be copied to become {y.shape}")
    return y.copy() if copy else y


def _sizes(shape: Shape) -> tuple[int, ...]:
    return tuple(shape) if isinstance(shape, Iterable) else (shape,)


def roll(x: ArrayLike, /, shift: int | Sequence[int], *, axis: Axis = None) -> Tensor:
    """`x` with its elements moved along axes, those beyond the end coming in at the start."""
    x = tensor("roll", x)
    if axis is None:
        if not isinstance(shift, int):
            raise ValueError("roll: without an axis there is one shift")
        return ops.reshape(ops.roll(flat(x), [shift], [0]), x.shape)
    shifts, axes = _sizes(shift), _sizes(axis)
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(shifts) != len(axes):
        raise ValueError("roll: there are as many shifts as axes")
    for by, a in zip(shifts, axes):
        x = ops.roll(x, [by], [axis_in("roll", a, x.ndim)])
    return x


def repeat(x: ArrayLike, repeats: int | Sequence[int] | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element `repeats` times; `repeats` is a number, or one for each element of the axis."""
    x = tensor("repeat", x)
    if axis is None:
        x, axis = flat(x), 0
    times: Any = repeats
    if isinstance(repeats, Tensor):
        if repeats.dtype.kind not in "iu" or repeats.ndim > 1:
            raise TypeError("repeat: repeats are whole numbers along one axis")
        times = repeats.tolist()
    axis = axis_in("repeat", axis, x.ndim)
    return ops.repeat(x, _sizes(times), axis)


def tile(x: ArrayLike, repetitions: Sequence[int], /) -> Tensor:
    """`x` repeated along its axes; missing axes and repetitions, in front, are 1."""
    x = tensor("tile", x)
    repetitions = tuple(repetitions)
    if len(repetitions) < x.ndim:
        repetitions = (1,) * (x.ndim - len(repetitions)) + repetitions
    if len(repetitions) > x.ndim:
        x = ops.reshape(x, (1,) * (len(repetitions) - x.ndim) + x.shape)
    return ops.tile(x, repetitions) if repetitions else x
