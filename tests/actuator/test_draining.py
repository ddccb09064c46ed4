"""Workers that leave: asked first, killed when they do not go, never brought back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import psutil
import pytest

from services.actuator.moment import Moment
from services.actuator.worker_process import WorkerProcess
from services.control.types import WorkerPhase
from services.settings import JobSettings
from services.settings.pool import HEARD_WITHIN_S
from shuffler.ledger import Ledger, Terms
from tests.actuator.bench import Bench
from tests.actuator.rigs import ids
from tests.waiting import eventually

Benches = Callable[..., Bench]


def ready(bench: Bench, size: int) -> None:
    bench.ask(size)
    bench.until(lambda state: state.ready == size, f"{size} ready workers")


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Whom the pool has killed: a look shows a worker as draining in the pass that kills it, too."""
    killed: list[int] = []
    kill = WorkerProcess.kill

    def noted(process: WorkerProcess) -> None:
        killed.append(process.pid)
        kill(process)

    monkeypatch.setattr(WorkerProcess, "kill", noted)
    return killed


def test_a_worker_that_ignores_sigterm_is_killed_after_its_time(bench: Benches, kills: list[int]) -> None:
    one = bench("ignores-sigterm", drain_s=30.0)
    ready(one, 2)
    one.ask(1)
    one.look()

    one.forward(29.9)
    state = one.look()
    assert (state.ready, state.count(WorkerPhase.DRAINING), kills) == (1, 1, [])
    one.forward(0.1)

    state = one.until(lambda state: len(state.workers) == 1, "the stubborn one is gone")
    assert (state.ready, state.failures) == (1, 0)


@pytest.mark.parametrize("ttl_s", [2.0, 15.0, 45.0])
def test_a_worker_that_fell_silent_is_not_ended_before_its_leases_have_lapsed(
    bench: Benches, ttl_s: float
) -> None:
    """With the shortest drain time that the settings allow."""
    job = JobSettings.model_validate(
        {"topic": "ads", "pool": {"drain_s": ttl_s + HEARD_WITHIN_S}, "shuffle": {"lease_ttl_s": ttl_s}}
    )
    one = bench("ignores-sigterm", drain_s=job.pool.drain_s)
    ready(one, 2)
    silent = next(record.process.pid for record in one.files.records() if record.facts.id == "w-2")
    ledger = Ledger(Terms(ttl_s=job.shuffle.lease_ttl_s))
    ledger.open({0: 0}, now_s=one.now.wall_s)
    ledger.extend({0: 1_000}, now_s=one.now.wall_s)
    assert ledger.acquire("w-2", samples=100, prefer=(), now_s=one.now.wall_s)

    one.ask(1, remove=("w-2",))
    one.look()
    while ledger.leases():
        assert psutil.Process(silent).status() != psutil.STATUS_ZOMBIE, "it was killed with a lease"
        one.forward(ttl_s / 8)
        one.look()
        ledger.renew("w-1", now_s=one.now.wall_s)
        ledger.expire(now_s=one.now.wall_s)
    one.forward(HEARD_WITHIN_S)

    assert one.until(lambda state: len(state.workers) == 1, "it is gone").failures == 0


def test_growing_while_some_drain_starts_new_ones(bench: Benches) -> None:
    one = bench("ignores-sigterm", drain_s=30.0)
    ready(one, 2)
    one.ask(1, remove=("w-1",))
    one.look()

    one.ask(2)

    state = one.until(lambda state: state.ready == 2, "two that stay")
    assert ids(state, WorkerPhase.DRAINING) == {"w-1"}
    assert ids(state, WorkerPhase.READY) == {"w-2", "w-3"}
    one.forward(30.0)
    state = one.until(lambda state: len(state.workers) == 2, "the draining one is gone")
    assert ids(state, WorkerPhase.READY) == {"w-2", "w-3"}


def test_workers_that_start_leave_before_those_that_train(bench: Benches) -> None:
    one = bench()
    ready(one, 1)
    slow = bench("never-ready")
    slow.ask(2, fence=2)
    slow.until(lambda state: state.count(WorkerPhase.STARTING) == 1, "one that starts")

    slow.ask(1, fence=2)

    state = slow.until(lambda state: len(state.workers) == 1, "one is left")
    assert ids(state, WorkerPhase.READY) == {"w-1"}


def test_a_worker_that_left_while_no_controller_was_there_is_no_failure(bench: Benches) -> None:
    one = bench("ignores-sigterm")
    ready(one, 1)
    one.ask(0)
    one.look()
    os.kill(one.files.records()[0].process.pid, signal.SIGKILL)
    one.supervision.release()

    two = bench()

    assert two.until(lambda state: not state.workers, "the killed one is gone").failures == 0


def test_the_time_to_leave_goes_on_under_the_next_controller(bench: Benches, kills: list[int]) -> None:
    one = bench("ignores-sigterm", drain_s=30.0)
    ready(one, 1)
    one.ask(0)
    one.look()
    one.supervision.release()

    two = bench("ignores-sigterm", drain_s=30.0)
    two.now = Moment(wall_s=one.now.wall_s + 20.0, steady_s=7.0)
    assert two.look().count(WorkerPhase.DRAINING) == 1
    two.forward(9.9)
    assert (two.look().count(WorkerPhase.DRAINING), kills) == (1, [])
    two.forward(0.1)

    two.until(lambda state: not state.workers, "killed 30 s after it was asked")


def test_the_time_to_leave_begins_when_the_worker_was_told_and_not_when_that_was_noted(
    bench: Benches, kills: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller dies between its note and the signal: until the next one comes, the worker trains on."""
    one = bench("ignores-sigterm", drain_s=30.0)
    ready(one, 1)
    one.ask(0)
    with monkeypatch.context() as dying:
        dying.setattr(WorkerProcess, "ask_to_leave", _dies)
        with pytest.raises(ControllerDied):
            one.look()
    one.supervision.release()

    two = bench("ignores-sigterm", drain_s=30.0)
    two.now = Moment(wall_s=one.now.wall_s + 25.0, steady_s=7.0)
    two.look()
    two.supervision.release()

    three = bench("ignores-sigterm", drain_s=30.0)
    three.now = Moment(wall_s=two.now.wall_s + 10.0, steady_s=3.0)
    assert (three.look().count(WorkerPhase.DRAINING), kills) == (1, [])
    three.forward(19.9)
    assert (three.look().count(WorkerPhase.DRAINING), kills) == (1, [])
    three.forward(0.1)

    three.until(lambda state: not state.workers, "killed 30 s after it was told")


def test_a_worker_that_could_not_be_told_is_told_with_the_next_pass(
    bench: Benches, kills: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The platform did not take the signal: the worker knows of nothing, and must not be killed for that."""
    one = bench("counts-sigterms", drain_s=30.0)
    ready(one, 1)
    one.ask(0)
    with monkeypatch.context() as refusing:
        refusing.setattr(WorkerProcess, "ask_to_leave", _dies)
        for _ in range(2):
            with pytest.raises(ControllerDied):
                one.look()
            one.forward(31.0)

    assert (one.look().count(WorkerPhase.DRAINING), kills) == (1, [])
    eventually(lambda: one.logs.last_line("w-1") == "asked to leave", what="it was told")
    one.forward(30.0)
    one.until(lambda state: not state.workers, "killed 30 s after it was told")


class ControllerDied(Exception):
    """Thrown where the controller is to die."""


def _dies(_process: WorkerProcess) -> None:
    raise ControllerDied


def test_a_worker_that_trains_is_asked_once_whoever_supervises(bench: Benches) -> None:
    """Penstock's own worker takes a second SIGTERM for haste."""
    one = bench("counts-sigterms")
    ready(one, 1)
    one.ask(0)
    eventually(lambda: (one.look(), one.logs.last_line("w-1"))[1], what="it was asked")
    one.supervision.release()

    two = bench("counts-sigterms")
    for _ in range(3):
        assert two.look().count(WorkerPhase.DRAINING) == 1

    two.files.records()[0].process.kill()
    two.until(lambda state: not state.workers, "it is gone")
    assert two.logs.path("w-1").read_text() == "asked to leave\n"


def test_what_a_worker_started_ends_with_it(bench: Benches) -> None:
    one = bench("has-a-child")
    ready(one, 1)
    worker = psutil.Process(one.files.records()[0].process.pid)
    (child,) = worker.children()

    worker.kill()
    one.until(lambda state: state.failures == 1, "the death is noticed")

    eventually(lambda: not child.is_running(), what="its child is gone, too")


def test_a_killed_worker_that_does_not_go_is_told(bench: Benches) -> None:
    one = bench("ignores-sigterm", drain_s=30.0)
    ready(one, 1)
    one.ask(0)
    one.look()
    one.forward(41.0)

    # As for a process that hangs in the kernel: it is there, whatever it was sent.
    trouble = one.supervision.state(one.now).trouble
    assert trouble.startswith("worker w-1 (pid ")
    assert "was killed and is still there" in trouble
