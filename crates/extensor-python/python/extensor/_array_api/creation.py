"""New tensors."""

import builtins
from typing import Literal

from .. import _core, ops
from .._core import Tensor, asarray, from_dlpack
from .._types import ArrayLike, DTypeLike, Scalar, Shape
from .common import tensor

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace",
    "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]


def _on_host(name: str, device: str | None) -> None:
    if device is not None and device != "cpu":
        raise ValueError(f"{name}: there is no device {device!r}, only 'cpu'")


def arange(
    start: Scalar,
    /,
    stop: Scalar | None = None,
    step: Scalar = 1,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """The numbers from `start` to `stop`, which is not included, in steps of `step`.

    >>> import extensor as ex
    >>> ex.arange(2, 8, 3)
    Tensor([2, 5], dtype=int64)
    """
    _on_host("arange", device)
    if stop is None:
        start, stop = 0, start
    return _core.arange(start, stop, step, dtype)


def full(
    shape: Shape, fill_value: Scalar, *, dtype: DTypeLike | None = None, device: str | None = None,
) -> Tensor:
    """Every element `fill_value`."""
    return _core.full(shape, fill_value, dtype=dtype, device=device)


def full_like(
    x: ArrayLike, /, fill_value: Scalar, *, dtype: DTypeLike | None = None, device: str | None = None,
) -> Tensor:
    """Every element `fill_value`, in the shape (and, unless given, the dtype) of `x`."""
    x = tensor("full_like", x)
    return _core.full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=device)


def zeros(shape: Shape, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """All zeros."""
    return _core.full(shape, 0, dtype=_core.float64 if dtype is None else dtype, device=device)


def ones(shape: Shape, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """All ones."""
    return _core.full(shape, 1, dtype=_core.float64 if dtype is None else dtype, device=device)


def zeros_like(x: ArrayLike, /, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Zeros in the shape and dtype of `x`."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: ArrayLike, /, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Ones in the shape and dtype of `x`."""
    return full_like(x, 1, dtype=dtype, device=device)


def empty(shape: Shape, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """A tensor of a shape; tensors being immutable, its elements are zeros."""
    return zeros(shape, dtype=dtype, device=device)


def empty_like(x: ArrayLike, /, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """A tensor in the shape and dtype of `x`; tensors being immutable, its elements are zeros."""
    return zeros_like(x, dtype=dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """Ones on diagonal number `k` of a matrix, zeros elsewhere."""
    _on_host("eye", device)
    dtype = _core.float64 if dtype is None else dtype
    k = max(min(k, 1 << 62), -(1 << 62))  # beyond any matrix
    return _core.eye(n_rows, n_rows if n_cols is None else n_cols, k, dtype)


def linspace(
    start: Scalar,
    stop: Scalar,
    /,
    num: int,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    endpoint: builtins.bool = True,
) -> Tensor:
    """`num` numbers evenly spaced from `start` to `stop`, which is included if `endpoint` is true."""
    _on_host("linspace", device)
    if isinstance(start, complex) or isinstance(stop, complex):
        raise TypeError("linspace: complex numbers are not supported")
    return _core.linspace(start, stop, num, _core.float64 if dtype is None else dtype, endpoint)


def meshgrid(*arrays: ArrayLike, indexing: Literal["xy", "ij"] = "xy") -> tuple[Tensor, ...]:
    """The coordinates of a grid from those along its axes."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f'meshgrid: indexing is {indexing!r}, expected "xy" or "ij"')
    tensors = [tensor("meshgrid", x) for x in arrays]
    for x in tensors:
        if x.ndim > 1:
            raise ValueError("meshgrid: the coordinates are 1-d tensors")
    n = len(tensors)
    order = list(range(n))
    if indexing == "xy" and n >= 2:
        order[0], order[1] = 1, 0
    sizes = [x.size for x in tensors]
    shape = [0] * n
    for axis, size in zip(order, sizes):
        shape[axis] = size
    grids = []
    for axis, x in zip(order, tensors):
        lined = ops.reshape(x, [x.size if k == axis else 1 for k in range(n)])
        grids.append(ops.broadcast_to(lined, shape))
    return tuple(grids)


def tril(x: ArrayLike, /, *, k: int = 0) -> Tensor:
    """The elements on and below diagonal number `k` of the last two axes, zeros above."""
    return ops.tril(x, k)


def triu(x: ArrayLike, /, *, k: int = 0) -> Tensor:
    """The elements on and above diagonal number `k` of the last two axes, zeros below."""
    return ops.triu(x, k)
