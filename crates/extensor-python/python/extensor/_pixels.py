"""Channels as finer pixels, and back."""

from . import ops
from ._array_api.common import tensor
from ._core import Tensor
from ._types import ArrayLike

__all__ = ["pixel_shuffle", "pixel_unshuffle"]


def _parts(name: str, x: Tensor, factor: int) -> tuple[list[int], int, int, int]:
    if len(x.shape) < 3:
        raise ValueError(f"{name}: x has shape {x.shape}, expected (…, C, H, W)")
    if factor < 1:
        raise ValueError(f"{name}: factor is {factor}, expected at least 1")
    *before, c, h, w = x.shape
    return before, c, h, w


def _moved(x: Tensor, before: list[int], order: list[int]) -> Tensor:
    n = len(before)
    return ops.transpose(x, [*range(n), *(n + axis for axis in order)])


def pixel_shuffle(x: ArrayLike, factor: int) -> Tensor:
    """Images `(…, C·r², H, W)` with `r` times as many rows and columns, `(…, C, H·r, W·r)`: the `r²` channels
    of each become its pixels, row by row.

    >>> import extensor as ex
    >>> ex.pixel_shuffle(ex.asarray([[[1.0]], [[2.0]], [[3.0]], [[4.0]]]), 2).tolist()
    [[[1.0, 2.0], [3.0, 4.0]]]
    """
    x, r = tensor("pixel_shuffle", x), factor
    before, c, h, w = _parts("pixel_shuffle", x, r)
    if c % (r * r):
        raise ValueError(f"pixel_shuffle: x has shape {x.shape}, expected a number of channels that {r * r} divides")
    apart = ops.reshape(x, [*before, c // (r * r), r, r, h, w])
    beside = _moved(apart, before, [0, 3, 1, 4, 2])
    return ops.reshape(beside, [*before, c // (r * r), h * r, w * r])


def pixel_unshuffle(x: ArrayLike, factor: int) -> Tensor:
    """The way back from `pixel_shuffle`: images `(…, C, H·r, W·r)` as `(…, C·r², H, W)`.

    >>> import extensor as ex
    >>> ex.pixel_unshuffle(ex.asarray([[[1.0, 2.0], [3.0, 4.0]]]), 2).shape
    (4, 1, 1)
    """
    x, r = tensor("pixel_unshuffle", x), factor
    before, c, h, w = _parts("pixel_unshuffle", x, r)
    if h % r or w % r:
        raise ValueError(f"pixel_unshuffle: x has shape {x.shape}, expected a height and a width that {r} divides")
    apart = ops.reshape(x, [*before, c, h // r, r, w // r, r])
    behind = _moved(apart, before, [0, 2, 4, 1, 3])
    return ops.reshape(behind, [*before, c * r * r, h // r, w // r])
