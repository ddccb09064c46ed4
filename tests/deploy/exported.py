"""What the code really exports: the names and labels of every metric, from the registries themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from services.api.api_metrics import ApiMetrics
from services.controller.meter_metrics import MeterMetrics
from services.controller.metrics import Metrics
from services.meter.figures import MeterFigures

_SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "gauge": ("",),
    "counter": ("_total",),
    "summary": ("_count", "_sum"),
    "histogram": ("_bucket", "_count", "_sum"),
}


@cache
def exported() -> Mapping[str, frozenset[str]]:
    """The labels of every series that a controller can export, by the series' name."""
    registry = everything()
    return {name: labels for family in registry.collect() for name, labels in _series(registry, family)}


def everything() -> CollectorRegistry:
    """All metrics of a controller with a meter."""
    registry = CollectorRegistry()
    Metrics(registry)
    ApiMetrics(registry)
    seen = MeterFigures("clicks", event_age_s=1.0, late_share=0.0, errors={"no leader": 1})
    registry.register(MeterMetrics(lambda: {"clicks": seen}, lambda: {"ads": seen}))
    return registry


def _series(registry: CollectorRegistry, family: Metric) -> Iterator[tuple[str, frozenset[str]]]:
    """A metric without any value yet has no series to read labels from: its collector knows them."""
    collector = registry._names_to_collectors.get(family.name)
    labels = set(getattr(collector, "_labelnames", ()))
    for sample in family.samples:
        labels |= sample.labels.keys() - {"le"}
    for suffix in _SUFFIXES[family.type]:
        yield family.name + suffix, frozenset(labels | ({"le"} if suffix == "_bucket" else set()))
