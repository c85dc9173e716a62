"""Models ready to use, with the same bits for the same key as the Rust library's.

They are made of layers and operations and know nothing of data or of training.
"""

import math
from collections.abc import Sequence

from .. import _core, ops
from .._core import Key, Tensor
from . import init
from ._layers import Conv2d, Dropout, Embedding, Linear, MultiHeadAttention
from ._module import INFERENCE, Mode, Module, static
from ._norm import BatchNorm2d, LayerNorm

__all__ = ["BasicBlock", "Block", "Gpt", "LeNet5", "Mlp", "ResNet"]


class Mlp(Module):
    """A multilayer perceptron: linear layers with a ReLU between any two.

    Its input is `[batch, …]`, whatever follows the first axis being read as one list of numbers.

    >>> import extensor as ex
    >>> from extensor.nn.models import Mlp
    >>> Mlp(ex.Key(1), [784, 32, 10])(ex.Key(2).normal((2, 1, 28, 28))).shape
    (2, 10)
    """

    layers: list[Linear]

    def __init__(self, key: Key, sizes: Sequence[int]) -> None:
        if len(sizes) < 2:
            raise ValueError(f"mlp: sizes is {list(sizes)}, expected at least two numbers")
        pairs = enumerate(zip(sizes, sizes[1:]))
        self.layers = [Linear(key.fold_in(i), a, b) for i, (a, b) in pairs]

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        if len(x.shape) > 2:
            x = ops.flatten(x, 1, -1)
        for i, layer in enumerate(self.layers):
            x = layer(ops.relu(x) if i else x)
        return x


class LeNet5(Module):
    """LeNet-5: two convolutions of 5×5 with 6 and 16 filters, the first padded by 2, each followed
    by a ReLU and the maxima of 2×2 windows; then linear layers of 120, 84 and 10 outputs."""

    conv1: Conv2d
    conv2: Conv2d
    fc1: Linear
    fc2: Linear
    fc3: Linear

    def __init__(self, key: Key, image: Sequence[int] = (1, 28, 28), classes: int = 10) -> None:
        channels, height, width = image
        seen = 16 * _left(height) * _left(width)
        if seen == 0:
            raise ValueError(
                f"lenet5: image is {list(image)}, "
                "expected [channels, height, width] with at least 12 rows and columns"
            )
        a, b, c, d, e = key.split(5)
        self.conv1 = Conv2d(a, channels, 6, 5, padding=2)
        self.conv2 = Conv2d(b, 6, 16, 5)
        self.fc1 = Linear(c, seen, 120)
        self.fc2 = Linear(d, 120, 84)
        self.fc3 = Linear(e, 84, classes)

    def __call__(self, x: Tensor, mode: Mode = INFERENCE) -> Tensor:
        x = ops.maxpool2d(ops.relu(self.conv1(x)), 2)
        x = ops.maxpool2d(ops.relu(self.conv2(x)), 2)
        x = ops.relu(self.fc1(ops.flatten(x, 1, -1)))
        return self.fc3(ops.relu(self.fc2(x)))


def _left(size: int) -> int:
    """What two convolutions and two poolings of a `LeNet5` leave of so many rows."""
    return max(size // 2 - 4, 0) // 2


def _conv(key: Key, inputs: int, outputs: int, kernel: int, stride: int) -> Conv2d:
    """A convolution without bias that begins with Kaiming's normal distribution by outputs."""
    layer = Conv2d(key, inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)
    shape = (outputs, inputs, kernel, kernel)
    return layer.replace(weight=init.kaiming_normal(key, shape, "out"))


class BasicBlock(Module):
    """Two convolutions of 3×3, each normalised, whose result is added to their input (as it is, or
    brought to its shape by a convolution of 1×1), with a ReLU after the first and after the sum."""

    conv1: Conv2d
    bn1: BatchNorm2d
    conv2: Conv2d
    bn2: BatchNorm2d
    downsample: tuple[Conv2d, BatchNorm2d] | None

    def __init__(self, key: Key, inputs: int, outputs: int, stride: int = 1) -> None:
        a, b, c = key.split(3)
        self.conv1, self.bn1 = _conv(a, inputs, outputs, 3, stride), BatchNorm2d(outputs)
        self.conv2, self.bn2 = _conv(b, outputs, outputs, 3, 1), BatchNorm2d(outputs)
        brought = None
        if inputs != outputs or stride != 1:
            brought = (_conv(c, inputs, outputs, 1, stride), BatchNorm2d(outputs))
        self.downsample = brought

    def forward(self, x: Tensor, mode: Mode = INFERENCE) -> "tuple[Tensor, BasicBlock]":
        y, bn1 = self.bn1.forward(self.conv1(x), mode)
        y, bn2 = self.bn2.forward(self.conv2(ops.relu(y)), mode)
        downsample = self.downsample
        if downsample is not None:
            conv, norm = downsample
            x, norm = norm.forward(conv(x), mode)
            downsample = (conv, norm)
        y = ops.relu(ops.add(y, x))
        if not mode.training:
            return y, self
        return y, self.replace(bn1=bn1, bn2=bn2, downsample=downsample)


class ResNet(Module):
    """A residual network for small images (He et al., for CIFAR): a convolution of 3×3, three
    stages of basic blocks, of which the second and third begin by halving the image, the average of
    each plane, and a linear layer. With 1, 2 or 3 blocks in a stage it is called ResNet-8,
    ResNet-14 or ResNet-20.

    >>> import extensor as ex
    >>> from extensor import nn
    >>> a, b, c = ex.Key(1).split(3)
    >>> model = nn.models.ResNet(a, 3, 10, 1, widths=(4, 8, 16))
    >>> logits, model = model.forward(b.normal((2, 3, 8, 8)), nn.Training(c))
    >>> logits.shape, int(model.bn1.num_batches_tracked)
    ((2, 10), 1)
    """

    conv1: Conv2d
    bn1: BatchNorm2d
    layer1: list[BasicBlock]
    layer2: list[BasicBlock]
    layer3: list[BasicBlock]
    fc: Linear

    def __init__(
        self, key: Key, channels: int, classes: int, blocks: int, widths: Sequence[int] = (16, 32, 64)
    ) -> None:
        if blocks < 1:
            raise ValueError(f"resnet: blocks is {blocks}, expected at least 1")
        a, b, c, d, e = key.split(5)

        def stage(key: Key, inputs: int, outputs: int, stride: int) -> list[BasicBlock]:
            first = BasicBlock(key.fold_in(0), inputs, outputs, stride)
            more = [BasicBlock(key.fold_in(i), outputs, outputs, 1) for i in range(1, blocks)]
            return [first, *more]

        one, two, three = widths
        self.conv1, self.bn1 = _conv(a, channels, one, 3, 1), BatchNorm2d(one)
        self.layer1, self.layer2 = stage(b, one, one, 1), stage(c, one, two, 2)
        self.layer3, self.fc = stage(d, two, three, 2), Linear(e, three, classes)

    def forward(self, x: Tensor, mode: Mode = INFERENCE) -> "tuple[Tensor, ResNet]":
        x, bn1 = self.bn1.forward(self.conv1(x), mode)
        x = ops.relu(x)
        changed: dict[str, object] = {"bn1": bn1}
        for name in ("layer1", "layer2", "layer3"):
            blocks = []
            for block in getattr(self, name):
                x, block = block.forward(x, mode)
                blocks.append(block)
            changed[name] = blocks
        logits = self.fc(ops.flatten(ops.global_avgpool2d(x), 1, -1))
        return logits, self.replace(**changed) if mode.training else self


def _linear(key: Key, inputs: int, outputs: int, std: float) -> Linear:
    """A layer that begins as GPT-2's."""
    weight = init.normal(key, (outputs, inputs), 0.0, std)
    bias = _core.full((outputs,), 0.0, dtype=_core.float32)
    return Linear.of(weight=weight, bias=bias)


class Block(Module):
    """One block of a `Gpt`: `x + attention(norm1(x))`, and to that `fc2(gelu(fc1(norm2(x))))`."""

    norm1: LayerNorm
    attention: MultiHeadAttention
    norm2: LayerNorm
    fc1: Linear
    fc2: Linear

    def __init__(self, key: Key, width: int, heads: int, layers: int) -> None:
        added = 0.02 / math.sqrt(2.0 * layers)
        a, b, c, d = key.split(4)
        self.norm1, self.norm2 = LayerNorm(width), LayerNorm(width)
        self.attention = MultiHeadAttention(a, width, heads).replace(
            in_proj_weight=init.normal(a, (3 * width, width), 0.0, 0.02),
            out_proj=_linear(b, width, width, added),
        )
        self.fc1 = _linear(c, width, 4 * width, 0.02)
        self.fc2 = _linear(d, 4 * width, width, added)

    def __call__(
        self, x: Tensor, mode: Mode = INFERENCE, dropout: Dropout = Dropout(0.0)
    ) -> Tensor:
        seen = self.attention(self.norm1(x), causal=True)
        x = ops.add(x, dropout(seen, mode.split(0)))
        wide = ops.gelu(self.fc1(self.norm2(x)))
        return ops.add(x, dropout(self.fc2(wide), mode.split(1)))


class Gpt(Module):
    """A generative transformer: for each of a row of tokens, how likely each token is to come next.

    Its input is `[batch, length]` of a whole-number dtype, its result `[batch, length,
    vocabulary]`; `nn.class_loss` takes both. It begins as GPT-2.

    >>> import extensor as ex
    >>> from extensor.nn.models import Gpt
    >>> model = Gpt(ex.Key(1), vocabulary=7, context=8, layers=1, heads=2, width=8)
    >>> model(ex.asarray([[1, 2, 3], [4, 5, 6]])).shape
    (2, 3, 7)
    """

    tokens: Embedding
    positions: Embedding
    blocks: list[Block]
    norm: LayerNorm
    head: Linear
    context: int = static()
    dropout: float = static()

    def __init__(
        self, key: Key, vocabulary: int = 65, context: int = 64, layers: int = 4, heads: int = 4,
        width: int = 128, dropout: float = 0.0,
    ) -> None:  # fmt: skip
        for name, size in (("vocabulary", vocabulary), ("context", context)):
            if size < 1:
                raise ValueError(f"gpt: {name} is {size}, expected at least 1")
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"gpt: dropout is {dropout}, expected a number from 0 up to 1")
        a, b, c, d = key.split(4)

        def table(key: Key, rows: int) -> Tensor:
            return init.normal(key, (rows, width), 0.0, 0.02)

        self.tokens = Embedding.of(weight=table(a, vocabulary), padding_idx=None)
        self.positions = Embedding.of(weight=table(b, context), padding_idx=None)
        self.blocks = [Block(c.fold_in(i), width, heads, layers) for i in range(layers)]
        self.norm = LayerNorm(width)
        self.head = Linear.of(weight=table(d, vocabulary), bias=None)
        self.context, self.dropout = context, dropout

    def __call__(self, tokens: Tensor, mode: Mode = INFERENCE) -> Tensor:
        return self.head(self._vectors(tokens, mode))

    def _vectors(self, tokens: Tensor, mode: Mode) -> Tensor:
        """The last vector of each token, `[batch, length, width]`: what the head is given."""
        if len(tokens.shape) != 2 or tokens.shape[1] > self.context:
            raise ValueError(
                f"gpt: tokens has shape {list(tokens.shape)}, "
                f"expected [batch, at most {self.context} tokens]"
            )
        dropout = Dropout(self.dropout)
        positions = ops.slice(self.positions.weight, 0, 0, tokens.shape[1])
        x = dropout(ops.add(self.tokens(tokens), positions), mode.split(0))
        for i, block in enumerate(self.blocks, 1):
            x = block(x, mode.split(i), dropout)
        return self.norm(x)

    def generate(
        self, prompt: Sequence[int], count: int, key: Key, temperature: float = 1.0,
        top_k: int | None = None,
    ) -> list[int]:  # fmt: skip
        """`count` tokens that continue `prompt`, each drawn from the model's distribution given
        those before it, as many as the context holds.

        Logits are divided by `temperature`; at 0 the most likely token is taken. With `top_k` only
        so many of the most likely tokens are drawn from. An empty prompt is an error.

        >>> import extensor as ex
        >>> from extensor.nn.models import Gpt
        >>> model = Gpt(ex.Key(1), vocabulary=5, layers=1, width=8)
        >>> len(model.generate([0], 10, ex.Key(2), temperature=0.8, top_k=3))
        10
        """
        if len(prompt) == 0:
            raise ValueError("generate: prompt is none, expected at least one token")
        if not (math.isfinite(temperature) and temperature >= 0):
            raise ValueError(
                f"generate: temperature is {temperature}, "
                "expected a finite number that is not negative"
            )
        if top_k is not None and top_k < 1:
            raise ValueError(f"generate: top_k is {top_k}, expected at least 1")
        tokens = [int(token) for token in prompt]
        for step in range(count):
            recent = _core.asarray([tokens[-self.context :]])
            last = ops.slice(self._vectors(recent, INFERENCE), 1, -1)
            logits = ops.flatten(ops.cast(self.head(last), _core.float64)).tolist()
            tokens.append(_draw(logits, temperature, top_k, key.fold_in(step)))
        return tokens[len(prompt) :]


def _draw(logits: list[float], temperature: float, top_k: int | None, key: Key) -> int:
    """A token drawn from the distribution that finite logits give."""
    for logit in logits:
        if not math.isfinite(logit):
            raise ValueError(f"generate: a logit is {logit}, expected a finite number")
    order = sorted(range(len(logits)), key=lambda i: -logits[i])[:top_k]
    most = logits[order[0]]
    if temperature == 0:
        return order[0]
    weights = [math.exp((logits[i] - most) / temperature) for i in order]
    left = float(key.uniform((), dtype=_core.float64)) * sum(weights)
    for token, weight in zip(order, weights):
        left -= weight
        if left < 0:
            return token
    return order[0]
