"""How parameters begin: random tensors, from explicit keys, whose spread fits the layer.

The functions are the Rust library's, and so are the numbers. A shape is read as PyTorch reads it:
`[out, in, kernel…]`.
"""

import math

from .._core import (
    init_by_fan_in as by_fan_in,
    init_fans as fans,
    init_kaiming_normal as kaiming_normal,
    init_kaiming_uniform as kaiming_uniform,
    init_normal as normal,
    init_orthogonal as orthogonal,
    init_truncated_normal as truncated_normal,
    init_xavier_normal as xavier_normal,
    init_xavier_uniform as xavier_uniform,
)

__all__ = [
    "by_fan_in", "fans", "gain", "kaiming_normal", "kaiming_uniform", "normal", "orthogonal",
    "truncated_normal", "xavier_normal", "xavier_uniform",
]


def gain(nonlinearity: str, slope: float = 0.01) -> float:
    """By how much a layer's weights must be larger for what follows it: "linear", "sigmoid",
    "tanh", "relu", "leaky_relu" (with its slope below 0) or "selu". The factors are PyTorch's.

    >>> from extensor import nn
    >>> nn.init.gain("relu") ** 2
    2.0000000000000004
    """
    known = {
        "linear": 1.0,
        "sigmoid": 1.0,
        "tanh": 5.0 / 3.0,
        "relu": math.sqrt(2.0),
        "leaky_relu": math.sqrt(2.0 / (1.0 + slope * slope)),
        "selu": 0.75,
    }
    if nonlinearity not in known:
        raise ValueError(f"gain: {nonlinearity!r} is none of {', '.join(known)}")
    return known[nonlinearity]
