"""The loop: steps, evaluations and checkpoints, in that order, until the plan is fulfilled."""

import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from .. import _core, nn
from .._core import DType, Key, LossScale, Plateau
from ..data import Loader
from ..gradients import all_finite
from ..optim import Ema, Optimizer
from ..progress import Progress
from ._batches import Batches, Loaded, examples_of
from ._checkpoints import Checkpoints
from ._state import State
from ._trainer import Measured, Part, Schedule, Trainer, cast_floats, scale_of

__all__ = ["Result", "STOP", "Step", "fit"]

M = TypeVar("M")

#: What a hook returns to stop training after the step, with a checkpoint.
STOP = "stop"


class Step(NamedTuple):
    """What a step found: its number from 1 on, its epoch from 0 on, the loss before it, what else
    was measured, the learning rate, the norm of the gradients if they are clipped, how many examples
    there were, the factor on the loss for the next step, and whether this one was skipped for an
    overflow."""

    step: int
    epoch: int
    loss: float
    metrics: dict[str, float]
    lr: float
    grad_norm: float | None
    examples: int
    scale: float = 1.0
    skipped: bool = False


class Result(NamedTuple):
    """What `fit` returns: the model that is used (the moving average if there is one), the state,
    why training ended ("done", "stopped" or "no better"), and a dict for each evaluation or
    epoch."""

    model: Any
    state: State[Any]
    end: str
    history: list[dict[str, Any]]


def fit(
    model: M, loss: Callable[[M, Any, Any, nn.Training], Any], loader: Loader | Iterable[Any],
    optimizer: Optimizer, *, key: Key,
    epochs: float | None = None, steps: int | None = None, schedule: Schedule | None = None,
    plateau: Plateau | None = None, average: "Ema[M] | None" = None, accumulate: int = 1,
    evaluate: Callable[[M], Any] | None = None, evaluate_every: int = 0, patience: int = 0,
    checkpoints: str | os.PathLike[str] | None = None, checkpoint_every: int = 0, keep: int = 3,
    resume: bool = False,
    compute: DType | str | None = None, loss_scale: LossScale | None = None,
    metrics: str | os.PathLike[str] | None = None, on_step: Callable[[Step], Any] | None = None,
    on_evaluate: Callable[[dict[str, Any]], Any] | None = None,
    on_save: Callable[[str], Any] | None = None, progress: bool = True,
) -> Result:  # fmt: skip
    """Trains a model by batches of a loader for so many epochs or steps.

    `loader` is a `data.Loader`, or any iterable of batches, a batch being a pair of inputs and targets:
    PyTorch's DataLoader, a list, a generator. It is gone through anew for each epoch, and arrays of
    other libraries become tensors. A `data.Loader` gives the same batches whenever training goes on
    from a checkpoint; the order of another iterable is its own affair.

    `loss(model, inputs, targets, mode)` returns the loss, or a `Measured`. Every step has a key of
    its own, made from `key`; `mode` is `nn.Training` with it.

    The learning rate is the optimiser's, or what `schedule` says of the step, or that of `plateau`,
    which is shown the scores of evaluations. `average` is an `optim.Ema` of the model, which is
    then what is evaluated. With `accumulate`, a step is made of so many batches.

    `evaluate(model)` returns a score, the higher the better, or a pair of it and a dict of all that
    was measured; it is called every `evaluate_every` steps (0: after each epoch) and after the last
    step. With `patience`, training stops when so many evaluations in a row brought nothing better.

    `checkpoints` is a folder, in which the last `keep` checkpoints and the best are kept, one
    written every `checkpoint_every` steps (0: after each epoch) and after each evaluation; with
    `resume` the newest that loads is gone on from, with the same bits as if training had never
    stopped. Whatever ends training, Ctrl-C above all, the newest state is saved there. The folder
    is this process's own meanwhile: if another trains in it, that is an OSError which names it.

    With `compute`, a dtype such as "bfloat16", parameters and inputs are cast to it for the
    arithmetic; the parameters are kept, and updated, in their own. In "float16" the loss is scaled, so
    that small gradients are not rounded to 0: a step in which a gradient overflows is skipped and the
    scale halved, and after 200 steps without an overflow it is doubled. `loss_scale` is another
    `train.LossScale`. `metrics` is a file to which every step and every evaluation adds a line of JSON.

    The hooks `on_step(step)`, `on_evaluate(record)` and `on_save(path)` are called on the way; the
    first two may return `train.STOP`. A loss or a gradient that is not finite, other than by an overflow
    that a smaller scale mends, raises FloatingPointError, which names the operation that made it, after the model as it was before
    that step was saved.
    """
    if (epochs is None) == (steps is None):
        raise TypeError("fit: give either epochs or steps")
    batches = _batches(loader)
    _expect_kinds(loss, optimizer, key)
    _expect_functions(
        schedule=schedule, evaluate=evaluate, on_step=on_step, on_evaluate=on_evaluate,
        on_save=on_save,
    )  # fmt: skip
    goal = _goal(batches, epochs, steps, max(1, accumulate))
    trainer = Trainer(
        model, optimizer, key=key, schedule=schedule, average=average, plateau=plateau,
        compute=compute, loss_scale=loss_scale,
    )  # fmt: skip
    folder = Checkpoints(checkpoints, keep) if checkpoints is not None else None
    claim = folder.claim() if folder is not None else None
    try:
        return _fit_in(
            folder, trainer, loss, batches, goal, resume=resume, metrics=metrics,
            progress=progress, every=(evaluate_every, checkpoint_every), patience=patience,
            accumulate=accumulate, evaluate=evaluate,
            hooks={"step": on_step, "evaluate": on_evaluate, "save": on_save},
        )  # fmt: skip
    finally:
        if claim is not None:
            claim.release()


def _fit_in(
    folder: Checkpoints | None, trainer: Trainer[Any], loss: Callable[..., Any], batches: "_Source",
    goal: "_Goal", *, resume: bool, metrics: Any, progress: bool, every: tuple[int, int], patience: int,
    accumulate: int, evaluate: Callable[[Any], Any] | None, hooks: dict[str, Any],
) -> Result:  # fmt: skip
    """`fit` in a folder of its own, if there is one, from a state before the first step."""
    if folder is not None and folder.steps():
        if not resume:
            raise ValueError(
                f"fit: the folder {folder.folder} has checkpoints; resume=True goes on from the "
                "newest, and another folder begins anew"
            )
        found = folder.newest(trainer.state.load)
        trainer.state = trainer.state if found is None else found
    run = _Run(trainer, loss, accumulate, evaluate, folder, hooks)
    step = trainer.state.step
    if metrics is not None:
        run.lines = _core.JsonLines(metrics, step if resume else None)
    bar = Progress(goal.steps, "training", start=step) if progress else None
    try:
        return run.all(batches, goal, every, patience, bar)
    finally:
        if bar is not None:
            bar.close()


class _Source(Protocol):
    """Batches from a position on, epoch after epoch."""

    def __len__(self) -> int: ...
    def start_at(self, epoch: int, batch: int = 0) -> Iterator[Loaded]: ...


class _Goal(NamedTuple):
    """How far training goes: so many steps, or so many epochs of which nobody knows the length."""

    steps: int | None
    epochs: float

    def reached(self, state: State[Any]) -> bool:
        """Whether a state is there."""
        if self.steps is not None:
            return state.step >= self.steps
        return state.position[0] >= self.epochs


def _batches(loader: Any) -> _Source:
    """What is given as a loader, as the loop reads it."""
    if hasattr(loader, "start_at"):
        own: _Source = loader
        return own
    if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
        kind = type(loader).__name__
        raise TypeError(
            f"fit: the loader is {kind}, expected a data.Loader or another iterable of batches"
        )
    return Batches(loader)


def _goal(batches: _Source, epochs: float | None, steps: int | None, accumulate: int) -> _Goal:
    if epochs is None:
        return _Goal(steps, math.inf)
    try:
        return _Goal(math.ceil(epochs * len(batches) / accumulate), epochs)
    except TypeError:  # a generator does not know its length
        return _Goal(None, epochs)


def _expect_kinds(loss: Any, optimizer: Any, key: Any) -> None:
    """Raises if one of these cannot be what it should be."""
    if not callable(loss):
        raise TypeError(f"fit: the loss is {type(loss).__name__}, expected a function")
    if not hasattr(optimizer, "update"):
        kind = type(optimizer).__name__
        raise TypeError(f"fit: the optimizer is {kind}, expected one of optim, such as optim.Adam")
    if not isinstance(key, Key):
        seed = key if isinstance(key, int) else "seed"
        raise TypeError(f"fit: key is {type(key).__name__}: write key=extensor.Key({seed})")


def _expect_functions(**functions: Any) -> None:
    for name, f in functions.items():
        if f is not None and not callable(f):
            hint = ""
            if name == "schedule":
                hint = ": a constant learning rate is the optimiser's lr"
            raise TypeError(f"fit: {name} is {type(f).__name__}, expected a function{hint}")


class _Run:
    def __init__(
        self, trainer: Trainer[Any], loss: Callable[..., Any], accumulate: int,
        evaluate: Callable[[Any], Any] | None, folder: Checkpoints | None, hooks: dict[str, Any],
    ) -> None:  # fmt: skip
        self.trainer, self.loss, self.accumulate = trainer, loss, max(1, accumulate)
        self.evaluate, self.folder, self.hooks = evaluate, folder, hooks
        self.history: list[dict[str, Any]] = []
        self.epoch_losses: list[tuple[float, int]] = []
        self.lines: _core.JsonLines | None = None
        self.saved: State[Any] | None = None

    @property
    def state(self) -> State[Any]:
        """What training is at: the trainer's."""
        return self.trainer.state

    @state.setter
    def state(self, state: State[Any]) -> None:
        self.trainer.state = state

    def all(
        self, source: _Source, goal: _Goal, every: tuple[int, int], patience: int, bar: Progress | None
    ) -> Result:
        if self.state.step == 0:
            self.save()  # from now on there is something to go on from
        else:
            self.saved = self.state
        try:
            end = self.loop(source, goal, every, patience, bar)
        except BaseException:
            # Whatever ends training, Ctrl-C above all, what has been learnt is kept.
            if self.saved is not self.state:
                self.save()
            raise
        return Result(self.state.result(), self.state, end, self.history)

    def loop(
        self, source: _Source, goal: _Goal, every: tuple[int, int], patience: int, bar: Progress | None
    ) -> str:
        """Makes steps until training ends; returns why."""
        batches = source.start_at(*self.state.position)
        if self.state.due:
            epoch, batch = self.state.position
            stop = self.evaluated(epoch if batch else epoch - 1) == STOP
            self.save()
            if stop and not goal.reached(self.state):
                return "stopped"
        while not goal.reached(self.state):
            if patience and self.state.stale >= patience:
                return "no better"
            epoch = self.state.position[0]
            found = self.step(batches)
            state = self.state
            last = goal.reached(state)
            new_epoch = state.position[0] != epoch
            due = [state.step % n == 0 if n else new_epoch for n in every]
            self.state = state.replace(due=due[0] or last)
            if bar is not None:
                shown: dict[str, Any] = {"epoch": found.epoch, "loss": found.loss, **found.metrics}
                bar.update(1, **shown)
            record: dict[str, float] = {"loss": found.loss, "lr": found.lr, **found.metrics}
            if found.scale != 1.0:
                record["loss_scale"] = found.scale
            if found.skipped:
                record["skipped"] = 1
            self.record(state.step, record)
            stop = self.call("step", found) == STOP
            if self.state.due:
                stop |= self.evaluated(epoch) == STOP
            if any(due) or last or stop:
                self.save()
            if stop and not last:
                return "stopped"
        return "done"

    def call(self, name: str, *args: Any) -> Any:
        hook = self.hooks.get(name)
        return hook(*args) if hook is not None else None

    def record(self, step: int, values: dict[str, Any]) -> None:
        if self.lines is not None:
            self.lines.write(step, [(name, float(value)) for name, value in values.items()])

    def save(self) -> None:
        if self.folder is not None:
            path = self.state.save(self.folder)
            self.saved = self.state
            self.call("save", path)

    def step(self, batches: Iterator[Loaded]) -> Step:
        """Makes a step; returns what it found."""
        loaded = list(itertools.islice(batches, self.accumulate))
        parts = [self.part(inputs, targets) for inputs, targets, *_ in loaded]
        examples = sum(part.examples for part in parts)
        try:
            made = self.trainer.advance(parts)
        except FloatingPointError as error:
            unexplained = "no single operation made it of finite numbers" in str(error)
            if unexplained and not all_finite([inputs for inputs, *_ in loaded]):
                what = str(error).rpartition(": ")[0]
                text = f"{what}: the data has a number that is not finite"
                raise FloatingPointError(text) from None
            raise
        self.state = self.state.replace(position=loaded[-1][3])
        self.epoch_losses.append((made.loss, examples))
        norm = None if made.skipped else self.state.optimizer.grad_norm
        state, epoch = self.state, loaded[0][2][0]
        found = made.loss, made.metrics, made.lr, norm
        return Step(state.step, epoch, *found, examples, state.scale.value, made.skipped)

    def part(self, inputs: Any, targets: Any) -> Part:
        """The loss of a batch."""
        compute = self.trainer.compute
        if compute is not None:
            inputs = cast_floats(inputs, compute)
        return Part(
            examples_of(inputs), lambda model, mode: self.loss(model, inputs, targets, mode)
        )

    def evaluated(self, epoch: int) -> Any:
        """Evaluates the model and returns what the hook does."""
        state = self.state
        weight = sum(n for _, n in self.epoch_losses)
        mean = sum(loss * n for loss, n in self.epoch_losses) / weight if weight else math.nan
        record: dict[str, Any] = {"step": state.step, "epoch": epoch, "loss": mean}
        if self.evaluate is not None:
            score = self.evaluate(state.result())
            if isinstance(score, tuple):
                score, more = score
                record.update({name: float(value) for name, value in more.items()})
            score = record["score"] = float(score)
            if state.best is None or score > state.best[1]:
                state = state.replace(best=(state.step, score), stale=0)
            else:
                state = state.replace(stale=state.stale + 1)
            record["best"] = state.stale == 0
            if state.plateau is not None:
                state = state.replace(plateau=state.plateau.observe(score))
            self.record(state.step, {k: v for k, v in record.items() if k not in ("step", "loss")})
        self.epoch_losses = []
        self.history.append(record)
        self.state = state.replace(due=False)
        return self.call("evaluate", record)
