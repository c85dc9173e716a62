"""Functions on Python functions: trees, nesting, rules of one's own, errors."""

import collections
import dataclasses
import pickle
import threading

import numpy as np
import pytest

import extensor as ex


def test_gradients_come_back_in_the_arguments_form():
    Point = collections.namedtuple("Point", "x y")

    @dataclasses.dataclass
    class Line:
        weight: ex.Tensor
        bias: ex.Tensor
        name: str = "line"
        scale: float = 2.0

    tree = {
        "list": [ex.asarray(1.0), ex.asarray([2.0, 3.0])],
        "tuple": (ex.asarray(4.0), "text", None),
        "point": Point(ex.asarray(5.0), 6.0),
        "line": Line(ex.asarray([7.0]), ex.asarray(8.0)),
        "numpy": np.asarray([9.0]),
    }
    grads = ex.grad(lambda t: sum(ex.sum(x * x) for x in ex.tree.leaves(t)))(tree)
    assert grads["list"][1].tolist() == [4.0, 6.0]
    assert grads["tuple"][0].item() == 8.0 and grads["tuple"][1:] == ("text", None)
    assert type(grads["point"]) is Point and grads["point"].y.item() == 12.0
    assert type(grads["line"]) is Line and grads["line"].name == "line" and grads["line"].scale == 2.0
    assert grads["line"].weight.tolist() == [14.0] and grads["numpy"].tolist() == [18.0]
    assert list(ex.tree.named_leaves(tree))[:3] == ["list.0", "list.1", "tuple.0"]


def test_several_arguments_auxiliary_results_and_keywords():
    def f(w, x, *, power=2):
        y = ex.sum(w * x**power)
        return y, {"y": y, "note": "kept", "w": w}

    x = ex.asarray([1.0, 2.0])
    (value, aux), (dw, dx) = ex.value_and_grad(f, argnums=(0, 1), has_aux=True)(x, x, power=3)
    assert value.item() == 17.0 and aux["note"] == "kept" and not aux["w"].is_traced
    assert dw.tolist() == [1.0, 8.0] and dx.tolist() == [3.0, 24.0]
    assert ex.grad(f, argnums=-1, has_aux=True)(x, x)[0].tolist() == [2.0, 8.0]
    with pytest.raises(ValueError, match="argnums"):
        ex.grad(f, argnums=2)(x, x)


def test_the_classic_traps():
    f = lambda x: x * ex.grad(lambda y: x + y)(ex.asarray(1.0))  # noqa: E731
    assert ex.grad(f)(2.0).item() == 1.0
    assert ex.grad(ex.grad(ex.grad(lambda x: x**4)))(2.0).item() == 48.0
    g = lambda x: ex.sin(x) * x  # noqa: E731
    one = ex.jvp(ex.grad(g), (1.5,), (1.0,))[1]
    two = ex.grad(lambda x: ex.jvp(g, (x,), (ex.asarray(1.0),))[1])(1.5)
    assert one.item() == pytest.approx(two.item(), rel=1e-14)
    outer = ex.asarray(3.0)
    assert ex.grad(lambda x: ex.grad(lambda y: x * y * outer)(x))(2.0).item() == 3.0
    assert ex.grad(lambda x: ex.sum(x @ x))(ex.eye(2)).tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_jacobians_of_both_modes_agree_and_hessians_are_symmetric():
    x = ex.asarray([0.5, -1.0, 2.0])
    f = lambda x: ex.stack([ex.sum(x * x), ex.prod(x)])  # noqa: E731
    rows, columns = ex.jacobian(f, mode="reverse")(x), ex.jacobian(f, mode="forward")(x)
    np.testing.assert_allclose(rows, columns, rtol=1e-14)
    assert rows.shape == (2, 3) and ex.jacobian(f)(x).tolist() == rows.tolist()
    h = np.asarray(ex.hessian(lambda x: ex.prod(ex.exp(x)) + ex.sum(x**3))(x))
    np.testing.assert_allclose(h, h.T, rtol=1e-12)
    v = ex.asarray([1.0, 2.0, 3.0])
    np.testing.assert_allclose(ex.hvp(lambda x: ex.prod(ex.exp(x)) + ex.sum(x**3), x, v), h @ np.asarray(v))
    tree = ex.jacobian(lambda t: {"y": t["a"] * t["b"]})({"a": x, "b": ex.asarray(2.0)})
    assert tree["y"]["a"].shape == (3, 3) and tree["y"]["b"].tolist() == x.tolist()
    y, along = ex.linearize(f, x)
    np.testing.assert_allclose(along(v), np.asarray(rows) @ np.asarray(v), rtol=1e-14)


def test_checkpointed_gradients_have_the_same_bits_and_run_twice():
    calls = []

    def block(x, w):
        calls.append(1)
        return ex.tanh(x @ w)

    w, x = ex.Key(1).normal((8, 8), ex.float64), ex.Key(2).normal((4, 8), ex.float64)
    plain = ex.grad(lambda w: ex.sum(block(block(x, w), w)))(w)
    calls.clear()
    again = ex.grad(lambda w: ex.sum(ex.checkpoint(block)(ex.checkpoint(block)(x, w), w)))(w)
    assert plain.tolist() == again.tolist() and len(calls) == 4


def test_a_function_with_a_backward_function_of_its_own():
    seen = []

    def forward(x, y):
        return ex.exp(x) * y, {"e": ex.exp(x), "y": y}

    def backward(saved, g):
        seen.append(type(saved))
        return g * saved["e"] * saved["y"], g * saved["e"]

    f = ex.custom_vjp(forward, backward)
    x, y = ex.asarray(0.5), ex.asarray(3.0)
    dx, dy = ex.grad(f, argnums=(0, 1))(x, y)
    assert dx.item() == pytest.approx(3 * np.exp(0.5)) and dy.item() == pytest.approx(np.exp(0.5)) and seen == [dict]
    assert ex.grad(ex.grad(f))(x, y).item() == pytest.approx(3 * np.exp(0.5))
    assert f(x, y).item() == pytest.approx(3 * np.exp(0.5))
    rule = ex.custom_jvp(ex.abs, lambda args, tangents: ex.sign(args[0]) * tangents[0])
    assert ex.grad(rule)(-3.0).item() == -1.0 and ex.jvp(rule, (-3.0,), (2.0,))[1].item() == -2.0
    wrong = ex.custom_vjp(forward, lambda saved, g: g)
    with pytest.raises(ValueError, match="2 gradients"):
        ex.grad(wrong)(x, y)


def test_stop_gradient_ends_differentiation_and_nothing_leaves_in_silence():
    assert ex.grad(lambda x: ex.stop_gradient(x) * x)(3.0).item() == 3.0
    for leave in (np.asarray, np.from_dlpack, lambda x: x.numpy(), pickle.dumps):
        with pytest.raises(TypeError, match="stop_gradient"):
            ex.grad(lambda x: (leave(x), x)[1])(1.0)
    inspected = []
    ex.grad(lambda x: (inspected.append((float(ex.stop_gradient(x)), x > 0, repr(x))), x * x)[1])(1.5)
    assert inspected[0][0] == 1.5


def test_what_a_function_raises_comes_back_as_it_was():
    class Own(Exception):
        pass

    def f(x):
        raise Own("mine")

    for call in (
        lambda: ex.grad(f)(1.0), lambda: ex.vjp(f, 1.0), lambda: ex.jvp(f, (1.0,), (1.0,)),
        lambda: ex.checkpoint(f)(ex.asarray(1.0)), lambda: ex.grad(ex.checkpoint(f))(1.0),
        lambda: ex.grad(ex.custom_vjp(lambda x: (x, None), lambda s, g: f(g)))(1.0),
        lambda: ex.grad(ex.grad(f))(1.0),
    ):
        with pytest.raises(Own, match="mine"):
            call()
    assert ex.grad(lambda x: x * x)(1.0).item() == 2.0  # and nothing is left over


def test_errors_are_of_the_right_class_and_say_what_is_wrong():
    x = ex.asarray([1.0, 2.0])
    with pytest.raises(TypeError, match="float"):
        ex.grad(ex.sum)(ex.asarray([1, 2]))
    with pytest.raises(ValueError, match="one number"):
        ex.grad(lambda x: x)(x)
    with pytest.raises(TypeError, match="expected a 0-d tensor"):
        ex.grad(lambda x: 3)(x)
    with pytest.raises(ValueError, match="broadcast"):
        x + ex.ones(3)
    with pytest.raises(IndexError, match="axis 5"):
        ex.sum(x, axis=5)
    with pytest.raises(TypeError, match="no argument"):
        ex.relu(x, slope=1)
    with pytest.raises(ValueError, match="gradients"):
        ex.vjp(ex.exp, x)[1]((x, x))
    with pytest.raises(ZeroDivisionError):
        ex.asarray([1]) // ex.asarray([0])
    with pytest.raises(IndexError, match="class index 7"):
        ex.cross_entropy(ex.ones((1, 3)), ex.asarray([7]))


def test_a_parameter_that_is_not_used_has_a_zero_gradient_and_can_be_asked_for():
    grads = ex.grad(lambda t: ex.sum(t["used"]))({"used": ex.ones(2), "idle": ex.ones((2, 2))})
    assert grads["idle"].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    _, pullback = ex.vjp(lambda a, b: a * 2, ex.ones(1), ex.ones(1))
    assert pullback.unused() == [1]


def test_threads_differentiate_side_by_side():
    w = ex.Key(0).normal((64, 64), ex.float64)
    want = ex.grad(lambda w: ex.sum(ex.tanh(w @ w)))(w).tolist()
    found = []

    def work():
        for _ in range(5):
            found.append(ex.grad(lambda w: ex.sum(ex.tanh(w @ w)))(w).tolist() == want)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert found == [True] * 20


def test_an_argument_without_a_derivative_is_named_before_the_function_is_called():
    def called(*args):
        raise AssertionError

    whole = ex.asarray([3])
    for f, args, message in [
        (ex.grad(called), (3,), "grad: argument 0 is a Python int: write 3.0"),
        (ex.grad(called, argnums=(0, -1)), (3.0, 4), "grad: argument 1 is a Python int: write 4.0"),
        (ex.grad(called), (whole,), "grad: argument 0 has dtype int64"),
        (ex.grad(called), ({"a": [1.0, whole]},), "grad: argument 0, a.1, has dtype int64"),
        (ex.value_and_grad(called), (whole,), "value_and_grad: argument 0 has dtype int64"),
        (ex.jacobian(called), (whole,), "jacobian: argument 0 has dtype int64"),
    ]:
        with pytest.raises(TypeError, match=message):
            f(*args)
    # A number beside tensors is part of the tree's form.
    assert ex.grad(lambda p: p["w"] * p["n"])({"w": 3.0, "n": 2})["w"].tolist() == 2.0
