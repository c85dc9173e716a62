#!/usr/bin/env python3
"""The constants of crates/extensor-kernels/src/math/{gamma,inverse_normal}.rs; needs mpmath.

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

from minimax import fit, shortest

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


if __name__ == "__main__":
    every = dict(inverse_normal=inverse_normal, around_two=around_two, far_away=far_away, psi_middle=psi_middle)
    for name in sys.argv[1:] or every:
        every[name]()
