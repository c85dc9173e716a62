"""What people who come from NumPy and PyTorch expect of a tensor beside the standard: methods
(`x.sum(axis=0)`), and NumPy's functions (`np.exp(x)`).

Each method is the function of its name. It must not compute anything by itself.
"""

from collections.abc import Callable
from typing import Any

from . import _array_api as _api
from . import ops
from ._core import Tensor

api: Any = _api
Method = Callable[..., Any]


def _no_out(name: str, out: Any) -> None:
    if out is not None:
        raise TypeError(f"{name}: tensors are immutable, there is nothing to write into")


def _reduction(name: str, typed: bool = False) -> tuple[str, Method]:
    function = getattr(api, name)

    def method(
        self: Tensor, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        _no_out(name, out)
        if typed:
            return function(self, axis=axis, dtype=dtype, keepdims=keepdims)
        if dtype is not None:
            self = api.astype(self, dtype, copy=False)
        return function(self, axis=axis, keepdims=keepdims)

    method.__doc__ = function.__doc__
    return name, method


def _spread(name: str) -> tuple[str, Method]:
    function = getattr(api, name)

    def method(
        self: Tensor, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
        keepdims: bool = False, *, correction: float | None = None,
    ) -> Any:  # fmt: skip
        _no_out(name, out)
        if dtype is not None:
            self = api.astype(self, dtype, copy=False)
        correction = ddof if correction is None else correction
        return function(self, axis=axis, correction=correction, keepdims=keepdims)

    method.__doc__ = function.__doc__
    return name, method


def _position(name: str) -> tuple[str, Method]:
    function = getattr(api, name)

    def method(self: Tensor, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        _no_out(name, out)
        return function(self, axis=axis, keepdims=keepdims)

    method.__doc__ = function.__doc__
    return name, method


def _reshape(self: Tensor, *shape: Any) -> Any:
    return api.reshape(self, shape[0] if len(shape) == 1 else shape)


def _astype(self: Tensor, dtype: Any, copy: bool = True) -> Any:
    return api.astype(self, dtype, copy=copy)


def _flatten(self: Tensor) -> Tensor:
    """All elements along one axis."""
    return ops.flatten(self)


def _squeeze(self: Tensor, axis: Any = None) -> Tensor:
    return ops.squeeze(self, axis)


def _permute(self: Tensor, *axes: Any) -> Tensor:
    """The tensor with its axes in another order, or reversed."""
    order: Any = axes
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
        order = axes[0]
    return ops.transpose(self, order or None)


def _clip(self: Tensor, min: Any = None, max: Any = None, out: Any = None) -> Any:
    _no_out("clip", out)
    return api.clip(self, min, max)


# NumPy's names for functions that are called otherwise here.
_RENAMED = {"power": "pow", "true_divide": "divide", "arcsin": "asin", "arccos": "acos", "arctan": "atan"}
_RENAMED |= {"arctan2": "atan2", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "absolute": "abs"}
_RENAMED |= {"invert": "bitwise_invert", "left_shift": "bitwise_left_shift", "rint": "round"}
_RENAMED |= {"right_shift": "bitwise_right_shift", "conjugate": "conj", "mod": "remainder"}


def _ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """NumPy's functions on tensors: ours of the same name, which can be differentiated, or NumPy's own
    on the memory that both share."""
    name = _RENAMED.get(ufunc.__name__, ufunc.__name__)
    ours = getattr(api, name, None)
    if method == "__call__" and not options and callable(ours):
        return ours(*inputs)
    import numpy

    outputs = options.get("out", ())
    if any(isinstance(x, Tensor) for x in outputs):
        raise TypeError(f"{ufunc.__name__}: tensors are immutable, there is nothing to write into")
    arrays = [numpy.asarray(x) if isinstance(x, Tensor) else x for x in inputs]
    return getattr(ufunc, method)(*arrays, **options)


def _missing(self: Tensor, name: str) -> Any:
    """Only asked for what is not there: the error says which function is meant by another library's method."""
    import extensor

    package: Any = extensor
    meant = ""
    # What libraries ask each other for begins with an underscore, and is asked for often.
    if not name.startswith("_"):
        here = name in dir(package)
        meant = f"; extensor.{name} is a function" if here else package._meant(name)
    raise AttributeError(f"'extensor.Tensor' object has no attribute {name!r}{meant}", name=name, obj=self)


_METHODS: dict[str, Any] = dict(
    [
        _reduction("sum", typed=True), _reduction("prod", typed=True), _reduction("mean"), _reduction("max"),
        _reduction("min"), _reduction("all"), _reduction("any"), _spread("var"), _spread("std"),
        _position("argmax"), _position("argmin"),
    ],
    reshape=_reshape, astype=_astype, flatten=_flatten, ravel=_flatten, squeeze=_squeeze, transpose=_permute,
    clip=_clip, __array_ufunc__=_ufunc, __getattr__=_missing,
)

for _name, _function in _METHODS.items():
    _function.__name__ = _function.__qualname__ = _name
    setattr(Tensor, _name, _function)
