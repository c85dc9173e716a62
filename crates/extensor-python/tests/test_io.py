"""Files: round trips, strict loading, damaged files, NumPy's formats."""

import pytest

import extensor as ex
from extensor import io, nn, optim, tree


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(ex.Key(1), 3, 2), nn.BatchNorm2d(2))


def test_a_module_comes_back_from_a_file_with_the_same_bits(tmp_path, model):
    path = tmp_path / "model.safetensors"
    io.save_safetensors(path, model, {"epoch": 7})
    file = io.load_safetensors(path)
    assert file.metadata == {"epoch": "7"}
    assert sorted(file) == sorted(model.state_dict())
    template = nn.Sequential(nn.Linear(ex.Key(2), 3, 2), nn.BatchNorm2d(2))
    again = io.load_into(path, template)
    assert type(again) is nn.Sequential
    for name, x in model.state_dict().items():
        assert again.state_dict()[name].tolist() == x.tolist()
        assert again.state_dict()[name].dtype == x.dtype


def test_every_dtype_and_a_bare_tensor_and_a_part_come_back(tmp_path):
    path = tmp_path / "x.safetensors"
    names = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64"
    tensors = {name: ex.ops.cast(ex.asarray([0, 1, 1]), name) for name in names.split()}
    io.save_safetensors(path, tensors)
    found = io.load_safetensors(path)
    assert {n: (x.dtype.name, x.tolist()) for n, x in found.items()} == {
        n: (n, x.tolist()) for n, x in tensors.items()
    }
    io.save_safetensors(path, ex.asarray([[1.0], [2.0]]))
    assert list(io.load_safetensors(path)) == ["tensor"]
    assert io.load_into(path, ex.zeros((2, 1))).tolist() == [[1.0], [2.0]]
    io.save_safetensors(path, {"a": {"x": ex.asarray(1.0)}, "b": ex.asarray(2.0)})
    assert float(io.load_into(path, {"x": ex.asarray(0.0)}, prefix="a.")["x"]) == 1.0


def test_loading_is_strict_and_names_the_tensor(tmp_path, model):
    path = tmp_path / "model.safetensors"
    io.save_safetensors(path, model)
    with pytest.raises(ValueError, match=r"0\.weight.*shape"):
        io.load_into(path, nn.Sequential(nn.Linear(ex.Key(1), 4, 2), nn.BatchNorm2d(2)))
    with pytest.raises(ValueError, match=r"0\.weight.*dtype|0\.bias.*dtype"):
        io.load_into(path, model.astype("float64"))
    with pytest.raises(ValueError, match=r"1\.\w+.*not expected"):
        io.load_into(path, nn.Sequential(nn.Linear(ex.Key(1), 3, 2)))
    with pytest.raises(ValueError, match=r"2\.weight.*not there"):
        io.load_into(path, nn.Sequential(*model.layers, nn.Linear(ex.Key(1), 2, 1)))


def test_damaged_and_missing_files_are_errors(tmp_path, model):
    path = tmp_path / "model.safetensors"
    with pytest.raises(FileNotFoundError):
        io.load_safetensors(path)
    io.save_safetensors(path, model)
    whole = path.read_bytes()
    for damaged in (b"", whole[:5], whole[:40], whole[:-3], whole + b"x", b"\xff" * 8 + whole[8:]):
        path.write_bytes(damaged)
        with pytest.raises((OSError, ValueError), match="model.safetensors"):
            io.load_safetensors(path)
    with pytest.raises(OSError):
        io.save_safetensors(tmp_path / "no" / "such.safetensors", model)


def test_a_file_is_written_whole_or_not_at_all(tmp_path, model):
    path = tmp_path / "model.safetensors"
    io.save_safetensors(path, model)
    before = path.read_bytes()
    with pytest.raises((OSError, ValueError)):
        io.save_safetensors(path, {"__metadata__": ex.asarray(1.0)})
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_what_is_being_differentiated_is_not_saved(tmp_path):
    def loss(x):
        io.save_safetensors(tmp_path / "x", x)
        return x

    with pytest.raises(TypeError, match="differentiated"):
        ex.grad(loss)(ex.asarray(1.0))


def test_a_state_comes_back_and_goes_on_with_the_same_bits(tmp_path):
    optimizer = optim.AdamW(0.1)
    model = nn.Linear(ex.Key(1), 3, 2)
    grads = [model.replace(bias=model.bias * float(k)) for k in (1, 2, 3)]
    state = optimizer.init(model)
    for g in grads[:2]:
        model, state = optimizer.update(model, g, state)
    io.save_safetensors(tmp_path / "s", state, {"step": state.step})
    assert "exp_avg_sq.weight" in io.load_safetensors(tmp_path / "s")
    again = io.load_into(tmp_path / "s", optimizer.init(model)).replace(step=2)
    a, _ = optimizer.update(model, grads[2], state)
    b, _ = optimizer.update(model, grads[2], again)
    assert [x.tolist() for x in tree.leaves(a)] == [x.tolist() for x in tree.leaves(b)]


def test_numpy_reads_what_is_written_and_the_other_way_round(tmp_path):
    np = pytest.importorskip("numpy")
    x = ex.asarray([[1.5, 2.5], [3.5, 4.5]], dtype="float32")
    io.save_npy(tmp_path / "x.npy", x)
    assert np.load(tmp_path / "x.npy").tolist() == x.tolist()
    np.save(tmp_path / "y.npy", np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)))
    y = io.load_npy(tmp_path / "y.npy")
    assert y.tolist() == [[0, 1, 2], [3, 4, 5]] and y.dtype.name == "int32"
    io.save_npz(tmp_path / "z.npz", {"a": x, "b": {"c": y}})
    with np.load(tmp_path / "z.npz") as z:
        assert z["b.c"].tolist() == y.tolist()
    np.savez_compressed(tmp_path / "w.npz", a=np.ones(3))
    assert io.load_npz(tmp_path / "w.npz")["a"].tolist() == [1.0, 1.0, 1.0]
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises((OSError, ValueError), match="bad.npy"):
        io.load_npy(tmp_path / "bad.npy")
    with pytest.raises(FileNotFoundError):
        io.load_npz(tmp_path / "none.npz")


def test_safetensors_of_pytorch_are_read(tmp_path):
    torch = pytest.importorskip("torch")
    files = pytest.importorskip("safetensors.torch")
    layer = torch.nn.Linear(3, 2)
    files.save_file(layer.state_dict(), tmp_path / "t.safetensors")
    ours = io.load_into(tmp_path / "t.safetensors", nn.Linear(ex.Key(1), 3, 2))
    assert ours.weight.tolist() == layer.weight.tolist()
