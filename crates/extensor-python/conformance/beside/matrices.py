"""Linear algebra: factorisations, systems, functions of matrices.

Of what is determined up to signs, something that does not depend on them is compared: outer products of eigenvectors
and of singular vectors; Q and R with a positive diagonal. Symmetric matrices are made of B inside the functions, so
that the gradient by B is one thing.
"""

import numpy as np
import torch

import extensor as ex

from .entry import Call, entry, ours, words

AREA = "linalg"
T = torch.linalg


def t(x):
    """The last two axes exchanged, in either library."""
    if isinstance(x, torch.Tensor):
        return x.mT
    axes = list(range(x.ndim))
    return ex.ops.transpose(x, [*axes[:-2], axes[-1], axes[-2]])


def sign(x):
    return torch.sign(x) if isinstance(x, torch.Tensor) else ex.ops.sign(x)


def both(made, mine, theirs):
    """Our function and PyTorch's, each of `made` of its arguments."""
    return (lambda *xs: mine(*made(*xs))), (lambda *xs: theirs(*made(*xs)))


def square(d, low=1, high=4):
    n = d.size(low, high)
    return d.well(d.batch(), n, n)


def tall_or_wide(d):
    return d.well(d.batch(), d.size(), d.size())


@entry("cholesky", area=AREA)
def cholesky(d):
    b = d.normal(*d.batch(), *[d.size(0 if d.chance(0.05) else 1)] * 2)
    eye = np.eye(b.shape[-1])
    upper = d.chance(0.3)
    call = ours("cholesky")

    def mine(b):
        return call(b @ t(b) + ex.ops.cast(ex.asarray(eye), b.dtype), upper=True if upper else None)

    def theirs(b):
        return T.cholesky(b @ t(b) + torch.from_numpy(eye), upper=upper)

    return Call([b], mine, theirs, words(upper=upper))


def signed_qr(q, r):
    n = min(q.shape[-1], r.shape[-2])
    eye = np.eye(n, r.shape[-1])
    eye = torch.from_numpy(eye) if isinstance(r, torch.Tensor) else ex.ops.cast(ex.asarray(eye), r.dtype)
    s = sign((r * eye).sum(-1) if isinstance(r, torch.Tensor) else ex.ops.sum(r * eye, axis=[-1]))
    return q * s[..., None, :], r * s[..., :, None]


@entry("qr", area=AREA)
def qr(d):
    n = d.size()
    batch = d.batch()
    a = d.well(batch, n + d.whole(0, 2), n)
    if a.shape[-2] == n and d.chance():
        # Wide: its first columns are a basis.
        a = np.concatenate([a, d.normal(*batch, n, d.whole(1, 2))], -1)
    call = ours("qr")
    return Call([a], lambda a: signed_qr(*call(a)), lambda a: signed_qr(*T.qr(a)))


def outer(a, b):
    """The outer products of columns: of singular vectors or eigenvectors they do not depend on signs."""
    return a[..., :, None, :] * b[..., None, :, :]


@entry("svd", area=AREA)
def svd(d):
    a = tall_or_wide(d)
    call = ours("svd")
    without_signs = lambda u, s, vh: (s, outer(u, u), outer(u, t(vh)))  # noqa: E731
    mine = lambda a: without_signs(*call(a, full_matrices=False))  # noqa: E731
    return Call([a], mine, lambda a: without_signs(*T.svd(a, full_matrices=False)))


@entry("svdvals", area=AREA)
def svdvals(d):
    return Call([tall_or_wide(d)], ours("svdvals"), T.svdvals)


def symmetrised(b):
    return ((b + t(b)) * 0.5,)


@entry("eigh", area=AREA)
def eigh(d):
    n = d.size()
    a = d.symmetric(d.batch(), n) + 0.0
    b = a + (lambda s: s - np.swapaxes(s, -1, -2))(d.normal(n, n))
    call = ours("eigh")

    without_signs = lambda values, vectors: (values, outer(vectors, vectors))  # noqa: E731
    mine, theirs = both(symmetrised, lambda a: without_signs(*call(a)), lambda a: without_signs(*T.eigh(a)))
    return Call([b], mine, theirs)


@entry("eigvalsh", area=AREA)
def eigvalsh(d):
    n = d.size()
    b = d.symmetric(d.batch(), n) + (lambda s: s - np.swapaxes(s, -1, -2))(d.normal(n, n))
    mine, theirs = both(symmetrised, ours("eigvalsh"), T.eigvalsh)
    return Call([b], mine, theirs)


@entry("solve", area=AREA)
def solve(d):
    a = square(d)
    n, batch = a.shape[-1], a.shape[:-2]
    if not batch and d.chance(0.3):
        b = d.normal(n)
    else:
        b = d.normal(*(batch if d.chance(0.6) else ()), n, d.whole(1, 3))
        if b.shape == a.shape[:-1]:
            b = b[..., None]
    return Call([a, b], ours("solve"), T.solve)


@entry("solve_triangular", area=AREA)
def solve_triangular(d):
    n, batch = d.size(), d.batch()
    upper, unit, left = d.chance(), d.chance(0.3), d.chance(0.7)
    a = d.uniform(-1, 1, *batch, n, n) / max(1, n / 3)
    a = a + np.eye(n) * np.where(np.diagonal(a, axis1=-2, axis2=-1) >= 0, 1.5, -1.5)[..., None, :]
    k = d.whole(1, 3)
    b = d.normal(*batch, *((n, k) if left else (k, n)))
    call = ours("solve_triangular")

    def mine(a, b):
        more = {"unitriangular": True} if unit else {}
        if not left:
            # From the right is from the left of what is transposed.
            return t(call(t(a), t(b), upper=not upper, **more))
        return call(a, b, upper=upper, **more)

    def theirs(a, b):
        return T.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit)

    return Call([a, b], mine, theirs, words(upper=upper, left=left, unitriangular=unit))


def of_square(name, theirs, *others, single=True):
    @entry(name, *others, area=AREA)
    def draw(d):
        return Call([square(d)], ours(name, *others), theirs, single=single)


of_square("inv", T.inv)
of_square("det", T.det)
of_square("slogdet", lambda a: tuple(T.slogdet(a)))
of_square("matrix_exp", torch.matrix_exp, "expm")


@entry("det_of_singular", area=AREA)
def det_of_singular(d):
    """Rank n - 1: the determinant is 0 and its gradient, the cofactors, is not."""
    n = d.whole(2, 4)
    while True:
        u, v = d.orthogonal((), n), d.orthogonal((), n)
        values = d.spread((), n)
        values[-1] = 0.0
        a = u * values @ v.T
        # Where a factorisation ends in an exact 0, PyTorch's gradient is 0.
        if T.det(torch.from_numpy(a)) != 0.0:
            return Call([a], ours("det"), T.det, order=1, single=False)


@entry("pinv", area=AREA)
def pinv(d):
    return Call([tall_or_wide(d)], ours("pinv"), T.pinv)


@entry("lstsq", area=AREA)
def lstsq(d):
    n = d.whole(1, 3)
    a = d.well(d.batch(), n + d.whole(0, 3), n)
    b = d.normal(*a.shape[:-1], d.whole(1, 3))
    call = ours("lstsq")

    def mine(a, b):
        found = call(a, b)
        return found[0] if isinstance(found, tuple) else found

    # PyTorch's own derivative of lstsq is that of pinv(A) @ B, written so here.
    return Call([a, b], mine, lambda a, b: T.pinv(a) @ b)


def by_sums(d, make):
    """Matrices of which the sums of magnitudes along rows and columns are apart, and no element is near 0."""
    while True:
        a = make(d)
        for x in [a, np.linalg.inv(a)] if a.shape[-1] == a.shape[-2] else [a]:
            sums = [np.sort(np.abs(x).sum(axis), -1) for axis in (-1, -2)]
            gaps = [np.diff(s, axis=-1).min(initial=1.0) for s in sums]
            if min(*gaps, np.abs(x).min(initial=1.0)) < 0.03:
                break
        else:
            return a


ORDERS = ["fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf")]


@entry("matrix_norm", area=AREA)
def matrix_norm(d):
    order, keep = d.pick(*ORDERS), d.chance(0.3)
    a = by_sums(d, tall_or_wide) if order in (1, -1, float("inf"), -float("inf")) else tall_or_wide(d)
    call = ours("matrix_norm")
    mine = lambda a: call(a, ord=order if order != "fro" else None, keepdims=keep or None)  # noqa: E731
    return Call([a], mine, lambda a: T.matrix_norm(a, order, keepdim=keep), words(ord=order, keepdims=keep))


@entry("vector_norm", area=AREA)
def vector_norm(d):
    shape = d.shape(0, 3)
    order = d.pick(2, 2, 1, 3, 0, 0.5, -1, -2, 2.5, float("inf"), -float("inf"))
    axis, keep = d.axes(len(shape)), d.chance(0.3)
    if 0 in shape and order != 2:
        order = 2
    # Magnitudes are apart too: the numbers of one sign lie between those of the other.
    x = np.where((numbers := d.apart(*shape)) > 0, numbers, numbers - 0.05) if shape else d.signed(0.3, 2)
    dim = None if axis is None else tuple(axis)
    call = ours("vector_norm")
    mine = lambda x: call(x, ord=order if order != 2 else None, axis=axis, keepdims=keep or None)  # noqa: E731
    return Call([x], mine, lambda x: T.vector_norm(x, order, dim, keep), words(ord=order, axis=axis, keepdims=keep))


@entry("matrix_power", area=AREA)
def matrix_power(d):
    n = d.whole(-3, 6)
    call = ours("matrix_power")
    return Call([square(d)], lambda a: call(a, n), lambda a: T.matrix_power(a, n), words(n=n))


@entry("matrix_rank", area=AREA)
def matrix_rank(d):
    m, n = d.whole(1, 5), d.whole(1, 5)
    r = d.whole(0, min(m, n))
    a = d.normal(*d.batch(), m, r) @ d.normal(r, n)
    return Call([a], ours("matrix_rank"), T.matrix_rank, words(rank=r), order=0, single=False)


@entry("cond", area=AREA)
def cond(d):
    p = d.pick(None, 2, -2, "fro", 1, float("inf"))
    a = tall_or_wide(d) if p in (None, 2, -2) else by_sums(d, square)
    call = ours("cond")

    def theirs(a):
        # PyTorch's own changes in place what its second derivative reads.
        return T.cond(a, p) if p in (None, 2, -2) else T.matrix_norm(a, p) * T.matrix_norm(T.inv(a), p)

    return Call([a], lambda a: call(a, p=p), theirs, words(p=p))
