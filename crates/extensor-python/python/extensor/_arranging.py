"""Tensors put side by side and turned, integrals, rows of tables, and losses of vectors, under the names that NumPy and PyTorch have.

All are made of other functions.
"""

from collections.abc import Sequence

from . import ops
from ._array_api.creation import asarray, ones_like
from ._array_api.manipulation import concat, expand_dims, flip, permute_dims, reshape
from ._array_api.reduction import mean, sum
from ._array_api.searching import where
from ._autodiff import stop_gradient
from ._core import Tensor
from ._types import ArrayLike

__all__ = [
    "column_stack", "cosine_embedding_loss", "dstack", "embedding_with_padding", "hstack", "rot90", "trapezoid",
    "triplet_margin_loss", "vstack",
]


def _tensors(arrays: Sequence[ArrayLike]) -> list[Tensor]:
    return [asarray(x) for x in arrays]


def vstack(arrays: Sequence[ArrayLike], /) -> Tensor:
    """The tensors one below the other: along the first axis, vectors as rows.

    >>> import extensor as ex
    >>> ex.vstack([ex.asarray([1, 2]), ex.asarray([3, 4])]).tolist()
    [[1, 2], [3, 4]]
    """
    return concat([reshape(x, (1, -1)) if x.ndim < 2 else x for x in _tensors(arrays)], axis=0)


def hstack(arrays: Sequence[ArrayLike], /) -> Tensor:
    """The tensors side by side: along the second axis, vectors one after the other.

    >>> import extensor as ex
    >>> ex.hstack([ex.asarray([1]), ex.asarray([2, 3])]).tolist()
    [1, 2, 3]
    """
    tensors = [reshape(x, (1,)) if x.ndim == 0 else x for x in _tensors(arrays)]
    return concat(tensors, axis=0 if not tensors or tensors[0].ndim == 1 else 1)


def dstack(arrays: Sequence[ArrayLike], /) -> Tensor:
    """The tensors one behind the other: along the third axis.

    >>> import extensor as ex
    >>> ex.dstack([ex.asarray([1, 2]), ex.asarray([3, 4])]).tolist()
    [[[1, 3], [2, 4]]]
    """

    def deep(x: Tensor) -> Tensor:
        if x.ndim < 2:
            return reshape(x, (1, -1, 1))
        return expand_dims(x, axis=2) if x.ndim == 2 else x

    return concat([deep(x) for x in _tensors(arrays)], axis=2)


def column_stack(arrays: Sequence[ArrayLike], /) -> Tensor:
    """Vectors as the columns of a matrix; matrices side by side.

    >>> import extensor as ex
    >>> ex.column_stack([ex.asarray([1, 2]), ex.asarray([3, 4])]).tolist()
    [[1, 3], [2, 4]]
    """
    return concat([reshape(x, (-1, 1)) if x.ndim < 2 else x for x in _tensors(arrays)], axis=1)


def embedding_with_padding(weight: ArrayLike, index: ArrayLike, /, padding_idx: int) -> Tensor:
    """`embedding`, in which the row `padding_idx` has no gradient: what fills sequences up to one length is not learned.

    >>> import extensor as ex
    >>> index = ex.asarray([0, 1, 1])
    >>> ex.grad(lambda w: ex.sum(ex.embedding_with_padding(w, index, 0)))(ex.ones((2, 2))).tolist()
    [[0.0, 0.0], [2.0, 2.0]]
    """
    weight, index = _tensors([weight, index])
    if not 0 <= padding_idx < weight.shape[0]:
        message = f"embedding_with_padding: padding_idx is {padding_idx}, expected one of {weight.shape[0]} rows"
        raise ValueError(message)
    y = ops.embedding(weight, index)
    return where(expand_dims(index == padding_idx, axis=-1), stop_gradient(y), y)


def rot90(x: ArrayLike, /, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """The tensor turned by `k` quarters in the plane of two axes, from the first towards the second.

    >>> import extensor as ex
    >>> ex.rot90(ex.asarray([[1, 2], [3, 4]])).tolist()
    [[2, 4], [1, 3]]
    """
    x = asarray(x)
    a, b = (axis + x.ndim if axis < 0 else axis for axis in axes)
    if not (0 <= a < x.ndim and 0 <= b < x.ndim and a != b):
        raise ValueError(f"rot90: axes are {tuple(axes)}, expected two different ones of {x.ndim}")
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    k %= 4
    if k == 0:
        return x
    if k == 2:
        return flip(x, axis=(a, b))
    if k == 1:
        return flip(permute_dims(x, order), axis=a)
    return permute_dims(flip(x, axis=a), order)


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The integral along an axis by the trapezoidal rule; 0 for fewer than two samples.

    >>> import extensor as ex
    >>> ex.trapezoid(ex.asarray([1.0, 2.0, 4.0])).item()
    4.5
    >>> ex.trapezoid(ex.asarray([1.0, 2.0, 4.0]), x=ex.asarray([0.0, 1.0, 3.0])).item()
    7.5
    """
    y = asarray(y)
    at = axis + y.ndim if axis < 0 else axis
    if not 0 <= at < y.ndim:
        raise IndexError(f"trapezoid: axis {axis} is out of range for {y.ndim} dimensions")

    def pair(t: Tensor, along: int) -> tuple[Tensor, Tensor]:
        size = t.shape[along]
        return ops.slice(t, along, 0, max(size - 1, 0), 1), ops.slice(t, along, min(1, size), size, 1)

    low, high = pair(y, at)
    if x is None:
        return sum(low + high, axis=at) * (0.5 * dx)
    x = asarray(x)
    left, right = pair(x, 0 if x.ndim == 1 else at - y.ndim + x.ndim)
    widths = right - left
    if x.ndim == 1:
        widths = reshape(widths, (-1, *(1,) * (y.ndim - at - 1)))
    return sum((low + high) * (widths * 0.5), axis=at)


def _reduced(losses: Tensor, reduction: str, name: str) -> Tensor:
    if reduction == "none":
        return losses
    if reduction not in ("mean", "sum"):
        raise ValueError(f'{name}: reduction is "{reduction}", expected "none", "mean" or "sum"')
    return mean(losses) if reduction == "mean" else sum(losses)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
    swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`max(0, d(a, p) − d(a, n) + margin)` with the distances `(Σ |x − y + eps|ᵖ)^(1/p)` along the last axis.

    >>> import extensor as ex
    >>> a, p, n = (ex.asarray([v]) for v in ([0.0, 0.0], [3.0, 4.0], [0.0, 2.0]))
    >>> ex.triplet_margin_loss(a, p, n, eps=0.0).item()
    4.0
    """
    if not margin > 0 or not p >= 1:
        raise ValueError(f"triplet_margin_loss: margin is {margin} and p {p}, expected above 0 and from 1 up")

    def distance(x: Tensor, y: Tensor) -> Tensor:
        d = x - y + eps
        if p == 2.0:
            return ops.norm(d, -1)
        if p == 1.0:
            return sum(ops.abs(d), axis=-1)
        return sum(ops.abs(d) ** float(p), axis=-1) ** (1.0 / p)

    far = distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return _reduced(ops.relu(distance(anchor, positive) - far + margin), reduction, "triplet_margin_loss")


def cosine_embedding_loss(
    first: Tensor, second: Tensor, targets: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """`1 − cos` for targets of 1 and `max(0, cos − margin)` for −1, with the cosine of the angle between vectors along the
    last axis: 0 beside a vector of zeros.

    >>> import extensor as ex
    >>> a, b = ex.asarray([[1.0, 0.0], [3.0, 4.0]]), ex.asarray([[0.0, 2.0], [6.0, 8.0]])
    >>> ex.cosine_embedding_loss(a, b, ex.asarray([1.0, -1.0])).item()
    1.0
    """
    if not -1 <= margin <= 1:
        raise ValueError(f"cosine_embedding_loss: margin is {margin}, expected a number from −1 to 1")

    def directed(x: Tensor) -> Tensor:
        length = ops.norm(x, -1, True)
        return x / where(length == 0.0, ones_like(length), length)

    cosine = sum(directed(first) * directed(second), axis=-1)
    losses = where(targets > 0.0, 1.0 - cosine, ops.relu(cosine - margin))
    return _reduced(losses, reduction, "cosine_embedding_loss")
