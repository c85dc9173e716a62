"""Minimising a function of a tree that can be evaluated at will, without noise: second-order
methods.

They are the Rust library's, over a Python function. This module must not know what is minimised.
"""

from typing import Any, NamedTuple

from .. import _core, _tree

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


def _minimize(name, settings, f, start):
    leaves, structure = _tree.flatten(start, buffers=False)
    flat = lambda moved: f(_tree.unflatten(structure, moved))  # noqa: E731
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

    def __init__(self, history=10, tolerance=1e-8, max_iterations=1000, max_evaluations=10_000):
        self.settings = {
            "history": history,
            "tolerance": float(tolerance),
            "max_iterations": max_iterations,
            "max_evaluations": max_evaluations,
        }

    def minimize(self, f, start):
        """Minimises `f`, beginning at `start`."""
        return _minimize("lbfgs", self.settings, f, start)


class NewtonCg:
    """Newton's method with the linear system solved by conjugate gradients, from products of the
    Hessian and vectors alone."""

    def __init__(self, tolerance=1e-8, max_iterations=200, max_products=200):
        self.settings = {
            "tolerance": float(tolerance),
            "max_iterations": max_iterations,
            "max_products": max_products,
        }

    def minimize(self, f, start):
        """Minimises `f`, beginning at `start`."""
        return _minimize("newton_cg", self.settings, f, start)
