"""Each policy does what its paper or its documentation says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.fleet import NOTHING, Configuration
from estimator.fleet.programme import solved
from estimator.rules.horizontal import Past, behaved
from estimator.rules.hpa import desired_by_usage
from estimator.situation import Limits
from forecasting.history import TrafficHistory
from services.simulator.fleet.balance import balanced
from services.simulator.fleet.file import FleetFile, GpuType
from services.simulator.fleet.first_come import FirstCome, StaticQuotas
from services.simulator.fleet.gavel import ROUND_S, Gavel, fair_fractions
from services.simulator.fleet.hpa_jobs import HpaJobs
from services.simulator.fleet.penstock import PenstockFleet
from services.simulator.fleet.seen import FleetSeen
from services.simulator.fleet.sia import RULES, Sia, choices_of, configurations
from services.simulator.fleet.world import Sizes
from services.simulator.trace import Floats
from tests.simulator.fleet.making import a_fleet, a_job, arriving, sizes


def seeing(
    fleet: FleetFile,
    ready: Sizes,
    *,
    busy: list[float],
    rate: list[float] | None = None,
    lag: list[float] | None = None,
    starting: Sizes | None = None,
    now_s: float = 0.0,
) -> FleetSeen:
    """What a policy sees of these workers."""
    starting = np.zeros_like(ready) if starting is None else starting
    jobs = len(fleet.jobs)
    rates = np.array([[job.rates.get(kind, 0.0) for kind in fleet.kinds] for job in fleet.jobs])
    capacity = np.array([kind.gpus for kind in fleet.gpu_types.values()])
    traffic = np.array(rate if rate is not None else [0.0] * jobs)
    waits = np.array(lag if lag is not None else [0.0] * jobs)
    return FleetSeen(
        fleet=fleet,
        now_s=now_s,
        rate_per_s=traffic,
        lag=waits,
        lag_s=np.where(waits > 0, 30.0, 0.0),
        trained_per_s=traffic,
        busy=np.array(busy),
        ready=ready,
        starting=starting,
        requested=ready + starting,
        starting_since_s=tuple((now_s,) * int(row.sum()) for row in starting),
        free=capacity - (ready + starting).sum(axis=0),
        rates=rates,
        sure=np.ones_like(rates),
        history=lambda job: TrafficHistory(
            start_s=now_s - 600.0, step_s=60.0, rates=np.full(10, traffic[job])
        ),
    )


@settings(max_examples=60, deadline=None)
@given(
    readings=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3)), min_size=1, max_size=40),
    most=st.integers(1, 24),
)
def test_many_autoscalers_at_once_are_the_one_rule_each(readings: list[tuple[float, int]], most: int) -> None:
    fleet = a_fleet(a_job(workers_max=most), gpus={"a": 64})
    jobs, past, current = HpaJobs(fleet), Past(), 1
    window: list[float] = []
    for tick, (busy, unready) in enumerate(readings):
        ready = max(current - unready, 1)
        window = [*window, busy][-4:]
        seen = seeing(
            fleet, sizes([ready]), busy=[busy], starting=sizes([current - ready]), now_s=15.0 * tick
        )
        usage = [sum(window) / len(window)] * ready
        desired = desired_by_usage(usage, 0, current - ready, target=0.8, current=current)
        assert desired is not None
        expected, past = behaved(desired, current, past, Limits(1, most), now_s=15.0 * tick)

        assert jobs.wanted(seen).tolist() == [expected]
        current = expected


def test_static_quotas_deal_all_gpus_and_hold_each_job_to_its_own() -> None:
    fleet = a_fleet(a_job("big", guaranteed=3), a_job("small"), gpus={"a": 8})
    policy = StaticQuotas(fleet, arriving([600.0] * 60, [200.0] * 60))

    decision = policy.decide(seeing(fleet, sizes([6], [1]), busy=[1.0, 0.1]))

    assert policy.quotas.tolist() == [6, 2]
    assert decision.workers.ravel().tolist() == [6, 1]  # full, though a GPU idles beside it
    assert decision.contended


def test_first_come_first_served_sends_nobody_away_for_another() -> None:
    fleet = a_fleet(a_job("first", weight=1.0), a_job("second", weight=9.0, guaranteed=4), gpus={"a": 6})
    policy = FirstCome(fleet, arriving([1.0], [1.0]))

    decision = policy.decide(seeing(fleet, sizes([5], [1]), busy=[0.8, 1.0]))

    assert decision.workers.ravel().tolist() == [5, 2]
    assert decision.wanted.ravel().tolist() == [5, 2]
    assert decision.contended


def test_a_pod_takes_the_first_of_its_jobs_types_that_is_free() -> None:
    fleet = a_fleet(a_job("one", rates={"a": 100.0, "b": 50.0}), gpus={"a": 2, "b": 3})
    policy = FirstCome(fleet, arriving([1.0]))

    decision = policy.decide(seeing(fleet, sizes([2, 0]), busy=[1.0]))

    assert decision.workers.tolist() == [[2, 1]]


def test_gavel_gives_each_job_the_type_on_which_it_gains_most() -> None:
    speeds = np.array([[100.0, 100.0], [400.0, 100.0]])

    fractions = fair_fractions(speeds, np.array([4, 4]), np.ones(2), np.array([4, 4]))

    assert fractions.ravel().tolist() == pytest.approx([0.0, 1.0, 1.0, 0.0], abs=1e-6)


@pytest.mark.parametrize(
    ("scale", "weights", "wanted"),
    [([4, 4], [3.0, 1.0], [0.75, 0.25]), ([2, 4], [1.0, 1.0], [1.0, 0.5])],
    ids=["three times the weight, three times the time", "a job of half the size runs twice as long"],
)
def test_gavel_counts_weights_and_sizes(scale: list[int], weights: list[float], wanted: list[float]) -> None:
    speeds = np.array([[100.0], [100.0]])

    fractions = fair_fractions(speeds, np.array(scale), np.array(weights), np.array([4]))

    assert fractions.ravel().tolist() == pytest.approx(wanted, abs=1e-6)


@given(seed=st.integers(0, 200))
@settings(max_examples=20, deadline=None)
def test_gavels_fractions_are_possible_and_the_least_is_as_high_as_an_equal_split(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, kinds = 5, 2
    speeds: Floats = rng.uniform(10.0, 100.0, (jobs, kinds))
    scale, capacity = rng.integers(1, 6, jobs), rng.integers(6, 12, kinds)

    fractions = fair_fractions(speeds, scale, np.ones(jobs), capacity)

    assert (fractions >= 0).all()
    assert (fractions.sum(axis=1) <= 1 + 1e-6).all()
    assert (scale @ fractions <= capacity + 1e-6).all()
    equal = speeds @ (capacity / capacity.sum())

    def least(parts: Floats) -> float:
        return float((scale * (parts * speeds).sum(axis=1) / equal).min())

    even = np.tile(np.minimum(capacity / scale.sum(), 1.0) / kinds, (jobs, 1))
    assert least(fractions) >= least(even) - 1e-6


def test_gavel_runs_a_job_whole_or_not_and_changes_only_with_a_round() -> None:
    fleet = a_fleet(*(a_job(f"job-{i}") for i in range(3)), gpus={"a": 4})
    policy = Gavel(fleet, arriving(*([[1.0]] * 3)))
    ready = sizes([2], [2], [0])
    ran = np.zeros(3)
    last: list[int] = []
    for tick in range(0, 12 * ROUND_S, 15):
        seen = seeing(fleet, ready, busy=[0.8, 0.8, 0.8], starting=sizes([0], [0], [2]), now_s=float(tick))
        now = policy.decide(replace(seen, requested=sizes([2], [2], [2]))).workers.ravel().tolist()
        assert set(now) <= {0, 2}
        assert sum(now) <= 4
        if tick % ROUND_S:
            assert now == last
        else:
            ran += np.array(now) > 0
        last = now

    assert ran.sum() == 24  # two of three in each of twelve rounds
    assert ran.max() - ran.min() <= 2  # each in its turn


def test_sias_sizes_are_powers_of_two_and_whole_nodes() -> None:
    assert configurations(GpuType(gpus=20, node_gpus=8)).tolist() == [1, 2, 4, 8, 16]
    assert configurations(GpuType(gpus=3, node_gpus=8)).tolist() == [1, 2]


def test_sia_shares_evenly_between_equals_rather_than_starve_one() -> None:
    goodputs = {Configuration("a", n): 100.0 * n for n in (1, 2, 4, 8)}
    choices = [choices_of(goodputs, NOTHING, kept=1.0, weight=1.0) for _ in range(2)]

    picked = solved(choices, {"a": 9}, RULES).picked

    assert [choices[job][choice].at.workers for job, choice in enumerate(picked)] == [4, 4]


def test_sias_worth_is_its_papers_power_of_goodput_with_the_restart_in_it() -> None:
    goodputs = {Configuration("a", 1): 100.0, Configuration("a", 4): 400.0}

    nothing, one, four = choices_of(goodputs, Configuration("a", 1), kept=0.9, weight=2.0)

    assert nothing.value == 0.0
    assert one.value == pytest.approx(2 * (1.1 - 1.0), abs=1e-3)
    assert four.value == pytest.approx(2 * (1.1 - (0.9 * 4) ** -0.5) - 0.02, abs=1e-3)


def test_sia_keeps_what_a_job_has_where_a_restart_would_cost_more_than_it_brings() -> None:
    fleet = a_fleet(a_job(rates={"a": 100.0, "b": 104.0}), gpus={"a": 4, "b": 4}, startup_s=120.0)
    policy = Sia(fleet, arriving([1.0]))
    seen = seeing(fleet, sizes([2, 0]), busy=[0.5], rate=[170.0])
    policy.decide(seen)

    later = policy.decide(replace(seen, now_s=600.0))

    assert later.workers.tolist() == [[2, 0]]


def test_sia_at_most_doubles_a_job_however_much_is_free() -> None:
    fleet = a_fleet(a_job("rising"), gpus={"a": 16})
    policy = Sia(fleet, arriving([1.0]))

    decision = policy.decide(seeing(fleet, sizes([2]), busy=[1.0], rate=[2000.0]))

    assert decision.workers.ravel().tolist() == [4]


def test_sia_takes_from_one_that_cannot_use_its_gpus() -> None:
    fleet = a_fleet(a_job("rising"), a_job("idle"), gpus={"a": 6})
    policy = Sia(fleet, arriving([1.0], [1.0]))

    decision = policy.decide(seeing(fleet, sizes([2], [4]), busy=[1.0, 0.1], rate=[2000.0, 80.0]))

    assert decision.workers.ravel().tolist() == [4, 1]


def test_with_room_for_everybody_each_job_has_its_wish() -> None:
    fleet = a_fleet(a_job("one"), a_job("two"), gpus={"a": 40})
    policy = PenstockFleet(fleet, arriving([1.0], [1.0]))

    decision = policy.decide(seeing(fleet, sizes([2], [2]), busy=[1.0, 0.5], rate=[400.0, 100.0]))

    assert not decision.contended
    assert (decision.workers == decision.wanted).all()
    assert decision.workers[0, 0] > 2


def test_a_guarantee_is_kept_however_heavy_the_others_are() -> None:
    fleet = a_fleet(a_job("heavy", weight=100.0), a_job("light", weight=0.1, guaranteed=3), gpus={"a": 8})
    policy = PenstockFleet(fleet, arriving([1.0], [1.0]))

    decision = policy.decide(seeing(fleet, sizes([8], [0]), busy=[1.0, 1.0], rate=[5000.0, 500.0]))

    assert decision.contended
    assert decision.workers.sum() <= 8
    assert decision.workers[1, 0] >= 3


def test_a_job_on_the_move_is_left_alone_until_it_is_there() -> None:
    fleet = a_fleet(
        a_job("both", rates={"a": 100.0, "b": 200.0}), a_job("a-only", weight=5.0, guaranteed=2),
        gpus={"a": 4, "b": 4}, startup_s=120.0,
    )  # fmt: skip
    policy = PenstockFleet(fleet, arriving([1.0], [1.0]))
    start = seeing(fleet, sizes([3, 0], [1, 0]), busy=[0.9, 1.0], rate=[280.0, 380.0], now_s=6000.0)

    moved = policy.decide(start).workers
    there = replace(
        seeing(fleet, sizes([0, 0], [1, 0]), busy=[0.0, 1.0], rate=[700.0, 380.0], now_s=6060.0),
        requested=moved,
    )

    assert moved[0, 0] == 0
    assert moved[0, 1] > 0
    assert policy.decide(there).workers[0].tolist() == moved[0].tolist()
    assert policy.decide(replace(there, now_s=6180.0)).workers[0, 1] > moved[0, 1]


def test_the_best_balance_splits_jobs_where_that_loads_the_fleet_less() -> None:
    load, parts = balanced(np.array([[6.0, 6.0]]), np.array([4.0, 4.0]))

    assert load == pytest.approx(0.75)
    assert parts.sum() == pytest.approx(1.0)
