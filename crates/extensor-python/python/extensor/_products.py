"""Products of any tensors that the standard has no function for."""

from typing import NamedTuple

from . import _core, ops
from ._array_api.common import tensor
from ._array_api.dtypes import result_type
from ._array_api.linear import _labels
from ._array_api.reduction import sum
from ._core import Tensor
from ._types import ArrayLike, DTypeLike

__all__ = ["EinsumPath", "cross", "einsum", "einsum_path", "kron", "trace"]


def einsum(equation: str, /, *operands: ArrayLike) -> Tensor:
    """Einstein's sums: products of the operands' elements, summed over the axes that the result does not have.

    A letter names an axis, an ellipsis stands for all further ones. Operands are multiplied two at a time, in
    the order that costs least (`einsum_path` shows it). `ops.einsum(tensors, equation)` is the operation of the
    catalogue, and `einsum_backward(grad_output, x, equation)` its gradients.

    >>> import extensor as ex
    >>> a = ex.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> ex.einsum("ij,jk->ik", a, a).tolist()
    [[7.0, 10.0], [15.0, 22.0]]
    >>> ex.einsum("ii", a).item()
    5.0
    """
    return ops.einsum(_operands(operands), equation)


def _operands(operands: tuple[ArrayLike, ...]) -> tuple[ArrayLike, ...]:
    """The operands, given by themselves or in one list."""
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        return tuple(operands[0])
    return operands


class EinsumPath(NamedTuple):
    """The order in which `einsum` multiplies its operands: printed, a line for each product."""

    #: Of each product the numbers of its two terms (operands count from 0, each product is numbered on), what it
    #: computes as an equation, how many multiplications that takes, and how many elements it leaves.
    steps: list[tuple[int, int, str, float, float]]
    #: How many multiplications all of them take.
    products: float
    #: How many it would take to multiply all operands at once.
    at_once: float
    text: str

    def __str__(self) -> str:
        return self.text


def einsum_path(equation: str, /, *operands: ArrayLike) -> EinsumPath:
    """How `einsum` multiplies these operands; no number is read.

    >>> import extensor as ex
    >>> path = ex.einsum_path("ij,jk,kl->il", ex.ones((100, 2)), ex.ones((2, 100)), ex.ones((100, 3)))
    >>> [step[2] for step in path.steps]
    ['jk,kl->jl', 'ij,jl->il']
    """
    all = tuple(tensor("einsum_path", x) for x in _operands(operands))
    return EinsumPath(*_core.einsum_path(equation, all))


def trace(
    x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None, axis1: int = -2, axis2: int = -1,
) -> Tensor:
    """The sum of a diagonal of a matrix, or of each of several; integers are added up as in `sum`.

    >>> import extensor as ex
    >>> ex.trace(ex.asarray([[1.0, 2.0], [3.0, 4.0]])).item()
    5.0
    """
    return sum(ops.diagonal(x, offset, axis1, axis2), axis=-1, dtype=dtype)


def kron(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Kronecker's product: each element of `x1` replaced by `x2` times it.

    >>> import extensor as ex
    >>> ex.kron(ex.asarray([1, 10]), ex.asarray([1, 2])).tolist()
    [1, 2, 10, 20]
    """
    x1, x2 = tensor("kron", x1), tensor("kron", x2)
    most = max(x1.ndim, x2.ndim)
    letters = _labels("kron", 2 * most)
    first, second = letters[0 : 2 * most : 2], letters[1 : 2 * most : 2]
    pairs = [
        name
        for axis in range(most)
        for name, x in ((first[axis], x1), (second[axis], x2))
        if axis >= most - x.ndim
    ]
    equation = f"{first[most - x1.ndim :]},{second[most - x2.ndim :]}->{''.join(pairs)}"
    sizes = [(1,) * (most - x.ndim) + x.shape for x in (x1, x2)]
    return ops.reshape(ops.einsum((x1, x2), equation), tuple(a * b for a, b in zip(*sizes)))


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Tensor:
    """The vector product of vectors of three elements along an axis; the other axes broadcast.

    >>> import extensor as ex
    >>> ex.cross(ex.asarray([1.0, 2.0, 3.0]), ex.asarray([4.0, 5.0, 6.0])).tolist()
    [-3.0, 6.0, -3.0]
    """
    x1, x2 = tensor("cross", x1), tensor("cross", x2)
    most = max(x1.ndim, x2.ndim)
    if not isinstance(axis, int) or not -most <= axis < most:
        raise ValueError(f"cross: axis {axis} is out of range for {most} dimensions")
    end = axis if axis < 0 else axis - most
    for x in (x1, x2):
        if -end > x.ndim or x.shape[end] != 3:
            raise ValueError(f"cross: shape {x.shape}, expected size 3 along axis {axis}")
    wide = {"float16": "float32", "bfloat16": "float32"}
    parts = [x.astype(wide.get(str(x.dtype), x.dtype)) for x in (x1, x2)]
    (a1, b1), (a2, b2) = [[ops.roll(x, -by, end) for x in parts] for by in (1, 2)]
    return ops.cast(a1 * b2 - a2 * b1, result_type(x1, x2))
