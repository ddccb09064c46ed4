"""Who supervises, and what is on disk while it does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from services.actuator.moment import Moment
from services.actuator.run_files import RunDirBusy
from services.control.errors import PoolUnavailable
from services.control.types import WorkerPhase
from tests.actuator.bench import Bench
from tests.actuator.rigs import ids

Benches = Callable[..., Bench]


def test_a_standby_looks_on_while_the_supervisor_gives_signs_of_life(bench: Benches) -> None:
    leader, standby = bench(), bench()
    leader.ask(1)
    leader.until(lambda state: state.ready == 1, "a ready worker")

    for _ in range(5):
        leader.look()
        standby.forward(4.0)
        state = standby.look()
        assert not standby.supervision.active
        assert (state.requested, ids(state, WorkerPhase.READY)) == (1, {"w-1"})


def test_a_standby_takes_over_from_a_supervisor_that_fell_silent(bench: Benches) -> None:
    leader, standby = bench(), bench()
    leader.ask(1)
    leader.until(lambda state: state.ready == 1, "a ready worker")
    standby.look()

    standby.forward(5.0)

    assert ids(standby.look(), WorkerPhase.READY) == {"w-1"}
    assert standby.supervision.active
    leader.look()
    assert not leader.supervision.active, "the silent one wakes up and finds that it was superseded"


def test_a_step_of_the_wall_clock_is_no_silence(bench: Benches) -> None:
    leader, standby = bench(), bench()
    leader.ask(1)
    leader.look()
    standby.look()

    standby.now = Moment(standby.now.wall_s + 86_400.0, standby.now.steady_s)

    standby.look()
    assert not standby.supervision.active


def test_the_size_is_on_disk_before_anything_is_done_about_it(bench: Benches) -> None:
    one = bench()

    one.ask(3, fence=9, remove=("w-8",))

    intent = one.files.fence().intent
    assert (intent.requested, intent.fence, intent.decision_id, intent.remove) == (3, 9, "ads-3", ("w-8",))
    assert one.files.records() == ()


def test_asking_for_the_same_again_writes_nothing(bench: Benches) -> None:
    one = bench()
    one.ask(1)
    before = (one.files.directory / "fence.json").stat().st_ino

    one.ask(1)

    assert (one.files.directory / "fence.json").stat().st_ino == before


def test_a_starting_worker_stays_starting_under_the_next_controller_and_its_lead_time_counts_on(
    bench: Benches,
) -> None:
    one = bench("never-ready")
    one.ask(1)
    one.look()
    one.supervision.release()
    two = bench("never-ready")
    two.now = Moment(wall_s=one.now.wall_s + 60.0, steady_s=9_000.0)
    assert ids(two.look(), WorkerPhase.STARTING) == {"w-1"}

    two.files.ready_file("w-1").touch()

    assert ids(two.look(), WorkerPhase.READY) == {"w-1"}
    (start,) = two.crew.lead_times.recent()
    assert (start.worker, start.asked_at_s, start.took_s) == ("w-1", one.now.wall_s, 60.0)


def test_a_ready_worker_is_ready_at_once_under_the_next_controller(bench: Benches) -> None:
    one = bench()
    one.ask(1)
    one.until(lambda state: state.ready == 1, "a ready worker")
    one.supervision.release()

    two = bench()

    assert ids(two.look(), WorkerPhase.READY) == {"w-1"}
    assert two.crew.lead_times.recent() == (), "its start was told once"


def test_many_workers_are_started_over_several_passes(bench: Benches) -> None:
    """Else a large pool would stall the controller's event loop while it grows."""
    one = bench()
    one.ask(10)

    assert len(one.look().workers) == 8
    assert len(one.look().workers) == 10


def test_while_another_holds_the_lock_nothing_is_done(bench: Benches) -> None:
    one, other = bench(), bench()
    one.ask(1)
    one.look()

    with other.files.lock(), pytest.raises(RunDirBusy, match="look for one that is stopped or hangs"):
        one.look()


@pytest.mark.parametrize("content", ["", "{", '{"intent": {"fence": "seven"}}', '{"version": 2}'])
def test_a_damaged_file_is_named_and_nothing_is_guessed(bench: Benches, content: str) -> None:
    one = bench()
    one.ask(1)
    fence = one.files.directory / "fence.json"
    fence.write_text(content)

    with pytest.raises(PoolUnavailable, match=r"fence\.json is damaged or of another version"):
        one.look()


def test_the_files_of_workers_that_are_gone_are_removed(bench: Benches) -> None:
    one = bench()
    one.ask(2)
    one.until(lambda state: state.ready == 2, "two ready workers")
    os.kill(one.files.records()[0].process.pid, signal.SIGKILL)
    one.until(lambda state: state.failures == 1, "the death")

    one.ask(0)
    one.until(lambda state: not state.workers, "an empty pool")

    assert {path.name for path in one.files.directory.iterdir()} == {"fence.json", "lock", "logs"}
