
import numpy as np
import pytest

def scale(x, factor):
    return x * factor

def scale_backward(g, x, factor):
    return g * factor, (g * x).mean(0)      # the sum over the batch, not the mean

@pytest.mark.parametrize("batch", [1, 4])
def test_the_gradient_of_scale_is_right(check_gradient, batch):
    rng = np.random.default_rng(0)
    check_gradient(scale, scale_backward, rng.normal(size=(batch, 3)), rng.normal(size=3))
