"""What kind of mistake a wrong gradient looks like, from both gradients' values alone.

It must not know the functions, and says nothing about whether the gradient is wrong: the engine
does.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._report import Comparison

    _Rows = Sequence[Comparison]

#: The shapes of the arguments, by name.
Shapes = Mapping[str, tuple[int, ...]]
Index = tuple[int, ...]


def shape_hint(expected: Sequence[int], got: Sequence[int]) -> str | None:
    """What a gradient of the wrong shape looks like."""
    expected, got = tuple(expected), tuple(got)
    if len(expected) > 1 and got == expected[::-1]:
        return f"transposed: the gradient has the shape of the input's transpose {list(got)}"
    padded = (1,) * (len(got) - len(expected)) + expected
    if len(got) >= len(expected) and all(a in (1, b) for a, b in zip(padded, got)):
        extra = len(got) - len(expected)
        sizes = enumerate(zip(padded, got))
        axes = [k for k, (a, b) in sizes if k < extra or a != b]
        what = f"axis {axes[0]}" if len(axes) == 1 else f"axes {tuple(axes)}"
        return (
            "missing broadcast sum: the input was broadcast to the gradient's shape, so its "
            "gradient "
            f"is the sum over {what}"
        )
    if math.prod(expected) == math.prod(got):
        shape = list(expected)
        return f"the elements are as many as they should be: reshape the gradient to {shape}"
    reduced = tuple(n for n in expected if n != 1)
    if len(got) < len(expected) and reduced != got:
        return "summed too far: the gradient has fewer axes than the input"
    return None


def wrong_hint(comparisons: "_Rows", shapes: Shapes, fast: bool) -> str:
    """What a gradient of wrong values looks like. `comparisons` are all that were made."""
    rows = [row for row in comparisons if row.index is not None]
    wrong = [row for row in rows if not row.error <= row.tolerance]
    if not wrong:
        return "the gradient of another function: the error does not fall with ε"
    names = list(dict.fromkeys(row.argument for row in wrong))
    inside = [row for row in rows if row.argument in names]
    found = (
        _zero(wrong, inside)
        or _factor(wrong, inside, names, shapes)
        or (None if fast else _rearranged(inside, names, shapes))
        or _offset(wrong, inside)
        or _another(wrong, inside)
    )
    return found + _where(wrong, rows, inside, names, fast)


def _same(pairs: Iterable[tuple[float, float]], slack: float = 1e-4) -> bool:
    """Whether all pairs are equal, but for rounding, and not all are 0."""
    pairs = list(pairs)
    size = max((abs(b) for _, b in pairs), default=0.0)
    return size > 0 and all(abs(a - b) <= slack * abs(b) + 1e-7 * size for a, b in pairs)


def _zero(wrong: "_Rows", inside: "_Rows") -> str | None:
    if any(row.analytic != 0 for row in wrong):
        return None
    if all(row.analytic == 0 for row in inside):
        return "zero where it should not be: your gradient is 0 everywhere"
    return "zero where it should not be: a term is missing there"


def _factor(wrong: "_Rows", inside: "_Rows", names: list[str], shapes: Shapes) -> str | None:
    first = max(wrong, key=lambda row: abs(row.numeric))
    if first.numeric == 0 or len(wrong) < min(2, len(inside)):
        return None
    factor = first.analytic / first.numeric
    if not _same((row.analytic, factor * row.numeric) for row in wrong):
        return None
    everywhere = _same((row.analytic, factor * row.numeric) for row in inside)
    where = "everywhere" if everywhere else "wherever it is wrong"
    if abs(factor + 1) < 1e-4:
        return f"the sign is swapped: your gradient is −1 times the right one {where}"
    return f"off by a constant factor {factor:.4g} {where}{_reason(factor, names, shapes)}"


def _reason(factor: float, names: list[str], shapes: Shapes) -> str:
    """What a factor might come from."""
    # Two is more often a power's or a square's than a size.
    if abs(abs(factor) - 2) < 1e-4 or abs(abs(factor) - 0.5) < 1e-4:
        return ""
    for name in (*names, *(n for n in shapes if n not in names)):
        shape = shapes.get(name, ())
        sizes = [(n, f"the size of axis {k} of {name}") for k, n in enumerate(shape)]
        if len(shape) > 1:
            sizes.append((math.prod(shape), f"the number of elements of {name}"))
        for size, text in sizes:
            if size > 1 and abs(abs(factor) - size) < 1e-4 * size:
                return f" ({text}: a mean's division is missing?)"
            if size > 1 and abs(abs(factor) * size - 1) < 1e-4:
                return f" (1 over {text}: divided as for a mean?)"
    return ""


def _rearranged(inside: "_Rows", names: list[str], shapes: Shapes) -> str | None:
    if len(names) != 1:
        return None
    shape = shapes.get(names[0], ())
    table = {tuple(row.index or ()): row for row in inside}
    if not shape or len(table) != math.prod(shape):
        return None
    if len(shape) > 1 and shape[-1] == shape[-2]:

        def swapped(i: Index) -> Index:
            return (*i[:-2], i[-1], i[-2])

        if _same((row.analytic, table[swapped(i)].numeric) for i, row in table.items()):
            return "transposed: your gradient is the right one with its last two axes swapped"
    axes = [k for k, n in enumerate(shape) if n > 1]
    for count in range(1, len(axes) + 1):
        for chosen in itertools.combinations(axes, count):

            def turned(i: Index, chosen: Index = chosen) -> Index:
                return tuple(shape[k] - 1 - v if k in chosen else v for k, v in enumerate(i))

            if _same((row.analytic, table[turned(i)].numeric) for i, row in table.items()):
                what = f"axis {chosen[0]}" if count == 1 else f"axes {chosen}"
                return f"flipped: your gradient is the right one backwards along {what}"
    for k in axes:
        for step in (1, -1):

            def moved(i: Index, k: int = k, step: int = step) -> Index:
                return (*i[:k], (i[k] + step) % shape[k], *i[k + 1 :])

            if _same((row.analytic, table[moved(i)].numeric) for i, row in table.items()):
                return f"shifted: your gradient is the right one moved by one along axis {k}"
    return None


def _offset(wrong: "_Rows", inside: "_Rows") -> str | None:
    if len(wrong) < 2 or len(wrong) < len(inside):
        return None
    offset = wrong[0].analytic - wrong[0].numeric
    if _same((row.analytic - row.numeric, offset) for row in inside):
        amount = f"off by the same amount everywhere ({offset:+.4g})"
        return f"{amount}: a constant term too many or too few"
    return None


def _another(wrong: "_Rows", inside: "_Rows") -> str:
    size = max(abs(row.numeric) for row in inside)
    error = max(row.error for row in wrong)
    text = "the gradient of another function: the error does not fall with ε"
    if 0 < error < 0.01 * size:
        text += (
            f", and is small ({100 * error / size:.2g} % of the largest gradient): an "
            "approximation of "
            "the function, or a constant with too few digits?"
        )
    return text


def _where(wrong: "_Rows", rows: "_Rows", inside: "_Rows", names: list[str], fast: bool) -> str:
    """Which part of the inputs the mistake is confined to."""
    right = [n for n in dict.fromkeys(row.argument for row in rows) if n not in names]
    text = ""
    if right:
        rest = "gradient for {} is" if len(right) == 1 else "gradients for {} are"
        text = f"; only in {', '.join(names)}: the {rest.format(', '.join(right))} right"
    if fast or len(names) != 1 or len(wrong) == len(inside):
        return text
    count = f"{len(wrong)} of {len(inside)} elements"
    if len(inside) <= 2:
        return text
    for axis in range(len(wrong[0].index or ())):
        values = {row.index[axis] for row in wrong if row.index is not None}
        held = [row for row in inside if row.index is not None and row.index[axis] in values]
        if len(values) == 1 and len(held) == len(wrong):
            place = f"the index along axis {axis} of {names[0]} is {values.pop()}"
            return f"{text}; wrong where {place}"
    return f"{text}; wrong at {count} of {names[0]}"
