"""Draws docs/benchmark.svg, and the same of every workload for the book: python docs/benchmark.py

Ratios to PyTorch on two cores (medians), from the first table of docs/book/pages/performance/benchmarks.md.
"""
import math
import pathlib
import re

docs = pathlib.Path(__file__).parent
page = docs / "book/pages/performance/benchmarks.md"
# What the small chart shows, by the beginning of its row in the table, and what it is called there.
SHOWN = {
    "`exp`, 16 M": "exp, 16 M numbers",
    "`sum`, 16 M": "sum, 16 M",
    "`matmul` 1024³": "matmul 1024³",
    "`gelu`": "gelu, forward and backward",
    "`softmax`": "softmax, likewise",
    "`layer_norm`": "layer norm",
    "`conv2d` forward": "convolution",
    "`batch_norm2d`": "batch norm",
    "attention": "attention",
    "gradient of 100": "gradient of 300 small operations",
    "training step of an MLP": "training step: MLP",
    "of LeNet-5": "LeNet-5",
    "of a GPT": "GPT",
    "`add`, 16 elements": "add, 16 numbers",
}
GREY, BLUE, ORANGE = "#808890", "#3d8bd4", "#d9822b"


def table():
    """The rows of the first table: what was measured, and the ratio of medians at two threads."""
    rows = re.findall(r"^\| ([^|]+) \|(?: [^|]+ \|){4} ([\d.]+) \| [\d.]+ \|$", page.read_text(), re.M)
    assert len(rows) > 20, "the table is not as it was"
    return [(name, float(ratio)) for name, ratio in rows]


def chart(rows, left, step):
    """A bar for each row, from 1 to its ratio, on a logarithmic scale."""
    width, top, bottom = 720, 30, 34
    height = top + step * len(rows) + bottom
    x = lambda ratio: left + (math.log(ratio) - math.log(0.7)) / (math.log(14) - math.log(0.7)) * (width - left - 20)
    text = lambda at, y, words, colour=GREY, anchor="end": (
        f'<text x="{at:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>')
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           'font-family="sans-serif" font-size="13">',
           text(x(1) + 6, 18, "ExTensor is faster →", anchor="start")]
    for tick in (1, 2, 4, 8):
        opacity = 0.9 if tick == 1 else 0.3
        out.append(f'<line x1="{x(tick):.1f}" y1="{top - 6}" x2="{x(tick):.1f}" y2="{height - bottom}" stroke="{GREY}" stroke-opacity="{opacity}"/>')
        out.append(text(x(tick), height - bottom + 16, f"{tick}×" if tick > 1 else "PyTorch", anchor="middle"))
    for i, (name, ratio) in enumerate(rows):
        y = top + step * i
        colour = BLUE if ratio >= 1 else ORANGE
        start, end = sorted((x(1), x(ratio)))
        out.append(text(left - 10, y + step * 0.66, name.replace("&", "&amp;")))
        out.append(f'<rect x="{start:.1f}" y="{y + step * 0.18:.1f}" width="{max(end - start, 1):.1f}" height="{step * 0.64:.1f}" fill="{colour}"/>')
        out.append(text(max(end, x(1)) + 6, y + step * 0.66, f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}", colour, "start"))
    return "\n".join(out + ["</svg>"]) + "\n"


rows = table()
small = []
for beginning, name in SHOWN.items():
    found = [ratio for row, ratio in rows if row.startswith(beginning) and (row == beginning or beginning != "`matmul` 1024³")]
    assert len(found) == 1, f"{beginning!r} names {len(found)} rows"
    small.append((name, found[0]))
(docs / "benchmark.svg").write_text(chart(small, 230, 24))
(page.parent / "benchmark.svg").write_text(chart([(row.replace("`", ""), ratio) for row, ratio in rows], 430, 20))
