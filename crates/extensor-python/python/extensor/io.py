"""Tensors and trees in files: safetensors, and NumPy's `.npy` and `.npz`.

The Rust library reads and writes them; a file is written whole or not at all. This module must not
know what a tree is for: a model, an optimiser's state and a list of tensors are the same to it.

>>> import extensor as ex, os, tempfile
>>> from extensor import io, nn
>>> folder = tempfile.TemporaryDirectory()
>>> path = os.path.join(folder.name, "model.safetensors")
>>> model = nn.Linear(ex.Key(1), 3, 2)
>>> io.save_safetensors(path, model, {"format": "pt"})
>>> file = io.load_safetensors(path)
>>> sorted(file), file.metadata
(['bias', 'weight'], {'format': 'pt'})
>>> again = io.load_into(path, nn.Linear(ex.Key(2), 3, 2))
>>> bool(ex.ops.equal(again.bias, model.bias)[0])
True
>>> folder.cleanup()
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from . import _core, _tree
from ._core import Tensor

__all__ = [
    "Tensors", "load_into", "load_npy", "load_npz", "load_safetensors", "save_npy", "save_npz",
    "save_safetensors",
]


T = TypeVar("T")
Path = str | os.PathLike[str]


class Tensors(dict[str, Tensor]):
    """The tensors of a file by name, and its `metadata`: strings by name."""

    metadata: dict[str, str]


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """A file that is not there is that, and not any error of the system."""
    try:
        yield
    except OSError as error:
        if not isinstance(error, FileNotFoundError) and not os.path.exists(path):
            raise FileNotFoundError(str(error)) from None
        raise


def apart(tree: Any) -> tuple[list[str], list[Tensor], _tree.Structure]:
    """The names of a tree's leaves, the leaves, and its structure."""
    leaves, structure = _tree.flatten(tree)
    return structure.names(), leaves, structure


def save_safetensors(path: Path, tree: Any, metadata: Mapping[str, Any] | None = None) -> None:
    """Saves the tensors of a tree under their names, those of PyTorch (`layers.0.weight`); the
    tensor that is a whole tree has the name `tensor`. The metadata are strings by name."""
    names, leaves, _ = apart(tree)
    about = {str(name): str(value) for name, value in (metadata or {}).items()}
    _core.safetensors_save(path, names, leaves, about)


def load_safetensors(path: Path) -> Tensors:
    """All tensors of a file, a dict with the attribute `metadata`."""
    with _reading(path):
        tensors, metadata = _core.safetensors_load(path)
    found = Tensors(tensors)
    found.metadata = metadata
    return found


def load_into(path: Path, tree: T, prefix: str = "") -> T:
    """The tensors of a file (those whose names begin with `prefix`) in the form of `tree`: each of
    its tensors must be there with the same shape and dtype, and no others."""
    names, leaves, structure = apart(tree)
    with _reading(path):
        found, _ = _core.safetensors_load_like(path, prefix, names, leaves)
    made: T = _tree.unflatten(structure, found)
    return made


def save_npy(path: Path, x: Any) -> None:
    """Saves a tensor as NumPy does: `numpy.load(path)` reads it."""
    _core.npy_save(path, _core.asarray(x))


def load_npy(path: Path) -> Tensor:
    """The tensor of a `.npy` file."""
    with _reading(path):
        return _core.npy_load(path)


def save_npz(path: Path, tree: Any) -> None:
    """Saves the tensors of a tree under their names: `numpy.load(path)["x"]` reads one."""
    names, leaves, _ = apart(tree)
    _core.npz_save(path, names, leaves)


def load_npz(path: Path) -> dict[str, Tensor]:
    """All tensors of a `.npz` file, packed or not, by name."""
    with _reading(path):
        return _core.npz_load(path)
