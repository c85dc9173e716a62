"""What training is at between two steps, and how it is saved and loaded.

Whatever a step reads beside the plan is here, so that a run that goes on from a checkpoint does the
same to the bit as one that never stopped. A checkpoint is one of the Rust library's.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from .. import _core, io, optim
from .._core import Key, LossScale, Plateau
from .._tree import unflatten
from ._checkpoints import Checkpoints

__all__ = ["State"]

FORMAT = "extensor checkpoint 2"
#: Before there were checksums.
FIRST_FORMAT = "extensor checkpoint 1"


M = TypeVar("M")
V = TypeVar("V")


@dataclasses.dataclass(frozen=True)
class State(Generic[M]):
    """What training is at between two steps."""

    model: M
    optimizer: optim.State
    key: Key
    average: "optim.Ema[M] | None" = None
    plateau: Plateau | None = None
    #: The factor on the loss.
    scale: LossScale = dataclasses.field(default_factory=lambda: _core.LossScale(1.0, 0))
    #: How many steps there were, those skipped for an overflow included.
    step: int = 0
    #: The batch that comes next: (epoch, batch).
    position: tuple[int, int] = (0, 0)
    #: The best evaluation so far: (step, score), or None.
    best: tuple[int, float] | None = None
    #: How many evaluations there were since the best.
    stale: int = 0
    #: How many steps were skipped for an overflow.
    overflows: int = 0
    #: Whether training was interrupted before the evaluation that belongs to this step.
    due: bool = False

    def replace(self, **fields: Any) -> "State[M]":
        """A state with other values of these fields."""
        return dataclasses.replace(self, **fields)

    def result(self) -> M:
        """The model that is evaluated and used: the moving average if there is one."""
        return self.model if self.average is None else self.average.model()

    def save(self, checkpoints: Checkpoints) -> str:
        """Writes a checkpoint and returns its path."""
        tree: dict[str, Any] = {"model": self.model, "optimizer": self.optimizer}
        about: dict[str, Any] = {
            "format": FORMAT,
            "step": self.step,
            "epoch": self.position[0],
            "batch": self.position[1],
            "key": self.key.seed,
            "stale": self.stale,
            "overflows": self.overflows,
            "optimizer_step": self.optimizer.step,
            "loss_scale": repr(self.scale.value),
            "loss_scale_steps": self.scale.steps,
        }
        if self.average is not None:
            tree["average"] = self.average.tree()
            about["average_step"] = self.average.step
            about["average_start_weight"] = repr(self.average.start_weight)
        if self.plateau is not None:
            about["plateau"] = self.plateau.state
        if self.best is not None:
            about["best_step"], about["best_score"] = self.best[0], repr(float(self.best[1]))
        if self.due:
            about["evaluation_due"] = 1
        best = self.best[0] if self.best else None
        return checkpoints.save(self.step, tree, about, best)

    def load(self, path: str) -> "State[M]":
        """The state that a checkpoint holds; this one, before the first step, says what must be in
        it."""
        tree: dict[str, Any] = {"model": self.model, "optimizer": self.optimizer}
        if self.average is not None:
            tree["average"] = self.average.tree()
        names, leaves, structure = io.apart(tree)
        found, about = _core.safetensors_load_like(path, "", names, leaves)
        tree = unflatten(structure, found)

        def get(name: str, kind: Callable[[str], V]) -> V:
            try:
                return kind(about[name])
            except (KeyError, ValueError):
                got = repr(about[name]) if name in about else "nothing"
                raise ValueError(
                    f"checkpoint: {name} is {got}, expected a {getattr(kind, '__name__', kind)}"
                ) from None

        if get("format", str) == FORMAT:
            _core.safetensors_expect_checksums(path)
        elif about["format"] != FIRST_FORMAT:
            raise ValueError(f"checkpoint: format is {about['format']!r}, expected {FORMAT!r}")
        average, plateau, best = None, None, None
        if self.average is not None:
            weight = get("average_start_weight", float)
            average = self.average.resume(tree["average"], get("average_step", int), weight)
        if self.plateau is not None:
            plateau = self.plateau.with_state(get("plateau", str))
        if "best_step" in about:
            best = (get("best_step", int), get("best_score", float))
        return State(
            model=tree["model"],
            optimizer=tree["optimizer"].replace(step=get("optimizer_step", int)),
            key=_core.Key(get("key", int)),
            average=average,
            plateau=plateau,
            scale=self.scale.resume(get("loss_scale", float), get("loss_scale_steps", int)),
            step=get("step", int),
            position=(get("epoch", int), get("batch", int)),
            best=best,
            stale=get("stale", int),
            overflows=get("overflows", int),
            due="evaluation_due" in about,
        )
