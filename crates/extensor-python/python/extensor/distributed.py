"""Several processes, called ranks, that work as one: trees of tensors added in a fixed order, or copied.

A group is made over a communicator of mpi4py's, or of this process alone; every rank makes the same calls,
in the same order. Sums have the same bits on every rank; those over the parts of a step (`sum_parts`) have
the same bits for any number of ranks.

>>> import extensor as ex
>>> group = ex.distributed.Group()  # alone; under mpirun: Group(MPI.COMM_WORLD)
>>> group.rank, group.size
(0, 1)
>>> group.all_reduce({"loss": ex.asarray(0.5)}, "mean")
{'loss': Tensor(0.5, dtype=float64)}
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

from . import _core, _tree

__all__ = ["Group"]

T = TypeVar("T")

class Group:
    """The ranks of a communicator of mpi4py's (or of anything with its methods `Get_rank`, `Get_size`, `Dup`,
    `Isend` and `Irecv`); without one, this process alone.

    With `watch`, ranks watch over each other by TCP: one that dies or is stopped for 5 seconds is noticed by
    all, and their calls raise RuntimeError with a sentence that names it. A process that makes no call for
    3 seconds after that is ended.
    """

    def __init__(self, comm: Any = None, *, watch: bool = True) -> None:
        self._group = _core.Group(comm, watch)

    @property
    def rank(self) -> int:
        """The number of this process, from 0 on."""
        return self._group.rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self._group.size

    @property
    def is_watched(self) -> bool:
        """Whether ranks watch over each other: not where one cannot reach rank 0 by TCP."""
        return self._group.is_watched

    def parts(self, total: int) -> range:
        """The parts, of `total` in a step, that are this rank's: as many as every other's, or one more.

        >>> import extensor as ex
        >>> ex.distributed.Group().parts(4)
        range(0, 4)
        """
        return self._group.parts(total)

    def barrier(self) -> None:
        """Waits until every rank has come here."""
        self._group.barrier()

    def all_reduce(self, tree: T, reduction: Literal["sum", "mean", "max", "min"] = "sum") -> T:
        """The sum, mean, largest or smallest of the ranks' trees, leaf by leaf, on every rank."""
        leaves, structure = _tree.flatten(tree)
        made: T = _tree.unflatten(structure, self._group.all_reduce(leaves, reduction))
        return made

    def sum_parts(self, trees: Sequence[T], total: int) -> T:
        """The sum of all parts of a step, on every rank, from the trees of this rank's own (see `parts`), with
        the same bits for any number of ranks. Means over examples are weighted before.

        >>> import extensor as ex
        >>> ex.distributed.Group().sum_parts([ex.asarray([1.0]), ex.asarray([2.0])], 2)
        Tensor([3.0], dtype=float64)
        """
        taken = [_tree.flatten(tree) for tree in trees]
        if not taken:
            raise ValueError(f"sum_parts: no parts of {total}; there must be at least as many as ranks")
        leaves = self._group.sum_parts([leaves for leaves, _ in taken], total)
        made: T = _tree.unflatten(taken[0][1], leaves)
        return made

    def broadcast(self, tree: T, root: int = 0) -> T:
        """The tree of one rank, on every rank; the others give one of the same form."""
        leaves, structure = _tree.flatten(tree)
        made: T = _tree.unflatten(structure, self._group.broadcast(leaves, root))
        return made

    def gather(self, tree: T, root: int = 0) -> list[T] | None:
        """The trees of all ranks, by rank, on one of them; None on the others. Leaves may differ in shape."""
        leaves, structure = _tree.flatten(tree)
        found = self._group.gather(leaves, root)
        return None if found is None else [_tree.unflatten(structure, leaves) for leaves in found]

    def all_gather(self, tree: T) -> list[T]:
        """The trees of all ranks, by rank, on every rank. Leaves may differ in shape."""
        leaves, structure = _tree.flatten(tree)
        return [_tree.unflatten(structure, leaves) for leaves in self._group.all_gather(leaves)]

    def expect_same(self, facts: Mapping[str, object]) -> None:
        """Raises, on every rank, a RuntimeError that says who differs in what, unless all ranks give the same:
        settings, a digest of the data."""
        self._group.expect_same([(name, str(value)) for name, value in facts.items()])

    def __repr__(self) -> str:
        return f"Group(rank {self.rank} of {self.size})"
