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
