"""What is meant by a name that is not there: another library's name for something, or a slip.

It must not know anything but names.
"""

import difflib
from collections.abc import Iterable

from . import _core
from ._standard import RENAMED

#: For each name that PyTorch, JAX or NumPy have for an operation: what it is called here.
ALIASES = _core.aliases()


def hint(name: str, known: Iterable[str], prefix: str) -> str | None:
    """A sentence that says what to write for `name`, or None. `known` are the names that there are, and
    `prefix` is what stands before them."""
    known = set(known)
    here = []
    for other in ALIASES.get(name, ()):
        shown = other if other in known else RENAMED.get(other, other)
        here.append(prefix + shown if shown in known else f"extensor.ops.{other}")
    if here:
        return f"it is called {' or '.join(here)} here"
    public = [other for other in known if not other.startswith("_")]
    near = difflib.get_close_matches(name, public, n=1, cutoff=0.75)
    return f"did you mean {prefix}{near[0]}?" if near else None
