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

from . import _core, _tree

__all__ = [
    "Tensors", "load_into", "load_npy", "load_npz", "load_safetensors", "save_npy", "save_npz",
    "save_safetensors",
]


class Tensors(dict):
    """The tensors of a file by name, and its `metadata`: strings by name."""

    metadata: dict


@contextlib.contextmanager
def _reading(path):
    """A file that is not there is that, and not any error of the system."""
    try:
        yield
    except OSError as error:
        if not isinstance(error, FileNotFoundError) and not os.path.exists(path):
            raise FileNotFoundError(str(error)) from None
        raise


def _apart(tree):
    leaves, structure = _tree.flatten(tree)
    return structure.names(), leaves, structure


def save_safetensors(path, tree, metadata=None):
    """Saves the tensors of a tree under their names, those of PyTorch (`layers.0.weight`); the
    tensor that is a whole tree has the name `tensor`. The metadata are strings by name."""
    names, leaves, _ = _apart(tree)
    about = {str(name): str(value) for name, value in (metadata or {}).items()}
    _core.safetensors_save(path, names, leaves, about)


def load_safetensors(path):
    """All tensors of a file, a dict with the attribute `metadata`."""
    with _reading(path):
        tensors, metadata = _core.safetensors_load(path)
    found = Tensors(tensors)
    found.metadata = metadata
    return found


def load_into(path, tree, prefix=""):
    """The tensors of a file (those whose names begin with `prefix`) in the form of `tree`: each of
    its tensors must be there with the same shape and dtype, and no others."""
    names, leaves, structure = _apart(tree)
    with _reading(path):
        found, _ = _core.safetensors_load_like(path, prefix, names, leaves)
    return _tree.unflatten(structure, found)


def save_npy(path, x):
    """Saves a tensor as NumPy does: `numpy.load(path)` reads it."""
    _core.npy_save(path, _core.asarray(x))


def load_npy(path):
    """The tensor of a `.npy` file."""
    with _reading(path):
        return _core.npy_load(path)


def save_npz(path, tree):
    """Saves the tensors of a tree under their names: `numpy.load(path)["x"]` reads one."""
    names, leaves, _ = _apart(tree)
    _core.npz_save(path, names, leaves)


def load_npz(path):
    """All tensors of a `.npz` file, packed or not, by name."""
    with _reading(path):
        return _core.npz_load(path)
