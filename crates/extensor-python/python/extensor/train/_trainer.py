"""A model and everything that changes with it from step to step, and the step itself.

`Trainer.step` is for a loop of one's own, `fit` is the loop; both make the same step, which is written
here. This module must not know a loader, a checkpoint or a terminal.
"""

import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar, overload

from .. import _core, _tree, nn, ops
from .._autodiff import value_and_grad
from .._core import DType, Key, LossScale, Plateau, Tensor
from ..gradients import Accumulator, all_finite
from ..optim import Ema, Optimizer
from ._state import State

__all__ = ["Made", "Measured", "Part", "Trainer", "measured"]

M = TypeVar("M")
#: A learning rate for each step, from 0 on: one of `optim.schedule`, or any function.
Schedule = Callable[[int], float]


class Measured(NamedTuple):
    """What a loss function may return instead of the loss alone: the loss, means over the batch by
    name, and the model with new running statistics, if it has any."""

    loss: Any
    metrics: Mapping[str, Any] = {}
    model: Any = None


class Part(NamedTuple):
    """The loss of a part of a step, a batch or one of several micro-batches, and how many examples it
    has, by which it counts."""

    examples: int
    loss: Callable[[Any, nn.Training], Any]


class Made(NamedTuple):
    """What a step did."""

    loss: float
    metrics: dict[str, float]
    lr: float
    skipped: bool


def measured(found: Any) -> Measured:
    """What a loss function returned, in full: the loss, `(loss, model)`, or a `Measured`."""
    if isinstance(found, Measured):
        return found
    if not isinstance(found, tuple):
        return Measured(found)
    if len(found) == 2 and not isinstance(found[1], (Tensor, dict, float, int)):
        return Measured(found[0], {}, found[1])
    raise TypeError(
        "the loss function returned a tuple other than (loss, model): "
        "return train.Measured(loss, metrics)"
    )


class Trainer(Generic[M]):
    """A model in training: the model, what the optimiser remembers, the loss scale, the key and the
    number of the step are one value, the `state`, which each step replaces. Tensors and models
    themselves do not change, so `state` and `model` of an earlier step stay what they were.

    >>> import extensor as ex
    >>> from extensor import nn, optim, train
    >>> x = ex.Key(1).normal((64, 1))
    >>> y = 2.0 * x + 1.0
    >>> trainer = train.Trainer(nn.Linear(ex.Key(2), 1, 1), optim.Adam(0.05))
    >>> for _ in range(400):
    ...     loss = trainer.step(lambda model: ex.mean_squared_error(model(x), y))
    >>> loss < 1e-4, round(float(trainer.model.weight[0, 0]), 2)
    (True, 2.0)

    The learning rate is the optimiser's, or what `schedule` says of the step. With `compute`, a dtype
    such as "bfloat16", the loss function is given the model in it, and the parameters are kept, and
    updated, in their own; in "float16" the loss is scaled as `loss_scale`, a `train.LossScale`, says.
    `average` is an `optim.Ema` of the model. Random numbers come from `key`. A trainer can be copied
    and pickled.
    """

    def __init__(
        self, model: M, optimizer: Optimizer, *, key: Key | None = None,
        schedule: Schedule | None = None, average: "Ema[M] | None" = None,
        plateau: Plateau | None = None,
        compute: DType | str | None = None, loss_scale: LossScale | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(optimizer, Optimizer):
            kind = type(optimizer).__name__
            raise TypeError(f"the optimizer is {kind}, expected one of optim, such as optim.Adam(1e-3)")
        if schedule is not None and not callable(schedule):
            kind = type(schedule).__name__
            raise TypeError(f"schedule is {kind}, expected a function: a constant learning rate is the optimiser's lr")
        scale = scale_of(loss_scale, compute)
        key = Key(0) if key is None else key
        self.state: State[M] = State(model, optimizer.init(model), key, average, plateau, scale)
        self.optimizer, self.schedule, self.compute = optimizer, schedule, compute

    @classmethod
    def from_state(
        cls, state: "State[M]", optimizer: Optimizer, *,
        schedule: Schedule | None = None, compute: DType | str | None = None,
    ) -> "Trainer[M]":  # fmt: skip
        """A model in training that goes on from a state: that of another trainer, or of a checkpoint."""
        made: Trainer[M] = object.__new__(cls)
        made.state, made.optimizer = state, optimizer
        made.schedule, made.compute = schedule, compute
        return made

    @property
    def model(self) -> M:
        """The model."""
        return self.state.model

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step: the plateau's, the schedule's or the optimiser's."""
        if self.state.plateau is not None:
            return self.state.plateau.lr
        return self.optimizer.lr if self.schedule is None else self.schedule(self.state.step)

    @overload
    def step(self, loss: Callable[..., Any], *, has_aux: Literal[False] = False) -> float: ...
    @overload
    def step(self, loss: Callable[..., Any], *, has_aux: Literal[True]) -> tuple[float, Any]: ...
    def step(self, loss: Callable[..., Any], *, has_aux: bool = False) -> Any:
        """Makes a step down the gradient of a loss, and returns the loss before it.

        `loss(model)`, or `loss(model, mode)` with the mode of training, whose key is another one in
        each step, returns the loss; or `(loss, model)`, the model being the one with new running
        statistics; or a `Measured`. With `has_aux` it returns one thing more at the end, a tree which
        comes back beside the loss: the logits, say.

        A loss or a gradient that is not finite, other than by an overflow that a dynamic loss scale
        mends, is a FloatingPointError that names the operation which made it. After any error the
        model is what it was before the step.

        >>> import extensor as ex
        >>> from extensor import nn, optim, train
        >>> model = nn.Sequential(nn.Linear(ex.Key(1), 2, 4), nn.BatchNorm2d(4))
        >>> trainer = train.Trainer(model, optim.Sgd(0.1))
        >>> x = ex.Key(2).normal((8, 2))
        >>> def loss(model, mode):
        ...     y, model = model.forward(x, mode)
        ...     return ex.mean(ex.square(y)), model
        >>> _ = trainer.step(loss)
        >>> int(trainer.model[1].num_batches_tracked)
        1

        A model that is called without a mode, `model(x)`, is called as in inference: dropout does
        nothing, and batch norm uses its running statistics.
        """
        takes_mode = _takes_mode(loss)
        kept: list[Any] = []

        def one(model: Any, mode: nn.Training) -> Any:
            found = loss(model, mode) if takes_mode else loss(model)
            if not has_aux:
                return found
            if not isinstance(found, tuple) or len(found) not in (2, 3):
                raise TypeError("with has_aux the loss function returns (loss, aux) or (loss, model, aux)")
            kept[:] = [_tree.map(_core.stop_gradient, found[-1])]
            return found[0] if len(found) == 2 else found[:2]

        before = self.model
        made = self.advance([Part(1, one)])
        if self.state.step == 1 and not takes_mode and _same_buffers(before, self.model):
            warnings.warn(
                f"{type(before).__name__} has running statistics, and the step left them as they were: "
                "write trainer.step(lambda model, mode: …) with y, model = model.forward(x, mode), and "
                "return (loss, model)",
                stacklevel=2,
            )
        return (made.loss, kept[0]) if has_aux else made.loss

    def advance(self, parts: Sequence[Part]) -> Made:
        """Makes a step of these parts, which count by their examples."""
        loss, metrics, grads, statistics = self._gradients(parts)
        state = self.state
        after = state.scale.after(grads is not None)
        if not math.isfinite(loss) or (grads is None and after.value >= state.scale.value):
            self._diverged(parts, loss)
        lr, skipped = self.learning_rate, grads is None
        if not skipped:
            model, memory = self.optimizer.update(state.model, grads, state.optimizer, lr)
            if statistics is not None:
                model = _with_buffers(model, statistics)
            average = None if state.average is None else state.average.update(model)
            state = state.replace(model=model, optimizer=memory, average=average)
        self.state = state.replace(
            scale=after, step=state.step + 1, overflows=state.overflows + skipped
        )
        return Made(loss, metrics, lr, skipped)

    def _gradients(self, parts: Sequence[Part]) -> tuple[float, dict[str, float], M | None, M | None]:
        """The loss and what else was measured, the gradients, both weighted by examples (None if a
        gradient is not finite), and the model with new running statistics."""
        state = self.state
        examples = sum(part.examples for part in parts)
        key = state.key.fold_in(state.step)
        loss, metrics, finite = 0.0, dict[str, float](), True
        total: Accumulator[M] = Accumulator()
        grads: Any = None
        statistics: M | None = None
        for i, part in enumerate(parts):
            mode = nn.Training(key.fold_in(i))
            value, more, statistics, grads = self._part(part, mode)
            finite &= all_finite(grads)
            if state.scale.value != 1.0:
                grads = _divided(grads, state.scale.value)
            share = part.examples / max(examples, 1)
            loss += share * float(value)
            for name, measure in more.items():
                metrics[name] = metrics.get(name, 0.0) + share * float(measure)
            if len(parts) > 1:
                total.add(grads, part.examples)
        if len(parts) > 1:
            grads = total.mean()
        return loss, metrics, grads if finite else None, statistics

    def _part(self, part: Part, mode: nn.Training) -> tuple[Tensor, dict[str, Any], M | None, M]:
        """The loss of a part, what else was measured, the model with new running statistics, and the
        gradients, scaled as the loss is."""
        scale = self.state.scale.value

        def scaled(model: M) -> tuple[Tensor, tuple[Tensor, dict[str, Any], M | None]]:
            if self.compute is not None:
                model = cast_floats(model, self.compute)
            found = measured(part.loss(model, mode))
            if not isinstance(found.loss, Tensor):
                kind = type(found.loss).__name__
                raise TypeError(f"the loss function: expected a 0-d tensor, got {kind}")
            value = _wide(found.loss)
            aux = value, dict(found.metrics), found.model
            return (value if scale == 1.0 else value * scale), aux

        (_, aux), grads = value_and_grad(scaled, has_aux=True)(self.state.model)
        return *aux, grads

    def _diverged(self, parts: Sequence[Part], loss: float) -> None:
        """Raises an exception that names an operation."""
        what = "a gradient is not finite" if math.isfinite(loss) else f"the loss is {loss}"
        reason = "no single operation made it of finite numbers"
        try:
            _core.call_watched(lambda: self._gradients(parts))
        except FloatingPointError as error:
            reason = str(error)
        raise FloatingPointError(f"step {self.state.step + 1}: {what}: {reason}")

    def __copy__(self) -> "Trainer[M]":
        settings: dict[str, Any] = {"schedule": self.schedule, "compute": self.compute}
        return type(self).from_state(self.state, self.optimizer, **settings)

    def __repr__(self) -> str:
        told = "".join(
            f", {name}={value!r}"
            for name, value in (("schedule", self.schedule), ("compute", self.compute))
            if value is not None
        )
        kind = type(self.model).__name__
        return f"Trainer({kind}, {self.optimizer!r}{told}, step={self.state.step})"


def scale_of(loss_scale: LossScale | None, compute: DType | str | None) -> LossScale:
    """The factor on the loss: the one given, or what the arithmetic needs."""
    if loss_scale is None:
        return LossScale.needed_by(compute if compute is not None else _core.float32)
    if not isinstance(loss_scale, LossScale):
        kind = type(loss_scale).__name__
        raise TypeError(f"loss_scale is {kind}: write train.LossScale(65536.0)")
    return loss_scale


def _takes_mode(loss: Callable[..., Any]) -> bool:
    """Whether a loss function takes the mode beside the model."""
    try:
        parameters = inspect.signature(loss).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in parameters if p.kind in kinds and (p.default is p.empty or p.name == "mode")]
    return len(needed) >= 2


def _same_buffers(before: Any, after: Any) -> bool:
    """Whether a model has buffers, and another the very same."""
    learnt = set(_tree.named_leaves(before, buffers=False))
    old, new = _tree.named_leaves(before), _tree.named_leaves(after)
    held = [name for name in old if name not in learnt]
    return bool(held) and all(old[name] is new[name] for name in held)


def cast_floats(tree: M, dtype: DType | str) -> M:
    """The tree with its floats, buffers aside, in another dtype."""
    leaves, structure = _tree.flatten(tree, buffers=False)
    cast = [ops.cast(x, dtype) if x.dtype.is_float else x for x in leaves]
    made: M = _tree.unflatten(structure, cast)
    return made


def _divided(grads: M, scale: float) -> M:
    """The gradients over the scale of the loss; buffers stay."""
    leaves, structure = _tree.flatten(grads, buffers=False)
    made: M = _tree.unflatten(structure, [g / scale for g in leaves])
    return made


def _wide(x: Tensor) -> Tensor:
    return ops.cast(x, _core.float32) if x.dtype.itemsize < 4 else x


def _with_buffers(model: M, other: Any) -> M:
    """The model with the buffers of another."""
    leaves, structure = _tree.flatten(model)
    learnt = set(_tree.named_leaves(model, buffers=False))
    given = _tree.named_leaves(other)
    names = structure.names()
    if type(other) is not type(model) or set(given) != set(names):
        kinds = type(other).__name__, type(model).__name__
        raise TypeError(f"the loss function returned a {kinds[0]} beside the loss, expected its {kinds[1]}")
    made: M = _tree.unflatten(
        structure, [x if name in learnt else given[name] for name, x in zip(names, leaves)]
    )
    return made
