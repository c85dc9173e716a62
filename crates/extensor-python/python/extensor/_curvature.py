"""Second derivatives without the whole Hessian: its diagonal and trace, exactly or by probing;
products with the curvature of a model; a penalty on gradients.

They are the Rust library's; this module takes trees apart, calls it, and puts trees together.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from . import _core
from ._autodiff import expect_floats, moving_leaves, split
from ._core import Key, Tensor
from ._tree import flatten, unflatten

__all__ = ["fisher_vp", "gauss_newton_vp", "gradient_penalty", "hessian_diagonal", "laplacian"]


def _probes(name: str, key: Key | None, probes: int | None) -> int:
    """How many probes there are, if any; raises unless they and the key come together."""
    if (key is None) != (probes is None):
        raise TypeError(f"{name}: an estimate needs both key=extensor.Key(seed) and probes=…")
    if probes is not None and probes < 1:
        raise ValueError(f"{name}: probes is {probes}, expected at least 1")
    return probes or 0


def hessian_diagonal(
    f: Callable[..., Tensor], argnums: int | tuple[int, ...] = 0, *,
    key: Key | None = None, probes: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function that returns the diagonal of the Hessian of `f`, of which the result is one number:
    the second derivative by each element of an argument (or of several), in its form.

    It takes as many products with the Hessian as there are elements. With a key and a number of probes
    it is estimated from so many products: the mean of `v·Hv`, element by element, for random `v` of ±1
    (Bekas, Kokiopoulou and Saad, 2007), which is right on average, and exact where the Hessian is
    diagonal.

    >>> import extensor as ex
    >>> f = lambda x, y: ex.sum(x * x * x * y)
    >>> ex.hessian_diagonal(f)(ex.asarray([1.0, 2.0]), ex.asarray(3.0))
    Tensor([18.0, 36.0], dtype=float64)
    >>> ex.hessian_diagonal(f, key=ex.Key(1), probes=1)(ex.asarray([1.0, 2.0]), ex.asarray(3.0))
    Tensor([18.0, 36.0], dtype=float64)
    """
    count = _probes("hessian_diagonal", key, probes)

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        flat, leaves, structure = _flat("hessian_diagonal", f, argnums, args, kwargs)
        return unflatten(structure, _core.hessian_diagonal(flat, leaves, key, count))

    return wrapped


def laplacian(
    f: Callable[..., Tensor], argnums: int | tuple[int, ...] = 0, *,
    key: Key | None = None, probes: int | None = None,
) -> Callable[..., Tensor]:  # fmt: skip
    """A function that returns the Laplacian of `f`, of which the result is one number: the sum of the
    second derivatives by each element of an argument, the trace of the Hessian. With a key and a number
    of probes it is estimated (Hutchinson, 1989).

    >>> import extensor as ex
    >>> abs(float(ex.laplacian(lambda x: ex.log(ex.norm(x)))(ex.asarray([3.0, 4.0])))) < 1e-15
    True
    """
    count = _probes("laplacian", key, probes)

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Tensor:
        flat, leaves, _ = _flat("laplacian", f, argnums, args, kwargs)
        return _core.laplacian(flat, leaves, key, count)

    return wrapped


def _flat(
    name: str, f: Callable[..., Tensor], argnums: int | tuple[int, ...],
    args: tuple[Any, ...], kwargs: dict[str, Any],
) -> tuple[Callable[[list[Tensor]], list[Tensor]], list[Tensor], Any]:  # fmt: skip
    """`f` as a function of a list of tensors, that list, and its structure."""
    moving, put_back = split(argnums, args)
    expect_floats(name, argnums, args)
    leaves, structure = moving_leaves(moving)

    def flat(moved: list[Tensor]) -> list[Tensor]:
        return [f(*put_back(unflatten(structure, moved)), **kwargs)]

    return flat, leaves, structure


def _pairs(name: str, primals: Any, tangents: Any) -> tuple[list[Tensor], list[Tensor], Any, bool]:
    """The leaves of arguments and of tangents, the arguments' structure as a tuple, and whether there
    is one that stands for itself."""
    single = not isinstance(primals, (tuple, list))
    if single:
        primals, tangents = (primals,), (tangents,)
    leaves, structure = moving_leaves(tuple(primals))
    along, form = moving_leaves(tuple(tangents))
    if len(along) != len(leaves):
        raise ValueError(f"{name}: the tangents have the form {form}, the arguments {structure}")
    return leaves, along, structure, single


def gauss_newton_vp(
    model: Callable[..., Any], loss: Callable[[Any], Tensor], primals: Any, tangents: Any
) -> Any:
    """The product of `tangents` with the Gauss-Newton matrix `Jᵀ·H·J`, where `J` is the derivative of
    `model` and `H` the Hessian of `loss` at its result. Where the loss is convex the matrix has no
    negative eigenvalue, which the Hessian of the whole may have.

    Both are tuples of arguments of the model; so is the product. With one argument they may stand for
    themselves.

    >>> import extensor as ex
    >>> loss = lambda y: ex.sum(0.5 * y * y)  # model x ↦ x²: J = 2x, H = 1
    >>> ex.gauss_newton_vp(ex.square, loss, ex.asarray([1.0, 3.0]), ex.asarray([1.0, 1.0]))
    Tensor([ 4.0, 36.0], dtype=float64)
    """
    leaves, along, structure, single = _pairs("gauss_newton_vp", primals, tangents)
    form: Any = None

    def flat(moved: list[Tensor]) -> list[Tensor]:
        nonlocal form
        outputs, form = flatten(model(*unflatten(structure, moved)), floats=False)
        return outputs

    def of_results(results: list[Tensor]) -> list[Tensor]:
        return [loss(unflatten(form, results))]

    found = unflatten(structure, _core.gauss_newton_vp(flat, of_results, leaves, along))
    return found[0] if single else found


def fisher_vp(model: Callable[..., Tensor], primals: Any, tangents: Any) -> Any:
    """The product of `tangents` with the Fisher information of a model of classes: `model` gives
    logits, classes along the last axis, of which each row is a distribution `p`; the matrix is the mean
    over the rows of `Jᵀ·(diag p − p·pᵀ)·J`.

    It does not depend on labels, and is the Gauss-Newton matrix of a mean cross-entropy. Both are
    tuples of arguments; with one they may stand for themselves.

    >>> import extensor as ex
    >>> logits = ex.asarray([[0.0, 0.0]])  # two classes of equal probability: p(1 − p) = ¼
    >>> ex.fisher_vp(lambda x: x, logits, ex.asarray([[1.0, 0.0]])).tolist()
    [[0.25, -0.25]]
    """
    leaves, along, structure, single = _pairs("fisher_vp", primals, tangents)

    def flat(moved: Sequence[Tensor]) -> list[Tensor]:
        return [model(*unflatten(structure, moved))]

    found = unflatten(structure, _core.fisher_vp(flat, leaves, along))
    return found[0] if single else found


def gradient_penalty(critic: Callable[[Tensor], Tensor], x: Tensor, norm: float = 1.0) -> Tensor:
    """The mean over a batch of `(‖∇s‖ − norm)²`, where `∇s` is the gradient of an example's score by
    the example: what keeps a critic's slope near `norm` (Gulrajani et al., 2017). `critic` gives a score
    for each example of `x`, `[batch, …]`, and must not mix examples.

    >>> import extensor as ex
    >>> x, w = ex.asarray([[1.0, 2.0], [3.0, 4.0]]), ex.asarray([3.0, 4.0])
    >>> float(ex.gradient_penalty(lambda x: x @ w, x))  # the slope is ‖w‖ = 5 everywhere
    16.0
    """
    return _core.gradient_penalty(lambda moved: [critic(moved[0])], _core.asarray(x), norm)
