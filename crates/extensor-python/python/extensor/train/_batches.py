"""Batches of any origin as the loop reads them: epoch after epoch, from a position on.

This module knows iterables and arrays; it must not know what is trained on them.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from .. import _adapt, _core, _tree

__all__ = ["Batches", "examples_of", "pair"]

#: Inputs, targets, where the batch is and where the next one is, both as (epoch, batch).
Loaded = tuple[Any, Any, tuple[int, int], tuple[int, int]]


def _tensors(x: Any) -> Any:
    """Arrays of any library, alone or in a tree, as tensors; numbers in lists too."""
    if isinstance(x, _core.Tensor):
        return x
    arrays, structure = _adapt.flatten(x)
    if any(_adapt.kind_of(array) != "float" for array in arrays):
        return _tree.unflatten(structure, [_adapt.to_tensor(array) for array in arrays])
    return _core.asarray(x)


def pair(batch: Any, where: str = "a batch") -> tuple[Any, Any]:
    """The inputs and the targets of a batch, as tensors."""
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        kind = type(batch).__name__
        size = f" of {len(batch)}" if isinstance(batch, (tuple, list)) else ""
        raise TypeError(f"{where} is a {kind}{size}, expected a pair: inputs and targets")
    return _tensors(batch[0]), _tensors(batch[1])


def examples_of(inputs: Any) -> int:
    """How many examples inputs have: the size of the first axis of their first tensor."""
    leaves = _tree.leaves(inputs)
    if not leaves or not leaves[0].ndim:
        raise ValueError("a batch's inputs have no axis along which the examples are")
    return leaves[0].shape[0]


class Batches:
    """Any iterable of batches: PyTorch's DataLoader, a list, a generator. It is gone through anew for
    each epoch; what is random about it is its own affair."""

    def __init__(self, source: Iterable[Any]) -> None:
        self.source = source
        self.spent = False

    def __len__(self) -> int:
        return len(self.source)  # type: ignore[arg-type]

    def _epoch(self, number: int) -> Iterator[Any]:
        begun = iter(self.source)
        if begun is self.source:
            if self.spent:
                kind = type(self.source).__name__
                raise ValueError(
                    f"epoch {number} has no batches: a {kind} can be gone through once; give fit a "
                    "list, a data.Loader, a DataLoader, or an object whose __iter__ begins anew"
                )
            self.spent = True
        return begun

    def start_at(self, epoch: int, batch: int = 0) -> Iterator[Loaded]:
        """The batches from a position on, epoch after epoch, without end."""
        while True:
            batches, at = self._epoch(epoch), 0
            for at in range(batch):  # a run that goes on: these have been seen
                if next(batches, None) is None:
                    raise ValueError(f"epoch {epoch} has {at} batches, and batch {batch} comes next")
            # One ahead, to know which is the last.
            following = next(batches, None)
            if following is None:
                raise ValueError(f"epoch {epoch} has no batches")
            number = batch
            while following is not None:
                now, following = following, next(batches, None)
                after = (epoch, number + 1) if following is not None else (epoch + 1, 0)
                inputs, targets = pair(now, f"batch {number}")
                yield inputs, targets, (epoch, number), after
                number += 1
            epoch, batch = epoch + 1, 0
