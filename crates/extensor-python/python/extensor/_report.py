"""What a check found, for a terminal and for a notebook.

It shows the engine's findings and judges nothing. The plot is made here: no library is needed for
it.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import NamedTuple

from . import _core


class Comparison(NamedTuple):
    """Both derivatives at one place; `index` is None for a direction."""

    argument: str
    index: tuple[int, ...] | None  # type: ignore[assignment]
    analytic: float
    numeric: float
    error: float
    tolerance: float


class Step(NamedTuple):
    """The difference quotient for one step ε, and how far the gradient is from it."""

    eps: float
    numeric: float
    error: float


class Kink(NamedTuple):
    """A place at which the differences from below and from above disagree."""

    argument: str
    index: tuple[int, ...] | None  # type: ignore[assignment]
    left: float
    right: float
    analytic: float


Points = list[tuple[float, float]]

_SHOWN = 6


class Report:
    """What a check of a gradient found. It is true if the gradient is right, and prints.

    `passed`; `problem` (what kind, in a word) and `message`; `problems` (a list of messages);
    `hint` (what kind of mistake it looks like); `worst` (a `Comparison`: argument, index, analytic,
    numeric, error, tolerance); `comparisons` (all of them); `steps` (`Step`s: the error against ε
    at the worst place); `kinks`, `kink_count`; `taylor` (the slope of the remainder, 2 if right);
    `checked` of `elements`; `mode`, `dtype`, `eps`, `name`, `notes`; `text` (the report of the Rust
    library).
    """

    def __init__(
        self, name: str, problem: str | None = None, message: str | None = None,
        hint: str | None = None, notes: Iterable[str] = (),
    ) -> None:  # fmt: skip
        self.name, self.problem, self.message, self.hint = name, problem, message, hint
        self.notes = list(notes)
        self.worst: Comparison | None = None
        self.comparisons: list[Comparison] = []
        self.steps: list[Step] = []
        self.kinks: list[Kink] = []
        self.kink_count, self.checked, self.elements = 0, 0, 0
        self.taylor: float | None = None
        self.dtype: str | None = None
        self.eps: float | None = None
        self.mode, self.text = "full", message or ""

    @classmethod
    def of(cls, core: _core.Report, notes: Iterable[str]) -> "Report":
        """The report of what the engine found."""
        self = cls(core.name, core.problem, core.message, None, notes)
        self.worst = None if core.worst is None else _comparison(core.worst)
        self.comparisons = [_comparison(row) for row in core.comparisons]
        self.steps = [Step(*step) for step in core.steps]
        self.kinks = [Kink(name, _index(index), *rest) for name, index, *rest in core.kinks]
        self.kink_count, self.taylor, self.eps = core.kink_count, core.taylor, core.eps
        self.checked, self.elements = core.checked, core.elements
        self.mode, self.dtype, self.text = core.mode, core.dtype, str(core)
        self.hint = core.diagnosis or _HINTS.get(core.problem or "")
        return self

    @property
    def passed(self) -> bool:
        """Whether the gradient is right."""
        return self.problem is None

    @property
    def problems(self) -> list[str]:
        """The problem in a sentence, in a list that is empty if there is none."""
        return [] if self.passed else [self.message or ""]

    def __bool__(self) -> bool:
        return self.passed

    def raise_if_failed(self) -> None:
        """Raises AssertionError with the report unless the gradient is right."""
        __tracebackhide__ = True
        if not self.passed:
            raise AssertionError(f"\n{self}")

    def fail(self, problem: str, message: str) -> None:
        """Adds a problem that was found beside the engine's, and that explains them."""
        self.problem, self.message, self.hint = problem, message, None
        self.kinks, self.kink_count, self.taylor = [], 0, None

    def wrong(self) -> list[Comparison]:
        """The comparisons that are not within what is allowed, the worst first."""
        found = [row for row in self.comparisons if not row.error <= row.tolerance]
        return sorted(found, key=lambda row: -_ratio(row))

    # -- Words.

    def verdict(self) -> str:
        """The first line."""
        if self.passed:
            return f"✓ {self.name}: the gradient is right"
        message = self.message
        if self.problem == "wrong":
            wrong = [row for row in self.wrong() if row.index is not None]
            among = [row for row in self.comparisons if row.index is not None]
            if not wrong:
                message = "WRONG GRADIENT"
            elif self.mode == "fast":
                message = f"WRONG GRADIENT at {len(wrong)} of {len(among)} elements looked at"
            else:
                message = f"WRONG GRADIENT at {len(wrong)} of {len(among)} elements"
        return f"✗ {self.name}: {message}"

    def setting(self) -> str:
        """What was done, in brackets."""
        if self.eps is None:
            return ""
        if self.mode == "fast":
            what = f"{self.checked} random directions through {self.elements} elements"
        else:
            what = f"{self.checked} of {self.elements} elements"
        if self.problem == "wrong" and self.mode == "full":
            return f"{self.dtype}, ε = {self.eps:.0e}"
        return f"{what}, {self.dtype}, ε = {self.eps:.0e}"

    def rows(self) -> tuple[list[Comparison], int]:
        """The comparisons to show."""
        wrong = self.wrong()
        if wrong and self.problem == "wrong":
            return wrong[:_SHOWN], len(wrong) - _SHOWN
        if self.worst is not None and self.problem in (None, "wrong", "unresolved", "taylor"):
            return [self.worst], 0
        return [], 0

    def remarks(self) -> list[str]:
        """What else there is to say, line by line."""
        lines = []
        for kink in self.kinks:
            place = _place(kink)
            lines.append(
                f"not differentiable at {place}: {kink.left:.6g} from below, {kink.right:.6g} "
                "from above, "
                f"{kink.analytic:.6g} yours"
            )
        if self.kink_count > len(self.kinks):
            lines.append(f"nor at {self.kink_count - len(self.kinks)} more places")
        if self.taylor is not None and math.isinf(self.taylor):
            lines.append("Taylor remainder: none but rounding (the function is affine)")
        elif self.taylor is not None:
            lines.append(f"Taylor remainder: slope {self.taylor:.2f} (a right gradient gives 2)")
        return lines + [f"note: {note}" for note in self.notes]

    def __str__(self) -> str:
        setting = self.setting()
        lines = list(_wrapped(self.verdict() + (f" ({setting})" if setting else ""), first=""))
        rows, more = self.rows()
        if rows and self.passed:
            (worst,) = rows
            lines.append(
                f"  largest error {worst.error:.1e}, at {_place(worst)}; allowed "
                f"{worst.tolerance:.1e}"
            )
        elif rows:
            lines += ["", *_table(rows)]
        if more > 0:
            lines.append(f"  and {more} more")
        if self.hint:
            lines += ["", *_wrapped(_sentence(self.hint))]
        if self.steps and self.worst is not None and not self.passed:
            lines += ["", f"  error against ε, at {_place(self.worst)}", *self.plot()]
        remarks = self.remarks()
        if remarks and not self.passed:
            lines.append("")
        lines += [line for remark in remarks for line in _wrapped(remark)]
        return "\n".join(lines)

    __repr__ = __str__

    # -- Pictures.

    def points(self) -> Points:
        """log₁₀ of ε and of the error, from the largest ε to the smallest."""
        finite = [s for s in self.steps if math.isfinite(s.error)]
        least = min((s.error for s in finite if s.error > 0), default=1e-16)
        return [(math.log10(s.eps), math.log10(max(s.error, least))) for s in finite]

    def right_points(self) -> Points:
        """What `points` would be if the gradient were what differences settle at."""
        if self.problem != "wrong" or self.worst is None:
            return []
        right = self.worst.numeric
        least = max(abs(right) * 1e-16, 1e-16)
        steps = [(s.eps, abs(s.numeric - right)) for s in self.steps if math.isfinite(s.numeric)]
        return [(math.log10(eps), math.log10(max(error, least))) for eps, error in steps]

    def bounds(self, points: Points) -> tuple[float, float, int, int]:
        """The decades that a plot spans: of ε, and of errors with what is allowed."""
        ys = [y for _, y in points + self.right_points()]
        ys.append(self.allowed())
        low, high = math.floor(min(ys) - 0.2), math.ceil(max(ys) + 0.2)
        xs = [x for x, _ in points]
        high = max(high, low + 4)
        return min(xs), max(xs), low, high + (high - low) % 2

    def allowed(self) -> float:
        """log₁₀ of the error that is allowed at the worst place."""
        return math.log10(max(self.worst.tolerance if self.worst is not None else 0.0, 1e-300))

    def plot(self) -> list[str]:
        """The error against ε in characters."""
        points = self.points()
        if not points:
            return []
        left, right, low, high = self.bounds(points)
        height, wide = 8, 46

        def row(y: float) -> int:
            return round((high - y) / (high - low) * height)

        def column(x: float) -> int:
            return round((x - left) / max(right - left, 1e-9) * (wide - 1))

        grid = [[" "] * wide for _ in range(height + 1)]
        allowed = row(self.allowed())
        grid[allowed] = ["┄"] * wide
        for x, y in self.right_points():
            grid[row(y)][column(x)] = "○"
        for x, y in points:
            grid[row(y)][column(x)] = "●"
        lines = []
        for k, cells in enumerate(grid):
            label = f"1e{round(high - k / height * (high - low)):+03d}" if k % 4 == 0 else ""
            tail = " allowed" if k == allowed else ""
            lines.append(f"  {label:>8} │ {''.join(cells)}{tail}".rstrip())
        lines.append(f"  {'':>8} └{'─' * (wide + 1)}")
        first, last = f"1e{left:+03.0f}", f"1e{right:+03.0f}"
        lines.append(f"  {'':>8}   {first}{'ε':^{wide - len(first) - len(last)}}{last}")
        if self.right_points():
            lines.append(f"  {'':>8}   ● your gradient   ○ what a right gradient would give")
        return lines

    def svg(self) -> str:
        """The error against ε on logarithmic scales, as SVG; "" if there is nothing to plot."""
        points = self.points()
        if not points:
            return ""
        left, right, low, high = self.bounds(points)
        width, height, x0, y0, x1, y1 = 480, 230, 58, 14, 466, 190

        def px(x: float) -> float:
            return x0 + (x - left) / max(right - left, 1e-9) * (x1 - x0)

        def py(y: float) -> float:
            return y1 - (y - low) / (high - low) * (y1 - y0)

        def curve(points: Points) -> str:
            return " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in points)

        colour = "#2a9d5c" if self.passed else "#d9485f"
        out = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" '
            f'height="{height}" font-family="system-ui, sans-serif" font-size="11" '
            'fill="currentColor" '
            f'role="img" aria-label="error against step">'
        ]
        grid = 'stroke="currentColor" stroke-opacity="0.15"'
        for k in range(math.ceil(left), math.floor(right) + 1):
            out.append(f'<line x1="{px(k):.1f}" y1="{y0}" x2="{px(k):.1f}" y2="{y1}" {grid}/>')
            if k % 2 == 0:
                out.append(
                    f'<text x="{px(k):.1f}" y="{y1 + 16}" text-anchor="middle" '
                    f'opacity="0.75">{_power(k)}</text>'
                )
        every = max(1, (high - low) // 4)
        for k in range(low, high + 1, every):
            out.append(f'<line x1="{x0}" y1="{py(k):.1f}" x2="{x1}" y2="{py(k):.1f}" {grid}/>')
            out.append(
                f'<text x="{x0 - 7}" y="{py(k) + 4:.1f}" text-anchor="end" '
                f'opacity="0.75">{_power(k)}</text>'
            )
        allowed = py(self.allowed())
        line, right_line = curve(points), curve(self.right_points())
        if right_line:
            out += [
                f'<polyline points="{right_line}" fill="none" stroke="#8a8f98" stroke-width="1.6" '
                f'stroke-linejoin="round"/>',
                f'<text x="{x1}" y="{height - 6}" text-anchor="end" fill="#8a8f98">'
                "what a right gradient gives</text>",
                f'<text x="{x0}" y="{height - 6}" fill="{colour}">your gradient</text>',
            ]
        out += [
            f'<line x1="{x0}" y1="{allowed:.1f}" x2="{x1}" y2="{allowed:.1f}" stroke="#4a90d9" '
            f'stroke-width="1.5" stroke-dasharray="5 4"/>',
            f'<text x="{x1}" y="{allowed - 5:.1f}" text-anchor="end" fill="#4a90d9">allowed</text>',
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.2" '
            f'stroke-linejoin="round"/>',
        ]
        for x, y in points:
            out.append(f'<circle cx="{px(x):.1f}" cy="{py(y):.1f}" r="2.8" fill="{colour}"/>')
        out += [
            f'<text x="{(x0 + x1) / 2:.0f}" y="{height - 6}" text-anchor="middle">step ε</text>',
            f'<text x="13" y="{(y0 + y1) / 2:.0f}" text-anchor="middle" '
            f'transform="rotate(-90 13 {(y0 + y1) / 2:.0f})">error</text>',
            "</svg>",
        ]
        return "".join(out)

    def _repr_html_(self) -> str:
        colour = "#2a9d5c" if self.passed else "#d9485f"
        out = [
            '<div style="font-family: system-ui, sans-serif; font-size: 13px; line-height: 1.45; '
            f'border-left: 4px solid {colour}; padding: 6px 14px; max-width: 760px">',
            '<div style="font-size: 15px"><b style="color: '
            f'{colour}">{escape(self.verdict())}</b></div>',
            f'<div style="opacity: 0.7">{escape(self.setting())}</div>',
        ]
        if self.hint:
            hint = escape(_sentence(self.hint))
            out.append(f'<div style="margin: 6px 0; font-weight: 600">{hint}</div>')
        rows, more = self.rows()
        if rows:
            style = "text-align: right; padding: 2px 12px 2px 0; font-variant-numeric: tabular-nums"
            first = style.replace("right", "left", 1)
            cells = [[escape(cell) for cell in line] for line in [_HEAD, *map(_cells, rows)]]
            out.append('<table style="border-collapse: collapse; background: none; margin: 6px 0">')
            for number, line in enumerate(cells):
                tag = "td" if number else "th"
                weight = "" if number else "; opacity: 0.7; font-weight: 500"
                made = [
                    f'<{tag} style="{first if k < 2 else style}{weight}">{cell}</{tag}>'
                    for k, cell in enumerate(line)
                ]
                out.append(f'<tr style="background: none">{"".join(made)}</tr>')
            out.append("</table>")
        if more > 0:
            out.append(f'<div style="opacity: 0.7">and {more} more</div>')
        picture = self.svg()
        if picture and self.worst is not None:
            out.append(
                '<div style="margin-top: 6px; opacity: 0.7">error against ε, at '
                f'{escape(_place(self.worst))}</div>'
                f"{picture}"
            )
        out += [f'<div style="opacity: 0.7">{escape(line)}</div>' for line in self.remarks()]
        return "".join(out) + "</div>"


_HINTS = {
    "nondeterministic": "random numbers are drawn inside, or something is left over from the last "
    "call; fix the seed inside, or take the random numbers as an argument",
    "taylor": "right at every element looked at and yet not the gradient: does the function "
    "jump nearby",
    "forward": "the function loses its digits in this precision",
    "unresolved": "the function is too rough, or its values too large beside its slope, for "
    "differences "
    "to tell; try another eps, or inputs of ordinary size",
}

_HEAD = ["argument", "index", "your gradient", "differences", "error", "allowed"]


def _index(index: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if index is None else tuple(index)


def _comparison(row: "_core._Entry") -> Comparison:
    name, index, *rest = row
    return Comparison(name, _index(index), *rest)


def _ratio(row: Comparison) -> float:
    if math.isnan(row.error):
        return math.inf
    return row.error / row.tolerance if row.tolerance else math.inf


def _place(row: Comparison | Kink) -> str:
    if row.index is None:
        return f"a random direction through {row.argument}"
    return f"{row.argument}{list(row.index)}" if row.index else row.argument


def _sentence(hint: str) -> str:
    return f"It looks like this: {hint}{'' if hint.endswith('?') else '.'}"


def _power(k: int) -> str:
    return "10" + "".join("⁻" if c == "-" else "⁰¹²³⁴⁵⁶⁷⁸⁹"[int(c)] for c in str(k))


def _cells(row: Comparison) -> list[str]:
    index = "direction" if row.index is None else str(list(row.index))
    return [
        row.argument, index, f"{row.analytic:.9g}", f"{row.numeric:.9g}",
        f"{row.error:.1e}", f"{row.tolerance:.1e}",
    ]


def _table(rows: list[Comparison]) -> Iterator[str]:
    lines = [_HEAD, *map(_cells, rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(_HEAD))]
    for line in lines:
        left = [cell.ljust(width) for cell, width in zip(line[:2], widths)]
        right = [cell.rjust(width) for cell, width in zip(line[2:], widths[2:])]
        yield "  " + "  ".join(left + right)


def _wrapped(text: str, width: int = 98, first: str = "  ") -> Iterator[str]:
    line, start = first, True
    for word in text.split(" "):
        if not start and len(line) + 1 + len(word) > width:
            yield line
            line, start = "  ", True
        line += word if start else " " + word
        start = False
    yield line
