"""The loop: steps, evaluations and checkpoints, in that order, until the plan is fulfilled."""

import itertools
import math
from typing import Any, NamedTuple

from .. import _core, _tree, nn, ops
from .._autodiff import value_and_grad
from ..progress import Progress
from ._checkpoints import Checkpoints
from ._state import State

__all__ = ["Measured", "Result", "STOP", "Step", "fit", "measured"]

#: What a hook returns to stop training after the step, with a checkpoint.
STOP = "stop"


class Measured(NamedTuple):
    """What a loss function may return instead of the loss alone: the loss, means over the batch by
    name, and the model with new running statistics, if it has any."""

    loss: Any
    metrics: dict = {}
    model: Any = None


class Step(NamedTuple):
    """What a step found: its number from 1 on, its epoch from 0 on, the loss before it, what else
    was measured, the learning rate, the norm of the gradients if they are clipped, how many examples
    there were, the factor on the loss for the next step, and whether this one was skipped for an
    overflow."""

    step: int
    epoch: int
    loss: float
    metrics: dict
    lr: float
    grad_norm: Any
    examples: int
    scale: float = 1.0
    skipped: bool = False


class Result(NamedTuple):
    """What `fit` returns: the model that is used (the moving average if there is one), the state,
    why training ended ("done", "stopped" or "no better"), and a dict for each evaluation or
    epoch."""

    model: Any
    state: State
    end: str
    history: list


def measured(found):
    """What a loss function returned, in full."""
    if isinstance(found, tuple) and not isinstance(found, Measured):
        raise TypeError("the loss function returned a tuple: return train.Measured(loss, metrics)")
    return found if isinstance(found, Measured) else Measured(found)


def fit(
    model, loss, loader, optimizer, *, key,
    epochs=None, steps=None, schedule=None, plateau=None, average=None, accumulate=1,
    evaluate=None, evaluate_every=0, patience=0,
    checkpoints=None, checkpoint_every=0, keep=3, resume=False,
    compute=None, loss_scale=None, metrics=None, on_step=None, on_evaluate=None, on_save=None, progress=True,
):  # fmt: skip
    """Trains a model by batches of a loader for so many epochs or steps.

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
    _expect_kinds(loss, loader, optimizer, key)
    _expect_functions(
        schedule=schedule, evaluate=evaluate, on_step=on_step, on_evaluate=on_evaluate,
        on_save=on_save,
    )  # fmt: skip
    if steps is None:
        steps = math.ceil(epochs * len(loader) / accumulate)
    state = State(model, optimizer.init(model), key, average, plateau, _scale(loss_scale, compute))
    folder = Checkpoints(checkpoints, keep) if checkpoints is not None else None
    claim = folder.claim() if folder is not None else None
    try:
        return _fit_in(
            folder, state, loss, loader, optimizer, steps, resume=resume, metrics=metrics,
            progress=progress, every=(evaluate_every, checkpoint_every), patience=patience,
            schedule=schedule, accumulate=accumulate, evaluate=evaluate, compute=compute,
            hooks={"step": on_step, "evaluate": on_evaluate, "save": on_save},
        )  # fmt: skip
    finally:
        if claim is not None:
            claim.release()


def _fit_in(
    folder, state, loss, loader, optimizer, steps, *, resume, metrics, progress, every, patience,
    schedule, accumulate, evaluate, compute, hooks,
):  # fmt: skip
    """`fit` in a folder of its own, if there is one, from a state before the first step."""
    if folder is not None and folder.steps():
        if not resume:
            raise ValueError(
                f"fit: the folder {folder.folder} has checkpoints; resume=True goes on from the "
                "newest, and another folder begins anew"
            )
        state = folder.newest(state.load)
    run = _Run(loss, optimizer, schedule, accumulate, evaluate, folder)
    run.hooks, run.compute = hooks, compute
    if metrics is not None:
        run.lines = _core.JsonLines(metrics, state.step if resume else None)
    bar = Progress(steps, "training", start=state.step) if progress else None
    try:
        return run.all(state, loader, steps, every, patience, bar)
    finally:
        if bar is not None:
            bar.close()


def _expect_kinds(loss, loader, optimizer, key):
    """Raises if one of these cannot be what it should be."""
    if not callable(loss):
        raise TypeError(f"fit: the loss is {type(loss).__name__}, expected a function")
    if not hasattr(loader, "start_at"):
        raise TypeError(f"fit: the loader is {type(loader).__name__}, expected a data.Loader")
    if not hasattr(optimizer, "update"):
        kind = type(optimizer).__name__
        raise TypeError(f"fit: the optimizer is {kind}, expected one of optim, such as optim.Adam")
    if not isinstance(key, _core.Key):
        seed = key if isinstance(key, int) else "seed"
        raise TypeError(f"fit: key is {type(key).__name__}: write key=extensor.Key({seed})")


def _scale(loss_scale, compute):
    """The factor on the loss: the one given, or what the arithmetic needs."""
    if loss_scale is None:
        return _core.LossScale.needed_by(compute if compute is not None else _core.float32)
    if not isinstance(loss_scale, _core.LossScale):
        kind = type(loss_scale).__name__
        raise TypeError(f"fit: loss_scale is {kind}: write train.LossScale(65536.0)")
    return loss_scale


def _expect_functions(**functions):
    for name, f in functions.items():
        if f is not None and not callable(f):
            hint = ""
            if name == "schedule":
                hint = ": a constant learning rate is the optimiser's lr"
            raise TypeError(f"fit: {name} is {type(f).__name__}, expected a function{hint}")


class _Run:
    def __init__(self, loss, optimizer, schedule, accumulate, evaluate, folder):
        self.loss, self.optimizer, self.schedule = loss, optimizer, schedule
        self.accumulate, self.evaluate, self.folder = max(1, accumulate), evaluate, folder
        self.history, self.hooks = [], {}
        self.epoch_losses = []
        self.compute = self.lines = None
        self.state = self.saved = None

    def all(self, state, loader, steps, every, patience, bar):
        self.state = state
        if state.step == 0:
            self.save()  # from now on there is something to go on from
        else:
            self.saved = state
        try:
            end = self.loop(loader, steps, every, patience, bar)
        except BaseException:
            # Whatever ends training, Ctrl-C above all, what has been learnt is kept.
            if self.saved is not self.state:
                self.save()
            raise
        return Result(self.state.result(), self.state, end, self.history)

    def loop(self, loader, steps, every, patience, bar):
        """Makes steps until training ends; returns why."""
        batches = loader.start_at(*self.state.position)
        if self.state.due:
            epoch, batch = self.state.position
            stop = self.evaluated(epoch if batch else epoch - 1) == STOP
            self.save()
            if stop and self.state.step < steps:
                return "stopped"
        while self.state.step < steps:
            if patience and self.state.stale >= patience:
                return "no better"
            epoch = self.state.position[0]
            state, found = self.step(self.state, batches)
            last = state.step >= steps
            new_epoch = state.position[0] != epoch
            due = [state.step % n == 0 if n else new_epoch for n in every]
            self.state = state.replace(due=due[0] or last)
            if bar is not None:
                bar.update(epoch=found.epoch, loss=found.loss, **found.metrics)
            record = {"loss": found.loss, "lr": found.lr, **found.metrics}
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

    def call(self, name, *args):
        hook = self.hooks.get(name)
        return hook(*args) if hook is not None else None

    def record(self, step, values):
        if self.lines is not None:
            self.lines.write(step, [(name, float(value)) for name, value in values.items()])

    def save(self):
        if self.folder is not None:
            path = self.state.save(self.folder)
            self.saved = self.state
            self.call("save", path)

    def step(self, state, batches):
        """The state after a step, and what the step found."""
        loaded = list(itertools.islice(batches, self.accumulate))
        grads, found, statistics = self.gradients(state, loaded)
        after = state.scale.after(grads is not None)
        if not math.isfinite(found.loss) or grads is None and after.value >= state.scale.value:
            self.diverged(loaded, found)
        lr = self.optimizer.lr
        if state.plateau is not None:
            lr = state.plateau.lr
        elif self.schedule is not None:
            lr = self.schedule(state.step)
        step, skipped, grad_norm = state.step + 1, grads is None, None
        if not skipped:
            model, memory = self.optimizer.update(state.model, grads, state.optimizer, lr)
            if statistics is not None:
                model = _with_buffers(model, statistics)
            average = None if state.average is None else state.average.update(model)
            state = state.replace(model=model, optimizer=memory, average=average)
            grad_norm = memory.grad_norm
        state = state.replace(
            scale=after, step=step, position=loaded[-1][3], overflows=state.overflows + skipped
        )
        self.epoch_losses.append((found.loss, sum(b[0].shape[0] for b in loaded)))
        return state, found._replace(
            step=step, lr=lr, grad_norm=grad_norm, scale=after.value, skipped=skipped
        )

    def gradients(self, state, loaded):
        """The gradients of the batches of a step, weighted by their examples (None if one is not
        finite), what was measured, and the model with new running statistics."""
        examples = [inputs.shape[0] for inputs, *_ in loaded]
        key = state.key.fold_in(state.step)
        loss, metrics, total, statistics, finite = 0.0, {}, None, None, True
        scale = state.scale.value
        for i, (inputs, targets, _, _) in enumerate(loaded):
            mode = nn.Training(key.fold_in(i))

            def one(model, inputs=inputs):
                if self.compute is not None:
                    model, inputs = _cast((model, inputs), self.compute)
                found = measured(self.loss(model, inputs, targets, mode))
                if not isinstance(found.loss, _core.Tensor):
                    kind = type(found.loss).__name__
                    raise TypeError(f"the loss function: expected a 0-d tensor, got {kind}")
                value = _wide(found.loss)
                scaled = value if scale == 1.0 else value * scale
                return scaled, (value, found.metrics, found.model)

            (_, (value, more, statistics)), grads = value_and_grad(one, has_aux=True)(state.model)
            finite &= _core.all_finite(_tree.flatten(grads, buffers=False)[0])
            if scale != 1.0:
                grads = _divided(grads, scale)
            share = examples[i] / max(sum(examples), 1)
            loss += share * float(value)
            for name, measure in more.items():
                metrics[name] = metrics.get(name, 0.0) + share * float(measure)
            if len(loaded) == 1:
                total = grads
            else:
                grads = _tree.map(lambda g: _wide(g) * float(examples[i]), _parameters(grads))
                total = grads if total is None else _tree.map(ops.add, total, grads)
        if len(loaded) > 1:
            mean = _tree.map(lambda g: g / float(sum(examples)), total)
            leaves, structure = _tree.flatten(state.model, buffers=False)
            total = _tree.unflatten(structure, list(mean.values()))
        epoch = loaded[0][2][0]
        return total if finite else None, Step(state.step, epoch, loss, metrics, 0.0, None, sum(examples)), statistics

    def diverged(self, loaded, found):
        """Raises an exception that names an operation."""
        what = f"the loss is {found.loss}"
        if math.isfinite(found.loss):
            what = "a gradient is not finite"
        try:
            _core.call_watched(lambda: self.gradients(self.state, loaded))
            reason = "no single operation made it of finite numbers"
            if not _core.all_finite([inputs for inputs, *_ in loaded]):
                reason = "the data has a number that is not finite"
        except FloatingPointError as error:
            reason = str(error)
        raise FloatingPointError(f"step {self.state.step + 1}: {what}: {reason}")

    def evaluated(self, epoch):
        """Evaluates the model and returns what the hook does."""
        state = self.state
        weight = sum(n for _, n in self.epoch_losses)
        mean = sum(loss * n for loss, n in self.epoch_losses) / weight if weight else math.nan
        record = {"step": state.step, "epoch": epoch, "loss": mean}
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


def _parameters(tree):
    return _tree.named_leaves(tree, buffers=False)


def _cast(tree, dtype):
    """The tree with its floats, buffers aside, in another dtype."""
    leaves, structure = _tree.flatten(tree, buffers=False)
    cast = [ops.cast(x, dtype) if x.dtype.is_float else x for x in leaves]
    return _tree.unflatten(structure, cast)


def _divided(grads, scale):
    """The gradients over the scale of the loss; buffers stay."""
    leaves, structure = _tree.flatten(grads, buffers=False)
    return _tree.unflatten(structure, [g / scale for g in leaves])


def _wide(x):
    return ops.cast(x, _core.float32) if x.dtype.itemsize < 4 else x


def _with_buffers(model, other):
    """The model with the buffers of another."""
    leaves, structure = _tree.flatten(model)
    learnt = set(_parameters(model))
    given = _tree.named_leaves(other)
    names = structure.names()
    return _tree.unflatten(
        structure, [x if name in learnt else given[name] for name, x in zip(names, leaves)]
    )
