"""Tests of models that need large packages: `make test-forecast` runs exactly these, and skips none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from forecasting.heavy import installed

Test = TypeVar("Test", bound=Callable[..., Any])

_NO_TORCH = not (installed("torch") and installed("neuralforecast"))
TORCH = (
    pytest.mark.forecast_extras,
    pytest.mark.skipif(
        _NO_TORCH, reason="needs torch and neuralforecast; install with: pip install 'penstock[forecast]'"
    ),
)


def needs_torch(test: Test) -> Test:
    """Mark a test that trains or runs a network other than PatchTST."""
    for mark in TORCH:
        test = mark(test)
    return test
