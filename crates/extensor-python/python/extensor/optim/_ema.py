"""Moving averages of a model's parameters. This module must not know an optimiser."""

from .. import _core, _tree

__all__ = ["Ema"]


class Ema:
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

    def __init__(self, model, decay, *, warm_up=False, debiased=False):
        leaves, structure = _tree.flatten(model, buffers=False)
        self._names, self._structure = structure.names(), structure
        self._average = _core.Average(self._names, leaves, decay, warm_up, debiased)

    @property
    def step(self):
        """How many models have been averaged."""
        return self._average.step

    @property
    def start_weight(self):
        """The weight that is left of where it began."""
        return self._average.start_weight

    def _with(self, average, structure):
        made = object.__new__(Ema)
        made._names, made._structure, made._average = self._names, structure, average
        return made

    def update(self, model):
        """The average after another model."""
        leaves, structure = _tree.flatten(model, buffers=False)
        if structure.names() != self._names:
            raise ValueError("ema: the model is not of the form of the average")
        return self._with(self._average.update(leaves), structure)

    def model(self):
        """The averaged model, in the dtypes of the model."""
        return _tree.unflatten(self._structure, self._average.model())

    def tree(self):
        """The average as it is kept: what a file holds."""
        return _tree.unflatten(self._structure, self._average.leaves())

    def resume(self, tree, step, start_weight):
        """The same settings with the average that a file holds, after so many steps."""
        leaves, structure = _tree.flatten(tree, buffers=False)
        return self._with(self._average.resume(leaves, step, start_weight), structure)
