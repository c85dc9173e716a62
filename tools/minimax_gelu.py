#!/usr/bin/env python3
"""Finds the polynomials of `gelu` in crates/extensor-kernels/src/math/erf.rs; needs mpmath.

With t = (a - k)/(a + k), Φ(-a) e^(a²/2) / (1 - t) in powers of t, for a from 0 to where Φ(-a) has
vanished, by interpolation at Chebyshev's points with 60 digits. Prints the coefficients, rounded, and
the relative error that they have in exact arithmetic.
"""
import struct
from mpmath import mp, mpf, cos, pi, exp, erfc, sqrt, matrix, lu_solve, polyval, log

mp.dps = 60


def single(x):
    return struct.unpack("f", struct.pack("f", float(x)))[0]


def fit(name, k, far, terms, rounded):
    f = lambda t: exp(((a := k * (1 + t) / (1 - t)) ** 2) / 2) * erfc(a / sqrt(2)) / 2 / (1 - t)
    low, high = mpf(-1), (far - k) / (far + k)
    point = lambda i, n: (low + high) / 2 + (high - low) / 2 * cos(pi * (2 * i + 1) / (2 * n))
    points = [point(i, terms) for i in range(terms)]
    system = matrix([[t**j for j in range(terms)] for t in points])
    found = [rounded(c) for c in lu_solve(system, matrix([f(t) for t in points]))]
    worst = max(abs(polyval([mpf(c) for c in found[::-1]], t) / f(t) - 1)
                for t in (point(i, 997) for i in range(997)))
    print(f"{name}: k = {k}, 0 <= a <= {far}, t <= {float(high):.3f}, relative error 2^{float(log(worst, 2)):.1f}")
    for c in found:
        print(f"        {c!r},")


fit("f32", mpf(4), 10.5 * sqrt(mpf(2)), 10, single)
fit("f64", mpf(6), 28 * sqrt(mpf(2)), 24, float)
