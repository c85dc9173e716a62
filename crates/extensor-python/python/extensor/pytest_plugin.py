"""The fixtures of `pytest_extensor`, for those who load them by hand: `-p extensor.pytest_plugin`.

It defines nothing: the plugin lies beside the package, so that pytest starts without importing it.
"""

from pytest_extensor import _check_grad, _check_gradient  # noqa: F401
