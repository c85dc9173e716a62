"""Groups over a communicator: what ranks find together is what one process finds, to the last bit."""

import os
import queue
import shutil
import subprocess
import sys
import threading

import pytest

import extensor as ex
from extensor.distributed import Group


class Request:
    def __init__(self, test):
        self._test, self._over = test, False

    def Test(self):
        self._over = self._over or self._test()
        return self._over


class Comm:
    """What mpi4py's communicators have of methods that a group needs, between threads."""

    def __init__(self, rank, size, ways):
        self._rank, self._size, self._ways = rank, size, ways
        self._expected = {}

    def Get_rank(self):
        return self._rank

    def Get_size(self):
        return self._size

    def Dup(self):
        return self

    def Isend(self, message, dest, tag):
        self._ways[self._rank, dest].put(bytes(message))
        return Request(lambda: True)

    def Irecv(self, into, source, tag):
        expected = self._expected.setdefault(source, [])

        def arrived():
            # In the order in which they were asked for, as MPI does.
            if expected[0] is not request or self._ways[source, self._rank].empty():
                return False
            into[:] = self._ways[source, self._rank].get()
            expected.pop(0)
            return True

        request = Request(arrived)
        expected.append(request)
        return request


def ranks(size, run):
    """What `run` returns on each of so many ranks."""
    ways = {(a, b): queue.Queue() for a in range(size) for b in range(size)}
    found = [None] * size

    def rank(number):
        try:
            found[number] = run(Group(Comm(number, size, ways), watch=False))
        except Exception as error:
            found[number] = error

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def part(i):
    key = ex.Key(1).fold_in(i)
    return {"w": key.normal((7, 9), dtype=ex.float32), "b": [ex.astype(key.normal((5,)), ex.bfloat16)]}


def bits(tree):
    return [(leaf.dtype.name, leaf.shape, repr(ex.astype(leaf, ex.float64).tolist())) for leaf in ex.tree.leaves(tree)]


@pytest.mark.parametrize("total", [4, 5, 7])
def test_any_number_of_ranks_finds_the_bits_of_one_process(total):
    alone = bits(Group().sum_parts([part(i) for i in range(total)], total))
    for size in (2, 3, 4):
        for found in ranks(size, lambda g: g.sum_parts([part(i) for i in g.parts(total)], total)):
            assert bits(found) == alone


def test_sums_means_extremes_copies_and_lists_are_what_they_are_called():
    def run(group):
        r = group.rank
        mine = {"x": ex.asarray([float(r), 1.0]), "name": "same"}
        group.barrier()
        return (
            group.all_reduce(mine)["x"].tolist(),
            group.all_reduce(mine, "mean")["x"].tolist(),
            group.all_reduce(mine, "max")["x"].tolist(),
            group.all_reduce(mine, "min")["x"].tolist(),
            group.broadcast(mine, 2)["x"].tolist(),
            [tree["x"].shape for tree in group.all_gather({"x": ex.zeros((r, 2))})],
            group.gather(ex.asarray(r), 1) is not None,
        )

    for r, found in enumerate(ranks(3, run)):
        assert found == (
            [3.0, 3.0], [1.0, 1.0], [2.0, 1.0], [0.0, 1.0], [2.0, 1.0], [(0, 2), (1, 2), (2, 2)], r == 1
        )  # fmt: skip


def test_ranks_that_differ_are_told_who_differs_in_what():
    for found in ranks(3, lambda group: group.expect_same({"the batch": 32 + group.rank // 2})):
        assert isinstance(found, RuntimeError)
        assert "rank 2 has another value for the batch: 33, where rank 0 has 32" in str(found)
    for found in ranks(2, lambda group: group.all_reduce(ex.zeros((2 + group.rank,)))):
        assert "rank 1 has float32" in str(found) or "rank 1 has float64" in str(found)
    with pytest.raises(ValueError, match="'sum', 'mean', 'max' or 'min'"):
        Group().all_reduce(ex.asarray(1.0), "product")


PROGRAM = """
import sys
from mpi4py import MPI
import extensor as ex
group = ex.distributed.Group(MPI.COMM_WORLD)
assert group.is_watched and group.size == 2
total = group.sum_parts([ex.asarray([0.1 * i, 1.0]) for i in group.parts(5)], 5)
alone = ex.distributed.Group().sum_parts([ex.asarray([0.1 * i, 1.0]) for i in range(5)], 5)
assert total.tolist() == alone.tolist()
sys.stdout.write(f"rank {group.rank} of {group.size}\\n")
"""


def test_a_communicator_of_mpi4py_is_one():
    pytest.importorskip("mpi4py")
    if shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun")
    command = ["mpirun", "--oversubscribe", "--allow-run-as-root", "-n", "2", sys.executable, "-c", PROGRAM]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ)
    if "cannot load MPI library" in ended.stderr:
        pytest.skip("mpi4py finds no MPI")
    assert ended.returncode == 0, ended.stderr
    assert all(f"rank {rank} of 2" in ended.stdout for rank in (0, 1)), ended.stdout
