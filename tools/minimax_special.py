#!/usr/bin/env python3
"""The constants of crates/extensor-kernels/src/math/{gamma,normal,bessel}.rs; needs mpmath.

    python tools/minimax_special.py             (all, some minutes)
    python tools/minimax_special.py erfinv ...  (those named)

Each is the polynomial whose largest relative error of the function it serves is least, in f64: these
functions are computed in f64 for f32 too. Prints the coefficients, lowest first, and the error that they
leave when rounded.
"""
import sys
from functools import lru_cache

import mpmath as mpm
from mpmath import erfc, erfinv, exp, findroot, log, mp, mpf, pi, sqrt

from minimax import fit, horner, remez, shortest, to_format

mp.dps = 40


def by(k):
    """x as a function of t = (x - k)/(x + k)."""
    return lambda t: k * (1 + t) / (1 - t)


def show(name, function, low, high, terms, weight=None):
    found, worst = fit(function, weight or (lambda t: 1 / abs(function(t))), mpf(low), mpf(high), terms - 1, "f64")
    print(f"{name}: {terms} terms, relative error 2^{float(log(worst, 2)):.1f}")
    for c in found:
        print(f"    {shortest(c, 'f64')},")
    sys.stdout.flush()


@lru_cache(None)
def central(z):
    """erfinv(x)/x for x² = z."""
    x = sqrt(z) if z > mpf(10) ** -30 else mpf(10) ** -15
    # mpmath's own is by Newton's method from a good guess, in the precision at hand.
    return erfinv(x) / x


@lru_cache(None)
def tail(r):
    """−y/r where Φ(y) = e^(−r²)."""
    target = -r * r

    def off(y):
        return log(erfc(y / sqrt(mpf(2))) / 2) - target

    y = r * sqrt(mpf(2)) - log(4 * pi * r * r) / (2 * sqrt(mpf(2)) * r) if r > 2 else r
    for _ in range(60):
        slope = -exp(-y * y / 2) / sqrt(2 * pi) / (erfc(y / sqrt(mpf(2))) / 2)
        step = off(y) / slope
        y -= step
        if abs(step) < mpf(10) ** -36 * abs(y):
            break
    return y / r


def inverse_normal():
    show("CENTRAL", central, 0, mpf("0.4228"), 20)
    low, middle, high = mpf("1.32"), mpf("5.2"), mpf("27.35")
    for name, a, b in (("NEAR", low, middle), ("FAR", middle, high)):
        k = mpf(float(sqrt(a * b).__round__(2)))
        end = max((b - k) / (b + k), (k - a) / (k + a))
        show(f"{name}, k = {k}", lambda t: tail(by(k)(t)), -end, end, 24)


def around_two():
    """(lgamma(2 + z)/z − (1 − γ))/z."""
    first = 1 - mp.euler
    f = lambda z: (mpm.loggamma(2 + z) / z - first) / z if abs(z) > mpf(10) ** -15 else mp.zeta(2) / 2 - mpf("0.5")
    high = mpf(float(first))
    print("AROUND_TWO_FIRST", repr(float(high)), repr(float(first - high)))
    show("AROUND_TWO", f, mpf("-0.5"), mpf("0.5"), 18)


def far_away():
    """What Stirling's series and that of ψ lack of their first terms, in w = x⁻², for x from 8 and from 6 up."""
    def gamma(w):
        if w < mpf(10) ** -8:
            return mpf(1) / 12 - w / 360 + w**2 / 1260 - w**3 / 1680
        x = 1 / sqrt(w)
        return x * (mpm.loggamma(x) - (x - mpf("0.5")) * (log(x) - 1) - log(2 * pi) / 2 + mpf("0.5"))

    def psi(w):
        if w < mpf(10) ** -8:
            return mpf(1) / 12 - w / 120 + w**2 / 252 - w**3 / 240
        x = 1 / sqrt(w)
        return (log(x) - mpm.psi(0, x) - 1 / (2 * x)) / w

    for name, f, low, terms in (("STIRLING", gamma, 63, 8), ("PSI_FAR", psi, 36, 11)):
        show(name, f, 0, mpf(1) / low, terms)


def psi_middle():
    """ψ(x)/(x − x₀) around 3/2, where x₀ is its zero."""
    zero = findroot(lambda x: mpm.psi(0, x), mpf("1.4616"))
    parts, rest = [], zero
    for _ in range(2):
        parts.append(mpf(float(rest)))
        rest -= parts[-1]
    print("PSI_ZERO", [float(p).hex() for p in parts], [repr(float(p)) for p in parts])
    f = lambda z: mpm.psi(0, z + mpf("1.5")) / (z + mpf("1.5") - zero) if abs(z + mpf("1.5") - zero) > mpf(10) ** -15 else mpm.psi(1, zero)
    show("PSI_MIDDLE", f, mpf("-0.5"), mpf("0.5"), 23)


TINY = mpf(10) ** -30


def show_in_two(name, function, low, high, terms):
    """Likewise, with what the first coefficient lacks, without which its rounding would be most of the error."""
    weight = lambda t: 1 / abs(function(t))
    low, high = mpf(low), mpf(high)
    found = remez(function, weight, low, high, terms - 1)
    rounded = [to_format(c, "f64") for c in found]
    rest = to_format(found[0] - rounded[0], "f64")
    points = (low + (high - low) * (mpf(i) + mpf(1) / 3) / 4000 for i in range(4000))
    worst = max(weight(t) * abs(horner(rounded, t) + rest - function(t)) for t in points)
    print(f"{name}: {terms} terms, relative error 2^{float(log(worst, 2)):.1f}")
    print(f"    first: Dd {{ hi: {float(rounded[0])!r}, lo: {float(rest)!r} }}")
    for c in rounded[1:]:
        print(f"    {shortest(c, 'f64')},")
    sys.stdout.flush()


def near(function, k, end, more=0):
    """A function that falls slowly, like 1/a or so, times 1 + a, and 1 + `more` a, for a from 0 to 8, as one of t = (end a − k)/(a + k),
    which goes from −1 to 1."""
    def f(t):
        a = k * (1 + t) / (end - t)
        return (1 + a) * (1 + more * a) * function(a)
    return lru_cache(None)(f)


@lru_cache(None)
def bell(n, a):
    """The derivative number n of e⁻ᵃ I₀(a), and without its sign."""
    if a > 60:
        total, term, j = mpf(0), mp.gamma(n + mpf("0.5")) / (pi * sqrt(mpf(2)) * a ** (n + mpf("0.5"))), 0
        while term > total * mpf(10) ** -38:
            total += term
            term *= (j + mpf("0.5")) * (n + j + mpf("0.5")) / (2 * (j + 1) * a)
            j += 1
        return total
    with mp.workdps(80):
        zero, one = mp.besseli(0, a), mp.besseli(1, a)
        return exp(-a) * (zero if n == 0 else zero - one)


def bessel():
    one = lru_cache(None)(lambda a: exp(-a) * mp.besseli(1, a) / a if a > mpf(10) ** -20 else mpf("0.5"))
    show_in_two("ZERO_NEAR", near(lambda a: bell(0, a), 16, 5), -1, 1, 26)
    show_in_two("FALL_NEAR", near(lambda a: bell(1, a), 16, 5, mpf(1) / 4), -1, 1, 27)
    show_in_two("ONE_NEAR", near(one, 16, 5, mpf(1) / 4), -1, 1, 27)
    for n, name in enumerate(("ZERO", "FALL")):
        # In t = 16/a − 1.
        a = lambda t: 16 / max(1 + t, TINY)
        show_in_two(f"{name}_FAR", lru_cache(None)(lambda t: bell(n, a(t)) * a(t) ** (n + mpf("0.5"))), -1, 1, 27 + 3 * n)


@lru_cache(None)
def hazard(a):
    """φ(a)/Φ(-a) - a."""
    with mp.workdps(60 + int(2 * log(a + 10, 10))):
        return sqrt(2 / pi) * exp(-a * a / 2) / erfc(a / sqrt(mpf(2))) - a


def hazards():
    show_in_two("HAZARD_NEAR", near(hazard, 4, 2), -1, 1, 24)

    @lru_cache(None)
    def beyond(w):
        if w < mpf(10) ** -6:
            # 1/(1 + 2w/(1 + 3w/(…)))
            value = mpf(1)
            for m in range(40, 1, -1):
                value = 1 + m * w / value
            return 1 / value
        a = 1 / sqrt(w)
        return a * hazard(a)
    show("HAZARD_FAR", beyond, 0, mpf(1) / 64, 13)


if __name__ == "__main__":
    every = dict(bessel=bessel, hazards=hazards, inverse_normal=inverse_normal, around_two=around_two, far_away=far_away, psi_middle=psi_middle)
    for name in sys.argv[1:] or every:
        every[name]()
