"""The namespace does what the Array API standard says: against NumPy, over random shapes and dtypes."""

import inspect
import math
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import extensor as ex
from extensor._standard import NAMES

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTEGERS = SIGNED + UNSIGNED
FLOATS = ["float32", "float64"]
NUMERIC = INTEGERS + FLOATS
EVERY = ["bool", *NUMERIC]

settings.register_profile("extensor", deadline=None, max_examples=60)
settings.load_profile("extensor")

shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)


def values(dtype, shape, seed, low=-6, high=6):
    """Small numbers of a dtype, a few of them special for floats."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in FLOATS:
        x = rng.uniform(low, high, shape)
        return np.where(rng.uniform(size=shape) < 0.1, np.round(x), x).astype(dtype)
    return rng.integers(0 if dtype in UNSIGNED else low, high, shape).astype(dtype)


def same(got, want, rtol=1e-5):
    """Equal in shape, dtype and values."""
    want = np.asarray(want)
    assert isinstance(got, ex.Tensor), type(got)
    assert got.shape == want.shape, (got.shape, want.shape)
    assert got.dtype.name == want.dtype.name, (got.dtype, want.dtype)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(np.asarray(got), want, rtol=rtol, atol=1e-6)
    else:
        np.testing.assert_array_equal(np.asarray(got), want)


def test_every_name_of_the_standard_is_there():
    missing = [name for name in NAMES if not callable(getattr(ex, name, None))]
    assert not missing
    assert (ex.e, ex.pi, ex.newaxis) == (math.e, math.pi, None)
    assert math.isinf(ex.inf) and math.isnan(ex.nan)
    assert ex.__array_api_version__ == "2025.12"


def test_every_function_has_a_signature_and_a_text():
    for name in NAMES:
        function = getattr(ex, name)
        assert inspect.signature(function).parameters or name == "result_type", name
        assert function.__doc__, name


UNARY = {
    **{name: FLOATS for name in """acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p log2 log10 reciprocal sin
       sinh sqrt tan tanh signbit""".split()},
    **{name: NUMERIC for name in "abs ceil floor round trunc sign square negative isfinite isinf isnan positive".split()},
    "bitwise_invert": ["bool", *INTEGERS],
    "logical_not": ["bool"],
}


@pytest.mark.parametrize("name", UNARY)
@given(shape=shapes, seed=st.integers(0, 1000), data=st.data())
def test_functions_of_one_array_are_numpys(name, shape, seed, data):
    dtype = data.draw(st.sampled_from(UNARY[name]))
    if name == "negative" and dtype in UNSIGNED:
        dtype = "int16"
    x = values(dtype, shape, seed)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x)
        if name in ("ceil", "floor", "round", "trunc"):
            want = want.astype(dtype)
    same(getattr(ex, name)(ex.asarray(x)), want)


BINARY = {
    **{name: NUMERIC for name in "add subtract multiply maximum minimum".split()},
    **{name: EVERY for name in "equal not_equal".split()},
    **{name: NUMERIC for name in "less less_equal greater greater_equal floor_divide remainder pow".split()},
    **{name: FLOATS for name in "divide atan2 hypot logaddexp copysign nextafter".split()},
    **{name: ["bool", *INTEGERS] for name in "bitwise_and bitwise_or bitwise_xor".split()},
    **{name: INTEGERS for name in "bitwise_left_shift bitwise_right_shift".split()},
    **{name: ["bool"] for name in "logical_and logical_or logical_xor".split()},
}


@pytest.mark.parametrize("name", BINARY)
@given(shape=shapes, seed=st.integers(0, 1000), data=st.data())
def test_functions_of_two_arrays_broadcast_and_promote_as_numpys(name, shape, seed, data):
    one = data.draw(st.sampled_from(BINARY[name]))
    kinds = [d for d in BINARY[name] if (d in FLOATS) == (one in FLOATS) and (d == "bool") == (one == "bool")]
    two = data.draw(st.sampled_from(kinds))
    if {one, two} & {"uint64"} and {one, two} & set(SIGNED):
        two = one
    other = tuple(data.draw(st.sampled_from([n, 1])) for n in shape)[data.draw(st.integers(0, len(shape))):]
    x, y = values(one, shape, seed), values(two, other, seed + 1)
    if name in ("floor_divide", "remainder"):
        y = np.where(y == 0, np.ones((), y.dtype), y)
    if name == "pow":
        x, y = np.abs(x), np.abs(y)
    if "shift" in name:
        y = np.abs(y) % 7
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x, y)
    same(getattr(ex, name)(ex.asarray(x), ex.asarray(y)), want, rtol=1e-4)


OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
]


@pytest.mark.parametrize("op", OPERATORS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", FLOATS + ["int32"])
def test_a_python_number_takes_the_tensors_dtype_on_either_side(op, dtype):
    if op is operator.truediv and dtype == "int32":
        pytest.skip("the standard divides floats")
    x = np.abs(values(dtype, (5,), 3)) + np.ones((), dtype)
    for a, b in ((x, 2), (2, x), *(((x, 0.5), (0.5, x)) if dtype in FLOATS else ())):
        to = lambda v: ex.asarray(v) if isinstance(v, np.ndarray) else v  # noqa: E731
        same(op(to(a), to(b)), op(a, b))


def test_numbers_that_do_not_mix_are_type_errors():
    whole, flag, real = ex.asarray([1, 2]), ex.asarray([True]), ex.asarray([1.0])
    for f in (
        lambda: whole + 0.5, lambda: flag + 1, lambda: whole + True, lambda: whole + real, lambda: flag * real,
        lambda: ex.asarray([1], dtype=ex.uint64) + whole, lambda: real & real, lambda: real + "a", lambda: real + 1j,
        lambda: ex.add(1.0, None),
    ):
        with pytest.raises(TypeError):
            f()
    with pytest.raises(OverflowError):
        ex.asarray([1], dtype=ex.int8) + 1000


def test_in_place_operators_make_new_tensors():
    x = y = ex.asarray([1.0, 2.0])
    x += 1
    assert x.tolist() == [2.0, 3.0] and y.tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match="immutable"):
        x[0] = 5.0


REDUCED = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "all": np.all, "any": np.any}


@pytest.mark.parametrize("name", [*REDUCED, "mean", "var", "std"])
@given(shape=shapes, seed=st.integers(0, 1000), keepdims=st.booleans(), data=st.data())
def test_reductions_are_numpys(name, shape, seed, keepdims, data):
    dtypes = FLOATS if name in ("mean", "var", "std") else EVERY if name in ("all", "any") else NUMERIC
    x = values(data.draw(st.sampled_from(dtypes)), shape, seed)
    axes = st.lists(st.sampled_from(range(len(shape))), unique=True).map(tuple) if shape else st.just(())
    axis = data.draw(st.one_of(st.none(), axes))
    if x.size == 0 and name in ("max", "min", "mean", "var", "std"):
        return
    options = {"axis": axis, "keepdims": keepdims}
    if name == "var" or name == "std":
        want = getattr(np, name)(x, ddof=0, **options)
        same(getattr(ex, name)(ex.asarray(x), correction=0, **options), want)
        return
    want = np.asarray(getattr(np, name)(x, **options))
    same(getattr(ex, name)(ex.asarray(x), **options), want, rtol=1e-4)


def test_whole_numbers_are_summed_in_64_bits_and_floats_in_their_own():
    assert ex.sum(ex.full((300,), 100, dtype=ex.int8)).item() == 30000
    assert ex.sum(ex.ones(3, dtype=ex.uint8)).dtype == ex.uint64
    assert ex.sum(ex.ones(3, dtype=ex.float32)).dtype == ex.float32
    assert ex.sum(ex.ones(3, dtype=ex.int8), dtype=ex.int8).dtype == ex.int8


@given(shape=shapes.filter(len), seed=st.integers(0, 1000), data=st.data())
def test_running_sums_and_products_and_differences_are_numpys(shape, seed, data):
    x = values(data.draw(st.sampled_from(["float64", "int64"])), shape, seed, -3, 3)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    y = ex.asarray(x)
    same(ex.cumulative_sum(y, axis=axis), np.cumulative_sum(x, axis=axis))
    same(ex.cumulative_prod(y, axis=axis), np.cumulative_prod(x, axis=axis))
    same(ex.cumulative_sum(y, axis=axis, include_initial=True), np.cumulative_sum(x, axis=axis, include_initial=True))
    if shape[axis] > 2:
        same(ex.diff(y, axis=axis, n=2), np.diff(x, axis=axis, n=2))


@given(shape=shapes.filter(len), seed=st.integers(0, 1000), descending=st.booleans(), data=st.data())
def test_sorting_and_searching_are_numpys(shape, seed, descending, data):
    x = values(data.draw(st.sampled_from(NUMERIC)), shape, seed)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    y = ex.asarray(x)
    order = np.argsort(x, axis=axis, stable=True)
    if descending:
        order = np.flip(x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis=axis, stable=True), axis)
    same(ex.argsort(y, axis=axis, descending=descending), order)
    same(ex.sort(y, axis=axis, descending=descending), np.take_along_axis(x, order, axis))
    if x.size:
        same(ex.argmax(y, axis=axis), np.argmax(x, axis=axis))
        same(ex.argmin(y), np.argmin(x))
    for got, want in zip(ex.nonzero(y), np.nonzero(x), strict=True):
        same(got, want)
    same(ex.count_nonzero(y, axis=axis), np.count_nonzero(x, axis=axis))
    got = ex.unique_all(y)
    want = np.unique_all(x)
    for g, w in zip(got, want):
        same(g, w.reshape(x.shape) if w is want.inverse_indices else w)
    line = np.sort(x.ravel())
    same(ex.searchsorted(ex.asarray(line), y), np.searchsorted(line, x))
    same(ex.searchsorted(ex.asarray(line), y, side="right"), np.searchsorted(line, x, side="right"))
    some = line[: len(line) // 2]
    same(ex.isin(y, ex.asarray(some)), np.isin(x, some))


@given(shape=shapes, seed=st.integers(0, 1000), data=st.data())
def test_shapes_are_changed_as_numpys(shape, seed, data):
    x = values(data.draw(st.sampled_from(EVERY)), shape, seed)
    y, n = ex.asarray(x), len(shape)
    axes = data.draw(st.permutations(range(n)))
    same(ex.permute_dims(y, axes), np.transpose(x, axes))
    same(ex.reshape(y, (-1,) if x.size else (0,)), x.reshape(-1))
    same(ex.flip(y), np.flip(x))
    same(ex.expand_dims(y, axis=0), x[None])
    same(ex.squeeze(ex.expand_dims(y, axis=-1), axis=-1), x)
    shift = data.draw(st.integers(-5, 5))
    same(ex.roll(y, shift), np.roll(x, shift))
    if n:
        axis = data.draw(st.integers(-n, n - 1))
        same(ex.roll(y, shift, axis=axis), np.roll(x, shift, axis=axis))
        same(ex.moveaxis(y, axis, 0), np.moveaxis(x, axis, 0))
        same(ex.repeat(y, 2, axis=axis), np.repeat(x, 2, axis=axis))
        same(ex.concat([y, y], axis=axis), np.concatenate([x, x], axis=axis))
        for part, want in zip(ex.unstack(y, axis=axis), np.unstack(x, axis=axis), strict=True):
            same(part, want)
    same(ex.stack([y, y], axis=-1), np.stack([x, x], axis=-1))
    times = data.draw(st.lists(st.integers(0, 2), max_size=4).map(tuple))
    same(ex.tile(y, times), np.tile(x, times))
    if n >= 2:
        k = data.draw(st.integers(-3, 3))
        same(ex.tril(y, k=k), np.tril(x, k))
        same(ex.triu(y, k=k), np.triu(x, k))
        same(y.mT, np.matrix_transpose(x))


def index_of(size):
    bound = st.integers(-size - 1, size + 1) | st.none()
    part = st.builds(slice, bound, bound, st.sampled_from([None, 1, 2, -1, -2]))
    return part | st.integers(-size, size - 1) if size else part


@given(shape=shapes, seed=st.integers(0, 1000), data=st.data())
def test_an_index_picks_what_numpy_picks(shape, seed, data):
    x = values("float64", shape, seed)
    y = ex.asarray(x)
    key = [data.draw(index_of(n)) for n in shape]
    if data.draw(st.booleans()):
        key.insert(data.draw(st.integers(0, len(key))), None)
    if data.draw(st.booleans()):
        cut = data.draw(st.integers(0, len(key)))
        kept = data.draw(st.integers(cut, len(key)))
        key = [*key[:cut], ..., *key[kept:]]
    same(y[tuple(key)], x[tuple(key)])
    mask = x > 0
    same(y[ex.asarray(mask)], x[mask])
    if x.ndim and x.size:
        pick = data.draw(st.lists(st.integers(-shape[0], shape[0] - 1), max_size=4))
        where = np.asarray(pick, dtype=np.int64)
        same(y[ex.asarray(where)], x[where])
        same(ex.take(y, ex.asarray(where), axis=0), np.take(x, where, axis=0))
    if x.ndim >= 2 and x.size:
        i, j = np.asarray([0, -1]), np.asarray([[0], [-1]])
        same(y[ex.asarray(i), ex.asarray(j)], x[i, j])
        same(y[0, ex.asarray(i)], x[0, i])
    if x.ndim == 3 and x.size:
        same(y[ex.asarray(i), :, 0], x[i, :, 0])


def test_what_is_picked_can_be_differentiated():
    x = ex.asarray([[1.0, 2.0], [3.0, 4.0]])
    mask = ex.asarray([[True, False], [False, True]])
    grad = ex.grad(lambda x: ex.sum(x[mask] ** 2) + ex.sum(x[ex.asarray([0, 0]), 1]) + x[-1, ::-1][0])(x)
    assert grad.tolist() == [[2.0, 2.0], [0.0, 9.0]]


def test_bad_indices_are_index_errors_and_the_wrong_kind_type_errors():
    x = ex.zeros((2, 3))
    for key in (2, (0, 3), (0, 0, 0), ex.asarray([5]), ex.asarray([True]), (..., ...), 2**80):
        with pytest.raises(IndexError):
            x[key]
    for key in ("a", 1.5, ex.asarray([0.5]), object()):
        with pytest.raises(TypeError):
            x[key]
    with pytest.raises(ValueError):
        x[::0]


@given(seed=st.integers(0, 1000), data=st.data())
def test_products_are_numpys(seed, data):
    dtype = data.draw(st.sampled_from(["float32", "float64", "int32", "int64", "uint8"]))
    b, m, k, n = (data.draw(st.integers(0, 4)) for _ in range(4))
    one, two = values(dtype, (b, m, k), seed), values(dtype, (k, n), seed + 1)
    x, y = ex.asarray(one), ex.asarray(two)
    same(x @ y, one @ two, rtol=1e-4)
    same(ex.matmul(x, y), one @ two, rtol=1e-4)
    same(ex.tensordot(x, y, axes=1), np.tensordot(one, two, axes=1).astype(dtype), rtol=1e-4)
    same(ex.tensordot(x, y, axes=((2,), (0,))), np.tensordot(one, two, axes=1).astype(dtype), rtol=1e-4)
    same(ex.vecdot(x, x), np.vecdot(one, one), rtol=1e-4)


def test_new_tensors_are_as_asked():
    same(ex.arange(5), np.arange(5))
    same(ex.arange(1, 10, 3, dtype=ex.float32), np.arange(1, 10, 3, dtype="float32"))
    same(ex.arange(5, 0, -2), np.arange(5, 0, -2))
    same(ex.linspace(0, 1, 5), np.linspace(0, 1, 5))
    same(ex.linspace(0, 1, 4, endpoint=False), np.linspace(0, 1, 4, endpoint=False))
    same(ex.eye(2, 3, k=1), np.eye(2, 3, k=1))
    same(ex.full((2,), 7), np.full((2,), 7))
    same(ex.full_like(ex.ones(2, dtype=ex.float32), 2), np.full(2, 2, "float32"))
    same(ex.zeros(3), np.zeros(3))
    same(ex.ones((2, 2), dtype="int8"), np.ones((2, 2), "int8"))
    same(ex.empty((0, 3)), np.zeros((0, 3)))
    for got, want in zip(ex.meshgrid(ex.arange(2), ex.arange(3)), np.meshgrid(np.arange(2), np.arange(3))):
        same(got, want)
    same(ex.asarray([[1, 2], [3, 4]]), np.asarray([[1, 2], [3, 4]]))
    same(ex.asarray([True, False]), np.asarray([True, False]))
    same(ex.asarray([1, 2.5]), np.asarray([1, 2.5]))
    same(ex.asarray(2**63), np.asarray(2**63, dtype="uint64"))
    assert ex.asarray([]).dtype == ex.float64
    for bad in ([1, [2]], [[1], [2, 3]], "text", {}, object(), [None], 1j, 2**70):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            ex.asarray(bad)


def test_dtypes_promote_convert_and_tell_their_limits():
    assert ex.result_type(ex.int8, ex.uint8) == ex.int16
    assert ex.result_type(ex.asarray([1.0], dtype=ex.float32), 2) == ex.float32
    assert ex.can_cast(ex.int8, ex.int16) and not ex.can_cast(ex.int16, ex.int8)
    assert ex.isdtype(ex.float32, "real floating") and not ex.isdtype(ex.float32, ("integral", "bool"))
    assert ex.finfo(ex.float32).eps == float(np.finfo("float32").eps) and ex.finfo(ex.float64).max == np.finfo("f8").max
    assert (ex.iinfo(ex.uint8).min, ex.iinfo(ex.uint8).max) == (0, 255)
    same(ex.astype(ex.asarray([1.5, -2.5]), ex.int32), np.asarray([1, -2], "int32"))
    same(ex.astype(ex.asarray([0, 3]), ex.bool), np.asarray([False, True]))
    assert ex.broadcast_shapes((2, 1), (3,)) == (2, 3)
    assert repr(ex.float32) == "extensor.float32" and ex.float32 != ex.float64 and ex.float32 is ex.ones(1, dtype="float32").dtype == "float32"
    with pytest.raises(TypeError):
        ex.result_type(ex.int32, ex.float32)


def test_scalars_become_python_numbers_and_arrays_do_not():
    assert float(ex.asarray(1.5)) == 1.5 and int(ex.asarray(3)) == 3 and bool(ex.asarray(True))
    assert complex(ex.asarray(2.0)) == 2 + 0j and [10, 20][ex.asarray(1)] == 20
    assert f"{ex.asarray(0.123456):.2f}" == "0.12"
    for f in (float, int, bool, complex, operator.index):
        with pytest.raises(TypeError):
            f(ex.asarray([1, 2]))
    with pytest.raises(TypeError):
        operator.index(ex.asarray(1.0))
    with pytest.raises(OverflowError):
        int(ex.asarray(math.inf))


def test_clip_passes_the_gradient_on_the_closed_interval_with_tensor_bounds_too():
    x = ex.asarray([-1.5, -1.0, 0.0, 1.0, 1.5])
    low, high = ex.full(5, -1.0), ex.full(5, 1.0)
    for bounds in ((-1.0, 1.0), (low, high), (low, 1.0)):
        gradient = ex.grad(lambda x: ex.sum(ex.clip(x, *bounds)))(x)
        same(gradient, np.asarray([0.0, 1.0, 1.0, 1.0, 0.0]))
    gradient = ex.grad(lambda low: ex.sum(ex.clip(x, low, high)))(low)
    same(gradient, np.asarray([1.0, 0.0, 0.0, 0.0, 0.0]))
    nan = ex.asarray([float("nan")] * 5)
    assert bool(ex.all(ex.isnan(ex.clip(x, nan, high))))


def test_where_and_clip_take_numbers():
    x = ex.asarray([1.0, -1.0])
    same(ex.where(x > 0, x, 0.0), np.asarray([1.0, 0.0]))
    same(ex.where(x > 0, 1, 2), np.asarray([1, 2]))
    same(ex.clip(x, -0.5, 0.5), np.asarray([0.5, -0.5]))
    same(ex.clip(ex.asarray([1, 5, 9]), 2, 7), np.asarray([2, 5, 7]))
    same(ex.clip(x, ex.asarray([2.0, -3.0])), np.asarray([2.0, -1.0]))


def test_the_namespace_is_found_from_an_array_and_says_what_it_can():
    x = ex.ones(2)
    assert x.__array_namespace__() is ex and x.__array_namespace__(api_version="2024.12") is ex
    with pytest.raises(ValueError, match="1999"):
        x.__array_namespace__(api_version="1999.12")
    info = ex.__array_namespace_info__()
    assert info.default_device() == "cpu" and info.default_dtypes()["real floating"] == ex.float64
    assert set(info.dtypes(kind="signed integer")) == set(SIGNED)
    assert x.device == "cpu" and x.to_device("cpu") is x
    with pytest.raises(ValueError):
        ex.zeros(2, device="cuda")


def test_tensors_print_as_people_expect():
    assert repr(ex.asarray([[1.0, 2.5], [3.0, 4.0]])) == (
        "Tensor([[1.0, 2.5],\n        [3.0, 4.0]], dtype=float64)"
    )
    assert repr(ex.asarray([True, False])) == "Tensor([ True, False], dtype=bool)"
    assert repr(ex.zeros((0, 2))) == "Tensor([], dtype=float64, shape=(0, 2))"
    assert repr(ex.asarray(math.nan)) == "Tensor(nan, dtype=float64)"
    assert "..." in repr(ex.zeros(5000)) and "shape=(5000,)" in repr(ex.zeros(5000))


def test_methods_are_the_functions_of_their_names():
    x = values("float64", (2, 3, 4), 5)
    y = ex.asarray(x)
    for name in ("sum", "prod", "mean", "max", "min", "all", "any", "var", "std"):
        for options in ({}, {"axis": 1}, {"axis": (0, 2), "keepdims": True}):
            same(getattr(y, name)(**options), getattr(x, name)(**options))
    same(y.sum(0), x.sum(0))
    same(y.std(ddof=1), x.std(ddof=1))
    same(y.argmax(1), x.argmax(1))
    same(y.reshape(6, 4), x.reshape(6, 4))
    same(y.reshape((4, -1)), x.reshape(4, -1))
    same(y.astype("float32"), x.astype("float32"))
    same(y.flatten(), x.flatten())
    same(y.transpose(2, 0, 1), x.transpose(2, 0, 1))
    same(y.transpose(), x.transpose())
    same(y[:1].squeeze(0), x[0])
    same(y.clip(-1.0, 1.0), x.clip(-1.0, 1.0))
    with pytest.raises(TypeError, match="immutable"):
        y.sum(out=x)


def test_numpys_functions_take_tensors_and_are_differentiated():
    x = values("float64", (3, 4), 6)
    y = ex.asarray(x)
    same(np.exp(y), np.exp(x))
    same(np.add(x, y), x + x)
    same(x * y, x * x)
    same(np.arctan2(y, 1.0), np.arctan2(x, 1.0))
    for f in (np.sum, np.mean, np.max, np.std, np.argmax, np.prod):
        assert float(np.asarray(f(y))) == pytest.approx(float(f(x)))
    np.testing.assert_allclose(np.add.accumulate(y), np.add.accumulate(x))
    np.testing.assert_allclose(np.cbrt(y), np.cbrt(x))
    out = x.copy()
    out *= y
    np.testing.assert_allclose(out, x * x)
    grad = ex.grad(lambda y: np.sum(np.exp(y) * x))(y)
    np.testing.assert_allclose(grad, np.exp(x) * x)
    with pytest.raises(TypeError, match="stop_gradient"):
        ex.grad(lambda y: ex.sum(ex.asarray(np.cbrt(y))))(y)


def test_an_ellipsis_of_no_axes_keeps_index_arrays_apart():
    x = values("float64", (5, 2, 2), 7)
    i, j = np.asarray([0, 1, 0]), np.asarray([1, 0, 1])
    same(ex.asarray(x)[:, ex.asarray(i), ..., ex.asarray(j)], x[:, i, ..., j])


def test_what_holds_no_numbers_is_a_type_error():
    for bad in (np.datetime64("2020-01-01"), np.timedelta64(1, "s"), np.void(b"ab"), np.asarray(["a"])):
        with pytest.raises(TypeError):
            ex.asarray(bad)


def test_dtypes_equal_their_names_and_errors_speak_pythons():
    assert ex.float32 == "float32" and ex.float32 == np.float32 and ex.float64 == float and ex.int8 != "i8"
    with pytest.raises(TypeError, match="int64 and float64 do not mix"):
        ex.asarray([1]) + ex.asarray([1.0])
    with pytest.raises(TypeError, match="whole number"):
        ex.Key("a")
    with pytest.raises(TypeError, match="format"):
        f"{ex.ones(2):.2f}"
    with pytest.raises(TypeError, match="dtype float64 is no index"):
        ex.ones(2)[ex.asarray([0.0])]
