"""Memory exchanged with NumPy, PyTorch and Python's own buffers: shared where that is asked for or
nobody can write it, and with the right lifetimes."""

import array
import copy
import ctypes
import gc
import mmap
import pickle
import weakref

import pytest

import extensor as ex

np = pytest.importorskip("numpy")
from exchanged import DTYPES, Interface, address, watched  # noqa: E402


# --- NumPy ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DTYPES)
def test_arrays_of_every_dtype_come_in_on_request_and_go_out_without_a_copy(name):
    source = np.array([0, 1, 1, 0, 1, 1]).astype(name).reshape(2, 3)
    x = ex.asarray(source, copy=False)
    assert x.dtype == getattr(ex, name) and x.shape == (2, 3)
    assert address(x) == address(source)
    back = np.asarray(x)
    assert back.dtype == source.dtype and address(back) == address(source)
    assert np.array_equal(back, source)
    assert not back.flags.writeable
    assert address(x.numpy()) == address(source)


def test_a_tensor_stays_what_it_was_unless_the_user_asked_to_share():
    source = np.zeros(3)
    ways = [ex.asarray, lambda a: ex.asarray(a, copy=True), lambda a: ex.add(a, 0.0), ex.asarray([0.0]).__add__]
    ways += [lambda a: ex.reshape(a, (3,)), lambda a: ex.ops.transpose(a), lambda a: ex.stack([a, a])[0]]
    tensors = [way(source) for way in ways]
    shared = [ex.asarray(source, copy=False), ex.from_dlpack(source), ex.from_dlpack(source, copy=False)]
    _, pullback = ex.vjp(lambda x: ex.sum(x * source), ex.zeros(3))
    source[1] = 5.0
    assert all(x.tolist() == [0.0, 0.0, 0.0] and address(x) != address(source) for x in tensors)
    assert all(x.tolist() == [0.0, 5.0, 0.0] and address(x) == address(source) for x in shared)
    # Nor does a gradient that is computed later change.
    assert pullback(ex.asarray(1.0))[0].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="copied"):
        ex.asarray(source, dtype=ex.float32, copy=False)
    with pytest.raises(ValueError, match="copied"):
        ex.asarray([1.0], copy=False)


VIEWS = {
    "reversed": lambda a: a[::-1],
    "reversed both": lambda a: a[::-1, ::-2],
    "transposed": lambda a: a.T,
    "a column": lambda a: a[:, 1],
    "steps": lambda a: a[1::2, ::3],
    "broadcast": lambda a: np.broadcast_to(a[0], (5, 6)),
    "broadcast of one": lambda a: np.broadcast_to(a[0, 0], (3, 2)),
    "diagonal": lambda a: a.diagonal(),
    "windows": lambda a: np.lib.stride_tricks.sliding_window_view(a[0], 3),
    "one axis of size one": lambda a: a[2:3, :1],
    "0-d": lambda a: a[1, 2, ...],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ["float64", "int16", "bool"])
def test_views_with_any_strides_are_shared_as_they_are(view, name):
    source = (np.arange(24).reshape(4, 6) % 7).astype(name)
    view = VIEWS[view](source)
    x = ex.asarray(view, copy=False)
    copied = ex.asarray(view)
    assert address(copied) != address(view) and copied.tolist() == x.tolist()
    assert address(x) == address(view) and x.shape == view.shape
    assert np.array_equal(np.array(x.tolist()).astype(name), view)
    back = np.asarray(x)
    assert address(back) == address(view) and np.array_equal(back, view)
    by_capsule = ex.from_dlpack(view) if view.flags.writeable else None
    if by_capsule is not None:
        assert address(by_capsule) == address(view)
        assert by_capsule.tolist() == x.tolist()
    # Computing with the view gives what computing with a copy gives.
    if name == "float64":
        assert np.array_equal(np.asarray(x * 2 + 1), view * 2 + 1)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 4), (0, 2**40)])
def test_arrays_without_elements_keep_their_shape(shape):
    source = np.zeros(shape, dtype="float32")
    x = ex.asarray(source)
    assert x.shape == shape and x.dtype == ex.float32 and x.size == 0
    assert np.asarray(x).shape == shape
    assert ex.from_dlpack(source).shape == shape
    assert np.from_dlpack(x).shape == shape
    assert repr(x).startswith("Tensor(")


def locked(a):
    a.flags.writeable = False
    return a


def mapped(folder, **access):
    path = folder / "numbers"
    path.write_bytes(np.arange(4.0).tobytes())
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), 0, **access)


def test_memory_that_nobody_can_write_is_shared(tmp_path):
    data = np.arange(4.0).tobytes()
    np.save(tmp_path / "a.npy", np.arange(4.0))
    sources = [
        locked(np.arange(4.0)),
        locked(np.arange(4.0))[::-1][::-1],
        np.frombuffer(data),
        np.frombuffer(memoryview(data)),
        np.load(tmp_path / "a.npy", mmap_mode="r"),
        np.memmap(tmp_path / "a.npy", dtype="f8", mode="r", offset=128),
        np.frombuffer(mapped(tmp_path, access=mmap.ACCESS_READ)),
        np.asarray(ex.arange(4.0)),
        np.asarray(ex.arange(4.0))[:],
    ]
    for source in sources:
        x = ex.asarray(source)
        assert address(x) == address(source) and x.tolist() == [0.0, 1.0, 2.0, 3.0]
        assert (x + source).tolist() == [0.0, 2.0, 4.0, 6.0]
    assert ex.asarray(b"abc").tolist() == [97, 98, 99]
    assert address(ex.asarray(memoryview(data))) == address(np.frombuffer(data, dtype="u1"))


def test_a_read_only_view_of_memory_that_somebody_can_write_is_copied(tmp_path):
    own, text = np.arange(4.0), bytearray(np.arange(4.0).tobytes())
    written = mapped(tmp_path)
    sources = [
        locked(own[:]),
        locked(locked(own[:])[:]),
        np.broadcast_to(own, (1, 4))[0],
        locked(np.frombuffer(text)),
        np.frombuffer(memoryview(text).toreadonly()),
        locked(np.frombuffer(written)),
        np.frombuffer(mapped(tmp_path, access=mmap.ACCESS_COPY)),
    ]
    tensors = [ex.asarray(source) for source in sources]
    own[:], text[:8], written[:8] = 9.0, bytes(8 * [1]), bytes(8 * [1])
    for x, source in zip(tensors, sources):
        assert address(x) != address(source) and x.tolist() == [0.0, 1.0, 2.0, 3.0]
    view = memoryview(text).toreadonly()
    x = ex.asarray(view)
    text[0] = 77
    assert x[0].item() != 77


def test_arrays_over_a_tensors_memory_cannot_be_written():
    x = ex.arange(4.0)
    views = [np.asarray(x), np.asarray(x)[1:], np.from_dlpack(x, copy=False), x.numpy()]
    for view in views:
        with pytest.raises(ValueError):
            view[0] = 5.0
        with pytest.raises(ValueError):
            view.flags.writeable = True
    assert address(views[0]) == address(views[2]) == address(x)
    own = np.from_dlpack(x)
    own[0] = 5.0
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("code", [">f8", ">f4", ">f2", ">i2", ">i8", ">u4"])
def test_the_other_byte_order_is_converted_and_says_so(code):
    source = np.array([[1, 2, 300 % 120], [4, 5, 6]], dtype=code)
    for view in (source, source[::-1, ::2], source.T, source[:, :0]):
        x = ex.asarray(view)
        assert x.shape == view.shape
        assert np.array_equal(np.asarray(x), view)
        assert np.asarray(x).dtype == source.dtype.newbyteorder("=")
    with pytest.raises(ValueError, match="copied"):
        ex.asarray(source, copy=False)


def test_unaligned_arrays_are_copied_and_say_so():
    raw = np.frombuffer(bytes(1) + np.arange(5.0).tobytes(), dtype="u1")
    source = raw[1:].view("float64")
    assert not source.flags.aligned
    assert ex.asarray(source).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert ex.asarray(source[::-2]).tolist() == [4.0, 2.0, 0.0]
    with pytest.raises(ValueError, match="copied"):
        ex.asarray(source, copy=False)


@pytest.mark.parametrize("align", [False, True])
def test_fields_of_structures_come_as_tensors(align):
    kind = np.dtype([("a", "i1"), ("b", "f8"), ("c", ">i4"), ("d", "f4", (2,))], align=align)
    source = np.zeros(3, dtype=kind)
    source["b"], source["c"] = [1.5, 2.5, 3.5], [7, 8, 9]
    source["d"] = [[1, 2], [3, 4], [5, 6]]
    assert ex.asarray(source["b"]).tolist() == [1.5, 2.5, 3.5]
    assert ex.asarray(source["c"]).tolist() == [7, 8, 9]
    assert ex.asarray(source["d"]).tolist() == [[1, 2], [3, 4], [5, 6]]
    with pytest.raises((TypeError, ValueError, BufferError)):
        ex.asarray(source)


@pytest.mark.parametrize(
    "source", [[1 + 2j], ["a"], [object()], [b"xy"], np.array(["2001-01-01"], dtype="M8[D]")]
)
def test_arrays_of_what_no_dtype_holds_are_refused(source):
    with pytest.raises((TypeError, ValueError, BufferError)):
        ex.asarray(np.array(source))


def test_numpys_scalars_are_tensors_without_axes():
    for name in DTYPES:
        x = ex.asarray(np.dtype(name).type(1))
        assert x.shape == () and x.dtype == getattr(ex, name)
    assert ex.asarray(np.float32(0.5)).item() == 0.5
    assert (ex.asarray([1.0, 2.0]) * np.float64(2)).tolist() == [2.0, 4.0]
    assert (np.float64(2) * ex.asarray([1.0, 2.0])).tolist() == [2.0, 4.0]


def test_an_array_and_a_tensor_make_a_tensor():
    a, x = np.arange(3.0), ex.asarray([1.0, 1.0, 1.0])
    for result in (a + x, x + a, a * x, x - a, a @ x):
        assert isinstance(result, ex.Tensor)
    assert (a + x).tolist() == [1.0, 2.0, 3.0]


def test_array_functions_of_numpy_take_tensors():
    x = ex.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert np.array(x, dtype="float32").dtype == np.float32
    assert np.array(x).flags.writeable and address(np.array(x)) != address(x)
    assert np.sum(np.asarray(x)) == 10.0
    assert x.__array__().tolist() == x.tolist()
    assert x.__array__(np.float32).dtype == np.float32
    copied = x.__array__(copy=True)
    assert address(copied) != address(x)
    with pytest.raises((TypeError, AttributeError)):
        np.asarray(ex.ops.cast(x, ex.bfloat16)).astype("float32")


# --- Lifetimes ------------------------------------------------------------------------------------


SHARE = [lambda a: ex.asarray(a, copy=False), ex.from_dlpack]


@pytest.mark.parametrize("way", SHARE)
def test_the_memory_outlives_its_source_and_ends_with_the_tensor(way):
    source = watched()
    seen = weakref.ref(source)
    x = way(source)
    part = x[3:5]
    del source
    gc.collect()
    assert seen() is not None
    del x
    gc.collect()
    assert seen() is not None and part.tolist() == [3.0, 4.0]
    assert (part * 2).tolist() == [6.0, 8.0]
    del part
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("way", [np.asarray, np.from_dlpack])
def test_an_array_over_a_tensor_outlives_the_tensor(way):
    x = ex.asarray([1.0, 2.0, 3.0]) + 1.0
    seen = weakref.ref(x)
    array = way(x)
    del x
    gc.collect()
    # Fresh tensors would overwrite the memory if it had been given back.
    others = [ex.asarray([9.0, 9.0, 9.0]) + 1.0 for _ in range(50)]
    assert array.tolist() == [2.0, 3.0, 4.0]
    del array
    gc.collect()
    assert seen() is None and len(others) == 50


def test_a_chain_of_owners_ends_in_order():
    source = watched()
    seen = weakref.ref(source)
    first = ex.from_dlpack(ex.asarray(source, copy=False))
    link = np.asarray(ex.asarray(np.asarray(first)))
    assert address(link) == address(source)
    del first
    del source
    gc.collect()
    assert seen() is not None and link[5] == 5.0
    del link
    gc.collect()
    assert seen() is None


def test_what_is_computed_does_not_keep_the_source():
    source = watched()
    seen = weakref.ref(source)
    y = ex.asarray(source, copy=False) * 2.0
    del source
    gc.collect()
    assert seen() is None and y[1].item() == 2.0


def test_a_pullback_keeps_what_it_needs_of_an_array_and_no_longer():
    source = watched()
    seen = weakref.ref(source)
    _, pullback = ex.vjp(lambda x: ex.sum(x * x), ex.asarray(source, copy=False))
    del source
    gc.collect()
    assert pullback(ex.asarray(1.0))[0][3].item() == 6.0
    del pullback
    gc.collect()
    assert seen() is None


# --- Python's own buffers -------------------------------------------------------------------------


def test_buffers_of_python_are_taken_and_shared_on_request():
    assert ex.asarray(b"abc").tolist() == [97, 98, 99]
    assert ex.asarray(b"abc").dtype == ex.uint8
    floats = array.array("d", [1.0, 2.0])
    x, own = ex.asarray(floats, copy=False), ex.asarray(floats)
    floats[0] = 7.0
    assert x.tolist() == [7.0, 2.0] and x.dtype == ex.float64
    assert own.tolist() == [1.0, 2.0]
    for code, dtype in {"b": "int8", "H": "uint16", "i": "int32", "q": "int64", "f": "float32"}.items():
        assert ex.asarray(array.array(code, [1, 2])).dtype == getattr(ex, dtype)
    view = memoryview(bytearray(range(24))).cast("B", (2, 3, 4))
    assert ex.asarray(view).shape == (2, 3, 4)
    assert ex.asarray(memoryview(b"abcdef")[::-2]).tolist() == [102, 100, 98]
    assert ex.asarray(memoryview(b"\x01\x00\x02\x00").cast("H")).dtype == ex.uint16
    assert ex.asarray(bytearray()).shape == (0,)
    assert ex.asarray((ctypes.c_int32 * 3)(1, 2, 3)).tolist() == [1, 2, 3]


def test_a_bytearray_cannot_be_resized_while_a_tensor_looks_at_it():
    data = bytearray(b"abcd")
    x = ex.asarray(data, copy=False)
    with pytest.raises(BufferError):
        data.append(1)
    data[0] = 1
    assert x.tolist() == [1, 98, 99, 100]
    del x
    gc.collect()
    data.append(1)
    floats = array.array("d", [1.0])
    y = ex.asarray(floats, copy=False)[0:]
    with pytest.raises(BufferError):
        floats.append(2.0)
    del y
    gc.collect()
    floats.append(2.0)


# --- The array interface --------------------------------------------------------------------------


def test_objects_with_an_array_interface_are_taken_and_shared_on_request():
    source = np.arange(6.0).reshape(2, 3)
    x = ex.asarray(Interface(**source.T.__array_interface__), copy=False)
    assert address(x) == address(source) and x.tolist() == source.T.tolist()
    own = ex.asarray(Interface(**source.T.__array_interface__))
    assert address(own) != address(source) and own.tolist() == source.T.tolist()
    swapped = np.arange(3, dtype=">i4")
    assert ex.asarray(Interface(**swapped.__array_interface__)).tolist() == [0, 1, 2]
    data = b"\x01\x02\x03\x04"
    y = ex.asarray(Interface(version=3, typestr="|u1", shape=(2, 2), data=data))
    assert y.tolist() == [[1, 2], [3, 4]]
    z = ex.asarray(Interface(version=3, typestr="|u1", shape=(2,), data=data, offset=2))
    assert z.tolist() == [3, 4]


def test_an_object_with_an_array_interface_is_kept():
    class Owner:
        def __init__(self):
            self.values = np.arange(4.0)
            self.__array_interface__ = dict(self.values.__array_interface__)

    owner = Owner()
    seen = weakref.ref(owner)
    x = ex.asarray(owner, copy=False)
    del owner
    gc.collect()
    assert seen() is not None and x.tolist() == [0.0, 1.0, 2.0, 3.0]
    del x
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize(
    "entries",
    [
        {},
        {"shape": (2,)},
        {"typestr": "<f8"},
        {"typestr": 3, "shape": (2,), "data": (64, True)},
        {"typestr": "<f8", "shape": (2,), "data": (64, True)},
        {"typestr": "<f8", "shape": (2,), "data": (0, True)},
        {"typestr": "<f8", "shape": (2**61,), "data": (4096, True)},
        {"typestr": "<f8", "shape": (2**40,), "strides": (2**40,), "data": (4096, True)},
        {"typestr": "<f8", "shape": (2, 2), "strides": (8,), "data": (64, True)},
        {"typestr": "<f8", "shape": (-1,), "data": (64, True)},
        {"typestr": "<f8", "shape": (2,), "data": b"too short"},
        {"typestr": "<f8", "shape": (1,), "data": b"12345678", "offset": 1},
        {"typestr": "<f8", "shape": (2,), "strides": (-8,), "data": b"12345678" * 2},
        {"typestr": "<f8", "shape": (2,), "data": "text"},
        {"typestr": "<f8", "shape": 5, "data": b"12345678"},
        {"typestr": "<c16", "shape": (1,), "data": b"12345678" * 2},
        {"typestr": "", "shape": (1,), "data": b"1"},
        {"typestr": "é", "shape": (1,), "data": b"1"},
    ],
)
def test_an_array_interface_that_lies_is_found_out(entries):
    with pytest.raises((ValueError, TypeError, OverflowError, BufferError)):
        ex.asarray(Interface(**entries))


def test_objects_that_know_how_to_become_an_array_do():
    class Convertible:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3.0)

    assert ex.asarray(Convertible()).tolist() == [0.0, 1.0, 2.0]

    class Lying:
        def __array__(self, dtype=None, copy=None):
            return "no array"

    with pytest.raises((TypeError, ValueError)):
        ex.asarray(Lying())

    class Raising:
        def __array__(self, dtype=None, copy=None):
            raise KeyError("my own")

    with pytest.raises(KeyError, match="my own"):
        ex.asarray(Raising())


# --- Pickle and copy ------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickled_tensors_come_back(protocol):
    for name in [*DTYPES, "bfloat16"]:
        for shape in [(), (0, 3), (2, 3)]:
            x = ex.ops.cast(ex.full(shape, 1.0), getattr(ex, name))
            y = pickle.loads(pickle.dumps(x, protocol))
            assert y.dtype == x.dtype and y.shape == x.shape and y.tolist() == x.tolist()
    view = ex.asarray(np.arange(6.0).reshape(2, 3))[::-1, ::2]
    assert pickle.loads(pickle.dumps(view, protocol)).tolist() == view.tolist()
    for other in (ex.float32, ex.Key(3), ex.ops.relu):
        assert repr(pickle.loads(pickle.dumps(other, protocol))) == repr(other)
    assert pickle.loads(pickle.dumps(ex.float32, protocol)) == ex.float32


def test_pickles_that_were_tampered_with_are_refused():
    make = ex.asarray([1.0]).__reduce__()[0]
    for bad in [(b"123", (1,), "float64"), (b"", (2**62, 4), "float64"), (b"", (1,), "x"),
                (b"", (-1,), "float64"), ("", (1,), "float64"), (b"1" * 8, (2**40, 2**40), "bool")]:
        with pytest.raises((ValueError, TypeError, OverflowError, MemoryError)):
            make(*bad)


def test_copies_of_tensors():
    x = ex.asarray(np.arange(3.0))
    assert copy.copy(x).tolist() == copy.deepcopy({"x": x})["x"].tolist() == x.tolist()
    assert address(x.copy()) != address(x)


# --- PyTorch --------------------------------------------------------------------------------------


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


TORCH = "bool int8 int16 int32 int64 uint8 float16 bfloat16 float32 float64".split()


@pytest.mark.parametrize("name", TORCH)
def test_pytorchs_tensors_of_every_dtype_come_in_without_a_copy_and_go_out_as_one(torch, name):
    source = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(getattr(torch, name))
    x = ex.from_dlpack(source)
    assert x.dtype == getattr(ex, name) and x.tolist() == source.tolist()
    y, own = ex.asarray(source, copy=False), ex.asarray(source)
    assert y.tolist() == own.tolist() == source.tolist()
    if name != "bfloat16":
        assert address(x) == address(y) == source.data_ptr() != address(own)
    back = torch.from_dlpack(x)
    assert back.dtype == source.dtype and torch.equal(back, source)
    views = [source.T, source[:, ::2], source[1], source[0, 1], source.expand(4, 2, 3), source[:0]]
    for view in views:
        z = ex.from_dlpack(view)
        assert z.shape == tuple(view.shape) and z.tolist() == view.tolist()
        assert torch.equal(torch.from_dlpack(z), view)


def test_pytorch_cannot_write_into_a_tensor(torch):
    z = ex.zeros(3)
    ways = [torch.as_tensor, torch.asarray, torch.from_dlpack, torch.utils.dlpack.from_dlpack, torch.tensor]
    for way in ways:
        way(z).add_(1)
        assert z.tolist() == [0.0, 0.0, 0.0], way
    # What nobody is to write can be shared on request; PyTorch is told so.
    shared = torch.from_dlpack(z, copy=False)
    assert shared.data_ptr() == address(z)


def test_a_tensor_made_of_pytorchs_does_not_change_with_it(torch):
    source = torch.zeros(3)
    x, shared = ex.asarray(source), ex.from_dlpack(source)
    source.add_(1)
    assert x.tolist() == [0.0, 0.0, 0.0] and shared.tolist() == [1.0, 1.0, 1.0]


def test_bfloat16_computes_the_same_beside_pytorch(torch):
    source = torch.tensor([1.0, 2.5, -3.25]).to(torch.bfloat16)
    x = ex.from_dlpack(source) * 3
    assert x.dtype == ex.bfloat16 and torch.equal(torch.from_dlpack(x), source * 3)


def test_memory_shared_with_pytorch_lives_as_long_as_it_must(torch):
    source = torch.arange(8.0)
    x = ex.from_dlpack(source)
    source[2] = 50.0
    assert x[2].item() == 50.0
    del source
    gc.collect()
    others = [torch.full((8,), 9.0) for _ in range(50)]
    assert x.tolist() == [0, 1, 50, 3, 4, 5, 6, 7]
    y = ex.asarray([1.0, 2.0]) + 1.0
    out = torch.from_dlpack(y)
    del y
    gc.collect()
    assert out.tolist() == [2.0, 3.0] and len(others) == 50


def test_pytorch_tensors_that_need_a_gradient_do_not_come_in_unseen(torch):
    with pytest.raises(Exception, match="grad"):
        ex.asarray(torch.ones(2, requires_grad=True))
    assert ex.asarray(torch.ones(2, requires_grad=True).detach()).tolist() == [1.0, 1.0]
