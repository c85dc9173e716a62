"""Convolutions, pooling, and resampling of images and volumes."""

import numpy as np
import torch.nn.functional as F

from .entry import Call, entry, ours, with_indices, words

AREA = "windows"


def per_axis(d, rank, low, high):
    """One number for all axes, or one for each; of one axis it is a number."""
    return d.whole(low, high) if rank == 1 or d.chance(0.5) else [d.whole(low, high) for _ in range(rank)]


def alone(values):
    """The number itself, where there is one axis."""
    return values[0] if len(values) == 1 else values


def each(value, rank):
    return [value] * rank if isinstance(value, int) else list(value)


def convolution(name, theirs, rank, new=True):
    @entry(name, area=AREA, new=new)
    def draw(d):
        groups, top = d.pick(1, 1, 2, 3), (9, 6, 4)[rank - 1]
        stride, padding, dilation = per_axis(d, rank, 1, 3), per_axis(d, rank, 0, 2), per_axis(d, rank, 1, 2)
        kernel = [d.whole(1, 3) for _ in range(rank)]
        extent = [
            max(1, r * (k - 1) + 1 - 2 * p) + d.whole(0, top - 2)
            for k, p, r in zip(kernel, each(padding, rank), each(dilation, rank))
        ]
        channels, filters = groups * d.whole(1, 2), groups * d.whole(1, 2)
        x, w = d.normal(d.whole(1, 2), channels, *extent), d.normal(filters, channels // groups, *kernel)
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        call = ours(name)
        arrays = [x, w, d.normal(filters)][: d.whole(2, 3)]
        return Call(arrays, lambda *xs: call(*xs, **options), lambda *xs: theirs(*xs, **options), words(**options))


convolution("conv1d", F.conv1d, 1, new=False)
convolution("conv2d", F.conv2d, 2, new=False)
convolution("conv3d", F.conv3d, 3)


def transposed(name, theirs, rank, new=True):
    @entry(name, area=AREA, new=new)
    def draw(d):
        groups = d.pick(1, 1, 2)
        kernel, extent = ([d.whole(1, 3) for _ in range(rank)] for _ in range(2))
        stride, dilation = per_axis(d, rank, 1, 3), per_axis(d, rank, 1, 2)
        # What is cut off at the sides leaves something.
        sizes = [
            (n - 1) * s + r * (k - 1) + 1
            for n, s, r, k in zip(extent, each(stride, rank), each(dilation, rank), kernel)
        ]
        padding = [d.whole(0, min(2, (n - 1) // 2)) for n in sizes]
        more = [d.whole(0, max(s, r) - 1) for s, r in zip(each(stride, rank), each(dilation, rank))]
        padding, more = alone(padding), alone(more)
        options = {"stride": stride, "padding": padding, "output_padding": more, "groups": groups, "dilation": dilation}
        channels, filters = d.whole(1, 2), d.whole(1, 2)
        x = d.normal(d.whole(1, 2), groups * channels, *extent)
        w = d.normal(groups * channels, filters, *kernel)
        arrays = [x, w, d.normal(groups * filters)][: d.whole(2, 3)]
        call = ours(name)
        return Call(arrays, lambda *xs: call(*xs, **options), lambda *xs: theirs(*xs, **options), words(**options))


transposed("conv_transpose1d", F.conv_transpose1d, 1)
transposed("conv_transpose2d", F.conv_transpose2d, 2, new=False)
transposed("conv_transpose3d", F.conv_transpose3d, 3)


def pooling(d, rank, dilated):
    """Windows that fit, each with an element in it: their options and an extent."""
    while True:
        kernel = per_axis(d, rank, 1, 3)
        stride = per_axis(d, rank, 1, 3) if d.chance(0.7) else None
        padding = [d.whole(0, k // 2) for k in each(kernel, rank)]
        options = {"kernel_size": kernel, "stride": stride, "padding": alone(padding)}
        dilation = [1] * rank
        if dilated and d.chance(0.5):
            dilation = [d.whole(1, 2) for _ in range(rank)]
            options["dilation"] = alone(dilation)
        if d.chance(0.4):
            options["ceil_mode"] = True
        top = (6, 4, 3)[rank - 1]
        extent = [
            max(1 if dilated else k, r * (k - 1) + 1 - 2 * p) + d.whole(0, top)
            for k, p, r in zip(each(kernel, rank), padding, dilation)
        ]
        steps = each(kernel if stride is None else stride, rank)
        if all(map(inhabited, extent, each(kernel, rank), steps, padding, dilation)):
            return options, (d.whole(1, 2), d.whole(1, 2), *extent)


def inhabited(size, kernel, stride, padding, dilation):
    """Whether each window along an axis, a last one that ends behind it included, has an element in it."""
    starts = range(-padding, size + padding, stride)
    return all(any(0 <= at + dilation * j < size for j in range(kernel)) for at in starts if at < size)


def maximum(name, theirs, rank, new=True):
    @entry(name, area=AREA, new=new)
    def draw(d):
        options, shape = pooling(d, rank, True)
        call = ours(name)
        given = dict(options, stride=options["stride"])
        mine = lambda x: call(x, **given)  # noqa: E731
        return Call([d.apart(*shape)], mine, lambda x: theirs(x, **options), words(**options))


maximum("maxpool1d", F.max_pool1d, 1)
maximum("maxpool2d", F.max_pool2d, 2)
maximum("maxpool3d", F.max_pool3d, 3)


@entry("maxpool2d_ties", area=AREA)
def maxpool2d_ties(d):
    """Among equal numbers the first of a window, row by row, takes the gradient; linear around there for both."""
    options, shape = pooling(d, 2, True)
    x = d.whole_numbers(-1, 1, *shape) * 1.0
    call = ours("maxpool2d")
    return Call([x], lambda x: call(x, **options), lambda x: F.max_pool2d(x, **options), words(**options), order=1)


def maximum_and_place(name, theirs, rank):
    @entry(f"{name}_with_indices", name, area=AREA)
    def draw(d):
        options, shape = pooling(d, rank, True)
        call = with_indices(f"{name}_with_indices", name)
        mine = lambda x: call(x, **options)  # noqa: E731
        return Call([d.apart(*shape)], mine, lambda x: theirs(x, return_indices=True, **options), words(**options))


maximum_and_place("maxpool1d", F.max_pool1d, 1)
maximum_and_place("maxpool2d", F.max_pool2d, 2)
maximum_and_place("maxpool3d", F.max_pool3d, 3)


def average(name, theirs, rank, new=True):
    @entry(name, area=AREA, new=new)
    def draw(d):
        options, shape = pooling(d, rank, False)
        if d.chance(0.4):
            options["count_include_pad"] = False
        if rank > 1 and d.chance(0.2):
            options["divisor_override"] = d.whole(1, 5)
        call = ours(name)
        return Call([d.normal(*shape)], lambda x: call(x, **options), lambda x: theirs(x, **options), words(**options))


average("avgpool1d", F.avg_pool1d, 1)
average("avgpool2d", F.avg_pool2d, 2)
average("avgpool3d", F.avg_pool3d, 3)


def adaptive(name, theirs, rank, new=True):
    @entry(name, area=AREA, new=new)
    def draw(d):
        extent, sizes = ([d.whole(1, 6) for _ in range(rank)] for _ in range(2))
        x = d.apart(d.whole(1, 2), d.whole(1, 2), *extent)
        call = ours(name)
        size = sizes[0] if rank == 1 and d.chance() else sizes
        return Call([x], lambda x: call(x, output_size=size), lambda x: theirs(x, size), words(output_size=size))


adaptive("adaptive_avgpool2d", F.adaptive_avg_pool2d, 2, new=False)
adaptive("adaptive_avgpool1d", F.adaptive_avg_pool1d, 1)
adaptive("adaptive_avgpool3d", F.adaptive_avg_pool3d, 3)
adaptive("adaptive_maxpool1d", F.adaptive_max_pool1d, 1)
adaptive("adaptive_maxpool2d", F.adaptive_max_pool2d, 2)
adaptive("adaptive_maxpool3d", F.adaptive_max_pool3d, 3)


@entry("interpolate", area=AREA)
def interpolate(d):
    mode = d.pick("nearest", "nearest-exact", "linear", "bilinear", "bilinear", "bicubic", "bicubic", "trilinear")
    rank = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}.get(mode) or d.pick(1, 2, 2, 3)
    extent, size = ([d.whole(1, 5) for _ in range(rank)] for _ in range(2))
    align = None if mode.startswith("nearest") else d.chance()
    x = d.normal(d.whole(1, 2), d.whole(1, 2), *extent)
    call = ours("interpolate")
    given = {"scale_factor": float(d.whole(1, 3))} if d.chance(0.2) else {"size": size}
    mine = lambda x: call(x, mode=mode, align_corners=align or None, **given)  # noqa: E731
    theirs = lambda x: F.interpolate(x, mode=mode, align_corners=align, **given)  # noqa: E731
    return Call([x], mine, theirs, words(**given, mode=mode, align_corners=align))


@entry("grid_sample", area=AREA)
def grid_sample(d):
    mode, padding = d.pick("bilinear", "bilinear", "nearest", "bicubic"), d.pick("zeros", "border", "reflection")
    align = d.chance()
    extent = [d.whole(2, 4) for _ in range(2)]
    n, out = d.whole(1, 2), [d.whole(1, 3) for _ in range(2)]
    # Places between pixels, away from whole and half ones, where the function has its kinks; some outside.
    places = [
        d.whole_numbers(-2, size, n, *out) + d.pick(0, 0.5) + d.uniform(0.08, 0.42, n, *out)
        for size in reversed(extent)
    ]
    scaled = [2 * p / (size - 1) - 1 if align else (2 * p + 1) / size - 1 for p, size in zip(places, reversed(extent))]
    x, grid = d.normal(n, d.whole(1, 2), *extent), np.stack(scaled, -1)
    options = {"mode": mode, "padding_mode": padding, "align_corners": align}
    call = ours("grid_sample")
    mine = lambda x, g: call(x, g, **options)  # noqa: E731
    theirs = lambda x, g: F.grid_sample(x, g, **options)  # noqa: E731
    return Call([x, grid], mine, theirs, words(**options), single=False)


@entry("unfold", area=AREA)
def unfold(d):
    kernel, dilation, padding, stride = (
        [d.whole(1, 2) for _ in range(2)],
        per_axis(d, 2, 1, 2),
        per_axis(d, 2, 0, 2),
        per_axis(d, 2, 1, 2),
    )
    extent = [
        max(1, r * (k - 1) + 1 - 2 * p) + d.whole(0, 3) for k, r, p in zip(kernel, each(dilation, 2), each(padding, 2))
    ]
    options = {"kernel_size": kernel, "dilation": dilation, "padding": padding, "stride": stride}
    x, call = d.normal(d.whole(1, 2), d.whole(1, 3), *extent), ours("unfold")
    return Call([x], lambda x: call(x, **options), lambda x: F.unfold(x, **options), words(**options))


@entry("fold", area=AREA)
def fold(d):
    kernel, dilation, padding, stride = (
        [d.whole(1, 2) for _ in range(2)],
        per_axis(d, 2, 1, 2),
        per_axis(d, 2, 0, 1),
        per_axis(d, 2, 1, 2),
    )
    extent = [
        max(1, r * (k - 1) + 1 - 2 * p) + d.whole(0, 3) for k, r, p in zip(kernel, each(dilation, 2), each(padding, 2))
    ]
    blocks = 1
    for n, k, r, p, s in zip(extent, kernel, each(dilation, 2), each(padding, 2), each(stride, 2)):
        blocks *= (n + 2 * p - r * (k - 1) - 1) // s + 1
    options = {"output_size": extent, "kernel_size": kernel, "dilation": dilation, "padding": padding, "stride": stride}
    x = d.normal(d.whole(1, 2), d.whole(1, 2) * kernel[0] * kernel[1], blocks)
    call = ours("fold")
    return Call([x], lambda x: call(x, **options), lambda x: F.fold(x, **options), words(**options))


@entry("pixel_shuffle", area=AREA)
def pixel_shuffle(d):
    r = d.whole(1, 3)
    x, call = (
        d.normal(*d.shape(0, 2, 2, empty=0.0), d.whole(1, 2) * r * r, d.whole(1, 3), d.whole(1, 3)),
        ours("pixel_shuffle"),
    )
    return Call([x], lambda x: call(x, r), lambda x: F.pixel_shuffle(x, r), words(upscale_factor=r))


@entry("pixel_unshuffle", area=AREA)
def pixel_unshuffle(d):
    r = d.whole(1, 3)
    x = d.normal(*d.shape(0, 2, 2, empty=0.0), d.whole(1, 2), d.whole(1, 3) * r, d.whole(1, 3) * r)
    call = ours("pixel_unshuffle")
    return Call([x], lambda x: call(x, r), lambda x: F.pixel_unshuffle(x, r), words(downscale_factor=r))


@entry("pad", area=AREA)
def pad(d):
    mode = d.pick("constant", "reflect", "reflect", "replicate", "circular")
    rank = d.whole(1, 2)
    extent = [d.whole(2, 4) for _ in range(rank)]
    most = {"constant": lambda n: 3, "replicate": lambda n: 3, "reflect": lambda n: n - 1, "circular": lambda n: n}[
        mode
    ]
    pairs = [(d.whole(0, most(n)), d.whole(0, most(n))) for n in extent]
    x = d.normal(d.whole(1, 2), d.whole(1, 2), *extent)
    flat = [n for pair in reversed(pairs) for n in pair]
    value = d.number(-2, 2) if mode == "constant" else None
    call = ours("pad")
    mine = lambda x: call(x, [(0, 0), (0, 0), *pairs], value=value, mode=mode if value is None else None)  # noqa: E731
    more = {} if value is None else {"value": value}
    return Call([x], mine, lambda x: F.pad(x, flat, mode=mode, **more), words(pads=pairs, mode=mode, value=value))
