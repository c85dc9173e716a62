"""Minimising a function of a tree that can be evaluated at will, without noise: second-order
methods.

They are the Rust library's, over a Python function. This module must not know what is minimised.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _core, _tree
from .._core import Tensor

__all__ = ["Lbfgs", "Minimum", "NewtonCg"]


class Minimum(NamedTuple):
    """Where a minimisation ended, and why (`stop`: "converged", "iterations", "evaluations" or
    "no progress")."""

    model: Any
    value: float
    grad_norm: float
    iterations: int
    evaluations: int
    products: int
    stop: str


def _minimize(
    name: str, settings: dict[str, Any], f: Callable[[Any], Tensor], start: Any
) -> Minimum:
    leaves, structure = _tree.flatten(start, buffers=False)

    def flat(moved: list[Tensor]) -> Tensor:
        return f(_tree.unflatten(structure, moved))

    found, about = _core.minimize(name, settings, flat, structure.names(), leaves)
    return Minimum(_tree.unflatten(structure, found), **about)


class Lbfgs:
    """L-BFGS with a line search that fulfils Wolfe's conditions, in float64.

    >>> import extensor as ex
    >>> from extensor import optim
    >>> f = lambda x: ex.sum(ex.square(x - ex.asarray([1.0, 2.0])))
    >>> found = optim.Lbfgs().minimize(f, ex.asarray([0.0, 0.0]))
    >>> found.model, found.stop
    (Tensor([1.0, 2.0], dtype=float64), 'converged')
    """

    def __init__(
        self, history: int = 10, tolerance: float = 1e-8, max_iterations: int = 1000,
        max_evaluations: int = 10_000,
    ) -> None:  # fmt: skip
        self.settings = {
            "history": history,
            "tolerance": float(tolerance),
            "max_iterations": max_iterations,
            "max_evaluations": max_evaluations,
        }

    def minimize(self, f: Callable[[Any], Tensor], start: Any) -> Minimum:
        """Minimises `f`, beginning at `start`."""
        return _minimize("lbfgs", self.settings, f, start)


class NewtonCg:
    """Newton's method with the linear system solved by conjugate gradients, from products of the
    Hessian and vectors alone."""

    def __init__(
        self, tolerance: float = 1e-8, max_iterations: int = 200, max_products: int = 200
    ) -> None:
        self.settings = {
            "tolerance": float(tolerance),
            "max_iterations": max_iterations,
            "max_products": max_products,
        }

    def minimize(self, f: Callable[[Any], Tensor], start: Any) -> Minimum:
        """Minimises `f`, beginning at `start`."""
        return _minimize("newton_cg", self.settings, f, start)
