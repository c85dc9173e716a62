"""Second derivatives without the whole Hessian, what is done to gradients, metrics, and where a NaN came
from: as in Rust."""

import math

import pytest

import extensor as ex
from extensor import debug, gradients, memory, metrics, nn, optim


def quartic(x, y):
    return ex.sum(x * x * x * y) + ex.sum(x) ** 2 * y


X, W = ex.asarray([1.0, 2.0, -0.5]), ex.asarray(3.0)


def test_the_diagonal_is_that_of_the_hessian():
    whole = ex.hessian(quartic)(X, W)
    diagonal = ex.hessian_diagonal(quartic)(X, W)
    ex.assert_close(diagonal, ex.asarray([whole[k, k].item() for k in range(3)]))
    both = ex.hessian_diagonal(quartic, argnums=(0, 1))(X, W)
    ex.assert_close(both, (diagonal, ex.asarray(0.0)))
    trees = ex.hessian_diagonal(lambda p: quartic(p["x"], p["y"]))({"x": X, "y": W})
    ex.assert_close(trees, {"x": diagonal, "y": ex.asarray(0.0)})
    ex.assert_close(ex.laplacian(quartic)(X, W), ex.sum(diagonal))


def test_an_estimate_of_the_diagonal_is_right_on_average_and_the_same_for_the_same_key():
    exact = ex.hessian_diagonal(quartic)(X, W)
    few = ex.hessian_diagonal(quartic, key=ex.Key(1), probes=1)(X, W)
    many = ex.hessian_diagonal(quartic, key=ex.Key(1), probes=4000)(X, W)
    ex.assert_close(few, ex.hessian_diagonal(quartic, key=ex.Key(1), probes=1)(X, W))
    assert float(ex.max(ex.abs(many - exact))) < 0.05 * float(ex.max(ex.abs(exact)))
    estimate = ex.laplacian(quartic, key=ex.Key(1), probes=4000)(X, W)
    assert abs(float(estimate) - float(ex.sum(exact))) < 0.05 * float(ex.sum(exact))
    with pytest.raises(TypeError, match="needs both key"):
        ex.laplacian(quartic, probes=3)
    with pytest.raises(ValueError, match="probes is 0"):
        ex.laplacian(quartic, key=ex.Key(1), probes=0)


def test_products_with_the_curvature_of_a_model_are_those_of_its_matrices():
    key = ex.Key(3)
    inputs, logits = key.normal((5, 2), dtype="float64"), lambda w: ex.tanh(inputs @ w)
    w, v = key.fold_in(1).normal((2, 3), dtype="float64"), key.fold_in(2).normal((2, 3), dtype="float64")
    loss = lambda y: nn.class_loss(y, ex.asarray([0, 1, 2, 0, 1]))
    jacobian = ex.reshape(ex.jacobian(logits)(w), (15, 6))
    curvature = ex.reshape(ex.hessian(loss)(logits(w)), (15, 15))
    wanted = ex.reshape(jacobian.T @ (curvature @ (jacobian @ ex.reshape(v, (6,)))), (2, 3))
    ex.assert_close(ex.gauss_newton_vp(logits, loss, w, v), wanted)
    ex.assert_close(ex.fisher_vp(logits, w, v), wanted)  # it does not depend on labels
    (pair,) = ex.fisher_vp(logits, (w,), (v,))
    ex.assert_close(pair, wanted)


def test_of_a_module_the_buffers_stay():
    model = nn.Sequential(nn.Linear(ex.Key(1), 2, 3), nn.BatchNorm2d(3))
    x = ex.Key(2).normal((4, 2))
    found = ex.hessian_diagonal(lambda m: ex.sum(ex.square(m(x))))(model)
    assert type(found) is nn.Sequential and found[1].running_var.tolist() == model[1].running_var.tolist()
    product = ex.gauss_newton_vp(lambda m: m(x), lambda y: ex.sum(y * y), model, model)
    assert set(product.parameters()) == set(model.parameters())


def test_a_gradient_penalty_is_differentiated():
    x = ex.Key(4).normal((6, 3), dtype="float64")
    penalty = lambda w: ex.gradient_penalty(lambda x: ex.sum(ex.tanh(x * w), axis=1), x, 0.5)
    assert ex.check_grad(penalty, ex.asarray([0.3, -1.0, 2.0]))


def test_gradients_are_clipped_together_or_element_by_element():
    grads = {"a": ex.asarray([3.0]), "m": nn.Linear.of(weight=ex.asarray([[4.0]]), bias=None)}
    clipped, norm = gradients.clip_grad_norm(grads, 1.0)
    assert float(norm) == 5.0 and clipped["m"].weight.item() == pytest.approx(0.8)
    same, _ = gradients.clip_grad_norm(grads, 10.0)
    assert same["a"].tolist() == [3.0]
    assert gradients.clip_grad_value(grads, 3.5)["m"].weight.item() == 3.5
    broken, norm = gradients.clip_grad_norm([ex.asarray([math.inf])], 1.0)
    assert broken[0].item() == math.inf and not gradients.all_finite(broken)
    with pytest.raises(ValueError, match="max_norm is -1"):
        gradients.clip_grad_norm(grads, -1.0)
    assert optim.global_norm is gradients.global_norm
    assert ex.check_grad(lambda x: gradients.clip_grad_norm(x, 1.0)[0], ex.asarray([3.0, 4.0]))


def test_micro_batches_add_up_to_the_gradient_of_the_batch():
    x, y = ex.Key(1).normal((9, 2)), ex.asarray([k % 3 for k in range(9)])
    model = nn.Linear(ex.Key(2), 2, 3)
    grad = lambda part: ex.grad(lambda m: nn.class_loss(m(x[part]), y[part]))(model)
    total = gradients.Accumulator()
    assert total.mean() is None
    for part in (slice(0, 4), slice(4, 9)):
        total.add(grad(part), part.stop - part.start)
    ex.assert_close(total.mean(), grad(slice(0, 9)))
    with pytest.raises(ValueError, match="were added to"):
        total.add({"other": x})
    small = gradients.Accumulator()
    for _ in range(3000):
        small.add(ex.asarray([1e-3], dtype="float16"))
    assert small.mean().dtype == ex.float32 and small.mean().item() == pytest.approx(1e-3, rel=1e-3)


def test_checkpointed_layers_have_the_gradient_of_plain_ones():
    layers = [ex.Key(k).normal((3, 3), dtype="float64") for k in range(10)]
    x, f = ex.ones((3,)), lambda w, x: ex.tanh(w @ x)

    def plain(layers):
        y = x
        for w in layers:
            y = f(w, y)
        return ex.sum(y)

    wanted = ex.grad(plain)(layers)
    for segments in (None, 1, 3, 10, 99):
        found = ex.grad(lambda w: ex.sum(ex.checkpoint_sequential(f, w, x, segments)))(layers)
        assert [g.tolist() for g in found] == [g.tolist() for g in wanted]
    calls = []
    ex.grad(lambda w: ex.sum(ex.checkpoint_sequential(lambda w, x: calls.append(1) or f(w, x), w, x)))(layers)
    assert len(calls) == 20  # once forwards, once again backwards
    assert ex.checkpoint_sequential(f, [], x).tolist() == x.tolist()
    with pytest.raises(ValueError, match="segments is 0"):
        ex.checkpoint_sequential(f, layers, x, 0)


def test_sum_to_shape_is_what_broadcasting_wants_back():
    g = ex.Key(1).normal((4, 2, 3))
    _, pullback = ex.vjp(lambda x: ex.broadcast_to(x, (4, 2, 3)), ex.zeros((2, 1), dtype="float32"))
    ex.assert_close(ex.sum_to_shape(g, (2, 1)), pullback(g)[0])
    with pytest.raises(ValueError, match="one that .*5.* broadcasts to"):
        ex.sum_to_shape(g, (5,))


def test_assert_close_says_what_is_apart():
    x = ex.asarray([1.0, 2.0])
    ex.assert_close({"a": x, "b": [x]}, {"a": x + 1e-12, "b": [x]})
    with pytest.raises(AssertionError, match=r"b.0: 1 of 2 elements differ, the worst at \[0\]: 1.5 is not 1.0"):
        ex.assert_close({"a": x, "b": [ex.asarray([1.5, 2.0])]}, {"a": x, "b": [x]})
    with pytest.raises(AssertionError, match="float32.*float64"):
        ex.assert_close(ex.astype(x, "float32"), x)
    with pytest.raises(AssertionError, match="the form differs"):
        ex.assert_close([x], [x, x])
    ex.assert_close(x, x * 1.01, rtol=0.1)
    with pytest.raises(AssertionError):
        ex.assert_close(x, x * 1.01, rtol=0.1, atol=0.0) or ex.assert_close(x, x * 1.5, rtol=0.1)
    np = pytest.importorskip("numpy")
    ex.assert_close(np.asarray([1.0, 2.0]), x)


def test_debug_finite_names_the_operation():
    f = lambda x: ex.sum(x * 1e200 * 1e200)
    with pytest.raises(FloatingPointError, match=r"multiply: its gradient for a is inf at"):
        debug.finite(ex.grad(f), ex.zeros(2))
    assert debug.finite(f, x=ex.asarray([0.0])).item() == 0.0
    with pytest.raises(KeyError):
        debug.finite(lambda: {}["missing"])
    assert math.isinf(ex.grad(f)(ex.asarray([0.0])).item())  # nobody looks any longer


def test_the_pool_keeps_no_more_than_its_limit():
    ex.ones((1 << 22,)) + 1.0
    memory.set_pool_limit(1 << 20)
    assert memory.pool_bytes() <= 1 << 20
    memory.set_pool_limit(1 << 31)


def test_numerical_gradients_are_those_of_any_function():
    x = ex.asarray([0.3, 1.2])
    found = ex.numerical_gradient(lambda x, n: ex.sin(x) * n, x, 3, cotangent=ex.asarray([1.0, 2.0]))
    ex.assert_close(found.gradients[0], 3.0 * ex.cos(x) * ex.asarray([1.0, 2.0]), rtol=1e-7)
    assert found.gradients[1] == 3
    tree = ex.numerical_gradient(lambda p: ex.sum(p["w"] * p["b"]), {"w": x, "b": 2.0}, seed=1)
    assert set(tree.gradients[0]) == {"w", "b"} and isinstance(tree.gradients[0]["b"], float)
    np = pytest.importorskip("numpy")
    values = np.asarray([1.0, 2.0], dtype="float32")
    grads = ex.numerical_gradient(np.square, values, cotangent=np.ones(2)).gradients[0]
    assert isinstance(grads, np.ndarray) and np.allclose(grads, [2.0, 4.0])
    with pytest.raises(TypeError, match="returned 2 arrays, expected one"):
        ex.numerical_gradient(lambda x: (x, x), x)


def test_the_scores_of_a_confusion():
    confusion = metrics.Confusion(3)
    confusion.add(ex.asarray([0, 2, 1]), ex.asarray([0, 1, 2]))
    confusion.add([0, 0, 1], [0, 1, 2])
    assert confusion.counts.tolist() == [[2, 0, 0], [1, 0, 1], [0, 2, 0]]
    assert confusion.count(1, 2) == 1 and confusion.total == 6 and confusion.support(2) == 2
    assert confusion.accuracy == 2 / 6 and confusion.precision(0) == 2 / 3 and confusion.recall(0) == 1.0
    assert confusion.f_score(0) == pytest.approx(0.8) and confusion.f_score(0, beta=2.0) == pytest.approx(10 / 11)
    assert confusion.scores().recall == 1 / 3 and confusion.scores("micro").f1 == 2 / 6
    assert confusion.scores("weighted").precision == pytest.approx(2 / 9)
    before = confusion.counts.tolist()
    with pytest.raises(ValueError, match="classes below 3"):
        confusion.add([0, 3], [0, 0])
    assert confusion.counts.tolist() == before
    with pytest.raises(IndexError, match="there is no class 3"):
        confusion.recall(3)
    with pytest.raises(ValueError, match="average is"):
        confusion.scores("mean")
    with pytest.raises(TypeError, match="whole-number"):
        confusion.add([0.5], [0])


def test_auroc_perplexity_and_accuracy():
    assert metrics.auroc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]) == 0.75
    assert metrics.auroc(ex.asarray([0.5, 0.5]), ex.asarray([True, False])) == 0.5
    with pytest.raises(ValueError, match="both 0 and 1"):
        metrics.auroc([0.1], [1])
    assert metrics.perplexity(ex.asarray(math.log(7.0))) == pytest.approx(7.0)
    logits = ex.asarray([[1.0, 2.0], [4.0, 3.0]])
    assert float(metrics.accuracy(logits, [1, 1])) == 0.5
    assert float(metrics.accuracy(logits, ex.asarray([[0.1, 0.9], [0.7, 0.3]]))) == 1.0
