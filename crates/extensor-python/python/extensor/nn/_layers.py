"""Layers: parameters, and the operation that uses them.

They begin with the same bits as the Rust library's for the same key, and have PyTorch's names; what
they compute is the operations' concern.
"""

from collections.abc import Callable, Sequence
from typing import Any

from .. import _core, ops
from .._arranging import embedding_with_padding
from .._core import Key, Tensor
from ._module import INFERENCE, Inference, Mode, Module, static

__all__ = [
    "AdaptiveAvgPool", "AvgPool1d", "AvgPool2d", "AvgPool3d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d",
    "ConvTranspose2d", "ConvTranspose3d", "Dropout", "Embedding", "Flatten", "GlobalAvgPool", "Linear",
    "MaxPool1d", "MaxPool2d", "MaxPool3d", "MultiHeadAttention", "Sequential", "Upsample",
]

#: One number for both axes, or one for each.
Pair = int | Sequence[int]


def _pair(x: Pair) -> tuple[int, int]:
    if isinstance(x, int):
        return x, x
    a, b = x
    return a, b


#: One number for all three axes, or one for each.
Triple = int | Sequence[int]


def _triple(x: Triple) -> tuple[int, int, int]:
    if isinstance(x, int):
        return x, x, x
    a, b, c = x
    return a, b, c


class Linear(Module):
    """`y = x·weightᵀ + bias`, for `x` with any number of axes before the last.

    >>> import extensor as ex
    >>> from extensor import nn
    >>> layer = nn.Linear(ex.Key(1), 3, 2)
    >>> layer(ex.Key(2).normal((5, 3))).shape
    (5, 2)
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(self, key: Key, inputs: int, outputs: int, bias: bool = True) -> None:
        self.weight, self.bias = _core.linear_parameters(key, inputs, outputs, bias)

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        return ops.linear(x, self.weight, self.bias)


class Embedding(Module):
    """`y[j…] = weight[index[j…]]`: a vector for each of a number of things. That of `padding_idx`, if there is one, begins
    as zeros and has no gradient.

    >>> import extensor as ex
    >>> from extensor import nn
    >>> table = nn.Embedding(ex.Key(1), 3, 2, padding_idx=0)
    >>> ex.grad(lambda t: ex.sum(t(ex.asarray([0, 2, 2]))))(table).weight.tolist()
    [[0.0, 0.0], [0.0, 0.0], [2.0, 2.0]]
    """

    weight: Tensor
    padding_idx: int | None = static()

    def __init__(self, key: Key, count: int, size: int, *, padding_idx: int | None = None) -> None:
        if padding_idx is not None and not -count <= padding_idx < count:
            raise ValueError(f"Embedding: padding_idx is {padding_idx}, expected one of {count} things")
        self.padding_idx = None if padding_idx is None else padding_idx % count
        weight = _core.embedding_parameters(key, count, size)
        if self.padding_idx is not None:
            kept = ops.one_hot(_core.asarray(self.padding_idx), count, weight.dtype)
            weight = weight * (1.0 - ops.expand_dims(kept, 1))
        self.weight = weight

    def __call__(self, index: Tensor, mode: Mode = INFERENCE) -> Tensor:
        if self.padding_idx is None:
            return ops.embedding(self.weight, index)
        return embedding_with_padding(self.weight, index, self.padding_idx)


class Conv1d(Module):
    """`ops.conv1d` of sequences `[sequences, in, length]` with a weight and a bias."""

    weight: Tensor
    bias: Tensor | None
    stride: int = static()
    padding: int = static()
    dilation: int = static()
    groups: int = static()

    def __init__(
        self, key: Key, inputs: int, outputs: int, kernel: int, *, stride: int = 1, padding: int = 0,
        dilation: int = 1, groups: int = 1, bias: bool = True,
    ) -> None:  # fmt: skip
        self.weight, self.bias = _core.convolution_parameters(
            "conv1d", key, inputs, outputs, [kernel], groups, bias
        )
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        settings = self.stride, self.padding, self.dilation, self.groups
        return ops.conv1d(x, self.weight, self.bias, *settings)


class Conv2d(Module):
    """`ops.conv2d` of images `[images, in, height, width]` with a weight and a bias.

    >>> import extensor as ex
    >>> from extensor import nn
    >>> layer = nn.Conv2d(ex.Key(1), 1, 6, 5, padding=2)
    >>> layer(ex.Key(2).normal((2, 1, 28, 28))).shape
    (2, 6, 28, 28)
    """

    weight: Tensor
    bias: Tensor | None
    stride: Pair = static()
    padding: Pair = static()
    dilation: Pair = static()
    groups: int = static()

    def __init__(
        self, key: Key, inputs: int, outputs: int, kernel: Pair, *, stride: Pair = 1, padding: Pair = 0,
        dilation: Pair = 1, groups: int = 1, bias: bool = True,
    ) -> None:  # fmt: skip
        self.weight, self.bias = _core.convolution_parameters(
            "conv2d", key, inputs, outputs, _pair(kernel), groups, bias
        )
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        settings = self.stride, self.padding, self.dilation, self.groups
        return ops.conv2d(x, self.weight, self.bias, *settings)


class ConvTranspose2d(Module):
    """`ops.conv_transpose2d` of images `[images, in, height, width]` with a weight and a bias."""

    weight: Tensor
    bias: Tensor | None
    stride: Pair = static()
    padding: Pair = static()
    output_padding: Pair = static()
    dilation: Pair = static()
    groups: int = static()

    def __init__(
        self, key: Key, inputs: int, outputs: int, kernel: Pair, *,
        stride: Pair = 1, padding: Pair = 0, output_padding: Pair = 0, dilation: Pair = 1,
        groups: int = 1, bias: bool = True,
    ) -> None:  # fmt: skip
        self.weight, self.bias = _core.convolution_parameters(
            "conv_transpose2d", key, inputs, outputs, _pair(kernel), groups, bias
        )
        self.stride, self.padding, self.output_padding = stride, padding, output_padding
        self.dilation, self.groups = dilation, groups

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        settings = self.stride, self.padding, self.output_padding, self.dilation, self.groups
        return ops.conv_transpose2d(x, self.weight, self.bias, *settings)


class Conv3d(Module):
    """`ops.conv3d` of volumes `[volumes, in, depth, height, width]` with a weight and a bias."""

    weight: Tensor
    bias: Tensor | None
    stride: Triple = static()
    padding: Triple = static()
    dilation: Triple = static()
    groups: int = static()

    def __init__(
        self, key: Key, inputs: int, outputs: int, kernel: Triple, *,
        stride: Triple = 1, padding: Triple = 0, dilation: Triple = 1, groups: int = 1, bias: bool = True,
    ) -> None:  # fmt: skip
        self.weight, self.bias = _core.convolution_parameters(
            "conv3d", key, inputs, outputs, _triple(kernel), groups, bias
        )
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        settings = self.stride, self.padding, self.dilation, self.groups
        return ops.conv3d(x, self.weight, self.bias, *settings)


class ConvTranspose1d(Module):
    """`ops.conv_transpose1d` of sequences `[sequences, in, length]` with a weight and a bias."""

    weight: Tensor
    bias: Tensor | None
    stride: int = static()
    padding: int = static()
    output_padding: int = static()
    dilation: int = static()
    groups: int = static()

    def __init__(
        self, key: Key, inputs: int, outputs: int, kernel: int, *,
        stride: int = 1, padding: int = 0, output_padding: int = 0, dilation: int = 1,
        groups: int = 1, bias: bool = True,
    ) -> None:  # fmt: skip
        self.weight, self.bias = _core.convolution_parameters(
            "conv_transpose1d", key, inputs, outputs, [kernel], groups, bias
        )
        self.stride, self.padding, self.output_padding = stride, padding, output_padding
        self.dilation, self.groups = dilation, groups

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        settings = self.stride, self.padding, self.output_padding, self.dilation, self.groups
        return ops.conv_transpose1d(x, self.weight, self.bias, *settings)


class ConvTranspose3d(Module):
    """`ops.conv_transpose3d` of volumes `[volumes, in, depth, height, width]` with a weight and a bias."""

    weight: Tensor
    bias: Tensor | None
    stride: Triple = static()
    padding: Triple = static()
    output_padding: Triple = static()
    dilation: Triple = static()
    groups: int = static()

    def __init__(
        self, key: Key, inputs: int, outputs: int, kernel: Triple, *,
        stride: Triple = 1, padding: Triple = 0, output_padding: Triple = 0, dilation: Triple = 1,
        groups: int = 1, bias: bool = True,
    ) -> None:  # fmt: skip
        self.weight, self.bias = _core.convolution_parameters(
            "conv_transpose3d", key, inputs, outputs, _triple(kernel), groups, bias
        )
        self.stride, self.padding, self.output_padding = stride, padding, output_padding
        self.dilation, self.groups = dilation, groups

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        settings = self.stride, self.padding, self.output_padding, self.dilation, self.groups
        return ops.conv_transpose3d(x, self.weight, self.bias, *settings)


class MultiHeadAttention(Module):
    """Attention with several heads: queries, keys and values are projected, cut into heads,
    averaged by `ops.scaled_dot_product_attention` and projected again.

    Inputs are `[batch, length, size]`. `layer(x)` is self-attention, in which training drops the share
    `dropout` of the weights; `layer.attend` takes queries, keys and values of their own, and a mask: of
    bools, true where a query may look at a key, or of floats, which are added to the scores.

    >>> import extensor as ex
    >>> from extensor import nn
    >>> layer = nn.MultiHeadAttention(ex.Key(1), 8, 2)
    >>> layer(ex.Key(2).normal((3, 5, 8)), causal=True).shape
    (3, 5, 8)
    """

    in_proj_weight: Tensor
    in_proj_bias: Tensor | None
    out_proj: Linear
    heads: int = static()

    def __init__(self, key: Key, size: int, heads: int) -> None:
        (self.in_proj_weight, self.in_proj_bias), out = _core.attention_parameters(key, size, heads)
        self.out_proj = Linear.of(weight=out[0], bias=out[1])
        self.heads = heads

    def __call__(
        self, x: Tensor, mode: Mode = INFERENCE, *, causal: bool = False, dropout: float = 0.0
    ) -> Tensor:
        if isinstance(mode, Inference) or dropout == 0:
            return self.attend(x, x, x, causal=causal)
        return self.attend(x, x, x, causal=causal, dropout=dropout, dropout_key=mode.key)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, causal: bool = False,
        *, dropout: float = 0.0, dropout_key: Key | None = None,
    ) -> Tensor:  # fmt: skip
        """Attention of `query`, `[batch, T, size]`, to `key` and `value`, `[batch, S, size]`, where
        `mask`, broadcast to `[batch, heads, T, S]`, is true, or with it added to the scores if it is of
        floats, and with `causal` up to the query's own position. Of the weights the share `dropout` is
        dropped, by `dropout_key`."""
        size = self.in_proj_weight.shape[-1]
        for name, x in (("query", query), ("key", key), ("value", value)):
            if len(x.shape) != 3 or x.shape[2] != size:
                raise ValueError(
                    f"multi_head_attention: {name} has shape {list(x.shape)}, "
                    f"expected [batch, length, {size}]"
                )
        if query is key and key is value:
            found = list(ops.split(ops.linear(query, self.in_proj_weight, self.in_proj_bias), 3, 2))
        else:
            found = []
            for i, x in enumerate((query, key, value)):
                weight = ops.slice(self.in_proj_weight, 0, i * size, (i + 1) * size)
                bias = self.in_proj_bias
                if bias is not None:
                    bias = ops.slice(bias, 0, i * size, (i + 1) * size)
                found.append(ops.linear(x, weight, bias))
        q, k, v = (self._cut(x) for x in found)
        dropped_by = dropout_key if dropout else None
        seen = ops.scaled_dot_product_attention(q, k, v, mask, causal, dropout=dropout, key=dropped_by)
        return self.out_proj(ops.reshape(ops.transpose(seen, (0, 2, 1, 3)), query.shape))

    def _cut(self, x: Tensor) -> Tensor:
        """`[batch, length, size]` as `[batch, heads, length, size/heads]`."""
        batch, length, size = x.shape
        cut = ops.reshape(x, (batch, length, self.heads, size // self.heads))
        return ops.transpose(cut, (0, 2, 1, 3))


class Dropout(Module):
    """In training, each number is dropped with probability `p` and the others are scaled by
    `1/(1 − p)`; otherwise nothing is done."""

    p: float = static()

    def __init__(self, p: float) -> None:
        self.p = p

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        if isinstance(mode, Inference) or self.p == 0:
            return x
        return ops.dropout(x, self.p, mode.key)


class _Pool(Module):
    size: Pair = static()
    stride: Pair | None = static()
    padding: Pair = static()

    def __init__(self, size: Pair, stride: Pair | None = None, padding: Pair = 0) -> None:
        self.size, self.stride, self.padding = size, stride, padding


class MaxPool2d(_Pool):
    """The largest number of each window of images `[N, C, H, W]`."""

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        return ops.maxpool2d(x, self.size, self.stride, self.padding)


class AvgPool2d(_Pool):
    """The average of each window of images `[N, C, H, W]`."""

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        return ops.avgpool2d(x, self.size, self.stride, self.padding)


class MaxPool1d(_Pool):
    """The largest number of each window of sequences `[N, C, L]`."""

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        return ops.maxpool1d(x, self.size, self.stride, self.padding)


class AvgPool1d(_Pool):
    """The average of each window of sequences `[N, C, L]`."""

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        return ops.avgpool1d(x, self.size, self.stride, self.padding)


class MaxPool3d(_Pool):
    """The largest number of each window of volumes `[N, C, D, H, W]`."""

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        return ops.maxpool3d(x, self.size, self.stride, self.padding)


class AvgPool3d(_Pool):
    """The average of each window of volumes `[N, C, D, H, W]`."""

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        return ops.avgpool3d(x, self.size, self.stride, self.padding)


class Upsample(Module):
    """`ops.interpolate` of images, sequences or volumes to so many times their size."""

    scale_factor: float = static()
    mode: str = static()

    def __init__(self, scale_factor: float, mode: str = "nearest") -> None:
        self.scale_factor, self.mode = scale_factor, mode

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        return ops.interpolate(x, None, self.scale_factor, self.mode)


class GlobalAvgPool(Module):
    """The average of each plane: `[N, C, H, W]` to `[N, C, 1, 1]`."""

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        return ops.global_avgpool2d(x)


class AdaptiveAvgPool(Module):
    """The averages of windows that cover each plane as evenly as possible, to planes of one
    size."""

    size: tuple[int, int] = static()

    def __init__(self, size: Pair) -> None:
        self.size = _pair(size)

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        return ops.adaptive_avgpool2d(x, self.size)


class Flatten(Module):
    """All axes but the first as one."""

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        return ops.flatten(x, 1, -1)


class Sequential(Module):
    """Modules and functions one after the other, with PyTorch's names: `0.weight`, `2.bias`.

    >>> import extensor as ex
    >>> from extensor import nn
    >>> a, b = ex.Key(1).split()
    >>> model = nn.Sequential(nn.Linear(a, 4, 8), ex.relu, nn.Linear(b, 8, 3))
    >>> list(model.parameters())
    ['0.weight', '0.bias', '2.weight', '2.bias']
    >>> model(ex.Key(2).normal((5, 4))).shape
    (5, 3)
    """

    def __init__(self, *layers: Callable[..., Any]) -> None:
        for layer in layers:
            if not callable(layer):
                raise TypeError(f"a layer is a module or a function, not {type(layer).__name__}")
        # The layers are fields named by their numbers.
        self.__dict__.update({str(i): layer for i, layer in enumerate(layers)})

    def __tree_fields__(self) -> tuple[str, ...]:
        return tuple(self.__dict__)

    @property
    def layers(self) -> tuple[Any, ...]:
        """The layers, the first first."""
        return tuple(self.__dict__.values())

    def __len__(self) -> int:
        return len(self.__dict__)

    def __getitem__(self, index: int) -> Any:
        return self.layers[index]

    def forward(self, x: Any, mode: Mode = INFERENCE) -> "tuple[Any, Sequential]":
        changed = {}
        for i, layer in enumerate(self.layers):
            if not isinstance(layer, Module):
                x = layer(x)
                continue
            x, new = layer.forward(x, mode.split(i))
            if new is not layer:
                changed[str(i)] = new
        return x, self.replace(**changed) if changed else self
