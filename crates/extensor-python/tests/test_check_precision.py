"""Functions that compute more coarsely than their inputs: wrong gradients are found all the same."""

import numpy as np
import pytest

import extensor as ex


def coarse(x):
    return np.sin(x.astype(np.float32))


def hidden(x):
    return np.sin(x.astype(np.float32)).astype(np.float64)


@pytest.mark.parametrize("f", [coarse, hidden])
@pytest.mark.parametrize("factor", [1.5, -1.0, 2.0, 0.0])
@pytest.mark.parametrize("size", [5, 2000])
def test_a_gradient_that_is_wrong_everywhere_is_found(f, factor, size):
    x = np.random.default_rng(0).normal(size=size)
    assert not ex.check_gradient(f, lambda g, x: g * np.cos(x) * factor, x).passed


@pytest.mark.parametrize("seed", range(8))
def test_one_element_that_is_wrong_is_found(seed):
    x = np.random.default_rng(seed).uniform(-1, 1, size=5)
    factor = np.ones(5)
    factor[2] = 1.2
    assert not ex.check_gradient(coarse, lambda g, x: g * np.cos(x) * factor, x).passed


@pytest.mark.parametrize("size", [5, 2000])
def test_a_right_gradient_of_a_coarse_function_is_right(size):
    x = np.random.default_rng(1).normal(size=size)
    report = ex.check_gradient(coarse, lambda g, x: g * np.cos(x), x)
    assert report.passed and "not differentiable" not in str(report)


def test_a_jump_and_a_kink_are_still_told_from_rounding():
    kink = ex.check_gradient(np.abs, lambda g, x: g * np.sign(x), np.asarray([0.0, 1.0]))
    assert kink.passed and "not differentiable" in str(kink)
    jump = ex.check_gradient(np.floor, lambda g, x: g * 0, np.asarray([2.0, 2.5]))
    assert jump.passed and "not differentiable" in str(jump)
