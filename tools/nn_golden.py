"""Writes what PyTorch's layers and models give for known weights: crates/extensor/tests/nn/golden.json.

    python3 tools/nn_golden.py crates/extensor/tests/nn/golden.json

Weights and inputs are not stored: both sides make them with the same whole-number formula (`fill`), leaf by
leaf in the order of `state_dict()`, so the file holds names, shapes and results alone.
"""

import json
import sys

import torch
from torch import nn
from torch.nn import functional as F

torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)


def fill(seed, shape):
    """Numbers from -0.5 to 0.5 that depend on the seed and on their position."""
    count = 1
    for size in shape:
        count *= size
    values = []
    for i in range(count):
        x = ((i + 1) * 2654435761 + (seed + 1) * 2246822519) % 2**32
        x ^= x >> 15
        x = x * 3266489917 % 2**32
        x ^= x >> 13
        values.append(x / 2**32 - 0.5)
    return torch.tensor(values).reshape(shape)


def inputs(seed, *shape):
    return 2 * fill(1000 + seed, shape)


def tokens(seed, high, *shape):
    return ((fill(1000 + seed, shape) + 0.5) * high).floor().long()


def filled(module):
    state = module.state_dict()
    for index, (name, x) in enumerate(state.items()):
        if not x.is_floating_point():
            continue
        values = fill(index, x.shape)
        if x.dim() >= 2:
            values = 2 * values / x[0].numel() ** 0.5
        elif name.endswith(("weight", "running_var")):
            values = 1 + values
        x.copy_(values)
    return module.eval()


cases = {}


def stored(x):
    return {"shape": list(x.shape), "data": [float(f"{v:.12g}") for v in x.flatten().tolist()]}


def case(name, module, *args, call=None, sample=None):
    module = filled(module)
    y = call(module) if call else module(*args)
    cases[name] = {"names": list(module.state_dict()), "output": stored(y)}


case("linear", nn.Linear(4, 3), inputs(0, 2, 5, 4))
case("linear without bias", nn.Linear(4, 3, bias=False), inputs(0, 5, 4))
case("embedding", nn.Embedding(7, 3), tokens(0, 7, 2, 4))
case("conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), inputs(0, 2, 4, 11))
case("conv2d", nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2, bias=False), inputs(0, 2, 4, 7, 6))
case("conv2d with bias", nn.Conv2d(3, 2, 3), inputs(0, 2, 3, 5, 5))
case(
    "conv_transpose2d",
    nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
    inputs(0, 2, 4, 3, 4),
)
case("layer_norm", nn.LayerNorm([3, 4]), inputs(0, 2, 3, 4))
case("rms_norm", nn.RMSNorm([4], eps=1e-6), inputs(0, 2, 3, 4))
case("group_norm", nn.GroupNorm(2, 6), inputs(0, 2, 6, 3, 3))
case("max_pool2d", nn.MaxPool2d(3, stride=2, padding=1), inputs(0, 2, 3, 7, 7))
case("avg_pool2d", nn.AvgPool2d(3, stride=2, padding=1), inputs(0, 2, 3, 7, 7))
case("adaptive_avg_pool", nn.AdaptiveAvgPool2d((2, 3)), inputs(0, 2, 3, 7, 7))
case("global_avg_pool", nn.AdaptiveAvgPool2d(1), inputs(0, 2, 3, 7, 7))

activations = [
    nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(0.1), nn.ELU(0.7), nn.SELU(), nn.GELU(), nn.GELU(approximate="tanh"), nn.SiLU(),
    nn.Mish(), nn.Hardswish(), nn.Sigmoid(), nn.Hardsigmoid(), nn.LogSigmoid(), nn.Tanh(), nn.Softplus(), nn.Softsign(),
    nn.Softmax(1), nn.LogSoftmax(1),
]
x = 8 * inputs(0, 3, 5)
cases["activations"] = {"names": [], "output": stored(torch.stack([f(x) for f in activations]))}

q, kv = inputs(0, 2, 5, 8), inputs(1, 2, 7, 8)
case("self attention", nn.MultiheadAttention(8, 2, batch_first=True), call=lambda m: m(q, q, q, need_weights=False)[0])
hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
case(
    "causal attention",
    nn.MultiheadAttention(8, 2, batch_first=True),
    call=lambda m: m(q, q, q, attn_mask=hidden, need_weights=False)[0],
)
far = (torch.arange(5)[:, None] - torch.arange(7)[None, :]).abs() > 2
case(
    "cross attention",
    nn.MultiheadAttention(8, 2, batch_first=True),
    call=lambda m: m(q, kv, 0.5 * kv, attn_mask=far, need_weights=False)[0],
)

# Batch normalisation: three steps of training, the running statistics after each, then inference.
norm = filled(nn.BatchNorm2d(3, momentum=0.2)).train()
steps = []
for step in range(3):
    y = norm(inputs(step, 4, 3, 2, 3) * (step + 1))
    state = {name: stored(x) for name, x in norm.state_dict().items()}
    steps.append({"output": stored(y), "state": state})
cases["batch_norm2d"] = {
    "names": list(norm.state_dict()),
    "steps": steps,
    "output": stored(norm.eval()(inputs(3, 4, 3, 2, 3))),
}

sequential = nn.Sequential(
    nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2),
    nn.Sequential(nn.Dropout(0.5), nn.Flatten()), nn.Linear(27, 4),
)
case("sequential", sequential, inputs(0, 2, 1, 6, 6))


class Mlp(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        x = x.flatten(1)
        for i, layer in enumerate(self.layers):
            x = layer(F.relu(x) if i else x)
        return x


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, channels, classes, blocks, widths):
        super().__init__()
        a, b, c = widths
        self.conv1, self.bn1 = nn.Conv2d(channels, a, 3, 1, 1, bias=False), nn.BatchNorm2d(a)
        stage = lambda i, o, s: nn.Sequential(*[BasicBlock(o if n else i, o, 1 if n else s) for n in range(blocks)])
        self.layer1, self.layer2, self.layer3 = stage(a, a, 1), stage(a, b, 2), stage(b, c, 2)
        self.fc = nn.Linear(c, classes)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        return self.fc(x.mean((2, 3)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        y = self.norm1(x)
        x = x + self.attention(y, y, y, attn_mask=hidden, need_weights=False)[0]
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary, context, layers, heads, width):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        x = self.tokens(x) + self.positions(torch.arange(x.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


case("mlp", Mlp(12, 7, 5, 3), inputs(0, 2, 3, 4))
case("lenet5", LeNet5(), inputs(0, 2, 1, 28, 28))
case("resnet", ResNet(3, 4, 2, (4, 6, 8)), inputs(0, 2, 3, 9, 8))
case("gpt", Gpt(11, 8, 2, 2, 8), tokens(0, 11, 2, 6))

with open(sys.argv[1], "w") as file:
    file.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in cases.items()) + "\n}\n")
