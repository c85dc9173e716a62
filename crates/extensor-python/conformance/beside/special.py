"""Special functions, activations, and arithmetic of one element at a time."""

import numpy as np
import torch
import torch.nn.functional as F

import extensor as ex

from .entry import Call, entry, ours, words

AREA = "special"


def unary(name, theirs, low, high, *others, specials=(), kinks=(), by=0.05, order=2, area=AREA, new=True, single=True):
    """A function of one number. `specials` are numbers at which derivatives agree too."""

    @entry(name, *others, area=area, new=new)
    def draw(d):
        shape = d.shape()
        x = d.away(low, high, kinks, *shape, by=by) if kinks else d.uniform(low, high, *shape)
        if specials:
            x = d.among(x, specials)
        return Call([x], ours(name, *others), theirs, order=order, single=single)


def cbrt(x):
    return torch.sign(x) * torch.abs(x) ** (1 / 3)


unary("exp2", torch.exp2, -4, 4, specials=[0, 1, -1])
unary("cbrt", cbrt, -5, 5, kinks=[0])
unary("lgamma", torch.lgamma, -3.9, 6, kinks=[0, -1, -2, -3, -4], by=0.15, specials=[1, 2, 0.5])
unary("digamma", torch.digamma, -3.9, 6, kinks=[0, -1, -2, -3, -4], by=0.15, specials=[1, 2, 0.5])
unary("erfinv", torch.erfinv, -0.95, 0.95, specials=[0])
unary("ndtr", torch.special.ndtr, -5, 5, specials=[0])
unary("ndtri", torch.special.ndtri, 0.03, 0.97, specials=[0.5])
unary("log_ndtr", torch.special.log_ndtr, -6, 5, specials=[0])
unary("i0", torch.special.i0, -5, 5, kinks=[0])
unary("i0e", torch.special.i0e, -5, 5, kinks=[0])
unary("i1", torch.special.i1, -5, 5, kinks=[0], by=0.2)
unary("i1e", torch.special.i1e, -5, 5, kinks=[0], by=0.2)
unary("entr", torch.special.entr, 0.05, 4, specials=[1])
unary("sinc", torch.sinc, -4, 4, kinks=[0], by=0.2)
unary("tanhshrink", F.tanhshrink, -4, 4, specials=[0, 1])


@entry("special_points", area=AREA)
def special_points(d):
    """Values where derivatives are infinite or conventions."""
    inf, nan = np.inf, np.nan
    name, theirs, points = d.pick(
        ("lgamma", torch.lgamma, [0.0, -1.0, -2.0, inf, nan, 1.0, 2.0, 1e10, 1e-10]),
        ("digamma", torch.digamma, [inf, nan, 1e10, 1e-10, -1e-10]),
        ("erfinv", torch.erfinv, [-1.0, 1.0, 0.0, 1.5, nan, 0.999999999]),
        ("ndtri", torch.special.ndtri, [0.0, 1.0, 0.5, 1e-20, nan, 1e-300]),
        ("ndtr", torch.special.ndtr, [-30.0, 40.0, inf, -inf, nan]),
        ("log_ndtr", torch.special.log_ndtr, [0.0, -30.0, -1e3, -1e100, 6.0, 40.0, inf, nan]),
        ("entr", torch.special.entr, [0.0, -1.0, inf, -inf, nan, 1e-300]),
        ("sinc", torch.sinc, [0.0, 1.0, -2.0, 1e-8, 0.5, nan]),
        ("i0", torch.special.i0, [0.0, 1e-8, 20.0, -100.0, nan]),
        ("i0e", torch.special.i0e, [0.0, 1e-8, 20.0, -100.0, 1e4, nan]),
        ("i1", torch.special.i1, [0.0, 1e-8, 20.0, -100.0, nan]),
        ("i1e", torch.special.i1e, [0.0, 1e-8, 20.0, -100.0, 1e4, nan]),
        ("logit", torch.logit, [0.0, 1.0, 0.5, 1e-300, -0.5, 1.5, nan]),
        ("cbrt", cbrt, [0.0, 27.0, -8.0, 1e-30, inf, -inf, nan]),
        ("exp2", torch.exp2, [0.0, 1023.0, 1025.0, -1080.0, inf, -inf, nan]),
    )
    x = d.random.choice(np.asarray(points), d.whole(1, 6))
    return Call([x], ours(name), theirs, name, order=0, single=False)


@entry("polygamma", area=AREA)
def polygamma(d):
    n = d.whole(0, 4)
    x = d.uniform(0.4, 6, *d.shape())
    call = ours("polygamma")
    return Call([x], lambda x: of_order(call, x, n), lambda x: torch.polygamma(n, x), words(n=n))


def of_order(call, x, n):
    """PyTorch and SciPy give the order first; ours may be an option."""
    return call(x, n=n)


@entry("logit", area=AREA)
def logit(d):
    eps = d.pick(None, None, 0.1, 1e-3)
    shape = d.shape()
    x = d.uniform(0.02, 0.98, *shape) if eps is None else d.away(-0.2, 1.2, [eps, 1 - eps], *shape, by=0.01)
    if eps is not None and eps < 0.01:
        x = d.uniform(0.05, 0.95, *shape)
    call = ours("logit")
    within = (lambda x: x) if eps is None else lambda x: ex.clip(x, eps, 1 - eps)
    return Call([x], lambda x: call(within(x)), lambda x: torch.logit(x, eps), words(eps=eps))


def pair(name, theirs, draw_pair, *others, order=2, single=True):
    """A function of two tensors that broadcast."""

    @entry(name, *others, area=AREA)
    def draw(d):
        a, b = draw_pair(d, *d.broadcast(2))
        return Call([a, b], ours(name, *others), theirs, order=order, single=single)


def with_zeros(d, a, b):
    return d.among(d.signed(0.2, 3, *a), [0.0]), d.uniform(0.2, 4, *b)


pair("xlogy", torch.xlogy, with_zeros)
pair("xlog1py", torch.special.xlog1py, with_zeros)


def parted(d, a, b):
    """Two tensors of which no elements are near one another, some NaN."""
    full = np.broadcast_shapes(a, b)
    x = d.apart(*a)
    y = np.full(b, 0.0) + d.apart(*b) * 1.0
    gap = np.abs(x - y).min(initial=1.0) if full else abs(float(x - y))
    if gap < 0.02:
        y = y + 0.025
    return x, y


def clear(d, a, b):
    x, y = parted(d, a, b)
    while x.size and y.size and np.abs(x - y).min(initial=1.0) < 1e-2:
        y = y + d.number(-0.5, 0.5)
    if d.chance(0.3):
        nans = np.where(d.mask(*a, p=0.2), np.nan, 1.0)
        x = x * nans
    return x, y


pair("fmax", torch.fmax, clear)
pair("fmin", torch.fmin, clear)


def whole_part_apart(d, a, b):
    """Quotients away from whole numbers."""
    y = d.signed(0.8, 3, *b)
    quotient = d.whole_numbers(-3, 3, *np.broadcast_shapes(a, b)) + d.uniform(0.15, 0.85, *np.broadcast_shapes(a, b))
    if np.broadcast_shapes(a, b) == a:
        return quotient * y, y
    x = d.signed(0.1, 0.7, *a)
    return x, y


pair("fmod", torch.fmod, whole_part_apart)


@entry("glu", area=AREA)
def glu(d):
    shape = list(d.shape(1, 4))
    axis = d.axis(len(shape))
    shape[axis] = 2 * d.whole(1, 3)
    call = ours("glu")
    return Call([d.normal(*shape)], lambda x: call(x, axis=axis), lambda x: F.glu(x, axis), words(axis=axis))


@entry("celu", area=AREA)
def celu(d):
    alpha = d.pick(1.0, 0.25, 0.5, 2.0)
    call = ours("celu")
    x = d.away(-4, 4, [0], *d.shape())
    return Call([x], lambda x: call(x, alpha=alpha), lambda x: F.celu(x, alpha), words(alpha=alpha))


def shrink(name, theirs):
    @entry(name, area=AREA)
    def draw(d):
        size = d.pick(0.5, d.number(0.1, 2.0))
        call = ours(name)
        x = d.away(-4, 4, [-size, size], *d.shape())
        return Call([x], lambda x: call(x, threshold=size), lambda x: theirs(x, size), words(threshold=size))


shrink("hardshrink", F.hardshrink)
shrink("softshrink", F.softshrink)


@entry("threshold", area=AREA)
def threshold(d):
    at, value = d.number(-1, 1), d.number(-20, 20)
    call = ours("threshold")
    x = d.away(-4, 4, [at], *d.shape())
    mine = lambda x: call(x, threshold=at, value=value)  # noqa: E731
    return Call([x], mine, lambda x: F.threshold(x, at, value), words(threshold=at, value=value))


@entry("softplus", area=AREA)
def softplus(d):
    beta = d.pick(1.0, d.number(0.2, 4.0))
    call = ours("softplus")
    x = d.among(d.uniform(-14, 14, *d.shape()) / beta, [0.0])
    mine = lambda x: call(x, beta=beta if beta != 1.0 else None)  # noqa: E731
    return Call([x], mine, lambda x: F.softplus(x, beta), words(beta=beta))


@entry("lerp", area=AREA)
def lerp(d):
    a, b, w = d.broadcast(3)
    call = ours("lerp")
    if d.chance(0.3):
        weight = d.number(-1, 2)
        numbers = [d.normal(*a), d.normal(*b)]
        return Call(
            numbers, lambda a, b: call(a, b, weight), lambda a, b: torch.lerp(a, b, weight), words(weight=weight)
        )
    return Call([d.normal(*a), d.normal(*b), d.uniform(-1, 2, *w)], call, torch.lerp)


def fused(name, theirs, low):
    @entry(name, area=AREA)
    def draw(d):
        x, a, b = d.broadcast(3)
        value = d.pick(1.0, d.number(-3, 3))
        call = ours(name)
        numbers = [d.normal(*x), d.normal(*a), d.signed(low, 3, *b)]
        mine = lambda x, a, b: call(x, a, b, value=value if value != 1.0 else None)  # noqa: E731
        return Call(numbers, mine, lambda x, a, b: theirs(x, a, b, value=value), words(value=value))


fused("addcmul", torch.addcmul, 0.0)
fused("addcdiv", torch.addcdiv, 0.3)


@entry("nan_to_num", area=AREA)
def nan_to_num(d):
    x = d.among(d.normal(*d.shape()), [np.nan, np.inf, -np.inf, 0.0], 0.4)
    options = {key: d.number(-9, 9) for key in ("nan", "posinf", "neginf") if d.chance(0.6)}
    # Without them the largest numbers of the dtype stand for the infinities.
    single = "posinf" in options and "neginf" in options
    call = ours("nan_to_num")
    mine = lambda x: call(x, **options)  # noqa: E731
    return Call([x], mine, lambda x: torch.nan_to_num(x, **options), words(**options), single=single)
