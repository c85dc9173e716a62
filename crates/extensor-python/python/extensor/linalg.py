"""Decompositions of matrices, what is solved with them, and norms: the linear algebra extension of the Array
API standard, and beyond it `solve_triangular`, `lstsq`, `expm` and `cond`.

The two last axes are the matrices', those before a batch; dtypes are float32 and float64. A matrix that an
operation cannot be applied to (it is singular, it is not positive definite) is a ValueError that says which of
the batch it is. Everything is differentiable any number of times; where a derivative does not exist
(equal eigenvalues, dependent columns) `help` of the operations in `extensor.ops` says what stands for it.

>>> import extensor as ex
>>> a = ex.asarray([[4.0, 2.0], [2.0, 10.0]])
>>> ex.linalg.cholesky(a)
Tensor([[2.0, 0.0],
        [1.0, 3.0]], dtype=float64)
"""

import builtins
import math
from typing import Literal, NamedTuple

from . import _autodiff, _core, _hints, ops
from ._array_api.common import tensor
from ._array_api.creation import eye, zeros
from ._array_api.dtypes import astype, broadcast_shapes, finfo
from ._array_api.linear import matmul, matrix_transpose, tensordot, vecdot
from ._core import Tensor
from ._products import cross, trace
from ._types import ArrayLike, Axis
from .ops import diagonal, outer

__all__ = [
    "cholesky", "cond", "cross", "det", "diagonal", "eigh", "eigvalsh", "expm", "inv", "lstsq", "matmul",
    "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve",
    "solve_triangular", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    hint = _hints.hint(name, __all__, "extensor.linalg.")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{f'; {hint}' if hint else ''}")


class EighResult(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """What `qr` gives."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """What `svd` gives."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def cholesky(x: ArrayLike, /, *, upper: builtins.bool = False) -> Tensor:
    """The lower triangular `L` with `L @ L.mT == x` of each symmetric positive definite matrix, or its
    transpose if `upper`."""
    return ops.cholesky(x, upper)


def det(x: ArrayLike, /) -> Tensor:
    """The determinant of each matrix."""
    return ops.det(x)


def eigh(x: ArrayLike, /) -> EighResult:
    """The eigenvalues of each symmetric matrix in ascending order, and in columns their vectors."""
    return EighResult(*ops.eigh(x))


def eigvalsh(x: ArrayLike, /) -> Tensor:
    """The eigenvalues of each symmetric matrix in ascending order."""
    return ops.eigvalsh(x)


def expm(x: ArrayLike, /) -> Tensor:
    """The exponential of each matrix, `1 + x + x @ x / 2 + …`."""
    return ops.expm(x)


def inv(x: ArrayLike, /) -> Tensor:
    """The inverse of each matrix."""
    return ops.inv(x)


def pinv(x: ArrayLike, /, *, rtol: float | ArrayLike | None = None) -> Tensor:
    """The pseudoinverse of each matrix; singular values up to `rtol` of the largest count as 0. There may be one
    `rtol` for each matrix."""
    return _pinv("pinv", tensor("pinv", x), rtol)


def _pinv(name: str, x: Tensor, rtol: float | ArrayLike | None) -> Tensor:
    if rtol is None or isinstance(rtol, (int, float)):
        return ops.pinv(x, rtol)
    each = tensor(name, rtol)
    if x.ndim < 2:
        return ops.pinv(x)
    if each.ndim == 0:
        return ops.pinv(x, float(each))
    try:
        batch = [size or 0 for size in broadcast_shapes(x.shape[:-2], each.shape)]
    except ValueError:
        raise ValueError(f"{name}: rtol has shape {each.shape}, which is not that of the matrices {x.shape}") from None
    count, sides = math.prod(batch), x.shape[-2:]
    matrices = ops.reshape(ops.broadcast_to(x, (*batch, *sides)), (count, *sides))
    numbers = ops.broadcast_to(each, batch).reshape(-1).tolist()
    if len({*numbers}) < 2:
        found = ops.pinv(matrices, numbers[0] if numbers else None)
    else:
        found = ops.stack([ops.pinv(matrices[k], number) for k, number in enumerate(numbers)])
    return ops.reshape(found, (*batch, *sides[::-1]))


def qr(x: ArrayLike, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Orthogonal columns `Q` and an upper triangle `R` with `Q @ R == x`, whose diagonal is not negative."""
    return QRResult(*ops.qr(x, mode))


def slogdet(x: ArrayLike, /) -> SlogdetResult:
    """The sign of each matrix's determinant, and the logarithm of its size."""
    return SlogdetResult(*ops.slogdet(x))


def solve(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The solution `y` of `x1 @ y == x2`, for a vector `x2` or the columns of matrices."""
    return ops.solve(x1, x2)


def solve_triangular(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    upper: builtins.bool = False,
    transposed: builtins.bool = False,
    unit_diagonal: builtins.bool = False,
) -> Tensor:
    """The solution `y` of `t @ y == x2`, where `t` is a triangle of `x1`, or the transpose of that."""
    return ops.solve_triangular(x1, x2, upper, transposed, unit_diagonal)


def svd(x: ArrayLike, /, *, full_matrices: builtins.bool = True) -> SVDResult:
    """Singular values `S`, descending, and their vectors: `x == U @ diag(S) @ Vh`."""
    return SVDResult(*ops.svd(x, full_matrices))


def svdvals(x: ArrayLike, /) -> Tensor:
    """The singular values of each matrix, descending."""
    return ops.svdvals(x)


def lstsq(x1: ArrayLike, x2: ArrayLike, /, *, rtol: float | ArrayLike | None = None) -> Tensor:
    """The shortest of the vectors `y` for which `x1 @ y` is nearest to `x2`; `rtol` is that of `pinv`."""
    x1, x2 = tensor("lstsq", x1), tensor("lstsq", x2)
    if x1.ndim < 2 or x2.ndim < 1 or x2.shape[-2 if x2.ndim > 1 else -1] != x1.shape[-2]:
        raise ValueError(f"lstsq: shapes {x1.shape} and {x2.shape} are not those of equations")
    return ops.matmul(_pinv("lstsq", x1, rtol), x2)


def matrix_power(x: ArrayLike, n: int, /) -> Tensor:
    """The `n`th power of each matrix, of the inverse if `n` is negative."""
    x = tensor("matrix_power", x)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"matrix_power: x has shape {x.shape}, expected square matrices")
    n = n.__index__()
    if n == 0:
        return ops.broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape)
    square, power, left = ops.inv(x) if n < 0 else x, None, abs(n)
    while True:
        if left % 2:
            power = square if power is None else ops.matmul(power, square)
        left //= 2
        if not left:
            assert power is not None
            return power
        square = ops.matmul(square, square)


def _bound(s: Tensor, shape: tuple[int, ...], rtol: float | ArrayLike | None) -> Tensor:
    if rtol is None:
        rtol = builtins.max(shape[-2:]) * finfo(s.dtype).eps
    largest = ops.max_reduce(s, -1, True)
    if isinstance(rtol, (int, float)):
        if math.isnan(rtol) or rtol < 0:
            raise ValueError(f"matrix_rank: rtol is {rtol}, expected at least 0")
        return largest * builtins.min(float(rtol), 1.0)
    return largest * ops.expand_dims(astype(tensor("matrix_rank", rtol), s.dtype), -1)


def matrix_rank(x: ArrayLike, /, *, rtol: float | ArrayLike | None = None) -> Tensor:
    """How many singular values of each matrix are above `rtol` of the largest."""
    x = _autodiff.stop_gradient(tensor("matrix_rank", x))
    if x.ndim < 2:
        raise ValueError(f"matrix_rank: x has shape {x.shape}, expected at least two axes")
    s = ops.svdvals(x)
    if s.shape[-1] == 0:
        return zeros(x.shape[:-2], dtype=_core.int64)
    return ops.sum(ops.cast(ops.greater(s, _bound(s, x.shape, rtol)), _core.int64), -1)


def _order(name: str, order: object) -> float:
    if isinstance(order, builtins.bool) or not isinstance(order, (int, float)) or math.isnan(order):
        raise ValueError(f"{name}: ord is {order!r}, expected a number")
    return float(order)


def vector_norm(
    x: ArrayLike, /, *, axis: Axis = None, keepdims: builtins.bool = False, ord: float = 2
) -> Tensor:
    """The norm of any order of the vectors along some axes, `sum(abs(x) ** ord) ** (1 / ord)`; of order 0 how
    many numbers are not 0. Nothing overflows on the way."""
    x, order = tensor("vector_norm", x), _order("vector_norm", ord)
    if x.dtype.kind != "f":
        raise TypeError(f"vector_norm: x has dtype {x.dtype.name}, expected a float type")
    if order == 2.0:
        return ops.norm(x, axis, keepdims)
    sizes = ops.abs(x)
    if math.isinf(order):
        return (ops.max_reduce if order > 0 else ops.min_reduce)(sizes, axis, keepdims)
    if order == 1.0:
        return ops.sum(sizes, axis, keepdims)
    if order == 0.0:
        some = ops.not_equal(_autodiff.stop_gradient(x), _core.asarray(0, dtype=x.dtype))
        return ops.sum(ops.cast(some, x.dtype), axis, keepdims)
    wide = _core.float32 if x.dtype.itemsize == 2 else x.dtype
    sizes = ops.cast(sizes, wide)
    if builtins.min(x.shape, default=1) == 0:
        total = ops.sum(sizes, axis, True) ** (1.0 / order)
    else:
        unit = _unit(_autodiff.stop_gradient(sizes), axis, order < 0.0)
        total = ops.sum((sizes / unit) ** order, axis, True) ** (1.0 / order) * unit
    if not keepdims:
        total = ops.squeeze(total, tuple(range(x.ndim)) if axis is None else axis)
    return ops.cast(total, x.dtype)


def _unit(sizes: Tensor, axis: Axis, smallest: builtins.bool) -> Tensor:
    """What sizes are divided by so that no power of them overflows."""
    zero = _core.asarray(0, dtype=sizes.dtype)
    if smallest:
        infinity = _core.asarray(math.inf, dtype=sizes.dtype)
        unit = ops.min_reduce(ops.where(ops.equal(sizes, zero), infinity, sizes), axis, True)
    else:
        unit = ops.max_reduce(sizes, axis, True)
    usable = ops.logical_and(ops.isfinite(unit), ops.not_equal(unit, zero))
    return ops.where(usable, unit, _core.asarray(1, dtype=sizes.dtype))


def matrix_norm(
    x: ArrayLike,
    /,
    *,
    keepdims: builtins.bool = False,
    ord: float | Literal["fro", "nuc"] | None = "fro",
) -> Tensor:
    """The norm of each matrix: `"fro"`, the root of the sum of squares; `"nuc"`, the sum of the singular
    values; 2, the largest of them (-2: the smallest); 1, the largest sum of a column's sizes; inf, of a
    row's (-1, -inf: the smallest)."""
    x = tensor("matrix_norm", x)
    if x.dtype.kind != "f":
        raise TypeError(f"matrix_norm: x has dtype {x.dtype.name}, expected a float type")
    if x.ndim < 2:
        raise ValueError(f"matrix_norm: x has shape {x.shape}, expected at least two axes")
    if ord is None or ord == "fro":
        return ops.norm(x, (-2, -1), keepdims)
    if ord == "nuc":
        norm = ops.expand_dims(ops.sum(ops.svdvals(x), -1, True), -1)
    elif ord in (2, -2):
        norm = ops.expand_dims((ops.max_reduce if ord == 2 else ops.min_reduce)(ops.svdvals(x), -1, True), -1)
    elif ord in (1, -1, math.inf, -math.inf):
        along, other = (-2, -1) if ord in (1, -1) else (-1, -2)
        sums = ops.sum(ops.abs(x), along, True)
        norm = (ops.max_reduce if ord in (1, math.inf) else ops.min_reduce)(sums, other, True)
    else:
        raise ValueError(f"matrix_norm: ord is {ord!r}, expected \"fro\", \"nuc\", 1, -1, 2, -2, inf or -inf")
    return norm if keepdims else ops.squeeze(norm, (-2, -1))


def cond(x: ArrayLike, /, *, ord: float | Literal["fro", "nuc"] | None = None) -> Tensor:
    """The norm of each matrix times that of its inverse; by default of order 2, which is the largest singular
    value over the smallest."""
    x = tensor("cond", x)
    if ord not in (None, 2, -2):
        return ops.multiply(matrix_norm(x, ord=ord), matrix_norm(ops.inv(x), ord=ord))
    s = ops.svdvals(x)
    largest, smallest = ops.max_reduce(s, -1), ops.min_reduce(s, -1)
    return ops.divide(smallest, largest) if ord == -2 else ops.divide(largest, smallest)
