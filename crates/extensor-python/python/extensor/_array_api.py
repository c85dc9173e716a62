"""The functions of the Array API standard, version 2025.12 (in the making)."""

from . import _core, ops
from ._core import asarray, from_dlpack  # noqa: F401
from ._standard import NAMES

for _name in NAMES:
    if _name in ops.CATALOGUE:
        globals()[_name] = ops.CATALOGUE[_name]


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    return ops.sum(x, axis, keepdims)


def mean(x, /, *, axis=None, keepdims=False):
    return ops.mean(x, axis, keepdims)


def zeros(shape, *, dtype=None, device=None):
    return _core.full(shape, 0.0 if dtype is None else 0, dtype=dtype)


def ones(shape, *, dtype=None, device=None):
    return _core.full(shape, 1.0 if dtype is None else 1, dtype=dtype)


full = _core.full
globals().update({d: getattr(_core, d) for d in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64".split()})
