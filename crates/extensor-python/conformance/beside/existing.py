"""Operations that were there before: they prove the comparison itself."""

import torch
import torch.nn.functional as F

from .entry import Call, entry, ours, words
from .special import unary

AREA = "existing"


def old(name):
    return entry(name, area=AREA, new=False)


unary("exp", torch.exp, -3, 3, specials=[0], area=AREA, new=False)
unary("log", torch.log, 0.1, 4, specials=[1], area=AREA, new=False)
unary("tanh", torch.tanh, -3, 3, specials=[0], area=AREA, new=False)
unary("erf", torch.erf, -3, 3, specials=[0], area=AREA, new=False)
unary("relu", F.relu, -3, 3, kinks=[0], area=AREA, new=False)
unary("gelu", F.gelu, -4, 4, specials=[0], area=AREA, new=False)
unary("swish", F.silu, -5, 5, specials=[0], area=AREA, new=False)


@old("matmul")
def matmul(d):
    n, k, m = (d.whole(1, 4) for _ in range(3))
    k = 0 if d.chance(0.03) else k
    if d.chance(0.3):
        return Call([d.normal(*d.pick((k,), (n, k))), d.normal(*d.pick((k,), (k, m)))], ours("matmul"), torch.matmul)
    a, b = d.broadcast(2, 0, 2)
    return Call([d.normal(*a, n, k), d.normal(*b, k, m)], ours("matmul"), torch.matmul)


@old("multiply")
def multiply(d):
    a, b = d.broadcast(2)
    return Call([d.normal(*a), d.normal(*b)], ours("multiply"), torch.mul)


@old("divide")
def divide(d):
    a, b = d.broadcast(2)
    return Call([d.normal(*a), d.signed(0.3, 3, *b)], ours("divide"), torch.div)


@old("power")
def power(d):
    a, b = d.broadcast(2)
    return Call([d.uniform(0.2, 3, *a), d.uniform(-2, 3, *b)], ours("power"), torch.pow)


def reduction(name, theirs):
    @old(name)
    def draw(d):
        shape = d.shape(0, 3, empty=0.0)
        axis, keep = d.axes(len(shape)), d.chance(0.4)
        dim = tuple(range(len(shape))) if axis is None else tuple(axis)
        x = d.apart(*shape) if shape else d.normal()
        mine = lambda x: ours(name)(x, axis=axis, keepdims=keep)  # noqa: E731
        return Call(
            [x], mine, lambda x: theirs(x, dim, keepdim=keep) if dim else x.clone(), words(axis=axis, keepdims=keep)
        )


reduction("sum", torch.sum)
reduction("mean", torch.mean)
reduction("logsumexp", torch.logsumexp)
reduction("max_reduce", torch.amax)


@old("softmax")
def softmax(d):
    shape = d.shape(1, 4)
    axis = d.axis(len(shape))
    return Call([d.normal(*shape)], lambda x: ours("softmax")(x, axis), lambda x: F.softmax(x, axis), words(axis=axis))


@old("layer_norm")
def layer_norm(d):
    shape = d.shape(1, 3, empty=0.0)
    n = d.whole(2, 4)
    arrays = [d.apart(*shape, n, gap=0.5), d.normal(n), d.normal(n)][: d.pick(1, 3)]
    mine = lambda *xs: ours("layer_norm")(*xs, normalized_shape=[n])  # noqa: E731
    return Call(arrays, mine, lambda *xs: F.layer_norm(xs[0], [n], *xs[1:]))


@old("cumsum")
def cumsum(d):
    shape = d.shape(1, 3)
    axis = d.axis(len(shape))
    return Call(
        [d.normal(*shape)], lambda x: ours("cumsum")(x, axis), lambda x: torch.cumsum(x, axis), words(axis=axis)
    )


@old("sort")
def sort(d):
    shape = d.shape(1, 3)
    axis, down = d.axis(len(shape)), d.chance()
    mine = lambda x: ours("sort")(x, axis, down)  # noqa: E731
    return Call([d.apart(*shape)], mine, lambda x: torch.sort(x, axis, down)[0], words(axis=axis, descending=down))


@old("take")
def take(d):
    shape = d.shape(1, 3, empty=0.0)
    axis = d.axis(len(shape))
    index = d.whole_numbers(0, shape[axis] - 1, d.whole(1, 5))
    mine = lambda x, i: ours("take")(x, i, axis)  # noqa: E731
    return Call([d.normal(*shape), index], mine, lambda x, i: torch.index_select(x, axis, i), words(axis=axis))


@old("scaled_dot_product_attention")
def attention(d):
    n, heads, width = d.whole(1, 2), d.whole(1, 2), d.whole(1, 4)
    queries, keys = d.whole(1, 4), d.whole(1, 4)
    arrays = [d.normal(n, heads, queries, width), d.normal(n, heads, keys, width), d.normal(n, heads, keys, width)]
    if d.chance(0.3):
        arrays.append(d.mask(n, heads, queries, keys, p=0.7))
        arrays[3][..., 0] = True
    causal = len(arrays) == 3 and d.chance()
    call = ours("scaled_dot_product_attention")
    mine = lambda q, k, v, m=None: call(q, k, v, mask=m, causal=causal)  # noqa: E731
    theirs = lambda q, k, v, m=None: F.scaled_dot_product_attention(q, k, v, m, is_causal=causal)  # noqa: E731
    return Call(arrays, mine, theirs, words(causal=causal, masked=len(arrays) > 3))


def pair(name, theirs):
    @old(name)
    def draw(d):
        a, b = d.broadcast(2)
        return Call([d.signed(0.2, 3, *a), d.signed(0.2, 3, *b)], ours(name), theirs)


pair("atan2", torch.atan2)
pair("hypot", torch.hypot)
pair("logaddexp", torch.logaddexp)
pair("copysign", torch.copysign)


@old("cumprod")
def cumprod(d):
    shape = d.shape(1, 3)
    axis = d.axis(len(shape))
    call = ours("cumprod")
    return Call([d.signed(0.3, 2, *shape)], lambda x: call(x, axis), lambda x: torch.cumprod(x, axis), words(axis=axis))


@old("repeat")
def repeat(d):
    shape = d.shape(1, 3)
    axis = d.axis(len(shape))
    count = d.whole(1, 3) if d.chance() else [d.whole(0, 2) for _ in range(shape[axis])]
    theirs = lambda x: torch.repeat_interleave(x, torch.as_tensor(count, dtype=torch.int64), axis)  # noqa: E731
    call = ours("repeat")
    return Call([d.normal(*shape)], lambda x: call(x, count, axis), theirs, words(repeats=count, axis=axis))


@old("roll")
def roll(d):
    shape = d.shape(1, 3)
    axis = [int(a) for a in d.random.permutation(len(shape))[: d.whole(1, len(shape))]]
    shift = [d.whole(-4, 4) for _ in axis]
    call = ours("roll")
    mine = lambda x: call(x, shift, axis)  # noqa: E731
    return Call([d.normal(*shape)], mine, lambda x: torch.roll(x, shift, axis), words(shift=shift, axis=axis))


@old("norm")
def norm(d):
    shape = d.shape(1, 3, empty=0.0)
    axis, keep = d.axes(len(shape)), d.chance(0.3)
    call = ours("norm")
    mine = lambda x: call(x, axis=axis, keepdims=keep)  # noqa: E731
    dim = None if axis is None else tuple(axis)
    return Call([d.signed(0.2, 2, *shape)], mine, lambda x: torch.linalg.vector_norm(x, 2, dim, keep), words(axis=axis))
