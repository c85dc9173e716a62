"""Networks: layers, how their parameters begin, and models made of them.

A layer is an immutable tree of tensors (a `Module`) that calls operations; nothing here knows
optimisers, data, or how a gradient is taken. The key of the random numbers comes first, and the
same key gives the same bits as in Rust.

>>> import extensor as ex
>>> from extensor import nn
>>> a, b = ex.Key(1).split()
>>> model = nn.models.Mlp(a, [4, 8, 3])
>>> x, labels = b.normal((5, 4)), ex.asarray([0, 1, 2, 1, 0])
>>> loss, grads = ex.value_and_grad(lambda model: nn.class_loss(model(x), labels))(model)
>>> list(grads.parameters())[:2]
['layers.0.weight', 'layers.0.bias']
"""

from typing import Any

from .. import _core
from .._core import Tensor
from . import init
from ._layers import (
    AdaptiveAvgPool,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    Dropout,
    Embedding,
    Flatten,
    GlobalAvgPool,
    Linear,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    MultiHeadAttention,
    Sequential,
    Upsample,
)
from ._module import INFERENCE, Inference, Mode, Module, Training, buffer, static
from ._norm import BatchNorm2d, GroupNorm, LayerNorm, RMSNorm
from ._summary import Summary, summary
from . import models  # made of the layers

__all__ = [
    "AdaptiveAvgPool", "AvgPool1d", "AvgPool2d", "AvgPool3d", "BatchNorm2d", "Conv1d", "Conv2d", "Conv3d",
    "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Dropout", "Embedding", "Flatten",
    "GlobalAvgPool", "GroupNorm", "INFERENCE", "Inference", "LayerNorm", "Linear", "MaxPool1d", "MaxPool2d",
    "MaxPool3d", "Mode", "Module", "MultiHeadAttention", "RMSNorm", "Sequential", "Summary", "Training",
    "Upsample", "buffer", "class_loss", "init", "models", "static", "summary",
]  # fmt: skip


def class_loss(logits: Any, targets: Any, label_smoothing: float = 0.0) -> Tensor:
    """The mean cross-entropy of classes, for logits `[…, classes]` and targets `[…]` of a
    whole-number dtype with any axes before: what classifiers and language models minimise.

    >>> import extensor as ex
    >>> from extensor import nn
    >>> nn.class_loss(ex.zeros((2, 3, 5)), ex.zeros((2, 3), dtype="int64"))
    Tensor(1.6094, dtype=float64)
    """
    return _core.class_loss(_core.asarray(logits), _core.asarray(targets), label_smoothing)
