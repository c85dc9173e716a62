"""What is done to gradients between their computation and their use: trees in, trees out.

The functions are the Rust library's. Buffers of modules are no gradients and stay as they are. This
module must not know where gradients come from, nor what is done with them.

>>> import extensor as ex
>>> from extensor import gradients
>>> grads = {"w": ex.asarray([3.0]), "b": ex.asarray(4.0)}
>>> clipped, norm = gradients.clip_grad_norm(grads, 1.0)
>>> float(norm), clipped["w"]
(5.0, Tensor([0.6], dtype=float64))
"""

from typing import Any, Generic, TypeVar

from . import _core, _tree
from ._core import Tensor

__all__ = ["Accumulator", "all_finite", "clip_grad_norm", "clip_grad_value", "global_norm"]

T = TypeVar("T")


def _leaves(tree: Any) -> tuple[list[Tensor], _tree.Structure]:
    return _tree.flatten(tree, buffers=False)


def global_norm(grads: Any) -> Tensor:
    """The Euclidean norm of all tensors of a tree together.

    >>> import extensor as ex
    >>> ex.gradients.global_norm({"a": ex.asarray([3.0]), "b": ex.asarray(4.0)})
    Tensor(5.0, dtype=float64)
    """
    return _core.global_norm(_leaves(grads)[0])


def all_finite(tree: Any) -> bool:
    """Whether no tensor of a tree has a NaN or an infinity."""
    return _core.all_finite(_leaves(tree)[0])


def clip_grad_norm(grads: T, max_norm: float) -> tuple[T, Tensor]:
    """The gradients, scaled down together so that their `global_norm` is at most `max_norm`, and the
    norm that was found. If that is not finite they are returned as they are: no scale mends them."""
    leaves, structure = _leaves(grads)
    clipped, norm = _core.clip_grad_norm(leaves, max_norm)
    made: T = _tree.unflatten(structure, clipped)
    return made, norm


def clip_grad_value(grads: T, max_value: float) -> T:
    """The gradients with every element held within ±`max_value`.

    >>> import extensor as ex
    >>> ex.gradients.clip_grad_value(ex.asarray([-3.0, 0.5]), 1.0)
    Tensor([-1.0,  0.5], dtype=float64)
    """
    leaves, structure = _leaves(grads)
    made: T = _tree.unflatten(structure, _core.clip_grad_value(leaves, max_value))
    return made


class Accumulator(Generic[T]):
    """Gradients of micro-batches, added up to those of the whole batch.

    The sum is kept in float32 where the gradients are of a reduced precision, so that small ones are
    not lost; each micro-batch counts by its weight, usually its number of examples.

    >>> import extensor as ex
    >>> total = ex.gradients.Accumulator()
    >>> total.add(ex.asarray([1.0]), 2)  # the mean over 2 examples
    >>> total.add(ex.asarray([4.0]), 1)  # over 1
    >>> total.mean()
    Tensor([2.0], dtype=float64)
    """

    def __init__(self) -> None:
        self._sum = _core.Accumulator()
        self._structure: _tree.Structure | None = None

    def add(self, grads: T, weight: float = 1.0) -> None:
        """Adds the mean gradients of a micro-batch that counts `weight`."""
        leaves, structure = _leaves(grads)
        if self._structure is not None and self._structure.names() != structure.names():
            raise ValueError(f"accumulate: gradients of {structure} were added to {self._structure}")
        self._sum = self._sum.add(leaves, weight)
        self._structure = structure

    def mean(self) -> T | None:
        """The mean gradients of all that was added; None of nothing."""
        leaves = self._sum.mean()
        if leaves is None or self._structure is None:
            return None
        made: T = _tree.unflatten(self._structure, leaves)
        return made

    def __repr__(self) -> str:
        return f"Accumulator({'nothing yet' if self._structure is None else self._structure})"
