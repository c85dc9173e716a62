"""What to say of calls that went wrong, and of mistakes that both functions show when called again.

It looks at a check under way (`_check.py`) and its report; it must not compare gradients.
"""

import inspect
from typing import TYPE_CHECKING

from . import _adapt, _core, ops
from ._adapt import is_float
from ._core import Tensor
from ._tree import Structure

if TYPE_CHECKING:
    from ._check import Check
    from ._report import Report


def expect_arguments(check: "Check", results: int) -> None:
    """Raises if the backward function cannot be called with what it will be called with."""
    try:
        signature = inspect.signature(check.f_backward or check.f)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*[None] * (1 + check.count))
    except TypeError as error:
        called = ", ".join(["grad_output", *check.arguments])
        several = ""
        if results > 1:
            kind = getattr(check.outputs[0].kind, "__name__", "tree")
            several = f", where grad_output is a {kind} of {results} gradients"
        raise TypeError(
            f"the backward function is called with ({called}){several}: {error}"
        ) from None


def list_hint(check: "Check") -> str | None:
    """What to do about a list of numbers that was meant as an array."""
    for name, part in zip(check.arguments, check.structure.parts):
        if (part.kind is list or part.kind is tuple) and part.parts:
            leaves = _leaves_below(check, part)
            if leaves and all(_adapt.kind_of(x) == "float" for x in leaves):
                kind = part.kind.__name__
                return f"{name} is a {kind}, so a tree: write np.array(...)"
    return None


def _leaves_below(check: "Check", part: Structure) -> list[object]:
    """The leaves of one of the arguments."""
    at = 0
    for other in check.structure.parts:
        count = _adapt.leaf_count(other)
        if other is part:
            return check.originals[at : at + count]
        at += count
    return []


def look_at_grad_output(check: "Check", report: "Report", center: list[Tensor]) -> None:
    """A gradient that does not move with `grad_output` needs no other explanation."""
    ones = [_core.full(y.shape, 1, dtype=y.dtype) for y in center]
    once = _flat_gradient(check, ones)
    twice = _flat_gradient(check, [2 * w for w in ones])
    if any(once) and once == twice:
        report.hint = "the backward function does not use grad_output: multiply by it"
        return
    unused = _unused_weights(check, ones, once, center)
    if unused:
        report.hint = f"the backward function does not use {unused[0]}: add its term"
    elif any(abs(b - 2 * a) > 1e-6 * (abs(a) + abs(b)) for a, b in zip(once, twice)):
        report.hint = (
            "the backward function is not linear in grad_output: twice the grad_output "
            "does not give twice the gradient"
        )


def _flat_gradient(check: "Check", weights: list[Tensor]) -> list[float]:
    """All gradients for these weights in one list of numbers."""
    found = check.backward(weights, check.tensors)
    return [number for x in found for number in ops.reshape(x, (x.size,)).tolist()]


def _unused_weights(
    check: "Check", ones: list[Tensor], once: list[float], center: list[Tensor]
) -> list[str]:
    """Which of several results' gradients change nothing, though the results do change."""
    if len(ones) < 2:
        return []
    found = []
    for k, w in enumerate(ones):
        alone = _flat_gradient(check, [*ones[:k], 2 * w, *ones[k + 1 :]])
        if alone == once and w.size:
            found.append(k)
    if found:
        try:
            moved = check.forward([_moved(x) if is_float(x) else x for x in check.tensors])
        except Exception:  # not defined there, and then nothing is known
            return []
        found = [k for k in found if moved[k].tolist() != center[k].tolist()]
    structure, _, floats = check.outputs
    names: list[str] = []
    _adapt.names_of(structure, "", names)
    return [f"grad_output[{names[floats[k]][1:]}]" for k in found]


def _moved(x: Tensor) -> Tensor:
    """A point nearby, in no direction that a function is likely to be constant along."""
    away = 0.01 * _core.Key(1).normal(x.shape, "float64")
    return x + _core.asarray(away, dtype=x.dtype)


def say_not_finite(report: "Report", center: list[Tensor]) -> None:
    """Says where the function itself is NaN or infinite; a check at NaN is none."""
    for number, y in enumerate(center):
        found = _adapt.not_finite(y)
        if found is None:
            continue
        index, value = found
        which = "its result" if len(center) == 1 else f"its result {number}"
        text = f"the function is {value} at {which}{list(index)}"
        if value != value:
            report.fail("not finite", f"{text}: there is no derivative to check there")
        else:
            report.notes.append(f"{text}, where there is no derivative to check")
        return
