"""The types of arguments, by the names that the package's own annotations use."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from ._core import DType, Tensor

__all__ = ["ArrayLike", "Axis", "DTypeLike", "Operand", "Scalar", "Shape", "SupportsDLPack"]


class SupportsDLPack(Protocol):
    """An array of another library."""

    def __dlpack_device__(self) -> tuple[Any, Any]:
        """Where the array's memory is."""


Scalar: TypeAlias = bool | int | float
#: A tensor, or another library's array.
ArrayLike: TypeAlias = Tensor | SupportsDLPack
#: What stands for a tensor in an operation: a tensor, another library's array, or a Python number.
Operand: TypeAlias = ArrayLike | Scalar
#: An axis, several, or all.
Axis: TypeAlias = int | Sequence[int] | None
DTypeLike: TypeAlias = DType | str | type[Any]
Shape: TypeAlias = int | Sequence[int]
