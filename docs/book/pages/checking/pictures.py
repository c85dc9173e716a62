"""Draws error-against-step.svg: python docs/book/pages/checking/pictures.py

The error of the one-sided and of the central difference of y = x/√(1+x²) at x = 2 against the right derivative, and of the
central difference against one that forgets a term: the program on the page differences.md.
"""
import math
import pathlib

INK, FAINT, BLUE, GREEN, ORANGE = "#24292f", "#8b949e", "#1558b0", "#1a7f37", "#c25700"
W, H, LEFT, BOTTOM, TOP, RIGHT = 680, 360, 74, 56, 24, 24


def f(x):
    return x / math.sqrt(1 + x * x)


X, RIGHT_ONE, WRONG_ONE = 2.0, 5.0**-1.5, 5.0**-0.5
STEPS = [10 ** (-k / 6) for k in range(6, 73)]


def one_sided(h):
    return (f(X + h) - f(X)) / ((X + h) - X)


def central(h):
    return (f(X + h) - f(X - h)) / ((X + h) - (X - h))


def px(h):
    return LEFT + (math.log10(h) + 12) / 11 * (W - LEFT - RIGHT)


def py(error):
    return TOP + (0.5 - math.log10(error)) / 13 * (H - BOTTOM - TOP)


def curve(quotient, truth, colour):
    places = " ".join(f"{px(h):.1f},{py(max(abs(quotient(h) - truth), 3e-13)):.1f}" for h in STEPS)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2.2" stroke-linejoin="round"/>'


def text(x, y, words, colour=INK, anchor="middle", more=""):
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}" text-anchor="{anchor}" {more}>{words}</text>'


def superscript(k):
    return "10" + str(k).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


out = [
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {H}" width="{W}" height="{H}" font-family="sans-serif" font-size="13">',
    f'<rect x="0.5" y="0.5" width="{W - 1}" height="{H - 1}" rx="8" fill="#ffffff" stroke="#d0d7de"/>',
]
for k in range(-12, 0, 2):
    out.append(f'<line x1="{px(10.0**k):.1f}" y1="{TOP}" x2="{px(10.0**k):.1f}" y2="{H - BOTTOM}" stroke="#eaeef2"/>')
    out.append(text(px(10.0**k), H - BOTTOM + 18, superscript(k), FAINT))
for k in range(-12, 1, 3):
    out.append(f'<line x1="{LEFT}" y1="{py(10.0**k):.1f}" x2="{W - RIGHT}" y2="{py(10.0**k):.1f}" stroke="#eaeef2"/>')
    out.append(text(LEFT - 8, py(10.0**k) + 4, superscript(k), FAINT, "end"))
middle = (H - BOTTOM + TOP) / 2
out += [
    text((LEFT + W - RIGHT) / 2, H - 14, "step h"),
    text(18, middle, "|difference − derivative|", more=f'transform="rotate(-90 18 {middle:.0f})"'),
    curve(one_sided, RIGHT_ONE, GREEN),
    curve(central, RIGHT_ONE, BLUE),
    curve(central, WRONG_ONE, ORANGE),
    text(px(1e-7), py(WRONG_ONE - RIGHT_ONE) - 9, "central, against a gradient that forgets a term: a plateau", ORANGE),
    text(px(3e-4), py(2e-4), "one-sided: slope 1", GREEN, "end"),
    text(px(1.2e-3), py(4e-9), "central: slope 2", BLUE, "start"),
    text(px(8e-10), py(3e-9), "rounding: slope −1", INK, "end"),
    "</svg>",
]
pathlib.Path(__file__).with_name("error-against-step.svg").write_text("\n".join(out) + "\n", encoding="utf-8")
