"""The special functions, written from their definitions; see points_functions.py.

What is made of the gamma function or inverts another is computed with some hundred digits, not thousands: each
formula here is one in which nothing cancels, so that these are enough.
"""

import math

from mpmath import mp, mpf

from points_functions import INF, LEAST, NAN, TAILS, Outside, Say, primitive, unary
from points_math import ERFC, EXP, ZERO, Num, to_float

DIGITS = 600


def narrow(f):
    """With fewer digits."""
    def g(*args):
        with mp.workprec(DIGITS):
            return f(*args)
    return g


def each(*values):
    return [Num(y, abs(y)) for y in values]


def exp2(power):
    return lambda v: mp.log(2) ** power * EXP(v * mp.log(2))


primitive("exp2", exp2(0), exp2(1), exp2(2), exp2(3),
          points=(1023.9, 1024.0, 1024.4, -1022.0, -1074.0, -1075.0, 127.9, 128.0, -126.0, -149.0, -150.0, 0.5, -0.5, 1.5))


@unary("cbrt", points=(8.0, 27.0, -64.0, 0.001))
def _(x):
    v = mpf(x)
    if v == 0:
        return [Num(0), Say(to_float(1 / (3 * LEAST**2)))]
    y = mp.cbrt(abs(v)) * mp.sign(v)
    return each(y, y / v / 3, -2 * y / v**2 / 9, 10 * y / v**3 / 27)


@unary("logit", points=(0.5, 0.25, 0.75, 1.0, 0.999), infinite=False)
def _(x):
    v = mpf(x)
    if not 0 <= v <= 1:
        raise Outside
    if v in (0, 1):
        sign = math.copysign(1, x)
        return [Num(-mp.inf if v == 0 else mp.inf), Say(sign * 1e10)]
    d = v * (1 - v)
    return each(mp.log(v / (1 - v)), 1 / d, (2 * v - 1) / d**2, (2 - 6 * d) / d**3)


@unary("sinc", points=(0.5, 1.5, -0.5, -2.0, 1.4302966531242027, -2.459024, 100000.5, 1e15 + 0.5), infinite=False)
def _(x):
    v = mpf(x)
    if v == 0:
        return [Num(1, 1), Num(0), Num(-(mp.pi**2) / 3, 4), Num(0)]
    sine, cosine = mp.sinpi(v), mp.cospi(v)
    y = sine / (mp.pi * v)
    first = (cosine - y) / v
    second = (-mp.pi * sine - 2 * first) / v
    third = (-(mp.pi**2) * cosine - 3 * second) / v
    if abs(v) < 0.5:
        return each(y, first, second, third)
    # From a half up it is computed as it is written here.
    e = [abs(y), (abs(cosine) + abs(y)) / abs(v)]
    e.append((mp.pi * abs(sine) + 2 * e[1]) / abs(v))
    e.append((mp.pi**2 * abs(cosine) + 3 * e[2]) / abs(v))
    return [Num(*pair) for pair in zip((y, first, second, third), e)]


@unary("entr", points=(0.36787944117144233,))
def _(x):
    v = mpf(x)
    if v < 0:
        return [Num(-mp.inf), NAN]
    if v == 0:
        return [Num(0), Say(to_float(-mp.log(LEAST) - 1))]
    log = mp.log(v)
    return [Num(-v * log, abs(v * log)), Num(-log - 1, abs(log) + 1), *each(-1 / v, 1 / v**2)]


def is_pole(v):
    return v <= 0 and mp.floor(v) == v


@narrow
def psi(n, v):
    """The derivative number n of ψ, and the size of the terms it is made of."""
    v, sign = mpf(v), -1 if n % 2 == 0 else 1
    if v > mpf(2) ** -20:
        y = mp.psi(n, v)
        return Num(y, abs(y))
    # To above 0 by one step (near 0 mpmath loses digits), or by reflection.
    if v > -1:
        own = sign * mp.factorial(n) / v ** (n + 1)
        y = own + mp.psi(n, 1 + v)
        # Powers of n + 1 factors, of a number that is rounded.
        return Num(y, (n + 2) * (abs(own) + abs(mp.psi(n, 1 + abs(v)))))
    other = mp.psi(n, 1 - v)
    # The sum over all whole numbers is that of a number between 0 and 1, reflected.
    r = v - mp.floor(v)
    both = mp.psi(n, r) - (-1) ** n * mp.psi(n, 1 - r)
    y = both + (-1) ** n * other
    distance = min(r, 1 - r)
    return Num(y, (n + 2) * (mp.factorial(n) / distance ** (n + 1) + abs(other) + 2 * abs(mp.psi(n, mpf(1)))))


def off(x):
    """That 10⁻¹⁰ away from 0 stands for what a derivative is at a pole."""
    return math.copysign(1, x) * LEAST


GAMMA = (1.0, 2.0, 0.5, 1.5, 2.5, 3.5, 8.5, 1.4616321449683622, -0.5, -1.5, -2.4570247382208006, -2.75, -0.25, 6.0, 9.99, 171.6, -170.5)


@unary("lgamma", points=GAMMA + (2.5563481638716906e305, 4.0850031e36), infinite={-1: {(0, 0): INF, (1, 0): NAN}})
@narrow
def _(x):
    v = mpf(x)
    if is_pole(v):
        return [Num(mp.inf), Say(to_float(psi(0, off(x)).v))]
    if v > 0:
        # ln Γ(1 + v) − ln v near 0, where mpmath loses digits.
        y = mp.loggamma(v) if v > mpf(2) ** -20 else mp.loggamma(1 + v) - mp.log(v)
        value = Num(y, abs(y))
    else:
        above, reflected = mp.loggamma(1 - v), mp.log(mp.pi / abs(mp.sinpi(v)))
        value = Num(reflected - above, abs(above) + abs(reflected) + abs(mp.log(-v)))
        if abs(v) < mpf(2) ** -60:
            value = Num(value.v, abs(value.v))
    return [value] + [psi(n, v) for n in range(3)]


@unary("digamma", points=GAMMA, infinite={-1: {(0, 0): NAN, (1, 0): NAN}})
@narrow
def _(x):
    v = mpf(x)
    if is_pole(v):
        if v < 0:
            raise Outside
        return [Num(-INF if math.copysign(1, x) > 0 else INF), Say(to_float(psi(1, off(x)).v))]
    return [psi(n, v) for n in range(4)]


for order in (0, 1, 2, 5):
    @unary("polygamma", f"n={order}", points=GAMMA, infinite={-1: {(0, 0): NAN, (1, 0): NAN}})
    @narrow
    def _(x, order=order):
        v = mpf(x)
        if is_pole(v):
            if v < 0 and order % 2 == 0:
                raise Outside
            infinite = INF if order % 2 == 1 or math.copysign(1, x) < 0 else -INF
            return [Num(infinite), Say(to_float(psi(order + 1, off(x)).v))]
        return [psi(order + n, v) for n in range(4)]


def normal_below(p):
    """The y with Φ(y) = p, for p up to ½."""
    if p == mpf("0.5"):
        return ZERO
    target = mp.log(p)
    y = -mp.sqrt(-2 * target) if p < mpf("0.1") else (p - mpf("0.5")) * mp.sqrt(2 * mp.pi)
    for _ in range(200):
        cdf = mp.erfc(-y / mp.sqrt(2)) / 2
        step = (mp.log(cdf) - target) * cdf * mp.sqrt(2 * mp.pi) * mp.exp(y * y / 2)
        y -= step
        if abs(step) < abs(y) * mpf(2) ** (60 - mp.prec // 2):
            return y
    raise ArithmeticError(p)


BOTH = (0.5, 0.65, 0.35, 0.175, 0.825, 0.25, 0.75, 0.999, 1 - 1e-10, 1.0)


@unary("erfinv", points=BOTH + tuple(-v for v in BOTH), infinite=False)
@narrow
def _(x):
    v = mpf(x)
    if abs(v) > 1:
        raise Outside

    def at(c):
        return -normal_below(c / 2) / mp.sqrt(2)
    if abs(v) == 1:
        return [Num(mp.inf * v), Say(to_float(mp.sqrt(mp.pi) / 2 * mp.exp(at(LEAST) ** 2)))]
    tiny = abs(v) < mpf(2) ** -160
    y = v * mp.sqrt(mp.pi) / 2 if tiny else at(1 - abs(v)) * mp.sign(v)
    s = mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
    return each(y, s, 2 * y * s**2, 2 * s**3 * (1 + 4 * y * y))


@unary("ndtri", points=BOTH, infinite=False)
@narrow
def _(p):
    v = mpf(p)
    if not 0 <= v <= 1:
        raise Outside
    root = mp.sqrt(2 * mp.pi)
    if v in (0, 1):
        return [Num(-mp.inf if v == 0 else mp.inf), Say(to_float(root * mp.exp(normal_below(LEAST) ** 2 / 2)))]
    y = normal_below(v) if v <= 0.5 else -normal_below(1 - v)
    s = root * mp.exp(y * y / 2)
    return each(y, s, y * s**2, s**3 * (1 + 2 * y * y))


BELLS = (1.0, -1.0, 3.0, -4.0, -3.0, -5.0, 5.0, 8.3, 10.0, -12.8, -14.0, -36.0, -37.5, -38.5, 37.0, -1000.0)


@unary("ndtr", points=BELLS)
def _(x):
    v, n = mpf(x), Num(mpf(x))
    y, bell = ERFC(-v / mp.sqrt(2)) / 2, EXP(-v * v / 2) / mp.sqrt(2 * mp.pi)
    later = Num(bell, bell * (1 + v * v / 2))
    return [Num(y, y), Num(bell, bell), -(n * later), (n * n - 1) * later]




@narrow
def bell_derivatives(a):
    """The derivatives of e⁻ᵃ I₀(a) for a >= 0, and those of I₀(a), the latter times e⁻ᵃ: both up to the fifth."""
    if a > 300:
        # From 1/π ∫ uⁿ e⁻ᵃᵘ/√(u(2 − u)) du, and Iₙ(a) is a sum of these.
        falling = []
        for n in range(6):
            total, j = mpf(0), 0
            term = mp.gamma(n + mpf("0.5")) / (mp.pi * mp.sqrt(2) * a**n * mp.sqrt(a))
            while term > total * mpf(2) ** -DIGITS:
                total, j, term = total + term, j + 1, term * (j + mpf("0.5")) * (n + j + mpf("0.5")) / (2 * (j + 1) * a)
            falling.append(total)
        scaled = [(-1) ** n * y for n, y in enumerate(falling)]
        return scaled, [sum(math.comb(n, k) * scaled[k] for k in range(n + 1)) for n in range(6)]
    with mp.workprec(2 * DIGITS):
        i = [mp.besseli(n, a) * mp.exp(-a) for n in range(6)]
        # Each derivative of Iₙ is the mean of its neighbours.
        grown = [sum(math.comb(n, k) * i[abs(n - 2 * k)] for k in range(n + 1)) / mpf(2) ** n for n in range(6)]
        return [sum((-1) ** (n - k) * math.comb(n, k) * grown[k] for k in range(n + 1)) for n in range(6)], grown


BESSEL = (8.0, -8.0, 1.5451, 20.0, -30.0, 32.0, 34.0, -36.0, 50.0, 88.7, 91.9, 92.0, 700.0, -709.78, 713.98, 714.5, 1e5, 0.001, 800.0)
EVEN = {1: {(0, 0): INF, (1, 0): INF}, -1: {(0, 0): INF, (1, 0): -INF}}
ODD = {1: {(0, 0): INF, (1, 0): INF}, -1: {(0, 0): -INF, (1, 0): INF}}


def signed(x, values, odd):
    """The derivatives of an even function, or of an odd one, from those at |x|."""
    return each(*(-y if x < 0 and (n + odd) % 2 else y for n, y in enumerate(values)))


for first, name, limits in ((0, "i0", EVEN), (1, "i1", ODD)):
    @unary(name, points=BESSEL, infinite=limits)
    def _(x, first=first):
        a = abs(mpf(x))
        return signed(x, [y * EXP(a) for y in bell_derivatives(a)[1][first:first + 4]], first)


@unary("i0e", points=BESSEL)
def _(x):
    if x == 0:
        return [Num(1), Say(0.0)]
    return signed(x, bell_derivatives(abs(mpf(x)))[0][:4], 0)


@unary("i1e", points=BESSEL)
def _(x):
    if x == 0:
        return [Num(0), Num(mpf("0.5"))]
    scaled, grown = bell_derivatives(abs(mpf(x)))
    found = [grown[1]] + [scaled[n] + scaled[n + 1] for n in (1, 2, 3)]
    # Each derivative is the difference of two terms, and 0 somewhere.
    sizes = [abs(grown[1])] + [abs(scaled[n]) + abs(scaled[n + 1]) for n in (1, 2, 3)]
    # Where it falls they are the smaller the further away, and so is what is lost.
    return [Num(y.v, size) for y, size in zip(signed(x, found, 1), sizes)]


@unary("log_ndtr", points=BELLS + (2.0, -2.0, -8.0, 20.0, -20.0, -39.5, 40.0, -1e5, -0.25, -30.0), infinite={-1: {(0, 0): -INF, (1, 0): INF}})
def _(x):
    v = mpf(x)
    if v < -2000:
        # λ = a + Σ cₖ a⁻²ᵏ⁻¹ at a = −x, from λ′ = λ (λ − a).
        a, c = -v, [1]
        for k in range(1, 30):
            c.append(-(2 * k - 1) * c[-1] - sum(c[j] * c[k - 1 - j] for j in range(k)))
        rest = lambda n: sum(mpf(c_) * mp.ff(-2 * k - 1, n) * a ** (-2 * k - 1 - n) for k, c_ in enumerate(c))
        first, second, third = a + rest(0), -1 - rest(1), rest(2)
        return each(-a * a / 2 - mp.log(mp.sqrt(2 * mp.pi) * first), first, second, third)
    with mp.workprec(3000):
        below = ERFC(-v / mp.sqrt(2)) / 2
        first = EXP(-v * v / 2) / mp.sqrt(2 * mp.pi) / below
        second = -first * (v + first)
        third = -second * (v + first) - first * (1 + second)
        value = mp.log(below) if v < 1 else mp.log1p(-ERFC(v / mp.sqrt(2)) / 2)
        return each(value, first, second, third)
