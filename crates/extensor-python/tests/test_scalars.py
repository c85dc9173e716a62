"""A Python number beside a tensor is a 0-d tensor of its dtype, as the Array API standard has it, in
operators either way round, in comparisons, and in the functions; kinds do not mix."""

import math
import operator

import pytest

import extensor as ex

FLOATS = [ex.float16, ex.bfloat16, ex.float32, ex.float64]
INTEGERS = [ex.int8, ex.int16, ex.int32, ex.int64, ex.uint8, ex.uint16, ex.uint32, ex.uint64]
ARITHMETIC = {
    operator.add: ex.add,
    operator.sub: ex.subtract,
    operator.mul: ex.multiply,
    operator.truediv: ex.divide,
    operator.floordiv: ex.floor_divide,
    operator.mod: ex.remainder,
    operator.pow: ex.pow,
}
COMPARISONS = {
    operator.lt: ex.less,
    operator.le: ex.less_equal,
    operator.gt: ex.greater,
    operator.ge: ex.greater_equal,
    operator.eq: ex.equal,
    operator.ne: ex.not_equal,
}
BITWISE = {
    operator.and_: ex.bitwise_and,
    operator.or_: ex.bitwise_or,
    operator.xor: ex.bitwise_xor,
    operator.lshift: ex.bitwise_left_shift,
    operator.rshift: ex.bitwise_right_shift,
}
FUNCTIONS = [ex.maximum, ex.minimum, ex.hypot, ex.atan2, ex.copysign, ex.nextafter, ex.logaddexp]


def same(found, wanted):
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    assert repr(found) == repr(wanted)  # -0.0 and NaN too


def both_ways(operate, function, x, number, dtype):
    one = ex.asarray(number, dtype=dtype)
    for f in (operate, function):
        same(f(x, number), function(x, one))
        same(f(number, x), function(one, x))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("number", [2.0, -0.0, 0.1, 3, math.inf, math.nan, 1e300])
def test_a_float_or_an_int_takes_the_dtype_of_the_floats_beside_it(dtype, number):
    x = ex.asarray([0.5, -1.5, 0.0, math.nan], dtype=dtype)
    for operate, function in {**ARITHMETIC, **COMPARISONS}.items():
        both_ways(operate, function, x, number, dtype)
    for function in FUNCTIONS:
        both_ways(function, function, x, number, dtype)
    same(ex.where(x > 0.0, x, number), ex.where(x > 0.0, x, ex.asarray(number, dtype=dtype)))
    same(ex.ops.where(x > 0.0, number, x), ex.where(x > 0.0, ex.asarray(number, dtype=dtype), x))


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
def test_an_int_takes_the_dtype_of_the_whole_numbers_beside_it(dtype):
    x = ex.asarray([1, 2, 5], dtype=dtype)
    for operate, function in {**ARITHMETIC, **COMPARISONS, **BITWISE}.items():
        if operate is not operator.truediv:  # the standard divides floats
            both_ways(operate, function, x, 3, dtype)
    for function in (ex.maximum, ex.minimum):
        both_ways(function, function, x, 3, dtype)


def test_a_bool_takes_the_dtype_of_the_bools_beside_it():
    x = ex.asarray([True, False])
    for operate in (operator.and_, operator.or_, operator.xor):
        both_ways(operate, BITWISE[operate], x, True, ex.bool)
    for function in (ex.logical_and, ex.logical_or, ex.logical_xor, ex.equal):
        both_ways(function, function, x, False, ex.bool)


def test_an_operator_with_an_assignment_binds_a_new_tensor_of_the_same_dtype():
    x = y = ex.asarray([1.0, 2.0], dtype=ex.float32)
    y += 1
    y *= 0.5
    y -= 0.25
    y /= 2.0
    y **= 2
    y //= 0.1
    y %= 3.0
    assert y.dtype == ex.float32 and x.tolist() == [1.0, 2.0]
    n = ex.asarray([1, 2], dtype=ex.int8)
    n <<= 2
    n |= 1
    assert n.dtype == ex.int8 and n.tolist() == [5, 9]


@pytest.mark.parametrize(
    "x, number",
    [
        (ex.asarray([1, 2]), 0.5),
        (ex.asarray([True]), 1),
        (ex.asarray([True]), 0.5),
        (ex.asarray([1, 2]), True),
        (ex.asarray([1.0, 2.0]), True),
        (ex.asarray([1.0]), 1j),
    ],
)
@pytest.mark.parametrize("name", ["add", "multiply", "pow", "less", "equal", "maximum"])
def test_kinds_do_not_mix(x, number, name):
    function = getattr(ex, name)
    for call in (lambda: function(x, number), lambda: function(number, x), lambda: x + number, lambda: number * x):
        with pytest.raises(TypeError, match="does not mix|complex"):
            call()
    with pytest.raises(TypeError):
        ex.result_type(x, number)


def test_an_int_that_the_dtype_does_not_hold_is_an_error():
    x = ex.asarray([1], dtype=ex.int8)
    for number in (128, -129, 2**70, 10**40):
        with pytest.raises(OverflowError):
            x + number
        with pytest.raises(OverflowError):
            ex.add(number, x)
    with pytest.raises(OverflowError):
        ex.asarray([1], dtype=ex.uint8) - (-1)


def test_a_float_takes_any_int_that_a_float_holds():
    assert (ex.asarray([1.0]) * 10**40).tolist() == [1e40]
    assert (10**40 + ex.asarray([1.0])).tolist() == [1e40]
    assert ex.asarray(10**40, dtype="float64").item() == 1e40
    with pytest.raises(OverflowError, match="beyond what any dtype holds"):
        ex.asarray([1.0]) * 10**400
    with pytest.raises(OverflowError, match="whole-number dtype"):
        ex.asarray(10**40)


def test_gradients_go_through_operators_with_numbers():
    x = ex.asarray([0.5, 2.0], dtype=ex.float32)
    slope = ex.grad(lambda x: ex.sum(1.0 / x + 2 * x - x / 4.0 + x**3 + 2.0**x))(x)
    assert slope.dtype == ex.float32
    ex.assert_close(slope, -1.0 / x**2 + 1.75 + 3.0 * x**2 + math.log(2.0) * 2.0**x)
