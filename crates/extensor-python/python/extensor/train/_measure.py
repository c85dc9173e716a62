"""What is measured of classifiers: losses and accuracies, as functions that the loop can be
given."""

from .. import _core, nn, ops

__all__ = ["accuracy", "classification", "test"]


def accuracy(logits, targets):
    """The share of rows whose largest logit is that of the target, for logits `[…, classes]` and
    targets `[…]`, or `[…, classes]` with a share for each class.

    >>> import extensor as ex
    >>> from extensor import train
    >>> train.accuracy(ex.asarray([[1.0, 2.0], [4.0, 3.0]]), ex.asarray([1, 1]))
    Tensor(0.5, dtype=float32)
    """
    targets = _core.asarray(targets)
    if targets.ndim == logits.ndim:
        targets = ops.argmax(targets, -1)
    right = ops.equal(ops.argmax(logits, -1), ops.cast(targets, _core.int64))
    return ops.mean(ops.cast(right, _core.float32))


def classification(label_smoothing=0.0):
    """A loss function for `fit`: the mean cross-entropy, with the accuracy beside it, of any
    module, with running statistics or without."""
    from ._fit import Measured

    def loss(model, inputs, targets, mode):
        logits, model = model.forward(inputs, mode)
        loss = nn.class_loss(logits, targets, label_smoothing)
        return Measured(loss, {"accuracy": accuracy(logits, targets)}, model)

    return loss


def test(model, loader, loss=None):
    """The means of the loss (by default that of `classification`) and of all it measures over an
    epoch of the loader, in inference, as a dict."""
    from ._fit import measured

    loss = classification() if loss is None else loss
    sums, count = {}, 0
    for inputs, targets in loader:
        found = measured(loss(model, inputs, targets, nn.INFERENCE))
        examples = inputs.shape[0]
        count += examples
        for name, value in {"loss": found.loss, **found.metrics}.items():
            sums[name] = sums.get(name, 0.0) + examples * float(value)
    return {name: value / max(count, 1) for name, value in sums.items()}
