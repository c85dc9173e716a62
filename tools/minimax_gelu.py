#!/usr/bin/env python3
"""Finds the polynomials of `gelu` in crates/extensor-kernels/src/math/erf.rs; needs mpmath.

With t = (a - k)/(a + k), Φ(-a) e^(a²/2) / (1 - t) in powers of t, for a from 0 to where Φ(-a) has
vanished, so that the largest relative error is least. Prints the coefficients, rounded and divided by
2^down, and the relative error that they have in exact arithmetic.
"""
import sys

from mpmath import erfc, exp, log, mpf, sqrt

from minimax import fit, shortest


def tail(kind, k, far, terms, down):
    def function(t):
        a = k * (1 + t) / (1 - t)
        return exp(a**2 / 2) * erfc(a / sqrt(2)) / 2 / (1 - t)

    high = (far - k) / (far + k)
    found, worst = fit(function, lambda t: 1 / function(t), mpf(-1), high, terms - 1, kind)
    print(f"{kind}: k = {k}, 0 <= a <= {float(far):.2f}, t <= {float(high):.3f},", end=" ")
    print(f"relative error 2^{float(log(worst, 2)):.1f}, down {down}")
    for c in found:
        print(f"        {shortest(c / 2**down, kind)},")


if __name__ == "__main__":
    for terms in [int(n) for n in sys.argv[1:]] or [9]:
        tail("f32", mpf(3), 10.5 * sqrt(mpf(2)), terms, 40)
    tail("f64", mpf(6), 28 * sqrt(mpf(2)), 24, 128)
