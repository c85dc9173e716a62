"""Prints the numbers of crates/extensor-kernels/src/math/constants.rs.

    python tools/minimax.py            (needs mpmath)

Each polynomial is the one of its degree whose largest weighted error over the interval is least
(Remez's exchange algorithm in 60 digits). The weight makes that the error relative to the function
the polynomial serves. The coefficients are then rounded to the target format; the error printed is
that of the rounded polynomial, evaluated exactly.
"""

import struct
import sys

from mpmath import ln, log, lu_solve, matrix, mp, mpf, sqrt

mp.dps = 60
LN2 = ln(2)


def to_format(x, kind):
    """x rounded to the nearest f32 or f64."""
    if kind == "f64":
        return mpf(float(x))
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def shortest(x, kind):
    """The shortest decimal literal that reads back as x, its digits grouped."""
    for digits in range(1, 18):
        text = f"{float(x):.{digits - 1}e}"
        if to_format(mpf(text), kind) == x:
            break
    mantissa, exponent = text.split("e")
    if int(exponent) < -5:
        whole, part, tail = *mantissa.split("."), f"e{exponent}"
        tail = tail.replace("e-0", "e-")
    else:
        places = max(digits - 1 - int(exponent), 1)
        whole, part, tail = *f"{float(text):.{places}f}".split("."), ""
        if len(whole) > 4:
            whole = f"{int(whole):_}"
    return whole + "." + "_".join(part[i : i + 3] for i in range(0, len(part), 3)) + tail


def horner(coefficients, x):
    total = mpf(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def extrema(error, low, high, count):
    """The points where |error| is locally largest, one for each run of one sign."""
    steps = 40 * count
    # Chebyshev spacing: the extrema crowd at the ends.
    points = [
        (low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / steps) for i in range(steps + 1)
    ]
    values = [error(x) for x in points]
    best = []
    for x, value in zip(points, values):
        if value == 0:
            continue
        if best and (best[-1][1] > 0) == (value > 0):
            if abs(value) > abs(best[-1][1]):
                best[-1] = (x, value)
        else:
            best.append((x, value))
    while len(best) > count:
        best.pop(0 if abs(best[0][1]) < abs(best[-1][1]) else -1)
    return best


def remez(function, weight, low, high, degree):
    """The polynomial's coefficients, lowest first, minimising max weight * |polynomial - function|."""
    count = degree + 2
    points = [
        (low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (i + mpf(1) / 3) / count)
        for i in range(count)
    ]
    while True:
        system = matrix(count, count)
        right = matrix(count, 1)
        for i, x in enumerate(points):
            for power in range(degree + 1):
                system[i, power] = x**power
            system[i, count - 1] = (-1) ** i / weight(x)
            right[i] = function(x)
        coefficients = list(lu_solve(system, right))[:-1]
        found = extrema(
            lambda x: weight(x) * (horner(coefficients, x) - function(x)), low, high, count
        )
        points = [x for x, _ in found]
        sizes = [abs(e) for _, e in found]
        if max(sizes) < min(sizes) * (1 + mpf(10) ** -2):
            return coefficients


def fit(function, weight, low, high, degree, kind):
    """The rounded coefficients, lowest first, and the largest weighted error they leave."""
    rounded = [to_format(c, kind) for c in remez(function, weight, low, high, degree)]
    steps = 4000
    worst = max(
        weight(x) * abs(horner(rounded, x) - function(x))
        for x in (low + (high - low) * (mpf(i) + mpf(1) / 3) / steps for i in range(steps))
    )
    return rounded, worst


def series(x, first, term):
    """sum of term(n) x^(n - first) for n >= first: a function near the zero that defines it."""
    total, n = mpf(0), first
    while True:
        part = term(n) * x ** (n - first)
        total += part
        n += 1
        if abs(part) < mpf(10) ** -58:
            return total


# e^r = 1 + r + r^2 P(r)
def exp_rest(r):
    return series(r, 2, lambda n: 1 / mp.factorial(n))


# 2^r = 1 + r ln 2 + r^2 P(r)
def exp2_rest(r):
    return series(r, 2, lambda n: LN2**n / mp.factorial(n))


# 2 atanh(s) = 2 s + s z Q(z) with z = s^2
def log_rest(z):
    return series(z, 1, lambda n: mpf(2) / (2 * n + 1))


# 2 atanh(s) / ln 2 = s (2 + z (2/3 + z Q(z))) / ln 2 with z = s^2
def log2_rest(z):
    return series(z, 2, lambda n: mpf(2) / (2 * n + 1) / LN2)


# A little beyond the exact bounds, for arguments are reduced by rounded constants.
HALF_LN2 = LN2 / 2 * (1 + mpf(2) ** -10)
HALF = mpf(1) / 2 * (1 + mpf(2) ** -10)
S2 = ((sqrt(2) - 1) / (sqrt(2) + 1)) ** 2 * (1 + mpf(2) ** -10)

# A weight of nothing at zero would leave the system of equations singular.
TINY = mpf(10) ** -6

# name, function, weight, interval, degree for f32 and for f64
POLYNOMIALS = [
    ("EXP", exp_rest, lambda r: TINY + abs(r), (-HALF_LN2, HALF_LN2), (5, 10)),
    ("EXP_ONE_PART", exp_rest, lambda r: TINY + r * r / mp.exp(r), (-HALF_LN2, HALF_LN2), (4, 9)),
    ("EXP2", exp2_rest, lambda r: TINY + r * r / 2**r, (-HALF, HALF), (4, 9)),
    ("LOG", log_rest, lambda z: TINY + z / 2, (mpf(0), S2), (2, 6)),
    ("LOG2_REST", log2_rest, lambda z: TINY + z * z * LN2 / 2, (mpf(0), S2), (3, 7)),
]


# Constants in two parts: name, value, bits of the first part for f32 and for f64.
PAIRS = [
    ("LOG2_FIRST", 2 / LN2, (24, 53)),
    ("LOG2_SECOND", 2 / (3 * LN2), (24, 53)),
    ("LN_2", LN2, (24, 53)),
    ("LOG2_E", 1 / LN2, (24, 53)),
    ("LOG10_E", 1 / ln(10), (24, 53)),
    ("LN_2_SPLIT", LN2, (15, 42)),
    ("LOG10_2_SPLIT", LN2 / ln(10), (15, 42)),
]


def rounded_to(x, bits):
    """x, which is positive, rounded to so many significant bits."""
    unit = mpf(2) ** (mp.floor(log(x, 2)) + 1 - bits)
    return mp.nint(x / unit) * unit


def main():
    chosen = sys.argv[1:]
    for name, value, sizes in PAIRS:
        if chosen and name not in chosen:
            continue
        for kind, bits in zip(("f32", "f64"), sizes):
            first = rounded_to(value, bits)
            second = to_format(value - first, kind)
            print(f"{name} {kind}: ({shortest(first, kind)}, {shortest(second, kind)})")
    for name, function, weight, (low, high), degrees in POLYNOMIALS:
        if chosen and name not in chosen:
            continue
        for kind, degree in zip(("f32", "f64"), degrees):
            coefficients, worst = fit(function, weight, low, high, degree, kind)
            print(f"{name} {kind}: [{mp.nstr(low, 5)}, {mp.nstr(high, 5)}],", end=" ")
            print(f"relative error 2^{mp.nstr(log(worst, 2), 4)}")
            for c in coefficients:
                print(f"    {shortest(c, kind)},")


if __name__ == "__main__":
    main()
