"""Indexing and statistics beside the standard's: medians, quantiles, reductions without NaN, covariances,
counts, and elements chosen by masks or by lists of positions. They are made of the catalogue's operations,
and differentiated as those are.
"""

import builtins
from collections.abc import Sequence
from typing import Literal, TypeAlias

from . import _core
from ._array_api.common import is_number, tensor
from ._core import Tensor
from ._types import ArrayLike, Axis, Operand

__all__ = [
    "bincount", "corrcoef", "cov", "histogram", "index_put", "masked_fill", "masked_scatter", "masked_select",
    "median", "nanmax", "nanmean", "nanmedian", "nanmin", "nanprod", "nanquantile", "nansum", "quantile",
]  # fmt: skip

Interpolation: TypeAlias = Literal["linear", "lower", "higher", "midpoint", "nearest"]


def _listed(axis: Axis) -> list[int] | None:
    if axis is None:
        return None
    return [int(a) for a in axis] if isinstance(axis, Sequence) else [int(axis)]


def _maybe(name: str, x: ArrayLike | None) -> Tensor | None:
    return None if x is None else tensor(name, x)


def _parts(name: str, q: Operand) -> Tensor:
    return _core.asarray(float(q)) if is_number(q) else tensor(name, q)


def quantile(
    x: ArrayLike, q: Operand, /, axis: Axis = None, *, interpolation: Interpolation = "linear",
    keepdims: builtins.bool = False,
) -> Tensor:  # fmt: skip
    """For each of `q` (a number or a tensor of numbers from 0 to 1) the number below which that part of
    the elements lies. The axes of `q` come first in the result's shape; NaN gives NaN.

    >>> import extensor as ex
    >>> ex.quantile(ex.asarray([3.0, 1.0, 2.0, 5.0]), 0.25).item()
    1.75
    """
    return _core.quantile(
        "quantile", tensor("quantile", x), _parts("quantile", q), _listed(axis), keepdims, interpolation
    )


def nanquantile(
    x: ArrayLike, q: Operand, /, axis: Axis = None, *, interpolation: Interpolation = "linear",
    keepdims: builtins.bool = False,
) -> Tensor:  # fmt: skip
    """`quantile` of the elements that are not NaN; NaN where all are."""
    return _core.quantile(
        "nanquantile", tensor("nanquantile", x), _parts("nanquantile", q), _listed(axis), keepdims, interpolation
    )


def median(x: ArrayLike, /, axis: Axis = None, *, keepdims: builtins.bool = False) -> Tensor:
    """The middle element, the mean of the two middle ones of an even number; NaN gives NaN.

    >>> import extensor as ex
    >>> ex.median(ex.asarray([3.0, 1.0, 2.0, 5.0])).item()
    2.5
    """
    return _core.quantile("median", tensor("median", x), None, _listed(axis), keepdims, "midpoint")


def nanmedian(x: ArrayLike, /, axis: Axis = None, *, keepdims: builtins.bool = False) -> Tensor:
    """`median` of the elements that are not NaN; NaN where all are."""
    return _core.quantile("nanmedian", tensor("nanmedian", x), None, _listed(axis), keepdims, "midpoint")


def nansum(x: ArrayLike, /, axis: Axis = None, *, keepdims: builtins.bool = False) -> Tensor:
    """The sum of the elements that are not NaN: 0 where all are."""
    return _core.without_nan("nansum", tensor("nansum", x), _listed(axis), keepdims)


def nanprod(x: ArrayLike, /, axis: Axis = None, *, keepdims: builtins.bool = False) -> Tensor:
    """The product of the elements that are not NaN: 1 where all are."""
    return _core.without_nan("nanprod", tensor("nanprod", x), _listed(axis), keepdims)


def nanmean(x: ArrayLike, /, axis: Axis = None, *, keepdims: builtins.bool = False) -> Tensor:
    """The mean of the elements that are not NaN: NaN where all are."""
    return _core.without_nan("nanmean", tensor("nanmean", x), _listed(axis), keepdims)


def nanmax(x: ArrayLike, /, axis: Axis = None, *, keepdims: builtins.bool = False) -> Tensor:
    """The largest of the elements that are not NaN: NaN where all are."""
    return _core.without_nan("nanmax", tensor("nanmax", x), _listed(axis), keepdims)


def nanmin(x: ArrayLike, /, axis: Axis = None, *, keepdims: builtins.bool = False) -> Tensor:
    """The smallest of the elements that are not NaN: NaN where all are."""
    return _core.without_nan("nanmin", tensor("nanmin", x), _listed(axis), keepdims)


def cov(
    x: ArrayLike, /, *, ddof: int = 1, fweights: ArrayLike | None = None, aweights: ArrayLike | None = None
) -> Tensor:
    """The covariances of variables, the rows of `x`, of which each column is an observation.

    `fweights` says how often each observation is counted, `aweights` how much it weighs.
    """
    weights = _maybe("cov", fweights), _maybe("cov", aweights)
    return _core.cov(tensor("cov", x), ddof, *weights)


def corrcoef(x: ArrayLike, /) -> Tensor:
    """The correlations of variables, the rows of `x`, clipped to the interval from -1 to 1.

    >>> import extensor as ex
    >>> ex.corrcoef(ex.asarray([[0.0, 1.0, 2.0], [4.0, 2.0, 0.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    return _core.corrcoef(tensor("corrcoef", x))


def bincount(
    x: ArrayLike, /, weights: ArrayLike | None = None, *, minlength: int = 0, length: int | None = None
) -> Tensor:
    """How often each of the numbers 0, 1, 2, … is in `x`, or the sums of `weights`. There are `length`
    counts if it is given (then it can be compiled), or else one more than the largest number.

    >>> import extensor as ex
    >>> ex.bincount(ex.asarray([1, 0, 3, 1])).tolist()
    [1, 2, 0, 1]
    """
    return _core.bincount(tensor("bincount", x), _maybe("bincount", weights), minlength, length)


def histogram(
    x: ArrayLike, /, bins: int | ArrayLike = 10, *, range: tuple[float, float] | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """How many elements, or the sums of which weights, are in each interval, and the intervals' ends:
    `bins` of one size from the smallest to the largest number or over `range`, or those between the ends
    that `bins` lists.
    """
    weighted = _maybe("histogram", weights)
    if isinstance(bins, int):
        return _core.histogram(tensor("histogram", x), bins, range, None, weighted)
    return _core.histogram(tensor("histogram", x), 1, None, tensor("histogram", bins), weighted)


def masked_fill(x: ArrayLike, mask: ArrayLike, value: float, /) -> Tensor:
    """`x`, with `value` where the mask is true."""
    return _core.masked_fill(tensor("masked_fill", x), tensor("masked_fill", mask), value)


def masked_select(x: ArrayLike, mask: ArrayLike, /) -> Tensor:
    """The elements of `x` where the mask is true, in row-major order."""
    return _core.masked_select(tensor("masked_select", x), tensor("masked_select", mask))


def masked_scatter(x: ArrayLike, mask: ArrayLike, source: ArrayLike, /) -> Tensor:
    """`x`, with the elements of `source` in order where the mask is true."""
    given = (tensor("masked_scatter", y) for y in (x, mask, source))
    return _core.masked_scatter(*given)


def index_put(
    x: ArrayLike, indices: Sequence[ArrayLike], values: ArrayLike, /, *,
    reduce: Literal["none", "sum", "prod", "mean", "amax", "amin"] = "none",
) -> Tensor:  # fmt: skip
    """`x`, with `values` at the positions that `indices` list, one tensor for each of the first axes; of
    several at one position the last, or with `"sum"` their sum with what is there, and so on.
    """
    listed = [tensor("index_put", index) for index in indices]
    return _core.index_put(tensor("index_put", x), listed, tensor("index_put", values), reduce)
