"""Right gradients pass, wrong ones are caught and named, whatever library they are written in."""

import functools
import inspect
import math
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

import extensor as ex
from extensor import nn

rng = np.random.default_rng(7)


def normal(*shape):
    return rng.normal(size=shape)


# -- Right pairs, written by hand with NumPy.


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax_backward(g, x):
    y = softmax(x)
    return y * (g - (g * y).sum(-1, keepdims=True))


def layer_norm(x, weight, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + bias


def layer_norm_backward(g, x, weight, bias):
    centred = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    unit = centred * scale
    h = g * weight
    dx = scale * (h - h.mean(-1, keepdims=True) - unit * (h * unit).mean(-1, keepdims=True))
    return dx, (g * unit).sum(0), g.sum(0)


def matmul(a, b):
    return a @ b


def matmul_backward(g, a, b):
    return g @ b.T, a.T @ g


def conv1d(x, kernel):
    n = x.size - kernel.size + 1
    return np.array([x[i : i + kernel.size] @ kernel for i in range(n)])


def conv1d_backward(g, x, kernel):
    dx = np.zeros_like(x)
    for i, value in enumerate(g):
        dx[i : i + kernel.size] += value * kernel
    dk = np.array([x[k : k + g.size] @ g for k in range(kernel.size)])
    return dx, dk


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_backward_of_erf(g, x):
    erf = np.vectorize(math.erf)
    return g * (0.5 * (1 + erf(x / math.sqrt(2))) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))


RIGHT = {
    "softmax": (softmax, softmax_backward, (normal(3, 5),)),
    "layer_norm": (layer_norm, layer_norm_backward, (normal(4, 6), normal(6), normal(6))),
    "matmul": (matmul, matmul_backward, (normal(2, 3), normal(3, 4))),
    "conv1d": (conv1d, conv1d_backward, (normal(9), normal(3))),
    "loss": (lambda x: (x**2).mean(), lambda g, x: g * 2 * x / x.size, (normal(5),)),
    "zero-d": (np.sin, lambda g, x: g * np.cos(x), (np.array(0.3),)),
    "scalar": (np.sin, lambda g, x: g * np.cos(x), (np.float64(0.3),)),
    "float": (math.sin, lambda g, x: g * math.cos(x), (0.3,)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_pair_passes(name):
    f, backward, inputs = RIGHT[name]
    report = ex.check_gradient(f, backward, *inputs)
    assert report.passed and bool(report), report
    assert report.checked == report.elements == sum(np.size(x) for x in inputs)
    assert report.problems == [] and report.worst.error <= report.worst.tolerance
    assert "the gradient is right" in str(report)
    report.raise_if_failed()


def test_functions_get_what_was_given():
    seen = []

    def f(x, y, z):
        seen.append((type(x), type(y), type(z)))
        return float(x.sum()) * y * 2.0 + float(z)

    ex.check_gradient(
        f, lambda g, x, y, z: (np.full(3, g * y * 2), g * 2 * x.sum(), None), normal(3), 0.5, ex.asarray(2.0)
    )
    assert set(seen) == {(np.ndarray, float, ex.Tensor)}


# -- Planted errors: caught, and named.

square = normal(3, 3)
PLANTED = [
    ("factor", np.square, lambda g, x: g * x, (normal(4),), "constant factor 0.5 everywhere"),
    ("sign", np.cos, lambda g, x: g * np.sin(x), (normal(4),), "sign is swapped"),
    ("zero", np.cos, lambda g, x: 0 * x, (normal(4),), "zero where it should not be"),
    ("a zero", np.sin, lambda g, x: g * np.cos(x) * (np.arange(4) != 2), (normal(4),), "a term is missing there"),
    ("transposed", lambda a: a @ square, lambda g, a: (g @ square.T).T, (normal(3, 3),), "transposed"),
    ("transposed shape", matmul, lambda g, a, b: (g @ b.T, g.T @ a), (normal(2, 3), normal(3, 4)), "transposed"),
    ("broadcast", np.add, lambda g, x, b: (g, g), (normal(2, 3), normal(3)), "missing broadcast sum: .* axis 0"),
    ("kept axis", np.add, lambda g, x, b: (g, g), (normal(2, 3), normal(2, 1)), "sum over axis 1"),
    ("grad_output", np.sin, lambda g, x: np.cos(x), (normal(4),), "does not use grad_output"),
    ("not linear", np.sin, lambda g, x: g * g * np.cos(x), (normal(4),), "not linear in grad_output"),
    ("mean", lambda x: x.mean(), lambda g, x: g * np.ones(5), (normal(5),), "factor 5 .*division is missing"),
    ("sum as mean", lambda x: x.sum(), lambda g, x: g * np.ones(5) / 5, (normal(5),), "1 over the size of axis 0"),
    ("flipped", lambda k: conv1d(normal_9, k), lambda g, k: conv1d_backward(g, normal_9, k)[1][::-1],
     (normal(3),), "flipped"),
    ("dropped term", softmax, lambda g, x: g * softmax(x), (normal(2, 4),), "another function"),
    ("1 %", np.exp, lambda g, x: 1.01 * g * np.exp(x), (normal(4),), "constant factor 1.01 everywhere"),
    ("constant", lambda x: (x**2).sum(), lambda g, x: g * 2 * x + 0.1 * g, (normal(5),), "same amount everywhere"),
    ("one place", lambda x: np.sin(x), lambda g, x: g * np.cos(x) * (1 + (np.arange(12) == 7).reshape(3, 4)),
     (normal(3, 4),), "wrong at 1 of 12 elements of x"),
    ("one column", lambda x: np.exp(x), lambda g, x: g * np.exp(x) * np.array([1, 1, 1, 3.0]),
     (normal(3, 4),), "index along axis 1 of x is 3"),
    ("one argument", layer_norm, lambda g, x, w, b: (*layer_norm_backward(g, x, w, b)[:2], g.sum(0) * 2),
     (normal(4, 6), normal(6), normal(6)), "factor 2 everywhere; only in bias: the gradients for x, weight are right"),
    ("mean over the batch", lambda x, b: x + b, lambda g, x, b: (g, g.mean(0)), (normal(3, 4), normal(4)),
     r"0.3333 everywhere \(1 over the size of axis 0 of x.*; only in b"),
    ("gelu", gelu, gelu_backward_of_erf, (normal(6),), "approximation"),
]
normal_9 = normal(9)


@pytest.mark.parametrize("name, f, backward, inputs, hint", PLANTED, ids=[p[0] for p in PLANTED])
def test_a_planted_error_is_caught_and_named(name, f, backward, inputs, hint):
    report = ex.check_gradient(f, backward, *inputs)
    assert not report.passed and not report
    assert re.search(hint, report.hint), str(report)
    assert report.hint in " ".join(str(report).split())
    with pytest.raises(AssertionError, match="It looks like this"):
        ex.assert_gradient(f, backward, *inputs)


def test_the_report_says_where_and_by_how_much():
    report = ex.check_gradient(np.square, lambda g, x: g * x, np.array([[1.0, 2.0]]), cotangent=np.array([[1.0, 10.0]]))
    worst = report.worst
    assert worst.argument in ("x", "input 0") and worst.index in ((0, 0), (0, 1))
    assert worst.analytic == pytest.approx(10 * 2.0 if worst.index[1] else 1.0)
    assert worst.numeric == pytest.approx(2 * worst.analytic, rel=1e-6)
    assert worst.error == pytest.approx(worst.analytic, rel=1e-6) and worst.tolerance < 1e-5
    assert report.problem == "wrong" and len(report.problems) == 1 and len(report.comparisons) == 2
    errors = [step.error for step in report.steps]
    assert len(errors) == 15 and max(errors) / min(errors) < 1.01, "a plateau"
    assert "WRONG GRADIENT at 2 of 2 elements" in str(report) and "●" in str(report)
    assert "a plateau" in report.text  # the Rust library's own words


def test_a_wrong_number_of_gradients_is_reported():
    report = ex.check_gradient(matmul, lambda g, a, b: g @ b.T, normal(2, 3), normal(3, 4))
    assert report.problem == "count" and "1 gradients, expected 2" in str(report)
    report = ex.check_gradient(np.sin, lambda g, x: (g, g, g), normal(2))
    assert report.problem == "count"


# -- What a fast check may miss.


def test_the_erf_backward_of_a_tanh_gelu_is_caught_in_every_mode():
    for size in (3, 100, 10_000):
        x = np.random.default_rng(0).normal(size=size)
        for mode in ("full", "fast") if size <= 100 else ("fast",):
            report = ex.check_gradient(gelu, gelu_backward_of_erf, x, mode=mode)
            assert report.problem == "wrong", report


# -- ExTensor.


def test_functions_made_of_operations_are_checked():
    x = ex.asarray([[0.3, -0.8], [1.2, 0.1]])
    assert ex.check_grad(lambda x: ex.exp(ex.sin(x)), x, order=2)
    assert ex.check_grad(lambda p: p["w"] @ p["w"] * p["c"], {"w": x, "c": 0.5})
    assert ex.check_grad(lambda x: ex.exp(x), np.array([0.1, 0.2]))
    assert ex.check_gradient(ex.tanh, lambda g, x: g * (1 - ex.tanh(x) ** 2), x)


def test_a_wrong_custom_vjp_is_caught():
    wrong = ex.custom_vjp(lambda x: (ex.sin(x), x), lambda x, g: g * ex.sin(x))
    report = ex.check_grad(wrong, ex.asarray([0.3, 0.8]))
    assert report.problem == "wrong"
    right = ex.custom_vjp(lambda x: (ex.sin(x), x), lambda x, g: g * ex.cos(x))
    report = ex.check_grad(right, ex.asarray([0.3, 0.8]))
    assert report.passed and "forward mode was not checked" in str(report)


def test_a_numpy_function_given_to_check_grad_is_refused_with_the_way_out():
    for f in (np.cbrt, lambda x: np.dot(x, x), lambda x: np.asarray(x) * 2.0):
        with pytest.raises(TypeError, match=r"check_gradient\(f, f_backward, \*inputs\)"):
            ex.check_grad(f, normal(3))
    with pytest.raises(TypeError, match="returned float, not a tensor"):
        ex.check_grad(math.sin, 0.5)


# -- dtypes.


def test_float32_is_checked_in_float64_where_the_functions_can():
    x = normal(3, 5).astype(np.float32)
    report = ex.check_gradient(softmax, softmax_backward, x)
    assert report.passed and report.dtype == "float64" and "checked in float64" in str(report)
    assert not ex.check_gradient(softmax, lambda g, x: softmax_backward(g, x) * (1 + 1e-5), x)


def test_float32_is_held_to_float64_on_request():
    x = normal(3, 5).astype(np.float32)
    report = ex.check_gradient(np.sin, lambda g, x: g * np.cos(x), x, dtype="float32")
    assert report.passed and report.dtype == "float32"
    assert not ex.check_gradient(np.sin, lambda g, x: g * np.cos(x) * 1.01, x, dtype="float32")


def test_a_function_that_only_computes_in_float32_is_checked_in_it():
    f = lambda x: np.sin(x.astype(np.float32))
    backward = lambda g, x: g * np.cos(x.astype(np.float32))
    x = normal(8).astype(np.float32)
    report = ex.check_gradient(f, backward, x)
    assert report.passed and report.dtype == "float32", report
    assert "differences in float32" in str(report)
    assert not ex.check_gradient(f, lambda g, x: backward(g, x) * 1.2, x)


def test_a_function_that_narrows_its_inputs_is_checked_as_well_as_it_can_be():
    f = lambda x: np.sin(x.astype(np.float32))
    report = ex.check_gradient(f, lambda g, x: g * np.cos(x), normal(8))
    assert report.passed and "compute in float32" in str(report), report
    assert not ex.check_gradient(f, lambda g, x: 1.2 * g * np.cos(x), normal(8))


def test_integers_stay_as_they_are():
    def take(table, rows, scale):
        return table[rows] * scale

    def take_backward(g, table, rows, scale):
        grad = np.zeros_like(table)
        np.add.at(grad, rows, g * scale)
        return grad, None, (g * table[rows]).sum()

    args = normal(4, 2), np.array([1, 1, 3]), 0.5
    report = ex.check_gradient(take, take_backward, *args)
    assert report.passed and report.elements == 9
    # Gradients for the float inputs alone will do.
    assert ex.check_gradient(take, lambda *a: take_backward(*a)[::2], *args)
    wrong = lambda g, table, rows, scale: (np.zeros_like(table), None, (g * table[rows]).sum())
    assert "only in table" in ex.check_gradient(take, wrong, *args).hint
    with pytest.raises(ValueError, match="nothing to differentiate by"):
        ex.check_gradient(np.sin, np.cos, np.array([1, 2]))


def test_an_input_whose_gradient_is_none_is_said_not_to_be_checked():
    report = ex.check_gradient(np.multiply, lambda g, a, b: (g * b, None), normal(3), normal(3))
    assert report.passed and report.elements == 3 and "not checked: input 1" in str(report).replace("x2", "input 1")
    report = ex.check_gradient(np.sin, lambda g, x: None, normal(3))
    assert not report.passed and report.problem == "nothing checked"


def test_a_check_of_nothing_does_not_pass():
    report = ex.check_gradient(np.sin, lambda g, x: g * np.cos(x), np.zeros((0, 3)))
    assert report.problem == "nothing checked" and "the inputs have no elements" in str(report)
    for report in (
        ex.check_gradient(lambda x: x[:0], lambda g, x: 0 * x, normal(3)),
        ex.check_grad(lambda x: x[:0], ex.asarray(normal(3))),
    ):
        assert report.problem == "nothing checked" and "the result has no elements" in str(report)
        assert "slope" not in str(report) and "of 3 elements" not in str(report)


# -- Calls that went wrong.


def test_a_forgotten_backward_function_is_said_to_be_missing():
    for wrong in ((normal(3),), (None, normal(3)), (0.5,)):
        with pytest.raises(TypeError, match="the backward function is missing: .* is no function"):
            ex.check_gradient(np.sin, *wrong)


def test_a_backward_function_without_a_return_is_said_to_return_none():
    def backward(g, a, b, c):
        g * b * c

    report = ex.check_gradient(lambda a, b, c: a * b * c, backward, 1.0, 2.0, 3.0)
    assert not report.passed and "returned None" in str(report) and "return is missing" in report.hint


def test_a_list_that_was_meant_as_an_array_is_named():
    backward = lambda g, x: g * np.cos(x)
    report = ex.check_gradient(lambda x: np.sin(x), backward, [1.0, 2.0])
    assert not report.passed and "x is a list, so a tree: write np.array(...)" in report.hint
    two = lambda g, x, y: (g * y * np.cos(x), g * np.sin(x))
    report = ex.check_gradient(lambda x, y: np.sin(x) * y, two, [1.0, 2.0], normal(2))
    assert "gradient for x is one array, and x is a list" in str(report)
    assert "write np.array(...)" in report.hint
    with pytest.raises(TypeError, match=r"write np.array\(...\)"):
        ex.check_gradient(np.sin, backward, [1.0])
    report = ex.check_gradient(matmul, lambda g, a, b: g @ b.T, normal(2, 3), normal(3, 4))
    assert report.hint is None


def test_a_backward_function_of_other_arguments_is_told_what_it_is_called_with():
    both = lambda x, y: (x * y, x + y)
    with pytest.raises(TypeError, match=r"\(grad_output, x, y\), where grad_output is a tuple of 2 gr"):
        ex.check_gradient(both, lambda g0, g1, x, y: (g0 * y + g1, g0 * x + g1), 1.0, 2.0)
    with pytest.raises(TypeError, match=r"is called with \(grad_output, x\): too many positional"):
        ex.check_gradient(lambda x: 2 * x, lambda g: 2 * g, 1.0)
    right = lambda g, x, y: (g[0] * y + g[1], g[0] * x + g[1])
    assert ex.check_gradient(both, right, normal(3), normal(3))


def test_each_grad_output_that_is_not_used_is_named():
    both = lambda x, y: (x * y, x + y)
    args = normal(3), normal(3)
    for backward, name in [
        (lambda g, x, y: (g[0] * y, g[0] * x), "grad_output[1]"),
        (lambda g, x, y: (g[0] * y + 1, g[0] * x + 1), "grad_output[1]"),
        (lambda g, x, y: (y + g[1], x + g[1]), "grad_output[0]"),
    ]:
        assert f"does not use {name}:" in ex.check_gradient(both, backward, *args).hint
    named = lambda x: {"a": x * 2, "b": x * 3}
    report = ex.check_gradient(named, lambda g, x: 2 * g["a"], normal(3))
    assert "does not use grad_output[b]:" in report.hint
    # A softmax does not change if all its inputs do by the same amount, and yet depends on them.
    both = lambda x: (x * x, softmax(x))
    assert "[1]" in ex.check_gradient(both, lambda g, x: 2 * g[0] * x, normal(2, 3)).hint
    # One on which nothing depends needs no term.
    report = ex.check_gradient(lambda x: (x * x, np.ones(2)), lambda g, x: g[0] * x, normal(3))
    assert "constant factor 0.5" in report.hint


def test_the_options_are_in_the_signatures():
    for check in (ex.check_gradient, ex.check_grad, ex.assert_gradient, ex.assert_grad):
        named = inspect.signature(check).parameters
        assert {"eps", "rtol", "atol", "mode", "dtype", "seed", "name"} <= set(named)
        assert not any(p.kind is p.VAR_KEYWORD for p in named.values())


def test_an_option_of_the_name_of_a_parameter_is_noted():
    def scaled(x, weight, eps=1e-5):
        return x * weight / (1 + eps)

    def backward(g, x, weight, eps=1e-5):
        return g * weight / (1 + eps), g * x / (1 + eps)

    args = normal(3), normal(3)
    report = ex.check_gradient(scaled, backward, *args, eps=1e-3)
    assert report.eps == 1e-3 and "eps is the step of the differences here; use functools" in str(report)
    assert "note" not in str(ex.check_gradient(scaled, backward, *args))
    partial = [functools.partial(f, eps=0.5) for f in (scaled, backward)]
    assert ex.check_gradient(*partial, *args)


# -- Trees.

Point = namedtuple("Point", "x y")


@dataclass
class Line:
    slope: np.ndarray
    start: np.ndarray


def test_trees_go_in_and_come_out():
    f = lambda params, x: {"out": params["w"] @ x + params["b"], "rows": 3}
    def backward(g, params, x):
        return {"b": g["out"], "w": np.outer(g["out"], x)}, params["w"].T @ g["out"]

    args = {"w": normal(2, 3), "b": normal(2)}, normal(3)
    assert ex.check_gradient(f, backward, *args)
    wrong = lambda g, params, x: ({"b": 2 * g["out"], "w": np.outer(g["out"], x)}, params["w"].T @ g["out"])
    report = ex.check_gradient(f, wrong, *args)
    assert report.worst.argument == "params.b" and "only in params.b" in report.hint

    pair = lambda p: (p.x * p.y, np.sin(p.x))
    back = lambda g, p: Point(g[0] * p.y + g[1] * np.cos(p.x), g[0] * p.x)
    assert ex.check_gradient(pair, back, Point(normal(2), normal(2)))
    assert ex.check_gradient(lambda xs: xs[0] * xs[1], lambda g, xs: [g * xs[1], g * xs[0]], [normal(2), normal(2)])
    line = Line(normal(2), normal(2))
    assert ex.check_gradient(lambda l: l.slope * 2 + l.start, lambda g, l: Line(2 * g, g), line)


def test_a_gradient_of_another_form_than_its_input_does_not_pass():
    scaled = lambda p: p["w"] * 2 + p["b"]
    params = {"w": normal(3), "b": normal(3), "rows": np.array([1, 2]), "name": "linear"}
    line = lambda l: l.slope * 2 + l.start
    product = lambda x: x[0] * x[1]
    deep = lambda p: p["layers"][0]["w"] * 2
    for f, backward, given, message in [
        (scaled, lambda g, p: {"W": 2 * g, "b": g}, params, "the gradient for p has 'W' and no 'w'"),
        (scaled, lambda g, p: {"w": 2 * g}, params, "the gradient for p has no 'b'"),
        (scaled, lambda g, p: {"w": 2 * g, "b": g, "c": g}, params, "has 'c', which p has not"),
        (product, lambda g, x: [g * x[1], g * x[0], 3.0, 4.0], [1.0, 2.0], "x has 4 parts, and x has 2"),
        (product, lambda g, x: [g * x[1]], [1.0, 2.0], "x has 1 parts, and x has 2"),
        (product, lambda g, x: (g * x[1],), Point(1.0, 2.0), "x has 1 parts, and x has 2"),
        (line, lambda g, l: {"slope": 2 * g}, Line(normal(2), normal(2)), "l has no 'start'"),
        (deep, lambda g, p: {"layers": [{"v": 2 * g}]}, {"layers": [{"w": normal(2)}]},
         "the gradient for p.layers.0 has 'v' and no 'w'"),
    ]:
        report = ex.check_gradient(f, backward, given)
        assert report.problem == "form" and message in str(report), report
    # None says that a part is not to be checked; what is no float need not be there.
    report = ex.check_gradient(scaled, lambda g, p: {"w": 2 * g, "b": None}, params)
    assert report.passed and "not checked: p.b" in str(report)
    assert ex.check_gradient(scaled, lambda g, p: {"w": 2 * g, "b": g, "rows": None}, params)


# -- Functions that are not functions.


def test_a_function_that_changes_its_input_is_reported_and_the_input_is_not_changed():
    def relu(x):
        x[x < 0] = 0
        return x

    x = np.array([1.0, -2.0])
    report = ex.check_gradient(relu, lambda g, x: g * (x > 0), x)
    assert report.problem == "mutation" and "changes its argument: x[1] was -2.0 before" in str(report)
    assert x[1] == -2.0

    def backward(g, x):
        g *= np.cos(x)
        return g

    report = ex.check_gradient(np.sin, backward, x)
    assert report.problem == "mutation" and "the backward function changes its argument: grad_output" in str(report)


def test_a_nondeterministic_function_is_reported():
    generator = np.random.default_rng()
    report = ex.check_gradient(lambda x: x * generator.random(3), lambda g, x: g, normal(3))
    assert report.problem == "nondeterministic" and "forward function called twice" in str(report)
    assert "random numbers" in report.hint
    report = ex.check_gradient(lambda x: x, lambda g, x: g * generator.random(3), normal(3))
    assert report.problem == "nondeterministic" and "backward function called twice" in str(report)


def test_what_a_function_raises_comes_back_as_it_is():
    class Mine(Exception):
        pass

    def broken(*args):
        raise Mine("here")

    with pytest.raises(Mine, match="here"):
        ex.check_gradient(broken, broken, normal(2))
    with pytest.raises(Mine, match="here"):
        ex.check_gradient(np.sin, broken, normal(2))
    with pytest.raises(Mine, match="here"):
        ex.check_grad(broken, ex.asarray([1.0]))
    with pytest.raises(KeyboardInterrupt):
        ex.check_gradient(lambda x: (_ for _ in ()).throw(KeyboardInterrupt()), broken, 1.0)


def test_nan_and_infinity_are_said_where_they_are():
    with np.errstate(all="ignore"):
        report = ex.check_gradient(np.log, lambda g, x: g / x, np.array([1.0, -1.0]))
        assert report.problem == "not finite" and "nan at its result[1]" in str(report)
        report = ex.check_gradient(np.sin, lambda g, x: g * np.cos(x) / (x - x), np.array([[0.5]]))
        assert report.problem == "not finite" and "[0, 0]" in str(report)
    masked = lambda x: np.where(np.arange(3) == 1, -np.inf, x)
    report = ex.check_gradient(masked, lambda g, x: g * (np.arange(3) != 1), normal(3))
    assert report.passed and "-inf at its result[1]" in str(report)


def test_a_kink_is_not_a_wrong_gradient():
    report = ex.check_gradient(np.abs, lambda g, x: g * np.sign(x), np.array([1.0, 0.0]))
    assert report.passed and "not differentiable at" in str(report) and report.kinks[0].index == (1,)


def test_complex_numbers_are_refused():
    with pytest.raises(TypeError, match="complex128"):
        ex.check_gradient(np.sin, lambda g, x: g * np.cos(x), np.array([1j]))


def test_options_are_checked():
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        ex.check_gradient(np.sin, lambda g, x: g * np.cos(x), normal(2), colour=1)
    with pytest.raises(ValueError, match='expected "auto", "full" or "fast"'):
        ex.check_gradient(np.sin, lambda g, x: g * np.cos(x), normal(2), mode="slow")


# -- Large inputs.


def test_a_fast_check_finds_the_one_wrong_element_of_many():
    x = np.random.default_rng(3).normal(size=(200, 300))

    def backward(g, x):
        grad = g * np.cos(x)
        grad[117, 23] *= 1.5
        return grad

    report = ex.check_gradient(np.sin, backward, x)
    assert report.mode == "fast" and report.problem == "wrong"
    assert report.worst.index == (117, 23), report
    assert ex.check_gradient(np.sin, lambda g, x: g * np.cos(x), x)


# -- Reports.


def test_the_html_has_the_plot_and_no_markup_of_the_names():
    def evil(x):
        return x * 2

    evil.__name__ = "<script>alert(1)</script>"
    html = ex.check_gradient(evil, lambda g, x: g, normal(3))._repr_html_()
    assert "<svg" in html and "polyline" in html and "<script" not in html and "&lt;script" in html
    xml.etree.ElementTree.fromstring(html)
    passed = ex.check_gradient(np.sin, lambda g, x: g * np.cos(x), normal(3))._repr_html_()
    assert "<svg" in passed and "the gradient is right" in passed
    xml.etree.ElementTree.fromstring(passed)


def test_a_report_fits_the_screen():
    report = ex.check_gradient(gelu, gelu_backward_of_erf, normal(200))
    lines = str(report).splitlines()
    assert len(lines) < 35 and max(map(len, lines)) <= 100
    assert str(report) == repr(report)


# -- pytest.

pytest_plugins = ["pytester"]


def test_the_fixtures_fail_a_test_with_the_report(pytester):
    pytester.makepyfile(
        """
        import math

        def test_right(check_gradient, check_grad):
            assert check_gradient(math.sin, lambda g, x: g * math.cos(x), 0.5).passed
            import extensor as ex
            check_grad(ex.exp, 0.5)

        def test_wrong(check_gradient):
            check_gradient(math.cos, lambda g, x: g * math.sin(x), 0.5)
        """
    )
    result = pytester.runpytest("-p", "pytest_extensor", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    text = result.stdout.str()
    assert "the sign is swapped" in text and "●" in text and "Traceback" not in text and "pytest.fail" not in text


def run(code, *folders):
    folders = (*folders, pathlib.Path(pytest.__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "PYTHONIOENCODING": "utf-8"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    return ran.stdout + ran.stderr


FOLDER = pathlib.Path(ex.__file__).parent.parent


def test_the_plugin_imports_nothing_before_it_is_used():
    code = "import sys, pytest_extensor; print(sorted({'numpy', 'torch', 'extensor'} & set(sys.modules)))"
    assert run(code, FOLDER) == "[]\n"
    code = "import sys, extensor; print(sorted({'numpy', 'torch', 'pytest'} & set(sys.modules)))"
    assert run(code, FOLDER) == "[]\n"


def test_a_broken_installation_breaks_only_the_tests_that_need_it(tmp_path):
    (tmp_path / "extensor").mkdir()
    (tmp_path / "extensor" / "__init__.py").write_text("raise ImportError('no such library')")
    test = tmp_path / "test_it.py"
    test.write_text("def test_other(): pass\ndef test_mine(check_grad): pass")
    code = f"import pytest; pytest.main(['-p', 'pytest_extensor', '-p', 'no:cacheprovider', {str(test)!r}])"
    text = run(code, tmp_path, FOLDER)
    assert "1 passed" in text and "extensor cannot be imported: no such library" in text, text


def test_a_module_is_checked_with_its_parameters():
    layer, x = nn.Linear(ex.Key(1), 3, 2), ex.Key(2).normal((4, 3))
    report = ex.check_grad(layer, x, order=2)
    assert report.passed and report.elements == 12 + 6 + 2 and report.name == "Linear" and report.dtype == "float64"
    model = nn.Sequential(layer, ex.tanh, nn.BatchNorm2d(2), nn.LayerNorm(2))
    assert ex.check_grad(model, x).elements == 12 + 8 + 4 + 4

    class Wrong(nn.Module):
        weight: ex.Tensor

        def __call__(self, x):
            half = ex.stop_gradient(self.weight) / 2.0 + self.weight / 2.0
            return x * half

    report = ex.check_grad(Wrong(ex.ones(3)), x)
    assert {row.argument for row in report.wrong()} == {"parameters.weight"}
    assert ex.check_grad(nn.Flatten(), ex.ones((2, 3, 2))).elements == 12
