"""Draws the pictures of this chapter, graph.svg and convolution.svg: python docs/book/pages/backward/pictures.py

Each is a light card, so that it reads the same on every theme of the book.
"""
import pathlib

INK, FAINT, BLUE, ORANGE = "#24292f", "#8b949e", "#1558b0", "#c25700"


def card(name, width, height, parts):
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="14">'
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" fill="#ffffff" stroke="#d0d7de"/>'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="{FAINT}"/></marker></defs>'
    )
    path = pathlib.Path(__file__).with_name(name)
    path.write_text("\n".join([head, *parts, "</svg>"]) + "\n", encoding="utf-8")


def text(x, y, words, colour=INK, anchor="middle", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" {more}>{words}</text>'


def arrow(x1, y1, x2, y2, cut, colour=FAINT):
    """From one node to another, `cut` short of either's middle."""
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    dx, dy = (x2 - x1) / length * cut, (y2 - y1) / length * cut
    return (
        f'<line x1="{x1 + dx:.1f}" y1="{y1 + dy:.1f}" x2="{x2 - dx:.1f}" y2="{y2 - dy:.1f}" '
        f'stroke="{colour}" stroke-width="1.6" marker-end="url(#tip)"/>'
    )


def graph():
    nodes = {  # name: place, the step
        "y": (60, 60, ""), "x": (60, 170, ""), "u": (210, 60, "xy"), "v": (210, 170, "sin x"),
        "z": (370, 115, "u + v"), "L": (520, 115, "z²"),
    }  # fmt: skip
    edges = [  # from, to, the derivative on the edge, where along it, beside it
        ("y", "u", "x", 0.5, 0, -8), ("x", "u", "y", 0.35, -10, -8), ("x", "v", "cos x", 0.5, 0, 18),
        ("u", "z", "1", 0.5, 6, -8), ("v", "z", "1", 0.5, 8, 16), ("z", "L", "2z", 0.5, 0, -8),
    ]  # fmt: skip
    parts = []
    for start, end, derivative, along, dx, dy in edges:
        (x1, y1, _), (x2, y2, _) = nodes[start], nodes[end]
        parts.append(arrow(x1, y1, x2, y2, 24))
        parts.append(text(x1 + along * (x2 - x1) + dx, y1 + along * (y2 - y1) + dy, derivative, BLUE))
    for name, (x, y, step) in nodes.items():
        parts.append(f'<circle cx="{x}" cy="{y}" r="20" fill="#f6f8fa" stroke="{INK}" stroke-width="1.4"/>')
        parts.append(text(x, y + 5, name, more='font-style="italic"'))
        if step:
            parts.append(text(x, y - 28, f"= {step}", FAINT))
    parts.append(text(290, 225, "values flow to the right; gradients flow to the left, times what is on the edge", ORANGE))
    card("graph.svg", 580, 245, parts)


def convolution():
    """One axis: 7 inputs, a kernel of 3, stride 2, 3 outputs."""
    parts = []
    for left, title, lit, what in (
        (0, "an output is made of 3 inputs", "output", 1),
        (330, "an input goes to 1 or 2 outputs", "input", 4),
    ):
        parts.append(text(left + 165, 28, title, INK))
        inputs = [(left + 45 + 40 * a, 175) for a in range(7)]
        outputs = [(left + 85 + 80 * i, 75) for i in range(3)]
        labels = []
        for i, (x2, y2) in enumerate(outputs):
            for s in range(3):
                a = 2 * i + s
                on = i == what if lit == "output" else a == what
                x1, y1 = inputs[a]
                colour = (BLUE if lit == "output" else ORANGE) if on else "#d8dee4"
                parts.append(f'<line x1="{x1}" y1="{y1 - 13}" x2="{x2}" y2="{y2 + 13}" stroke="{colour}" stroke-width="{2.2 if on else 1.2}"/>')
                if on:
                    labels.append(text((x1 + x2) / 2, (y1 + y2) / 2 + 12, f"w{'₀₁₂'[s]}", colour, more='stroke="#ffffff" stroke-width="5" paint-order="stroke"'))
        parts += labels
        for a, (x, y) in enumerate(inputs):
            on = lit == "input" and a == what or lit == "output" and 2 * what <= a <= 2 * what + 2
            parts.append(f'<rect x="{x - 15}" y="{y - 13}" width="30" height="26" rx="4" fill="{"#fff1e5" if on and lit == "input" else "#ddf4ff" if on else "#f6f8fa"}" stroke="{FAINT}"/>')
            parts.append(text(x, y + 5, f"x{'₀₁₂₃₄₅₆'[a]}"))
        for i, (x, y) in enumerate(outputs):
            on = lit == "output" and i == what or lit == "input" and 0 <= what - 2 * i <= 2
            parts.append(f'<rect x="{x - 15}" y="{y - 13}" width="30" height="26" rx="4" fill="{"#ddf4ff" if on and lit == "output" else "#fff1e5" if on else "#f6f8fa"}" stroke="{FAINT}"/>')
            parts.append(text(x, y + 5, f"y{'₀₁₂'[i]}" if lit == "output" else f"g{'₀₁₂'[i]}"))
        under = "y₁ = w₀x₂ + w₁x₃ + w₂x₄" if lit == "output" else "gradient for x₄ = w₂g₁ + w₀g₂"
        parts.append(text(left + 165, 225, under, BLUE if lit == "output" else ORANGE))
    card("convolution.svg", 660, 245, parts)


graph()
convolution()
