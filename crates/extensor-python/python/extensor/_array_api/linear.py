"""Products of vectors, matrices and tensors."""

import builtins
import string
from collections.abc import Sequence

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
    return ops.einsum((x1, x2), "...i,...i->...")


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
    letters = _labels("tensordot", x1.ndim + x2.ndim)
    labels1 = letters[: x1.ndim]
    labels2 = list(letters[x1.ndim :])
    for a, b in zip(first, second):
        labels2[b] = labels1[a]
    rest1 = [labels1[a] for a in range(x1.ndim) if a not in first]
    rest2 = [labels2[b] for b in range(x2.ndim) if b not in second]
    return ops.einsum((x1, x2), f"{labels1},{''.join(labels2)}->{''.join(rest1 + rest2)}")


def _labels(op: str, axes: int) -> str:
    """So many letters."""
    if axes > len(string.ascii_letters):
        raise ValueError(f"{op}: the tensors have {axes} axes together, expected at most {len(string.ascii_letters)}")
    return string.ascii_letters[:axes]
