"""Draws checkpointing.svg from the table in checkpointing.md: python docs/book/pages/autodiff/checkpointing.py

Memory against the number of segments: measured, beside 2 MiB · (k + 64/k).
"""
import math
import pathlib
import re

here = pathlib.Path(__file__).parent
rows = re.findall(r"^ +(\d+) +(\d+) +\d+ +\d+   [\d.]+$", (here / "checkpointing.md").read_text(), re.M)
points = {int(k): int(mib) for k, mib in rows}
plain = points.pop(0)

W, H, L, R, T, B = 640, 300, 60, 20, 20, 46
px = lambda k: L + math.log2(k) / 6 * (W - L - R)
py = lambda mib: T + (1 - mib / 160) * (H - T - B)
grey, blue, orange = "#808890", "#3d8bd4", "#d9822b"
text = lambda x, y, s, colour=grey, anchor="middle": (
    f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{s}</text>')
out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {H}" width="{W}" height="{H}" font-family="sans-serif" font-size="13">']
for mib in range(0, 161, 40):
    out.append(f'<line x1="{L}" y1="{py(mib):.1f}" x2="{W - R}" y2="{py(mib):.1f}" stroke="{grey}" stroke-opacity="0.3"/>')
    out.append(text(L - 8, py(mib) + 4, mib, anchor="end"))
out += [text(px(2**e), H - B + 18, 2**e) for e in range(7)]
out.append(text((L + W - R) / 2, H - 8, "segments"))
out.append(f'<text x="16" y="{(T + H - B) / 2:.0f}" fill="{grey}" text-anchor="middle" transform="rotate(-90 16 {(T + H - B) / 2:.0f})">MiB</text>')
out.append(f'<line x1="{L}" y1="{py(plain):.1f}" x2="{W - R}" y2="{py(plain):.1f}" stroke="{orange}" stroke-width="2" stroke-dasharray="6 4"/>')
out.append(text(px(8), py(plain) - 7, f"without checkpoints: {plain} MiB", orange))
model = " ".join(f"{px(k):.1f},{py(2 * (k + 64 / k)):.1f}" for k in (2 ** (e / 8) for e in range(49)))
out.append(f'<polyline points="{model}" fill="none" stroke="{blue}" stroke-width="2" stroke-opacity="0.5"/>')
out.append(text(px(3.1), py(22), "2 MiB · (k + 64/k)", blue, "start"))
for k, mib in sorted(points.items()):
    out.append(f'<circle cx="{px(k):.1f}" cy="{py(mib):.1f}" r="5" fill="{blue}"/>')
least = min(points, key=points.get)
out.append(text(px(least), py(points[least]) - 12, f"measured: {points[least]} MiB", blue))
out.append("</svg>")
(here / "checkpointing.svg").write_text("\n".join(out) + "\n")
