"""Draws notebook.svg, the report of the page python.md as a notebook shows it, on white and on dark:
python docs/book/pages/checking/notebook.py (with extensor and NumPy installed). It prints the report too.
"""
import math
import pathlib
import textwrap
from html import escape

import numpy as np

import extensor as ex


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_backward(g, x):
    phi = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    Phi = 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    return g * (Phi + x * phi)


report = ex.check_gradient(gelu, gelu_backward, np.linspace(-3, 3, 8))
print(report)

from extensor._report import _HEAD, _cells, _sentence  # noqa: E402

W, H = 560, 520


def card(top, background, ink):
    red = "#d9485f"
    out = [
        f'<g transform="translate(0 {top})" fill="{ink}" color="{ink}">',
        f'<rect width="{W}" height="{H}" fill="{background}"/><rect x="14" y="16" width="4" height="{H - 32}" fill="{red}"/>',
        f'<text x="32" y="36" font-size="15" font-weight="bold" fill="{red}">{escape(report.verdict())}</text>',
        f'<text x="32" y="56" opacity="0.7">{escape(report.setting())}</text>',
    ]
    y = 80
    for line in textwrap.wrap(_sentence(report.hint), 70):
        out.append(f'<text x="32" y="{y}" font-weight="600">{escape(line)}</text>')
        y += 17
    y += 8
    columns = [32, 98, 256, 370, 452, 530]
    for number, cells in enumerate([_HEAD, *map(_cells, report.rows()[0])]):
        for k, (cell, x) in enumerate(zip(cells, columns)):
            anchor = "start" if k < 2 else "end"
            faint = ' opacity="0.7"' if number == 0 else ""
            out.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}"{faint}>{escape(cell)}</text>')
        y += 18
    out.append(f'<text x="32" y="{y + 6}" opacity="0.7">error against ε, at {report.worst.argument}{list(report.worst.index)}</text>')
    plot = report.svg().replace("<svg ", f'<svg x="24" y="{y + 12}" ', 1).replace("currentColor", ink)
    return "".join(out) + plot + "</g>"


picture = (
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {2 * H}" width="{W}" height="{2 * H}" '
    f'font-family="system-ui, sans-serif" font-size="12">'
    f'{card(0, "#ffffff", "#222222")}{card(H, "#16181d", "#e8e8e8")}</svg>\n'
)
pathlib.Path(__file__).with_name("notebook.svg").write_text(picture, encoding="utf-8")
