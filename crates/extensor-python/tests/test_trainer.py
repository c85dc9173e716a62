"""A loop of one's own: `train.Trainer` makes the step that `fit` makes, and `fit` takes any batches."""

import copy
import math
import pickle
import warnings

import pytest

import extensor as ex
from extensor import data, nn, optim, train, tree


class Network(nn.Module):
    first: nn.Linear
    norm: nn.BatchNorm2d
    drop: nn.Dropout
    last: nn.Linear

    def __init__(self, key):
        a, b = key.split()
        self.first, self.last = nn.Linear(a, 2, 16), nn.Linear(b, 16, 2)
        self.norm, self.drop = nn.BatchNorm2d(16), nn.Dropout(0.2)

    def forward(self, x, mode=nn.INFERENCE):
        x, norm = self.norm.forward(self.first(x), mode)
        return self.last(self.drop(ex.tanh(x), mode)), self.replace(norm=norm)


X = ex.Key(5).normal((32, 2))
Y = ex.astype(X[:, 0] * X[:, 1] > 0.0, ex.int64)


def leaves(model):
    return {name: x.tolist() for name, x in tree.named_leaves(model).items()}


def loss(model, mode):
    logits, model = model.forward(X, mode)
    return nn.class_loss(logits, Y), model


def test_a_step_is_that_of_the_optimiser():
    optimizer, line = optim.Adam(0.1), {"w": ex.asarray([3.0, -2.0]), "b": ex.asarray(0.5)}
    cost = lambda line: ex.sum(ex.square(line["w"] + line["b"] - 1.0))
    trainer, state = train.Trainer(line, optimizer), optimizer.init(line)
    for _ in range(3):
        value, grads = ex.value_and_grad(cost)(line)
        line, state = optimizer.update(line, grads, state)
        assert trainer.step(cost) == float(value)
    assert leaves(trainer.model) == leaves(line) and trainer.state.optimizer.step == 3
    assert trainer.state.step == 3 and trainer.learning_rate == 0.1


def test_a_loop_of_ones_own_takes_the_steps_of_fit():
    loader = data.Loader(X, Y, 8, ex.Key(2))
    rate = optim.schedule.cosine(0.05, 8).warm_up(2)
    own = train.Trainer(Network(ex.Key(1)), optim.AdamW(0.05), key=ex.Key(3), schedule=rate)
    for epoch in range(2):
        for x, y in loader.epoch(epoch):

            def cost(model, mode):
                logits, model = model.forward(x, mode)
                return nn.class_loss(logits, y), model

            own.step(cost)
    result = train.fit(
        Network(ex.Key(1)), train.classification(), loader, optim.AdamW(0.05), key=ex.Key(3), epochs=2,
        schedule=rate, progress=False,
    )  # fmt: skip
    assert leaves(own.model) == leaves(result.model)
    assert int(own.model.norm.num_batches_tracked) == 8


def test_earlier_models_and_states_stay_what_they_were():
    trainer = train.Trainer(Network(ex.Key(1)), optim.Sgd(0.1, momentum=0.9))
    before, numbers = trainer.state, leaves(trainer.model)
    trainer.step(loss)
    assert leaves(before.model) == numbers != leaves(trainer.model)
    assert before.step == 0 and before.optimizer.step == 0
    again = train.Trainer.from_state(before, trainer.optimizer)
    again.step(loss)
    assert leaves(again.model) == leaves(trainer.model)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_a_trainer_can_be_copied_and_pickled(again):
    made = train.Trainer(
        Network(ex.Key(1)), optim.Adam(0.1, groups={"*.bias": {"lr": 0.5}}), key=ex.Key(4),
        schedule=optim.schedule.one_cycle(0.1, 20).warm_up(3), compute="float16",
        average=optim.Ema(Network(ex.Key(1)), 0.9, warm_up=True), loss_scale=train.LossScale(256.0, 2),
    )  # fmt: skip
    made.step(loss)
    other = again(made)
    assert leaves(other.model) == leaves(made.model) and other.state.scale == made.state.scale
    mine = [made.step(loss) for _ in range(3)]
    assert other.state.step == 1
    assert [other.step(loss) for _ in range(3)] == mine and leaves(other.model) == leaves(made.model)
    assert leaves(other.state.average.model()) == leaves(made.state.average.model())
    assert other.state.scale == made.state.scale and other.schedule == made.schedule


def test_what_a_loss_returns_beside_it_comes_back():
    trainer = train.Trainer(Network(ex.Key(1)), optim.Sgd(0.1))

    def cost(model, mode):
        logits, model = model.forward(X, mode)
        return nn.class_loss(logits, Y), model, {"logits": logits}

    value, aux = trainer.step(cost, has_aux=True)
    assert math.isfinite(value) and not aux["logits"].is_traced and aux["logits"].shape == (32, 2)
    assert float(train.accuracy(aux["logits"], Y)) >= 0.0
    value, kept = trainer.step(lambda model, mode: (ex.sum(model.last.weight), "said"), has_aux=True)
    assert kept == "said"


def test_statistics_that_a_step_does_not_move_are_said():
    with pytest.warns(UserWarning, match="Network has running statistics, and the step left them as they were"):
        train.Trainer(Network(ex.Key(1)), optim.Sgd(0.1)).step(lambda model: nn.class_loss(model(X), Y))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train.Trainer(Network(ex.Key(1)), optim.Sgd(0.1)).step(loss)
        linear = train.Trainer(nn.Linear(ex.Key(1), 2, 2), optim.Sgd(0.1))
        linear.step(lambda model: nn.class_loss(model(X), Y))


def test_after_an_error_the_model_is_what_it_was():
    trainer = train.Trainer({"w": ex.asarray([1.0, 0.0])}, optim.Sgd(0.1))
    with pytest.raises(FloatingPointError, match=r"step 1: the loss is -inf: log: its output is -inf at \[1\]"):
        trainer.step(lambda model: ex.sum(ex.log(model["w"])))
    with pytest.raises(ZeroDivisionError):
        trainer.step(lambda model: 1 // 0)
    with pytest.raises(TypeError, match="expected a 0-d tensor, got float"):
        trainer.step(lambda model: 1.0)
    with pytest.raises(TypeError, match="return train.Measured"):
        trainer.step(lambda model: (ex.sum(model["w"]), {"more": 1.0}))
    with pytest.raises(TypeError, match="returned a Linear beside the loss, expected its dict"):
        trainer.step(lambda model: (ex.sum(model["w"]), nn.Linear(ex.Key(1), 1, 1)))
    assert trainer.state.step == 0 and trainer.model["w"].tolist() == [1.0, 0.0]
    with pytest.raises(TypeError, match="the optimizer is float, expected one of optim"):
        train.Trainer({}, 0.1)


def test_a_step_that_overflows_is_skipped_and_the_scale_halved():
    trainer = train.Trainer({"w": ex.asarray([1.0], dtype="float32")}, optim.Sgd(0.1), compute="float16")
    value = trainer.step(lambda model: ex.sum(model["w"] * 60000.0))
    assert value == 60000.0 and trainer.state.overflows == 1 and trainer.state.scale.value == 32768.0
    assert trainer.model["w"].tolist() == [1.0] and trainer.model["w"].dtype == ex.float32


# -- Any batches.


def fit(loader, **more):
    model, optimizer = nn.Linear(ex.Key(1), 2, 2), optim.Sgd(0.1)
    settings = {"key": ex.Key(3), "progress": False, **more}
    return train.fit(model, train.classification(), loader, optimizer, **settings)


def test_fit_takes_a_list_of_batches_and_any_object_that_begins_anew():
    batches = [(X[:20], Y[:20]), (X[20:], Y[20:])]

    class Source:
        def __iter__(self):
            return iter(batches)

    lengths = []
    for loader in (batches, tuple(batches), Source()):
        result = fit(loader, epochs=3, on_step=lambda step: lengths.append((step.epoch, step.examples)))
        assert result.state.step == 6 and result.state.position == (3, 0) and len(result.history) == 3
    assert lengths == [(0, 20), (0, 12), (1, 20), (1, 12), (2, 20), (2, 12)] * 3
    assert leaves(fit(batches, steps=5).model) == leaves(fit(Source(), steps=5).model)


def test_batches_of_a_list_are_those_of_a_loader_that_does_not_shuffle():
    loader = data.Loader(X, Y, 8, shuffle=False)
    assert leaves(fit(loader, epochs=2).model) == leaves(fit(list(loader), epochs=2).model)


def test_arrays_of_other_libraries_and_lists_are_batches_too():
    np = pytest.importorskip("numpy")
    arrays = [(np.asarray(X), np.asarray(Y))]
    lists = [[X.tolist(), Y.tolist()]]
    wanted = leaves(fit([(X, Y)], epochs=2).model)
    assert leaves(fit(arrays, epochs=2).model) == wanted
    near = fit([(ex.asarray(lists[0][0], dtype="float32"), lists[0][1])], epochs=2)
    assert leaves(near.model) == wanted


def test_a_generator_is_gone_through_once_and_then_that_is_said():
    batches = lambda: ((X, Y) for _ in range(3))
    assert fit(batches(), epochs=1).state.step == 3
    assert fit(batches(), steps=3).state.step == 3
    for goal in ({"epochs": 2}, {"steps": 4}):
        with pytest.raises(ValueError, match="epoch 1 has no batches: a generator can be gone through once"):
            fit(batches(), **goal)


def test_a_run_on_a_list_goes_on_from_a_checkpoint(tmp_path):
    batches = [(X[k : k + 8], Y[k : k + 8]) for k in range(0, 32, 8)]
    whole = fit(batches, epochs=2)
    stop = lambda step: train.STOP if step.step == 3 else None
    first = fit(batches, epochs=2, checkpoints=tmp_path / "run", on_step=stop)
    assert first.end == "stopped" and first.state.position == (0, 3)
    assert leaves(fit(batches, epochs=2, checkpoints=tmp_path / "run", resume=True).model) == leaves(whole.model)


@pytest.mark.parametrize(
    "loader, message",
    [
        (3, "the loader is int, expected a data.Loader or another iterable of batches"),
        ([X, Y], "batch 0 is a Tensor, expected a pair"),
        ([(X, Y, X)], "batch 0 is a tuple of 3, expected a pair: inputs and targets"),
        ([{"x": X}], "batch 0 is a dict, expected a pair"),
    ],
)
def test_what_is_no_batch_is_named(loader, message):
    with pytest.raises(TypeError, match=message):
        fit(loader, epochs=1)
    with pytest.raises(ValueError, match="epoch 0 has no batches"):
        fit([], steps=1)


def test_fit_takes_the_data_loader_of_pytorch():
    torch = pytest.importorskip("torch")
    x, y = torch.from_dlpack(X.copy()), torch.from_dlpack(Y.copy())
    dataset = torch.utils.data.TensorDataset(x, y)
    loader = torch.utils.data.DataLoader(dataset, batch_size=8)
    assert leaves(fit(loader, epochs=2).model) == leaves(fit(data.Loader(X, Y, 8, shuffle=False), epochs=2).model)
    shuffled = torch.utils.data.DataLoader(dataset, batch_size=10, shuffle=True)
    result = fit(shuffled, epochs=3)
    assert result.state.step == 12 and train.test(result.model, shuffled)["loss"] > 0.0


def test_the_batches_of_a_test_may_be_of_any_origin():
    model = nn.Linear(ex.Key(1), 2, 2)
    found = train.test(model, [(X, Y)])
    assert found == train.test(model, data.Loader(X, Y, 32, shuffle=False))
