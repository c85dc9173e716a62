"""Fixtures for pytest: `check_grad` and `check_gradient` fail a test with their report.

It is loaded with every run of pytest where extensor is installed, so it imports nothing before a
test asks for a fixture: it lies beside the package and not in it.
"""

from collections.abc import Callable
from typing import Any

import pytest


def _fixture(name: str) -> Callable[..., Any]:
    try:
        import extensor
    except ImportError as error:  # a broken installation breaks only the tests that need it
        pytest.fail(f"extensor cannot be imported: {error}", pytrace=False)
    check = getattr(extensor, name)

    def checked(*args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        report = check(*args, **options)
        if not report.passed:
            pytest.fail(str(report), pytrace=False)
        return report

    return checked


@pytest.fixture(name="check_grad")
def _check_grad() -> Callable[..., Any]:
    """`extensor.check_grad`, which fails the test with its report unless it passes."""
    return _fixture("check_grad")


@pytest.fixture(name="check_gradient")
def _check_gradient() -> Callable[..., Any]:
    """`extensor.check_gradient`, which fails the test with its report unless it passes."""
    return _fixture("check_gradient")
