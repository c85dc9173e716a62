"""Small things that Rust asks of Python: signatures, the caller's line, a holder of NumPy's interface.

It must not know what tensors are.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import inspect

__all__ = ["Holder", "caller", "signature"]


def caller() -> str | None:
    """The line of the program that has called the package: `step.py, line 7: if loss > 0:`."""
    import linecache
    import os
    import sys

    package = os.path.dirname(__file__) + os.sep
    frame = sys._getframe()
    while frame.f_code.co_filename.startswith(package):
        if frame.f_back is None:
            return None
        frame = frame.f_back
    code = frame.f_code.co_filename
    line = linecache.getline(code, frame.f_lineno).strip()
    return f"{os.path.basename(code)}, line {frame.f_lineno}" + (f": {line}" if line else "")


class Holder:
    """Memory as NumPy's array interface describes it, and the object that keeps it."""

    def __init__(self, owner: Any, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


def _default(text: str) -> Any:
    """The value that a default's text stands for; text that is no literal stands for itself."""
    constants: dict[str, Any] = {"None": None, "True": True, "False": False}
    if text in constants:
        return constants[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text.strip('"')


def signature(arguments: Iterable[tuple[str, str | None]]) -> "inspect.Signature":
    """The signature of (name, default or None) pairs."""
    import inspect  # only those who ask for signatures pay for it

    parameters = []
    for name, default in arguments:
        value = inspect.Parameter.empty if default is None else _default(default)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(name, kind, default=value))
    return inspect.Signature(parameters)
