"""Finding where a number went wrong. This module must not know what is computed."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from . import _core

__all__ = ["finite"]

P = ParamSpec("P")
T = TypeVar("T")


def finite(f: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """`f(*args, **kwargs)`; the first operation in it, forward or backward, that makes a NaN or an
    infinity of finite numbers is a FloatingPointError that names it, the output or gradient, the index
    and the value. The traceback shows the line.

    Every result is looked at, which takes time: this is for finding a mistake, not for training.

    >>> import extensor as ex
    >>> ex.debug.finite(lambda x: ex.sum(ex.log(x)), ex.asarray([4.0, 0.0]))
    Traceback (most recent call last):
        ...
    FloatingPointError: log: its output is -inf at [1], from finite inputs
    >>> ex.debug.finite(ex.exp, ex.asarray(0.0))
    Tensor(1.0, dtype=float64)
    """
    found: T = _core.call_watched(lambda: f(*args, **kwargs))
    return found
