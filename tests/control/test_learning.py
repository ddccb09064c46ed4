"""What ticks teach of the workers and of the pool, and that it survives a restart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from estimator.lead_time import PoolTimes
from estimator.rules import rule_named
from estimator.situation import Situation, Sizing
from estimator.throughput import ResourceLoad, StepTimes
from services.control.decide import decide
from services.control.learned import PoolMemory
from services.control.loop import JobLoop, Ports
from services.control.types import (
    ControlState,
    Decision,
    Observation,
    Policy,
    PoolState,
    Reason,
    Shuffle,
    TrafficReading,
    Worker,
    WorkerPhase,
    WorkerReport,
)
from services.store import codec
from tests.control.fakes import FakeClock, FakeLeadership, FakeMeter, FakePool, FakeStore, NoForecasts
from tests.control.worlds import a_policy, a_pool, an_observation

NAN = float("nan")
POLICY = replace(a_policy(workers_max=64), lead_time_s=60.0)


def reports_of(workers: int, *, speed: float = 200.0, busy: float = 0.8) -> tuple[WorkerReport, ...]:
    return tuple(WorkerReport(f"w-{i}", 0.0, 10, busy, speed) for i in range(workers))


def at(tick: int, workers: int, *, speed: float = 200.0, rate: float = 100.0, lag: int = 0) -> Observation:
    """Ticks are 10 s apart. By the offsets, as much is trained as the workers say."""
    seen = an_observation(
        at_s=10.0 * tick, rate=rate, lag=lag, pool=a_pool(workers), reports=reports_of(workers, speed=speed)
    )
    return replace(seen, traffic=replace(seen.traffic, trained_per_s=0.8 * speed * workers))


def watched(seen: list[Observation], state: ControlState | None = None, policy: Policy = POLICY) -> Decision:
    decision = decide(seen[0], state or ControlState(), policy)
    for one in seen[1:]:
        decision = decide(one, decision.state, policy)
    return decision


def capacity(decision: Decision, workers: int) -> float:
    return decision.state.throughput.model.samples_per_s(workers)


# What n workers can train


def test_sizes_that_were_watched_are_known_and_confidence_grows_with_them() -> None:
    one = watched([at(tick, 2) for tick in range(20)])
    more = watched([at(20 + tick, 2 + tick // 20) for tick in range(80)], one.state)

    assert capacity(one, 2) == pytest.approx(400.0, rel=0.02)
    assert capacity(more, 5) == pytest.approx(1000.0, rel=0.02)
    assert (one.confidence, more.confidence) == ("low", "high")


def test_growth_is_bounded_by_what_has_been_seen_and_the_decision_says_so() -> None:
    decision = watched([at(tick, 2, rate=5_000.0) for tick in range(20)])

    assert decision.planned == 4
    assert Reason.AT_REACH in decision.notes
    assert decision.numbers["capacity_reach"] == 4.0


def test_with_two_sizes_seen_it_reaches_half_as_far_again_and_twice_when_the_slo_is_broken() -> None:
    calm = watched([at(tick, 4 + 2 * (tick // 20)) for tick in range(40)])
    late = replace(at(40, 6), traffic=replace(at(40, 6).traffic, lag=10**6, lag_s=100.0))

    assert calm.numbers["capacity_reach"] == 9.0
    assert decide(late, calm.state, POLICY).numbers["capacity_reach"] == 12.0


def test_it_reaches_twice_as_far_as_soon_as_the_promise_cannot_be_kept_any_more() -> None:
    calm = watched([at(tick, 4 + 2 * (tick // 20)) for tick in range(40)])
    able = capacity(calm, 6)  # a lead time of 60 s and a promise of 60 s: twice as much is too much

    def reach_at(rate: float) -> float:
        return decide(at(40, 6, rate=rate), calm.state, POLICY).numbers["capacity_reach"]

    assert [reach_at(share * able) for share in (1.5, 1.9, 2.1)] == [9.0, 9.0, 12.0]


def test_workers_that_became_slower_are_noticed_and_the_old_speed_is_forgotten() -> None:
    known = watched([at(tick, 3) for tick in range(60)])
    slower = watched([at(60 + tick, 3, speed=90.0) for tick in range(60)], known.state)

    assert capacity(slower, 3) == pytest.approx(270.0, rel=0.03)
    assert slower.state.throughput.model.knowledge.drift.alarms == 1


def test_without_telemetry_the_progress_of_a_pool_that_is_behind_tells_its_capacity() -> None:
    seen = [
        replace(at(tick, 3, rate=900.0, lag=100_000), reports=(), traffic=_behind(tick)) for tick in range(60)
    ]

    decision = watched(seen)

    assert capacity(decision, 3) == pytest.approx(600.0, rel=0.02)
    assert decision.confidence == "low"


def test_a_full_pool_is_not_taken_for_slower_because_busy_fractions_end_at_one() -> None:
    """Workers that are always busy and measure that with an error can only say too little."""
    reports = (*reports_of(3, busy=0.96)[:2], WorkerReport("w-2", 0.0, 10, 1.0, 200.0))
    seen = [replace(at(tick, 3), reports=reports, traffic=_behind(tick)) for tick in range(60)]

    assert capacity(watched(seen), 3) == pytest.approx(600.0, rel=0.003)


def test_workers_that_have_hardly_begun_are_not_taken_for_slow_ones() -> None:
    """A cold start: the meter still looks back on the seconds in which nothing was trained."""
    starting = [replace(at(tick, 0, rate=900.0, lag=9_000), reports=()) for tick in range(3)]
    begun = replace(at(3, 3).traffic, lag=10_000, trained_per_s=20.0)
    first = [replace(at(3, 3, rate=900.0), reports=(), traffic=begun)]

    decision = watched(starting + first)

    assert capacity(decision, 3) == pytest.approx(300.0), "the guess, until there is more to see"


def _behind(tick: int) -> TrafficReading:
    return replace(at(tick, 3, rate=900.0, lag=100_000).traffic, trained_per_s=600.0)


def test_without_telemetry_a_pool_that_keeps_up_leaves_the_guess_as_it_is() -> None:
    decision = watched([replace(at(tick, 3), reports=()) for tick in range(60)])

    assert capacity(decision, 3) == pytest.approx(300.0)


@pytest.mark.parametrize(
    ("busy", "speed"),
    [(NAN, 200.0), (0.5, NAN), (-0.1, 200.0), (1.5, 200.0), (0.5, -1.0), (0.5, float("inf"))],
)
def test_a_worker_that_lies_is_passed_over_and_the_others_are_believed(busy: float, speed: float) -> None:
    liar = WorkerReport("w-0", 0.0, 10, busy, speed)
    seen = [replace(at(tick, 3), reports=(liar, *reports_of(3)[1:])) for tick in range(30)]

    assert capacity(watched(seen), 3) == pytest.approx(600.0, rel=0.02)


def test_counters_that_were_reset_teach_nothing() -> None:
    known = watched([at(tick, 3) for tick in range(30)])
    reset = watched([at(30 + tick, 3, speed=0.0) for tick in range(30)], known.state)

    assert capacity(reset, 3) == pytest.approx(600.0, rel=0.02)
    assert reset.state.throughput.model.knowledge.lies["rate"] > 0


def test_a_shard_that_is_nearly_busy_is_named_before_more_workers_are_tried() -> None:
    def telling(tick: int) -> Observation:
        steps = StepTimes(input_s=0.0, compute_s=0.4, wait_s=0.1)
        full = tuple(
            replace(report, batch=100, steps=steps, resources=(ResourceLoad("ps-1", 0.95),))
            for report in reports_of(4, busy=1.0)
        )
        return replace(at(tick, 4), reports=full)

    decision = watched([telling(tick) for tick in range(30)])

    assert decision.bottleneck == "parameter_server"
    assert decision.state.throughput.model.binding.resource == "ps-1"
    assert capacity(decision, 8) < 1.15 * 800.0 / 0.95


def test_workers_beyond_the_partitions_are_never_planned_without_leases() -> None:
    decision = watched(
        [at(tick, 4, rate=9_000.0) for tick in range(20)], policy=replace(POLICY, shuffle=Shuffle.OFF)
    )

    assert decision.planned == 4
    assert Reason.AT_PARTITIONS in decision.notes


def test_a_resize_that_brings_nothing_is_told_with_its_bottleneck() -> None:
    before = watched([at(tick, 4 + 4 * (tick // 20), speed=200.0) for tick in range(40)])
    useless = watched(
        [at(40 + tick, 12, speed=200.0 * 8 / 12, rate=5_000.0) for tick in range(40)], before.state
    )

    assert Reason.NO_GAIN in useless.notes
    assert useless.planned <= 12


def test_a_pool_of_two_gpu_types_at_once_teaches_nothing() -> None:
    mixed = PoolState(2, tuple(Worker(f"w-{i}", WorkerPhase.READY, 0.0, gpu_type=f"g{i}") for i in range(2)))

    decision = watched([replace(at(tick, 2), pool=mixed) for tick in range(30)])

    assert decision.state.throughput.types.models == {}


# Lead time, pause and failures


def starting(tick: int, ready: int, asked: int, *, failures: int = 0, lag: int = 0) -> Observation:
    """Of `asked` workers, `ready` train; the others were asked for at 100 s."""
    workers = tuple(
        Worker(f"w-{i}", WorkerPhase.READY if i < ready else WorkerPhase.STARTING, 0.0 if i < 2 else 100.0)
        for i in range(asked)
    )
    seen = at(tick, ready, lag=lag)
    return replace(seen, pool=PoolState(asked, workers, failures=failures))


def test_the_lead_time_is_learned_from_when_workers_that_were_asked_for_train() -> None:
    seen = [starting(10 + tick, 2 if tick < 30 else 4, 4) for tick in range(32)]

    decision = watched(seen)

    assert decision.state.pool.times is not None
    assert decision.state.pool.times.lead_times().latest == (295.0,)
    assert decision.numbers["lead_time_s"] >= 295.0


def test_a_rule_is_told_of_lead_times_that_differ_widely() -> None:
    told: list[tuple[float, ...]] = []
    reactive = rule_named("reactive")

    def listen(situation: Situation, memory: Any) -> tuple[Sizing, Any]:
        told.append(situation.lead_times_s)
        return reactive.size(situation, memory)

    times = PoolTimes(60.0, starts={"": (100.0,) * 8 + (20_000.0,) * 4})
    before = ControlState(pool=PoolMemory(times=times, lead_times_s=times.lead_times().spread_s))
    decide(at(0, 2), before, replace(POLICY, rule=replace(reactive, size=listen)))

    assert told == [(100.0, 100.0, 100.0, 20_000.0, 20_000.0)]


def test_a_worker_that_is_ready_and_has_trained_nothing_is_still_awaited() -> None:
    idle = starting(12, 4, 4, lag=500)
    untrained = tuple(replace(report, trained=0 if report.worker == "w-3" else 9) for report in idle.reports)

    decision = watched([starting(11, 2, 4), replace(idle, reports=untrained)])

    assert set(decision.state.pool.awaited) == {"w-3"}


def test_a_pool_that_never_becomes_ready_is_planned_with_ever_longer_lead_times() -> None:
    hour = watched([starting(10 + tick, 2, 4) for tick in range(360)])

    assert hour.numbers["lead_time_s"] >= 3590.0


def hanging(came_s: tuple[float, ...]) -> Situation:
    """An hour with one start that hangs, in a pool whose workers came after `came_s`: what a rule is told."""
    told: list[Situation] = []
    reactive = rule_named("reactive")

    def listen(situation: Situation, memory: Any) -> tuple[Sizing, Any]:
        told.append(situation)
        return reactive.size(situation, memory)

    pool = PoolMemory(times=PoolTimes(60.0, starts={"": came_s}), lead_time_s=60.0)
    policy, state = replace(POLICY, rule=replace(reactive, size=listen)), ControlState(pool=pool)
    for tick in range(10, 370):
        state = decide(starting(tick, 3, 4), state, policy).state
    return told[-1]


def test_one_start_that_hangs_is_its_own_fate_and_not_that_of_all() -> None:
    """Else nobody else would be asked for: hours late, with one pod pending and fifteen that train."""
    told = hanging((50.0, 60.0))

    hangs_s = told.now_s - told.starting_since_s[0]
    assert told.lead_times_s == pytest.approx((50.0, 50.0, 60.0, 2 * hangs_s, 2 * hangs_s), abs=20.0)


def test_one_start_that_hangs_beside_many_that_came_is_no_reason_to_plan_otherwise() -> None:
    told = hanging((55.0,) * 30)

    assert told.lead_time_s == 55.0
    assert told.lead_times_s == ()


def test_a_start_that_hangs_is_not_expected_any_moment() -> None:
    hour = watched([starting(10 + tick, 2, 4) for tick in range(360)])

    assert hour.numbers["lead_time_s"] == pytest.approx(2 * 3590.0, abs=40.0), "twice as long as it has taken"


def test_a_worker_that_failed_to_start_counts_as_a_long_wait_and_as_a_failure() -> None:
    seen = [starting(10 + tick, 2, 4) for tick in range(20)]
    decision = watched([*seen, starting(30, 2, 3, failures=1)])

    times = decision.state.pool.times
    assert times is not None
    assert times.lead_times().latest == (400.0,)
    assert times.failures.failed == 1


def test_a_worker_called_off_early_teaches_nothing() -> None:
    decision = watched([starting(10, 2, 4), starting(12, 2, 3)])

    assert decision.state.pool.times is not None
    assert decision.state.pool.times.starts == {}


@pytest.mark.parametrize(("called_off_at_tick", "learned"), [(17, ()), (30, (400.0,))])
def test_a_worker_called_off_when_it_is_due_is_not_a_slow_one_but_one_that_is_long_overdue_is(
    called_off_at_tick: int, learned: tuple[float, ...]
) -> None:
    waiting = [starting(tick, 2, 4) for tick in range(10, called_off_at_tick)]
    decision = watched([*waiting, starting(called_off_at_tick, 2, 3)])

    assert decision.state.pool.times is not None
    assert decision.state.pool.times.lead_times().latest == learned


@pytest.mark.parametrize("away", [WorkerPhase.STARTING, WorkerPhase.FAILED])
def test_a_worker_that_was_ready_for_hours_and_is_not_for_a_moment_is_no_start(away: WorkerPhase) -> None:
    """A probe that failed, or a container restarted in its pod: the pod is as old as it was."""

    def flapping(tick: int) -> Observation:
        phase = {100: away, 101: WorkerPhase.STARTING, 102: WorkerPhase.STARTING}.get(tick, WorkerPhase.READY)
        workers = (Worker("w-0", WorkerPhase.READY, 0.0), Worker("w-1", phase, 0.0))
        return replace(at(tick, 2), pool=PoolState(2, workers))

    ticks = [decide(flapping(0), ControlState(), POLICY)]
    for tick in range(1, 110):
        ticks.append(decide(flapping(tick), ticks[-1].state, POLICY))

    assert {decision.numbers["lead_time_s"] for decision in ticks} == {60.0}
    assert ticks[-1].state.pool.times is not None
    assert ticks[-1].state.pool.times.lead_times().latest == ()


def test_a_pause_is_learned_from_how_much_the_oldest_sample_ages_when_the_pool_changes() -> None:
    def aged(tick: int, workers: int, lag_s: float) -> Observation:
        seen = at(tick, workers)
        return replace(seen, traffic=replace(seen.traffic, lag_s=lag_s))

    decision = watched([aged(0, 4, 0.5), aged(1, 5, 9.5), *(aged(2 + tick, 5, 0.5) for tick in range(8))])

    assert decision.state.pool.times is not None
    assert decision.state.pool.times.pauses == (9.0,)
    assert decision.numbers["pause_s"] >= 9.0


# Restart


def test_what_was_learned_is_read_back_as_it_was_and_goes_on_as_if_nothing_had_been() -> None:
    known = watched([at(tick, 2 + tick // 20) for tick in range(80)])

    again = codec.decode_state(codec.encode_state(known.state), key="state")

    assert again == known.state
    assert decide(at(81, 5), again, POLICY) == decide(at(81, 5), known.state, POLICY)


async def test_another_controller_goes_on_with_the_throughput_that_the_first_had_learned() -> None:
    clock, store = FakeClock(at_s=0.0), FakeStore()

    class Telling:
        async def reports(self) -> tuple[WorkerReport, ...]:
            return reports_of(3)

    def controller(token: int) -> JobLoop:
        ports = Ports(
            clock=clock,
            leadership=FakeLeadership(token),
            meter=FakeMeter(clock, rate=500.0),
            forecasts=NoForecasts(),
            pool=FakePool(requested=3),
            telemetry=Telling(),
            store=store,
        )
        return JobLoop("clicks", POLICY, ports, tell=lambda _: None)

    first = controller(1)
    for _ in range(30):
        await first.tick()
        clock.at_s += 10.0
    tick = await controller(2).tick()

    assert tick.decision is not None
    assert tick.decision.state.throughput.model.knowledge.sizes == (3,)
    assert tick.decision.numbers["capacity_ready_per_s"] == pytest.approx(600.0, rel=0.03)
