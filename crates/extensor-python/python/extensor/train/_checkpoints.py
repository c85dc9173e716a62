"""A folder of checkpoints: the last few and the best, whatever happens while one is written.

This module knows names of files and what to do when one does not load; it must not know what is in
them.
"""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .. import _core, io

__all__ = ["Checkpoints"]

T = TypeVar("T")


class Checkpoints:
    """A folder of files `step-000000940.safetensors`, made if it is not there, in which the last
    `keep` checkpoints and the best are kept.

    >>> import extensor as ex, tempfile
    >>> from extensor.train import Checkpoints
    >>> folder = tempfile.TemporaryDirectory()
    >>> checkpoints = Checkpoints(folder.name, keep=2)
    >>> for step in range(1, 6):
    ...     _ = checkpoints.save(step, {"x": ex.asarray([step])}, {}, best=min(step, 2))
    >>> checkpoints.steps()
    [2, 4, 5]
    >>> folder.cleanup()
    """

    def __init__(self, folder: str | os.PathLike[str], keep: int = 3) -> None:
        self.folder: str = os.fspath(folder)
        self.keep = max(1, keep)
        os.makedirs(self.folder, exist_ok=True)
        _core.atomic_clean(self.folder)

    def claim(self) -> _core.Claim:
        """Makes the folder this process's own until the claim is released, or the process ends; if
        another trains in it, that is an OSError which names it."""
        return _core.Claim(self.folder)

    def path_of(self, step: int) -> str:
        """The file of a step."""
        return os.path.join(self.folder, f"step-{step:09}.safetensors")

    def steps(self) -> list[int]:
        """The steps of which there are checkpoints, in order."""
        found = (re.fullmatch(r"step-(\d+)\.safetensors", name) for name in os.listdir(self.folder))
        return sorted(int(match[1]) for match in found if match)

    def save(self, step: int, tree: Any, metadata: Mapping[str, Any], best: int | None = None) -> str:
        """Writes the checkpoint of a step, and only then removes those that are neither among the
        last nor the best; returns the file's path."""
        path = self.path_of(step)
        io.save_safetensors(path, tree, metadata)
        for old in self.steps()[: -self.keep]:
            if old != best:
                os.remove(self.path_of(old))
        return path

    def newest(self, load: Callable[[str], T]) -> T | None:
        """What `load` makes of the path of the newest checkpoint that it can load; None if there is
        no file. If there are files and none loads, the error of the newest is raised."""
        first: Exception | None = None
        for step in reversed(self.steps()):
            try:
                return load(self.path_of(step))
            except (OSError, ValueError) as error:
                first = first or error
        if first is not None:
            raise first
        return None
