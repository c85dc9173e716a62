"""Numbers that know how far rounding may move them, and jets of them: values with all derivatives.

A `Num` is a number of thousands of bits, `v`, and `e`: how far a formula in ordinary arithmetic may be off
there, in units of the roundoff u (2⁻⁵³ in f64, 2⁻²⁴ in f32). Every operation adds what its own rounding does
and passes on what its operands' did (a running error analysis, to first order in u). Where a derivative is the
small difference of large terms, `e` is of the terms' size, and that is what a check must allow for.

A `Jet` holds the derivatives of a function of one or two numbers, by how often it was differentiated by each.
"""

import math
import struct
from fractions import Fraction
from math import comb

from mpmath import mp, mpf

ORDER = 3
ZERO = mpf(0)


def within(f, bound):
    """`f`, not asked for what is 0, infinite or constant to more digits than anybody has."""
    return lambda v: f(min(max(v, -mpf(bound)), mpf(bound)))


# Beyond 2⁴⁰ all of these have left the range of f64, or reached their limit.
EXP, EXPM1, SINH, COSH, TANH = (within(f, 2**40) for f in (mp.exp, mp.expm1, mp.sinh, mp.cosh, mp.tanh))
ERF, ERFC = within(mp.erf, 2000), within(mp.erfc, 2000)


class Num:
    """A number and how far rounding may have moved it, in units of u."""

    __slots__ = ("v", "e")

    def __init__(self, v, e=ZERO):
        self.v, self.e = mpf(v), e

    def __add__(self, other):
        other = num(other)
        v = self.v + other.v
        # Adding an exact zero is not rounded.
        own = ZERO if (self.v == 0 and self.e == 0) or (other.v == 0 and other.e == 0) else abs(v)
        return Num(v, self.e + other.e + own)

    def __mul__(self, other):
        other = num(other)
        v = self.v * other.v
        exact = abs(self.v) == 1 and self.e == 0 or abs(other.v) == 1 and other.e == 0
        return Num(v, abs(self.v) * other.e + abs(other.v) * self.e + (ZERO if exact else abs(v)))

    def __neg__(self):
        return Num(-self.v, self.e)

    def __sub__(self, other):
        return self + (-num(other))

    def __rsub__(self, other):
        return num(other) + (-self)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other):
        other = num(other)
        v = self.v / other.v
        return Num(v, (self.e + abs(v) * other.e) / abs(other.v) + abs(v))

    def __rtruediv__(self, other):
        return num(other) / self

    def __pow__(self, n):
        result = Num(1)
        for _ in range(n):
            result = result * self
        return result


def num(x):
    return x if isinstance(x, Num) else Num(x)


def call(f, slope, a):
    """f(a), rounded, of a number that was rounded."""
    v = f(a.v)
    return Num(v, abs(v) + (abs(slope(a.v)) * a.e if a.e else ZERO))


def indices(variables):
    """How often to differentiate by each variable, for all derivatives up to the third."""
    if variables == 1:
        return [(i, 0) for i in range(ORDER + 1)]
    return [(k - j, j) for k in range(ORDER + 1) for j in range(k + 1)]


class Jet:
    """A function's derivatives at a point; those that are not there are exactly 0."""

    __slots__ = ("d",)

    def __init__(self, d):
        self.d = d

    def at(self, i, j):
        return self.d.get((i, j), Num(0))

    @property
    def value(self):
        return self.at(0, 0)

    def slope(self, axis):
        """The derivative by a variable, a jet of one order less."""
        i, j = (1, 0) if axis == 0 else (0, 1)
        return Jet({(p - i, q - j): x for (p, q), x in self.d.items() if p >= i and q >= j})

    def __add__(self, other):
        other = jet(other)
        both = set(self.d) | set(other.d)
        return Jet({k: self.d[k] + other.d[k] if k in self.d and k in other.d else (self.d.get(k) or other.d[k]) for k in both})

    def __neg__(self):
        return Jet({k: -x for k, x in self.d.items()})

    def __sub__(self, other):
        return self + (-jet(other))

    def __rsub__(self, other):
        return jet(other) + (-self)

    def __mul__(self, other):
        if not isinstance(other, Jet):
            c = num(other)
            return Jet({k: x * c for k, x in self.d.items()})
        d = {}
        for (i, j), x in self.d.items():
            for (p, q), y in other.d.items():
                k = (i + p, j + q)
                if sum(k) > ORDER:
                    continue
                term = x * y * (comb(k[0], i) * comb(k[1], j))
                d[k] = d[k] + term if k in d else term
        return Jet(d)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other):
        return self * (recip(other) if isinstance(other, Jet) else 1 / num(other))

    def __rtruediv__(self, other):
        return recip(self) * other


def jet(x):
    return x if isinstance(x, Jet) else Jet({(0, 0): num(x)})


def variable(x, axis):
    return Jet({(0, 0): Num(x), (1, 0) if axis == 0 else (0, 1): Num(1)})


def compose(outer, u):
    """g(u), from g and its derivatives at u's value (one more of them than `outer` derivatives are wanted)."""
    result = {(0, 0): outer[0]}
    if len(outer) > 1:
        inner = compose(outer[1:], u)
        for axis in (0, 1):
            step = (1, 0) if axis == 0 else (0, 1)
            for (p, q), x in (inner * u.slope(axis)).d.items():
                k = (p + step[0], q + step[1])
                if sum(k) <= ORDER and k not in result:
                    result[k] = x
    return Jet(result)


def recip(u):
    r = 1 / u.value
    return compose([r, -(r * r), 2 * (r * r * r), -6 * (r * r * r * r)], u)


# Elementary functions of a Num: as good as a library's, the last digit apart.

def exp(a):
    return call(EXP, EXP, a)


def log(a):
    return call(mp.log, lambda x: 1 / x, a)


def sqrt(a):
    return call(mp.sqrt, lambda x: 1 / (2 * mp.sqrt(x)), a)


def logistic(a):
    """1/(1 + e⁻ᵃ)."""
    f = lambda x: 1 / (1 + EXP(-x))
    return call(f, lambda x: f(x) * f(-x), a)


def power(a, n):
    """aⁿ for a plain number n."""
    return call(lambda x: mp.power(x, n), lambda x: n * mp.power(x, n - 1), a)


# The same of jets.

def jexp(u):
    return compose([exp(u.value)] * 4, u)


def jlog(u):
    r = 1 / u.value
    return compose([log(u.value), r, -(r * r), 2 * (r * r * r)], u)


def jsqrt(u):
    y = sqrt(u.value)
    r = 1 / u.value
    return compose([y, y * r * mpf("0.5"), y * r * r * mpf("-0.25"), y * r * r * r * mpf("0.375")], u)


def jrsqrt(u):
    r = 1 / u.value
    y = call(lambda x: 1 / mp.sqrt(x), lambda x: 1 / (2 * x * mp.sqrt(x)), u.value)
    return compose([y, y * r * mpf("-0.5"), y * r * r * mpf("0.75"), y * r * r * r * mpf("-1.875")], u)


def jpower(u, n):
    """uⁿ for a plain number n."""
    n, a = mpf(n), u.value
    factor, outer = mpf(1), []
    for k in range(4):
        outer.append(Num(0) if factor == 0 else factor * power(a, n - k))
        factor *= n - k
    return compose(outer, u)


def logistic_parts(a):
    """The logistic function and its derivatives: all from σ(a) and σ(−a), neither of which loses a digit."""
    s, c = logistic(a), logistic(-a)
    slope, lean = s * c, c - s
    return [s, slope, slope * lean, slope * (lean * lean - 2 * slope)]


def jlogistic(u):
    return compose(logistic_parts(u.value), u)


def jsoftplus(u):
    f = lambda x: mp.log1p(EXP(x)) if x < 0 else x + mp.log1p(EXP(-x))
    value = call(f, lambda x: 1 / (1 + EXP(-x)), u.value)
    return compose([value] + logistic_parts(u.value)[:3], u)


def single(x):
    """The nearest f32."""
    return struct.unpack("f", struct.pack("f", x))[0] if abs(x) < 3.4e38 else math.copysign(math.inf, x)


def to_float(x):
    """The nearest f64, ties to even, subnormals and overflow included."""
    if x == 0:
        return 0.0
    if mp.isinf(x) or mp.isnan(x):
        return float(x)
    sign, man, exponent, bits = x._mpf_
    top = exponent + bits
    if top > 1025:
        return -math.inf if sign else math.inf
    if top < -1080:
        return -0.0 if sign else 0.0
    value = Fraction(int(man)) * (Fraction(2) ** exponent)
    try:
        value = value.numerator / value.denominator
    except OverflowError:
        value = math.inf
    return -value if sign else value
