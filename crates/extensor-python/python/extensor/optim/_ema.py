"""Moving averages of a model's parameters. This module must not know an optimiser."""

from typing import Any, Generic, TypeVar

from .. import _core, _tree

__all__ = ["Ema"]

T = TypeVar("T")


class Ema(Generic[T]):
    """An exponential moving average of a model's parameters: `a ← d·a + (1 − d)·p` at each
    `update`.

    It begins with the parameters themselves, or, `debiased`, with 0; with `warm_up` the decay in
    step t (from 0 on) is `min(decay, (1 + t)/(10 + t))`. Buffers are not averaged: those of the
    average are the last model's. It is an immutable value.

    >>> import extensor as ex
    >>> from extensor import optim
    >>> ema = optim.Ema(ex.asarray([0.0]), 0.75)
    >>> ema = ema.update(ex.asarray([4.0])).update(ex.asarray([4.0]))
    >>> ema.model()
    Tensor([1.75], dtype=float64)
    """

    def __init__(
        self, model: T, decay: float, *, warm_up: bool = False, debiased: bool = False
    ) -> None:
        leaves, structure = _tree.flatten(model, buffers=False)
        self._names, self._structure = structure.names(), structure
        self._settings = {"decay": decay, "warm_up": warm_up, "debiased": debiased}
        self._average = _core.Average(self._names, leaves, decay, warm_up, debiased)

    @property
    def step(self) -> int:
        """How many models have been averaged."""
        return self._average.step

    @property
    def start_weight(self) -> float:
        """The weight that is left of where it began."""
        return self._average.start_weight

    def _with(self, average: _core.Average, structure: _tree.Structure) -> "Ema[T]":
        made: Ema[T] = object.__new__(Ema)
        made._names, made._structure, made._average = self._names, structure, average
        made._settings = self._settings
        return made

    def update(self, model: T) -> "Ema[T]":
        """The average after another model."""
        leaves, structure = _tree.flatten(model, buffers=False)
        if structure.names() != self._names:
            raise ValueError("ema: the model is not of the form of the average")
        return self._with(self._average.update(leaves), structure)

    def model(self) -> T:
        """The averaged model, in the dtypes of the model."""
        made: T = _tree.unflatten(self._structure, self._average.model())
        return made

    def tree(self) -> T:
        """The average as it is kept: what a file holds."""
        made: T = _tree.unflatten(self._structure, self._average.leaves())
        return made

    def resume(self, tree: T, step: int, start_weight: float) -> "Ema[T]":
        """The same settings with the average that a file holds, after so many steps."""
        leaves, structure = _tree.flatten(tree, buffers=False)
        return self._with(self._average.resume(leaves, step, start_weight), structure)

    def __reduce__(self) -> tuple[Any, ...]:
        now = self.tree(), self.step, self.start_weight
        return _resumed, (self.model(), self._settings, *now)

    def __repr__(self) -> str:
        told = "".join(f", {k}=True" for k in ("warm_up", "debiased") if self._settings[k])
        return f"Ema(decay={self._settings['decay']!r}{told}, step={self.step})"


def _resumed(model: T, settings: dict[str, Any], tree: T, step: int, start_weight: float) -> Ema[T]:
    """An average as it was, for `pickle`."""
    return Ema(model, **settings).resume(tree, step, start_weight)
