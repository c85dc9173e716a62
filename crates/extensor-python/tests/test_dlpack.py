"""Capsules of DLPack, of either version: taken and given without a copy, once, and with the right
lifetimes."""

import datetime
import gc
import pickle
import weakref

import pytest

import extensor as ex

np = pytest.importorskip("numpy")
from exchanged import DTYPES, Capsule, address, watched  # noqa: E402


@pytest.mark.parametrize("name", DTYPES)
def test_dlpack_round_trips_with_numpy_without_a_copy_on_request(name):
    source = np.array([0, 1, 1]).astype(name)
    x = ex.from_dlpack(source)
    assert address(x) == address(source) and x.dtype == getattr(ex, name)
    back = np.from_dlpack(x, copy=False)
    assert address(back) == address(source) and np.array_equal(back, source)
    assert not back.flags.writeable


class Old:
    """A producer from before DLPack 1."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


def test_capsules_without_a_version_are_taken_and_given():
    source = np.arange(6.0).reshape(2, 3).T
    x = ex.from_dlpack(Old(source))
    assert address(x) == address(source) and x.tolist() == source.tolist()
    # A tensor cannot say in such a capsule that it is read-only: it is copied.
    capsule = x.__dlpack__()
    assert '"dltensor"' in repr(capsule)
    y = ex.from_dlpack(Capsule(capsule))
    assert y.tolist() == x.tolist() and address(y) != address(x)
    with pytest.raises(BufferError):
        x.__dlpack__(copy=False)


def test_max_version_decides_the_capsule():
    x = ex.asarray([1.0, 2.0])
    assert '"dltensor"' in repr(x.__dlpack__(max_version=None))
    assert '"dltensor"' in repr(x.__dlpack__(max_version=(0, 8)))
    for version in [(1, 0), (1, 1), (1, 9), (2, 0)]:
        assert '"dltensor_versioned"' in repr(x.__dlpack__(max_version=version))


def test_copy_is_obeyed():
    x = ex.asarray([1.0, 2.0])
    take = lambda **kw: ex.from_dlpack(Capsule(x.__dlpack__(max_version=(1, 0), **kw)))  # noqa: E731
    # A consumer that says nothing might write.
    assert address(take()) != address(x)
    assert address(take(copy=False)) == address(x)
    assert address(take(copy=True)) != address(x)
    source = np.arange(3.0)
    assert address(ex.from_dlpack(source, copy=True)) != address(source)
    assert address(ex.from_dlpack(source, copy=False)) == address(source)
    assert address(ex.from_dlpack(x)) == address(x)
    assert address(ex.from_dlpack(x, copy=True)) != address(x)
    writable = np.from_dlpack(x, copy=True)
    writable[0] = 5.0
    assert x.tolist() == [1.0, 2.0]


def test_a_capsule_can_be_used_once():
    x = ex.asarray([1.0, 2.0])
    for version in [None, (1, 0)]:
        capsule = Capsule(x.__dlpack__(max_version=version))
        assert ex.from_dlpack(capsule).tolist() == [1.0, 2.0]
        with pytest.raises(ValueError, match="used"):
            ex.from_dlpack(capsule)


def test_a_capsule_that_nobody_takes_frees_its_memory():
    source = watched()
    seen = weakref.ref(source)
    capsule = ex.asarray(source, copy=False).__dlpack__(max_version=(1, 0), copy=False)
    del source
    gc.collect()
    assert seen() is not None
    del capsule
    gc.collect()
    assert seen() is None
    taken = ex.from_dlpack(Capsule(ex.asarray(watched()).__dlpack__(max_version=(1, 0))))
    assert taken[2].item() == 2.0


def test_what_is_no_capsule_and_what_is_elsewhere_is_refused():
    x = ex.asarray([1.0])
    for capsule in [None, 3, "dltensor", object()]:
        with pytest.raises((ValueError, TypeError, BufferError)):
            ex.from_dlpack(Capsule(capsule))

    with pytest.raises((ValueError, BufferError)):
        ex.from_dlpack(Capsule(datetime.datetime_CAPI))
    with pytest.raises(BufferError):
        ex.from_dlpack(Capsule(x.__dlpack__(), device=(2, 0)))
    with pytest.raises((TypeError, ValueError, BufferError)):
        ex.from_dlpack(Capsule(x.__dlpack__(), device="here"))
    with pytest.raises((TypeError, AttributeError)):
        ex.from_dlpack(object())
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError):
        x.__dlpack__(stream=1)
    with pytest.raises(ValueError):
        ex.from_dlpack(x, device="cuda")
    assert x.__dlpack_device__() == (1, 0)
    assert '"dltensor_versioned"' in repr(x.__dlpack__(dl_device=(1, 0), max_version=(1, 0)))


def test_tensors_that_are_being_differentiated_do_not_leave():
    ways = [
        np.asarray, np.from_dlpack, pickle.dumps, lambda x: x.__dlpack__(), lambda x: x.numpy(),
        lambda x: x.__array_interface__, ex.from_dlpack,
    ]
    for way in ways:

        def f(x):
            with pytest.raises(TypeError, match="differentiated"):
                way(x)
            return ex.sum(x)

        ex.grad(f)(ex.asarray([1.0, 2.0]))
        ex.jvp(f, (ex.asarray([1.0]),), (ex.asarray([1.0]),))
