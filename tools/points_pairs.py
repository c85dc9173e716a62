"""The operations as functions of two numbers: arithmetic, losses of a prediction and a target, rows of two."""

import math

from mpmath import mp, mpf

from points_functions import INF, LEAST, NAN, Outside, Say, case
from points_math import *


def both(x, y):
    return variable(x, 0), variable(y, 1)


def pair(name, params="", form="x,y", **more):
    return case(name, params, form, **more)


def zero_at(k, *order):
    return {(0, 0): k, **{i: Say(0.0) for i in order}}


pair("add", nan=False)(lambda x, y: both(x, y)[0] + both(x, y)[1])
pair("subtract", nan=False)(lambda x, y: both(x, y)[0] - both(x, y)[1])
pair("multiply", nan=False)(lambda x, y: both(x, y)[0] * both(x, y)[1])


@pair("divide", extra=((1.0, 1.380649e-23), (3.0, -1e-10)))
def _(x, y):
    if y == 0:
        if x == 0:
            return {}
        sign = math.copysign(1, y)
        return {(0, 0): Num(math.copysign(INF, x) * sign), (1, 0): Say(sign * 1e10), (0, 1): Say(to_float(-mpf(x) * mpf(10) ** 20))}
    a, b = both(x, y)
    return a * recip(b)


@pair("power", others=(0.0, 1.0, 2.0, 3.0, 0.5, -1.0, -0.5, -2.0, 1e-8, 40.0, 2.5, 1e8, 1e-30),
      extra=((2.0, 0.0), (0.0, 2.0), (1.0, 1.0), (1e155, 3.0), (1e-300, 0.5), (1e-300, -1.0), (50.0, 4.0), (1e-160, 2.0), (1.5, 1000.0)))
def _(x, n):
    v, m = mpf(x), mpf(n)
    whole = m == mp.floor(m)
    if v < 0 and not whole:
        raise Outside
    found = {}
    for i, j in indices(2):
        # The i-th derivative by the base is m(m − 1)…xᵐ⁻ⁱ; then each by the exponent is a product rule.
        factors = Jet({(0, 0): Num(1)})
        for k in range(i):
            factors = factors * (variable(n, 1) - k)
        if v < 0 and j > 0:
            continue  # Real powers of a negative number are for whole exponents alone.
        if v == 0:
            if j == 0 and m - i >= 0 and (whole or m - i > 0):
                found[i, 0] = factors.value if m == i else Num(0)
            elif j == 0 and whole and m >= 0:
                found[i, 0] = Num(0)
            elif j == 0 and i == 0:
                found[0, 0] = Num(math.copysign(INF, x) if whole and m % 2 == 1 else INF)
            elif (i, j) == (1, 0):
                found[1, 0] = Say(-1e20, finite=m != -1)
            elif (i, j) == (0, 1) and m >= 0:
                found[0, 1] = Say(0.0)
            elif m - i > 0:
                found[i, j] = Num(0)
            continue
        if v < 0:
            base = mp.power(v, int(m) - i)
            found[i, 0] = factors.value * Num(base, abs(base))
            continue
        base = EXP((m - i) * mp.log(v))
        # An exponent less a whole number is rounded.
        exact = float(m - i) == m - i and single(m - i) == (m - i if single(n) == n else single(m - i))
        rounded = ZERO if exact else abs((m - i) * mp.log(v))
        total, logs = Num(0), Num(mp.log(v), abs(mp.log(v)))
        for q in range(j + 1):
            total = total + math.comb(j, q) * (factors.at(0, q) * logs ** (j - q))
        found[i, j] = total * Num(base, abs(base) * (1 + rounded))
    return found


WHOLE = ((7.5, 2.0), (-7.5, 2.0), (7.5, -2.0), (6.0, 2.0), (1e8, 3.0), (0.5, 1e-8), (-1e-30, 1.0))
pair("floor_divide", order=1, extra=WHOLE, infinite=False)(
    lambda x, y: {(0, 0): NAN} if x == 0 and y == 0 else {(1, 0): Say(0.0), (0, 1): Say(0.0)} if y == 0 else
    {(0, 0): Num(mp.floor(mpf(x) / mpf(y)), abs(mp.floor(mpf(x) / mpf(y)))), (1, 0): Say(0.0), (0, 1): Say(0.0)})


@pair("modulo", order=1, extra=WHOLE, infinite=False)
def _(x, y):
    if y == 0:
        return {(0, 0): NAN}
    q = mp.floor(mpf(x) / mpf(y))
    rest = mpf(x) - q * mpf(y)
    return {(0, 0): Num(rest, abs(rest)), (1, 0): Num(1), (0, 1): Num(-q, abs(q))}


@pair("fmod", order=1, extra=WHOLE + ((-6.5, 4.0), (6.5, -4.0), (1e300, 3.0)), infinite=False)
def _(x, y):
    if y == 0:
        return {(0, 0): NAN}
    q = mpf(x) / mpf(y)
    q = mp.floor(q) if q > 0 else mp.ceil(q)
    rest = mpf(x) - q * mpf(y)
    return {(0, 0): Num(rest, abs(rest)), (1, 0): Num(1), (0, 1): Num(-q, abs(q))}


def chosen(first):
    def f(x, y):
        if x == y:
            return {(0, 0): Num(x), (1, 0): Say(0.5), (0, 1): Say(0.5)}
        return both(x, y)[0 if first(x, y) else 1]
    return f


pair("maximum", infinite=False)(chosen(lambda x, y: x > y))
pair("minimum", infinite=False)(chosen(lambda x, y: x < y))
pair("fmax", infinite=False)(chosen(lambda x, y: x > y))
pair("fmin", infinite=False)(chosen(lambda x, y: x < y))

# Of three numbers the third is the same at all points.
for w in (0.25, 0.0, 1.0, -2.0):
    @pair("lerp", form=f"x,y;{w}", nan=False, infinite=False)
    def _(x, y, w=mpf(w)):
        a, b = both(x, y)
        return a * (1 - w) + b * w
for b, value in ((1.5, 1.0), (-3.0, 0.25), (0.0, 2.0)):
    pair("addcmul", f"value={value}", form=f"x,y;{b}", nan=False, infinite=False)(
        lambda x, y, c=mpf(b) * mpf(value): both(x, y)[0] + both(x, y)[1] * c)
for b, value in ((1.5, 1.0), (-3.0, 0.25)):
    pair("addcdiv", f"value={value}", form=f"x,y;{b}", nan=False, infinite=False)(
        lambda x, y, c=mpf(value) / mpf(b): both(x, y)[0] + both(x, y)[1] * c)


@pair("atan2", extra=((1e-20, 0.0), (3e-11, 4e-11), (1e-300, -1e-300), (1e200, 1e200)), infinite=False)
def _(x, y):
    a, b = mpf(x), mpf(y)
    if x == 0 and (y < 0 or y == 0):
        turn = mp.pi if math.copysign(1, y) < 0 else ZERO
        value = Num(mpf(math.copysign(1, x)) * turn, turn)
        if y == 0:
            return {(0, 0): value, (1, 0): Say(0.0), (0, 1): Say(0.0)}
        # The two sides of the jump have the same slopes.
        found = dict(angle(x, y).d)
        found[0, 0] = value
        return found
    return angle(x, y)


def angle(x, y):
    p, q = both(x, y)
    r = recip(p * p + q * q)
    da, db = q * r, -(p * r)
    v = mp.atan2(mpf(x), mpf(y))
    found = {(0, 0): Num(v, abs(v))}
    for (i, j), d in da.d.items():
        if i + j < ORDER:
            found[i + 1, j] = d
    for (i, j), d in db.d.items():
        if i + j < ORDER:
            found.setdefault((i, j + 1), d)
    return Jet(found)


SMALL = ((3e-11, 4e-11), (3e-200, 4e-200), (3e200, 4e200), (1e-300, 1e-300), (1e8, 1.0), (3.0, 4.0), (-5.0, 12.0))


def radius(x, y):
    a, b = both(x, y)
    return jsqrt(a * a + b * b)


@pair("hypot", extra=SMALL, infinite=False)
def _(x, y):
    return {(0, 0): Num(0), (1, 0): Say(0.0), (0, 1): Say(0.0)} if x == 0 and y == 0 else radius(x, y)


@pair("logaddexp", extra=((1000.0, 1000.0), (0.0, -745.0), (50.0, 10.0), (-3.0, -3.0), (1.0, 90.0)), infinite=False)
def _(x, y):
    a, b = both(x, y)
    return a + jsoftplus(b - a) if x >= y else b + jsoftplus(a - b)


def times_log(shift, log):
    """x·ln(shift + y), 0 where x is."""
    def f(x, y):
        d = mpf(y) + shift
        if d > 0:
            a, b = both(x, y)
            r = 1 / (Num(mpf(y)) + shift)
            return a * compose([call(log, lambda v: 1 / (v + shift), Num(mpf(y))), r, -(r * r), 2 * (r * r * r)], b)
        if d < 0 and x != 0:
            raise Outside
        if d < 0:
            return {(0, 0): Num(0), (1, 0): Say(0.0), (0, 1): Say(0.0)}
        value = Num(0) if x == 0 else Num(-math.copysign(INF, x))
        return {(0, 0): value, (1, 0): Say(to_float(mp.log(LEAST))), (0, 1): Say(to_float(mpf(x) / LEAST))}
    return f


LOGS = ((2.0, 1.0), (0.0, 0.5), (0.0, -2.0), (-1.5, 0.9999999), (3.0, 1e-20), (1e-300, 1e300))
pair("xlogy", extra=LOGS, infinite=False)(times_log(0, mp.log))
pair("xlog1py", extra=LOGS + ((2.0, -1.0), (0.0, -1.0), (0.5, -0.9999999), (1.0, 1e-300)), infinite=False)(times_log(1, mp.log1p))


@pair("copysign", infinite=False)
def _(x, y):
    sign = math.copysign(1, y) * math.copysign(1, x)
    if x == 0:
        return zero_at(Num(0), (1, 0), (0, 1))
    if y == 0:
        return {(0, 0): Num(x) * sign, (1, 0): Num(sign), (0, 1): Say(0.0)}
    return variable(x, 0) * sign


pair("where", form="true,x,y", nan=False, infinite=False)(lambda x, y: both(x, y)[0])
pair("where", form="false,x,y", nan=False, infinite=False)(lambda x, y: both(x, y)[1])


@pair("prelu", infinite=False)
def _(x, alpha):
    a, b = both(x, alpha)
    if x == 0:
        return {(0, 0): Num(0), (1, 0): Say(float(alpha)), (0, 1): Say(0.0)}
    return a if x > 0 else a * b


# Losses of a prediction and its target.
NEAR = ((1.0, 1.0), (2.0, 1.0), (1.5, 0.5), (0.5, 0.25), (1.0000001, 1.0), (-3.0, 4.0), (1e8, 1.0), (0.0, 1.0))
LOSS = dict(infinite=False)


@pair("mean_squared_error", extra=NEAR, **LOSS)
def _(x, t):
    a, b = both(x, t)
    return (a - b) * (a - b)


pair("mean_absolute_error", extra=NEAR, **LOSS)(
    lambda x, t: zero_at(Num(0), (1, 0), (0, 1)) if x == t else both(x, t)[0] - both(x, t)[1] if x > t else both(x, t)[1] - both(x, t)[0])


def bounded(inner, outer, size):
    """A loss of the distance that changes at `size`, where it is differentiable once."""
    def f(x, t):
        a, b = both(x, t)
        d = a - b if x >= t else b - a
        found = inner(d) if d.value.v <= size else outer(d)
        if lands(abs(x - t), size):
            return {k: found.at(*k) for k in ((0, 0), (1, 0), (0, 1))}
        return found
    return f


def lands(x, at):
    """Whether a number is, or is rounded to, another in one of the formats."""
    return float(x) == at or single(x) == at


for beta in (1.0, 0.25):
    pair("smooth_l1_loss", f"beta={beta}", extra=NEAR, **LOSS)(
        bounded(lambda d, b=beta: d * d * (mpf("0.5") / mpf(b)), lambda d, b=beta: d - mpf(b) / 2, beta))
for delta in (1.0, 0.25):
    pair("huber_loss", f"delta={delta}", extra=NEAR, **LOSS)(
        bounded(lambda d: d * d * mpf("0.5"), lambda d, b=delta: (d - mpf(b) / 2) * mpf(b), delta))

SHARES = (0.0, 1.0, 0.5, 0.25, 0.75)


@pair("binary_cross_entropy", others=SHARES, extra=((1e-12, 0.5), (1e-30, 1.0), (1 - 2**-24, 0.0), (0.25, 0.25), (1 - 2**-53, 1.0)), **LOSS)
def _(x, t):
    if not 0 <= x <= 1:
        return {}
    if x in (0.0, 1.0):
        value = Num(100 * abs(mpf(t) - mpf(x)))
        slope = Say(to_float((mpf(x) - mpf(t)) * 10**10), finite=math.copysign(1, x) < 0)
        return {(0, 0): value, (1, 0): slope, (0, 1): Say(100.0 if x == 0 else -100.0)}
    a, b = both(x, t)
    # A logarithm below −100 counts as −100.
    yes = jlog(a) if mp.log(mpf(x)) >= -100 else Jet({(0, 0): Num(-100)})
    log1p = compose([call(mp.log1p, lambda v: 1 / (1 + v), Num(-mpf(x)))] + list(jlog(1 - a).d.get((k, 0), Num(0)) * (-1) ** k for k in (1, 2, 3)), -a)
    found = (b - 1) * log1p - b * yes
    if mp.log(mpf(x)) >= -100:
        return found
    # There the gradient by x is that of the logarithm all the same, (x − t)/(x(1 − x)), and so what
    # mixed derivatives are depends on the order.
    true = (b - 1) * log1p - b * jlog(a)
    return {(k, 0): true.at(k, 0) for k in (1, 2, 3)} | {(0, k): found.at(0, k) for k in range(4)}


@pair("binary_cross_entropy_with_logits", others=SHARES, extra=((50.0, 1.0), (-50.0, 0.0), (-800.0, 0.0), (1e4, 0.0), (1e4, 1.0), (0.0, 0.5)), **LOSS)
def _(x, t):
    a, b = both(x, t)
    return (1 - b) * jsoftplus(a) + b * jsoftplus(-a)


@pair("hinge_loss", form="x;t", others=(1.0, -1.0), extra=((1.0, 1.0), (-1.0, -1.0), (0.99999994, 1.0)), **LOSS)
def _(x, t):
    margin = 1 - variable(x, 0) * mpf(t)
    if margin.value.v != 0 and lands(x * t, 1):
        return {}
    if margin.value.v == 0:
        return {(0, 0): Num(0), (1, 0): Say(0.0)}
    return margin if margin.value.v > 0 else Jet({(0, 0): Num(0)})


for alpha, gamma in ((0.25, 2.0), (0.5, 0.0), (0.75, 1.0), (0.25, 0.5)):
    @pair("focal_loss", f"alpha={alpha} gamma={gamma}", form="x;t", others=(0.0, 1.0, 0.5), extra=((50.0, 1.0), (-50.0, 1.0), (1e4, 0.0), (1e4, 1.0)), **LOSS)
    def _(x, t, alpha=alpha, gamma=gamma):
        a, t = variable(x, 0), mpf(t)
        missed = (1 - t) * jlogistic(a) + t * jlogistic(-a) if t not in (0, 1) else jlogistic(a if t == 0 else -a)
        cost = (1 - t) * jsoftplus(a) + t * jsoftplus(-a)
        return (mpf(alpha) * t + (1 - mpf(alpha)) * (1 - t)) * (jpower(missed, gamma) * cost)


@pair("kl_divergence", others=SHARES + (1e-12, 1e-30, 2.0), extra=((-1.0, 1e-300), (-0.5, 0.60653067)), **LOSS)
def _(x, t):
    if t < 0:
        return {}
    if t == 0:
        return {(0, 0): Num(0), (1, 0): Num(0), (0, 1): Say(to_float(mp.log(mpf(10) ** -10) + 1 - mpf(x)))}
    a, b = both(x, t)
    return b * (jlog(b) - a)


# Rows of two numbers, or of two and a zero.
def row(name, params="", form="row", **more):
    return case(name, params, form, infinite=False, **more)


row("sum", nan=False)(lambda x, y: both(x, y)[0] + both(x, y)[1])
row("mean", nan=False)(lambda x, y: (both(x, y)[0] + both(x, y)[1]) * mpf("0.5"))
row("max_reduce")(chosen(lambda x, y: x > y))
row("min_reduce")(chosen(lambda x, y: x < y))
row("prod", nan=False, extra=((1e-11, 3.0),))(lambda x, y: both(x, y)[0] * both(x, y)[1])
row("prod", form="row0", nan=False, extra=((1e-11, 3.0),))(lambda x, y: Jet({(0, 0): Num(0)}))
row("cumprod", form="row 1", nan=False, extra=((1e-11, 3.0),))(lambda x, y: both(x, y)[0] * both(x, y)[1])
row("cumsum", form="row 1", nan=False)(lambda x, y: both(x, y)[0] + both(x, y)[1])


def spread(x, y, count, ddof):
    """The variance of a row, in two passes."""
    items = list(both(x, y)) + [Jet({(0, 0): Num(0)})] * (count - 2)
    mean = sum(items[1:], items[0]) / count
    squares = [(item - mean) * (item - mean) for item in items]
    return items[0] - mean, sum(squares[1:], squares[0]) / (count - ddof)


def equal(x, y, count):
    return x == y and (count == 2 or x == 0)


for form, count in (("row", 2), ("row0", 3)):
    for ddof in (0, 1):
        row("variance", f"ddof={ddof}", form, extra=SMALL)(lambda x, y, n=count, d=ddof: spread(x, y, n, d)[1])
        row("std", f"ddof={ddof}", form, extra=SMALL)(
            lambda x, y, n=count, d=ddof: zero_at(Num(0), (1, 0), (0, 1)) if equal(x, y, n) else jsqrt(spread(x, y, n, d)[1]))
row("norm", extra=SMALL)(lambda x, y: zero_at(Num(0), (1, 0), (0, 1)) if x == 0 and y == 0 else radius(x, y))
row("norm", form="row0", extra=SMALL)(lambda x, y: zero_at(Num(0), (1, 0), (0, 1)) if x == 0 and y == 0 else radius(x, y))

LOGITS = ((1000.0, 1000.0), (0.0, -745.0), (50.0, 10.0), (-3.0, -3.0), (1.0, 90.0), (1e4, 9999.0))


@row("logsumexp", extra=LOGITS)
def _(x, y):
    # Its derivatives are made of eˣ⁻ʸ with the rounded output y.
    a, b = both(x, y)
    whole = a + jsoftplus(b - a) if x >= y else b + jsoftplus(a - b)
    out = whole.value
    shares = [exp(Num(mpf(v)) - Num(out.v, abs(out.v))) for v in (x, y)]
    return Jet(whole.d | {k: Num(v.v, e) for k, v, e in polynomials(shares, (1, 0), (0, 1))})


def polynomials(shares, *starts):
    """The derivatives of a softmax's outputs as polynomials of them, with the size of their terms."""
    def slope(polynomial, axis):
        # d yᵢ/dxₐ = yᵢ(δᵢₐ − yₐ)
        found = {}
        for (m, n), c in polynomial.items():
            for power, own in ((m, axis == 0), (n, axis == 1)):
                if power == 0:
                    continue
                if own:
                    found[m, n] = found.get((m, n), 0) + c * power
                k = (m + 1, n) if axis == 0 else (m, n + 1)
                found[k] = found.get(k, 0) - c * power
        return found

    def value(polynomial):
        v = sum((c * shares[0].v**m * shares[1].v**n for (m, n), c in polynomial.items()), ZERO)
        e = ZERO
        for (m, n), c in polynomial.items():
            size = abs(c) * shares[0].v**m * shares[1].v**n
            relative = [(s.e / s.v if s.v else ZERO) for s in shares]
            e += size * (1 + m * relative[0] + n * relative[1])
        return Num(v, e)

    known = {start: {start: 1} for start in starts}
    for _ in range(ORDER):
        for (i, j), p in list(known.items()):
            for axis, k in ((0, (i + 1, j)), (1, (i, j + 1))):
                if sum(k) <= ORDER + (len(starts) == 1) and k not in known:
                    known[k] = slope(p, axis)
    for k, p in known.items():
        v = value(p)
        yield k, v, v.e


@row("softmax", form="row 0", extra=LOGITS)
def _(x, y):
    d = Num(mpf(x)) - Num(mpf(y))
    shares = [logistic(d), logistic(-d)]
    return {(i - 1, j): v for (i, j), v, _ in polynomials(shares, (1, 0)) if i >= 1 and i - 1 + j <= ORDER}


@row("log_softmax", form="row 0", extra=LOGITS)
def _(x, y):
    a, b = both(x, y)
    found = -jsoftplus(b - a)
    d = Num(mpf(x)) - Num(mpf(y))
    shares = [logistic(d), logistic(-d)]
    # From the output: 1 − e^y₀ and −e^y₁, and the derivatives of a softmax from there on.
    shares = [Num(s.v, s.v * (1 + abs(mp.log(s.v)))) for s in shares]
    result = {(0, 0): found.value}
    for (i, j), v, _ in polynomials(shares, (1, 0)):
        if 1 <= i and i + j <= ORDER:
            result[i, j] = Num(found.at(i, j).v, v.e + (1 if (i, j) == (1, 0) else 0))
    for (i, j), v, _ in polynomials(shares[::-1], (1, 0)):
        if 1 <= i and i + j <= ORDER and (j, i) not in result:
            result[j, i] = Num(found.at(j, i).v, v.e)
    return result


@row("layer_norm", "eps=0.0", "row0 0", extra=SMALL)
def _(x, y):
    if x == 0 and y == 0:
        return {(0, 0): Num(0)}
    apart, variance = spread(x, y, 3, 0)
    return apart * jrsqrt(variance)


@row("rms_norm", "eps=0.0", "row 0", extra=SMALL)
def _(x, y):
    if x == 0 and y == 0:
        return {(0, 0): Num(0)}
    a, b = both(x, y)
    return a * jrsqrt((a * a + b * b) * mpf("0.5"))
