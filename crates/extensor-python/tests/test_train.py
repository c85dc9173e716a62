"""Data, the training loop with its checkpoints, and progress bars in their three forms."""

import gzip
import io as streams
import math
import pickle
import struct
import sys
import types

import pytest

import extensor as ex
from extensor import _core, data, io, nn, optim, progress, train, tree


def spirals(count=200):
    points, labels = [], []
    for i in range(count):
        t = (i // 2) / (count // 2)
        angle = 7.0 * t + math.pi * (i % 2)
        points.append([t * math.cos(angle), t * math.sin(angle)])
        labels.append(i % 2)
    return ex.asarray(points, dtype="float32"), ex.asarray(labels)


class Network(nn.Module):
    first: nn.Linear
    norm: nn.BatchNorm2d
    drop: nn.Dropout
    last: nn.Linear

    def __init__(self, key):
        a, b = key.split()
        self.first, self.last = nn.Linear(a, 2, 32), nn.Linear(b, 32, 2)
        self.norm, self.drop = nn.BatchNorm2d(32), nn.Dropout(0.05)

    def forward(self, x, mode=nn.INFERENCE):
        x, norm = self.norm.forward(self.first(x), mode)
        y = self.last(self.drop(ex.gelu(x), mode))
        return y, self.replace(norm=norm) if mode.training else self


def leaves(x):
    return {name: x.tolist() for name, x in tree.named_leaves(x).items()}


def test_two_spirals_are_told_apart():
    x, y = spirals()
    a, b, c = ex.Key(1).split(3)
    model = nn.models.Mlp(a, [2, 32, 32, 2])
    steps = []
    result = train.fit(
        model, train.classification(), data.Loader(x, y, 50, b), optim.AdamW(1e-2),
        epochs=80, key=c, schedule=optim.schedule.cosine(1e-2, 320), on_step=steps.append,
        evaluate=lambda m: float(train.accuracy(m(x), y)), evaluate_every=80, progress=False,
    )  # fmt: skip
    found = train.test(result.model, data.Loader(x, y, 64, shuffle=False))
    assert found["loss"] < 0.05 and found["accuracy"] > 0.98
    assert result.end == "done" and result.state.step == 320 == len(steps)
    assert steps[0].loss > 0.5 and steps[-1].lr < 1e-5 and steps[-1].epoch == 79
    assert [r["step"] for r in result.history] == [80, 160, 240, 320]
    assert result.state.best[1] > 0.98


def plan(folder, **more):
    x, y = spirals(60)
    a, b, c = ex.Key(3).split(3)
    model = Network(a)
    settings = dict(
        key=c, average=optim.Ema(model, 0.9, warm_up=True), accumulate=2,
        plateau=optim.Plateau(1e-2, rising=True, patience=1),
        evaluate=lambda m: float(train.accuracy(m(x), y)), evaluate_every=4,
        checkpoints=folder, checkpoint_every=3, metrics=folder.with_suffix(".jsonl"), progress=False,
    )  # fmt: skip
    loader = data.Loader(x, y, 8, b)
    return train.fit(
        model, train.classification(0.1), loader, optim.AdamW(1e-2, clip_norm=1.0), **settings, **more
    )


def test_a_run_that_goes_on_from_a_checkpoint_has_the_same_bits(tmp_path):
    whole = plan(tmp_path / "whole", steps=17)
    stopped = plan(tmp_path / "parts", steps=17, on_step=lambda s: train.STOP if s.step == 7 else None)
    assert stopped.end == "stopped" and stopped.state.step == 7
    again = plan(tmp_path / "parts", steps=17, resume=True)
    assert leaves(again.state.model) == leaves(whole.state.model)
    assert leaves(again.state.optimizer) == leaves(whole.state.optimizer)
    assert leaves(again.model) == leaves(whole.model)
    assert again.state.plateau == whole.state.plateau and again.state.best == whole.state.best
    files = sorted(p.name for p in (tmp_path / "parts").iterdir())
    assert files == sorted(p.name for p in (tmp_path / "whole").iterdir())
    for name in files:
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert int(again.state.model.norm.num_batches_tracked) == 17
    lines = (tmp_path / "whole.jsonl").read_text()
    assert lines == (tmp_path / "parts.jsonl").read_text()
    assert lines.count("\n") == 17 + 5 and lines.startswith('{"step":1,"loss":')


@pytest.mark.parametrize("place", ["loss", "on_step", "evaluate", "on_evaluate", "on_save", "metrics"])
def test_a_run_interrupted_anywhere_is_saved_and_goes_on_with_the_same_bits(tmp_path, place):
    x, y = spirals(60)
    loader, step = data.Loader(x, y, 10, ex.Key(2)), 8 if place == "loss" else 6

    def at(name, number):
        if name == place and number == step:
            raise KeyboardInterrupt

    def run(folder, **more):
        calls, scores = [0], [0]

        def loss(model, x, y, mode):
            calls[0] += 1
            at("loss", calls[0] - 1)
            return train.classification()(model, x, y, mode)

        def evaluate(model):
            scores[0] += 3
            at("evaluate", scores[0])
            return float(train.accuracy(model(x), y)), {"twice": Late(scores[0])}

        class Late(float):
            def __float__(self):
                at("metrics", int(self * 1))
                return 2.0

        return train.fit(
            nn.Linear(ex.Key(1), 2, 2), loss, loader, optim.Adam(0.1), epochs=2, key=ex.Key(3),
            plateau=optim.Plateau(1e-1, rising=True, patience=0), evaluate=evaluate, evaluate_every=3,
            checkpoints=folder, checkpoint_every=100, keep=100, progress=False,
            on_step=lambda s: at("on_step", s.step), on_evaluate=lambda r: at("on_evaluate", r["step"]),
            on_save=lambda p: at("on_save", int(p[-21:-12])), **more,
        )  # fmt: skip

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts")
    assert train.Checkpoints(tmp_path / "parts").steps()[-1] == step
    place, here = None, place
    again = run(tmp_path / "parts", resume=True)
    whole = run(tmp_path / "whole")
    assert leaves(again.state.model) == leaves(whole.state.model), here
    assert again.state.plateau == whole.state.plateau and again.state.best == whole.state.best
    assert again.state.stale == whole.state.stale and again.state.step == 12
    # Each evaluation was finished once.
    late = {"loss": [9, 12], "on_save": [9, 12], "on_evaluate": [9, 12]}.get(here, [6, 9, 12])
    assert [r["step"] for r in again.history] == late


def test_a_broken_checkpoint_is_passed_over_and_a_used_folder_is_not_begun_in_again(tmp_path):
    plan(tmp_path, steps=9)
    newest = tmp_path / "step-000000009.safetensors"
    newest.write_bytes(newest.read_bytes()[:100])
    with pytest.raises(ValueError, match="resume=True"):
        plan(tmp_path, steps=9)
    again = plan(tmp_path, steps=9, resume=True)
    assert again.state.step == 9
    for path in tmp_path.iterdir():
        path.write_bytes(b"nothing")
    with pytest.raises((OSError, ValueError), match="step-000000009"):
        plan(tmp_path, steps=9, resume=True)


def test_training_stops_when_nothing_gets_better_and_hooks_hear_of_it(tmp_path):
    x, y = spirals(20)
    heard, saved = [], []
    result = train.fit(
        nn.Linear(ex.Key(1), 2, 2), train.classification(), data.Loader(x, y, 10, ex.Key(2)),
        optim.Sgd(0.1), steps=50, key=ex.Key(3), evaluate=lambda m: (0.5, {"other": 2}),
        evaluate_every=2, patience=3, checkpoints=tmp_path, keep=1, on_evaluate=heard.append,
        on_save=saved.append, progress=False,
    )  # fmt: skip
    assert result.end == "no better" and result.state.step == 8
    assert [r["best"] for r in heard] == [True, False, False, False] and heard[0]["other"] == 2.0
    assert sorted(p.name[:14] for p in tmp_path.glob("step-*")) == ["step-000000002", "step-000000008"]
    assert saved[-1].endswith("step-000000008.safetensors")


def test_a_loss_that_is_not_finite_names_the_operation_and_keeps_the_model(tmp_path):
    x, y = spirals(20)

    def loss(model, x, y, mode):
        return ex.sum(ex.log(model(x) * 0.0))

    with pytest.raises(FloatingPointError, match="step 1: the loss is .*log"):
        train.fit(
            nn.Linear(ex.Key(1), 2, 2), loss, data.Loader(x, y, 10, ex.Key(2)), optim.Sgd(0.1),
            steps=5, key=ex.Key(3), checkpoints=tmp_path, progress=False,
        )  # fmt: skip
    assert train.Checkpoints(tmp_path).steps() == [0]


def test_what_a_loss_raises_comes_out_as_it_is():
    x, y = spirals(20)

    def loss(model, x, y, mode):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        train.fit(
            nn.Linear(ex.Key(1), 2, 2), loss, data.Loader(x, y, 10, ex.Key(2)), optim.Sgd(0.1),
            steps=5, key=ex.Key(3), progress=False,
        )  # fmt: skip
    with pytest.raises(TypeError, match="either epochs or steps"):
        train.fit(nn.Linear(ex.Key(1), 2, 2), loss, [], optim.Sgd(0.1), key=ex.Key(3))


def test_what_fit_is_given_by_mistake_is_named_before_the_first_step():
    x, y = spirals(20)
    loader, right = data.Loader(x, y, 10, ex.Key(2)), train.classification()

    def fit(loss=right, loader=loader, optimizer=optim.Sgd(0.1), **more):
        given = {"key": ex.Key(3), "steps": 2, "progress": False, **more}
        return train.fit(nn.Linear(ex.Key(1), 2, 2), loss, loader, optimizer, **given)

    assert fit().end == "done"
    loss = lambda m, x, y, mode: nn.class_loss(m(x), y)
    for message, given in [
        (r"return train.Measured\(loss, metrics\)", {"loss": lambda *a: (loss(*a), {"one": 1.0})}),
        ("expected a 0-d tensor, got float", {"loss": lambda *a: float(ex.stop_gradient(loss(*a)))}),
        ("the loss is Tensor, expected a function", {"loss": x}),
        (r"key is int: write key=extensor.Key\(0\)", {"key": 0}),
        ("the loader is int, expected a data.Loader or another iterable", {"loader": 3}),
        ("the optimizer is float", {"optimizer": 0.1}),
        ("schedule is float, expected a function: .* the optimiser's lr", {"schedule": 0.1}),
        ("evaluate is Loader, expected a function", {"evaluate": loader}),
        ("on_step is str", {"on_step": "print"}),
    ]:
        with pytest.raises(TypeError, match=message):
            fit(**given)


def test_accumulated_batches_are_one_large_batch():
    x, y = spirals(64)
    model = nn.models.Mlp(ex.Key(1), [2, 8, 2]).astype("float64")
    x = ex.ops.cast(x, "float64")
    found = []
    for size, accumulate in ((32, 1), (8, 4)):
        result = train.fit(
            model, train.classification(), data.Loader(x, y, size, ex.Key(2), shuffle=False),
            optim.Adam(0.01), steps=6, key=ex.Key(3), accumulate=accumulate, progress=False,
        )  # fmt: skip
        found.append(tree.leaves(result.model))
    for a, b in zip(*found):
        assert float(ex.ops.max_reduce(ex.abs(a - b))) < 1e-12


def test_a_loader_goes_through_all_examples_in_an_order_of_its_key():
    x, y = ex.asarray([[float(i)] for i in range(10)]), ex.asarray(list(range(10)))
    loader = data.Loader(x, y, 4, ex.Key(5))
    assert len(loader) == 3 and loader.examples == 10
    epochs = [[t for _, ts in loader.epoch(e) for t in ts.tolist()] for e in (0, 1, 0)]
    assert sorted(epochs[0]) == list(range(10)) and epochs[0] != epochs[1] and epochs[0] == epochs[2]
    assert epochs[0] == loader.order(0) and [t for _, ts in loader for t in ts.tolist()] == epochs[0]
    for inputs, targets in loader:
        assert inputs[:, 0].tolist() == targets.tolist()
    assert [ts.shape[0] for _, ts in data.Loader(x, y, 4, ex.Key(5), drop_last=True)] == [4, 4]
    assert next(iter(data.Loader(x, y, 4, shuffle=False)))[1].tolist() == [0, 1, 2, 3]
    inputs, targets, at, after = next(loader.start_at(3, 2))
    assert (at, after, targets.shape) == ((3, 2), (4, 0), (2,))
    with pytest.raises(TypeError, match="needs a key"):
        data.Loader(x, y, 4)
    with pytest.raises(ValueError, match="batch_size"):
        data.Loader(x, y, 0, ex.Key(1))
    with pytest.raises(ValueError, match="targets"):
        data.Loader(x, y[:3], 4, ex.Key(1))


class Squares:
    """A data set of one's own."""

    def __init__(self, fails=None):
        self.fails = fails

    def __len__(self):
        return 10

    def batch(self, indices, key):
        if self.fails in indices:
            raise KeyError("mine")
        noise = [float(key.fold_in(i).uniform(())) for i in indices]
        return noise, [i * i for i in indices]


def test_a_data_set_of_ones_own_is_loaded_and_raises_what_it_raises():
    loader = data.Loader(Squares(), batch_size=4, key=ex.Key(1), shuffle=False)
    epoch = list(loader)
    assert [y for _, ys in epoch for y in ys.tolist()] == [i * i for i in range(10)]
    whole = next(iter(data.Loader(Squares(), batch_size=10, key=ex.Key(1), shuffle=False)))[0].tolist()
    assert [x for xs, _ in epoch for x in xs.tolist()] == whole
    batches = iter(data.Loader(Squares(fails=5), batch_size=4, key=ex.Key(1), shuffle=False))
    next(batches)
    with pytest.raises(KeyError, match="mine"):
        next(batches)
    with pytest.raises(TypeError, match="need targets"):
        data.Loader([1.0, 2.0], batch_size=1, key=ex.Key(1))


def test_a_data_set_whose_order_no_memory_holds_is_gone_through_without_a_list_of_it():
    class Endless(Squares):
        def __len__(self):
            return 2**40

        def batch(self, indices, key):
            return indices, indices

    for shuffle in (False, True):
        loader = data.Loader(Endless(), batch_size=4, key=ex.Key(1), shuffle=shuffle)
        x, _, at, _ = next(loader.start_at(3, 2**38 - 1))
        assert len(set(x.tolist())) == 4 and all(0 <= i < 2**40 for i in x.tolist()) and at == (3, 2**38 - 1)
        assert shuffle or x.tolist() == [2**40 - 4, 2**40 - 3, 2**40 - 2, 2**40 - 1]
        with pytest.raises(MemoryError):
            loader.order(0)


@pytest.mark.parametrize("form", ["npy", "idx", "safetensors"])
def test_data_sets_in_files_give_the_batches_of_those_in_memory(tmp_path, form):
    np = pytest.importorskip("numpy")
    pictures = (np.arange(11 * 60) * 37 % 256).astype("uint8").reshape(11, 3, 4, 5)
    labels = (np.arange(11) * 5 % 7).astype("uint8")
    for number, part in enumerate([slice(0, 2), slice(2, 9), slice(9, 11)]):
        x, y = pictures[part], labels[part]
        if form == "npy":
            np.save(tmp_path / f"train-images-{number}.npy", x)
            np.save(tmp_path / f"train-labels-{number}.npy", y)
        elif form == "idx":
            head = struct.pack(">BBBBIIII", 0, 0, 8, 4, len(x), 3, 4, 5)
            (tmp_path / f"train-images-{number}.idx").write_bytes(head + x.tobytes())
            head = struct.pack(">BBBBI", 0, 0, 8, 1, len(y))
            (tmp_path / f"train-labels-{number}.idx").write_bytes(head + y.tobytes())
        else:
            io.save_safetensors(tmp_path / f"train-{number}.safetensors", {"images": ex.asarray(x), "labels": ex.asarray(y)})
    images, targets = data.open_shards(tmp_path)
    assert (len(images), images.shape, images.dtype, images.shards) == (11, (3, 4, 5), ex.uint8, [2, 7, 2])
    assert repr(images) == "<extensor.data.Rows: 11 of uint8 [3, 4, 5] in 3 files>"
    assert np.asarray(images.read([10, 0])).tolist() == pictures[[10, 0]].tolist()
    stored = data.StoredImages(images, targets)
    memory = data.Images(ex.asarray(pictures), ex.asarray(labels))
    assert (len(stored), stored.size, stored.classes) == (11, (3, 4, 5), 7)
    assert stored.statistics() == memory.statistics()
    assert stored.image(4).tolist() == pictures[4].tolist()
    for inputs, targets_, same in [
        (stored.normalize([0.5], [0.25]).augment(1, True), None, memory.normalize([0.5], [0.25]).augment(1, True)),
        (images, targets, _core.pairs(ex.asarray(pictures), ex.asarray(labels))),
    ]:
        found = data.Loader(inputs, targets_, 4, ex.Key(1))
        found = pickle.loads(pickle.dumps(found))
        for (x, y), (a, b) in zip(found.epoch(2), data.Loader(same, None, 4, ex.Key(1)).epoch(2), strict=True):
            assert (x.tolist(), x.dtype, y.tolist(), y.dtype) == (a.tolist(), a.dtype, b.tolist(), b.dtype)
    if form == "npy":
        assert len(data.open_rows(tmp_path / "train-images-1.npy")) == 7
        with open(tmp_path / "train-images-1.npy", "r+b") as file:
            file.truncate(200)
        with pytest.raises(OSError, match=r"train-images-1.npy: example 8 \(row 6\) cannot be read"):
            stored.batch([1, 8])
        with pytest.raises(OSError, match="take|follow"):
            data.open_rows([tmp_path / "train-images-1.npy"])


def test_a_subset_has_the_examples_that_were_chosen():
    part = data.subset(Squares(), [7, 2])
    assert len(part) == 2 and part.batch([0, 1])[1].tolist() == [49, 4]
    with pytest.raises(IndexError):
        data.subset(Squares(), [10])


def test_reduced_precision_computes_in_it_and_keeps_the_parameters():
    x, _ = spirals(40)
    y, seen = ex.ops.cast(x[:, 0] > 0.0, "int64"), []

    def loss(model, x, y, mode):
        seen.append((model.first.weight.dtype.name, model.norm.running_mean.dtype.name, x.dtype.name))
        return train.classification()(model, x, y, mode)

    def losses(compute):
        result = train.fit(
            Network(ex.Key(1)), loss, data.Loader(x, y, 10, ex.Key(2)), optim.AdamW(0.01), epochs=20,
            key=ex.Key(3), compute=compute, progress=False,
        )  # fmt: skip
        assert {x.dtype.name for x in result.model.parameters().values()} == {"float32"}
        assert int(result.model.norm.num_batches_tracked) == 80
        return [record["loss"] for record in result.history]

    reduced = losses("bfloat16")
    assert set(seen) == {("bfloat16", "float32", "bfloat16")}
    full = losses(None)
    assert reduced != full and reduced == pytest.approx(full, abs=0.02) and full[-1] < 0.6 * full[0]


def test_a_loader_of_numpys_memory_can_be_left_halfway():
    np = pytest.importorskip("numpy")
    for _ in range(20):
        loader = data.Loader(np.ones((100, 3)), np.zeros(100, dtype="int64"), 5, ex.Key(1))
        next(iter(loader))
        del loader


def test_the_usual_formats_are_read(tmp_path):
    idx = struct.pack(">BBBBIII", 0, 0, 8, 3, 2, 2, 2) + bytes(range(8))
    labels = struct.pack(">BBBBI", 0, 0, 8, 1, 2) + bytes([1, 0])
    for part in ("train", "t10k"):
        with gzip.open(tmp_path / f"{part}-images-idx3-ubyte.gz", "wb") as file:
            file.write(idx)
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(labels)
    assert data.read_idx(tmp_path / "train-images-idx3-ubyte.gz").tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    images, tests = data.mnist(tmp_path)
    assert len(images) == 2 and images.labels.tolist() == [1, 0] and images.images.shape == (2, 1, 2, 2)
    images = images.normalize([0.0], [1.0 / 255.0]).augment(shift=0, flip=False)
    x, y = next(iter(data.Loader(images, batch_size=2, shuffle=False)))
    assert x.dtype.name == "float32" and y.tolist() == [1, 0]
    assert x.tolist()[1][0] == [pytest.approx([4.0, 5.0]), pytest.approx([6.0, 7.0])]

    (tmp_path / "c.bin").write_bytes(bytes([6]) + bytes(3072))
    assert data.read_cifar([tmp_path / "c.bin"]).labels.tolist() == [6]
    with pytest.raises(ValueError, match="expected"):
        data.read_cifar([tmp_path / "c.bin"], "11")

    (tmp_path / "t.csv").write_text('size,"price"\n1.5,1\n2.5,0\n')
    table = data.read_csv(tmp_path / "t.csv")
    assert table.columns == ["size", "price"]
    assert [t.tolist() for t in table.classification("price")] == [[[1.5], [2.5]], [1, 0]]
    assert table.regression(0)[1].tolist() == [[1.5], [2.5]]
    (tmp_path / "bad.csv").write_text("a,b\n1,x\n")
    with pytest.raises((OSError, ValueError), match='line 2, column 2 .*"x"'):
        data.read_csv(tmp_path / "bad.csv")

    (tmp_path / "t.txt").write_text("abracadabra")
    text = data.read_text(tmp_path / "t.txt")
    words = data.Vocabulary(text)
    tokens = words.encode(text)
    assert words.characters == "abcdr" and words.decode(tokens.tolist()) == text and len(words) == 5
    x, y = next(iter(data.Loader(data.windows(tokens, 3), batch_size=2, shuffle=False)))
    assert (x.tolist(), y.tolist()) == ([[0, 1, 4], [0, 2, 0]], [[1, 4, 0], [2, 0, 3]])
    assert len(data.windows(tokens, 3, 50)) == 50
    with pytest.raises(ValueError, match="z"):
        words.encode("z")
    with pytest.raises(OSError, match="none"):
        data.read_text(tmp_path / "none")


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Terminal(streams.StringIO):
    def isatty(self):
        return True


def run(bar, clock, times, step):
    with bar:
        for k in range(times):
            clock.now += step
            bar.update(loss=1.0 / (k + 1))


def test_on_a_terminal_a_bar_rewrites_its_line():
    clock, out = Clock(), Terminal()
    run(progress.Progress(10, "training", stream=out, clock=clock), clock, 10, 1.0)
    text = out.getvalue()
    assert text.count("\n") == 1 and text.endswith("\n") and text.count("\r") == 12
    assert "training 5/10 50%  1/s  0:05 left  loss 0.2 [" in text
    last = text.split("\r")[-1]
    assert last.startswith("training 10/10 100%  1/s  0:10  loss 0.1 [###") and "." not in last.split("[")[1]
    clock, out = Clock(), Terminal()
    run(progress.Progress(1000, "fast", stream=out, clock=clock), clock, 1000, 0.001)
    assert 8 <= out.getvalue().count("\r") <= 13


def test_elsewhere_a_bar_prints_lines_now_and_then():
    clock, out = Clock(), streams.StringIO()
    run(progress.Progress(100, "training", stream=out, clock=clock), clock, 100, 0.2)
    lines = out.getvalue().splitlines()
    assert 3 <= len(lines) <= 5 and "\r" not in out.getvalue()
    assert lines[0].startswith("training 25/100 25%  5/s  0:15 left  loss")
    assert lines[-1].startswith("training 100/100 100%")


class ZMQInteractiveShell:
    pass


class Shell(ZMQInteractiveShell):
    """As in Colab."""


@pytest.mark.parametrize("kind", [ZMQInteractiveShell, Shell])
def test_in_a_notebook_a_bar_updates_one_display(monkeypatch, kind):
    shown, updates = [], []

    class Handle:
        def update(self, thing):
            updates.append(thing)

    def display(thing, display_id=None):
        shown.append((thing, display_id))
        return Handle()

    shell = types.ModuleType("IPython")
    shell.get_ipython = kind
    parts = types.ModuleType("IPython.display")
    parts.display, parts.HTML = display, lambda text: text
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", parts)
    clock = Clock()
    run(progress.Progress(10, "a < b", clock=clock), clock, 10, 1.0)
    assert len(shown) == 1 and shown[0][1] is True and len(updates) == 11
    assert '<progress max="1" value="1.0000">' in updates[-1] and "a &lt; b 10/10" in updates[-1]

    x, y = spirals(20)
    train.fit(
        nn.Linear(ex.Key(1), 2, 2), train.classification(), data.Loader(x, y, 10, ex.Key(2)),
        optim.Sgd(0.1), epochs=2, key=ex.Key(3),
    )  # fmt: skip
    assert len(shown) == 2 and "training 4/4 100%" in updates[-1] and "accuracy" in updates[-1]


def test_in_the_shell_of_a_terminal_a_bar_is_that_of_a_terminal(monkeypatch):
    shell = types.ModuleType("IPython")
    shell.get_ipython = type("TerminalInteractiveShell", (), {})
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setattr(sys, "stderr", Terminal())
    clock = Clock()
    run(progress.Progress(2, "x", clock=clock), clock, 2, 1.0)
    assert sys.stderr.getvalue().startswith("\rx 0/2 0%")


def test_a_bar_without_a_total_counts_and_track_passes_items_on(capsys):
    clock, out = Clock(), streams.StringIO()
    run(progress.Progress(None, "seen", stream=out, clock=clock), clock, 3, 1.0)
    assert out.getvalue().splitlines()[-1].startswith("seen 3  1/s  0:03")
    assert list(progress.track([1, 2], "items")) == [1, 2]
    assert "items 2/2 100%" in capsys.readouterr().err


def test_accuracy_is_the_share_of_the_largest_logits_that_are_right():
    logits = ex.asarray([[[1.0, 2.0], [4.0, 3.0]], [[0.0, 1.0], [0.0, 1.0]]])
    assert float(train.accuracy(logits, ex.asarray([[1, 1], [1, 0]], dtype="uint8"))) == 0.5


def test_a_checkpoint_holds_what_the_rust_library_expects(tmp_path):
    plan(tmp_path, steps=4)
    file = io.load_safetensors(tmp_path / "step-000000004.safetensors")
    assert file.metadata["format"] == "extensor checkpoint 2"
    assert {"model.first.weight", "optimizer.exp_avg.first.weight", "average.norm.running_var"} <= set(file)
    assert {"step", "epoch", "batch", "key", "stale", "overflows", "optimizer_step", "plateau", "best_step",
            "loss_scale", "loss_scale_steps", "average_step", "average_start_weight"} <= set(file.metadata)  # fmt: skip


def test_targets_with_a_share_for_each_class_are_measured():
    logits = ex.asarray([[1.0, 2.0, 0.0], [4.0, 3.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    shares = ex.asarray([[0.0, 1.0, 0.0], [0.2, 0.5, 0.3], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    assert float(train.accuracy(logits, shares)) == 0.75
    x, y = spirals(20)
    loader = data.Loader(x, ex.ops.one_hot(y, 2, "float32"), 10, ex.Key(2))
    found = train.fit(
        nn.Linear(ex.Key(1), 2, 2), train.classification(), loader, optim.Sgd(0.1), epochs=1,
        key=ex.Key(3), progress=False,
    )  # fmt: skip
    ones, numbers = train.test(found.model, loader), train.test(found.model, data.Loader(x, y, 10, ex.Key(2)))
    assert ones["accuracy"] == numbers["accuracy"] and ones["loss"] == pytest.approx(numbers["loss"])
