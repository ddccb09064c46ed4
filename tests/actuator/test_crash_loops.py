"""Workers that keep dying are tried again, ever more rarely, and the operator is told why."""

from __future__ import annotations

from collections.abc import Callable

from services.control.types import WorkerPhase
from tests.actuator.bench import Bench
from tests.actuator.rigs import ids

Benches = Callable[..., Bench]


def test_each_early_death_doubles_the_wait(bench: Benches) -> None:
    one = bench("dies-at-start")
    one.ask(1)

    for strikes, wait_s in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 10.0), (6, 10.0)):
        one.until(lambda state, n=strikes: state.failures == n, f"death number {strikes}")  # type: ignore[misc]
        one.forward(wait_s - 0.01)
        assert one.look().failures == strikes
        assert one.started() == strikes, "a worker was started before its wait was over"
        one.forward(0.01)


def test_a_crash_loop_is_told_with_its_code_its_count_its_next_try_and_its_last_words(bench: Benches) -> None:
    one = bench("dies-at-start")
    one.ask(1)
    one.until(lambda state: state.failures == 1, "the first death")
    one.forward(1.0)

    state = one.until(lambda state: state.failures == 2, "the second death")

    assert state.trouble == (
        "worker w-2 exited with code 3 before it was ready; 2nd time; next try in 2 s; "
        "last log line: cannot find the topic"
    )
    assert ids(state, WorkerPhase.FAILED) == {"w-2"}


def test_several_places_in_trouble_are_told_by_the_worst_and_their_number(bench: Benches) -> None:
    one = bench("dies-at-start")
    one.ask(3)

    state = one.until(lambda state: state.failures == 3, "three deaths")

    assert state.trouble.endswith("last log line: cannot find the topic (and 2 more)")


def test_a_worker_that_dies_soon_after_it_was_ready_is_a_crash_loop_too(bench: Benches) -> None:
    one = bench("dies-once-ready")
    one.ask(1)
    one.until(lambda state: state.failures == 1, "the first death")
    one.forward(1.0)

    state = one.until(lambda state: state.failures == 2, "the second death")

    assert "exited with code 4" in state.trouble
    assert "2nd time; next try in 2 s; last log line: out of memory" in state.trouble


def test_a_worker_that_proved_itself_is_replaced_at_once(bench: Benches) -> None:
    one = bench()
    one.ask(1)
    one.until(lambda state: state.ready == 1, "a ready worker")
    one.forward(30.0)
    one.look()

    one.files.records()[0].process.kill()

    state = one.until(lambda state: state.failures == 1 and state.ready == 1, "its replacement")
    assert state.trouble == ""
    assert one.files.records()[0].facts.strikes == 0


def test_trouble_lasts_until_the_replacement_is_ready(bench: Benches) -> None:
    one = bench("never-ready")
    one.ask(1)
    one.look()
    one.files.records()[0].process.kill()
    one.until(lambda state: state.failures == 1, "the death")
    one.forward(1.0)

    state = one.look()

    assert ids(state, WorkerPhase.STARTING) == {"w-2"}
    expected = "worker w-1 was killed by SIGKILL before it was ready; w-2 is starting in its place"
    assert state.trouble == expected


def test_strikes_are_remembered_by_the_next_controller(bench: Benches) -> None:
    one = bench("never-ready")
    one.ask(1)
    one.look()
    one.files.records()[0].process.kill()
    one.until(lambda state: state.failures == 1, "the first death")
    one.forward(1.0)
    one.look()
    one.supervision.release()
    two = bench("never-ready")
    two.look()

    two.files.records()[0].process.kill()

    assert "2nd time" in two.until(lambda state: state.failures == 1, "the second death").trouble


def test_a_command_that_is_not_there_is_told_and_not_tried_all_the_time(bench: Benches) -> None:
    one = bench(command=("no-such-trainer", "{worker}"))
    one.ask(2)

    for strikes, wait_s in ((1, 1.0), (2, 2.0), (3, 4.0)):
        state = one.look()
        assert "command 'no-such-trainer' is not there or not executable" in state.trouble
        assert f"next try in {wait_s:.0f} s" in state.trouble
        assert one.files.fence().intent.next_worker == 1 + 2 * strikes, "tried before its wait was over"
        one.forward(wait_s)

    assert one.started() == 0
    assert one.look().failures == 0, "nobody ended, so nobody failed"


def test_a_pool_in_trouble_can_still_be_made_smaller(bench: Benches) -> None:
    one = bench("dies-at-start")
    one.ask(2)
    one.until(lambda state: state.failures == 2, "two deaths")

    one.ask(0)

    state = one.look()
    assert (state.requested, state.workers, state.trouble) == (0, (), "")


def test_a_step_of_the_wall_clock_moves_no_try(bench: Benches) -> None:
    one = bench("dies-at-start")
    one.ask(1)
    one.until(lambda state: state.failures == 1, "the first death")

    one.now = type(one.now)(wall_s=one.now.wall_s + 3600.0, steady_s=one.now.steady_s)

    one.look()
    assert one.started() == 1


def test_a_worker_that_never_says_it_is_ready_is_told_how_to(bench: Benches) -> None:
    one = bench("never-ready")
    one.ask(1)
    one.look()

    one.forward(299.0)
    assert one.look().trouble == ""
    one.forward(2.0)

    assert (
        "has been starting for 301 s; it must make the file named by PENSTOCK_READY_FILE"
        in one.look().trouble
    )
