"""`vmap` of Python functions."""

import extensor as ex
import pytest


def normal(seed, *shape):
    return ex.Key(seed).normal(shape, dtype=ex.float64)


def same(a, b):
    assert a.shape == b.shape
    assert float(ex.max(ex.abs(a - b))) < 1e-12


def loss(w, x):
    return ex.sum(ex.tanh(x @ w["w"] + w["b"]) ** 2.0)


def model():
    return {"w": normal(1, 4, 3), "b": normal(2, 3)}


def test_gradients_of_examples_are_those_of_a_loop():
    w, x = model(), normal(3, 5, 4)
    got = ex.vmap(ex.grad(loss), in_axes=(None, 0))(w, x)
    for i in range(5):
        want = ex.grad(loss)(w, x[i])
        same(got["w"][i], want["w"])
        same(got["b"][i], want["b"])


def test_ensembles_are_mapped_by_their_trees():
    models = {"w": normal(1, 6, 4, 3), "b": normal(2, 3, 6)}
    x = normal(3, 5, 4)
    got = ex.vmap(loss, in_axes=({"w": 0, "b": -1}, None))(models, x)
    want = [loss({"w": models["w"][i], "b": models["b"][:, i]}, x) for i in range(6)]
    same(got, ex.stack(want))


def test_it_nests_with_the_other_transformations():
    w, x = model(), normal(3, 5, 4)
    total = lambda w: ex.sum(ex.vmap(loss, in_axes=(None, 0))(w, x))
    same(ex.grad(total)(w)["w"], ex.grad(loss)(w, x)["w"])
    f = lambda x: loss(w, x)
    v = normal(4, 5, 4)
    hv = ex.vmap(lambda x, v: ex.jvp(ex.grad(f), (x,), (v,))[1])(x, v)
    j = ex.vmap(ex.jacobian(ex.grad(f)))(x)
    same(hv, ex.stack([j[i] @ v[i] for i in range(5)]))
    twice = ex.vmap(lambda a: ex.vmap(lambda b: ex.sum(a * b))(x))(x)
    same(twice, x @ x.T)


def test_it_is_compiled_and_maps_what_is_compiled():
    w, x = model(), normal(3, 5, 4)
    each = lambda w, x: ex.vmap(ex.grad(loss), in_axes=(None, 0))(w, x)
    same(ex.compile(each)(w, x)["w"], each(w, x)["w"])
    one = ex.compile(lambda x: loss(w, x))
    same(ex.vmap(one)(x), ex.stack([loss(w, x[i]) for i in range(5)]))


def test_results_have_their_examples_where_out_axes_says():
    x, w = normal(3, 5, 4), normal(4, 4)
    f = lambda x: {"a": x * 2.0, "b": (ex.sum(x), w)}
    got = ex.vmap(f, out_axes={"a": 1, "b": (0, None)})(x)
    same(got["a"], x.T * 2.0)
    same(got["b"][0], ex.sum(x, axis=1))
    same(got["b"][1], w)


def test_a_key_is_split_and_a_captured_one_is_not():
    key, x = ex.Key(7), normal(3, 5, 4)
    f = lambda x, key: x + key.normal((4,), dtype=ex.float64)
    got = ex.vmap(f)(x, key)
    same(got, ex.stack([f(x[i], key.fold_in(i)) for i in range(5)]))
    shared = ex.vmap(f, in_axes=(0, None))(x, key)
    same(shared, ex.stack([f(x[i], key) for i in range(5)]))
    drawn = ex.vmap(lambda key: key.normal((2,), dtype=ex.float64), size=3)(key)
    assert drawn.shape == (3, 2)


def test_mistakes_are_told():
    x = normal(3, 5, 4)
    with pytest.raises(ValueError, match="in_axes"):
        ex.vmap(lambda x: x, in_axes=(0, 0))(x)
    with pytest.raises(Exception, match="axes of one size"):
        ex.vmap(lambda a, b: a)(x, normal(1, 4))
    with pytest.raises(Exception, match="under vmap the tensor stands for every example"):
        ex.vmap(lambda x: x if float(ex.sum(x)) > 0 else -x)(x)
    with pytest.raises(ZeroDivisionError):
        ex.vmap(lambda x: 1 / 0)(x)


def test_indices_of_the_examples_count_from_the_end_too():
    x, i = normal(3, 5, 4), ex.asarray([[0, -1], [3, -4], [1, 1], [-2, 2], [0, 0]])
    for f in (
        lambda x, i: ex.take(x, i, axis=0),
        lambda x, i: ex.take_along_axis(x, i, axis=0),
        lambda x, i: x[i],
        lambda x, i: ex.grad(lambda x: ex.sum(x[i] ** 2))(x),
    ):
        same(ex.vmap(f)(x, i), ex.stack([f(x[k], i[k]) for k in range(5)]))
        same(ex.vmap(lambda i: f(x[0], i))(i), ex.stack([f(x[0], i[k]) for k in range(5)]))
        with pytest.raises((IndexError, ValueError), match="4"):
            ex.vmap(f)(x, i + 4)
