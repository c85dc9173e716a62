"""The constants of crates/extensor-kernels/src/math/{trig,inverse_trig,erf}.rs.

Run with a Python that has mpmath and numpy:

    python tools/minimax_trig.py            # all tables, a few minutes
    python tools/minimax_trig.py sin erfcx  # those whose names contain one of the words

Each polynomial is the minimax one for the *relative* error of the function it serves, found by
Remez exchange on a dense Chebyshev grid. The coefficients are then rounded to the format one after
the other, lowest power first, and those left are fitted again after each rounding, so that they make
up for what was rounded away (on intervals around zero all are rounded at once). What is printed is Rust, with the interval and the error reached by the
rounded coefficients.
"""

import sys

import mpmath as mp
import numpy as np

mp.mp.dps = 60
GRID = 40  # points of the grid for each coefficient


def rounded(x, bits):
    """`x` to the nearest number with so many bits."""
    if x == 0:
        return mp.mpf(0)
    with mp.workprec(bits):
        return +x


def show(x, bits):
    """The shortest decimal that reads back as the float `x`."""
    if bits == 24:
        return np.format_float_scientific(np.float32(float(x)), unique=True, trim="0")
    return np.format_float_scientific(np.float64(float(x)), unique=True, trim="0")


def remez(xs, target, weight, low, high):
    """Coefficients of x^low..x^high that minimise max |weight (target - p)| over the points."""
    n = high - low + 1
    step = (len(xs) - 1) / n
    picks = [round(i * step) for i in range(n + 1)]
    coefficients, error = None, None
    for _ in range(30):
        rows = mp.matrix(n + 1, n + 1)
        right = mp.matrix(n + 1, 1)
        for i, j in enumerate(picks):
            power = xs[j] ** low
            for k in range(n):
                rows[i, k] = power
                power *= xs[j]
            rows[i, n] = (-1) ** i / weight[j]
            right[i] = target[j]
        solution = mp.lu_solve(rows, right)
        coefficients = [solution[k] for k in range(n)]
        residual = errors(xs, target, weight, low, coefficients)
        error = max(abs(r) for r in residual)
        # The largest residual of each run of one sign; then as many neighbouring runs as needed.
        peaks = []
        for j, r in enumerate(residual):
            if peaks and (residual[peaks[-1]] > 0) == (r > 0):
                if abs(r) > abs(residual[peaks[-1]]):
                    peaks[-1] = j
            else:
                peaks.append(j)
        while len(peaks) > n + 1:
            peaks.pop(0 if abs(residual[peaks[0]]) < abs(residual[peaks[-1]]) else -1)
        if len(peaks) < n + 1 or error <= abs(solution[n]) * mp.mpf("1.001"):
            break
        picks = peaks
    return coefficients, error


def squares(xs, target, weight, low, high):
    """Coefficients of x^low..x^high that minimise the sum of squared weighted residuals."""
    n = high - low + 1
    # Chebyshev points crowd at the ends, which is near enough to the minimax weighting.
    basis = [[w * x ** (low + k) for x, w in zip(xs, weight)] for k in range(n)]
    right = [f * w for f, w in zip(target, weight)]
    normal = mp.matrix(n, n)
    for i in range(n):
        for j in range(i, n):
            normal[i, j] = normal[j, i] = mp.fdot(basis[i], basis[j])
    return mp.lu_solve(normal, mp.matrix([mp.fdot(b, right) for b in basis]))


def errors(xs, target, weight, low, coefficients):
    """The weighted residuals."""
    out = []
    for x, f, w in zip(xs, target, weight):
        p = mp.mpf(0)
        for c in reversed(coefficients):
            p = p * x + c
        out.append((f - p * x**low) * w)
    return out


def fit(f, w, a, b, count, bits, split):
    """`count` rounded coefficients for f on [a, b] under the weight w, the error, and remainders."""
    a, b = mp.mpf(a), mp.mpf(b)
    points = GRID * count
    xs = [(a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * (i + mp.mpf(1) / 2) / points) for i in range(points)]
    target = [f(x) for x in xs]
    weight = [w(x) for x in xs]
    if a < 0:
        # Powers from x^k up have no minimax theory around zero: these are fitted by squares. The
        # first coefficients may keep their remainders, and two bits less, so that what is added to
        # them can be told exactly from the sum.
        exact = remez(xs, target, weight, 0, count - 1)[0][:split]
        done = [rounded(c, bits - 2) for c in exact]
        low = [rounded(c - d, bits) for c, d in zip(exact, done)]
        head = [d + l for d, l in zip(done, low)]
        for k in range(split, count):
            left = [f - sum(c * x**i for i, c in enumerate(head + done[split:])) for f, x in zip(target, xs)]
            done.append(rounded(squares(xs, left, weight, k, count - 1)[0], bits))
        return done, max(abs(r) for r in errors(xs, target, weight, 0, head + done[split:])), low
    done, left = [], list(target)
    for k in range(count):
        c = rounded(remez(xs, left, weight, k, count - 1)[0][0], bits)
        done.append(c)
        left = [t - c * x**k for t, x in zip(left, xs)]
    return done, max(abs(r) for r in errors(xs, target, weight, 0, done)), []


def log2(x):
    return f"2^{float(mp.log(x, 2)):.1f}"


def table(name, of, f, w, a, b, count, bits, split=0):
    done, error, low = fit(f, w, a, b, count, bits, split)
    print(f"    // {of}, [{mp.nstr(mp.mpf(a), 5)}, {mp.nstr(mp.mpf(b), 5)}]: relative error {log2(error)}.")
    print(f"    const {name}: &'static [Self] = &[")
    for c in done:
        print(f"        {show(c, bits)},")
    print("    ];")
    if low:
        print(f"    const {name}_LOW: [Self; 2] = [{', '.join(show(c, bits) for c in low)}];", flush=True)


def parts(name, x, bits, widths):
    """x as an unevaluated sum of floats, the i-th of widths[i] bits."""
    out = []
    for width in widths:
        c = rounded(x, width)
        out.append(show(c, bits))
        x -= c
    print(f"    // {name}, in parts.\n    [{', '.join(out)}]", flush=True)


def sqrt_of(f):
    return lambda z: f(mp.sqrt(z))


def erfcx(a):
    return mp.exp(a * a) * mp.erfc(a)


SINE = sqrt_of(lambda r: (mp.sin(r) / r - 1) / r**2), sqrt_of(lambda r: r**3 / mp.sin(r))
COSINE = (
    sqrt_of(lambda r: (mp.cos(r) - 1 + r**2 / 2) / r**4),
    sqrt_of(lambda r: r**4 / mp.cos(r)),
)
ATAN = sqrt_of(lambda t: (mp.atan(t) / t - 1) / t**2), sqrt_of(lambda t: t**3 / mp.atan(t))
ASIN = sqrt_of(lambda s: (mp.asin(s) / s - 1) / s**2), sqrt_of(lambda s: s**3 / mp.asin(s))
ERF = sqrt_of(lambda x: mp.erf(x) / x - 1), sqrt_of(lambda x: x / mp.erf(x))


def scaled_erfcx(k):
    """erfcx(a) / p for p = 2k / (a + k), as a function of t = 1 - p, and its relative weight."""

    def f(t):
        return erfcx(k * (1 + t) / (1 - t)) / (1 - t)

    return f, lambda t: 1 / f(t)


def erfcx_table(count, bits, k, largest):
    k = mp.mpf(k)
    f, w = scaled_erfcx(k)
    last = (largest - k) / (largest + k)
    of = f"erfcx(a) / p in t = 1 - p, p = 2k / (a + k), k = {mp.nstr(k, 4)}"
    table("ERFCX", of, f, w, -1, last, count, bits, split=2)
    table("ERFCX_SLOPE", "the derivative of that", lambda t: mp.diff(f, t), w, -1, last, 4 if bits == 24 else 6, bits)


def erf_tail_table(count, bits, largest):
    """As before from a = 1, but the error counts relative to erf(a)."""
    k = mp.mpf(3)
    f, _ = scaled_erfcx(k)

    def w(t):
        a = k * (1 + t) / (1 - t)
        return (1 - t) * mp.exp(-a * a) / mp.erf(a)

    of = "erfcx(a) / p in t = 1 - p, p = 2k / (a + k), k = 3, for erf"
    table("ERF_TAIL", of, f, w, (1 - k) / (1 + k), (largest - k) / (largest + k), count, bits)


JOBS = {
    "sin f32": lambda: table("SIN", "(sin r / r - 1) / r² in r²", *SINE, 0, 0.795**2, 4, 24),
    "sin f64": lambda: table("SIN", "(sin r / r - 1) / r² in r²", *SINE, 0, 0.786**2, 6, 53),
    "cos f32": lambda: table("COS", "(cos r - 1 + r²/2) / r⁴ in r²", *COSINE, 0, 0.795**2, 3, 24),
    "cos f64": lambda: table("COS", "(cos r - 1 + r²/2) / r⁴ in r²", *COSINE, 0, 0.786**2, 6, 53),
    "atan f32": lambda: table("ATAN", "(atan t / t - 1) / t² in t²", *ATAN, 0, 0.41422**2, 5, 24),
    "atan f64": lambda: table("ATAN", "(atan t / t - 1) / t² in t²", *ATAN, 0, 0.41422**2, 11, 53),
    "asin f32": lambda: table("ASIN", "(asin s / s - 1) / s² in s²", *ASIN, 0, 0.25, 6, 24),
    "asin f64": lambda: table("ASIN", "(asin s / s - 1) / s² in s²", *ASIN, 0, 0.25, 13, 53),
    "erf f32": lambda: table("ERF", "erf x / x - 1 in x²", *ERF, 0, 1, 7, 24),
    "erf f64": lambda: table("ERF", "erf x / x - 1 in x²", *ERF, 0, 1, 13, 53),
    "erf_tail f32": lambda: erf_tail_table(6, 24, 4),
    "erf_tail f64": lambda: erf_tail_table(12, 53, 6),
    "erfcx f32": lambda: erfcx_table(10, 24, 3, 10.5),
    "erfcx f64": lambda: erfcx_table(24, 53, 4, 28),
    "pi": lambda: [
        parts(f"{name} f{size}", x, bits, [bits] * count)
        for size, bits in ((32, 24), (64, 53))
        for name, x, count in (
            ("π/2", mp.pi / 2, 3),
            ("π/4", mp.pi / 4, 2),
        )
    ],
    "k√2": lambda: [
        parts("3√2 f32", 3 * mp.sqrt(2), 24, [20, 24]),
        parts("4√2 f64", 4 * mp.sqrt(2), 53, [48, 53]),
    ],
}

if __name__ == "__main__":
    for name, job in JOBS.items():
        if len(sys.argv) < 2 or any(word in name for word in sys.argv[1:]):
            print(f"  {name}")
            job()
