"""What the standard's functions share: arguments made into tensors, axes into lists."""

import builtins
from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeGuard

from .. import _core, ops
from .._core import Tensor
from .._types import Axis, Scalar


def tensor(name: str, x: Any) -> Tensor:
    """`x` as a tensor; arrays of other libraries are shared, everything else is an error."""
    if isinstance(x, Tensor):
        return x
    if hasattr(x, "__array_interface__") or hasattr(x, "__dlpack__"):
        return _core.asarray(x)
    raise TypeError(f"{name}: expected a tensor, not {type(x).__name__}")


def is_number(x: Any) -> TypeGuard[Scalar]:
    return isinstance(x, (builtins.bool, int, float)) and not isinstance(x, Tensor)


def beside(name: str, number: Any, x: Tensor) -> Tensor:
    """A Python number in the dtype of the tensor beside it."""
    if not is_number(number):
        return tensor(name, number)
    if isinstance(number, builtins.bool):
        fits = x.dtype.kind == "b"
    elif isinstance(number, int):
        fits = x.dtype.kind != "b"
    else:
        fits = x.dtype.kind == "f"
    if not fits:
        kind = type(number).__name__
        raise TypeError(f"{name}: a Python {kind} does not mix with dtype {x.dtype.name}; cast one of them")
    return _core.asarray(number, dtype=x.dtype)


def together(name: str, x1: Any, x2: Any) -> tuple[Tensor, Tensor]:
    """Two operands, of which one may be a Python number."""
    if is_number(x1) and is_number(x2):
        raise TypeError(f"{name}: one of the operands must be a tensor")
    if is_number(x1):
        x2 = tensor(name, x2)
        return beside(name, x1, x2), x2
    x1 = tensor(name, x1)
    return x1, beside(name, x2, x1)


def axis_in(name: str, axis: SupportsIndex, ndim: int) -> int:
    """An axis that may count from the end, as one that does not."""
    axis = axis.__index__()
    if not -ndim <= axis < builtins.max(ndim, 1):
        raise IndexError(f"{name}: axis {axis} is out of range for {ndim} dimensions")
    return axis % ndim if ndim else 0


def axes_in(name: str, axes: Axis | SupportsIndex, ndim: int) -> list[int]:
    """An axis or a tuple of them, as a list of axes that do not count from the end."""
    if axes is None:
        return list(range(ndim))
    listed = axes if isinstance(axes, Sequence) else (axes,)
    found = [axis_in(name, axis, ndim) for axis in listed]
    if len(set(found)) != len(found):
        raise ValueError(f"{name}: axes {tuple(listed)} name one axis twice")
    return found


def flat(x: Tensor) -> Tensor:
    """All elements along one axis."""
    return x if x.ndim == 1 else ops.reshape(x, (-1,) if x.size else (0,))
