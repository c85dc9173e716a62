"""Functions of each element: nearly all are the catalogue's operations themselves."""

import builtins

from .. import _core, ops
from .._core import Tensor
from .._standard import NAMES, RENAMED
from .._types import ArrayLike, Operand
from .common import beside, is_number, tensor

_CATALOGUES = {standard: name for name, standard in RENAMED.items()}
_ELEMENTWISE = """
    abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or
    bitwise_right_shift bitwise_xor ceil copysign cos cosh divide equal exp expm1 floor floor_divide greater
    greater_equal hypot isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not
    logical_or logical_xor maximum minimum multiply negative nextafter not_equal pow reciprocal remainder
    round sign signbit sin sinh square sqrt subtract tan tanh trunc
""".split()
for _name in _ELEMENTWISE:
    _own = _CATALOGUES.get(_name)
    globals()[_name] = _core.operation_of_name(_own, _name) if _own else ops.CATALOGUE[_name]

__all__ = [*_ELEMENTWISE, "clip", "conj", "imag", "positive", "real"]


def clip(x: ArrayLike, /, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """`x` brought between `min` and `max`, which are numbers or tensors.

    The gradient goes to `x` where it is between the bounds or at one, to the bound elsewhere.

    >>> import extensor as ex
    >>> ex.clip(ex.asarray([-2.0, 0.5, 7.0]), 0.0, 1.0)
    Tensor([0.0, 0.5, 1.0], dtype=float64)
    """
    x = tensor("clip", x)
    if x.dtype.kind == "f" and (min is None or is_number(min)) and (max is None or is_number(max)):
        return ops.clip(x, min, max)
    if x.dtype.kind == "b":
        raise TypeError("clip: x has dtype bool, expected a number")
    for bound, beyond in ((min, ops.less), (max, ops.greater)):
        if bound is not None:
            bound = _bound(bound, x)
            outside = beyond(x, bound)
            if x.dtype.kind == "f":
                outside = ops.logical_or(outside, ops.isnan(bound))
            x = ops.where(outside, bound, x)
    return x


def _bound(bound: Operand, x: Tensor) -> Tensor:
    if is_number(bound) and x.dtype.kind != "f" and not isinstance(bound, float):
        # A bound beyond what the dtype holds is the dtype's own.
        low, high = x.dtype.integer_range
        bound = builtins.min(builtins.max(bound, low), high)
    bound = beside("clip", bound, x)
    return bound if bound.dtype == x.dtype else ops.cast(bound, x.dtype)


def positive(x: ArrayLike, /) -> Tensor:
    """`x` itself."""
    return +tensor("positive", x)


def conj(x: ArrayLike, /) -> Tensor:
    """`x` itself: there are no complex dtypes."""
    return tensor("conj", x)


def real(x: ArrayLike, /) -> Tensor:
    """`x` itself: there are no complex dtypes."""
    return tensor("real", x)


def imag(x: ArrayLike, /) -> Tensor:
    """Zeros: there are no complex dtypes."""
    return tensor("imag", x) * 0


assert set(__all__) <= NAMES
