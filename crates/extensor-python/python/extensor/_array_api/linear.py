"""Products of vectors, matrices and tensors."""

import builtins
from collections.abc import Iterable, Sequence

from .. import ops
from .._core import Tensor
from .._types import ArrayLike
from .common import axes_in, tensor
from .manipulation import moveaxis

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]


def matmul(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The product of matrices, or of stacks of them, or with vectors."""
    return ops.matmul(x1, x2)


def matrix_transpose(x: ArrayLike, /) -> Tensor:
    """`x` with its last two axes swapped."""
    return tensor("matrix_transpose", x).mT


def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Tensor:
    """The products of vectors along an axis."""
    x1, x2 = tensor("vecdot", x1), tensor("vecdot", x2)
    least = builtins.min(x1.ndim, x2.ndim)
    if not isinstance(axis, int) or not -least <= axis < 0:
        raise ValueError(f"vecdot: axis is {axis}, expected one from {-least} to -1")
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: shapes {x1.shape} and {x2.shape} differ along axis {axis}")
    x1, x2 = moveaxis(x1, axis, -1), moveaxis(x2, axis, -1)
    row, column = ops.expand_dims(x1, -2), ops.expand_dims(x2, -1)
    return ops.squeeze(ops.matmul(row, column), (-2, -1))


def tensordot(
    x1: ArrayLike, x2: ArrayLike, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2,
) -> Tensor:
    """The sums of products over axes of both tensors: the last `axes` of the one with the first of the
    other, or pairs of axes.

    >>> import extensor as ex
    >>> ex.tensordot(ex.ones((2, 3, 4)), ex.ones((4, 3, 5)), axes=((1, 2), (1, 0))).shape
    (2, 5)
    """
    x1, x2 = tensor("tensordot", x1), tensor("tensordot", x2)
    if isinstance(axes, int):
        if not 0 <= axes <= builtins.min(x1.ndim, x2.ndim):
            raise ValueError(f"tensordot: axes is {axes}, expected one from 0 to {builtins.min(x1.ndim, x2.ndim)}")
        first, second = list(range(x1.ndim - axes, x1.ndim)), list(range(axes))
    else:
        first = axes_in("tensordot", axes[0], x1.ndim)
        second = axes_in("tensordot", axes[1], x2.ndim)
    if [x1.shape[a] for a in first] != [x2.shape[b] for b in second]:
        raise ValueError(f"tensordot: shapes {x1.shape} and {x2.shape} differ along axes {first} and {second}")
    rest1 = [a for a in range(x1.ndim) if a not in first]
    rest2 = [b for b in range(x2.ndim) if b not in second]
    inner = _product(x1.shape[a] for a in first)
    shape1 = tuple(x1.shape[a] for a in rest1)
    shape2 = tuple(x2.shape[b] for b in rest2)
    left = ops.reshape(ops.transpose(x1, rest1 + first), (_product(shape1), inner))
    right = ops.reshape(ops.transpose(x2, second + rest2), (inner, _product(shape2)))
    return ops.reshape(ops.matmul(left, right), shape1 + shape2)


def _product(sizes: Iterable[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


