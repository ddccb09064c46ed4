"""What one more job, or some nodes fewer, would do to everybody."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.fleet import Binding, Budget, InvalidFleet, JobId, Node, Standing, share
from estimator.fleet.admission import AdmissionPolicy, Verdict, admitted
from estimator.fleet.budget_what_if import with_gpus, with_other_budget, without_nodes
from estimator.fleet.future import Outlook, played
from tests.estimator.fleet.fleets import linear, wishing

HOUR = 3600.0
DAY, WEEK = 24, 168
CLUSTER = Budget.counted({"a100": 8}, node_gpus=4, prices={"a100": 2.0})


def outlook(name: str, *workers: int, **standing: object) -> Outlook:
    """A job that needs so many workers in each hour."""
    job = Standing(name, **standing)  # type: ignore[arg-type]
    return Outlook(job, {"a100": linear(10.0, 8)}, tuple(10.0 * count for count in workers))


def test_a_job_that_fits_beside_the_others_is_accepted_and_its_bill_told() -> None:
    answer = admitted(
        outlook("new", *[2] * WEEK), [outlook("old", *[4] * WEEK)], CLUSTER, horizons=(DAY, WEEK), step_s=HOUR
    )

    assert answer.verdict is Verdict.ACCEPT
    day, week = answer.outcomes
    assert day.bill_before == pytest.approx(24 * 8.0)
    assert day.bill_after == pytest.approx(24 * 12.0)
    assert week.bill_after == pytest.approx(7 * day.bill_after)
    assert week.effects[0].harm == 0.0


def test_a_job_that_would_make_others_late_for_good_is_refused_with_their_names() -> None:
    answer = admitted(
        outlook("new", *[6] * DAY), [outlook("old", *[6] * DAY)], CLUSTER, horizons=(DAY,), step_s=HOUR
    )

    assert answer.verdict is Verdict.REFUSE
    assert "job old would be late with" in answer.why
    assert answer.outcomes[0].effects[0].harm > 0.5


def test_a_job_that_would_harm_only_now_is_queued_until_the_others_need_less() -> None:
    answer = admitted(
        outlook("new", *[6] * DAY),
        [outlook("old", *[6] * 10, *[1] * 14)],
        CLUSTER,
        horizons=(DAY,),
        step_s=HOUR,
    )

    assert answer.verdict is Verdict.QUEUE
    assert answer.start_s == 12 * HOUR


def test_a_guarantee_that_does_not_fit_is_refused_whatever_the_forecasts_say() -> None:
    answer = admitted(
        outlook("new", 0, guaranteed=5),
        [outlook("old", 0, guaranteed=4)],
        CLUSTER,
        horizons=(DAY,),
        step_s=HOUR,
    )

    assert answer.verdict is Verdict.REFUSE
    assert "9 of a100 against 8" in answer.why


def test_a_job_that_harms_nobody_and_would_be_late_itself_is_refused() -> None:
    light = outlook("new", *[4] * DAY, weight=0.0)
    answer = admitted(light, [outlook("old", *[6] * DAY)], CLUSTER, horizons=(DAY,), step_s=HOUR)

    assert answer.verdict is Verdict.REFUSE
    assert answer.why.startswith("the new job itself would be late with")
    assert answer.outcomes[0].effects[0].harm == 0.0


def test_a_bill_beyond_the_policy_is_an_objection() -> None:
    answer = admitted(
        outlook("new", *[2] * DAY),
        [outlook("old", *[4] * DAY)],
        CLUSTER,
        horizons=(DAY,),
        step_s=HOUR,
        policy=AdmissionPolicy(bill_max=200.0),
    )

    assert "the fleet would cost" in answer.why


def test_a_job_that_is_there_already_cannot_come_in_again() -> None:
    with pytest.raises(InvalidFleet, match="in the fleet already"):
        admitted(outlook("old", 1), [outlook("old", 1)], CLUSTER, horizons=(1,), step_s=HOUR)


def test_a_future_without_contention_is_late_with_nothing() -> None:
    future = played(CLUSTER, [outlook("a", 4, 8, 2)], steps=3, step_s=HOUR)

    assert future.late_share() == 0.0
    assert future.contended == ((), (), ())


def test_what_is_not_trained_in_one_hour_makes_the_next_one_late() -> None:
    future = played(CLUSTER, [outlook("a", 16, 8, 0, 1)], steps=4, step_s=HOUR)
    fate = future.fates[JobId("", "a")]

    assert fate.late[0] == pytest.approx(0.983 * 160.0 * HOUR, rel=0.01)
    assert fate.late[1] == pytest.approx(80.0 * HOUR)
    assert fate.late[3] == 0.0


def test_two_nodes_fewer_tells_who_suffers_most_first() -> None:
    wishes = [wishing("light", 4), wishing("heavy", 4, weight=3.0), wishing("held", 2, guaranteed=2)]
    budget = Budget.counted({"a100": 10}, node_gpus=2)
    answer = with_other_budget(budget, without_nodes(budget, ["a100-0", "a100-1"]), wishes)

    assert [str(change.job) for change in answer.changes] == ["light", "heavy"]
    assert answer.changes[0].loss > 0
    assert answer.after.of(JobId("", "held")).binding is Binding.WISH
    assert answer.after.prices["a100"] > 0


def test_a_node_that_is_not_there_cannot_be_taken_away() -> None:
    with pytest.raises(InvalidFleet, match="no node 'a100-9'"):
        without_nodes(CLUSTER, ["a100-9"])


def test_a_larger_budget_shows_who_gains() -> None:
    wishes = [wishing("a", 8), wishing("b", 8)]
    answer = with_other_budget(CLUSTER, Budget.counted({"a100": 12}), wishes)

    assert [change.loss for change in answer.changes] == [-0.25, -0.25]


@given(st.integers(0, 24), st.integers(0, 12))
def test_a_budget_with_other_gpus_has_just_those_and_promises_what_it_did(a100: int, t4: int) -> None:
    nodes = (Node("n0", "a100", 8, switch_gpus=4), Node("n1", "a100", 8), Node("m0", "t4", 4))
    budget = Budget(nodes, {"a100": 2.0})
    other = with_gpus(budget, {"a100": a100, "t4": t4})

    assert other.gpus == {"a100": a100, "t4": t4}
    assert other.declared == {"a100": max(16, a100), "t4": max(4, t4)}
    assert other.price("a100") == 2.0


def test_a_budget_of_a_type_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidFleet, match="no GPU type 'h100'"):
        with_gpus(CLUSTER, {"h100": 4})
    with pytest.raises(InvalidFleet, match="a number from 0"):
        with_gpus(CLUSTER, {"a100": -1})


def test_the_shadow_price_is_what_one_more_gpu_adds_to_the_weighted_satisfaction() -> None:
    answer = with_other_budget(CLUSTER, Budget.counted({"a100": 9}), [wishing("a", 8), wishing("b", 8)])
    gained = sum(
        change.after.satisfaction * change.after.weight - change.before.satisfaction * change.before.weight
        for change in answer.changes
    )

    assert answer.before.prices == {"a100": pytest.approx(gained)}
    assert answer.before.of(JobId("", "a")).worth == {"a100": pytest.approx(0.125)}


def test_the_shadow_price_counts_by_weight_and_a_worth_does_not() -> None:
    plan = share(CLUSTER, [wishing("a", 8, weight=3.0), wishing("b", 8)])

    assert {str(one.job): one.worth["a100"] for one in plan.allotments} == {"a": 0.125, "b": 0.125}
    assert plan.prices == {"a100": pytest.approx(1.5 * 0.125)}  # of the one that weighs more


@st.composite
def _outlooks(draw: st.DrawFn) -> tuple[Budget, list[Outlook]]:
    """Jobs with guarantees that fit, and demands that together may not."""
    jobs = []
    for number in range(draw(st.integers(2, 4))):
        guaranteed = draw(st.integers(0, 3))
        rate = draw(st.sampled_from((50.0, 100.0, 200.0)))
        curve = tuple(rate * workers / (1 + 0.05 * max(0, workers - 1)) for workers in range(13))
        demand = tuple(draw(st.lists(st.integers(0, 900).map(float), min_size=6, max_size=6)))
        standing = Standing(
            f"job-{number}", weight=draw(st.sampled_from((0.0, 1.0, 5.0))), guaranteed=guaranteed
        )
        jobs.append(Outlook(standing, {"a100": curve}, demand, slo_s=draw(st.sampled_from((60.0, 600.0)))))
    least = sum(outlook.job.guaranteed for outlook in jobs)
    return Budget.counted({"a100": max(1, least) + draw(st.integers(0, 6))}), jobs


@settings(max_examples=60, deadline=None)
@given(_outlooks())
def test_no_job_is_later_in_the_shared_cluster_than_alone_on_its_guarantee(
    fleet: tuple[Budget, list[Outlook]],
) -> None:
    """Played through hours with backlogs that carry over: sharing safety, in samples that are late."""
    budget, outlooks = fleet
    shared = played(budget, outlooks, steps=6, step_s=3600.0)
    for outlook in outlooks:
        if outlook.job.guaranteed:
            own = Budget.counted({"a100": outlook.job.guaranteed})
            alone = played(own, [outlook], steps=6, step_s=3600.0)
            late, late_alone = shared.fates[outlook.job.id].late, alone.fates[outlook.job.id].late
            assert sum(late) <= sum(late_alone) + 1e-6
