"""The operations of the catalogue as it has them: `ops.sum(x, axis=None, keepdims=False)`.

All are bound by looping over the catalogue. The standard's functions (`extensor.sum`) have the
standard's arguments; these have the catalogue's, those of Rust.
"""

import sys
from typing import Any

from . import _core, _hints
from ._standard import NAMES as _STANDARD

CATALOGUE = _core.operations()
globals().update(CATALOGUE)

#: What stands in the package's own namespace: all that the standard has no function for.
EXTRA = {name: op for name, op in CATALOGUE.items() if name not in _STANDARD}

__all__ = list(CATALOGUE)


def __getattr__(name: str) -> Any:
    # What is made of several operations is no operation of the catalogue.
    elsewhere = not name.startswith("_") and callable(vars(sys.modules["extensor"]).get(name))
    hint = f"it is extensor.{name}" if elsewhere else _hints.hint(name, CATALOGUE, "ops.")
    hint = f"; {hint}" if hint else ""
    raise AttributeError(f"there is no operation {name!r} in the catalogue{hint}")
