"""What is measured of classifiers: losses and accuracies, as functions that the loop can be
given."""

from collections.abc import Callable, Iterable
from typing import Any

from .. import nn
from ..metrics import accuracy
from ._batches import examples_of, pair
from ._trainer import Measured, measured

__all__ = ["accuracy", "classification", "test"]


def classification(label_smoothing: float = 0.0) -> Callable[..., Measured]:
    """A loss function for `fit`: the mean cross-entropy, with the accuracy beside it, of any
    module, with running statistics or without."""
    def loss(model: Any, inputs: Any, targets: Any, mode: nn.Mode) -> Measured:
        logits, model = model.forward(inputs, mode)
        loss = nn.class_loss(logits, targets, label_smoothing)
        return Measured(loss, {"accuracy": accuracy(logits, targets)}, model)

    return loss


def test(
    model: Any, loader: Iterable[Any], loss: Callable[..., Any] | None = None
) -> dict[str, float]:
    """The means of the loss (by default that of `classification`) and of all it measures over an
    epoch of the loader, in inference, as a dict."""
    loss = classification() if loss is None else loss
    sums, count = dict[str, float](), 0
    for batch in loader:
        inputs, targets = pair(batch)
        found = measured(loss(model, inputs, targets, nn.INFERENCE))
        examples = examples_of(inputs)
        count += examples
        for name, value in {"loss": found.loss, **found.metrics}.items():
            sums[name] = sums.get(name, 0.0) + examples * float(value)
    return {name: value / max(count, 1) for name, value in sums.items()}
