"""What the namespace can do, as the standard has it asked."""

from typing import Any

from .. import _core
from .._core import DType
from .._standard import VERSION
from .dtypes import _FLOATS, _KINDS

__all__ = ["__array_api_version__", "__array_namespace_info__"]

__array_api_version__ = VERSION


class _Info:
    """The answers of `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        return "cpu"

    def devices(self) -> tuple[str, ...]:
        return ("cpu",)

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        _expect_host(device)
        return {"real floating": _core.float64, "integral": _core.int64, "indexing": _core.int64}

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """The standard's dtypes (float16 and bfloat16, which it does not know, are left out)."""
        _expect_host(device)
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        found: dict[str, DType] = {}
        for name in kinds:
            if name not in _KINDS:
                raise ValueError(f"dtypes: there is no kind {name!r}, only {', '.join(_KINDS)}")
            found.update({d: getattr(_core, d) for d in _KINDS[name] if d not in _FLOATS[:2]})
        return found


def _expect_host(device: str | None) -> None:
    if device is not None and device != "cpu":
        raise ValueError(f"there is no device {device!r}, only 'cpu'")


def __array_namespace_info__() -> _Info:
    """What the namespace can do: devices, dtypes, capabilities."""
    return _Info()
