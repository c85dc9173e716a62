"""The operations as functions of one or two numbers, written from their definitions.

Each function takes the point (as floats, since −0 is not 0) and returns the derivatives that the operation must
have there, by how often it is differentiated by each variable: a `Jet`, or a dict with `Num`s, with `Say`s where a
convention of the specification takes the place of a derivative, and nothing where neither is defined.
"""

import math

from mpmath import mp, mpf

from points_math import *

INF, NAN = math.inf, math.nan
LEAST = mpf(10) ** -10


class Say:
    """What a convention says; `finite`: any finite number will do."""

    def __init__(self, value, finite=False):
        self.value, self.finite = value, finite


class Outside(Exception):
    """The function has no value here: NaN, and so is its gradient."""


CASES = []


def case(name, params="", form="x", points=(), others=(), extra=(), order=ORDER, infinite=True, nan=True):
    """Adds a function to the table. `form` says what the one or two numbers are: `x`, an input; `x,y`, two inputs;
    `x;t`, an input and a constant; `row` and `row0`, a vector of the two, or of the two and 0; a number behind it
    is the output's element. `points`: constants to look beside; `others`: the second number's; `extra`: more points; `infinite`: whether there are limits at ±∞, or
    what holds at one of them (NaN if not)."""
    def add(f):
        CASES.append(dict(name=name, params=params, form=form, points=points, others=others, extra=extra, order=order, infinite=infinite, nan=nan, f=f))
        return f
    return add


def unary(name, params="", **more):
    """A function of one number, given as its derivatives from the value on."""
    def add(f):
        def whole(x):
            found = f(x)
            if found is None:
                return {}
            return found if isinstance(found, (Jet, dict)) else {(k, 0): y for k, y in enumerate(found) if y is not None}
        case(name, params, **more)(whole)
        return f
    return add


def constant(*values):
    """Exact derivatives, 0 from where the list ends."""
    return [None if v is None else Num(v) for v in values] + [Num(0)] * (4 - len(values))


def x_(x):
    return variable(x, 0)


def primitive(name, *gs, domain=None, **more):
    """A function of one number from functions for itself and its derivatives, each good to the last digit."""
    def f(x):
        v = mpf(x)
        if domain and not domain(v):
            raise Outside
        return [Num(y, abs(y)) for y in (g(v) for g in gs)]
    unary(name, **more)(f)


# Elementwise.
primitive("exp", EXP, EXP, EXP, EXP, points=(88.7, 88.72283, 709.78, -87.3, -103.97, -708.4, -745.13))
primitive("expm1", EXPM1, EXP, EXP, EXP, points=(88.7, 709.78, -37.0, -17.3, 0.35, -0.35))


def logarithm(name, value, base, shift=0):
    scale = 1 / mp.log(base) if base else mpf(1)

    def f(x):
        d = mpf(x) + shift
        if d < 0:
            raise Outside
        if d == 0:
            sign = math.copysign(1, x) if shift == 0 else 1
            return [Num(-mp.inf), Say(to_float(scale * 10**10 * sign))]
        return [Num(y, abs(y)) for y in (value(mpf(x)), scale / d, -scale / d**2, 2 * scale / d**3)]
    unary(name, points=(-1.0,) if shift else (), extra=(-0.75,) if shift else ())(f)


logarithm("log", mp.log, None)
logarithm("log2", lambda x: mp.log(x) / mp.log(2), 2)
logarithm("log10", mp.log10, 10)
logarithm("log1p", mp.log1p, None, 1)


@unary("sqrt")
def _(x):
    v = mpf(x)
    if v < 0:
        raise Outside
    if v == 0:
        return [Num(0), Say(5e9)]
    y = mp.sqrt(v)
    return [Num(t, abs(t)) for t in (y, 1 / (2 * y), -1 / (4 * y**3), 3 / (8 * y**5))]


@unary("rsqrt")
def _(x):
    v = mpf(x)
    if v < 0:
        raise Outside
    if v == 0:
        return [Num(math.copysign(INF, x)), Say(-5e14, finite=x == 0 and math.copysign(1, x) < 0)]
    y = 1 / mp.sqrt(v)
    return [Num(t, abs(t)) for t in (y, -y**3 / 2, 3 * y**5 / 4, -15 * y**7 / 8)]


unary("square", points=(1e154, 1.3e154, 1.8e19))(lambda x: [Num(mpf(x) ** 2, mpf(x) ** 2), Num(2 * mpf(x)), Num(2), Num(0)])


@unary("reciprocal")
def _(x):
    if x == 0:
        return [Num(math.copysign(INF, x)), Say(-1e20)]
    r = 1 / mpf(x)
    return [Num(t, abs(t)) for t in (r, -r**2, 2 * r**3, -6 * r**4)]


unary("abs")(lambda x: [Num(0), Say(0.0)] if x == 0 else constant(abs(mpf(x)), math.copysign(1, x)))
unary("negate", nan=False)(lambda x: constant(-mpf(x), -1))
unary("sign", order=1)(lambda x: [Num((x > 0) - (x < 0)), Say(0.0)])
for name, whole in (("ceil", mp.ceil), ("floor", mp.floor), ("round", mp.nint), ("trunc", lambda v: mp.floor(v) if v > 0 else mp.ceil(v))):
    steps = (0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1.0, -1.0, 2.0**23, 2.0**52, 0.49999999999999994)
    unary(name, order=1, points=steps)(lambda x, whole=whole: [Num(whole(mpf(x))), Say(0.0)])

QUARTERS = tuple(float(mp.pi * k / 4) for k in (1, 2, 3, 4, 6, 8, -1, -2, -4))
primitive("sin", mp.sin, mp.cos, lambda v: -mp.sin(v), lambda v: -mp.cos(v), points=QUARTERS + (1e5, 1e22), infinite=False)
primitive("cos", mp.cos, lambda v: -mp.sin(v), lambda v: -mp.cos(v), mp.sin, points=QUARTERS + (1e5, 1e22), infinite=False)
primitive("tan", mp.tan, lambda v: 1 + mp.tan(v) ** 2, lambda v: 2 * mp.tan(v) * (1 + mp.tan(v) ** 2),
          lambda v: (1 + mp.tan(v) ** 2) * (2 + 6 * mp.tan(v) ** 2), points=QUARTERS + (1e5, 1e22), infinite=False)


def arc(name, value, sign):
    def f(x):
        v = mpf(x)
        if abs(v) > 1:
            raise Outside
        if abs(v) == 1:
            return [Num(value(v), abs(value(v))), Say(sign * 1e10)]
        u = (1 - v) * (1 + v)
        return [Num(t, abs(t)) for t in (value(v), sign / mp.sqrt(u), sign * v * u ** mpf("-1.5"), sign * (1 + 2 * v**2) * u ** mpf("-2.5"))]
    unary(name, points=(1.0, -1.0, 0.5, -0.5), infinite=False)(f)


arc("asin", mp.asin, 1)
arc("acos", mp.acos, -1)


def rational(name, value, slope, at=None, domain=None, **more):
    """A function whose derivative is a formula of rational operations and roots."""
    def f(x):
        v = mpf(x)
        if domain and not domain(v):
            raise Outside
        if at and at(v):
            y = value(v)
            return [Num(y, abs(y)), Say(1e10)]
        first = slope(variable(x, 0))
        y = value(v)
        return [Num(y, abs(y))] + [first.at(k, 0) for k in range(3)]
    unary(name, **more)(f)


rational("atan", mp.atan, lambda x: recip(1 + x * x), points=(0.57735026, 2.4, 0.4375, 1.0), extra=(1e154, 1e155))
rational("asinh", mp.asinh, lambda x: jrsqrt(1 + x * x), extra=(1e9, 1.4e9, 1e154, 1e155))
rational("acosh", mp.acosh, lambda x: jrsqrt((x - 1) * (x + 1)), lambda v: v == 1, lambda v: v >= 1, points=(1.0,), extra=(1.5, 1e154))
rational("atanh", lambda v: v * mp.inf if abs(v) == 1 else mp.atanh(v), lambda x: recip((1 - x) * (1 + x)),
         lambda v: abs(v) == 1, lambda v: abs(v) <= 1, points=(1.0, -1.0, 0.5), infinite=False)
primitive("sinh", SINH, COSH, SINH, COSH, points=(88.7, 89.4, 709.78, 710.4, -710.4, 22.0))
primitive("cosh", COSH, SINH, COSH, SINH, points=(88.7, 89.4, 709.78, 710.4, -710.4, 22.0))


def gauss(x, sign):
    """±2/√π e^(−x²) and its derivatives."""
    v = mpf(x)
    y = sign * 2 / mp.sqrt(mp.pi) * EXP(-v * v)
    # The slope is to be right to the last digits; in the derivatives after it the rounding of x² is
    # one of the errors that add up.
    n, later = Num(v), Num(y, abs(y) * (1 + v * v))
    return [Num(y, abs(y)), later * n * -2, later * (n * n * 4 - 2)]


BELLS = (0.70710677, 1.0, 2.0, 4.0, 6.0, 10.5, 26.0, 26.6, 27.2, 28.0, -6.0, 9.3, 0.84375, 1.25, -10.0)
unary("erf", points=BELLS)(lambda x: [Num(ERF(mpf(x)), abs(ERF(mpf(x))))] + gauss(x, 1))
unary("erfc", points=BELLS)(lambda x: [Num(ERFC(mpf(x)), abs(ERFC(mpf(x))))] + gauss(x, -1))


def between(x, low, high, middle, below, above, at_low, at_high):
    """Three pieces, each a list of derivatives; at the two places where they meet the value and a convention."""
    if low is not None and x <= low:
        return [below[0], Say(at_low)] if x == low else below
    if high is not None and x >= high:
        return [above[0], Say(at_high)] if x == high else above
    return middle


for low, high in ((-1.0, 1.0), (None, 0.5), (-2.5, None), (0.0, 6.0)):
    params = " ".join(f"{n}={b}" for n, b in (("min", low), ("max", high)) if b is not None)
    unary("clip", params, points=tuple(b for b in (low, high) if b is not None))(
        lambda x, low=low, high=high: between(x, low, high, constant(mpf(x), 1), constant(low), constant(high), 1.0, 1.0))

# Activations.
unary("relu")(lambda x: between(x, 0, None, constant(mpf(x), 1), constant(0), None, 0.0, None))
unary("relu6", points=(6.0,))(lambda x: between(x, 0, 6, constant(mpf(x), 1), constant(0), constant(6), 0.0, 0.0))
for alpha in (0.01, 0.25, -0.5, 0.0):
    a = mpf(alpha)
    unary("leaky_relu", f"alpha={alpha}")(
        lambda x, a=a: between(x, 0, None, constant(mpf(x), 1), [Num(a * mpf(x), abs(a * mpf(x)))] + constant(a)[:3], None, float(a), None))


def exponential_unit(scale, alpha):
    def f(x):
        v = mpf(x)
        below = [Num(y, abs(y)) for y in [scale * alpha * EXPM1(v)] + [scale * alpha * EXP(v)] * 3]
        if x == 0 and scale * alpha == scale:
            return below[:2]  # Once differentiable there.
        return between(x, 0, None, [Num(scale * v, abs(scale * v))] + constant(scale)[:3], below, None, float(scale * alpha), None)
    return f


TAILS = (-37.0, -87.3, -103.97, -708.4, -745.13, 88.7, 89.0, 709.78, 711.0, 20.0, -20.0, 36.8)
for alpha in (1.0, 0.25, -0.5):
    unary("elu", f"alpha={alpha}", points=TAILS)(exponential_unit(mpf(1), mpf(alpha)))


def continuous_unit(alpha):
    def f(x):
        if x > 0:
            return constant(mpf(x), 1)
        v = mpf(x) / alpha
        lost = abs(v)  # of the quotient, from the second derivative on
        e = EXP(v)
        found = [Num(alpha * EXPM1(v), abs(alpha * EXPM1(v))), Num(e, e)]
        found += [Num(e / alpha**k, e / alpha**k * (1 + lost)) for k in (1, 2)]
        return found[:2] if x == 0 else found
    return f


for alpha in (1.0, 0.25, 3.0, 0.375):
    unary("celu", f"alpha={alpha}", points=TAILS)(continuous_unit(mpf(alpha)))
unary("selu", points=TAILS)(exponential_unit(mpf(1.0507009873554805), mpf(1.6732632423543772)))


def from_output(value, polynomials):
    """A function whose derivatives are polynomials of its output, which is rounded: coefficients from y⁰ up."""
    def f(x):
        y = value(mpf(x))
        found = [Num(y, abs(y))]
        for polynomial in polynomials:
            v = sum(c * y**n for n, c in enumerate(polynomial))
            # What each term's rounding, and n times that of y in yⁿ, make of it.
            found.append(Num(v, sum(abs(c * y**n) * (n + 1) for n, c in enumerate(polynomial))))
        return found
    return f


unary("sigmoid", points=TAILS)(from_output(lambda v: 1 / (1 + EXP(-v)), [(0, 1, -1), (0, 1, -3, 2), (0, 1, -7, 12, -6)]))
unary("tanh", points=(0.625, 8.7, 9.01, 18.7, 19.1, 22.0, -9.01, -19.1, 0.55))(
    from_output(TANH, [(1, 0, -1), (0, -2, 0, 2), (-2, 0, 8, 0, -6)]))
unary("swish", points=TAILS + (-1.2784645, 2.3993573))(lambda x: x_(x) * jlogistic(x_(x)))
unary("softplus", points=TAILS)(lambda x: jsoftplus(x_(x)))
for beta in (2.0, 0.375, 12.5):
    @unary("softplus", f"beta={beta}", points=TAILS)
    def _(x, beta=mpf(beta)):
        # The value and the slope are to be right to the last digits, so that the product counts as exact; for
        # the derivatives after them its rounding is one of the errors that add up.
        rounded = x_(x) * beta
        exact = Jet({k: Num(y.v) for k, y in rounded.d.items()})
        first, later = (jsoftplus(z) * (1 / beta) for z in (exact, rounded))
        return [(first if k < 2 else later).at(k, 0) for k in range(4)]
unary("log_sigmoid", points=TAILS)(lambda x: -jsoftplus(-x_(x)))


@unary("mish", points=TAILS + (-1.1924,))
def _(x):
    if x <= 0:
        n = jexp(x_(x))
        n = n * (n + 2)
        return x_(x) * (n * recip(n + 2))
    m = jexp(-x_(x))
    rest = 2 * (m * m) * recip(1 + 2 * m + 2 * (m * m))
    return x_(x) * (1 - rest)


@unary("softsign", extra=(1e102, 1e103, 1e154))
def _(x):
    v, sign = mpf(x), math.copysign(1, x)
    r = 1 / (1 + abs(v))
    found = [Num(y, abs(y)) for y in (v * r, r**2, -2 * sign * r**3, 6 * r**4)]
    return found[:2] if x == 0 else found


@unary("gelu", "approximate=false", points=(-0.75179, 1.4142135, -1.4142135, -5.0, -12.8, -14.0, -37.5, -38.5, 1.0, -1.0, 6.0, 8.3, 10.0))
def _(x):
    v, n = mpf(x), Num(mpf(x))
    cdf = ERFC(-v / mp.sqrt(2)) / 2
    bell = EXP(-v * v / 2) / mp.sqrt(2 * mp.pi)

    def jet(bell):
        return x_(x) * compose([Num(cdf, abs(cdf)), bell, -(n * bell), (n * n - 1) * bell], x_(x))
    first, later = jet(Num(bell, abs(bell))), jet(Num(bell, abs(bell) * (1 + v * v / 2)))
    return [(first if k < 2 else later).at(k, 0) for k in range(4)]


@unary("gelu", "approximate=true", points=(-0.75246, 1.4142135, -5.0, -9.0, -20.0, 1.0, -1.0, 5.0, 10.0, 100.0))
def _(x):
    u = 2 * mp.sqrt(2 / mp.pi) * (x_(x) + mpf("0.044715") * (x_(x) * x_(x) * x_(x)))
    # The value and the slope are to be right to the last digits, so their exponent counts as exact; for the
    # derivatives after them its rounding is one of the errors that add up.
    exact = Jet({k: Num(y.v) for k, y in u.d.items()})
    first, later = x_(x) * jlogistic(exact), x_(x) * jlogistic(u)
    return [(first if k < 2 else later).at(k, 0) for k in range(4)]


def polynomial(x, *c):
    """c₀ + c₁x + c₂x² and its derivatives."""
    p = x_(x)
    return [(Jet({(0, 0): Num(c[0])}) + c[1] * p + (c[2] * (p * p) if len(c) > 2 else 0)).at(k, 0) for k in range(4)]


SIXTH = mpf(1) / 6
unary("hard_sigmoid", points=(-3.0, 3.0))(lambda x: between(x, -3, 3, polynomial(x, 3 * SIXTH, SIXTH), constant(0), constant(1), 0.0, 0.0))
unary("hard_swish", points=(-3.0, 3.0, -1.5))(
    lambda x: between(x, -3, 3, polynomial(x, 0, 3 * SIXTH, SIXTH), constant(0), constant(mpf(x), 1), 0.0, 1.0))
for low, high in ((-1.0, 1.0), (-0.25, 2.0)):
    unary("hard_tanh", f"min={low} max={high}", points=(low, high))(
        lambda x, low=low, high=high: between(x, low, high, constant(mpf(x), 1), constant(low), constant(high), 0.0, 0.0))

for bound in (0.5, 2.0, 0.0):
    ends = (bound, -bound) if bound else ()
    same, none = (lambda x: constant(mpf(x), 1)), constant(0)

    def shrunk(beyond, bound=bound):
        def f(x):
            if bound == 0 or abs(x) > bound:
                return beyond(x)
            return [none[0], Say(0.0)] if abs(x) == bound else none
        return f
    unary("hardshrink", f"lambd={bound}", points=ends)(shrunk(same))

    def nearer(x, bound=bound):
        v = mpf(x) - math.copysign(bound, x)
        return [Num(v, abs(v))] + constant(1)[:3]
    unary("softshrink", f"lambd={bound}", points=ends)(shrunk(nearer))
for at, value in ((0.0, 0.0), (1.0, 20.0), (-0.5, -3.0)):
    unary("threshold", f"threshold={at} value={value}", points=(at,))(
        lambda x, at=at, value=value: between(x, at, None, constant(mpf(x), 1), constant(value), None, 0.0, None))


@unary("tanhshrink", points=(1.5, -1.5, 0.625, 1e-3, 8.7, 9.01, 18.7, 19.1, 22.0))
def _(x):
    v = mpf(x)
    y = TANH(v)
    # What is left of 1 where tanh is near it, from what vanishes there.
    e = EXP(-2 * abs(v))
    rest = 4 * e / (1 + e) ** 2
    size = abs(y)
    value = v - y if v else ZERO
    found = [Num(value, abs(value)), Num(y * y, y * y), Num(2 * y * rest, 2 * size * rest)]
    third = 2 * rest * rest - 4 * y * y * rest
    return found + [Num(third, 2 * rest * rest + 4 * y * y * rest)]


@unary("nan_to_num", nan=False, points=(1e300, 3e38))
def _(x):
    # Beyond all dtypes only infinity is.
    if abs(x) > mpf(2) ** 2000:
        return None
    return constant(mpf(x), 1)

import points_pairs  # noqa: E402,F401  (the functions of two numbers)
import points_special  # noqa: E402,F401  (the special functions)
