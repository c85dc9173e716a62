"""Tensors and automatic differentiation in which no gradient is taken on trust.

The namespace is that of the Array API standard, version 2025.12, without complex dtypes and without
in-place changes: tensors are immutable. Every other operation of the catalogue stands beside it under
its own name, with its explicit backward function (`relu`, `relu_backward`); where the catalogue has
another name than the standard for one thing (`power`), both work and the standard's (`pow`) is shown.
"""

from . import _core, _hints, ops
from . import _tree as tree
from ._standard import RENAMED as _RENAMED, VERSIONS as _API_VERSIONS
from ._core import BackwardOperation, DType, Key, Operation, Tensor, __version__
from ._core import get_threads, set_threads, sum_to_shape

# Operations that the standard lacks, and every explicit backward function, under their own names.
globals().update(ops.EXTRA)

from ._array_api import *  # noqa: E402, F403
from ._products import *  # noqa: E402, F403
from ._arranging import *  # noqa: E402, F403
from ._autodiff import *  # noqa: E402, F403
from ._curvature import *  # noqa: E402, F403
from ._check import *  # noqa: E402, F403
from ._close import *  # noqa: E402, F403
from ._statistics import *  # noqa: E402, F403
from ._compile import *  # noqa: E402, F403
from ._pixels import *  # noqa: E402, F403
from . import _methods  # noqa: E402

# Imported when they are asked for first: whoever wants an array does not wait for them.
_LATER = (
    "data", "debug", "distributed", "gradients", "io", "linalg", "memory", "metrics", "nn", "optim", "progress",
    "train",
)  # fmt: skip


# The same thing under the catalogue's name and the standard's is one function.
for _name, _standard_name in _RENAMED.items():
    if isinstance(globals()[_standard_name], type(ops.CATALOGUE[_name])):
        globals()[_name] = globals()[_standard_name]


def __getattr__(name: str) -> object:
    if name in _LATER:
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_meant(name)}")


def _meant(name: str) -> str:
    hint = _ELSEWHERE.get(name) or _hints.hint(name, __dir__(), "extensor.")
    return f"; {hint}" if hint else ""


# Where people from other libraries find what they look for.
_ELSEWHERE = {
    "array": "extensor.asarray makes tensors",
    "tensor": "extensor.asarray makes tensors",
    "rand": "extensor.Key(seed).uniform(shape) draws random numbers",
    "randn": "extensor.Key(seed).normal(shape) draws random numbers",
    "random": "extensor.Key(seed).normal(shape) draws random numbers",
    "cat": "extensor.concat joins tensors",
    "transpose": "extensor.permute_dims moves axes",
    "no_grad": "nothing is differentiated outside extensor.grad; extensor.stop_gradient ends it",
    "detach": "extensor.stop_gradient ends differentiation",
    "backward": "extensor.grad differentiates functions",
    "jit": "extensor.compile records a function and then only runs what it recorded",
}


def __dir__() -> list[str]:
    hidden = {name for name in globals() if name.startswith("_") and not name.startswith("__")}
    return sorted({*globals(), *_LATER} - hidden - set(_RENAMED))
