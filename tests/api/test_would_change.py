"""What would change a decision, from the decision alone."""

from __future__ import annotations

from typing import Any

import pytest

from estimator.throughput import Bottleneck, Confidence
from services.api.plan_view import PlanView
from services.api.words import CONSTRAINTS
from services.api.would_change import would_change
from services.control.types import Reason
from services.controller.snapshot import JobSnapshot
from services.controller.views.decision import DecisionView
from services.settings import JobSettings

JOB = JobSettings(topic="clicks")
WEIGHED: dict[str, Any] = {
    "workers": 5, "workers_one_fewer": 4, "workers_one_more": 7, "workers_as_it_is": 4,
    "cost": 900.0, "late_share": 0.004, "cost_one_fewer": 1100.0, "late_share_one_fewer": 0.02,
    "cost_one_more": 960.0, "late_share_one_more": 0.001, "cost_as_it_is": 1100.0,
    "late_share_as_it_is": 0.02, "traffic_factor_one_more": 1.15, "traffic_factor_one_fewer": 1 / 1.4,
}  # fmt: skip


def a_decision(reason: Reason = Reason.STEADY, *notes: Reason, **numbers: Any) -> DecisionView:
    return DecisionView(
        id="clicks-1", at_s=0.0, planned=5, requested=4, ready=4, reason=reason, notes=notes, numbers=numbers,
        resized=True, confidence=Confidence.HIGH, bottleneck=Bottleneck.PARAMETER_SERVER,
    )  # fmt: skip


def test_other_traffic_by_the_planners_own_trial() -> None:
    assert would_change(a_decision(**WEIGHED), JOB) == [
        "Traffic 15% higher than foreseen: a larger pool would be the cheaper one.",
        "Traffic 29% lower than foreseen: a smaller pool would be the cheaper one.",
    ]


def test_without_a_plan_by_what_the_pool_can_train() -> None:
    said = would_change(
        a_decision(demand_per_s=430.0, capacity_planned_per_s=500.0, capacity_margin=0.1), JOB
    )

    assert said == ["A demand beyond 450 samples/s, which the pool planned is for; it is 430."]


@pytest.mark.parametrize("reason", sorted(CONSTRAINTS))
def test_whatever_binds_it_is_said_what_would_unbind_it(reason: Reason) -> None:
    assert would_change(a_decision(Reason.STEADY, reason, breaker_up_wait_s=30.0), JOB)


def test_a_bottleneck_and_a_breaker_are_named_with_their_numbers() -> None:
    said = would_change(a_decision(Reason.BREAKER_OPEN, Reason.NO_GAIN, breaker_up_wait_s=42.0), JOB)

    assert said == [
        "A resize that works: one is tried in 42 s.",
        "A wider bottleneck: it is parameter server.",
    ]


def test_what_was_weighed_is_shown_with_cost_and_lateness() -> None:
    seen = JobSnapshot(at_s=0.0, degraded=False, trouble="")

    plan = PlanView.of_snapshot(a_decision(**WEIGHED), seen, JOB)

    weighed = {c.size: (c.workers, c.cost_worker_s, c.late_share) for c in plan.candidates}
    assert weighed == {
        "chosen": (5, 900.0, 0.004),
        "next_smaller": (4, 1100.0, 0.02),
        "next_larger": (7, 960.0, 0.001),
        "as_it_is": (4, 1100.0, 0.02),
    }
