"""Writes the lines of crates/extensor/src/ops/accuracy.rs from what a sweep over all of f32 has found:

    extensor check --exhaustive --dtype f32 --state f32.txt
    python3 tools/accuracy.py f32.txt

An operation's bound is the next of some round numbers above the worst error of all its parameters.
"""

import math
import struct
import sys

BOUNDS = [0, 0.5, 1, 1.5, 2, 2.5, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]


def literal(bits):
    """The shortest text that is this f32."""
    x = struct.unpack("f", struct.pack("I", bits))[0]
    for digits in range(1, 10):
        text = f"{x:.{digits}g}"
        if struct.pack("f", float(text)) == struct.pack("f", x):
            break
    return text if "." in text or "e" in text else text + ".0"


def cell(ulps, bits):
    worst = math.ceil(ulps * 1e3) / 1e3
    bound = next((b for b in BOUNDS if b >= ulps), None)
    if bound is None:
        sys.exit(f"{ulps} ulp at {literal(bits)} is beyond any bound")
    return f"{bound}, {worst} at {literal(bits)};".replace(".0,", ",")


def main(path):
    header, *lines = open(path).read().splitlines()
    found = {}
    for line in lines:
        title, numbers = line.split("\t")
        numbers = [int(word, 16) for word in numbers.split(" ")]
        if numbers[1] != 2**32:
            sys.exit(f"{title} has not been tried at every number")
        pairs = [(struct.unpack("d", struct.pack("Q", u))[0], b) for u, b in zip(numbers[2::2], numbers[3::2])]
        best = found.setdefault(title.split(" ")[0], [(0.0, 0), (0.0, 0)])
        for k, pair in enumerate(pairs):
            best[k] = max(best[k], pair, key=lambda p: (p[0], -p[1]))
    for name, (value, slope) in found.items():
        print(f"    \"{name}\": {cell(*value)} {cell(*slope)}")


if __name__ == "__main__":
    main(sys.argv[1])
