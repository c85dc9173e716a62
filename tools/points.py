"""Writes what derivatives of order 0 to 3 must be at special points: crates/extensor/src/check/points/table.txt.gz.

    pip install mpmath
    python3 tools/points.py crates/extensor/src/check/points/table.txt.gz

The functions are written from their definitions (points_functions.py, points_pairs.py) as jets of numbers of
thousands of bits (points_math.py), so that every answer is the true derivative, rounded once to f64. `--verify N`
takes derivatives at one point in N by differences of the values alone, and compares.

The table has a line `@ name form params` for each function and below it a line for each point: the numbers, and
behind a bar the derivatives, those by both variables in the order of `indices`. A derivative is
`_` (not defined there), a number, `=number` (a convention of the specification), `?` (any finite number),
or `number~e`: terms cancel, and formulas may be off by roundoff times 2ᵉ (the running error of the definition).
"""

import gzip
import math
import struct
import sys

from mpmath import mp, mpf

PRECISION = 10000
mp.prec = PRECISION

from points_functions import CASES, Outside, Say  # noqa: E402
from points_math import Jet, Num, indices, single, to_float  # noqa: E402


def next_single(x, up):
    bits = struct.unpack("i", struct.pack("f", x))[0]
    if x == 0:
        return math.copysign(2.0**-149, 1 if up else -1)
    bits += 1 if (x > 0) == up else -1
    return struct.unpack("f", struct.pack("i", bits))[0]


def beside(x):
    """A number, and the ones next to it in both formats."""
    found = [x, math.nextafter(x, math.inf), math.nextafter(x, -math.inf)]
    if abs(x) < 3e38:
        near = single(x)
        found += [near, next_single(near, True), next_single(near, False)]
    return found


SIZES = [0.5, 1.0, 2.0, 3.0, 7.0, 16.0, 100.0] + [single(v) for v in (0.1, 1e-4, 1e-8, 1e-10, 3e-11, 1e-30, 1e-40, 1e4, 1e30)] + [
    2.0**-126, 2.0**-149, 1e-160, 1e-300, 1e-310, 5e-324, 2.0**-1022, 1e8, 3.4028234663852886e38, 1e150, 1e300, sys.float_info.max]
LINE = [0.0, -0.0] + [s * v for v in SIZES for s in (1, -1)] + [v for c in (1.0, -1.0) for v in beside(c)]
PLANE = [0.0, -0.0, 1.0, -0.5, 3.0, single(1e-8), -single(1e-30), 1e-300, 5e-324, 1e8, -1e150]


def points(case):
    """Each point once, in order."""
    if case["form"] == "x":
        found = LINE + [v for c in case["points"] for v in beside(c)] + [float(v) for v in case["extra"]]
        found = [(v,) for v in found]
    else:
        found = [(x, y) for x in PLANE for y in (case["others"] or PLANE)]
        found += [(float(v), float(v_)) for v, v_ in case["extra"]]
        found += [(single(v), single(v_)) for v, v_ in case["extra"] if max(abs(v), abs(v_)) < 3e38]
    seen, unique = set(), []
    for point in found:
        key = struct.pack(f"{len(point)}d", *point)
        if key not in seen:
            seen.add(key)
            unique.append(point)
    return unique


def variables(case):
    return 1 if case["form"] in ("x", "x;t") else 2


def derivatives(case, point):
    """The derivatives at a point, by how often each variable was used."""
    found = case["f"](*point)
    if isinstance(found, Jet):
        return {k: found.at(*k) for k in indices(variables(case))}
    return found


def text(x):
    return repr(x).replace("+", "").removesuffix(".0") if math.isfinite(x) else str(x)


def token(entry, order):
    if entry is None:
        return "_"
    if isinstance(entry, Say):
        return "?" if entry.finite else "=" + text(entry.value)
    if isinstance(entry, float):
        return text(entry)
    value = to_float(entry.v)
    allowance = entry.e
    if allowance <= abs(entry.v) * (4 if order == 0 else 16):
        return text(value)
    exponent = min(allowance._mpf_[2] + allowance._mpf_[3], 2000)
    return f"{text(value)}~{exponent}" if exponent > -1080 else text(value)


def limits(case, sign):
    """Value and slope at ±∞: where they tend to."""
    near, beyond = (derivatives(case, (sign * mpf(2) ** n,)) for n in (20000, 40000))
    found = {}
    for k in ((0, 0), (1, 0)):
        a, b = near.get(k), beyond.get(k)
        if a is None or isinstance(a, (Say, float)):
            found[k] = a
        elif abs(a.v) > 2 and abs(b.v / a.v) > 1.01:
            found[k] = math.copysign(math.inf, a.v)
        else:
            found[k] = to_float(b.v)
    return found


def lines(case):
    wanted = [k for k in indices(variables(case)) if sum(k) <= case["order"]]

    def line(point, found):
        tokens = [token(found.get(k), sum(k)) for k in wanted]
        while tokens and tokens[-1] == "_":
            tokens.pop()
        return " ".join(text(v) for v in point) + " | " + " ".join(tokens) if tokens else None

    nothing = {(0, 0): math.nan, (1, 0): math.nan, (0, 1): math.nan}
    for point in points(case):
        try:
            found = derivatives(case, point)
        except Outside:
            found = nothing
        yield line(point, found)
    if case["nan"]:
        yield line((math.nan,) if case["form"] == "x" else (math.nan, 1.0) if case["form"] == "x;t" else (math.nan, math.nan), nothing)
    if case["form"] == "x":
        for sign in (1, -1):
            try:
                known = case["infinite"]
                if isinstance(known, dict) and sign in known:
                    found = known[sign]
                else:
                    found = limits(case, sign) if known else nothing
            except Outside:
                found = nothing
            yield line((sign * math.inf,), found)


def differences(case, point, k):
    """A derivative by central differences of the value alone, with steps of 2⁻¹⁵⁰⁰ of the numbers."""
    steps = [abs(mpf(v)) * mpf(2) ** -1500 or mpf(2) ** -2500 for v in point]
    weights = {0: [(0, 1)], 1: [(1, "0.5"), (-1, "-0.5")], 2: [(1, 1), (0, -2), (-1, 1)],
               3: [(2, "0.5"), (1, -1), (-1, 1), (-2, "-0.5")]}
    total = mpf(0)
    for i, p in weights[k[0]]:
        for j, q in weights[k[1]]:
            at = [mpf(v) + n * h if n else v for v, n, h in zip(point, (i, j), steps)]
            found = derivatives(case, at).get((0, 0))
            if not isinstance(found, Num):
                return None
            total += mpf(p) * mpf(q) * found.v
    for n, h in zip(k, steps):
        total /= h**n
    return total


def verify(case, every):
    """Whether the derivatives at one point in `every` agree with differences; how many were compared."""
    count = 0
    for point in points(case)[::every]:
        try:
            found = derivatives(case, point)
        except Outside:
            continue
        for k, entry in found.items():
            if sum(k) == 0 or sum(k) > case["order"] or not isinstance(entry, Num):
                continue
            try:
                other = differences(case, point, k)
            except Outside:
                continue
            if other is None or entry.v and not 2.0**-1060 < abs(entry.v) < 1.7e308:
                continue
            count += 1
            if abs(other - entry.v) > abs(entry.v) * mpf(2) ** -80 + mpf(2) ** -1200:
                sys.exit(f"{case['name']} {case['params']} at {point}, {k}: {mp.nstr(entry.v, 20)}, but by differences {mp.nstr(other, 20)}")
    return count


def main(path):
    parts = []
    for case in CASES:
        parts.append(f"@ {case['name']} {case['form'].replace(' ', ':')} {case['params']}".rstrip())
        parts += [line for line in lines(case) if line]
        print(case["name"], case["params"], len(parts), file=sys.stderr, flush=True)
    data = ("\n".join(parts) + "\n").encode()
    packed = gzip.compress(data, 9, mtime=0)
    with open(path, "wb") as file:
        file.write(packed)
    print(f"{len(CASES)} functions, {len(parts) - len(CASES)} points, {len(data)} bytes, {len(packed)} packed")


if __name__ == "__main__":
    if sys.argv[1] == "--verify":
        for case in CASES:
            print(case["name"], case["params"], verify(case, int(sys.argv[2])), flush=True)
    else:
        main(sys.argv[1])
