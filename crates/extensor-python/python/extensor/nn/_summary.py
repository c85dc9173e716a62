"""A model in print: its layers, with the shapes, dtypes and numbers of their parameters.

It reads trees and knows no layer.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from .. import _tree
from .._core import Tensor

__all__ = ["Summary", "summary"]


class Row(NamedTuple):
    """A layer, or a tensor of one: how deep it is, its name, its class and settings (of a layer), the
    tensor, and whether that is a buffer."""

    depth: int
    name: str
    kind: str
    tensor: Tensor | None = None
    buffer: bool = False
    numbers: int = 0

    def head(self) -> str:
        """The first column."""
        colon = ": " if self.name and self.kind else ""
        return f"{'  ' * self.depth}{self.name}{colon}{self.kind}"

    def body(self) -> tuple[str, str]:
        """Dtype and shape, where there are some."""
        if self.tensor is None:
            return "", ""
        return self.tensor.dtype.name, str(list(self.tensor.shape))

    def tail(self) -> str:
        """The last column."""
        if self.tensor is None and not self.numbers:
            return ""
        return "buffer" if self.buffer else f"{self.numbers:,}"


class Summary:
    """What `summary` returns: `parameters`, how many numbers are parameters; `tensors`, in how many
    tensors; `bytes`, how many bytes they take; `buffers`, how many numbers are in buffers, such as
    running statistics, which are no parameters. It prints as a table."""

    def __init__(self, tree: Any) -> None:
        self._rows = list(_rows(tree, "", 0, False))
        leaves = [row for row in self._rows if row.tensor is not None]
        learnt = [row.tensor for row in leaves if row.tensor is not None and not row.buffer]
        self.parameters = sum(x.size for x in learnt)
        self.tensors, self.bytes = len(learnt), sum(x.nbytes for x in learnt)
        self.buffers = sum(row.numbers for row in leaves if row.buffer)

    def __str__(self) -> str:
        rows = [(row.head(), *row.body(), row.tail()) for row in self._rows]
        head = max((len(row[0]) for row in rows if row[1]), default=0)
        dtype, shape, tail = (max((len(row[k]) for row in rows), default=0) for k in (1, 2, 3))
        # What has no dtype may reach into the columns of what has.
        heads = max((len(row[0]) for row in rows if not row[1]), default=0)
        body = max(head + 3 + dtype + 2 + shape, heads)
        lines = []
        for first, kind, size, last in rows:
            text = f"{first:{head}}   {kind:{dtype}}  {size}" if kind else first
            lines.append(f"{text:{body}}   {last:>{tail}}".rstrip())
        total = f"{_several(self.parameters, 'parameter')} in {_several(self.tensors, 'tensor')}"
        lines.append(f"{total}, {_size(self.bytes)}")
        if self.buffers:
            lines[-1] += f"; {_several(self.buffers, 'number')} in buffers"
        return "\n".join(lines)

    __repr__ = __str__


def _several(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _size(count: float) -> str:
    if count < 1024:
        return f"{count} bytes"
    for unit in ("KiB", "MiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.2f} GiB"


def _rows(x: Any, name: str, depth: int, buffer: bool) -> Iterator[Row]:
    """The rows of a part of a tree."""
    if isinstance(x, Tensor):
        yield Row(depth, name, "", x, buffer, x.size)
        return
    if isinstance(x, (list, tuple)):
        for key, value in enumerate(x):
            yield from _rows(value, f"{name}.{key}" if name else str(key), depth, buffer)
        return
    if isinstance(x, dict):
        for key, value in x.items():
            yield from _rows(value, f"{name}.{key}" if name else str(key), depth, buffer)
        return
    fields = _tree.fields(x)
    if fields is None:
        # A function among layers is one.
        if callable(x) and name.rpartition(".")[2].isdigit():
            yield Row(depth, name, getattr(x, "__name__", type(x).__name__))
        return
    buffers = getattr(x, "__tree_buffers__", ())
    below: list[Row] = []
    settings: list[str] = []
    for field in fields:
        value = getattr(x, field, None)
        found = list(_rows(value, field, depth + 1, buffer or field in buffers))
        below += found
        if not found and value is not None and not isinstance(value, (list, tuple, dict)):
            settings.append(f"{field} {getattr(value, '__name__', value)}")
        elif not found and isinstance(value, (list, tuple)) and value:
            settings.append(f"{field} {value}")
    numbers = sum(row.numbers for row in below if row.tensor is not None and not row.buffer)
    kind = type(x).__name__ + (f" ({', '.join(settings)})" if settings else "")
    yield Row(depth, name, kind, None, False, numbers)
    yield from below


def summary(tree: Any) -> Summary:
    """What a model, or any tree of tensors, is made of; it prints as a table.

    >>> import extensor as ex
    >>> from extensor import nn
    >>> a, b = ex.Key(1).split()
    >>> model = nn.Sequential(nn.Linear(a, 2, 8), ex.relu, nn.Linear(b, 8, 3))
    >>> nn.summary(model)
    Sequential                     51
      0: Linear                    24
        weight   float32  [8, 2]   16
        bias     float32  [8]       8
      1: relu
      2: Linear                    27
        weight   float32  [3, 8]   24
        bias     float32  [3]       3
    51 parameters in 4 tensors, 204 bytes
    >>> nn.summary(model).parameters
    51
    """
    return Summary(tree)
