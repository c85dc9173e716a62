"""Checking what `jax.vjp` makes of a function.

Only imported when JAX arrays, or functions that JAX has transformed, are given. The check is that of any
other pair of functions, with JAX computing in float64 meanwhile.
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

from . import _adapt, _check
from ._report import Report
from ._tree import unflatten

Function = Callable[..., Any]


def check_jax(f: Function, inputs: tuple[Any, ...], options: dict[str, Any]) -> Report:
    """`check_grad` for a function of JAX arrays."""
    jax: Any = importlib.import_module("jax")
    options = dict(options)
    order = options.pop("order", 1)
    options.pop("forward", None)
    if order not in (1, 2):
        raise ValueError(f"order is {order}, expected 1 or 2")
    with _float64(jax):
        call, given = _plain(jax, f, inputs)
        check = _check.Check(call, _pullback(jax, call), given, options)
        report = check.report()
        if order == 1 or not report.passed:
            return report

        def gradient(*args: Any) -> Any:
            return _weighted(jax, call, args)

        second = {**options, "name": f"the gradient of {check.options['name']}", "mode": "fast"}
        second.pop("cotangent", None)
        pulled = _pullback(jax, gradient)
        again = _check.Check(gradient, pulled, given, second, signature=call).report()
    return report if again.passed else again


@contextlib.contextmanager
def _float64(jax: Any) -> Iterator[None]:
    """JAX computing in float64 within the block, in this thread."""
    # JAX before 0.8 has it among experiments.
    home = jax if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental")
    with home.enable_x64(True):
        yield


def _plain(jax: Any, f: Function, inputs: tuple[Any, ...]) -> tuple[Function, tuple[Any, ...]]:
    """The function and its inputs with NumPy's arrays as JAX's, and nodes of trees that only JAX knows as
    dicts of their leaves."""
    nodes: dict[int, Any] = {}
    given: list[Any] = []
    for place, x in enumerate(inputs):
        found, structure = _adapt.flatten(x)
        if not found and not isinstance(x, (bool, int, str, type(None))):
            leaves, tree = jax.tree_util.tree_flatten_with_path(x)
            if leaves and not jax.tree_util.treedef_is_leaf(tree):
                nodes[place] = tree
                given.append({jax.tree_util.keystr(path): leaf for path, leaf in leaves})
                continue
        arrays = [jax.numpy.asarray(a) if _adapt.kind_of(a) == "numpy" else a for a in found]
        given.append(unflatten(structure, arrays))

    def call(*args: Any) -> Any:
        full = list(args)
        for place, tree in nodes.items():
            full[place] = jax.tree_util.tree_unflatten(tree, list(args[place].values()))
        return f(*full)

    return _check.named(call, f, _adapt.parameters(f, len(inputs))), tuple(given)


def _pulled(jax: Any, f: Function, args: tuple[Any, ...], grad: Any) -> tuple[Any, list[Any], list[int]]:
    """The gradients of `<grad, f(*args)>` for the float leaves of the arguments; the arguments'
    structure, their leaves, and which of these they are."""
    leaves, structure = _adapt.flatten(args)
    moving = [i for i, x in enumerate(leaves) if _adapt.is_float(x)]

    def of_floats(*moved: Any) -> list[Any]:
        full = list(leaves)
        for place, x in zip(moving, moved):
            full[place] = x
        outputs, _ = _adapt_outputs(jax, f(*unflatten(structure, full)))
        return outputs

    outputs, pull = jax.vjp(of_floats, *(leaves[i] for i in moving))
    if grad is None:
        weights = [_weights(jax, y) for y in outputs]
    else:
        weights = [g.astype(y.dtype) for g, y in zip(_adapt.flatten(grad)[0], outputs)]
    found: list[Any] = [None] * len(leaves)
    for place, gradient in zip(moving, pull(weights)):
        found[place] = gradient
    return structure, found, moving


def _adapt_outputs(jax: Any, value: Any) -> tuple[list[Any], Any]:
    """The float arrays of a result: tracers are arrays to JAX, and to `_adapt` too."""
    found, structure = _adapt.flatten(value)
    return [y for y in found if _adapt.is_float(y)], structure


def _weights(jax: Any, y: Any) -> Any:
    """Weights for an output, all different, the same every time."""
    numpy = jax.numpy
    at = numpy.arange(y.size, dtype=y.dtype).reshape(y.shape)
    return numpy.cos(at * 2.4) + 1.5


def _weighted(jax: Any, f: Function, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients with fixed weights, for the second order."""
    _, found, moving = _pulled(jax, f, args, None)
    return tuple(found[i] for i in moving)


def _pullback(jax: Any, f: Function) -> Function:
    def backward(grad_output: Any, *args: Any) -> Any:
        structure, found, _ = _pulled(jax, f, args, grad_output)
        return unflatten(structure, found)

    return backward
