"""`extensor.linalg`, as the Array API standard has it, beside NumPy."""

import math

import numpy as np
import pytest

import extensor as ex
from extensor import linalg

RANDOM = np.random.default_rng(0)


def close(x, y, tolerance=1e-12):
    np.testing.assert_allclose(np.asarray(x), y, rtol=tolerance, atol=tolerance)


@pytest.fixture(params=[(3, 3), (2, 3, 3), (0, 3, 3), (1, 1), (4, 4)])
def a(request):
    return RANDOM.normal(size=request.param) + 3 * np.eye(request.param[-1])


def test_what_is_solved_is_what_numpy_solves(a):
    x, b = ex.asarray(a), RANDOM.normal(size=(*a.shape[:-1], 2))
    close(linalg.solve(x, ex.asarray(b)), np.linalg.solve(a, b))
    close(linalg.inv(x), np.linalg.inv(a))
    close(linalg.det(x), np.linalg.det(a))
    sign, log = linalg.slogdet(x)
    close(sign, np.linalg.slogdet(a)[0])
    close(log, np.linalg.slogdet(a)[1])
    close(linalg.pinv(x), np.linalg.pinv(a))
    vector = RANDOM.normal(size=a.shape[-1])
    close(linalg.solve(x, ex.asarray(vector)), np.linalg.solve(a, vector[:, None])[..., 0])
    triangle = linalg.solve_triangular(x, ex.asarray(b), upper=True)
    close(np.triu(a) @ np.asarray(triangle), b)


def test_factors_give_back_the_matrix(a):
    x, even = ex.asarray(a), a @ a.swapaxes(-1, -2)
    lower = linalg.cholesky(ex.asarray(even))
    close(lower @ lower.mT, even)
    close(linalg.cholesky(ex.asarray(even), upper=True), np.asarray(lower.mT))
    q, r = linalg.qr(x)
    close(q @ r, a)
    u, s, vh = linalg.svd(x)
    close((u * s[..., None, :]) @ vh, a)
    close(linalg.svdvals(x), np.linalg.svd(a, compute_uv=False))
    found = linalg.eigh(ex.asarray(even))
    close(found.eigenvalues, np.linalg.eigvalsh(even), 1e-10)
    close(linalg.eigvalsh(ex.asarray(even)), np.linalg.eigvalsh(even), 1e-10)


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (2, 3, 5)])
def test_bases_are_reduced_or_complete(shape):
    x = ex.asarray(RANDOM.normal(size=shape))
    m, n = shape[-2:]
    assert linalg.qr(x).Q.shape[-1] == min(m, n)
    assert linalg.qr(x, mode="complete").Q.shape[-1] == m
    assert linalg.svd(x).U.shape[-1] == m and linalg.svd(x).Vh.shape[-2] == n
    assert linalg.svd(x, full_matrices=False).U.shape[-1] == min(m, n)
    b = RANDOM.normal(size=shape[:-1])
    if len(shape) == 2:
        close(linalg.lstsq(x, ex.asarray(b)), np.linalg.lstsq(np.asarray(x), b, rcond=None)[0], 1e-10)


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, -1, -2.5, math.inf, -math.inf])
def test_vector_norms_are_numpys(order):
    x = RANDOM.normal(size=(3, 4))
    close(linalg.vector_norm(ex.asarray(x), axis=1, ord=order), np.linalg.norm(x, ord=order, axis=1))
    assert linalg.vector_norm(ex.asarray(x), ord=order, keepdims=True).shape == (1, 1)
    close(linalg.vector_norm(ex.asarray(x), ord=order), np.linalg.norm(x.ravel(), ord=order))


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
def test_matrix_norms_are_numpys(order):
    x = RANDOM.normal(size=(2, 3, 3))
    close(linalg.matrix_norm(ex.asarray(x), ord=order), np.linalg.norm(x, ord=order, axis=(-2, -1)))
    assert linalg.matrix_norm(ex.asarray(x), ord=order, keepdims=True).shape == (2, 1, 1)
    close(linalg.cond(ex.asarray(x), ord=order), np.linalg.cond(x, order))


def test_powers_and_ranks():
    x = RANDOM.normal(size=(2, 3, 3))
    for n in (0, 1, 5, -2):
        close(linalg.matrix_power(ex.asarray(x), n), np.linalg.matrix_power(x, n), 1e-10)
    ranks = np.stack([np.ones((3, 3)), np.zeros((3, 3)), np.eye(3)])
    assert linalg.matrix_rank(ex.asarray(ranks)).tolist() == [1, 0, 3]
    turn = linalg.expm(ex.asarray([[0.0, 1.0], [-1.0, 0.0]]))
    close(turn, [[math.cos(1), math.sin(1)], [-math.sin(1), math.cos(1)]])


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1,), (2, 1), (), (0,)])
def test_each_matrix_may_have_a_tolerance(shape):
    x, rtol = RANDOM.normal(size=(3, 4, 2)), RANDOM.uniform(0.0, 1.1, size=shape)
    if shape == (0,):
        x = x[:0]
    batch = np.broadcast_shapes(shape, x.shape[:-2])
    each, at = np.broadcast_to(x, (*batch, 4, 2)), np.broadcast_to(rtol, batch)
    want = np.zeros((*batch, 2, 4))
    for k in np.ndindex(batch):
        want[k] = np.linalg.pinv(each[k], rcond=at[k])
    close(linalg.pinv(ex.asarray(x), rtol=ex.asarray(rtol)), want)
    b = RANDOM.normal(size=(4, 3))
    close(linalg.lstsq(ex.asarray(x), ex.asarray(b), rtol=rtol), want @ b)
    grad = ex.grad(lambda x: ex.sum(linalg.pinv(x, rtol=rtol) ** 2))(ex.asarray(x))
    assert grad.shape == x.shape and np.isfinite(np.asarray(grad)).all()


def test_a_matrix_that_it_cannot_be_done_with_is_named():
    with pytest.raises(ValueError, match=r"inv: matrix \[1\] of the batch is singular"):
        linalg.inv(ex.asarray([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]]))
    with pytest.raises(ValueError, match="cholesky: the matrix is not positive definite"):
        linalg.cholesky(ex.asarray([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(TypeError, match="inv: a has dtype float16, expected float32 or float64"):
        linalg.inv(ex.ones((2, 2), dtype=ex.float16))
    with pytest.raises(ValueError, match="matrix_norm: ord is 3"):
        linalg.matrix_norm(ex.ones((2, 2)), ord=3)


def test_everything_is_differentiable():
    x = ex.asarray(RANDOM.normal(size=(3, 3)) + 3 * np.eye(3))

    def loss(x):
        q, r = linalg.qr(x)
        return ex.sum(linalg.solve(x, q)) + linalg.slogdet(x).logabsdet + ex.sum(r * r)

    gradient = np.asarray(ex.grad(loss)(x))
    for i in range(3):
        for j in range(3):
            step = np.zeros((3, 3))
            step[i, j] = 1e-6
            above, below = loss(x + ex.asarray(step)), loss(x - ex.asarray(step))
            assert abs(gradient[i, j] - (float(above) - float(below)) / 2e-6) < 1e-7
    g = [ex.ones((3, 3)), ex.ones((3, 3))]
    direct = ex.ops.qr_backward(g, x, list(linalg.qr(x)))
    whole = ex.grad(lambda x: ex.sum(linalg.qr(x).Q) + ex.sum(linalg.qr(x).R))(x)
    close(direct, np.asarray(whole))
