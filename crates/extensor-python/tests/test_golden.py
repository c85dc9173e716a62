"""Every golden case called from Python: results, explicit gradients, and all modes of
differentiation."""

import golden
import pytest

import extensor as ex

STORED = golden.tensors()
CASES = golden.cases()
NAMES = sorted({case["op"] for case in CASES})


def cases_of(name):
    return [golden.Case(case, STORED) for case in CASES if case["op"] == name]


def expect(case, problem):
    assert problem is None, f"{case.id} {case.params}: {problem}"


def agrees(case, inputs, relative, absolute, mapped=lambda x: x):
    expect(case, golden.disagreement("out", case.call(inputs), case.out, relative, absolute))
    if case.cotangent is None:
        return
    cotangent = mapped(case.cotangent)
    explicit = case.backward(inputs, cotangent)
    moving = [x for x, wanted in zip(inputs, case.wanted) if wanted]
    value, pullback = ex.vjp(case.of_moving(inputs), *moving)
    expect(case, golden.disagreement("value", value, case.out, relative, absolute))
    traced = pullback(cotangent)
    assert len(traced) == len(case.grads)
    for (name, want), by_vjp in zip(case.grads.items(), traced):
        found = explicit[name]
        expect(case, golden.disagreement(f"grad/{name}", found, want, relative, absolute))
        expect(case, golden.disagreement(f"vjp {name}", by_vjp, want, relative, absolute))


def test_there_are_cases_for_most_of_the_catalogue():
    assert len(CASES) >= 821 and len(NAMES) >= 109


@pytest.mark.parametrize("name", NAMES)
def test_results_and_gradients_are_those_of_the_golden_cases(name):
    for case in cases_of(name):
        agrees(case, case.inputs, 1e-7, 1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_in_single_precision_too(name):
    single = lambda x: ex.ops.cast(x, ex.float32) if x.dtype.is_float else x  # noqa: E731
    for case in cases_of(name):
        bound = 1e-5 * case.magnitude()
        agrees(case, [single(x) for x in case.inputs], 1e-4, bound, single)


def strided(x):
    """The same values as a view with gaps, backwards."""
    if x.ndim == 0:
        return x
    wide = ex.ops.flip(ex.ops.stack([x, x], x.ndim), None)
    return ex.ops.flip(wide, None)[..., 0]


@pytest.mark.parametrize("name", NAMES)
def test_of_views_with_gaps_too(name):
    for case in cases_of(name)[:3]:
        agrees(case, [strided(x) for x in case.inputs], 1e-7, 1e-10)


def inner(a, b):
    terms = [x * y for x, y in zip(golden.flat(a), golden.flat(b))]
    return sum(terms), sum(map(abs, terms))


@pytest.mark.parametrize("name", NAMES)
def test_forward_mode_is_the_adjoint_and_second_derivatives_are_those_stored(name):
    for case in cases_of(name):
        if case.hvp is None:
            continue
        moving, tangents = tuple(case.moving()), tuple(case.tangents)
        f = case.of_moving(case.inputs)
        value, along = ex.jvp(f, moving, tangents)
        expect(case, golden.disagreement("value", value, case.out))
        left, size = inner(case.cotangent, along)
        pairs = [inner(g, t) for g, t in zip(case.grads.values(), tangents)]
        right, other = sum(p[0] for p in pairs), sum(p[1] for p in pairs)
        assert abs(left - right) <= 1e-10 + 1e-7 * (size + other), f"{case.id}: {left} {right}"

        def loss(*moved):
            return ex.sum(f(*moved) * case.cotangent)

        places = tuple(range(len(moving)))
        gradient = ex.grad(loss, argnums=places)

        def projected(*moved):
            total = 0.0
            for g, t in zip(gradient(*moved), tangents):
                total = total + ex.sum(g * t)
            return total

        ways = {
            "forward over reverse": ex.hvp(loss, moving, tangents),
            "reverse over reverse": ex.grad(projected, argnums=places)(*moving),
        }
        for way, found in ways.items():
            for (key, want), got in zip(case.hvp.items(), found, strict=True):
                expect(case, golden.disagreement(f"hvp/{key} {way}", got, want))


def normal(seed, *shape):
    return ex.Key(seed).normal(shape, ex.float64)


def positive(seed, *shape):
    """Symmetric positive definite matrices."""
    b = normal(seed, *shape)
    return b @ b.mT + ex.eye(shape[-1], dtype=ex.float64)


#: Operations that have a backward function and no golden case, with inputs and parameters. Those of linear
#: algebra have several results, results determined up to signs, or derivatives that depend on which triangle is read:
#: the comparison in `conformance/beside` forms what is determined.
SAMPLES = [
    ("adaptive_avgpool1d", [normal(1, 2, 3, 7)], {"output_size": 3}),
    ("adaptive_avgpool2d", [normal(1, 2, 3, 5, 6)], {"output_size": [2, 3]}),
    ("adaptive_avgpool3d", [normal(1, 2, 4, 5, 3)], {"output_size": [2, 3, 2]}),
    ("atan2", [normal(1, 2, 3), normal(2, 3)], {}),
    ("cast", [normal(1, 2, 3)], {"dtype": "float32"}),
    ("cast", [ex.ops.cast(normal(1, 2, 3), ex.float32)], {"dtype": "float64"}),
    ("cholesky", [positive(1, 2, 3, 3)], {}),
    ("cholesky", [positive(1, 3, 3)], {"upper": True}),
    ("copysign", [normal(1, 2, 3), normal(2, 1, 3)], {}),
    ("cumprod", [normal(1, 2, 3)], {"axis": -1}),
    ("dropout", [normal(1, 4, 5)], {"p": 0.3, "key": ex.Key(7)}),
    ("dropout2d", [normal(1, 4, 5, 2, 2)], {"p": 0.3, "key": ex.Key(7)}),
    ("eigh", [positive(1, 2, 3, 3)], {}),
    ("eigvalsh", [positive(1, 2, 3, 3)], {}),
    ("expand_dims", [normal(1, 2, 3)], {"axis": [0, 2]}),
    ("expand_dims", [normal(1, 2, 3)], {"axis": -1}),
    ("expand_dims", [normal(1)], {"axis": [0]}),
    ("flatten", [normal(1, 2, 3, 4)], {}),
    ("flatten", [normal(1, 2, 3, 4)], {"start_axis": 1}),
    ("flatten", [normal(1, 2, 3, 4)], {"start_axis": 0, "end_axis": 1}),
    ("hypot", [normal(1, 2, 3), normal(2, 2, 1)], {}),
    ("logaddexp", [normal(1, 2, 3), normal(2, 3)], {}),
    ("norm", [normal(1, 2, 3)], {"axis": [1], "keepdims": True}),
    ("norm", [normal(1, 2, 3)], {}),
    ("qr", [normal(1, 2, 4, 3)], {}),
    ("qr", [normal(1, 3, 4)], {}),
    ("repeat", [normal(1, 2, 3)], {"repeats": 3, "axis": 1}),
    ("repeat", [normal(1, 2, 3)], {"repeats": [2, 0, 1], "axis": 1}),
    ("roll", [normal(1, 2, 3)], {"shift": [1, 2], "axis": [0, 1]}),
    ("scatter_add", [normal(1, 4, 3), ex.asarray([[0, 1, 0], [3, 3, 1]]), normal(2, 2, 3)], {"axis": 0}),
    ("slogdet", [normal(1, 2, 3, 3)], {}),
    ("sort", [normal(1, 2, 5)], {"axis": 1, "descending": True}),
    ("sort", [normal(1, 4, 2)], {"axis": 0}),
    ("split", [normal(1, 2, 6)], {"sections": 3, "axis": 1}),
    ("split", [normal(1, 5, 2)], {"sections": [1, 4], "axis": 0}),
    ("split", [normal(1, 5, 2)], {"sections": [5], "axis": -2}),
    ("squeeze", [normal(1, 1, 3, 1)], {}),
    ("squeeze", [normal(1, 1, 3, 1)], {"axis": [0]}),
    ("squeeze", [normal(1, 1, 3, 1)], {"axis": [-1]}),
    ("svd", [normal(1, 2, 4, 3)], {"full_matrices": False}),
    ("svd", [normal(1, 3, 3)], {}),
]


def test_every_operation_with_a_backward_function_is_tested():
    operations = [op for op in vars(ex.ops).values() if type(op).__name__ == "Operation"]
    named = {op.__name__ for op in operations if op.info["backward"]}
    backwards = {f for f in dir(ex.ops) if type(getattr(ex.ops, f)).__name__ == "BackwardOperation"}
    assert backwards == {golden.backward_names(getattr(ex.ops, name))[0] for name in named}
    assert named - set(NAMES) <= {name for name, _, _ in SAMPLES}
    assert len(backwards) > 100


@pytest.mark.parametrize("name, inputs, params", SAMPLES, ids=[f"{s[0]}-{i}" for i, s in enumerate(SAMPLES)])
def test_backward_functions_agree_with_autodiff(name, inputs, params):
    op = getattr(ex.ops, name)
    names = op.info["inputs"]
    moves = [flag and x.dtype.is_float for x, flag in zip(inputs, op.info["differentiable"])]

    def f(*moving):
        moving = iter(moving)
        return op(*[next(moving) if m else x for x, m in zip(inputs, moves)], **params)

    moving = [x for x, m in zip(inputs, moves) if m]
    value, pullback = ex.vjp(f, *moving)
    if isinstance(value, tuple):
        cotangents = tuple(ex.Key(5 + i).normal(y.shape, y.dtype) for i, y in enumerate(value))
    else:
        cotangents = ex.Key(5).normal(value.shape, value.dtype)
    explicit = golden.explicit(op, names, inputs, params, cotangents)
    for got, want in zip(explicit.values(), pullback(cotangents), strict=True):
        assert got.dtype == want.dtype
        assert golden.disagreement(name, got, want, 1e-12, 1e-12) is None


def test_backward_functions_say_what_is_wrong_with_their_arguments():
    g = normal(1, 2, 3)
    for call in (
        lambda: ex.ops.softmax_backward(g, normal(2, 3)),
        lambda: ex.ops.softmax_backward(g, ex.ops.cast(g, ex.float32)),
        lambda: ex.ops.softmax_backward(g),
        lambda: ex.ops.relu_backward(),
        lambda: ex.ops.relu_backward(g),
        lambda: ex.ops.relu_backward(g, g, g),
        lambda: ex.ops.relu_backward(g, y=g),
        lambda: ex.ops.relu_backward(g, grad_output=g),
        lambda: ex.ops.relu_backward(ex.asarray([1, 2]), ex.asarray([1, 2])),
        lambda: ex.ops.reshape_backward(g, [7]),
        lambda: ex.ops.expand_dims_backward(g, [7]),
        lambda: ex.ops.concatenate_backward(g, [1, 2], 5),
        lambda: ex.ops.stack_backward(g, 2),
        lambda: ex.ops.split_backward([], 0),
        lambda: ex.ops.split_backward([g, normal(1, 5, 7)], 0),
        lambda: ex.ops.batch_norm2d_backward(g, g, normal(1, 3), normal(1, 4), normal(1, 3)),
        lambda: ex.ops.maxpool2d_backward(g, g, [2, 3], [1, 1]),
    ):
        with pytest.raises((TypeError, ValueError, IndexError)):
            call()
