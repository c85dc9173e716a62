"""Data sets: readers of the usual formats, and the loader that cuts them into batches.

The readers and the loader are the Rust library's: batches are made ahead by a thread of its own,
and depend on the data, the key and the position alone. This module must not know what is trained on
them.
"""

from . import _core
from ._core import Dataset, Images, Table, Vocabulary, subset, windows

__all__ = [
    "Dataset", "Images", "Loader", "Table", "Vocabulary", "cifar", "mnist", "read_cifar",
    "read_csv", "read_idx", "read_text", "subset", "windows",
]


class Loader:
    """Cuts inputs and targets, or a data set (`Images`, `windows`, `subset`), into batches: an
    iterable of pairs. A data set of your own has `len(data)` and `data.batch(indices, key)`, which
    returns inputs and targets; whatever is random about example `i` should come from
    `key.fold_in(i)`.

    The same key gives the same order, another in each epoch. `loader.epoch(n)` is epoch `n`;
    iterating over the loader itself goes through epoch 0.

    >>> import extensor as ex
    >>> from extensor.data import Loader
    >>> loader = Loader([0.0, 1.0, 2.0, 3.0, 4.0], [0, 1, 2, 3, 4], 2, ex.Key(7))
    >>> len(loader)
    3
    >>> sorted(int(y) for _, targets in loader.epoch(1) for y in targets.tolist())
    [0, 1, 2, 3, 4]
    """

    def __init__(
        self, inputs, targets=None, batch_size=32, key=None, shuffle=True, drop_last=False,
        prefetch=2,
    ):  # fmt: skip
        if key is None:
            if shuffle:
                raise TypeError("a loader that shuffles needs a key: key=extensor.Key(seed)")
            key = _core.Key(0)
        if targets is None or isinstance(inputs, (Dataset, Images)):
            if targets is not None:
                raise TypeError("a data set has its own targets")
            if not hasattr(inputs, "batch"):
                raise TypeError("inputs that are no data set need targets")
            data = inputs
        else:
            data = _core.pairs(_core.asarray(inputs), _core.asarray(targets))
        self._batcher = _core.Batcher(data, batch_size, key, shuffle, drop_last, prefetch)
        self.dataset, self.batch_size, self.key = data, batch_size, key
        self.shuffle, self.drop_last = shuffle, drop_last

    def __len__(self):
        """How many batches there are in an epoch."""
        return self._batcher.batches_per_epoch

    @property
    def examples(self):
        """How many examples there are."""
        return self._batcher.examples

    def __iter__(self):
        return self.epoch(0)

    def epoch(self, number):
        """The batches of one epoch."""
        for inputs, targets, _, _ in self._batcher.start(number, 0, False):
            yield inputs, targets

    def start_at(self, epoch, batch=0):
        """The batches from a position on, epoch after epoch, without end: inputs, targets, where
        the batch is and where the next one is, both as (epoch, batch)."""
        return iter(self._batcher.start(epoch, batch, True))

    def order(self, epoch):
        """The order in which an epoch goes through the examples."""
        return self._batcher.order(epoch)


def read_idx(path):
    """Reads an IDX file, plain or gzipped, as a tensor of its dtype."""
    return _core.idx_read(path)


def mnist(folder):
    """The images to train on and those to test with of a folder of IDX files like MNIST's."""
    return _core.idx_folder(folder)


def read_cifar(paths, kind="10"):
    """Reads CIFAR's binary files, one after the other; `kind` is "10", "100" or "100 coarse"."""
    return _core.cifar_read([paths] if isinstance(paths, str) else list(paths), kind)


def cifar(folder, kind="10"):
    """The images to train on and those to test with of a folder of CIFAR's binary files."""
    return _core.cifar_folder(folder, kind)


def read_csv(path, delimiter=",", header=None):
    """Reads a CSV file of numbers, plain or gzipped, as a `Table`; `header` says whether the first
    line names the columns (None: it does if one of its fields is no number)."""
    return _core.csv_read(path, delimiter, header)


def read_text(path):
    """Reads a UTF-8 text, plain or gzipped."""
    return _core.text_read(path)
