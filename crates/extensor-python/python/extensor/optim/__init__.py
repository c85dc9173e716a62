"""Optimisers, learning-rate schedules and moving averages: plain values and pure updates of trees.

The updates are the Rust library's fused ones. This module knows trees of parameters and of
gradients; it must not know what a layer is, where gradients come from, or how training is
organised.

>>> import extensor as ex
>>> from extensor import optim
>>> optimizer = optim.Adam(0.1)
>>> model = {"w": ex.asarray([3.0, -2.0]), "b": ex.asarray(0.5)}
>>> state = optimizer.init(model)
>>> loss = lambda model: ex.sum(ex.square(model["w"] + model["b"] - 1.0))
>>> for _ in range(200):
...     value, grads = ex.value_and_grad(loss)(model)
...     model, state = optimizer.update(model, grads, state)
>>> bool(value < 1e-3), state.step
(True, 200)
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from .. import _core, _tree
from .._core import Plateau, Tensor
from ..gradients import global_norm
from . import schedule
from ._ema import Ema
from ._minimize import Lbfgs, Minimum, NewtonCg

__all__ = [
    "Adagrad", "Adam", "AdamW", "Ema", "Lbfgs", "Lion", "Minimum", "NewtonCg", "Optimizer",
    "Plateau", "RmsProp", "Sgd", "State", "global_norm", "schedule",
]


T = TypeVar("T")

#: Factors on the learning rate and the weight decay, by pattern of parameters' names.
Groups = Mapping[str, Mapping[str, float]]


class State:
    """What an optimiser remembers: `step`, how many steps it has made; `grad_norm`, the norm of all
    gradients before they were clipped, if it was computed; and tensors for each parameter.

    It is a tree and can be saved as one. A leaf's name is that of the slot in PyTorch and of the
    parameter: `exp_avg.layers.0.weight`. The number of steps is no leaf: keep it beside the
    tensors, and set it with `replace(step=…)`.
    """

    step: int
    grad_norm: float | None
    __tree_live__: ClassVar[tuple[str, ...]] = ("step", "grad_norm")

    def __init__(self, step: int, slots: Mapping[str, Any], grad_norm: float | None = None) -> None:
        self.__dict__.update(step=step, grad_norm=grad_norm, **slots)

    def __tree_fields__(self) -> tuple[str, ...]:
        return self.slots

    @property
    def slots(self) -> tuple[str, ...]:
        """The names of the slots, as PyTorch has them."""
        return tuple(name for name in self.__dict__ if name not in ("step", "grad_norm"))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a state is immutable: replace({name}=…) makes another")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a state of {', '.join(self.slots) or 'no slots'} has no {name!r}")

    def replace(self, **fields: Any) -> "State":
        """A state with other values of these fields."""
        for name in fields:
            if name not in self.__dict__:
                raise AttributeError(f"a state of {', '.join(self.__dict__)} has no {name}")
        made = object.__new__(State)
        made.__dict__.update(self.__dict__)
        made.__dict__.update(fields)
        return made

    def __repr__(self) -> str:
        return f"State(step={self.step}, slots={list(self.slots)})"


def _packed(kinds: Sequence[str], names: list[str], tensors: list[Tensor]) -> dict[str, Any]:
    """Slots by name, from a list in which each parameter has one after the other."""
    slots: dict[str, Any] = {}
    for at, kind in enumerate(kinds):
        own = tensors[at :: len(kinds)]
        slots[kind] = own[0] if names == [""] else dict(zip(names, own))
    return slots


def _unpacked(state: State, names: list[str]) -> list[Tensor]:
    """The list again, in the order of these names."""
    slots = [getattr(state, kind) for kind in state.slots]
    found = []
    for name in names:
        for kind, slot in zip(state.slots, slots):
            if isinstance(slot, dict) and name not in slot:
                raise ValueError(f"the state has no {kind} of the parameter {name}")
            found.append(slot[name] if isinstance(slot, dict) else slot)
    return found


class Optimizer:
    """What turns gradients into better parameters, step by step.

    Every optimiser can be told: `groups`, factors on the learning rate and the weight decay of the
    parameters whose names match a pattern (`*` stands for any letters, `?` for one):
    `{"*.bias": {"weight_decay": 0.0}, "head.*": {"lr": 0.1}}`; `no_decay=True`: no weight decay for
    parameters of fewer than two axes; `clip_norm`, the largest norm of all gradients together; and
    `clip_value`, the largest size of an element of a gradient. `lr` is finite and not
    negative.
    """

    _name: ClassVar[str] = ""

    def __init__(
        self, lr: float, own: dict[str, Any], *, groups: Groups | None = None, no_decay: bool = False,
        clip_norm: float | None = None, clip_value: float | None = None,
    ) -> None:  # fmt: skip
        _expect_rate(lr)
        rules = []
        for pattern, factors in (groups or {}).items():
            for name in factors:
                if name not in ("lr", "weight_decay"):
                    raise ValueError(f"a group has factors on lr and weight_decay, not on {name!r}")
            rules.append((pattern, factors.get("lr", 1.0), factors.get("weight_decay", 1.0)))
        common = {"no_decay": no_decay, "clip_norm": clip_norm, "clip_value": clip_value}
        self.lr = lr
        self.settings: dict[str, Any] = {**own, "groups": groups, **common}
        self._method = _core.Method(self._name, lr, {**own, "groups": rules, **common})

    def init(self, params: Any) -> State:
        """What the optimiser remembers before its first step. Buffers are no parameters."""
        leaves, structure = _tree.flatten(params, buffers=False)
        names = structure.names()
        kinds, slots = self._method.init(names, leaves)
        return State(0, _packed(kinds, names, slots))

    def update(
        self, params: T, grads: Any, state: State, lr: float | Tensor | None = None
    ) -> tuple[T, State]:
        """The parameters and the state after a step, with this learning rate instead of the
        optimiser's own if one is given: what a schedule says, say. In a compiled function it may be
        a tensor of one number, which can be another at each call."""
        if lr is not None and not isinstance(lr, Tensor):
            _expect_rate(lr)
        leaves, structure = _tree.flatten(params, buffers=False)
        given, form = _tree.flatten(grads, buffers=False)
        names = structure.names()
        if form.names() != names:
            odd = [n for n in set(names) ^ set(form.names())] or names
            raise ValueError(f"the gradients are not of the parameters' form: {sorted(odd)[0]!r}")
        made, slots, norm = self._method.update(
            names, leaves, given, state.step, list(state.slots), _unpacked(state, names), lr
        )
        packed = _packed(state.slots, names, slots)
        better: T = _tree.unflatten(structure, made)
        return better, State(state.step + 1, packed, norm)

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (type(self), self.lr, self.settings)

    def __repr__(self) -> str:
        told = "".join(f", {k}={v!r}" for k, v in self.settings.items() if v not in (None, False))
        return f"{type(self).__name__}({self.lr!r}{told})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.lr == other.lr and self.settings == other.settings

    def __hash__(self) -> int:
        return hash((type(self), self.lr))


def _made(cls: Any, lr: float, settings: dict[str, Any]) -> Optimizer:
    made: Optimizer = cls(lr, **settings)
    return made


def _common(
    groups: Groups | None, no_decay: bool, clip_norm: float | None, clip_value: float | None
) -> dict[str, Any]:
    """What every optimiser can be told."""
    common = {"no_decay": no_decay, "clip_norm": clip_norm, "clip_value": clip_value}
    return {"groups": groups, **common}


def _expect_rate(lr: float) -> None:
    if not 0 <= lr < math.inf:
        raise ValueError(f"the learning rate lr is {lr}, expected a finite number, not negative")


class Sgd(Optimizer):
    """Gradient descent, with momentum if asked for.

    `g ← g + λp`, `b ← μb + (1 − τ)g` (in the first step `b ← g`), `p ← p − lr·b`; with Nesterov's
    momentum `p ← p − lr·(g + μb)`.

    >>> import extensor as ex
    >>> from extensor import optim
    >>> optimizer = optim.Sgd(0.5, momentum=0.5)
    >>> p = ex.asarray([1.0, 2.0])
    >>> p, state = optimizer.update(p, ex.asarray([1.0, 1.0]), optimizer.init(p))
    >>> p, state.momentum_buffer
    (Tensor([0.5, 1.5], dtype=float64), Tensor([1.0, 1.0], dtype=float64))
    """

    _name = "sgd"

    def __init__(
        self, lr: float, momentum: float = 0.0, dampening: float = 0.0, nesterov: bool = False,
        weight_decay: float = 0.0,
        *, groups: Groups | None = None, no_decay: bool = False,
        clip_norm: float | None = None, clip_value: float | None = None,
    ) -> None:  # fmt: skip
        own = {"momentum": momentum, "dampening": dampening, "nesterov": nesterov}
        common = _common(groups, no_decay, clip_norm, clip_value)
        super().__init__(lr, {**own, "weight_decay": weight_decay}, **common)


class Adam(Optimizer):
    """Adam: every element moves by its mean gradient over the root of its mean square.

    `g ← g + λp`, `m ← β₁m + (1 − β₁)g`, `v ← β₂v + (1 − β₂)g²`, `p ← p − lr·m̂/(√v̂ + ε)` with
    `m̂ = m/(1 − β₁ᵗ)` and `v̂ = v/(1 − β₂ᵗ)`.
    """

    _name = "adam"

    def __init__(
        self, lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0.0, amsgrad: bool = False,
        *, groups: Groups | None = None, no_decay: bool = False,
        clip_norm: float | None = None, clip_value: float | None = None,
    ) -> None:  # fmt: skip
        own = {"betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
        super().__init__(lr, own, **_common(groups, no_decay, clip_norm, clip_value))


class AdamW(Optimizer):
    """`Adam` with weight decay that is no part of the gradient: before each step `p ← p −
    lr·λ·p`."""

    _name = "adamw"

    def __init__(
        self, lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0.01, amsgrad: bool = False,
        *, groups: Groups | None = None, no_decay: bool = False,
        clip_norm: float | None = None, clip_value: float | None = None,
    ) -> None:  # fmt: skip
        own = {"betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
        super().__init__(lr, own, **_common(groups, no_decay, clip_norm, clip_value))


class RmsProp(Optimizer):
    """RMSprop: gradients over the root of their mean square.

    `g ← g + λp`, `v ← αv + (1 − α)g²`, `p ← p − lr·g/(√v + ε)`; centred, the variance takes the
    place of `v`; with momentum, `b ← μb + g/(√v + ε)`, `p ← p − lr·b`. `centered` is PyTorch's
    spelling of `centred`.
    """

    _name = "rmsprop"

    def __init__(
        self, lr: float, alpha: float = 0.99, eps: float = 1e-8, momentum: float = 0.0,
        centred: bool = False, weight_decay: float = 0.0,
        *, centered: bool = False, groups: Groups | None = None, no_decay: bool = False,
        clip_norm: float | None = None, clip_value: float | None = None,
    ) -> None:  # fmt: skip
        centred = bool(centred or centered)
        own = {"alpha": alpha, "eps": eps, "momentum": momentum, "centred": centred}
        common = _common(groups, no_decay, clip_norm, clip_value)
        super().__init__(lr, {**own, "weight_decay": weight_decay}, **common)


class Adagrad(Optimizer):
    """Adagrad: gradients over the root of the sum of their squares.

    `g ← g + λp`, `s ← s + g²`, `p ← p − lr/(1 + (t − 1)η)·g/(√s + ε)`.
    """

    _name = "adagrad"

    def __init__(
        self, lr: float, lr_decay: float = 0.0, initial_accumulator_value: float = 0.0,
        eps: float = 1e-10, weight_decay: float = 0.0,
        *, groups: Groups | None = None, no_decay: bool = False,
        clip_norm: float | None = None, clip_value: float | None = None,
    ) -> None:  # fmt: skip
        own = {"lr_decay": lr_decay, "initial_accumulator_value": initial_accumulator_value}
        common = _common(groups, no_decay, clip_norm, clip_value)
        super().__init__(lr, {**own, "eps": eps, "weight_decay": weight_decay}, **common)


class Lion(Optimizer):
    """Lion (Chen et al., 2023): every element moves by the learning rate, in the direction of a
    mean gradient's sign. `c = β₁m + (1 − β₁)g`, `p ← p − lr·(sign c + λp)`, `m ← β₂m + (1 −
    β₂)g`."""

    _name = "lion"

    def __init__(
        self, lr: float, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0,
        *, groups: Groups | None = None, no_decay: bool = False,
        clip_norm: float | None = None, clip_value: float | None = None,
    ) -> None:  # fmt: skip
        own = {"betas": tuple(betas), "weight_decay": weight_decay}
        super().__init__(lr, own, **_common(groups, no_decay, clip_norm, clip_value))
