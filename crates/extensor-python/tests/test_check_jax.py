"""Functions of JAX are checked as others are, in float64, which JAX computes in within the check alone."""

import pytest

import extensor as ex

jax = pytest.importorskip("jax")
jnp = jax.numpy


@pytest.fixture(autouse=True)
def narrow_before_and_after():
    before = jax.config.jax_enable_x64  # other tests of this process may want it
    jax.config.update("jax_enable_x64", False)
    yield
    assert jnp.asarray(1.0).dtype == jnp.float32
    jax.config.update("jax_enable_x64", before)


@jax.custom_vjp
def square(x):
    return x * x


square.defvjp(lambda x: (x * x, x), lambda x, g: (g * x,))  # half of what it should be


def test_functions_of_jax_are_checked_in_float64():
    x, w = jnp.linspace(-1.0, 1.0, 12).reshape(3, 4), jnp.ones(4) * 0.3
    report = ex.check_grad(lambda x, w: jnp.tanh(x @ w), x, w, order=2)
    assert report.passed and report.dtype == "float64" and report.elements == 16 and report.eps < 1e-4
    assert ex.check_grad(jax.jit(lambda x: jnp.sum(jnp.exp(x))), x)
    assert ex.check_grad(jax.nn.softmax, x)


def test_a_wrong_rule_is_caught():
    x = jnp.asarray([1.0, 2.0, -3.0])
    for f in (square, jax.jit(square)):
        report = ex.check_grad(f, x)
        assert report.problem == "wrong" and report.name == "square"
        assert "off by a constant factor 0.5 everywhere" in report.hint
    with pytest.raises(AssertionError, match="WRONG GRADIENT at 3 of 3 elements"):
        ex.assert_grad(square, x)


def test_a_wrong_second_derivative_is_caught():
    @jax.custom_vjp
    def sin(x):
        return jnp.sin(x)

    sin.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jax.lax.stop_gradient(jnp.cos(x)),))
    x = jnp.asarray([0.3, 1.0])
    assert ex.check_grad(sin, x)
    report = ex.check_grad(sin, x, order=2)
    assert not report.passed and report.name == "the gradient of sin"


def test_trees_keys_and_whole_numbers_are_arguments_too():
    params = {"w": jnp.ones((4, 2)) * 0.5, "b": [jnp.zeros(2)]}
    key, labels = jax.random.key(3), jnp.asarray([0, 1, 1])
    x = jnp.linspace(0.0, 1.0, 12).reshape(3, 4)

    def loss(params, x, labels, key):
        logits = x @ params["w"] + params["b"][0]
        logits = logits * jax.random.bernoulli(key, 0.8, logits.shape)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))

    report = ex.check_grad(loss, params, x, labels, key)
    assert report.passed and report.elements == 8 + 2 + 12


def test_nodes_that_only_jax_knows_are_arguments_too():
    @jax.tree_util.register_pytree_node_class
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

        def tree_flatten(self):
            return (self.a, self.b), None

        @classmethod
        def tree_unflatten(cls, _, parts):
            return cls(*parts)

    report = ex.check_grad(lambda p: jnp.sum(p.a * jnp.sin(p.b)), Pair(jnp.ones(2), jnp.arange(2.0)))
    assert report.passed and report.elements == 4


def test_a_function_that_raises_leaves_jax_as_it_was():
    def broken(x):
        raise KeyError("on purpose")

    with pytest.raises(KeyError):
        ex.check_grad(broken, jnp.ones(2))


def test_a_pair_of_functions_of_jax_is_checked():
    x = jnp.asarray([0.3, 1.0])
    report = ex.check_gradient(jnp.sin, lambda g, x: g * jnp.cos(x), x)
    assert report.passed
    assert not ex.check_gradient(jnp.sin, lambda g, x: -g * jnp.cos(x), x)
