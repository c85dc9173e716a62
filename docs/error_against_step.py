"""Draws docs/error-against-step.svg: python docs/error_against_step.py

The error of a central difference of y = x/√(1+x²) at x = 2 against the right derivative and against one
that forgets a term, the function of the example `check_your_own`.
"""
import math

f = lambda x: x / math.sqrt(1 + x * x)
x, right, wrong = 2.0, 5.0 ** -1.5, 5.0 ** -0.5
steps = [10 ** (-k / 4) for k in range(4, 45)]
error = lambda d: [max(abs((f(x + e) - f(x - e)) / (2 * e) - d), 1e-13) for e in steps]

W, H, L, B = 640, 300, 70, 40
px = lambda e: L + (math.log10(e) + 11) / 10 * (W - L - 20)
py = lambda y: 20 + (0 - math.log10(y)) / 13 * (H - B - 20)
line = lambda ys: " ".join(f"{px(e):.1f},{py(y):.1f}" for e, y in zip(steps, ys))
out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {H}" width="{W}" height="{H}" font-family="sans-serif" font-size="12">',
       f'<rect width="{W}" height="{H}" fill="white"/>']
for k in range(-11, 0, 2):
    out.append(f'<line x1="{px(10**k):.1f}" y1="20" x2="{px(10**k):.1f}" y2="{H-B}" stroke="#eee"/>'
               f'<text x="{px(10**k):.1f}" y="{H-B+16}" text-anchor="middle" fill="#555">1e{k}</text>')
for k in range(-12, 1, 3):
    out.append(f'<line x1="{L}" y1="{py(10.0**k):.1f}" x2="{W-20}" y2="{py(10.0**k):.1f}" stroke="#eee"/>'
               f'<text x="{L-8}" y="{py(10.0**k)+4:.1f}" text-anchor="end" fill="#555">1e{k}</text>')
out += [f'<text x="{(L+W)/2:.0f}" y="{H-6}" text-anchor="middle" fill="#333">step ε</text>',
        f'<text x="14" y="{(H-B)/2+10:.0f}" fill="#333" transform="rotate(-90 14 {(H-B)/2+10:.0f})" text-anchor="middle">|difference − gradient|</text>',
        f'<polyline points="{line(error(wrong))}" fill="none" stroke="#c25700" stroke-width="2.5"/>',
        f'<polyline points="{line(error(right))}" fill="none" stroke="#1558b0" stroke-width="2.5"/>',
        f'<text x="{px(1e-6):.0f}" y="{py(wrong-right)-8:.0f}" fill="#c25700" text-anchor="middle">a term forgotten: a plateau</text>',
        f'<text x="{px(3e-8):.0f}" y="{py(3e-7):.0f}" fill="#1558b0" text-anchor="middle">the right gradient: a V</text>', "</svg>"]
open("docs/error-against-step.svg", "w").write("\n".join(out) + "\n")
