"""The journal: the latest for the API, changes for the log, everything for the metrics."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from estimator.throughput import ResourceLoad, StepTimes
from services.control.breaker import Breaker, BreakerTerms
from services.control.decide import decide
from services.control.errors import StateUnavailable
from services.control.loop import Tick
from services.control.safety import SafetyLimits, SafetyMemory
from services.control.training_quality import TrainingQuality
from services.control.types import ControlState, GpuLoad, ShardFigures, WorkerReport
from services.controller.journal import Journal
from services.controller.metrics import Metrics
from services.settings.scaling import SloSettings
from tests.control.worlds import a_policy, a_pool, an_observation


def a_tick(*, rate: float = 100.0, requested: int = 1, failures: int = 0, at_s: float = 1000.0) -> Tick:
    seen = an_observation(rate=rate, pool=a_pool(requested, failures=failures), coming=rate, at_s=at_s)
    return Tick("clicks", at_s, seen, decide(seen, ControlState(planned=1), a_policy()), took_s=0.01)


def a_held_tick(why: str = "redis is away") -> Tick:
    return Tick("clicks", 1001.0, error=StateUnavailable(why))


def a_journal() -> tuple[Journal, CollectorRegistry]:
    registry = CollectorRegistry()
    return Journal(Metrics(registry)), registry


def logged(*ticks: Tick) -> list[str]:
    """What the log says at its usual level."""
    journal, _ = a_journal()
    with capture_logs() as events:
        for tick in ticks:
            journal.told(tick, slo=SloSettings())
    return [event["event"] for event in events if event["log_level"] != "debug"]


def test_repeated_trouble_is_logged_when_it_begins_and_when_it_ends() -> None:
    events = logged(a_tick(), a_held_tick(), a_held_tick(), a_held_tick(), a_tick())

    assert events == ["job_degraded", "job_recovered"]


def test_trouble_of_another_kind_is_logged_again() -> None:
    assert logged(a_held_tick("one"), a_held_tick("two")) == ["job_degraded", "job_degraded"]


def test_a_resize_is_logged_with_its_reason() -> None:
    assert logged(a_tick(rate=450)) == ["pool_resized"]


def test_a_lost_worker_is_logged() -> None:
    assert "workers_lost" in logged(a_tick(failures=1))


def test_losing_and_taking_the_lead_are_logged_once() -> None:
    following = Tick("clicks", 1.0, following=True)

    assert logged(a_tick(), following, following, a_tick()) == ["following", "leading"]


def test_a_held_tick_does_not_make_the_last_decision_forgotten() -> None:
    journal, _ = a_journal()
    journal.told(a_tick(), slo=SloSettings())
    journal.told(a_held_tick(), slo=SloSettings())

    status = journal.status("clicks")

    assert status is not None
    assert status.tick.degraded
    assert status.decision is not None
    assert status.seen is not None


def test_metrics_show_traffic_pool_and_decisions() -> None:
    journal, registry = a_journal()
    journal.told(a_tick(rate=450), slo=SloSettings())
    journal.told(a_held_tick(), slo=SloSettings())

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"job": "clicks", **labels})

    assert value("penstock_arrival_samples_per_second") == 450
    assert value("penstock_workers_planned") == 5
    assert value("penstock_workers", phase="ready") == 1
    assert value("penstock_slo_fresh_within_seconds") == 60
    assert value("penstock_slo_late_share_target") == 0.01
    assert value("penstock_decisions_total", reason="forecast_rise") == 1
    assert value("penstock_resizes_total", direction="up") == 1
    assert value("penstock_held_ticks_total", error="StateUnavailable") == 1
    assert value("penstock_degraded") == 1


def test_a_job_that_is_gone_leaves_no_series_and_the_others_stay() -> None:
    journal, registry = a_journal()
    other = replace(a_tick(rate=450), job="views")
    for tick in (a_tick(rate=450), a_held_tick(), other, replace(a_held_tick(), job="views")):
        journal.told(tick, slo=SloSettings())

    journal.forget("clicks")

    shown = {sample.labels.get("job") for family in registry.collect() for sample in family.samples}
    assert "clicks" not in shown
    assert "views" in shown
    assert journal.status("clicks") is None
    assert journal.status("views") is not None


def test_every_decision_is_in_the_most_talkative_log_with_its_id() -> None:
    journal, _ = a_journal()
    with capture_logs() as events:
        journal.told(a_tick(rate=450), slo=SloSettings())
        journal.told(a_tick(rate=1, at_s=1001.0), slo=SloSettings())

    assert [(event["event"], event["decision"]) for event in events] == [
        ("pool_resized", "clicks-1"),
        ("pool_kept", "clicks-1"),
    ]


def test_listeners_hear_every_tick() -> None:
    journal, _ = a_journal()
    heard: list[Tick] = []
    journal.listen(heard.append)

    journal.told(a_tick(), slo=SloSettings())
    journal.told(a_held_tick(), slo=SloSettings())

    assert len(heard) == 2


def test_what_holds_a_pool_is_in_the_metrics() -> None:
    seen = an_observation(rate=450)
    held = Breaker(5, 1, until_s=9e9, why="refused")
    policy = replace(a_policy(), safety=SafetyLimits(breaker=BreakerTerms()))
    state = ControlState(planned=1, safety=SafetyMemory(up=held))
    journal, registry = a_journal()

    journal.told(Tick("clicks", 1000.0, seen, decide(seen, state, policy)), slo=SloSettings())

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"penstock_{name}", {"job": "clicks", **labels})

    assert value("breaker_open", direction="up") == 1.0
    assert value("breaker_open", direction="down") == 0.0
    assert value("resizes_held_total", limit="breaker_open") == 1.0
    assert value("resizes_last_day") == 0.0


def test_metrics_tell_how_good_the_model_is_and_where_a_step_goes() -> None:
    journal, registry = a_journal()
    quality = TrainingQuality(100, 0.75, 0.5, 3.0, skipped=2, rejected=1, staleness_batches=4.5)
    report = WorkerReport(
        "w-0",
        1000.0,
        trained=77,
        busy=0.5,
        rate_per_busy_s=100,
        steps=StepTimes(0.001, 0.1, 0.03, 0.02, 0.004),
        resources=(ResourceLoad("shard-0", 0.4),),
        quality=quality,
        gpu=GpuLoad(0.6, memory_bytes=1000),
        shards=(ShardFigures("shard-0", queue=2, rows=500, bytes_in=7000, bytes_out=9000),),
    )
    other = replace(report, worker="w-1", gpu=GpuLoad(0.2))
    seen = replace(an_observation(rate=100.0, pool=a_pool(4, ready=2), coming=100.0), reports=(report, other))
    decision = decide(seen, ControlState(planned=1), a_policy(workers_max=16))
    journal.told(Tick("clicks", 1000.0, seen, decision, took_s=0.01), slo=SloSettings())

    def read(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"penstock_{name}", {"job": "clicks", **labels})

    assert (read("model_auc"), read("model_logloss"), read("sample_age_seconds")) == (0.75, 0.5, 3.0)
    assert (read("skipped_batches"), read("rejected_messages")) == (4, 2)
    assert read("staleness_batches") == 4.5
    assert read("gpu_allocated_ratio") == 0.25, "four workers hold a GPU of the sixteen that may"
    assert read("gpu_busy_ratio") == pytest.approx(0.2), "of the four, those that start compute nothing"
    assert read("gpu_memory_bytes") == 1000
    steps = {part: read("step_seconds", part=part) for part in ("input", "pull", "compute", "push", "wait")}
    told = {"input": 0.001, "pull": 0.02, "compute": 0.1, "push": 0.01, "wait": 0.004}
    assert steps == pytest.approx(told)
    assert read("shard_busy_ratio", shard="shard-0") == 0.4
    assert (read("shard_queue_requests", shard="shard-0"), read("shard_rows", shard="shard-0")) == (2, 500)
    passed = [read("shard_network_bytes", shard="shard-0", direction=way) for way in ("in", "out")]
    assert passed == [7000, 9000]
