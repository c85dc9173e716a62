"""No plain number leaves a tensor that is being differentiated: its gradient would be lost unseen."""

import cmath
import copy
import math
import operator
import pickle
import struct
import tempfile

import pytest

import extensor as ex

np = pytest.importorskip("numpy")


def saved(x):
    with tempfile.TemporaryDirectory() as folder:
        ex.io.save_safetensors(f"{folder}/x.safetensors", {"x": x})


#: Every way by which Python takes numbers out of an object.
WAYS = {
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "float": float,
    "int": int,
    "bool": bool,
    "if": lambda x: 1 if x else 0,
    "not": lambda x: not x,
    "complex": complex,
    "math.sin": math.sin,
    "math.floor": math.floor,
    "math.isnan": math.isnan,
    "cmath.exp": cmath.exp,
    "percent": lambda x: "%f" % x,
    "any": lambda x: any([x]),
    "max of numbers": lambda x: max(1.0, math.fabs(x)),
    "numpy.asarray": np.asarray,
    "numpy.array": np.array,
    "numpy.float64": np.float64,
    "numpy.dot": lambda x: np.dot(x, 2.0),
    "numpy.add.reduce": lambda x: np.add.reduce(x, axis=None),
    "__array__": lambda x: x.__array__(),
    "__array_interface__": lambda x: x.__array_interface__,
    "numpy()": lambda x: x.numpy(),
    "__dlpack__": lambda x: x.__dlpack__(),
    "__dlpack__ with a version": lambda x: x.__dlpack__(max_version=(1, 0), copy=False),
    "numpy.from_dlpack": np.from_dlpack,
    "from_dlpack": ex.from_dlpack,
    "memoryview": lambda x: memoryview(np.asarray(x)),
    "pickle": pickle.dumps,
    "a parameter": lambda x: ex.leaky_relu(ex.ones(2), x),
    "linspace": lambda x: ex.linspace(0.0, x, 3),
    "full": lambda x: ex.full((2,), x),
    "arange": lambda x: ex.arange(0.0, x, 1.0),
    "save": lambda x: saved(x),
}

#: What may be looked at: nothing of it can come back into the result with a gradient.
ALLOWED = {
    "print": lambda x: f"{x} {x!r} {x:.3f}",
    "compare": lambda x: 1 if x > 0 else 0,
    "equal": lambda x: bool(x == x),
    "sign of comparison": lambda x: float(x > 0),
    "isfinite": lambda x: bool(ex.isfinite(x)),
    "argmax": lambda x: int(ex.argmax(ex.stack([x, x]))),
    "nonzero": lambda x: ex.nonzero(ex.stack([x]))[0].tolist(),
    "shape": lambda x: (x.shape, x.ndim, x.size, x.dtype),
    "copy": copy.deepcopy,
    "stop_gradient": lambda x: math.sin(ex.stop_gradient(x)),
}

MODES = {
    "reverse": lambda f: ex.grad(f)(3.0),
    "forward": lambda f: ex.jvp(f, (ex.asarray(3.0),), (ex.asarray(1.0),)),
    "vjp": lambda f: ex.vjp(f, ex.asarray(3.0)),
    "second order": lambda f: ex.grad(ex.grad(f))(3.0),
    "hessian": lambda f: ex.hessian(f)(ex.asarray(3.0)),
    "a constant of the inner level": lambda f: ex.grad(lambda a: ex.grad(lambda x: x * f(a))(2.0))(3.0),
    "checkpoint": lambda f: ex.grad(ex.checkpoint(f))(3.0),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_taking_a_number_out_of_a_traced_tensor_is_an_error_that_says_stop_gradient(way, mode):
    def f(x):
        WAYS[way](x)
        return x * x

    with pytest.raises(TypeError, match="stop_gradient|Python number"):
        MODES[mode](f)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", ALLOWED)
def test_what_has_no_gradient_may_be_looked_at(way, mode):
    def f(x):
        ALLOWED[way](x)
        return x * x

    MODES[mode](f)


def test_those_who_have_an_exception_of_their_own_raise_it():
    for way in [lambda x: struct.pack("d", x), lambda x: np.zeros(1).__setitem__(0, x)]:
        with pytest.raises((struct.error, TypeError, ValueError)):
            ex.grad(lambda x: x * (way(x) is None))(3.0)


def test_the_sentence_names_what_was_asked_for():
    sentence = "the tensor is being differentiated, and its gradient would be lost; if that is meant, write stop_gradient first"
    with pytest.raises(TypeError) as raised:
        ex.grad(lambda x: x * math.sin(x))(3.0)
    assert str(raised.value) == f"float: {sentence}"
    with pytest.raises(TypeError) as raised:
        ex.grad(lambda x: x * x.item())(3.0)
    assert str(raised.value) == f"item: {sentence}"


def test_what_is_meant_is_written():
    assert ex.grad(lambda x: x * math.sin(ex.stop_gradient(x)))(3.0).item() == math.sin(3.0)
    whole = ex.grad(lambda x: x * ex.sin(x))(3.0).item()
    assert whole == pytest.approx(math.sin(3.0) + 3.0 * math.cos(3.0), rel=1e-15)


def test_the_checker_does_not_pass_a_function_that_loses_a_term():
    with pytest.raises(TypeError, match="stop_gradient"):
        ex.check_grad(lambda x: x * math.sin(x), ex.asarray(3.0))


def test_where_the_derivative_is_given_the_function_may_read_numbers():
    f = ex.custom_vjp(lambda x: (ex.asarray(math.sin(x)), x), lambda x, g: g * ex.cos(x))
    assert ex.grad(f)(0.5).item() == math.cos(0.5)


def test_distinct_values_keep_the_gradient_of_the_elements_they_were_taken_from():
    grads = ex.grad(lambda x: ex.sum(ex.unique_values(x) ** 2))(ex.asarray([3.0, 1.0, 3.0]))
    assert grads.tolist() == [6.0, 2.0, 0.0]


def test_minimisers_still_read_what_they_need_and_refuse_to_be_differentiated():
    square = lambda a: lambda x: ex.sum((x - a) ** 2)  # noqa: E731
    for method in (ex.optim.Lbfgs(), ex.optim.NewtonCg()):
        found = method.minimize(square(2.0), ex.zeros(3))
        assert found.model.tolist() == pytest.approx([2.0] * 3)
        with pytest.raises(TypeError, match="stop_gradient"):
            ex.grad(lambda a: ex.sum(method.minimize(square(a), ex.zeros(3)).model))(2.0)


def test_a_0d_tensor_is_no_sequence():
    for x in (ex.asarray(1.0), ex.asarray(3), ex.asarray(True)):
        with pytest.raises(TypeError, match="0-d"):
            iter(x)
        with pytest.raises(TypeError):
            list(x)
        with pytest.raises(TypeError):
            [*x]
        with pytest.raises(TypeError):
            operator.contains(x, 1)
