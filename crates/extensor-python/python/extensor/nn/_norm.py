"""Layers that normalise: parameters, running statistics, and the operation that uses them."""

from collections.abc import Sequence

from .. import _core, ops
from .._core import Tensor
from ._module import INFERENCE, Mode, Module, buffer, static

__all__ = ["BatchNorm2d", "GroupNorm", "LayerNorm", "RMSNorm"]


def _full(shape: tuple[int, ...], value: float) -> Tensor:
    return _core.full(shape, value, dtype=_core.float32)


class BatchNorm2d(Module):
    """Each channel of `[N, C, H, W]` or `[N, C]` normalised over the whole batch.

    In training the batch's own statistics are used, and `forward` returns the layer with the new
    running ones, `(1 − momentum)·running + momentum·batch`; otherwise the running ones are used,
    and stay. Names and conventions are PyTorch's.

    >>> import extensor as ex
    >>> from extensor import nn
    >>> layer = nn.BatchNorm2d(1)
    >>> x = ex.asarray([[1.0], [3.0]], dtype="float32")
    >>> y, layer = layer.forward(x, nn.Training(ex.Key(1)))
    >>> layer.running_mean, layer.num_batches_tracked
    (Tensor([0.2], dtype=float32), Tensor(1, dtype=int64))
    """

    weight: Tensor
    bias: Tensor
    running_mean: Tensor = buffer()
    running_var: Tensor = buffer()
    num_batches_tracked: Tensor = buffer()
    momentum: float = static()
    eps: float = static()

    def __init__(self, channels: int, momentum: float = 0.1, eps: float = 1e-5) -> None:
        self.weight, self.bias = _full((channels,), 1.0), _full((channels,), 0.0)
        self.running_mean, self.running_var = _full((channels,), 0.0), _full((channels,), 1.0)
        self.num_batches_tracked = _core.asarray(0)
        self.momentum, self.eps = momentum, eps

    def forward(self, x: Tensor, mode: Mode = INFERENCE) -> "tuple[Tensor, BatchNorm2d]":
        inputs = x, self.weight, self.bias, self.running_mean, self.running_var
        found = ops.batch_norm2d.with_auxiliary(*inputs, self.eps, mode.training, self.momentum)
        y, mean, var, *_ = found
        if not mode.training:
            return y, self
        return y, self.replace(
            running_mean=_kept(mean, self.running_mean),
            running_var=_kept(var, self.running_var),
            num_batches_tracked=self.num_batches_tracked + 1,
        )


def _kept(new: Tensor, old: Tensor) -> Tensor:
    """A statistic in the dtype that it is kept in."""
    return new if new.dtype == old.dtype else ops.cast(new, old.dtype)


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


class LayerNorm(Module):
    """`(x − mean)/√(variance + eps)·weight + bias` over the last axes, of this shape."""

    weight: Tensor
    bias: Tensor
    eps: float = static()

    def __init__(self, shape: int | Sequence[int], eps: float = 1e-5) -> None:
        self.weight, self.bias = _full(_shape(shape), 1.0), _full(_shape(shape), 0.0)
        self.eps = eps

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        return ops.layer_norm(x, self.weight, self.bias, self.weight.shape, self.eps)


class RMSNorm(Module):
    """`x/√(mean(x²) + eps)·weight` over the last axes, of this shape."""

    weight: Tensor
    eps: float = static()

    def __init__(self, shape: int | Sequence[int], eps: float = 1e-6) -> None:
        self.weight, self.eps = _full(_shape(shape), 1.0), eps

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        return ops.rms_norm(x, self.weight, self.weight.shape, self.eps)


class GroupNorm(Module):
    """`(x − mean)/√(variance + eps)·weight + bias` over groups of the channels of `[N, C, …]`."""

    weight: Tensor
    bias: Tensor
    groups: int = static()
    eps: float = static()

    def __init__(self, groups: int, channels: int, eps: float = 1e-5) -> None:
        self.weight, self.bias = _core.group_norm_parameters(groups, channels)
        self.groups, self.eps = groups, eps

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        return ops.group_norm(x, self.weight, self.bias, self.groups, self.eps)
