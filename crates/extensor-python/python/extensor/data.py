"""Data sets: readers of the usual formats, and the loader that cuts them into batches.

The readers and the loader are the Rust library's: batches are made ahead by a thread of its own,
and depend on the data, the key and the position alone. This module must not know what is trained on
them.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Any, Literal, Protocol

from . import _core
from ._core import (
    Dataset, Images, Key, Rows, StoredImages, Table, Tensor, Vocabulary, subset, windows,
)  # fmt: skip

__all__ = [
    "Batch", "Dataset", "Examples", "Images", "Loader", "Rows", "StoredImages", "Table",
    "Vocabulary", "cifar", "mnist", "open_rows", "open_shards", "read_cifar", "read_csv",
    "read_idx", "read_text", "subset", "windows",
]

#: Inputs and targets.
Batch = tuple[Tensor, Tensor]
Path = str | os.PathLike[str]
CifarKind = Literal["10", "100", "100 coarse"]


class Examples(Protocol):
    """A data set of your own."""

    def __len__(self) -> int:
        """How many examples there are."""

    def batch(self, indices: list[int], key: Key, /) -> tuple[Any, Any]:
        """The inputs and targets of the examples of these numbers."""


class Loader:
    """Cuts inputs and targets, or a data set (`Images`, `StoredImages`, `windows`, `subset`), into
    batches: an iterable of pairs. Inputs and targets are arrays, or `Rows` that stay in files. A data
    set of your own has `len(data)` and `data.batch(indices, key)`, which returns inputs and targets;
    whatever is random about example `i` should come from `key.fold_in(i)`.

    The same key gives the same order, another in each epoch. `loader.epoch(n)` is epoch `n`;
    iterating over the loader itself goes through epoch 0. It is a value: copied, pickled or sent to
    another process, it gives the same batches there, from any position (`start_at`).

    >>> import extensor as ex
    >>> from extensor.data import Loader
    >>> loader = Loader([0.0, 1.0, 2.0, 3.0, 4.0], [0, 1, 2, 3, 4], 2, ex.Key(7))
    >>> loader
    Loader(5 examples in 3 batches of 2, key=Key(7))
    >>> sorted(int(y) for _, targets in loader.epoch(1) for y in targets.tolist())
    [0, 1, 2, 3, 4]
    """

    def __init__(
        self, inputs: Any, targets: Any = None, batch_size: int = 32, key: Key | None = None,
        shuffle: bool = True, drop_last: bool = False, prefetch: int = 2,
    ) -> None:  # fmt: skip
        if key is None:
            if shuffle:
                raise TypeError("a loader that shuffles needs a key: key=extensor.Key(seed)")
            key = Key(0)
        if targets is None or isinstance(inputs, (Dataset, Images, StoredImages)):
            if targets is not None:
                raise TypeError("a data set has its own targets")
            if not hasattr(inputs, "batch"):
                raise TypeError("inputs that are no data set need targets")
            data = inputs
        elif isinstance(inputs, Rows) and isinstance(targets, Rows):
            data = _core.stored_pairs(inputs, targets)
        else:
            data = _core.pairs(_core.asarray(inputs), _core.asarray(targets))
        self._batcher = _core.Batcher(data, batch_size, key, shuffle, drop_last, prefetch)
        self.dataset: Dataset | Images | StoredImages | Examples = data
        self.batch_size, self.key = batch_size, key
        self.shuffle, self.drop_last, self.prefetch = shuffle, drop_last, prefetch

    def __len__(self) -> int:
        """How many batches there are in an epoch."""
        return self._batcher.batches_per_epoch

    @property
    def examples(self) -> int:
        """How many examples there are."""
        return self._batcher.examples

    def __iter__(self) -> Iterator[Batch]:
        return self.epoch(0)

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of one epoch."""
        for inputs, targets, _, _ in self._batcher.start(number, 0, False):
            yield inputs, targets

    def start_at(
        self, epoch: int, batch: int = 0
    ) -> Iterator[tuple[Tensor, Tensor, tuple[int, int], tuple[int, int]]]:
        """The batches from a position on, epoch after epoch, without end: inputs, targets, where
        the batch is and where the next one is, both as (epoch, batch)."""
        return iter(self._batcher.start(epoch, batch, True))

    def order(self, epoch: int) -> list[int]:
        """The order in which an epoch goes through the examples."""
        return self._batcher.order(epoch)

    def __reduce__(self) -> tuple[Any, ...]:
        settings = self.batch_size, self.key, self.shuffle, self.drop_last, self.prefetch
        return Loader, (self.dataset, None, *settings)

    def __repr__(self) -> str:
        parts = [f"{self.examples} examples in {len(self)} batches of {self.batch_size}"]
        if self.shuffle:
            parts.append(f"key={self.key!r}")
        else:
            parts.append("shuffle=False")
        if self.drop_last:
            parts.append("drop_last=True")
        return f"Loader({', '.join(parts)})"


def read_idx(path: Path) -> Tensor:
    """Reads an IDX file, plain or gzipped, as a tensor of its dtype."""
    return _core.idx_read(path)


def mnist(folder: Path) -> tuple[Images, Images]:
    """The images to train on and those to test with of a folder of IDX files like MNIST's."""
    return _core.idx_folder(folder)


def read_cifar(paths: Path | Iterable[Path], kind: CifarKind = "10") -> Images:
    """Reads CIFAR's binary files, one after the other; `kind` is "10", "100" or "100 coarse"."""
    return _core.cifar_read([paths] if isinstance(paths, (str, os.PathLike)) else list(paths), kind)


def cifar(folder: Path, kind: CifarKind = "10") -> tuple[Images, Images]:
    """The images to train on and those to test with of a folder of CIFAR's binary files."""
    return _core.cifar_folder(folder, kind)


def open_rows(paths: Path | Iterable[Path], tensor: str | None = None) -> Rows:
    """The rows of an array that stays in files, one file after the other: IDX (not gzipped), `.npy` in
    row-major order, or safetensors, of which `tensor` names the tensor if there are several. What is
    asked for is read; a file that becomes shorter meanwhile is an error that names it and the example.
    """
    return _core.rows([paths] if isinstance(paths, (str, os.PathLike)) else list(paths), tensor)


def open_shards(folder: Path, words: str | Iterable[str] = "train") -> tuple[Rows, Rows]:
    """The inputs and targets of the files in a folder that have one of these words in their names: IDX
    or `.npy` files with "images" or "inputs" and "labels" or "targets" in their names, or safetensors
    files with two tensors called so. They follow one another by the numbers in their names.

    `StoredImages(*open_shards(folder))` are pictures; `Loader(inputs, targets, …)` cuts any two into
    batches.
    """
    return _core.find_shards(folder, [words] if isinstance(words, str) else list(words))


def read_csv(path: Path, delimiter: str = ",", header: bool | None = None) -> Table:
    """Reads a CSV file of numbers, plain or gzipped, as a `Table`; `header` says whether the first
    line names the columns (None: it does if one of its fields is no number)."""
    return _core.csv_read(path, delimiter, header)


def read_text(path: Path) -> str:
    """Reads a UTF-8 text, plain or gzipped."""
    return _core.text_read(path)
