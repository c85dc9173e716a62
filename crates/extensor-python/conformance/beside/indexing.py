"""Reading and writing at indices, sorting and choosing, statistics."""

import numpy as np
import torch

from .entry import Call, entry, ours, with_indices, words

AREA = "indexing"


def line(d, low=1, high=3, most=5):
    """A shape without empty axes, and one of its axes."""
    shape = list(d.shape(low, high, 4, empty=0.0))
    axis = d.axis(len(shape))
    shape[axis] = d.whole(1, most)
    return shape, axis


@entry("scatter", area=AREA)
def scatter(d):
    shape, axis = line(d)
    index = d.places(shape, axis, d.whole(1, shape[axis]))
    arrays = [d.normal(*shape), index, d.normal(*index.shape)]
    call = ours("scatter")
    mine = lambda x, i, s: call(x, i, s, axis=axis)  # noqa: E731
    return Call(arrays, mine, lambda x, i, s: torch.scatter(x, axis, i, s), words(axis=axis))


@entry("scatter_reduce", "scatter", area=AREA)
def scatter_reduce(d):
    shape, axis = line(d)
    how, itself = d.pick("sum", "prod", "mean", "amax", "amin"), d.chance(0.7)
    index = d.places(shape, axis, d.whole(1, shape[axis] + 1), repeated=True)
    count = int(np.prod(shape))
    numbers = d.apart(count + index.size, gap=0.13)
    arrays = [numbers[:count].reshape(shape), index, numbers[count:].reshape(index.shape)]
    call = ours("scatter_reduce", "scatter")
    mine = lambda x, i, s: call(x, i, s, axis=axis, reduce=how, include_self=False if not itself else None)  # noqa: E731
    theirs = lambda x, i, s: torch.scatter_reduce(x, axis, i, s, how, include_self=itself)  # noqa: E731
    return Call(
        arrays,
        mine,
        theirs,
        words(axis=axis, reduce=how, include_self=itself),
        differences=how in ("prod", "mean", "amax", "amin"),
    )


@entry("scatter_add", area=AREA, new=False)
def scatter_add(d):
    shape, axis = line(d)
    index = d.places(shape, axis, d.whole(1, 5), repeated=True)
    arrays = [d.normal(*shape), index, d.normal(*index.shape)]
    call = ours("scatter_add")
    mine = lambda x, i, s: call(x, i, s, axis=axis)  # noqa: E731
    return Call(arrays, mine, lambda x, i, s: torch.scatter_add(x, axis, i, s), words(axis=axis))


@entry("index_put", area=AREA)
def index_put(d):
    shape = d.shape(1, 3, 4, empty=0.0)
    count = d.whole(1, len(shape))
    add = d.chance()
    extent = d.shape(1, 2, 3, empty=0.0)
    if add:
        indices = [d.whole_numbers(0, n - 1, *extent) for n in shape[:count]]
    else:
        # Each place once: which of several wins is nobody's promise.
        places = d.distinct(int(np.prod(shape[:count])), d.whole(1, int(np.prod(shape[:count]))))
        indices = [np.asarray(i, np.int64) for i in np.unravel_index(places, shape[:count])]
        extent = (len(places),)
    values = d.normal(*d.pick((*extent, *shape[count:]), shape[count:]))
    call = ours("index_put")

    def mine(x, v, *indices):
        return call(x, list(indices), v, reduce="sum" if add else None)

    theirs = lambda x, v, *indices: torch.index_put(x, indices, v, accumulate=add)  # noqa: E731
    return Call([d.normal(*shape), values, *indices], mine, theirs, words(accumulate=add), mapped=False)


@entry("masked_fill", area=AREA)
def masked_fill(d):
    shape, cut = d.broadcast(2)
    value = d.pick(0.0, d.number(-5, 5), float("-inf"))
    call = ours("masked_fill")
    theirs = lambda x, m: torch.masked_fill(*torch.broadcast_tensors(x, m), value)  # noqa: E731
    return Call([d.normal(*shape), d.mask(*cut)], lambda x, m: call(x, m, value), theirs, words(value=value))


@entry("masked_select", area=AREA)
def masked_select(d):
    shape, cut = d.broadcast(2)
    return Call([d.normal(*shape), d.mask(*cut)], ours("masked_select"), torch.masked_select, mapped=False)


@entry("masked_scatter", area=AREA)
def masked_scatter(d):
    shape = d.shape()
    cut = d.pick(shape, shape[d.whole(0, len(shape)) :])
    size = int(np.prod(shape))
    arrays = [d.normal(*shape), d.mask(*cut), d.normal(size + d.whole(0, 3))]
    return Call(arrays, ours("masked_scatter"), torch.masked_scatter, mapped=False)


@entry("take_along_axis", area=AREA)
def take_along_axis(d):
    shape, axis = line(d)
    index = d.places(shape, axis, d.whole(1, 5), repeated=True)
    x = d.normal(*shape)
    if d.chance(0.3):
        other = d.whole(0, len(shape) - 1)
        if other != axis % len(shape):
            index = index.take([0], other)
    call = ours("take_along_axis")
    mine = lambda x, i: call(x, i, axis=axis)  # noqa: E731
    return Call([x, index], mine, lambda x, i: torch.take_along_dim(x, i, axis), words(axis=axis))


@entry("put_along_axis", area=AREA)
def put_along_axis(d):
    shape, axis = line(d)
    index = d.places(shape, axis, d.whole(1, shape[axis]))
    arrays = [d.normal(*shape), index, d.normal(*index.shape)]
    call = ours("put_along_axis", "scatter")
    mine = lambda x, i, s: call(x, i, s, axis=axis)  # noqa: E731
    return Call(arrays, mine, lambda x, i, s: torch.scatter(x, axis, i, s), words(axis=axis))


@entry("topk", area=AREA)
def topk(d):
    shape, axis = line(d)
    k, largest = d.whole(0 if d.chance(0.1) else 1, shape[axis]), d.chance(0.7)
    call = with_indices("topk")
    mine = lambda x: call(x, k, axis=axis, largest=False if not largest else None)  # noqa: E731
    return Call(
        [d.apart(*shape)],
        mine,
        lambda x: tuple(torch.topk(x, k, axis, largest)),
        words(k=k, axis=axis, largest=largest),
    )


@entry("kthvalue", area=AREA)
def kthvalue(d):
    shape, axis = line(d)
    k, keep = d.whole(1, shape[axis]), d.chance(0.3)
    call = with_indices("kthvalue")
    mine = lambda x: call(x, k, axis=axis, keepdims=keep or None)  # noqa: E731
    return Call(
        [d.apart(*shape)], mine, lambda x: tuple(torch.kthvalue(x, k, axis, keep)), words(k=k, axis=axis, keepdims=keep)
    )


def first(found):
    """The values, where indices come beside them."""
    return found[0] if isinstance(found, tuple) else found


@entry("median", area=AREA)
def median(d):
    """Of an even number of elements the mean of the two in the middle: what PyTorch calls quantile(0.5)."""
    shape, axis = line(d)
    keep = d.chance(0.3)
    call = ours("median")
    mine = lambda x: first(call(x, axis=axis, keepdims=keep or None))  # noqa: E731

    def theirs(x):
        if shape[axis] % 2:
            return torch.median(x, axis, keep)[0]
        return torch.quantile(x, 0.5, axis, keep, interpolation="midpoint")

    return Call([d.apart(*shape)], mine, theirs, words(axis=axis, keepdims=keep))


@entry("quantile", area=AREA)
def quantile(d):
    shape, axis = line(d)
    axis = d.pick(axis, axis, None)
    count = int(np.prod(shape)) if axis is None else shape[axis]
    keep, how = d.chance(0.3), d.pick("linear", "linear", "lower", "higher", "midpoint", "nearest")
    q = d.pick(0.5, 0.0, 1.0, d.number(0, 1)) if how == "linear" else d.number(0, 1)
    if how != "linear" and abs((q * (count - 1) * 2) % 1 - 0.5) > 0.45:
        q = (0.3 + 0.0) if count == 1 else (int(q * (count - 1)) % max(count - 1, 1) + 0.3) / (count - 1)
    call = ours("quantile")
    mine = lambda x: call(x, q, axis=axis, keepdims=keep or None, interpolation=how if how != "linear" else None)  # noqa: E731
    theirs = lambda x: torch.quantile(x, q, axis, keep, interpolation=how)  # noqa: E731
    return Call([d.apart(*shape)], mine, theirs, words(q=q, axis=axis, keepdims=keep, interpolation=how))


def nan_quantile(name, theirs):
    @entry(name, area=AREA)
    def draw(d):
        shape, axis = line(d)
        q = 0.5 if name == "nanmedian" else d.number(0, 1)
        whole = d.apart(*shape)
        x = d.among(whole, [np.nan], 0.3)
        x = np.where(np.isnan(x).all(axis, keepdims=True), whole, x)
        call = ours(name)
        mine = lambda x: call(x, axis=axis) if name == "nanmedian" else call(x, q, axis=axis)  # noqa: E731
        return Call([x], mine, lambda x: theirs(x, q, axis), words(q=q, axis=axis))


nan_quantile("nanquantile", torch.nanquantile)
nan_quantile("nanmedian", lambda x, q, axis: torch.nanquantile(x, q, axis, interpolation="midpoint"))


@entry("quantile_of_several", "quantile", area=AREA)
def quantile_of_several(d):
    shape, axis = line(d)
    q = d.uniform(0, 1, d.whole(1, 4))
    call = ours("quantile")

    def mine(x):
        import extensor as ex

        return call(x, ex.asarray(q, dtype=x.dtype), axis=axis)

    theirs = lambda x: torch.quantile(x, torch.from_numpy(q).to(x.dtype), axis)  # noqa: E731
    return Call([d.apart(*shape)], mine, theirs, words(q=q.tolist(), axis=axis))


def running(name, theirs):
    @entry(name, area=AREA)
    def draw(d):
        shape, axis = line(d)
        call = with_indices(name)
        return Call([d.apart(*shape)], lambda x: call(x, axis=axis), lambda x: tuple(theirs(x, axis)), words(axis=axis))


running("cummax", torch.cummax)
running("cummin", torch.cummin)


@entry("logcumsumexp", area=AREA)
def logcumsumexp(d):
    shape, axis = line(d)
    x = d.normal(*shape) * d.pick(1.0, 1.0, 20.0)
    call = ours("logcumsumexp")
    return Call([x], lambda x: call(x, axis=axis), lambda x: torch.logcumsumexp(x, axis), words(axis=axis))


def over(d, ndim):
    axis = d.axes(ndim)
    return axis, None if axis is None else tuple(axis)


def without_nan(name, theirs):
    @entry(name, area=AREA)
    def draw(d):
        shape = d.shape(0, 3, empty=0.03 if name == "nansum" else 0.0)
        axis, dim = over(d, len(shape))
        keep = d.chance(0.3)
        x = d.apart(*shape) if shape else d.normal()
        whole = x
        x = d.among(x, [np.nan], 0.3)
        if name != "nansum" and shape:
            # Something is a number in each of them: what is left of nothing is NaN everywhere, or an error.
            x = np.where(np.isnan(x).all(dim, keepdims=True), whole, x)
        elif name != "nansum":
            x = d.normal()
        call = ours(name)
        mine = lambda x: call(x, axis=axis, keepdims=keep or None)  # noqa: E731
        return Call([x], mine, lambda x: theirs(x, dim, keep), words(axis=axis, keepdims=keep))


def dims(x, dim):
    return tuple(range(x.ndim)) if dim is None else dim


def nanmax(x, dim, keep):
    return torch.where(x.isnan(), -torch.inf, x).amax(dims(x, dim), keepdim=keep)


def nanmin(x, dim, keep):
    return torch.where(x.isnan(), torch.inf, x).amin(dims(x, dim), keepdim=keep)


without_nan("nansum", lambda x, dim, keep: torch.nansum(x, dim, keepdim=keep))
without_nan("nanmean", lambda x, dim, keep: torch.nanmean(x, dim, keepdim=keep))
without_nan("nanmax", nanmax)
without_nan("nanmin", nanmin)


@entry("histogram", area=AREA)
def histogram(d):
    bins = d.whole(1, 6)
    x = d.uniform(-3, 3, *d.shape(1, 2, empty=0.0))
    low, high = d.number(-3, -1), d.number(0.5, 3)
    call = ours("histogram")

    def mine(x):
        found = call(x, bins=bins, range=(low, high))
        import extensor as ex

        return ex.ops.cast(first(found), ex.float64)

    theirs = lambda x: torch.histogram(x, bins, range=(low, high))[0]  # noqa: E731
    return Call([x], mine, theirs, words(bins=bins, range=(low, high)), order=0, single=False, mapped=False)


@entry("bincount", area=AREA)
def bincount(d):
    index = d.whole_numbers(0, 5, d.whole(0, 8))
    least = d.whole(0, 8)
    call = ours("bincount")
    theirs = lambda i: torch.bincount(i, minlength=least)  # noqa: E731
    return Call([index], lambda i: call(i, minlength=least or None), theirs, words(minlength=least), mapped=False)


@entry("bincount_weighted", "bincount", area=AREA)
def bincount_weighted(d):
    n = d.whole(1, 8)
    arrays = [d.whole_numbers(0, 5, n), d.normal(n)]
    least = d.whole(0, 8)
    call = ours("bincount")
    mine = lambda i, w: call(i, weights=w, minlength=least or None)  # noqa: E731

    def theirs(i, w):
        return torch.zeros(max(int(i.max()) + 1, least), dtype=w.dtype).index_add(0, i, w)

    return Call(arrays, mine, theirs, words(minlength=least), mapped=False)
