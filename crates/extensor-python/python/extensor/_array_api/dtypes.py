"""Dtypes: the objects, what they can hold, and how they mix."""

import builtins
from typing import NamedTuple

from .. import _core, ops
from .._core import DType, Tensor
from .._types import ArrayLike, DTypeLike, Scalar, Shape
from .common import is_number, tensor

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
NAMES = ("bool", *_SIGNED, *_UNSIGNED, *_FLOATS)
_DTYPES = {name: getattr(_core, name) for name in NAMES}
globals().update(_DTYPES)

__all__ = [
    *NAMES, "astype", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "can_cast", "finfo", "iinfo",
    "isdtype", "result_type",
]


def astype(
    x: ArrayLike, dtype: DTypeLike, /, *, copy: builtins.bool = True, device: str | None = None,
) -> Tensor:
    """`x` in another dtype."""
    if device is not None and device != "cpu":
        raise ValueError(f"astype: there is no device {device!r}, only 'cpu'")
    x = tensor("astype", x)
    dtype = _core.dtype_of_name(dtype)
    if dtype == x.dtype:
        return x.copy() if copy else x
    return ops.cast(x, dtype)


def broadcast_shapes(*shapes: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """The shape that all of these broadcast to; a size that is not known is None.

    >>> import extensor as ex
    >>> ex.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    ndim = builtins.max((len(shape) for shape in shapes), default=0)
    sizes: list[int | None] = []
    for back in range(ndim, 0, -1):
        found = [shape[-back] for shape in shapes if len(shape) >= back]
        known = {size for size in found if size is not None and size != 1}
        if len(known) > 1:
            raise ValueError(f"broadcast_shapes: shapes {', '.join(map(str, shapes))} do not broadcast")
        unknown = any(size is None for size in found)
        sizes.append(known.pop() if known else None if unknown else 1)
    return tuple(sizes)


def broadcast_to(x: ArrayLike, /, shape: Shape) -> Tensor:
    """`x` repeated along new axes and axes of size 1, without copying."""
    return ops.broadcast_to(x, (shape,) if isinstance(shape, int) else tuple(shape))


def broadcast_arrays(*arrays: ArrayLike) -> tuple[Tensor, ...]:
    """All tensors in the one shape that they broadcast to."""
    tensors = [tensor("broadcast_arrays", x) for x in arrays]
    shape = [size or 0 for size in broadcast_shapes(*(x.shape for x in tensors))]
    return tuple(ops.broadcast_to(x, shape) for x in tensors)


def can_cast(from_: DTypeLike | Tensor, to: DTypeLike, /) -> builtins.bool:
    """Whether values of one dtype (or tensor) can become another's by the standard's promotion."""
    start = from_.dtype if isinstance(from_, Tensor) else _core.dtype_of_name(from_)
    goal = _core.dtype_of_name(to)
    return start.promote(goal) == goal


class _FloatInfo(NamedTuple):
    """What `finfo` returns."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class _IntegerInfo(NamedTuple):
    """What `iinfo` returns."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype(type: DTypeLike | Tensor) -> DType:
    return type.dtype if isinstance(type, Tensor) else _core.dtype_of_name(type)


def finfo(type: DTypeLike | Tensor, /) -> _FloatInfo:
    """The limits of a float dtype."""
    dtype = _dtype(type)
    if dtype.kind != "f":
        raise ValueError(f"finfo: {dtype.name} is not a float dtype")
    largest, eps, smallest = dtype.float_limits
    return _FloatInfo(8 * dtype.itemsize, eps, largest, -largest, smallest, dtype)


def iinfo(type: DTypeLike | Tensor, /) -> _IntegerInfo:
    """The limits of a whole-number dtype."""
    dtype = _dtype(type)
    if dtype.kind not in "iu":
        raise ValueError(f"iinfo: {dtype.name} is not a whole-number dtype")
    low, high = dtype.integer_range
    return _IntegerInfo(8 * dtype.itemsize, high, low, dtype)


_KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": _SIGNED,
    "unsigned integer": _UNSIGNED,
    "integral": _SIGNED + _UNSIGNED,
    "real floating": _FLOATS,
    "complex floating": (),
    "numeric": _SIGNED + _UNSIGNED + _FLOATS,
}


def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[DTypeLike, ...]) -> builtins.bool:
    """Whether a dtype is of a kind ("integral", "real floating", …), another dtype, or one of several."""
    dtype = _core.dtype_of_name(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"isdtype: there is no kind {kind!r}, only {', '.join(_KINDS)}")
        return dtype.name in _KINDS[kind]
    return dtype == _core.dtype_of_name(kind)


def result_type(*arrays_and_dtypes: Tensor | DTypeLike | Scalar) -> DType:
    """The dtype that operands of these dtypes give, Python numbers among them."""
    numbers = [x for x in arrays_and_dtypes if is_number(x)]
    found = [_dtype(x) for x in arrays_and_dtypes if not isinstance(x, (builtins.bool, int, float))]
    if not found:
        raise ValueError("result_type: at least one argument must be a tensor or a dtype")
    common = found[0]
    for dtype in found[1:]:
        joined = common.promote(dtype)
        if joined is None:
            raise TypeError(f"result_type: dtypes {common.name} and {dtype.name} do not mix")
        common = joined
    for number in numbers:
        kinds = {builtins.bool: "b", int: "iuf", float: "f"}[type(number)]
        if common.kind not in kinds:
            kind = type(number).__name__
            raise TypeError(f"result_type: a Python {kind} does not mix with dtype {common.name}")
    return common
