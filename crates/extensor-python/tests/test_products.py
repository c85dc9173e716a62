"""Products over any axes, beside NumPy's."""

import pytest

import extensor as ex

np = pytest.importorskip("numpy")

EQUATIONS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("ba", (3, 4)),
    ("ii", (4, 4)),
    ("ii->i", (4, 4)),
    ("iij->j", (3, 3, 2)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("bi,ijk,bj->bk", (2, 3), (3, 4, 5), (2, 4)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    ("i...,i...", (3, 2), (3, 2)),
    ("B,aC,cB", (2,), (3, 4), (5, 2)),
]


def normal(seed, shape):
    return ex.Key(seed).normal(shape, dtype=ex.float64)


@pytest.mark.parametrize("equation, shapes", [(e, s) for e, *s in EQUATIONS])
def test_an_equation_means_what_it_means_in_numpy(equation, shapes):
    operands = [normal(seed, shape) for seed, shape in enumerate(shapes)]
    want = np.einsum(equation, *[np.asarray(x) for x in operands])
    for found in (
        ex.einsum(equation, *operands), ex.einsum(equation, operands), ex.ops.einsum(operands, equation)
    ):
        assert found.shape == want.shape
        assert np.allclose(np.asarray(found), want, rtol=1e-13, atol=1e-13)


def test_the_gradients_of_an_equation_are_those_of_its_backward_function():
    a, b, g = normal(1, (3, 4)), normal(2, (4, 5)), normal(3, (5, 3))
    _, pull = ex.vjp(lambda a, b: ex.einsum("ij,jk->ki", a, b), a, b)
    want = pull(g)
    found = ex.einsum_backward(g, [a, b], "ij,jk->ki")
    assert [x.tolist() for x in found] == [x.tolist() for x in want]
    with pytest.raises(TypeError, match="einsum_backward: x must be given"):
        ex.einsum_backward(g, equation="ij,jk->ki")


def test_the_path_is_shown():
    path = ex.einsum_path("ab,bc,cd->ad", ex.ones((2, 50)), ex.ones((50, 60)), ex.ones((60, 3)))
    assert [step[2] for step in path.steps] == ["ab,bc->ac", "ac,cd->ad"]
    assert path.at_once == 2 * 2 * 50 * 60 * 3 and path.products < path.at_once
    assert "ab,bc->ac" in str(path)


def test_products_and_diagonals_are_numpys():
    a, b = normal(1, (2, 3)), normal(2, (4, 2, 2))
    for found, want in [
        (ex.kron(a, b), np.kron(np.asarray(a), np.asarray(b))),
        (ex.cross(a, normal(3, (3,))), np.cross(np.asarray(a), np.asarray(normal(3, (3,))))),
        (ex.trace(b), np.trace(np.asarray(b), axis1=-2, axis2=-1)),
        (ex.diagonal(b, 1), np.diagonal(np.asarray(b), 1, -2, -1)),
        (ex.diag(a), np.diag(np.asarray(a))),
        (ex.diag(a[0], -1), np.diag(np.asarray(a[0]), -1)),
        (ex.tensordot(a, b, axes=((0,), (2,))), np.tensordot(np.asarray(a), np.asarray(b), ((0,), (2,)))),
    ]:
        assert found.shape == want.shape
        assert np.allclose(np.asarray(found), want, rtol=1e-13, atol=1e-13)


def test_a_wrong_equation_is_an_error_that_says_why():
    x = ex.ones((2, 3))
    for operands, equation, message in [
        ([x], "ijk", "expected 3 dimensions, as \"ijk\" says"),
        ([x, x], "ij,jk", "expected size 3 along 'j', as x0 has"),
        ([x], "ij->k", "expected 'k' of the result in an operand"),
        ([x], "i.j", "expected letters"),
    ]:
        with pytest.raises(ValueError, match=message.replace("(", "\\(")):
            ex.einsum(equation, *operands)
