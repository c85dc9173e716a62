"""Functions that differentiate Python functions, of any order and in any combination.

Arguments and results are trees (see `extensor.tree`). The derivatives themselves are the Rust
library's; this module takes trees apart, calls it, and puts trees together.
"""

import functools

from . import _core
from ._tree import flatten, unflatten

__all__ = [
    "grad", "value_and_grad", "vjp", "jvp", "linearize", "hvp", "jacobian", "hessian",
    "checkpoint", "custom_vjp", "custom_jvp", "stop_gradient",
]

Tensor = _core.Tensor


def _split(argnums, args):
    """The arguments to differentiate by, as one tree, and a function that puts them back."""
    single = isinstance(argnums, int)
    places = (argnums,) if single else tuple(argnums)
    chosen = []
    for place in places:
        if not isinstance(place, int) or not -len(args) <= place < len(args):
            raise ValueError(f"argnums is {argnums}, and the function has {len(args)} arguments")
        chosen.append(place % len(args))
    moving = args[chosen[0]] if single else tuple(args[p] for p in chosen)

    def put_back(moved):
        full = list(args)
        for place, value in zip(chosen, (moved,) if single else moved):
            full[place] = value
        return full

    return moving, put_back


def _moving(tree):
    """The leaves to differentiate by (not a module's buffers) and the structure."""
    return flatten(tree, buffers=False)


def _expect_floats(name, argnums, args):
    """Raises if there is no derivative by one of these arguments."""
    for place in (argnums,) if isinstance(argnums, int) else argnums:
        x, place = args[place], place % len(args)
        if isinstance(x, int):
            kind = type(x).__name__
            raise TypeError(f"{name}: argument {place} is a Python {kind}: write {float(x)}")
        leaves, structure = _moving(x)
        for leaf, path in zip(leaves, structure.names()):
            if not leaf.dtype.is_float:
                what = f"argument {place}, {path}," if path else f"argument {place}"
                raise TypeError(f"{name}: {what} has dtype {leaf.dtype.name}, expected floats")


def value_and_grad(f, argnums=0, has_aux=False):
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


def _value_and_grad(name, f, argnums, has_aux):
    @functools.wraps(f)
    def wrapped(*args, **kwargs):
        moving, put_back = _split(argnums, args)
        _expect_floats(name, argnums, args)
        leaves, structure = _moving(moving)
        form = None

        def flat(moved):
            nonlocal form
            result = f(*put_back(unflatten(structure, moved)), **kwargs)
            if has_aux:
                try:
                    result, aux = result
                except (TypeError, ValueError):
                    raise TypeError("with has_aux the function returns a pair: its value and the rest") from None
                more, form = flatten(aux, floats=False)
            else:
                more = []
            return result, more

        value, grads, aux = _core.value_and_grad(flat, leaves)
        grads = unflatten(structure, grads)
        if has_aux:
            return (value, unflatten(form, aux)), grads
        return value, grads

    return wrapped


def grad(f, argnums=0, has_aux=False):
    """A function that returns the gradient of `f`, of which the result is one number.

    >>> import extensor as ex
    >>> ex.grad(lambda x: x**3)(2.0)
    Tensor(12.0, dtype=float64)
    >>> ex.grad(ex.grad(ex.grad(lambda x: x**4)))(2.0)
    Tensor(48.0, dtype=float64)
    """
    both = _value_and_grad("grad", f, argnums, has_aux)

    @functools.wraps(f)
    def wrapped(*args, **kwargs):
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return wrapped


def vjp(f, *args, has_aux=False):
    """The results of `f(*args)`, and its pullback: the function from gradients of the results to a
    tuple of gradients of the arguments. With `has_aux` also what `f` returned beside its result.

    >>> import extensor as ex
    >>> y, pullback = ex.vjp(lambda x: x * x, ex.asarray([1.0, 2.0]))
    >>> pullback(ex.asarray([1.0, 10.0]))
    (Tensor([ 2.0, 40.0], dtype=float64),)
    """
    leaves, structure = _moving(args)
    forms = {}

    def flat(moved):
        result = f(*unflatten(structure, moved))
        aux = ()
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

    def __init__(self, pull, arguments, results):
        self._pull, self._arguments, self._results = pull, arguments, results

    def __call__(self, cotangents):
        given, form = flatten(cotangents)
        places = []
        _count(self._results, places)
        if len(given) != len(places):
            raise ValueError(f"the pullback takes gradients of the form {self._results}, not {form}")
        return unflatten(self._arguments, self._pull(given))

    def unused(self):
        """The numbers of the leaves of the arguments that the results do not depend on."""
        return [int(name) for name in self._pull.unused()]


def _count(structure, places):
    from ._tree import _LEAF

    if structure.kind is _LEAF:
        places.append(None)
    for part in structure.parts:
        _count(part, places)


def jvp(f, primals, tangents):
    """The results of `f(*primals)`, and their derivatives along `tangents`, a tuple of the same form.

    >>> import extensor as ex
    >>> ex.jvp(ex.exp, (0.0,), (3.0,))
    (Tensor(1.0, dtype=float64), Tensor(3.0, dtype=float64))
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError("jvp takes its arguments and their tangents as two tuples")
    leaves, structure = _moving(tuple(primals))
    along, form = _moving(tuple(tangents))
    if len(along) != len(leaves):
        raise ValueError(f"the tangents have the form {form}, the arguments {structure}")
    result_form = None

    def flat(moved):
        nonlocal result_form
        outputs, result_form = flatten(f(*unflatten(structure, moved)), floats=False)
        return outputs

    outputs, derivatives = _core.jvp(flat, leaves, along)
    return unflatten(result_form, outputs), unflatten(result_form, derivatives)


def linearize(f, *args):
    """The results of `f(*args)`, and its derivative there as a linear function of tangents."""
    result, pullback = vjp(f, *args)
    outputs, form = flatten(result)
    zeros = unflatten(form, [y * 0 for y in map(stop_gradient, outputs)])
    _, transposed = vjp(pullback, zeros)

    def along(*tangents):
        return transposed(tuple(tangents))[0]

    return result, along


def hvp(f, primals, tangents):
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


def _basis(x, k):
    """A tensor like `x` that is 1 at element `k` and 0 elsewhere."""
    ops = _core.operations()
    one = ops["one_hot"](_core.asarray(k), x.size, x.dtype)
    return ops["reshape"](one, x.shape)


def jacobian(f, argnums=0, mode=None):
    """A function that returns the derivative of every element of the result by every element of an
    argument: for a tensor of shape `s` and a result of shape `r`, a tensor of shape `r + s`; for trees,
    the result's tree with the argument's tree in each leaf's place.

    `mode` is "reverse" (a row at a time), "forward" (a column at a time) or None: whichever is less.
    """
    if mode not in (None, "forward", "reverse"):
        raise ValueError(f'mode is {mode!r}, expected "forward", "reverse" or None')

    @functools.wraps(f)
    def wrapped(*args, **kwargs):
        moving, put_back = _split(argnums, args)
        _expect_floats("jacobian", argnums, args)
        leaves, structure = _moving(moving)

        def flat(*moved):
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


def _joined(parts, shape, like, axis):
    ops = _core.operations()
    if not parts:
        return _core.full(shape, 0, dtype=like.dtype)
    return ops["reshape"](ops["stack"](parts, axis), shape)


def _rows(flat, leaves, outputs, form, pullback):
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


def _columns(flat, leaves, outputs, form, pullback):
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


def hessian(f, argnums=0):
    """A function that returns the second derivatives of `f`, of which the result is one number.

    >>> import extensor as ex
    >>> ex.hessian(ex.prod)(ex.asarray([2.0, 3.0]))
    Tensor([[0.0, 1.0],
            [1.0, 0.0]], dtype=float64)
    """
    return jacobian(grad(f, argnums), argnums)


def stop_gradient(tree):
    """The same tensor, or tree of tensors, at which differentiation ends."""
    if isinstance(tree, Tensor):
        return _core.stop_gradient(tree)
    leaves, structure = flatten(tree, floats=False)
    return unflatten(structure, [_core.stop_gradient(x) for x in leaves])


def checkpoint(f):
    """`f`, of which reverse mode saves only the arguments: what is inside is computed again, with the
    same bits, when the gradient is wanted."""

    @functools.wraps(f)
    def wrapped(*args, **kwargs):
        leaves, structure = flatten(args)
        form = None

        def flat(moved):
            nonlocal form
            outputs, form = flatten(f(*unflatten(structure, moved), **kwargs), floats=False)
            return outputs

        outputs = _core.checkpoint(flat, leaves)
        return unflatten(form, outputs)

    return wrapped


def custom_vjp(forward, backward):
    """A function with a backward function of one's own.

    `forward(*args)` returns the result and whatever is to be saved; `backward(saved, grad)` makes the
    gradients of the arguments (one, or a tuple of as many as there are arguments) from what was saved
    and the result's gradient. If both are made of operations, it can be differentiated again.
    """

    @functools.wraps(forward)
    def wrapped(*args):
        leaves, structure = flatten(args)
        form = None

        def there(moved):
            nonlocal form
            try:
                result, saved = forward(*unflatten(structure, moved))
            except (TypeError, ValueError) as error:
                if "unpack" in str(error):
                    raise TypeError("the forward function returns a pair: the result and what is saved") from None
                raise
            outputs, form = flatten(result, floats=False)
            return outputs, saved

        def back(saved, grads):
            found = backward(saved, unflatten(form, grads))
            if len(args) == 1 and not (isinstance(found, tuple) and len(found) == 1):
                found = (found,)
            if not isinstance(found, (tuple, list)) or len(found) != len(args):
                raise ValueError(f"the backward function returns {len(args)} gradients, one for each argument")
            return flatten(tuple(found))[0]

        outputs = _core.custom_vjp(there, back, leaves)
        return unflatten(form, outputs)

    return wrapped


def custom_jvp(f, rule):
    """A function with a forward derivative of one's own: `rule(args, tangents)`, two tuples, returns the
    derivative of the result, and is linear in the tangents. Reverse mode transposes it."""

    @functools.wraps(f)
    def wrapped(*args):
        leaves, structure = flatten(args)
        form = None

        def there(moved):
            nonlocal form
            outputs, form = flatten(f(*unflatten(structure, moved)), floats=False)
            return outputs

        def along(moved, tangents):
            return flatten(rule(unflatten(structure, moved), unflatten(structure, tangents)))[0]

        outputs = _core.custom_jvp(there, along, leaves)
        return unflatten(form, outputs)

    return wrapped
