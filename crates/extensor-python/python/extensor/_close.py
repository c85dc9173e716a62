"""Two tensors, or trees of them, compared in a test."""

from typing import Any

from . import _adapt, _core, _tree

__all__ = ["assert_close"]


def assert_close(got: Any, want: Any, *, rtol: float | None = None, atol: float | None = None) -> None:
    """Raises AssertionError unless two tensors, or trees of them, have the same shape and dtype and
    values that are near enough: by at most `atol + rtol·|want|`, by default 1e-10 and 1e-7 in float64,
    1e-7 and 1e-4 in float32, 1e-4 and 1e-2 below that, nothing otherwise. NaN is near NaN. The sentence
    says how many are not, and where the worst is. Arrays of other libraries are read as tensors.

    >>> import extensor as ex
    >>> x = ex.asarray([1.0, 2.0])
    >>> ex.assert_close(ex.log(ex.exp(x)), x)
    >>> ex.assert_close(x, ex.asarray([1.0, 2.5]))
    Traceback (most recent call last):
        ...
    AssertionError: 1 of 2 elements differ, the worst at [1]: 2.0 is not 2.5 (apart by 5.000e-1, allowed 2.501e-7)
      got Tensor([1.0, 2.0], dtype=float64)
     want Tensor([1.0, 2.5], dtype=float64)
    """
    __tracebackhide__ = True
    (ours, form), (theirs, wanted) = (_leaves(x) for x in (got, want))
    if form.names() != wanted.names():
        raise AssertionError(f"the form differs\n  got {form}\n want {wanted}")
    for name, a, b in zip(form.names(), ours, theirs):
        difference = _core.difference(a, b, rtol, atol)
        if difference is not None:
            place = f"{name}: " if name else ""
            raise AssertionError(f"{place}{difference}\n  got {a}\n want {b}")


def _leaves(tree: Any) -> tuple[list[_core.Tensor], _tree.Structure]:
    if _adapt.kind_of(tree) is not None:
        tree = _adapt.to_tensor(tree)
    return _tree.flatten(tree)
