"""What a stream makes of a job's settings."""

from __future__ import annotations

import pytest

from services.stream.plan import StreamPlan
from tests.stream.streams import JOB, settings_for


@pytest.mark.parametrize(
    ("fresh_within_s", "lease_s", "fill_s"), [(60.0, 2.0, 0.2), (3.0, 1.8, 0.2), (1.0, 0.6, 0.12)]
)
def test_leases_and_waits_are_short_where_freshness_is(
    fresh_within_s: float, lease_s: float, fill_s: float
) -> None:
    settings = settings_for(
        "k:9092", "redis://r", "clicks", "g", slo={"fresh_within_s": fresh_within_s}, shuffle={"lease_s": 2.0}
    )

    plan = StreamPlan.of(JOB, settings.jobs[JOB])

    assert plan.lease_s == pytest.approx(lease_s)
    assert (plan.terms.fill_s, plan.linger_s) == pytest.approx((fill_s, fill_s))
    assert plan.terms.patience_s <= fresh_within_s / 3
    assert plan.commit_s <= fresh_within_s / 3, "nobody would hear in time that a partition waits"
