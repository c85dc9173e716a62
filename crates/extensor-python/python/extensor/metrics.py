"""How good predictions are, as numbers: accuracy, confusion, precision, recall, F, AUROC, perplexity.

The numbers are the Rust library's. Nothing here is differentiated, and nothing knows models or
training: predictions and targets are tensors, or arrays of other libraries.

>>> import extensor as ex
>>> from extensor.metrics import Confusion
>>> confusion = Confusion(3)
>>> confusion.add([0, 2, 1, 0, 0, 1], [0, 1, 2, 0, 1, 2])
>>> confusion.count(1, 2)  # a 1 that was taken for a 2
1
>>> confusion.precision(0), confusion.recall(0)
(0.6666666666666666, 1.0)
>>> print(confusion)
     0  1  2
  0  2  0  0
  1  1  0  1
  2  0  2  0
"""

from typing import Any, Literal, NamedTuple

from . import _core, ops
from ._core import Tensor

__all__ = ["Confusion", "Scores", "accuracy", "auroc", "perplexity"]


class Scores(NamedTuple):
    """Precision, recall and their harmonic mean."""

    precision: float
    recall: float
    f1: float


class Confusion:
    """How often each class was taken for each: a row for each class that was right, a column for each
    that was predicted. Batches are added up."""

    def __init__(self, classes: int) -> None:
        self._counts = _core.Confusion(classes)

    def add(self, predictions: Any, targets: Any) -> None:
        """Adds predictions and what they should have been: numbers of classes, of a whole-number
        dtype. A number that is not one of a class is an error, and then nothing is added."""
        self._counts = self._counts.add(_core.asarray(predictions), _core.asarray(targets))

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return self._counts.classes

    @property
    def total(self) -> int:
        """How many predictions there were."""
        return self._counts.total

    @property
    def counts(self) -> Tensor:
        """All counts, `[target, prediction]`, as int64."""
        return self._counts.counts()

    def count(self, target: int, prediction: int) -> int:
        """How often `target` was taken for `prediction`."""
        return self._counts.count(target, prediction)

    def support(self, class_: int) -> int:
        """How many are of a class."""
        return self._counts.support(class_)

    @property
    def accuracy(self) -> float:
        """The part of all predictions that is right; NaN of none."""
        return self._counts.accuracy

    def precision(self, class_: int) -> float:
        """Of those predicted to be of a class, the part that is; 0 where there are none."""
        return self._counts.precision(class_)

    def recall(self, class_: int) -> float:
        """Of those that are of a class, the part that was found; 0 where there are none."""
        return self._counts.recall(class_)

    def f_score(self, class_: int, beta: float = 1.0) -> float:
        """`(1 + β²)·precision·recall/(β²·precision + recall)` of a class: recall counts β times as
        much as precision; 0 where both are."""
        return self._counts.f_score(class_, beta)

    def scores(self, average: Literal["macro", "micro", "weighted"] = "macro") -> Scores:
        """The scores of all classes as one: every class counts alike ("macro"), every example
        ("micro": all three are the accuracy), or a class as often as there are examples of it
        ("weighted").

        >>> from extensor.metrics import Confusion
        >>> confusion = Confusion(2)
        >>> confusion.add([0, 1, 1, 1], [0, 0, 1, 1])
        >>> confusion.scores("micro")
        Scores(precision=0.75, recall=0.75, f1=0.75)
        """
        return Scores(*self._counts.scores(average))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Confusion) and self._counts == other._counts

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return _confusion, (self.counts,)

    def __str__(self) -> str:
        return str(self._counts)

    def __repr__(self) -> str:
        return f"Confusion({self.classes}, total={self.total})"


def _confusion(counts: Tensor) -> Confusion:
    """A confusion of these counts, for `pickle`."""
    made = Confusion(counts.shape[0])
    for target, row in enumerate(counts.tolist()):
        for prediction, count in enumerate(row):
            if count:
                full = [_core.full((count,), x, dtype=_core.int64) for x in (prediction, target)]
                made.add(*full)
    return made


def accuracy(logits: Tensor, targets: Any) -> Tensor:
    """The share of rows whose largest logit is that of the target, for logits `[…, classes]` and
    targets `[…]`, or `[…, classes]` with a share for each class.

    >>> import extensor as ex
    >>> ex.metrics.accuracy(ex.asarray([[1.0, 2.0], [4.0, 3.0]]), ex.asarray([1, 1]))
    Tensor(0.5, dtype=float32)
    """
    targets = _core.asarray(targets)
    if targets.ndim == logits.ndim:
        targets = ops.argmax(targets, -1)
    right = ops.equal(ops.argmax(logits, -1), ops.cast(targets, _core.int64))
    return ops.mean(ops.cast(right, _core.float32))


def auroc(scores: Any, labels: Any) -> float:
    """The probability that one of the positive examples, taken at random, has a higher score than one
    of the negative, ties counted by half: the area under the curve of the receiver operating
    characteristic. `labels` are 0 or 1, or bool; both must be among them.

    >>> import extensor as ex
    >>> ex.metrics.auroc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    0.75
    """
    return _core.auroc(_core.asarray(scores), _core.asarray(labels))


def perplexity(mean_loss: Any) -> float:
    """`e` to a mean cross-entropy in nats: among how many equally likely tokens a language model is
    left to choose.

    >>> import extensor as ex
    >>> ex.metrics.perplexity(0.0)
    1.0
    """
    return _core.perplexity(float(mean_loss))
