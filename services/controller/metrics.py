"""Every metric that the controller exports, in one place."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from estimator.throughput import StepTimes
from services.control.breaker import BreakerPhase
from services.control.loop import Tick
from services.control.training_quality import pooled
from services.control.types import Decision, Observation, Reason, WorkerPhase
from services.settings.scaling import SloSettings

_TICK_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_OPEN = {BreakerPhase.CLOSED: 0.0, BreakerPhase.HALF_OPEN: 0.5, BreakerPhase.OPEN: 1.0}
_SAFETY = {Reason.BREAKER_OPEN, Reason.RESIZE_BUDGET, Reason.RESIZE_RATE, Reason.FLEET_RESIZE_RATE}


class Metrics:
    """Prometheus metrics of a controller. The registry is injected: several can live in one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        job = ["job"]
        self._of_jobs: list[Gauge | Counter | Histogram] = []

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            made = Gauge(f"penstock_{name}", text, [*job, *labels], registry=registry)
            self._of_jobs.append(made)
            return made

        def counter(name: str, text: str, label: str) -> Counter:
            made = Counter(f"penstock_{name}_total", text, [*job, label], registry=registry)
            self._of_jobs.append(made)
            return made

        self.arrival_rate = gauge("arrival_samples_per_second", "Samples arriving on the topic.")
        self.trained_rate = gauge("trained_samples_per_second", "Samples being trained.")
        self.lag = gauge("lag_samples", "Samples that arrived and are not trained.")
        self.lag_seconds = gauge("lag_seconds", "Age of the oldest untrained sample.")
        self.slo_seconds = gauge("slo_fresh_within_seconds", "The freshness promised.")
        self.slo_late_share = gauge("slo_late_share_target", "The share of samples that may be late.")
        self.reading_age = gauge("traffic_reading_age_seconds", "How old the traffic reading in use is.")
        self.lost = gauge("lost_samples", "Samples that Kafka deleted before they were trained.")
        self.quarantined = gauge(
            "quarantined_samples", "Offsets given up: every worker that took them fell silent."
        )
        self.forecast_peak = gauge(
            "forecast_peak_samples_per_second", "Highest forecast rate within the horizon.", "quantile"
        )
        self.forecast_score = gauge(
            "forecast_score", "Pinball loss at 0.95 of the forecasts served lately, over the mean rate."
        )
        self.forecast_trouble = gauge(
            "forecast_trouble", "1 while a simpler forecast stands in for the one that was asked for."
        )
        self.auc = gauge("model_auc", "Test-then-train AUC of the latest samples, where workers tell it.")
        self.logloss = gauge("model_logloss", "Test-then-train log loss of the latest samples, likewise.")
        self.sample_age = gauge("sample_age_seconds", "From a sample's event to its being trained, mean.")
        self.skipped = gauge("skipped_batches", "Batches left out by the present workers: loss no number.")
        self.rejected = gauge("rejected_messages", "Messages put aside by the present workers: no sample.")
        self.staleness = gauge(
            "staleness_batches", "Batches of other workers between a batch's pull and its push, mean."
        )
        self.gpu_allocated = gauge(
            "gpu_allocated_ratio", "Workers that hold a GPU over the most that the job may have now."
        )
        self.gpu_busy = gauge(
            "gpu_busy_ratio",
            "Share of the time in which the GPUs held compute, those of starting workers too.",
        )
        self.gpu_memory = gauge("gpu_memory_bytes", "Memory in use on the workers' GPUs, where NVML tells.")
        self.step_seconds = gauge("step_seconds", "Mean time of a worker's step by part.", "part")
        self.shard_busy = gauge("shard_busy_ratio", "Busy share of a parameter server's shard.", "shard")
        self.shard_queue = gauge("shard_queue_requests", "Requests that wait at a shard.", "shard")
        self.shard_rows = gauge("shard_rows", "Ids that a shard keeps parameters of.", "shard")
        self.shard_bytes = gauge(
            "shard_network_bytes",
            "Bytes that went over a shard's network since it started, by direction.",
            "shard",
            "direction",
        )
        self.workers = gauge("workers", "Workers of the pool by phase.", "phase")
        self.workers_planned = gauge("workers_planned", "Workers that the policy wants.")
        self.workers_requested = gauge("workers_requested", "Workers that the platform was asked for.")
        self.capacity = gauge("capacity_samples_per_second", "What the ready workers can train.")
        self.degraded = gauge("degraded", "1 while decisions rest on less than they should.")
        self.pool_failures = gauge("pool_failures", "Workers that ended without being asked to.")
        self.breaker = gauge(
            "breaker_open", "1 while resizes in this direction are held, 0.5 while one is tried.", "direction"
        )
        self.resizes_day = gauge("resizes_last_day", "Resizes within the last day.")
        self.leading = Gauge("penstock_leading", "1 while this controller leads.", registry=registry)
        self.decisions = counter("decisions", "Decisions by reason.", "reason")
        self.resizes = counter("resizes", "Resizes asked for.", "direction")
        self.resizes_held = counter(
            "resizes_held", "Decisions in which a safety limit held the pool.", "limit"
        )
        self.held = counter("held_ticks", "Ticks that held the pool because of an error.", "error")
        self.tick_seconds = Histogram(
            "penstock_tick_seconds", "How long a tick took.", job, registry=registry, buckets=_TICK_BUCKETS_S
        )
        self._of_jobs.append(self.tick_seconds)

    def ticked(self, tick: Tick, slo: SloSettings) -> None:
        """Take over what a tick saw, decided or failed at."""
        self.leading.set(0 if tick.following else 1)
        if tick.following:
            return
        self.slo_seconds.labels(tick.job).set(slo.fresh_within_s)
        self.slo_late_share.labels(tick.job).set(slo.late_share_target)
        self.tick_seconds.labels(tick.job).observe(tick.took_s)
        if tick.seen is not None:
            self._observed(tick.seen)
        if tick.error is not None:
            self.held.labels(tick.job, type(tick.error).__name__).inc()
        elif tick.decision is not None:
            self._decided(tick.decision)
            if tick.seen is not None:
                self._used(tick.seen, tick.decision)
        self.degraded.labels(tick.job).set(1 if tick.degraded else 0)

    def forget(self, job: str) -> None:
        """The job is gone: none of its series is shown any more, or its last lag would alarm for ever."""
        for metric in self._of_jobs:
            metric.remove_by_labels({"job": job})

    def _observed(self, seen: Observation) -> None:
        job, traffic = seen.job, seen.traffic
        self.arrival_rate.labels(job).set(traffic.rate_per_s)
        self.trained_rate.labels(job).set(traffic.trained_per_s)
        self.lag.labels(job).set(traffic.lag)
        self.lag_seconds.labels(job).set(traffic.lag_s)
        self.reading_age.labels(job).set(seen.at_s - traffic.at_s)
        self.lost.labels(job).set(traffic.lost)
        self.quarantined.labels(job).set(traffic.quarantined)
        self.workers_requested.labels(job).set(seen.pool.requested)
        self.pool_failures.labels(job).set(seen.pool.failures)
        for phase in WorkerPhase:
            self.workers.labels(job, phase.value).set(seen.pool.count(phase))
        self._learned(seen)
        if seen.forecast is not None:
            for level in (0.5, 0.95):
                peak = float(seen.forecast.path(level).max())
                self.forecast_peak.labels(job, f"{level:g}").set(peak)
            self.forecast_trouble.labels(job).set(1 if seen.forecast.trouble else 0)
            if seen.forecast.score is not None:
                self.forecast_score.labels(job).set(seen.forecast.score)

    def _learned(self, seen: Observation) -> None:
        """What workers that learn say of the model, of their steps, and of the parameter server."""
        quality = pooled(report.quality for report in seen.reports)
        if quality is not None:
            if quality.auc is not None:
                self.auc.labels(seen.job).set(quality.auc)
            self.logloss.labels(seen.job).set(quality.logloss)
            self.sample_age.labels(seen.job).set(quality.sample_age_s)
            self.skipped.labels(seen.job).set(quality.skipped)
            self.rejected.labels(seen.job).set(quality.rejected)
            self.staleness.labels(seen.job).set(quality.staleness_batches)
        step = StepTimes.mean_of([report.steps for report in seen.reports if report.steps is not None])
        if step is not None:
            parts = {
                "input": step.input_s,
                "pull": step.pull_s,
                "compute": step.compute_s,
                "push": step.wait_s - step.pull_s,
                "wait": step.starved_s,
            }
            for part, mean_s in parts.items():
                self.step_seconds.labels(seen.job, part).set(mean_s)
        for load in {load.name: load for report in seen.reports for load in report.resources}.values():
            self.shard_busy.labels(seen.job, load.name).set(load.busy)
        self._shards(seen)

    def _shards(self, seen: Observation) -> None:
        latest = sorted(seen.reports, key=lambda report: report.at_s)
        for shard in {shard.name: shard for report in latest for shard in report.shards}.values():
            self.shard_queue.labels(seen.job, shard.name).set(shard.queue)
            self.shard_rows.labels(seen.job, shard.name).set(shard.rows)
            self.shard_bytes.labels(seen.job, shard.name, "in").set(shard.bytes_in)
            self.shard_bytes.labels(seen.job, shard.name, "out").set(shard.bytes_out)

    def _used(self, seen: Observation, decision: Decision) -> None:
        """How many GPUs are held, and how much of them is used: two shares, never one."""
        held = sum(worker.phase is not WorkerPhase.FAILED for worker in seen.pool.workers)
        self.gpu_allocated.labels(seen.job).set(held / max(decision.numbers["workers_most"], 1.0))
        loads = [report.gpu for report in seen.reports if report.gpu is not None]
        if loads:
            self.gpu_busy.labels(seen.job).set(min(1.0, sum(load.busy for load in loads) / max(held, 1)))
        memory = [load.memory_bytes for load in loads if load.memory_bytes is not None]
        if memory:
            self.gpu_memory.labels(seen.job).set(sum(memory))

    def _decided(self, decision: Decision) -> None:
        joined = {"decision": decision.id}
        self.decisions.labels(decision.job, Reason(decision.reason).value).inc(exemplar=joined)
        self.workers_planned.labels(decision.job).set(decision.planned)
        self.capacity.labels(decision.job).set(decision.numbers["capacity_ready_per_s"])
        if decision.resize is not None:
            direction = "up" if decision.planned > decision.requested else "down"
            self.resizes.labels(decision.job, direction).inc(exemplar=joined)
        self._safe(decision)

    def _safe(self, decision: Decision) -> None:
        safety, job = decision.state.safety, decision.job
        for direction, breaker in (("up", safety.up), ("down", safety.down)):
            self.breaker.labels(job, direction).set(_OPEN[breaker.phase(decision.at_s)])
        self.resizes_day.labels(job).set(safety.day.at(decision.at_s))
        for said in (decision.reason, *decision.notes):
            if said in _SAFETY:
                self.resizes_held.labels(job, said.value).inc()
