"""Compiled functions give the bits of the functions themselves, are recorded once for each kind of arguments,
and say in the caller's words what cannot be recorded."""

import collections
import copy
import dataclasses
import enum
import functools
import gc
import inspect
import math
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
import weakref

import pytest

import extensor as ex
from extensor import nn, optim
from extensor.optim import schedule

np = pytest.importorskip("numpy")


def normal(seed, shape, dtype="float32"):
    return ex.Key(seed).normal(shape, dtype=dtype)


def bits(tree):
    """All tensors of a tree, as bytes, with their dtypes and shapes."""
    return [(name, str(x.dtype), x.shape, pickle.dumps(x)) for name, x in ex.tree.named_leaves(tree).items()]


def same(got, want):
    assert type(got) is type(want)
    assert bits(got) == bits(want)
    for name in ("step", "grad_norm"):
        assert getattr(got, name, None) == getattr(want, name, None)


def counted(f):
    """The function, and a list with an entry for each time it was called."""
    calls = []

    @functools.wraps(f)
    def wrapped(*args, **kwargs):
        calls.append(None)
        return f(*args, **kwargs)

    return wrapped, calls


def mixed(x):
    """A few lines of everything: broadcasting, views, products, reductions, values used twice."""
    y = ex.tanh(x.T @ x + 0.5)
    z = ex.softmax(y * y[1:2], -1) - ex.mean(y, axis=0)
    return ex.sum(ex.flip(z * z, axis=1) + ex.exp(y))


FUNCTIONS = {
    "value": mixed,
    "grad": ex.grad(mixed),
    "value_and_grad": ex.value_and_grad(mixed),
    "jvp": lambda x: ex.jvp(mixed, (x,), (x * 2,)),
    "hvp": lambda x: ex.hvp(mixed, x, x * 0.5),
    "grad of grad": lambda x: ex.grad(lambda x: ex.sum(ex.grad(mixed)(x) ** 2))(x),
    "vjp": lambda x: ex.vjp(lambda x: ex.exp(x) * x, x)[1](x),
    "checkpoint": ex.grad(ex.checkpoint(mixed)),
    "custom_vjp": ex.grad(lambda x: ex.sum(ex.custom_vjp(lambda x: (ex.exp(x), x), lambda s, g: g * s)(x))),
    "jacobian": lambda x: ex.jacobian(lambda x: ex.sum(ex.sin(x), axis=0))(x),
    "hessian": lambda x: ex.hessian(lambda x: ex.sum(x[0] ** 3))(x),
    "linearize": lambda x: ex.linearize(ex.sin, x)[1](x),
    "reductions": lambda x: (ex.sum(x, axis=0), ex.max(x, axis=1), ex.std(x), ex.argmax(x, axis=1)),
    "indexing": lambda x: (x[1], x[:, ::2], x[..., None], x[[0, 2]], x[ex.asarray([1, -1])], ex.take(x, ex.asarray([2, -4]), axis=1)),
    "sorting": lambda x: (ex.sort(x), ex.argsort(x, axis=0), ex.cumulative_sum(x, axis=1)),
    "where": lambda x: ex.where(x > 0, x, 0.1 * x),
    "casts": lambda x: x.astype("float16") + x.astype("bfloat16").astype("float16"),
    "a constant": lambda x: (x, ex.ones(3), 7),
    "random numbers": lambda x: x + ex.Key(3).normal(x.shape),
    "clip": lambda x: ex.gradients.clip_grad_norm({"a": x, "b": x * 2}, 0.5),
    "minima": lambda x: ex.grad(lambda x: ex.min(x) + ex.max(x))(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_bits_are_those_of_the_eager_call(name):
    f = FUNCTIONS[name]
    compiled = ex.compile(f)
    for seed in range(3):
        x = normal(seed, (5, 4))
        same(compiled(x), f(x))
    assert compiled.cache_size == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_bits_are_those_of_the_eager_call_in_every_precision(dtype):
    f = ex.value_and_grad(mixed)
    compiled = ex.compile(f)
    for seed in range(3):
        x = normal(seed, (5, 4), dtype)
        same(compiled(x), f(x))


def test_operations_of_the_catalogue_compiled_have_their_bits():
    ops = [op for name, op in ex.ops.CATALOGUE.items() if not name.endswith("_backward")]
    found = 0
    for op in ops:
        if op.info["inputs"] != ["x"] or op.info["params"]:
            continue
        for x in (normal(1, (3, 4)), ex.asarray([[1, 2], [3, 4]]), ex.asarray([True, False])):
            try:
                want = op(x)
            except (TypeError, ValueError):
                continue
            found += 1
            same(ex.compile(op)(x), want)
    assert found > 60


# Trees


@dataclasses.dataclass
class Pair:
    left: ex.Tensor
    right: ex.Tensor
    name: str = dataclasses.field(default="pair", metadata={"static": True})


Point = collections.namedtuple("Point", "x y")


def test_arguments_and_results_are_trees_of_any_form():
    def f(a, /, b, *rest, scale=1.0, **more):
        total = b["x"] + b["y"][0] * scale + a.left
        for x in rest:
            total = total + x
        return {
            "pair": Pair(total, a.right, a.name), "point": Point(total * 2, more["z"]), "list": [total, (total, None)],
            "text": "text", "number": 3, "nothing": None,
        }  # fmt: skip

    compiled = ex.compile(f)
    for seed in range(2):
        x, y, z = (normal(10 * seed + k, (3,)) for k in range(3))
        args = (Pair(x, y), {"x": y, "y": [z]}, x, y)
        got, want = compiled(*args, scale=2.0, z=z), f(*args, scale=2.0, z=z)
        same(got, want)
        assert type(got["pair"]) is Pair and got["pair"].name == "pair" and type(got["point"]) is Point
        assert (got["text"], got["number"], got["nothing"], got["list"][1][1]) == ("text", 3, None, None)
    assert compiled.cache_size == 1


def test_keyword_arguments_may_come_in_any_order():
    f, calls = counted(lambda **given: given["a"] - given["b"])
    compiled = ex.compile(f)
    a, b = ex.asarray(3.0), ex.asarray(1.0)
    assert float(compiled(a=a, b=b)) == float(compiled(b=b, a=a)) == 2.0
    assert len(calls) == 1


def test_arrays_of_numpy_and_pytorch_are_converted():
    f, calls = counted(lambda x, y: ex.exp(x) + y)
    compiled = ex.compile(f)
    x = np.arange(3.0)
    for k in range(3):
        same(compiled(x + k, np.float64(k)), ex.exp(ex.asarray(x + k)) + k)
    same(compiled(ex.asarray(x), ex.asarray(2.0)), ex.exp(ex.asarray(x)) + 2.0)
    assert len(calls) == 1
    torch = pytest.importorskip("torch")
    same(compiled(torch.arange(3.0, dtype=torch.float64), ex.asarray(2.0)), ex.exp(ex.asarray(x)) + 2.0)
    assert len(calls) == 1


def test_models_are_arguments():
    model = nn.Sequential(nn.Linear(ex.Key(1), 4, 8), ex.relu, nn.LayerNorm(8), nn.Linear(ex.Key(2), 8, 2))
    loss = lambda model, x: ex.sum(model(x) ** 2)  # noqa: E731
    compiled = ex.compile(ex.value_and_grad(loss))
    for seed in range(2):
        x = normal(seed, (3, 4))
        same(compiled(model, x), ex.value_and_grad(loss)(model, x))
        model = ex.tree.map(lambda p: p * 0.5, model)
    assert compiled.cache_size == 1


def test_methods_are_compiled_too():
    class Network(nn.Module):
        weight: ex.Tensor
        power: int = nn.static(2)

        @ex.compile
        def energy(self, x):
            return ex.sum((x @ self.weight) ** self.power)

    a, b = Network(normal(1, (3,))), Network(normal(2, (3,)))
    x = normal(3, (2, 3))
    for network in (a, b, a.replace(power=3), b.replace(power=3)):
        same(network.energy(x), ex.sum((x @ network.weight) ** network.power))
    assert Network.energy.cache_size == a.energy.cache_size == 2


# Training


class Network(nn.Module):
    first: nn.Linear
    norm: nn.BatchNorm2d
    drop: nn.Dropout
    last: nn.Linear

    def __init__(self, key):
        a, b = key.split()
        self.first, self.last = nn.Linear(a, 4, 8), nn.Linear(b, 8, 3)
        self.norm, self.drop = nn.BatchNorm2d(8), nn.Dropout(0.25)

    def forward(self, x, mode=nn.INFERENCE):
        y, norm = self.norm.forward(ex.tanh(self.first(x))[:, :, None, None], mode)
        return self.last(self.drop(y[:, :, 0, 0], mode)), self.replace(norm=norm)


OPTIMIZERS = {
    "sgd": optim.Sgd(0.1),
    "momentum": optim.Sgd(0.1, momentum=0.9, nesterov=True),
    "adam": optim.Adam(0.05, weight_decay=0.1),
    "adamw": optim.AdamW(0.05, no_decay=True, groups={"last.*": {"lr": 0.1}}),
    "amsgrad": optim.AdamW(0.05, amsgrad=True),
    "clipped": optim.AdamW(0.05, clip_norm=0.1, clip_value=0.5),
    "rmsprop": optim.RmsProp(0.01, momentum=0.5, centred=True),
    "adagrad": optim.Adagrad(0.1, lr_decay=0.1),
    "lion": optim.Lion(0.01),
}


def training_step(optimizer):
    def step(model, state, x, labels, key, lr=None):
        def loss(model):
            logits, model = model.forward(x, nn.Training(key))
            return nn.class_loss(logits, labels), model

        (value, model), grads = ex.value_and_grad(loss, has_aux=True)(model)
        model, state = optimizer.update(model, grads, state, lr=lr)
        return model, state, value

    return step


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_steps_have_the_bits_of_eager_ones_and_are_recorded_once(name):
    optimizer = OPTIMIZERS[name]
    step = training_step(optimizer)
    recorded, calls = counted(step)
    compiled = ex.compile(recorded)
    model = Network(ex.Key(1))
    eager = run = (model, optimizer.init(model))
    for k in range(5):
        x, labels, key = normal(k, (6, 4)), ex.asarray([0, 1, 2, 2, 1, 0]), ex.Key(100 + k)
        *eager, a = step(*eager, x, labels, key)
        *run, b = compiled(*run, x, labels, key)
        same(b, a)
        same(run[0], eager[0])
        same(run[1], eager[1])
        assert type(run[1].step) is int and run[1].step == k + 1
    assert (run[1].grad_norm is None) == (name != "clipped")
    assert len(calls) == 1


def test_learning_rates_may_be_tensors():
    optimizer = optim.AdamW(1.0)
    rate = schedule.cosine(0.1, 10)
    step = training_step(optimizer)
    recorded, calls = counted(step)
    compiled = ex.compile(recorded)
    model = Network(ex.Key(1))
    eager = run = (model, optimizer.init(model))
    for k in range(4):
        given = normal(k, (6, 4)), ex.asarray([0, 1, 2, 2, 1, 0]), ex.Key(k)
        *eager, _ = step(*eager, *given, lr=rate(k))
        *run, _ = compiled(*run, *given, lr=ex.asarray(rate(k)))
        same(run[0], eager[0])
    assert len(calls) == 1
    for wrong in (ex.asarray([0.1, 0.2]), ex.asarray(1)):
        with pytest.raises((TypeError, ValueError), match="learning rate"):
            compiled(*run, *given, lr=wrong)


def test_keys_are_inputs_and_results():
    def f(key, mode):
        a, b, c = key.split(3)
        drawn = a.normal((3,)), a.uniform((2,)), a.integers((4,), 10), b.permutation(7)
        return drawn, {"next": c, "more": [c.fold_in(5)]}, nn.Dropout(0.5)(ex.ones(20), mode), mode

    recorded, calls = counted(f)
    compiled = ex.compile(recorded)
    for seed in (1, 2, 2**64 - 1):
        got, want = compiled(ex.Key(seed), nn.Training(ex.Key(seed))), f(ex.Key(seed), nn.Training(ex.Key(seed)))
        same(got, want)
        assert got[1] == want[1] and got[3] == want[3]
    assert len(calls) == 1
    # A mode without a key is another thing.
    assert compiled(ex.Key(1), nn.INFERENCE)[3] == nn.INFERENCE and len(calls) == 2


def test_the_number_of_a_key_or_of_a_step_cannot_be_read():
    for f in (lambda key: key.seed, hash, pickle.dumps):
        with pytest.raises(TypeError, match="has no numbers yet"):
            ex.compile(f)(ex.Key(1))
    assert "recorded" in ex.compile(lambda key: repr(key))(ex.Key(1))
    state = optim.Adam(0.1).init(ex.ones(2))
    with pytest.raises(TypeError, match="has no numbers yet"):
        ex.compile(lambda state: schedule.cosine(0.1, 10)(state.step))(state)
    # As a tensor it can be computed with.
    lr = ex.compile(lambda state: 0.1 / (1.0 + state.step.astype("float64")))
    assert float(lr(state.replace(step=3))) == 0.1 / 4.0 and float(lr(state.replace(step=1))) == 0.1 / 2.0


def test_a_state_comes_back_as_it_was():
    state = optim.AdamW(0.1, clip_norm=1.0).init(ex.ones(2))
    f = ex.compile(lambda state: state)
    for given in (state, state.replace(step=7), state.replace(grad_norm=0.5), state.replace(grad_norm=math.inf)):
        same(f(given), given)
        assert f(given).grad_norm == given.grad_norm
    assert math.isnan(f(state.replace(grad_norm=math.nan)).grad_norm)
    assert f.cache_size == 1


# What is recorded again


def test_it_is_recorded_once_for_each_shape_dtype_form_and_value():
    f, calls = counted(lambda x, factor=2.0: ex.tree.map(lambda x: x * factor, x))
    compiled = ex.compile(f)
    x = ex.asarray([1.0, 2.0])
    kinds = [
        (x,), (ex.asarray([1.0]),), (x.astype("float32"),), ((x,),), ([x],), ({"a": x},), ({"b": x},), (x, 3.0),
        (x, 3), (x, 0.0), (x, -0.0), (x, math.nan), (x, math.inf),
    ]  # fmt: skip
    for _ in range(3):
        for args in kinds:
            assert repr(compiled(*args)) == repr(f.__wrapped__(*args))
    assert len(calls) == compiled.cache_size == len(kinds)


def test_plain_values_of_different_types_are_different():
    compiled = ex.compile(lambda x, kind: (x, repr(kind)))
    class Colour(enum.Enum):
        RED = 1

    for value in (1, True, 1.0, "1", None, (1,), [1], (True,), ..., Colour.RED, ex.float32, int, b"1", ex.relu):
        assert compiled(ex.ones(1), value)[1] == repr(value)
    assert compiled.cache_size == 14


def test_strided_tensors_are_the_same_program():
    f, calls = counted(lambda x: x + 1)
    compiled = ex.compile(f)
    x = normal(1, (4, 6))
    for view in (x[:2, :3], x[::2, ::2], x.T[:2, :3], ex.flip(x)[:2, :3], ex.broadcast_to(x[0, :3], (2, 3))):
        same(compiled(view), view + 1)
    assert len(calls) == 1


def test_the_least_recently_used_program_goes_and_a_warning_says_why():
    f, calls = counted(lambda x: ex.sum(x))
    compiled = ex.compile(f, limit=2)
    a, b, c = ex.ones(1), ex.ones(2), ex.ones(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(a), compiled(b), compiled(a)
    with pytest.warns(RuntimeWarning, match=r"recorded 3 times.*: 0 was float64\[1\] and is float64\[3\].*limit") as said:
        compiled(c)
    assert said[0].filename == __file__
    assert (len(calls), compiled.cache_size) == (3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        compiled(a), compiled(c)
        assert len(calls) == 3
        compiled(b)
    assert (len(calls), compiled.cache_size) == (4, 2)
    compiled.clear()
    assert compiled.cache_size == 0
    compiled(b)
    assert (len(calls), compiled.cache_size) == (5, 1)


@pytest.mark.parametrize("limit", [0, -1, 1.5, "many", True, None])
def test_a_limit_that_means_nothing_is_refused(limit):
    with pytest.raises(ValueError, match="limit"):
        ex.compile(ex.exp, limit=limit)


def test_what_is_not_hashable_is_refused_by_name():
    compiled = ex.compile(lambda x, s: x)
    with pytest.raises(TypeError, match="type set .* not hashable"):
        compiled(ex.ones(1), {1, 2})
    assert compiled(ex.ones(1), frozenset({1, 2})).tolist() == [1.0]


def test_a_tree_that_contains_itself_is_refused():
    tree = [ex.ones(1)]
    tree.append(tree)
    with pytest.raises(ValueError, match="contains itself"):
        ex.compile(lambda tree: tree[0])(tree)


def test_what_the_function_has_from_elsewhere_stays_what_it_was():
    factor = ex.asarray(2.0)
    f = ex.compile(lambda x: x * factor)
    assert float(f(ex.asarray(3.0))) == 6.0
    factor = ex.asarray(5.0)
    assert float(f(ex.asarray(3.0))) == 6.0
    f.clear()
    assert float(f(ex.asarray(3.0))) == 15.0


def test_the_numbers_of_the_first_call_are_not_kept():
    compiled = ex.compile(lambda model, x: (model, model(x)))
    model, x = nn.Linear(ex.Key(1), 3, 2), normal(1, (4, 3))
    dead = [weakref.ref(model.weight), weakref.ref(x)]
    compiled(model, x)
    del model, x
    gc.collect()
    assert [ref() for ref in dead] == [None, None]
    assert compiled.cache_size == 1


# What cannot be recorded


#: Every way by which Python takes numbers out of a tensor, and shapes that depend on them.
WAYS = {
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "float": float,
    "int": int,
    "bool": bool,
    "if": lambda x: 1 if x else 0,
    "comparison": lambda x: 1 if x > 0 else 0,
    "and": lambda x: x > 0 and x < 1,
    "complex": complex,
    "index": lambda x: [1, 2, 3][x.astype("int64")],
    "range": lambda x: range(x.astype("int64")),
    "math.sin": math.sin,
    "format": lambda x: f"{x:.3f}",
    "numpy.asarray": np.asarray,
    "numpy.array": np.array,
    "numpy.add": lambda x: np.add.reduce(x, axis=None),
    "__array__": lambda x: x.__array__(),
    "__array_interface__": lambda x: x.__array_interface__,
    "numpy()": lambda x: x.numpy(),
    "__dlpack__": lambda x: x.__dlpack__(),
    "from_dlpack": ex.from_dlpack,
    "pickle": pickle.dumps,
    "a parameter": lambda x: ex.leaky_relu(ex.ones(2), x),
    "full": lambda x: ex.full((2,), x),
    "nonzero": lambda x: ex.nonzero(ex.stack([x])),
    "a mask": lambda x: ex.stack([x, x])[ex.stack([x, x]) > 0],
    "unique": lambda x: ex.unique_values(ex.stack([x])),
    "repeat": lambda x: ex.repeat(ex.ones(1), ex.stack([x]).astype("int64")),
    "within a derivative": ex.grad(lambda x: x * float(x)),
    "all_finite": lambda x: ex.gradients.all_finite([x]),
    "debug": lambda x: ex.debug.finite(ex.exp, x),
    "a minimiser": lambda x: optim.Lbfgs().minimize(lambda y: (x - y) ** 2, ex.asarray(0.0)).model,
    "check_grad": lambda x: ex.check_grad(ex.sin, x),
    "save": lambda x: ex.io.save_npy("/nowhere/x.npy", x),
    "assert_close": lambda x: ex.assert_close(x, x),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_cannot_be_recorded_is_an_error_that_leaves_everything_usable(way):
    f = ex.compile(lambda x: WAYS[way](x))
    x = ex.asarray(1.0)
    for _ in range(2):
        with pytest.raises(Exception) as raised:
            f(x)
        assert isinstance(raised.value, (TypeError, ValueError)), repr(raised.value)
        if isinstance(raised.value, TypeError) and way not in ("full",):
            assert "compile is recording" in str(raised.value), raised.value
    assert f.cache_size == 0
    same(ex.compile(ex.exp)(x), ex.exp(x))
    assert float(ex.grad(ex.sin)(x)) == math.cos(1.0)


def test_the_error_names_the_callers_line_and_what_to_do_instead():
    def f(x):
        y = ex.sum(x)
        if y > 0:  # the line
            return x
        return -x

    with pytest.raises(TypeError) as raised:
        ex.compile(f)(ex.ones(2))
    text = str(raised.value)
    line = inspect.getsourcelines(f)[1] + 2
    assert text.startswith("bool: the tensor has no numbers yet")
    assert f"(test_compile.py, line {line}: if y > 0:  # the line)" in text
    assert "extensor.where instead of if" in text and "outside of the compiled function" in text
    assert raised.traceback[-1].lineno == line - 1


def test_a_layer_of_the_package_does_not_hide_the_callers_line():
    def f(x):
        return nn.Sequential(lambda x: x, lambda x: x * float(x))(x)

    with pytest.raises(TypeError, match=r"test_compile.py, line \d+: return nn.Sequential"):
        ex.compile(f)(ex.asarray(1.0))


def test_exceptions_come_out_as_they_were_raised():
    class Own(Exception):
        pass

    error = Own("mine")
    failing = True

    @ex.compile
    def f(x):
        y = ex.exp(x)
        if failing:
            raise error
        return y

    with pytest.raises(Own) as raised:
        f(ex.ones(2))
    assert raised.value is error and f.cache_size == 0
    with pytest.raises(ValueError, match="add: "):
        ex.compile(lambda x: x + ex.ones(3))(ex.ones(2))
    failing = False
    same(f(ex.ones(2)), ex.exp(ex.ones(2)))


def test_errors_of_a_run_are_those_of_the_eager_call_and_the_next_run_works():
    f = lambda x, index: ex.gather(x, index, 0)  # noqa: E731
    compiled = ex.compile(f)
    x = ex.asarray([1.0, 2.0, 3.0])
    for index in ([0, 2], [0, 3], [1, 1], [-7, 0]):
        index = ex.asarray(index)
        try:
            want = f(x, index)
        except IndexError as error:
            with pytest.raises(IndexError) as raised:
                compiled(x, index)
            assert str(raised.value) == str(error)
        else:
            same(compiled(x, index), want)
    divide = ex.compile(lambda a, b: a // b)
    assert divide(ex.asarray([4]), ex.asarray([2])).tolist() == [2]
    with pytest.raises(ZeroDivisionError):
        divide(ex.asarray([4]), ex.asarray([0]))


def test_indices_are_checked_when_the_program_runs():
    compiled = ex.compile(lambda x, i, j: (x[i], x[i, j], ex.take(x, i, axis=0), ex.take_along_axis(x, ex.stack([i]), axis=0)))
    x = normal(1, (3, 2))
    for i, j in (([0, -1], [1, 0]), ([2, -3], [-2, -1])):
        i, j = ex.asarray(i), ex.asarray(j)
        same(compiled(x, i, j), (x[i], x[i, j], ex.take(x, i, axis=0), ex.take_along_axis(x, ex.stack([i]), axis=0)))
    for i, j in (([0, 3], [0, 0]), ([-4, 0], [0, 0]), ([0, 0], [2, 0]), ([0, 0], [0, -3])):
        with pytest.raises(IndexError):
            compiled(x, ex.asarray(i), ex.asarray(j))
    assert compiled.cache_size == 1


def test_a_tensor_that_outlives_its_recording_can_be_printed_and_not_used():
    kept = []

    @ex.compile
    def f(x):
        kept.append(ex.exp(x))
        return x

    f(ex.ones(2))
    assert kept[0].is_recorded and not ex.ones(2).is_recorded
    assert repr(kept[0]) == "Tensor([...], dtype=float64, shape=(2,))"
    for use in (ex.exp, lambda x: x.tolist(), lambda x: x + ex.ones(2), ex.compile(ex.exp)):
        with pytest.raises(TypeError, match="no numbers"):
            use(kept[0])
    with pytest.raises(TypeError, match="no numbers"):
        ex.compile(lambda x: x + kept[0])(ex.ones(2))


# Within derivatives, within each other, on threads


def test_within_derivatives_a_call_is_a_call_of_the_function():
    f, calls = counted(mixed)
    compiled = ex.compile(f)
    x = normal(1, (4, 4))
    same(ex.grad(compiled)(x), ex.grad(mixed)(x))
    same(ex.jvp(compiled, (x,), (x,)), ex.jvp(mixed, (x,), (x,)))
    same(ex.hvp(compiled, x, x), ex.hvp(mixed, x, x))
    assert compiled.cache_size == 0 and len(calls) >= 3
    same(ex.grad(ex.checkpoint(compiled))(x), ex.grad(mixed)(x))
    assert ex.check_grad(compiled, x.astype("float64"))


def test_within_each_other_a_call_is_a_call_of_the_function():
    inner = ex.compile(mixed)
    outer = ex.compile(lambda x: ex.grad(lambda x: inner(x) * 2)(x))
    x = normal(1, (4, 4))
    same(outer(x), ex.grad(lambda x: mixed(x) * 2)(x))
    assert (outer.cache_size, inner.cache_size) == (1, 0)
    # Also with arguments that are not recorded, beside something from outside that is.
    same(ex.compile(lambda x: ex.compile(lambda y: y * x)(ex.ones(2)))(ex.asarray(3.0)), ex.ones(2) * 3.0)


def test_no_gradient_by_something_from_outside_is_lost():
    x = ex.asarray([1.0, 2.0])
    inner = lambda w: ex.compile(lambda x: ex.sum(x * w))(x)  # noqa: E731
    assert float(ex.grad(inner)(2.0)) == 3.0
    assert float(ex.jvp(inner, (2.0,), (1.0,))[1]) == 3.0


def test_recursion_and_calls_of_oneself():
    @ex.compile
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    assert float(power(ex.asarray(2.0), 5)) == 32.0
    assert power.cache_size == 1


def test_threads_may_call_at_the_same_time():
    f = ex.compile(ex.grad(mixed), limit=4)
    wrong = []

    def work(seed):
        for k in range(20):
            x = normal(100 * seed + k, (4 + k % 3, 4))
            try:
                same(f(x), ex.grad(mixed)(x))
            except BaseException as error:
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and f.cache_size == 3


def test_other_threads_run_meanwhile():
    f = ex.compile(lambda x: functools.reduce(lambda y, _: ex.tanh(y * x), range(40), x))
    x = normal(1, (1 << 20,))
    f(x)
    count, done = [0], threading.Event()

    def tick():
        while not done.is_set():
            count[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    started, before = time.perf_counter(), count[0]
    while time.perf_counter() - started < 0.3:
        f(x)
    done.set()
    thread.join()
    assert count[0] - before > 20


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_ends_a_run_and_the_next_one_works():
    program = textwrap.dedent(
        """
        import signal, threading, time, os
        import extensor as ex
        f = ex.compile(lambda x, n: ex.sum(ex.sin(ex.broadcast_to(x, (n, 1 << 20)))))
        assert float(f(ex.zeros(1 << 20), 2)) == 0.0
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        started = time.perf_counter()
        try:
            f(ex.zeros(1 << 20), 1 << 20)
        except KeyboardInterrupt:
            pass
        else:
            raise SystemExit("it went on")
        assert time.perf_counter() - started < 10
        assert float(f(ex.zeros(1 << 20), 2)) == 0.0
        print("well", f.cache_size)
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("well"), done.stdout + done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_while_it_is_recorded_is_raised():
    @ex.compile
    def f(x):
        y = ex.exp(x)
        if slow:
            signal.raise_signal(signal.SIGINT)
            for _ in range(1000):
                time.sleep(0.01)
        return y

    slow = True
    with pytest.raises(KeyboardInterrupt):
        f(ex.ones(2))
    slow = False
    same(f(ex.ones(2)), ex.exp(ex.ones(2)))


# The object


def test_it_is_a_function_and_a_decorator():
    @ex.compile
    def plain(x):
        """What it does."""
        return x + 1

    @ex.compile(limit=3)
    def told(x, *, by: float = 2.0):
        return x * by

    assert plain.__name__ == "plain" and plain.__doc__ == "What it does." and plain.__module__ == __name__
    assert plain.__wrapped__(ex.ones(1)).tolist() == plain(ex.ones(1)).tolist() == [2.0]
    assert str(inspect.signature(told)) == "(x, *, by: float = 2.0)"
    assert (plain.limit, told.limit) == (16, 3)
    assert isinstance(plain, ex.Compiled) and ex.compile()(ex.exp)(ex.zeros(1)).tolist() == [1.0]
    assert repr(plain).endswith("plain), 1 program>") and repr(told).endswith("told), 0 programs>")
    with pytest.raises(TypeError, match="takes a function"):
        ex.compile(3)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        plain()


def test_it_can_be_copied_and_not_pickled():
    f = ex.compile(ex.exp)
    assert copy.copy(f) is f and copy.deepcopy({"f": f})["f"] is f
    with pytest.raises(TypeError, match="cannot be pickled: pickle the function"):
        pickle.dumps(f)


def test_explain_says_what_was_recorded():
    f = ex.compile(lambda x, n, key=None: ex.sum(ex.tanh(x) * n))
    assert "nothing is recorded yet" in f.explain()
    f(ex.ones((2, 3)), 2.0)
    f(ex.ones((4,), dtype="float32"), 3, key=ex.Key(1))
    first, second = f.explain().split("\n\n")
    assert first.startswith("for 0: float64[2, 3], 1: 2.0\n") and "tanh" in first
    assert second.startswith("for 0: float32[4], 1: 3, key: a key\n") and "float32[4]" in second
    assert "f64" not in f.explain()


def test_graph_draws_what_was_used_last():
    import xml.etree.ElementTree

    f = ex.compile(lambda x: ex.softmax(ex.tanh(x) @ x))
    with pytest.raises(ValueError, match="nothing is recorded yet"):
        f.graph()
    f(ex.ones((2, 2)))
    drawing = xml.etree.ElementTree.fromstring(f.graph())
    assert drawing.tag.endswith("svg") and "softmax" in f.graph()


def test_empty_tensors_and_scalars_and_no_arguments_are_compiled_too():
    f = lambda x: (ex.sum(ex.exp(x)), x + 1.0)  # noqa: E731
    compiled = ex.compile(f)
    for x in (ex.asarray(2.0), ex.zeros((0, 3)), ex.zeros(0)):
        same(compiled(x), f(x))
    assert ex.compile(lambda: ex.ones(2))().tolist() == [1.0, 1.0]
    assert ex.compile(lambda: 3)() == 3
