"""Functions that differentiate Python functions, of any order and in any combination.

Arguments and results are trees (see `extensor.tree`). The derivatives themselves are the Rust
library's; this module takes trees apart, calls it, and puts trees together.
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, overload

from . import _core, ops
from ._core import Key, Tensor
from ._tree import Structure, flatten, flatten_examples, part_names, unflatten

__all__ = [
    "Pullback", "checkpoint", "checkpoint_sequential", "custom_jvp", "custom_vjp", "grad", "hessian", "hvp",
    "jacobian", "jvp", "linearize", "stop_gradient", "value_and_grad", "vjp", "vmap",
]

Argnums = int | tuple[int, ...]
P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
V = TypeVar("V", covariant=True)
X = TypeVar("X")
Y = TypeVar("Y")


def split(argnums: Argnums, args: tuple[Any, ...]) -> tuple[Any, Callable[[Any], list[Any]]]:
    """The arguments to differentiate by, as one tree, and a function that puts them back."""
    single = isinstance(argnums, int)
    places = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    chosen = []
    for place in places:
        if not isinstance(place, int) or not -len(args) <= place < len(args):
            raise ValueError(f"argnums is {argnums}, and the function has {len(args)} arguments")
        chosen.append(place % len(args))
    moving = args[chosen[0]] if single else tuple(args[p] for p in chosen)

    def put_back(moved: Any) -> list[Any]:
        full = list(args)
        for place, value in zip(chosen, (moved,) if single else moved):
            full[place] = value
        return full

    return moving, put_back


def moving_leaves(tree: Any) -> tuple[list[Tensor], Structure]:
    """The leaves to differentiate by (not a module's buffers) and the structure."""
    return flatten(tree, buffers=False)


def expect_floats(name: str, argnums: Argnums, args: tuple[Any, ...]) -> None:
    """Raises if there is no derivative by one of these arguments."""
    for place in (argnums,) if isinstance(argnums, int) else argnums:
        x, place = args[place], place % len(args)
        if isinstance(x, int):
            kind = type(x).__name__
            raise TypeError(f"{name}: argument {place} is a Python {kind}: write {float(x)}")
        leaves, structure = moving_leaves(x)
        for leaf, path in zip(leaves, structure.names()):
            if not leaf.dtype.is_float:
                what = f"argument {place}, {path}," if path else f"argument {place}"
                raise TypeError(f"{name}: {what} has dtype {leaf.dtype.name}, expected floats")


class Grad(Protocol):
    """What `grad` returns: a function of the arguments of the one that is differentiated, whose result is
    of the form of the first."""

    @overload
    def __call__(self, x: float, /, *args: Any, **kwargs: Any) -> Tensor: ...
    @overload
    def __call__(self, x: A, /, *args: Any, **kwargs: Any) -> A: ...


class ValueAndGrad(Protocol[V]):
    """What `value_and_grad` returns."""

    @overload
    def __call__(self, x: float, /, *args: Any, **kwargs: Any) -> tuple[V, Tensor]: ...
    @overload
    def __call__(self, x: A, /, *args: Any, **kwargs: Any) -> tuple[V, A]: ...


class GradWithAux(Protocol[V]):
    """What `grad` returns for a function that returns something beside its value."""

    @overload
    def __call__(self, x: float, /, *args: Any, **kwargs: Any) -> tuple[Tensor, V]: ...
    @overload
    def __call__(self, x: A, /, *args: Any, **kwargs: Any) -> tuple[A, V]: ...


@overload
def value_and_grad(
    f: Callable[..., Tensor], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> ValueAndGrad[Tensor]: ...
@overload
def value_and_grad(
    f: Callable[..., tuple[Tensor, X]], argnums: Literal[0] = 0, *, has_aux: Literal[True]
) -> ValueAndGrad[tuple[Tensor, X]]: ...
@overload
def value_and_grad(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]: ...
def value_and_grad(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Any:
    """A function that returns the value of `f`, which is one number, and its gradient.

    `argnums` says by which argument (or arguments, as a tuple) to differentiate; the gradient is a tree
    of the same form. With `has_aux` the function returns its value and something else, which comes
    back beside the value, not differentiated.

    >>> import extensor as ex
    >>> f = lambda w, b: ex.sum(w * b)
    >>> value, (dw, db) = ex.value_and_grad(f, argnums=(0, 1))(ex.asarray([1.0, 2.0]), ex.asarray(0.5))
    >>> dw
    Tensor([0.5, 0.5], dtype=float64)
    """

    return _value_and_grad("value_and_grad", f, argnums, has_aux)


def _value_and_grad(
    name: str, f: Callable[..., Any], argnums: Argnums, has_aux: bool
) -> Callable[..., tuple[Any, Any]]:
    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        moving, put_back = split(argnums, args)
        expect_floats(name, argnums, args)
        leaves, structure = moving_leaves(moving)
        form: Any = None

        def flat(moved: list[Tensor]) -> tuple[Any, list[Tensor]]:
            nonlocal form
            more: list[Tensor] = []
            result = f(*put_back(unflatten(structure, moved)), **kwargs)
            if has_aux:
                try:
                    result, aux = result
                except (TypeError, ValueError):
                    raise TypeError("with has_aux the function returns a pair: its value and the rest") from None
                more, form = flatten(aux, floats=False)
            return result, more

        value, grads, aux = _core.value_and_grad(flat, leaves)
        grads = unflatten(structure, grads)
        if has_aux:
            return (value, unflatten(form, aux)), grads
        return value, grads

    return wrapped


@overload
def grad(
    f: Callable[..., Tensor], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> Grad: ...
@overload
def grad(
    f: Callable[..., tuple[Tensor, X]], argnums: Literal[0] = 0, *, has_aux: Literal[True]
) -> GradWithAux[X]: ...
@overload
def grad(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]: ...
def grad(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Any:
    """A function that returns the gradient of `f`, of which the result is one number.

    >>> import extensor as ex
    >>> ex.grad(lambda x: x**3)(2.0)
    Tensor(12.0, dtype=float64)
    >>> ex.grad(ex.grad(ex.grad(lambda x: x**4)))(2.0)
    Tensor(48.0, dtype=float64)
    """
    both = _value_and_grad("grad", f, argnums, has_aux)

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return wrapped


@overload
def vjp(f: Callable[..., Y], *args: Any, has_aux: Literal[False] = False) -> tuple[Y, "Pullback"]: ...
@overload
def vjp(f: Callable[..., tuple[Y, X]], *args: Any, has_aux: Literal[True]) -> tuple[Y, "Pullback", X]: ...
def vjp(f: Callable[..., Any], *args: Any, has_aux: bool = False) -> Any:
    """The results of `f(*args)`, and its pullback: the function from gradients of the results to a
    tuple of gradients of the arguments. With `has_aux` also what `f` returned beside its result.

    >>> import extensor as ex
    >>> y, pullback = ex.vjp(lambda x: x * x, ex.asarray([1.0, 2.0]))
    >>> pullback(ex.asarray([1.0, 10.0]))
    (Tensor([ 2.0, 40.0], dtype=float64),)
    """
    leaves, structure = moving_leaves(args)
    forms: dict[str, Structure] = {}

    def flat(moved: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        result = f(*unflatten(structure, moved))
        aux: Any = ()
        if has_aux:
            result, aux = result
        outputs, forms["out"] = flatten(result, floats=False)
        more, forms["aux"] = flatten(aux, floats=False)
        return outputs, more

    outputs, pull, aux = _core.vjp(flat, leaves)
    result_form = forms["out"]
    pullback = Pullback(pull, structure, result_form)
    result = unflatten(result_form, outputs)
    if has_aux:
        return result, pullback, unflatten(forms["aux"], aux)
    return result, pullback


class Pullback:
    """The linear map from gradients of a function's results to gradients of its arguments."""

    def __init__(self, pull: _core.Pullback, arguments: Structure, results: Structure) -> None:
        self._pull, self._arguments, self._results = pull, arguments, results

    def __call__(self, cotangents: Any) -> tuple[Any, ...]:
        """The gradients of the arguments, for gradients of the form of the results."""
        given, form = flatten(cotangents)
        places: list[None] = []
        _count(self._results, places)
        if len(given) != len(places):
            raise ValueError(f"the pullback takes gradients of the form {self._results}, not {form}")
        found: tuple[Any, ...] = unflatten(self._arguments, self._pull(given))
        return found

    def unused(self) -> list[int]:
        """The numbers of the leaves of the arguments that the results do not depend on."""
        return [int(name) for name in self._pull.unused()]


def _count(structure: Structure, places: list[None]) -> None:
    from ._tree import _LEAF

    if structure.kind is _LEAF:
        places.append(None)
    for part in structure.parts:
        _count(part, places)


def jvp(f: Callable[..., Y], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Y, Y]:
    """The results of `f(*primals)`, and their derivatives along `tangents`, a tuple of the same form.

    >>> import extensor as ex
    >>> ex.jvp(ex.exp, (0.0,), (3.0,))
    (Tensor(1.0, dtype=float64), Tensor(3.0, dtype=float64))
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError("jvp takes its arguments and their tangents as two tuples")
    leaves, structure = moving_leaves(tuple(primals))
    along, form = moving_leaves(tuple(tangents))
    if len(along) != len(leaves):
        raise ValueError(f"the tangents have the form {form}, the arguments {structure}")
    result_form: Any = None

    def flat(moved: list[Tensor]) -> list[Tensor]:
        nonlocal result_form
        outputs, result_form = flatten(f(*unflatten(structure, moved)), floats=False)
        return outputs

    outputs, derivatives = _core.jvp(flat, leaves, along)
    return unflatten(result_form, outputs), unflatten(result_form, derivatives)


def linearize(f: Callable[..., Y], *args: Any) -> tuple[Y, Callable[..., Y]]:
    """The results of `f(*args)`, and its derivative there as a linear function of tangents."""
    result, pullback = vjp(f, *args)
    outputs, form = flatten(result)
    zeros = unflatten(form, [y * 0 for y in map(stop_gradient, outputs)])
    _, transposed = vjp(pullback, zeros)

    def along(*tangents: Any) -> Y:
        found: Y = transposed(tuple(tangents))[0]
        return found

    return result, along


@overload
def hvp(f: Callable[..., Tensor], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, ...]: ...
@overload
def hvp(f: Callable[..., Tensor], primals: A, tangents: A) -> A: ...
def hvp(f: Callable[..., Tensor], primals: Any, tangents: Any) -> Any:
    """The Hessian of `f`, of which the result is one number, times `tangents`.

    Both are tuples of arguments; so is the result. With one argument they may stand for themselves.

    >>> import extensor as ex
    >>> x, v = ex.asarray([1.0, 2.0]), ex.asarray([1.0, 1.0])
    >>> ex.hvp(lambda x: ex.sum(x * x * x), x, v)
    Tensor([ 6.0, 12.0], dtype=float64)
    """
    single = not isinstance(primals, (tuple, list))
    if single:
        primals, tangents = (primals,), (tangents,)
    places = tuple(range(len(primals)))
    found = jvp(grad(f, argnums=places), primals, tangents)[1]
    return found[0] if single else found


def _basis(x: Tensor, k: int) -> Tensor:
    """A tensor like `x` that is 1 at element `k` and 0 elsewhere."""
    return ops.reshape(ops.one_hot(_core.asarray(k), x.size, x.dtype), x.shape)


def jacobian(
    f: Callable[..., Any], argnums: Argnums = 0, mode: Literal["forward", "reverse"] | None = None
) -> Callable[..., Any]:
    """A function that returns the derivative of every element of the result by every element of an
    argument: for a tensor of shape `s` and a result of shape `r`, a tensor of shape `r + s`; for trees,
    the result's tree with the argument's tree in each leaf's place.

    `mode` is "reverse" (a row at a time), "forward" (a column at a time) or None: whichever is less.
    """
    if mode not in (None, "forward", "reverse"):
        raise ValueError(f'mode is {mode!r}, expected "forward", "reverse" or None')

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        moving, put_back = split(argnums, args)
        expect_floats("jacobian", argnums, args)
        leaves, structure = moving_leaves(moving)

        def flat(*moved: Tensor) -> Any:
            return f(*put_back(unflatten(structure, moved)), **kwargs)

        result, pullback = vjp(flat, *leaves)
        outputs, form = flatten(result)
        rows = sum(y.size for y in outputs)
        columns = sum(x.size for x in leaves)
        forward = mode == "forward" or (mode is None and columns < rows)
        _core.expect_room_for_jacobian(rows, columns, max(x.dtype.itemsize for x in (*outputs, *leaves)))
        blocks = (_columns if forward else _rows)(flat, leaves, outputs, form, pullback)
        return unflatten(form, [unflatten(structure, row) for row in blocks])

    return wrapped


def _joined(parts: list[Tensor], shape: tuple[int, ...], like: Tensor, axis: int) -> Tensor:
    if not parts:
        return _core.full(shape, 0, dtype=like.dtype)
    return ops.reshape(ops.stack(parts, axis), shape)


def _rows(
    flat: Callable[..., Any], leaves: list[Tensor], outputs: list[Tensor], form: Structure, pullback: Pullback
) -> list[list[Tensor]]:
    blocks = []
    for at, y in enumerate(outputs):
        rows = []
        for k in range(y.size):
            cotangents = [_basis(o, k) if i == at else o * 0 for i, o in enumerate(map(stop_gradient, outputs))]
            rows.append(pullback(unflatten(form, cotangents)))
        block = [[row[i] for row in rows] for i in range(len(leaves))]
        shapes = [y.shape + x.shape for x in leaves]
        blocks.append([_joined(b, s, y, 0) for b, s in zip(block, shapes)])
    return blocks


def _columns(
    flat: Callable[..., Any], leaves: list[Tensor], outputs: list[Tensor], form: Structure, pullback: Pullback
) -> list[list[Tensor]]:
    columns = []
    for at, x in enumerate(leaves):
        found = []
        for k in range(x.size):
            tangents = [_basis(o, k) if i == at else o * 0 for i, o in enumerate(map(stop_gradient, leaves))]
            found.append(flatten(jvp(flat, tuple(leaves), tuple(tangents))[1])[0])
        columns.append(found)
    blocks = []
    for i, y in enumerate(outputs):
        parts = [[c[i] for c in column] for column in columns]
        shapes = [y.shape + x.shape for x in leaves]
        blocks.append([_joined(p, s, y, -1) for p, s in zip(parts, shapes)])
    return blocks


def hessian(f: Callable[..., Tensor], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that returns the second derivatives of `f`, of which the result is one number.

    >>> import extensor as ex
    >>> ex.hessian(ex.prod)(ex.asarray([2.0, 3.0]))
    Tensor([[0.0, 1.0],
            [1.0, 0.0]], dtype=float64)
    """
    return jacobian(grad(f, argnums), argnums)


def vmap(
    f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, size: int | None = None
) -> Callable[..., Any]:
    """A function that gives what `f`, a function of one example, gives for each example of a batch: a
    loop over them, as one pass.

    `in_axes` says which axis of the arguments are the examples: a number for all of them, or a tuple with
    one for each argument; where an argument is a tree, a number for all of its tensors or a tree of
    numbers. None stands for what all examples share. `out_axes` says likewise where the examples are in
    the results; None returns what does not differ between them once. Keyword arguments are shared.

    A key among mapped arguments is split: example `i` has `key.fold_in(i)`. If nothing but keys is
    mapped, `size` says how many examples there are.

    It nests with `grad`, `jvp`, `hvp`, `jacobian`, `compile` and itself in any order.

    >>> import extensor as ex
    >>> x, w = ex.asarray([[1.0, 2.0], [3.0, 4.0]]), ex.asarray([1.0, -1.0])
    >>> loss = lambda w, x: ex.sum(w * x) ** 2.0
    >>> ex.vmap(ex.grad(loss), in_axes=(None, 0))(w, x)  # the gradient for each example
    Tensor([[-2.0, -4.0],
            [-6.0, -8.0]], dtype=float64)
    """

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten_examples(args)
        spec = tuple(in_axes) if isinstance(in_axes, list) else in_axes
        axes = _axes("in_axes", spec, structure)
        split = [isinstance(x, Key) and axis is not None for x, axis in zip(leaves, axes)]
        moving = [i for i, x in enumerate(leaves) if not isinstance(x, Key)]
        drawn = [i for i, is_split in enumerate(split) if is_split]
        form: Any = None

        def flat(tensors: list[Tensor], keys: list[Key]) -> tuple[list[Tensor], list[int | None]]:
            nonlocal form
            here = list(leaves)
            for i, x in (*zip(moving, tensors), *zip(drawn, keys)):
                here[i] = x
            outputs, form = flatten(f(*unflatten(structure, here), **kwargs))
            return outputs, _axes("out_axes", out_axes, form)

        tensors, keys = [leaves[i] for i in moving], [leaves[i] for i in drawn]
        outputs = _core.vmap(flat, tensors, keys, [axes[i] for i in moving], size)
        return unflatten(form, outputs)

    return wrapped


def _axes(name: str, spec: Any, structure: Structure) -> list[int | None]:
    """The axis of each leaf of a tree, from a tree of axes of which each stands for all leaves below it."""
    if spec is None or (isinstance(spec, int) and not isinstance(spec, bool)):
        return [spec] * len(structure.names())
    parts = structure.parts
    if structure.kind is not None and parts:
        if isinstance(spec, (tuple, list)) and len(spec) == len(parts):
            return [axis for each, part in zip(spec, parts) for axis in _axes(name, each, part)]
        names = list(part_names(structure))
        if isinstance(spec, dict) and set(spec) == set(names):
            return [axis for key, part in zip(names, parts) for axis in _axes(name, spec[key], part)]
    raise ValueError(
        f"vmap: {name} is {spec!r}, expected a number, None, or as many of them as there are parts in {structure}"
    )


def stop_gradient(tree: A) -> A:
    """The same tensor, or tree of tensors, at which differentiation ends."""
    leaves, structure = flatten(tree, floats=False)
    made: A = unflatten(structure, [_core.stop_gradient(x) for x in leaves])
    return made


def checkpoint(f: Callable[P, Y]) -> Callable[P, Y]:
    """`f`, of which reverse mode saves only the arguments: what is inside is computed again, with the
    same bits, when the gradient is wanted."""

    @functools.wraps(f)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Y:
        leaves, structure = flatten(args)
        form: Any = None

        def flat(moved: list[Tensor]) -> list[Tensor]:
            nonlocal form
            outputs, form = flatten(f(*unflatten(structure, moved), **kwargs), floats=False)
            return outputs

        outputs = _core.checkpoint(flat, leaves)
        result: Y = unflatten(form, outputs)
        return result

    return wrapped


def checkpoint_sequential(
    f: Callable[[A, B], B], layers: Iterable[A], x: B, segments: int | None = None
) -> B:
    """`f(layer n, … f(layer 1, x))` for a list of layers, in segments of which only the ends are saved:
    √n segments unless `segments` says how many. Memory for time, as with `checkpoint`.

    >>> import extensor as ex
    >>> layers = [ex.asarray(i / 5.0) for i in range(1, 10)]
    >>> f = lambda w, x: ex.sin(w * x)
    >>> saved = lambda layers: ex.checkpoint_sequential(f, layers, ex.asarray(1.0))
    >>> plain = lambda layers: functools.reduce(lambda x, w: f(w, x), layers, ex.asarray(1.0))
    >>> bool(ex.grad(saved)(layers)[0] == ex.grad(plain)(layers)[0])
    True
    """
    layers = list(layers)
    if segments is not None and segments < 1:
        raise ValueError(f"checkpoint_sequential: segments is {segments}, expected at least 1")
    count = min(math.isqrt(len(layers)) if segments is None else segments, len(layers))

    @checkpoint
    def segment(part: list[A], x: B) -> B:
        for layer in part:
            x = f(layer, x)
        return x

    size = -(-len(layers) // max(count, 1))
    for start in range(0, len(layers), max(size, 1)):
        x = segment(layers[start : start + size], x)
    return x


def custom_vjp(
    forward: Callable[..., tuple[Y, X]], backward: Callable[[X, Y], Any]
) -> Callable[..., Y]:
    """A function with a backward function of one's own.

    `forward(*args)` returns the result and whatever is to be saved; `backward(saved, grad)` makes the
    gradients of the arguments (one, or a tuple of as many as there are arguments) from what was saved
    and the result's gradient. If both are made of operations, it can be differentiated again.
    """

    @functools.wraps(forward)
    def wrapped(*args: Any) -> Any:
        leaves, structure = flatten(args)
        form: Any = None

        def there(moved: list[Tensor]) -> tuple[list[Tensor], Any]:
            nonlocal form
            try:
                result, saved = forward(*unflatten(structure, moved))
            except (TypeError, ValueError) as error:
                if "unpack" in str(error):
                    raise TypeError("the forward function returns a pair: the result and what is saved") from None
                raise
            outputs, form = flatten(result, floats=False)
            return outputs, saved

        def back(saved: Any, grads: list[Tensor]) -> list[Tensor]:
            found = backward(saved, unflatten(form, grads))
            if len(args) == 1 and not (isinstance(found, tuple) and len(found) == 1):
                found = (found,)
            if not isinstance(found, (tuple, list)) or len(found) != len(args):
                raise ValueError(f"the backward function returns {len(args)} gradients, one for each argument")
            return flatten(tuple(found))[0]

        outputs = _core.custom_vjp(there, back, leaves)
        return unflatten(form, outputs)

    return wrapped


def custom_jvp(
    f: Callable[..., Y], rule: Callable[[tuple[Any, ...], tuple[Any, ...]], Y]
) -> Callable[..., Y]:
    """A function with a forward derivative of one's own: `rule(args, tangents)`, two tuples, returns the
    derivative of the result, and is linear in the tangents. Reverse mode transposes it."""

    @functools.wraps(f)
    def wrapped(*args: Any) -> Any:
        leaves, structure = flatten(args)
        form: Any = None

        def there(moved: list[Tensor]) -> list[Tensor]:
            nonlocal form
            outputs, form = flatten(f(*unflatten(structure, moved)), floats=False)
            return outputs

        def along(moved: list[Tensor], tangents: list[Tensor]) -> list[Tensor]:
            return flatten(rule(unflatten(structure, moved), unflatten(structure, tangents)))[0]

        outputs = _core.custom_jvp(there, along, leaves)
        return unflatten(form, outputs)

    return wrapped
