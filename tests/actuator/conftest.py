"""Fixtures of the pools' tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.actuator import actors
from tests.actuator.bench import Bench
from tests.actuator.processes import running, zombies
from tests.waiting import eventually


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """Makes benches on one directory, and clears up after all of them."""
    made: list[Bench] = []

    def make(*how: str, **more: object) -> Bench:
        made.append(Bench(tmp_path, *how, **more))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.end()


@pytest.fixture(autouse=True)
def _nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test that has a directory for workers ends without one, an unreaped child included."""
    if "tmp_path" not in request.fixturenames:
        yield
        return
    run_dir: Path = request.getfixturevalue("tmp_path")
    yield
    try:
        eventually(lambda: not running(run_dir), what="no worker is left behind")
    finally:
        for pid in running(run_dir).values():
            os.kill(pid, signal.SIGKILL)
    assert zombies() == []


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """A Ray cluster of several nodes; starting one takes ten seconds or more."""
    with actors.ray_cluster() as cluster:
        yield cluster.address
