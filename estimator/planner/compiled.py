"""The one place of the planner that knows the compiler of its inner loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, compiled at its first call and cached on disk after that.

    The plain function stays at hand as `.py_func`, to measure against.
    """
    return cast("Callable[P, R]", numba.njit(cache=True, fastmath=False)(function))
