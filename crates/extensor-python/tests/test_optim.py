"""Optimisers against steps by hand and PyTorch's, schedules, averages, minimisers."""

import copy
import inspect
import math
import pickle

import pytest

import extensor as ex
from extensor import nn, optim, tree


def steps(optimizer, p, grads, lr=None):
    p = ex.asarray(p)
    state = optimizer.init(p)
    for g in grads:
        p, state = optimizer.update(p, ex.asarray(g), state, lr)
    return p.tolist(), state


def test_descent_is_that_by_hand():
    p, state = steps(optim.Sgd(0.1), [1.0, 2.0], [[1.0, -1.0]])
    assert p == [0.9, 2.1] and state.slots == () and state.step == 1
    p, state = steps(optim.Sgd(0.1, momentum=0.5), [1.0], [[1.0], [1.0]])
    assert p == pytest.approx([1.0 - 0.1 - 0.15]) and state.momentum_buffer.tolist() == [1.5]
    p, _ = steps(optim.Sgd(0.1, momentum=0.5, nesterov=True), [1.0], [[1.0]])
    assert p == pytest.approx([1.0 - 0.1 * 1.5])
    assert steps(optim.Sgd(0.1, weight_decay=0.5), [2.0], [[0.0]])[0] == pytest.approx([1.9])
    assert steps(optim.Sgd(0.1), [1.0], [[1.0]], lr=0.5)[0] == [0.5]


def test_adam_is_that_by_hand():
    p, m, v = 1.0, 0.0, 0.0
    for t, g in enumerate([0.5, -0.25, 2.0], 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p -= 0.1 * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)
    found, state = steps(optim.Adam(0.1), [1.0], [[0.5], [-0.25], [2.0]])
    assert found == pytest.approx([p], rel=1e-12)
    assert state.exp_avg.tolist() == pytest.approx([m]) and state.exp_avg_sq.tolist() == pytest.approx([v])
    decayed, _ = steps(optim.AdamW(0.1, weight_decay=0.5), [2.0], [[0.0]])
    assert decayed == pytest.approx([1.9])


def test_lion_adagrad_and_rmsprop_are_those_by_hand():
    assert steps(optim.Lion(0.25), [1.0, 2.0, 3.0], [[1e-9, -1e9, 0.0]])[0] == [0.75, 2.25, 3.0]
    assert steps(optim.Adagrad(0.1), [1.0], [[3.0], [4.0]])[0] == pytest.approx([1 - 0.1 - 0.08])
    assert steps(optim.RmsProp(0.01, alpha=0.75), [1.0], [[5.0]])[0] == pytest.approx([0.98])


OPTIMISERS = [optim.Sgd, optim.Adam, optim.AdamW, optim.RmsProp, optim.Adagrad, optim.Lion]


@pytest.mark.parametrize("kind", OPTIMISERS)
def test_an_option_that_an_optimiser_has_not_is_refused_and_its_signature_tells_which_it_has(kind):
    for wrong in ("momentun", "clip_nrm", "weight_dekay"):
        with pytest.raises(TypeError, match=wrong):
            kind(0.1, **{wrong: 0.9})
    named = inspect.signature(kind).parameters
    assert {"lr", "weight_decay", "groups", "no_decay", "clip_norm", "clip_value"} <= set(named)
    assert not any(p.kind is p.VAR_KEYWORD for p in named.values())
    made = kind(0.1, weight_decay=0.5, clip_norm=1.0, no_decay=True, groups={"*": {"lr": 0.5}})
    assert repr(pickle.loads(pickle.dumps(made))) == repr(made)


@pytest.mark.parametrize("kind", OPTIMISERS)
def test_a_learning_rate_that_is_negative_or_not_finite_is_refused(kind):
    p = ex.asarray([1.0])
    for lr in (-0.1, math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="lr is"):
            kind(lr)
        with pytest.raises(ValueError, match="lr is"):
            kind(0.1).update(p, p, kind(0.1).init(p), lr)
    assert steps(kind(0.0), [1.0], [[1.0]])[0] == [1.0]


def test_rmsprop_knows_pytorchs_spelling_of_centred():
    grads = [[3.0], [5.0]]
    plain = steps(optim.RmsProp(0.1), [1.0], grads)[0]
    assert steps(optim.RmsProp(0.1, centered=True), [1.0], grads)[0] != plain
    both = [steps(optim.RmsProp(0.1, **{n: True}), [1.0], grads)[0] for n in ("centred", "centered")]
    assert both[0] == both[1]


PYTORCH = {
    "Sgd": ("SGD", {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}, {}),
    "Adam": ("Adam", {"weight_decay": 0.01, "amsgrad": True}, {}),
    "AdamW": ("AdamW", {"weight_decay": 0.1}, {}),
    "RmsProp": ("RMSprop", {"momentum": 0.5}, {"centred": ("centered", True)}),
    "Adagrad": ("Adagrad", {"lr_decay": 0.1}, {}),
}


@pytest.mark.parametrize("name", PYTORCH)
def test_steps_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    theirs, same, renamed = PYTORCH[name]
    ours = getattr(optim, name)(0.05, **same, **{k: v for k, (_, v) in renamed.items()})
    start, key = ex.Key(1).normal((7,), "float64"), ex.Key(2)
    weight = torch.tensor(start.tolist(), dtype=torch.float64, requires_grad=True)
    other = getattr(torch.optim, theirs)([weight], lr=0.05, **same, **dict(renamed.values()))
    p, state = start, ours.init(start)
    for i in range(10):
        g = key.fold_in(i).normal((7,), "float64")
        p, state = ours.update(p, g, state)
        weight.grad = torch.tensor(g.tolist(), dtype=torch.float64)
        other.step()
    assert p.tolist() == pytest.approx(weight.tolist(), rel=1e-9)
    slots = other.state[weight]
    for slot in state.slots:
        assert getattr(state, slot).tolist() == pytest.approx(slots[slot].tolist(), rel=1e-9)


def test_updates_are_pure_and_leave_buffers_alone():
    model = nn.Sequential(nn.Linear(ex.Key(1), 3, 2), nn.BatchNorm2d(2))
    x, mode = ex.Key(2).normal((5, 3)), nn.Training(ex.Key(3))
    grads = ex.grad(lambda m: ex.sum(ex.square(m.forward(x, mode)[0]) * x[:, :2]))(model)
    optimizer = optim.AdamW(0.1)
    before = [x.tolist() for x in tree.leaves(model)]
    state = optimizer.init(model)
    new, after = optimizer.update(model, grads, state)
    assert [x.tolist() for x in tree.leaves(model)] == before
    assert state.step == 0 and after.step == 1
    assert type(new) is type(model)
    assert new[1].running_var is model[1].running_var
    assert new[0].weight.tolist() != model[0].weight.tolist()
    assert list(tree.named_leaves(after))[:2] == ["exp_avg.0.weight", "exp_avg.0.bias"]
    again, _ = optimizer.update(model, grads, state)
    assert [x.tolist() for x in tree.leaves(again)] == [x.tolist() for x in tree.leaves(new)]


def test_groups_clipping_and_the_norm():
    model = {"w": ex.asarray([[10.0]]), "b": ex.asarray([10.0])}
    zero = {"w": ex.asarray([[0.0]]), "b": ex.asarray([0.0])}
    one = lambda optimizer, grads: optimizer.update(model, grads, optimizer.init(model))  # noqa: E731
    new, _ = one(optim.AdamW(0.1, weight_decay=1.0, no_decay=True), zero)
    assert (new["w"].tolist(), new["b"].tolist()) == ([[9.0]], [10.0])
    groups = {"b": {"weight_decay": 0.0}, "*": {"lr": 0.5}}
    new, _ = one(optim.AdamW(0.1, weight_decay=1.0, groups=groups), zero)
    assert (new["w"].tolist(), new["b"].tolist()) == ([[9.5]], [10.0])
    grads = {"w": ex.asarray([[3.0]]), "b": ex.asarray([4.0])}
    new, state = one(optim.Sgd(1.0, clip_norm=1.0), grads)
    assert state.grad_norm == 5.0 and new["w"].tolist()[0] == pytest.approx([9.4])
    new, _ = one(optim.Sgd(1.0, clip_value=2.0), grads)
    assert (new["w"].tolist(), new["b"].tolist()) == ([[8.0]], [8.0])
    with pytest.raises(ValueError, match="bais"):
        one(optim.Sgd(1.0, groups={"*bais": {"lr": 0.0}}), grads)
    with pytest.raises(ValueError, match="not on 'rate'"):
        optim.Sgd(1.0, groups={"*": {"rate": 0.0}})


def test_what_does_not_fit_is_an_error_that_names_it():
    optimizer, model = optim.Adam(0.1), {"w": ex.asarray([1.0, 2.0]), "v": ex.asarray(1.0)}
    state = optimizer.init(model)
    with pytest.raises(ValueError, match="gradients are not of the parameters' form: 'v'"):
        optimizer.update(model, {"w": model["w"]}, state)
    with pytest.raises(ValueError, match="form"):  # another order would mix them up
        optimizer.update(model, {"v": model["v"], "w": model["w"]}, state)
    with pytest.raises(ValueError, match="the gradient of w"):
        optimizer.update(model, {"w": model["v"], "v": model["v"]}, state)
    with pytest.raises((TypeError, ValueError), match="exp_avg"):
        optim.Sgd(0.1).update(model, model, state)
    with pytest.raises(ValueError, match="no exp_avg of the parameter v"):
        optimizer.update(model, model, optimizer.init({"w": model["w"]}))
    with pytest.raises(ValueError, match="learning rate"):
        optim.Sgd(-1.0).init(model)
    with pytest.raises(TypeError, match="float"):
        optimizer.init({"n": ex.asarray([1])})
    with pytest.raises(AttributeError, match="immutable"):
        state.step = 3


def test_optimisers_go_through_pickle():
    optimizer = optim.AdamW(0.1, no_decay=True, groups={"*": {"lr": 0.5}})
    again = pickle.loads(pickle.dumps(optimizer))
    assert repr(again) == repr(optimizer)
    assert steps(again, [1.0], [[2.0]])[0] == steps(optimizer, [1.0], [[2.0]])[0]
    state = optimizer.init(ex.asarray([1.0]))
    assert copy.deepcopy(pickle.loads(pickle.dumps(state))).slots == state.slots


def test_schedules_are_those_of_the_formulas():
    s = optim.schedule
    assert [s.step(1.0, 30, 0.5)(t) for t in (0, 29, 30, 60)] == [1.0, 1.0, 0.5, 0.25]
    assert [s.multi_step(1.0, [10, 20], 0.5)(t) for t in (9, 10, 20)] == [1.0, 0.5, 0.25]
    assert s.exponential(1.0, 0.5)(3) == 0.125 and s.constant(0.3)(9) == 0.3
    cosine = s.cosine(1e-3, 900).warm_up(100)
    assert cosine(50) == pytest.approx(0.5e-3) and cosine(550) == pytest.approx(0.5e-3)
    assert s.one_cycle(1.0, 100)(29) == pytest.approx(1.0)
    assert s.cosine_restarts(1.0, 10, 2)(30) == 1.0
    with pytest.raises(ValueError, match="steps"):
        s.cosine(1.0, 0)


def test_a_plateau_lowers_the_learning_rate_and_its_state_is_a_line_of_text():
    plateau = optim.Plateau(0.1, patience=1, factor=0.5)
    for loss in (1.0, 0.9, 0.9, 0.9):
        plateau = plateau.observe(loss)
    assert plateau.lr == 0.05
    assert optim.Plateau(0.1, patience=1, factor=0.5).with_state(plateau.state) == plateau


def test_averages_are_those_by_hand():
    ema = optim.Ema({"w": ex.asarray([0.0])}, 0.75)
    ema = ema.update({"w": ex.asarray([4.0])}).update({"w": ex.asarray([4.0])})
    assert ema.model()["w"].tolist() == [1.75] and ema.step == 2
    debiased = optim.Ema(ex.asarray([100.0]), 0.75, debiased=True)
    with pytest.raises(ValueError):
        debiased.model()
    debiased = debiased.update(ex.asarray([1.0])).update(ex.asarray([8.0]))
    assert debiased.model().tolist() == [(0.75 * 1.0 + 8.0) / 1.75]
    again = optim.Ema(ex.asarray([0.0]), 0.75, debiased=True)
    again = again.resume(debiased.tree(), debiased.step, debiased.start_weight)
    assert again.model().tolist() == debiased.model().tolist()
    with pytest.raises(ValueError, match="form"):
        ema.update({"v": ex.asarray([4.0])})


def test_minimisers_find_rosenbrocks_minimum_and_raise_what_the_function_raises():
    def rosenbrock(p):
        return 100 * (p["y"] - p["x"] ** 2) ** 2 + (1 - p["x"]) ** 2

    start = {"x": ex.asarray(-1.2), "y": ex.asarray(1.0)}
    for method in (optim.Lbfgs(), optim.NewtonCg()):
        found = method.minimize(rosenbrock, start)
        assert found.stop == "converged" and found.grad_norm <= 1e-8
        assert float(found.model["x"]) == pytest.approx(1.0, abs=1e-6)

    def broken(p):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        optim.Lbfgs().minimize(broken, start)
