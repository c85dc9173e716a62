#!/usr/bin/env python3
"""Writes crates/extensor-kernels/tests/ulp_special/table.txt: the special functions at random points, from mpmath.

    python tools/special_truth.py            (needs mpmath)

A line is `name x high low [size]`, a name with a prime for each derivative that is taken: the truth is high + low,
and `size` that of the terms where they cancel.
"""
import math
import random

from mpmath import mp, mpf

mp.prec = 10000
import points_special as special  # noqa: E402
from points_functions import CASES, Outside  # noqa: E402
from points_math import to_float  # noqa: E402

WHERE = {
    "cbrt": ((-50, 50), "any"), "exp2": ((-1074, 1024), (-1, 1)), "sinc": ((-5, 5), (-1, 1)),
    "lgamma": ((0, 3), (0, 20), (-8, 0), "positive"), "digamma": ((0, 3), (0, 20), (-8, 0), "positive"),
    "polygamma n=1": ((0, 20), (-8, 0)), "polygamma n=2": ((0, 20), (-8, 0)), "polygamma n=5": ((0, 20), (-8, 0)),
    "erfinv": ((-1, 1), "ends"), "ndtri": ((0, 1), "tiny"), "ndtr": ((-38, 8), (-3, 3)),
    "i0": ((-20, 20), (-700, 700)), "i1": ((-20, 20), (-700, 700)), "i1'": ((-20, 20), (-700, 700)), "i1''": ((-20, 20), (-700, 700)),
    "i0e": ((-20, 20), (0, 100), "positive"), "i0e'": ((-20, 20), (0, 100), "positive"), "i0e''": ((-20, 20), (0, 100)),
    "i1e": ((-20, 20), (0, 100), "positive"), "i1e'": ((-20, 20), (0, 100), "positive"), "i1e''": ((-20, 20), (0, 100)),
    "log_ndtr": ((-3, 3), (-45, 38), "negative"), "log_ndtr'": ((-3, 3), (-45, 38), "negative"),
    "log_ndtr''": ((-3, 3), (-45, 37)), "log_ndtr'''": ((-3, 3), (-45, 37)),
}


def points(which):
    if which == "any":
        return [math.copysign(math.ldexp(random.uniform(1, 2), random.randint(-1022, 1022)), random.random() - 0.5) for _ in range(60)]
    if which == "positive":
        return [math.ldexp(random.uniform(1, 2), random.randint(-1022, 1000)) for _ in range(40)]
    if which == "negative":
        return [-math.ldexp(random.uniform(1, 2), random.randint(-1022, 500)) for _ in range(40)]
    if which == "tiny":
        return [math.ldexp(random.uniform(1, 2), -random.randint(1, 1074)) for _ in range(60)]
    if which == "ends":
        return [s * (1 - 2.0**-k) for k in range(1, 54) for s in (1, -1)][:40]
    return [random.uniform(*which) for _ in range(60)]


if __name__ == "__main__":
    random.seed(1)
    found = []
    for case, order in [(case, order) for case in CASES for order in range(4)]:
        name = f"{case['name']} {case['params']}".strip() + "'" * order
        for x in [x for which in WHERE.get(name, ()) for x in points(which)]:
            try:
                first = case["f"](x)[order, 0]
            except Outside:
                continue
            high = to_float(first.v)
            if not math.isfinite(high) or abs(high) < 1e-290:
                continue
            low = to_float(first.v - mpf(high))
            size = to_float(first.e) if first.e > 1.5 * abs(first.v) else ""
            found.append(f"{name.replace(' n=', ':')} {x!r} {high!r} {low!r} {size}".rstrip())
    path = "crates/extensor-kernels/tests/ulp_special/table.txt"
    with open(path, "w") as file:
        file.write("\n".join(found) + "\n")
    print(len(found), special.__name__)
