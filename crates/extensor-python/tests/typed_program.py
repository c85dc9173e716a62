"""A program that uses the whole package, with all its types: `mypy --strict` passes on it, and it runs."""

import copy
import math
import os
import pickle
import tempfile

import extensor as ex
from extensor import data, debug, gradients, io, memory, metrics, nn, ops, optim, progress, train, tree
from extensor.nn import models
from extensor.optim import schedule


class Network(nn.Module):
    """A convolution with batch norm, dropout, and a linear layer."""

    conv: nn.Conv2d
    norm: nn.BatchNorm2d
    dropout: nn.Dropout
    last: nn.Linear
    name: str = nn.static("network")

    def __init__(self, key: ex.Key) -> None:
        a, b = key.split()
        self.conv = nn.Conv2d(a, 1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.dropout = nn.Dropout(0.1)
        self.last = nn.Linear(b, 4, 3)

    def forward(self, x: ex.Tensor, mode: nn.Mode = nn.INFERENCE) -> "tuple[ex.Tensor, Network]":
        y, norm = self.norm.forward(self.conv(x), mode)
        y = self.dropout(ex.relu(y), mode)
        logits = self.last(ex.flatten(ex.global_avgpool2d(y), 1, -1))
        return logits, self.replace(norm=norm)


def tensors() -> None:
    """Tensors, operators, the standard's functions and the catalogue's."""
    x: ex.Tensor = ex.asarray([[1.0, 2.0], [3.0, 4.0]], dtype=ex.float32)
    shape: tuple[int, ...] = x.shape
    dtype: ex.DType = x.dtype
    assert shape == (2, 2) and dtype == ex.float32 and x.ndim == 2 and x.size == 4
    y = 2.0 * x + 1 - x / 2 + x**2 @ x.T
    y += 1.0
    assert bool((y > 0.0).all()) and float(y.sum()) > 0.0 and len(y.tolist()) == 2
    picked: ex.Tensor = y[0, :]
    numbers: ex.Tensor = ex.arange(4) % 3
    parts: tuple[ex.Tensor, ...] = ex.unstack(ex.concat([x, y]), axis=0)
    values, counts = ex.unique_counts(numbers)
    assert len(parts) == 4 and values.shape == counts.shape and picked.shape == (2,)
    assert ex.finfo(ex.float32).bits == 32 and ex.iinfo("int8").max == 127
    assert ex.isdtype(dtype, "real floating") and ex.result_type(x, 1.0) == ex.float32
    assert ex.broadcast_shapes((2, 1), (3,)) == (2, 3) and ex.pi == math.pi
    total = ex.sum(x, axis=(0, 1), keepdims=True)
    ordered = ex.sort(x, axis=-1, descending=True)
    best: ex.Tensor = ex.argmax(ordered, axis=0)
    masked = ex.where(x > 2.0, x, 0.0)
    clipped = ex.clip(ex.maximum(x, 0.5), 0.0, 3.0)
    assert total.shape == (1, 1) and best.shape == (2,) and masked.shape == clipped.shape
    swished: ex.Tensor = ex.swish(x)
    slope: ex.Tensor = ex.swish_backward(ex.ones_like(x), x)
    pooled, indices = ops.maxpool2d.with_auxiliary(ex.reshape(x, (1, 1, 2, 2)), 2)
    assert swished.shape == slope.shape and pooled.shape == indices.shape
    assert str(ops.softmax.info["name"]) == "softmax" and isinstance(ops.softmax, ex.Operation)
    q = ex.ones((1, 1, 2, 4))
    attended = ex.scaled_dot_product_attention(q, q, q, causal=True)
    loss = ex.cross_entropy(ex.zeros((2, 3)), ex.asarray([0, 2]), reduction="sum", label_smoothing=0.1)
    assert attended.shape == (1, 1, 2, 4) and loss.shape == ()
    assert ex.sum_to_shape(ex.ones((4, 3)), (3,)).tolist() == [4.0, 4.0, 4.0]
    key = ex.Key(7)
    drawn = [key.normal((2,)), key.uniform(2, 0.0, 1.0), key.integers((2,), 5), key.permutation(3)]
    assert len(drawn) == 4 and key.fold_in(1) != key


def derivatives() -> None:
    """Derivatives of functions of tensors and of trees."""

    def cube(x: ex.Tensor) -> ex.Tensor:
        return ex.sum(x * x * x)

    def with_aux(x: ex.Tensor) -> tuple[ex.Tensor, ex.Tensor]:
        return cube(x), x + 1.0

    x = ex.asarray([1.0, 2.0])
    slope: ex.Tensor = ex.grad(cube)(x)
    value, again = ex.value_and_grad(cube)(x)
    (value, more), again = ex.value_and_grad(with_aux, has_aux=True)(x)
    third: ex.Tensor = ex.grad(ex.grad(ex.grad(lambda x: x**4)))(2.0)
    result, pullback = ex.vjp(cube, x)
    (pulled,) = pullback(ex.asarray(1.0))
    _, along = ex.jvp(cube, (x,), (x,))
    _, linear = ex.linearize(cube, x)
    product: ex.Tensor = ex.hvp(cube, x, x)
    ex.assert_close(slope, again)
    ex.assert_close(pulled, slope)
    ex.assert_close(along, linear(x))
    ex.assert_close(product, x * ex.hessian_diagonal(cube)(x))
    ex.assert_close(ex.hessian(cube)(x) @ x, product)
    ex.assert_close(ex.jacobian(lambda x: x * x, mode="forward")(x), ex.eye(2) * 2.0 * x)
    assert float(ex.laplacian(cube)(x)) == 18.0 and float(third) == 48.0
    estimate: ex.Tensor = ex.laplacian(cube, key=ex.Key(1), probes=2)(x)
    newton = ex.gauss_newton_vp(ex.square, lambda y: ex.sum(0.5 * y * y), x, x)
    fisher = ex.fisher_vp(lambda x: ex.reshape(x, (1, 2)), x, x)
    penalty = ex.gradient_penalty(lambda x: ex.sum(x * x, axis=1), ex.ones((2, 2)))
    assert float(estimate) == 18.0 and newton.shape == fisher.shape and penalty.shape == ()
    assert float(result) == float(value) and more.shape == x.shape
    saved = ex.checkpoint(cube)(x)
    deep = ex.checkpoint_sequential(lambda w, x: ex.sin(w * x), [x, x, x], x)
    kept = ex.stop_gradient({"x": x})["x"]
    mine = ex.custom_vjp(lambda x: (ex.exp(x), ex.exp(x)), lambda y, g: g * y)
    ours = ex.custom_jvp(ex.exp, lambda args, tangents: tangents[0] * ex.exp(args[0]))
    assert saved.shape == () and deep.shape == kept.shape == mine(x).shape == ours(x).shape
    leaves, structure = tree.flatten({"a": [x, x]})
    assert structure.names() == ["a.0", "a.1"] and len(tree.leaves({"b": x})) == 1
    doubled: dict[str, ex.Tensor] = tree.map(lambda x: x * 2.0, {"a": x})
    assert doubled["a"].tolist() == [2.0, 4.0] and len(leaves) == 2


def checks() -> None:
    """Gradients checked."""
    x = ex.asarray([0.3, -0.8])
    report: ex.Report = ex.check_grad(ex.tanh, x, order=2, mode="full")
    assert report.passed and report.worst is not None and report.worst.error < 1e-6
    wrong = ex.check_gradient(ex.sin, lambda g, x: g * ex.sin(x), x, eps=1e-5)
    assert not wrong and wrong.hint is not None and wrong.problem == "wrong"
    ex.assert_grad(ex.exp, x)
    ex.assert_gradient(ex.exp, lambda g, x: g * ex.exp(x), x, name="exp")
    found: ex.NumericalGradient = ex.numerical_gradient(ex.sin, x, cotangent=ex.ones(2))
    ex.assert_close(found.gradients[0], ex.cos(x), rtol=1e-6)
    one: ex.Tensor = debug.finite(ex.exp, ex.asarray(0.0))
    assert float(one) == 1.0
    memory.set_pool_limit(1 << 30)
    assert memory.pool_bytes() >= 0
    ex.set_threads(ex.get_threads())


@ex.compile
def chain(x: ex.Tensor, power: int = 2) -> ex.Tensor:
    """A function that is compiled."""
    return ex.sum(ex.tanh(x) ** power)


def compiled() -> None:
    """Compiled functions."""
    x = ex.asarray([1.0, 2.0])
    value: ex.Tensor = chain(x, power=3)
    few: ex.Compiled[..., ex.Tensor] = ex.compile(ex.grad(chain), limit=2)
    slope: ex.Tensor = few(x)
    optimizer = optim.AdamW(0.1)

    @ex.compile(limit=4)
    def step(model: ex.Tensor, state: optim.State, rate: ex.Tensor) -> tuple[ex.Tensor, optim.State]:
        return optimizer.update(model, ex.grad(chain)(model), state, lr=rate)

    x, state = step(x, optimizer.init(x), ex.asarray(0.1))
    assert state.step == 1 and step.limit == 4 and step.cache_size == 1 and few.limit == 2
    assert "tanh" in chain.explain() and "svg" in chain.graph() and value.ndim == 0 and slope.shape == (2,)
    step.clear()


def training(folder: str) -> None:
    """Data, a loop of one's own, the loop, measures, files."""
    a, b, c = ex.Key(1).split(3)
    images, labels = a.normal((24, 1, 6, 6)), ex.asarray([k % 3 for k in range(24)])
    loader = data.Loader(images, labels, 8, b)
    rate: schedule.Schedule = schedule.cosine(0.05, 100).warm_up(5)
    trainer = train.Trainer(Network(c), optim.AdamW(0.05, no_decay=True, clip_norm=1.0), schedule=rate)
    losses: list[float] = []
    for x, y in progress.track(loader, stream=open(os.devnull, "w")):

        def loss(model: Network, mode: nn.Mode, x: ex.Tensor = x, y: ex.Tensor = y) -> tuple[ex.Tensor, Network]:
            logits, model = model.forward(x, mode)
            return nn.class_loss(logits, y), model

        losses.append(trainer.step(loss))
    model: Network = trainer.model
    assert len(losses) == trainer.state.step == 3 and trainer.learning_rate > 0.0
    assert copy.copy(trainer).state is trainer.state
    assert pickle.loads(pickle.dumps(loader)).order(1) == loader.order(1)
    assert "Conv2d" in str(nn.summary(model)) and nn.summary(model).parameters > 0

    optimizer = optim.Sgd(0.1, momentum=0.9, groups={"*.bias": {"weight_decay": 0.0}})
    state: optim.State = optimizer.init(model)
    total: gradients.Accumulator[Network] = gradients.Accumulator()
    for x, y in loader.epoch(1):
        value, grads = ex.value_and_grad(lambda m: nn.class_loss(m(x), y))(model)
        total.add(grads, x.shape[0])
    mean = total.mean()
    assert mean is not None and gradients.all_finite(mean)
    clipped, norm = gradients.clip_grad_norm(mean, 1.0)
    model, state = optimizer.update(model, gradients.clip_grad_value(clipped, 0.5), state, lr=0.01)
    average: optim.Ema[Network] = optim.Ema(model, 0.9).update(model)
    assert state.step == 1 and float(norm) >= 0.0 and average.step == 1

    result: train.Result = train.fit(
        model, train.classification(), [(images, labels)], optim.Adam(1e-3), key=c, epochs=2, progress=False,
        checkpoints=os.path.join(folder, "run"), compute="bfloat16", loss_scale=train.LossScale(1024.0),
    )  # fmt: skip
    assert result.end == "done" and train.test(result.model, loader)["loss"] > 0.0
    confusion = metrics.Confusion(3)
    confusion.add(ex.argmax(model(images), axis=-1), labels)
    scores: metrics.Scores = confusion.scores("weighted")
    assert 0.0 <= scores.f1 <= 1.0 and 0.0 <= confusion.f_score(0, beta=2.0) <= 1.0
    assert metrics.auroc([0.1, 0.9], [0, 1]) == 1.0 and metrics.perplexity(0.0) == 1.0
    assert float(metrics.accuracy(model(images), labels)) >= 0.0

    path = os.path.join(folder, "model.safetensors")
    io.save_safetensors(path, model, {"format": "pt"})
    loaded: Network = io.load_into(path, Network(a))
    file: io.Tensors = io.load_safetensors(path)
    assert file.metadata["format"] == "pt" and set(loaded.state_dict()) == set(file)
    io.save_npz(os.path.join(folder, "x.npz"), {"x": images})
    assert io.load_npz(os.path.join(folder, "x.npz"))["x"].shape == images.shape


def more_models() -> None:
    """Models ready to use, layers, initialisers, second-order optimisers."""
    key = ex.Key(3)
    mlp = nn.Sequential(nn.Linear(key, 4, 8), ex.relu, nn.LayerNorm(8), nn.Linear(key, 8, 2, bias=False))
    assert mlp(key.normal((3, 4))).shape == (3, 2) and len(mlp.parameters()) == 5
    assert models.Mlp(key, [4, 8, 2])(key.normal((3, 4))).shape == (3, 2)
    assert models.LeNet5(key)(key.normal((1, 1, 28, 28))).shape == (1, 10)
    gpt = models.Gpt(key, vocabulary=5, context=8, layers=1, heads=2, width=8)
    assert len(gpt.generate([0], 3, key, temperature=0.5, top_k=2)) == 3
    weight: ex.Tensor = nn.init.kaiming_normal(key, (8, 4), "out", nn.init.gain("relu"))
    minimum: optim.Minimum = optim.Lbfgs(history=5).minimize(lambda x: ex.sum(ex.square(x - 1.0)), weight)
    assert minimum.stop == "converged" and minimum.value < 1e-12
    windows: data.Dataset = data.windows(ex.arange(32, dtype=ex.uint16), 8, 4)
    kept: data.Dataset = data.subset(windows, [0, 2])
    if len(kept) > 2:
        inputs, targets = data.open_shards("shards", ["train", "fit"])
        rows: data.Rows = data.open_rows(["a.npy", "b.npy"])
        stored: data.StoredImages = data.StoredImages(inputs, targets).normalize([0.5], [0.5])
        assert len(data.Loader(stored, key=key)) == len(data.Loader(rows, targets, 4, key)) and rows.shape
    assert len(kept) == 2 and data.Vocabulary("abc").encode("cab").tolist() == [2, 0, 1]


def main() -> None:
    """All of it."""
    tensors()
    derivatives()
    checks()
    compiled()
    more_models()
    with tempfile.TemporaryDirectory() as folder:
        training(folder)


if __name__ == "__main__":
    main()
