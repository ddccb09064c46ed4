"""What the meters say of themselves, as Prometheus metrics, read when they are scraped.

A scrape sees a meter that hangs: its staleness grows though no tick ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from services.meter.figures import MeterFigures

_GAUGES: Mapping[str, tuple[str, Callable[[MeterFigures], float | None]]] = {
    "meter_staleness_seconds": ("Age of the last good reading.", lambda seen: seen.staleness_s),
    "meter_partitions": ("Partitions of the topic.", lambda seen: seen.partitions),
    "meter_held_partitions": (
        "Partitions that did not answer the last poll and keep their last values.",
        lambda seen: seen.held_partitions,
    ),
    "meter_records_per_offset": (
        "Samples to an offset: below 1 with transactions or compaction.",
        lambda seen: seen.records_per_offset,
    ),
    "meter_backfilled_share": (
        "How much of the past that was asked for has been rebuilt.",
        lambda seen: seen.backfilled,
    ),
    "event_time_age_seconds": (
        "Age of the longest untrained sample by its own timestamp; lag_seconds counts from its arrival.",
        lambda seen: seen.event_age_s,
    ),
    "late_share": (
        "Share of the samples trained in the last week that were late, by their arrival.",
        lambda seen: seen.late_share,
    ),
}
_COUNTERS: Mapping[str, tuple[str, Callable[[MeterFigures], float]]] = {
    "meter_failed_polls": ("Polls that told nothing.", lambda seen: seen.failed_polls),
    "aged_samples": ("Samples of completed leases whose age was told.", lambda seen: seen.aged),
    "late_samples": ("Samples that were late when their lease was completed.", lambda seen: seen.late),
}


class MeterMetrics(Collector):
    """Collects from the meters that are open at the moment of the scrape.

    `figures` are those of the jobs, `watched` those of topics that no job trains.
    """

    def __init__(
        self,
        figures: Callable[[], Mapping[str, MeterFigures]],
        watched: Callable[[], Mapping[str, MeterFigures]] = dict,
    ) -> None:
        self._figures = figures
        self._watched = watched

    def describe(self) -> list[Metric]:
        """Nothing to tell in advance: registering asks no meter."""
        return []

    def collect(self) -> Iterator[Metric]:
        """One sample a job; a value that is not known is left out, not zero."""
        seen = self._figures()
        for name, (text, value_of) in _GAUGES.items():
            gauge = GaugeMetricFamily(f"penstock_{name}", text, labels=["job"])
            for job, figures in seen.items():
                value = value_of(figures)
                if value is not None:
                    gauge.add_metric([job], value)
            yield gauge
        for name, (text, count_of) in _COUNTERS.items():
            counter = CounterMetricFamily(f"penstock_{name}", text, labels=["job"])
            for job, figures in seen.items():
                counter.add_metric([job], count_of(figures))
            yield counter
        yield from _polls(seen)
        topics = GaugeMetricFamily(
            "penstock_watched_topic_samples_per_second",
            "Samples arriving on a topic that is watched and that no job need train.",
            labels=["topic"],
        )
        for topic, figures in self._watched().items():
            topics.add_metric([topic], figures.rate_per_s)
        yield topics


def _polls(seen: Mapping[str, MeterFigures]) -> Iterator[Metric]:
    took = SummaryMetricFamily(
        "penstock_meter_poll_seconds", "How long polls of offsets took.", labels=["job"]
    )
    errors = CounterMetricFamily(
        "penstock_meter_errors", "Polls that met an error, by kind.", labels=["job", "kind"]
    )
    for job, figures in seen.items():
        took.add_metric([job], count_value=figures.polls, sum_value=figures.poll_s_total)
        for kind, count in figures.errors.items():
            errors.add_metric([job, kind], count)
    yield took
    yield errors
