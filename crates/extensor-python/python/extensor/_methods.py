"""What people who come from NumPy and PyTorch expect of a tensor beside the standard: methods
(`x.sum(axis=0)`), and NumPy's functions (`np.exp(x)`).

Each method is the function of its name. It must not compute anything by itself.
"""

from . import _array_api as api
from . import _core, ops

Tensor = _core.Tensor


def _no_out(name, out):
    if out is not None:
        raise TypeError(f"{name}: tensors are immutable, there is nothing to write into")


def _reduction(name, typed=False):
    function = getattr(api, name)

    def method(self, axis=None, dtype=None, out=None, keepdims=False):
        _no_out(name, out)
        if typed:
            return function(self, axis=axis, dtype=dtype, keepdims=keepdims)
        if dtype is not None:
            self = api.astype(self, dtype, copy=False)
        return function(self, axis=axis, keepdims=keepdims)

    method.__doc__ = function.__doc__
    return name, method


def _spread(name):
    function = getattr(api, name)

    def method(self, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, correction=None):
        _no_out(name, out)
        if dtype is not None:
            self = api.astype(self, dtype, copy=False)
        correction = ddof if correction is None else correction
        return function(self, axis=axis, correction=correction, keepdims=keepdims)

    method.__doc__ = function.__doc__
    return name, method


def _position(name):
    function = getattr(api, name)

    def method(self, axis=None, out=None, *, keepdims=False):
        _no_out(name, out)
        return function(self, axis=axis, keepdims=keepdims)

    method.__doc__ = function.__doc__
    return name, method


def _reshape(self, *shape):
    return api.reshape(self, shape[0] if len(shape) == 1 else shape)


def _astype(self, dtype, copy=True):
    return api.astype(self, dtype, copy=copy)


def _flatten(self):
    """All elements along one axis."""
    return ops.flatten(self)


def _squeeze(self, axis=None):
    return ops.squeeze(self, axis)


def _permute(self, *axes):
    """The tensor with its axes in another order, or reversed."""
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
        axes = axes[0]
    return ops.transpose(self, axes or None)


def _clip(self, min=None, max=None, out=None):
    _no_out("clip", out)
    return api.clip(self, min, max)


# NumPy's names for functions that are called otherwise here.
_RENAMED = {"power": "pow", "true_divide": "divide", "arcsin": "asin", "arccos": "acos", "arctan": "atan"}
_RENAMED |= {"arctan2": "atan2", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "absolute": "abs"}
_RENAMED |= {"invert": "bitwise_invert", "left_shift": "bitwise_left_shift", "rint": "round"}
_RENAMED |= {"right_shift": "bitwise_right_shift", "conjugate": "conj", "mod": "remainder"}


def _ufunc(self, ufunc, method, *inputs, **options):
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
    inputs = [numpy.asarray(x) if isinstance(x, Tensor) else x for x in inputs]
    return getattr(ufunc, method)(*inputs, **options)


_METHODS = dict(
    [
        _reduction("sum", typed=True), _reduction("prod", typed=True), _reduction("mean"), _reduction("max"),
        _reduction("min"), _reduction("all"), _reduction("any"), _spread("var"), _spread("std"),
        _position("argmax"), _position("argmin"),
    ],
    reshape=_reshape, astype=_astype, flatten=_flatten, ravel=_flatten, squeeze=_squeeze, transpose=_permute,
    clip=_clip, __array_ufunc__=_ufunc,
)

for _name, _function in _METHODS.items():
    _function.__name__ = _function.__qualname__ = _name
    setattr(Tensor, _name, _function)
