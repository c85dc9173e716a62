"""Products of tensors, and what is said of vectors: einsum, tensordot, kron, cross, diagonals, distances."""

import numpy as np
import torch
import torch.nn.functional as F


from .entry import Call, Missing, entry, ours, present, words

AREA = "products"


def equation(d):
    """A random equation of 1 to 4 operands, and their shapes: repeated labels, labels of one operand alone, an ellipsis
    that broadcasts, an implicit result, spaces."""
    letters = d.pick("ijklmn", "abcdef", "AbCdzZ")
    sizes = {letter: d.pick(1, 2, 3, 4) if d.chance(0.95) else 0 for letter in letters}
    count = d.pick(1, 2, 2, 2, 3, 4)
    dots = d.chance(0.35)
    batch = tuple(d.whole(1, 3) for _ in range(d.whole(0, 2)))
    terms, shapes, most = [], [], {1: 4, 2: 3, 3: 3, 4: 2}[count]
    for _ in range(count):
        labels = [str(letters[d.whole(0, len(letters) - 1)]) for _ in range(d.whole(0, most))]
        if not d.chance(0.3):
            labels = list(dict.fromkeys(labels))
        # An axis of size 1 broadcasts to those of its name in other operands.
        lone = {label for label in labels if d.chance(0.04)}
        shape = [1 if label in lone else sizes[label] for label in labels]
        if dots and d.chance(0.7):
            at = d.whole(0, len(labels))
            part = batch[d.whole(0, len(batch)) :]
            part = tuple(1 if d.chance(0.2) else n for n in part)
            labels = [*labels[:at], "...", *labels[at:]]
            shape = [*shape[:at], *part, *shape[at:]]
        terms.append("".join(labels))
        shapes.append(tuple(shape))
    text = ",".join(terms)
    used = sorted({c for c in text if c.isalpha()})
    if d.chance(0.65):
        kept = [used[i] for i in d.random.permutation(len(used))[: d.whole(0, min(len(used), 4))]]
        if "..." in text:
            at = d.whole(0, len(kept))
            kept = [*kept[:at], "...", *kept[at:]]
        text += "->" + "".join(kept)
    if d.chance(0.1):
        text = text.replace(",", " , ").replace("->", " -> ")
    return text, shapes


def our_einsum(text):
    def call(*operands):
        function = present("einsum")
        if function is None:
            raise Missing("einsum")
        if hasattr(function, "info"):
            return function(list(operands), text)
        return function(text, *operands)

    return call


@entry("einsum", area=AREA)
def einsum(d):
    text, shapes = equation(d)
    return Call([d.normal(*s) for s in shapes], our_einsum(text), lambda *xs: torch.einsum(text, *xs), repr(text))


@entry("tensordot", area=AREA)
def tensordot(d):
    count = d.whole(0, 2)
    shared = [d.whole(1, 3) for _ in range(count)]
    left, right = ([d.whole(1, 3) for _ in range(d.whole(0, 2))] for _ in range(2))
    if d.chance(0.05) and shared:
        shared[0] = 0
    call = ours("tensordot")
    if d.chance(0.5):
        a, b, axes = [*left, *shared], [*shared, *right], count
        theirs = count
    else:
        a, b = [*left, *shared], [*right, *shared]
        p, q = d.random.permutation(len(a)), d.random.permutation(len(b))
        first = [int(np.flatnonzero(p == len(left) + i)[0]) for i in range(count)]
        second = [int(np.flatnonzero(q == len(right) + i)[0]) for i in range(count)]
        a, b = [a[i] for i in p], [b[i] for i in q]
        axes = theirs = (first, second)
        if d.chance(0.3):
            axes = ([i - len(a) for i in first], second)
    mine = lambda a, b: call(a, b, axes=axes)  # noqa: E731
    return Call([d.normal(*a), d.normal(*b)], mine, lambda a, b: torch.tensordot(a, b, dims=theirs), words(axes=axes))


@entry("kron", area=AREA)
def kron(d):
    a, b = d.shape(0, 3, 3), d.shape(0, 3, 3)
    return Call([d.normal(*a), d.normal(*b)], ours("kron"), torch.kron)


@entry("cross", area=AREA)
def cross(d):
    a, b = (list(s) for s in d.broadcast(2, 0, 2))
    rank = max(len(a), len(b))
    shape = [[1] * (rank - len(s)) + s for s in (a, b)]
    axis = d.whole(0, rank)
    a, b = ([*s[:axis], 3, *s[axis:]] for s in shape)
    axis = d.pick(axis, axis - rank - 1)
    call = ours("cross")
    mine = lambda a, b: call(a, b, axis=axis)  # noqa: E731
    return Call([d.normal(*a), d.normal(*b)], mine, lambda a, b: torch.linalg.cross(a, b, dim=axis), words(axis=axis))


def plane(d, ndim):
    """Two different axes, from the front or the back."""
    a, b = (int(i) for i in d.random.permutation(ndim)[:2])
    return d.pick(a, a - ndim), d.pick(b, b - ndim)


@entry("diagonal", area=AREA)
def diagonal(d):
    shape = d.shape(2, 4)
    k = d.whole(-shape[-2] + (shape[-2] > 0), max(shape[-1] - 1, 0)) if d.chance(0.6) else 0
    call = ours("diagonal")
    first, second = plane(d, len(shape)) if d.chance(0.5) else (None, None)
    if first is None:
        theirs = lambda x: torch.diagonal(x, k, -2, -1)  # noqa: E731
        return Call([d.normal(*shape)], lambda x: call(x, k=k or None, axis1=-2, axis2=-1), theirs, words(k=k))
    k = 0
    mine = lambda x: call(x, axis1=first, axis2=second)  # noqa: E731
    theirs = lambda x: torch.diagonal(x, 0, first, second)  # noqa: E731
    return Call([d.normal(*shape)], mine, theirs, words(axis1=first, axis2=second))


@entry("trace", area=AREA)
def trace(d):
    rows, columns = d.shape(2, 2, 5)
    return Call([d.normal(min(rows, columns + 1), columns)], ours("trace"), torch.trace)


@entry("trace_of_batches", area=AREA)
def trace_of_batches(d):
    """Over the last two axes, with an offset: the Array API standard's."""
    shape = d.shape(3, 4)
    k = d.whole(-2, 2) if 0 not in shape else 0
    call = ours("trace")
    theirs = lambda x: torch.diagonal(x, k, -2, -1).sum(-1)  # noqa: E731
    if not -shape[-2] < k < shape[-1]:
        k = 0
    return Call([d.normal(*shape)], lambda x: call(x, k=k or None), theirs, words(k=k))


@entry("diag", area=AREA)
def diag(d):
    k = d.whole(-2, 2)
    shape = d.shape(1, 2, 5, empty=0.0)
    if len(shape) == 2 and not -shape[0] < k < shape[1]:
        k = 0
    call = ours("diag")
    return Call([d.normal(*shape)], lambda x: call(x, k=k or None), lambda x: torch.diag(x, k), words(k=k))


@entry("vecdot", area=AREA)
def vecdot(d):
    a, b = (list(s) for s in d.broadcast(2, 0, 2))
    n = d.whole(0 if d.chance(0.1) else 1, 5)
    return Call([d.normal(*a, n), d.normal(*b, n)], ours("vecdot"), torch.linalg.vecdot)


@entry("cosine_similarity", area=AREA)
def cosine_similarity(d):
    a, b = d.broadcast(2, 1, 3, empty=0.0)
    rank = max(len(a), len(b))
    a, b = ((1,) * (rank - len(s)) + s for s in (a, b))
    axis = d.axis(rank)
    size = d.whole(2, 4)
    a, b = ([*s[: axis % rank], size, *s[axis % rank + 1 :]] for s in (a, b))
    call = ours("cosine_similarity")
    mine = lambda a, b: call(a, b, axis=axis)  # noqa: E731
    theirs = lambda a, b: F.cosine_similarity(a, b, dim=axis)  # noqa: E731
    return Call([d.normal(*a), d.normal(*b)], mine, theirs, words(axis=axis))


@entry("normalize", area=AREA)
def normalize(d):
    shape = d.shape(1, 3, empty=0.0)
    axis, p = d.axis(len(shape)), d.pick(2, 2, 1, 3.0, 1.5)
    x = d.signed(0.3, 2, *shape)
    call = ours("normalize")
    mine = lambda x: call(x, p=float(p) if p != 2 else None, axis=axis)  # noqa: E731
    return Call([x], mine, lambda x: F.normalize(x, p=p, dim=axis), words(p=p, axis=axis))


@entry("cdist", area=AREA)
def cdist(d):
    batch = d.batch()
    n, m, size = d.whole(0 if d.chance(0.05) else 1, 4), d.whole(1, 4), d.whole(1, 4)
    p = d.pick(2.0, 2.0, 1.0, 3.0, 1.5, float("inf"))
    x, y = d.normal(*batch, n, size), d.normal(*batch, m, size)
    while x.size:
        # Points, and differences of their coordinates, stay apart, and the largest difference from the next.
        apart = np.sort(np.abs(x[..., :, None, :] - y[..., None, :, :]), -1)
        if apart[..., -1].min() > 0.3 and (p == 2.0 or apart.min() > 0.05):
            if p < 9 or size == 1 or (apart[..., -1] - apart[..., -2]).min() > 0.02:
                break
        x, y = d.normal(*batch, n, size) * 2, d.normal(*batch, m, size) * 2
    call = ours("cdist")
    mine = lambda x, y: call(x, y, p=p if p != 2.0 else None)  # noqa: E731
    return Call([x, y], mine, lambda x, y: torch.cdist(x, y, p), words(p=p))


@entry("trapezoid", area=AREA)
def trapezoid(d):
    shape = list(d.shape(1, 3, empty=0.0))
    axis = d.axis(len(shape))
    shape[axis] = d.whole(1, 5)
    y, call = d.normal(*shape), ours("trapezoid")
    if d.chance(0.5):
        dx = d.number(0.2, 2)
        return Call(
            [y],
            lambda y: call(y, dx=dx, axis=axis),
            lambda y: torch.trapezoid(y, dx=dx, dim=axis),
            words(dx=dx, axis=axis),
        )
    if len(shape) > 1 and d.chance(0.5):
        x = d.normal(*shape)
        return Call(
            [y, x], lambda y, x: call(y, x, axis=axis), lambda y, x: torch.trapezoid(y, x, dim=axis), words(axis=axis)
        )
    x = np.sort(d.normal(shape[axis]))
    return Call(
        [y, x], lambda y, x: call(y, x, axis=axis), lambda y, x: torch.trapezoid(y, x, dim=axis), words(axis=axis)
    )


@entry("rot90", area=AREA)
def rot90(d):
    shape = d.shape(2, 4)
    k, axes = d.whole(-4, 5), plane(d, len(shape))
    call = ours("rot90")
    return Call(
        [d.normal(*shape)], lambda x: call(x, k=k, axes=axes), lambda x: torch.rot90(x, k, axes), words(k=k, axes=axes)
    )


def stacked(name, theirs, low):
    """Functions of a list of tensors, of which the sizes along one axis may differ."""

    @entry(name, area=AREA)
    def draw(d):
        shape = list(d.shape(low, 3))
        shapes = [list(shape) for _ in range(d.whole(1, 3))]
        along = {"vstack": 0, "dstack": 2}.get(name, 1)
        if len(shape) < (3 if name == "dstack" else 2):
            along = 0 if name == "hstack" and shape else None
        if along is not None and shape:
            for s in shapes:
                s[along] = d.whole(0, 3)
        call = ours(name)
        mine = lambda *xs: call(list(xs))  # noqa: E731
        return Call([d.normal(*s) for s in shapes], mine, lambda *xs: theirs(xs))


stacked("vstack", torch.vstack, 0)
stacked("hstack", torch.hstack, 0)
stacked("dstack", torch.dstack, 0)
stacked("column_stack", torch.column_stack, 0)


def observations(d):
    """The shape of one variable, or of two and more."""
    count = d.whole(2, 7)
    return d.pick((count,), (d.whole(2, 5), count))


@entry("cov", area=AREA)
def cov(d):
    shape = observations(d)
    correction = d.pick(1, 0)
    call = ours("cov")
    mine = lambda x: call(x, correction=0 if correction == 0 else None)  # noqa: E731
    return Call([d.normal(*shape)], mine, lambda x: torch.cov(x, correction=correction), words(correction=correction))


@entry("corrcoef", area=AREA)
def corrcoef(d):
    x = d.normal(*observations(d))
    # Variables that hardly vary lose digits by the inverse square of their spread, here and there.
    while x.size and np.ptp(x, axis=-1).min() < 0.1:
        x = d.normal(*x.shape)
    return Call([x], ours("corrcoef"), torch.corrcoef)
