"""Metrics of the API itself. Routes are labelled by their template: the set is bounded."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}


class ApiMetrics:
    """How many requests, how they ended, how long they took."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "penstock_api_requests_total",
            "Requests by method, route and status.",
            ["method", "route", "status"],
            registry=registry,
        )
        self.seconds = Histogram(
            "penstock_api_request_seconds",
            "How long an answer took; streams count when they end.",
            ["route"],
            registry=registry,
            buckets=_BUCKETS_S,
        )
        self.watchers = Gauge("penstock_api_event_watchers", "Open event streams.", registry=registry)

    def answered(self, method: str, route: str, status: int, took_s: float) -> None:
        """Count one request; status 0 is one whose caller went away first."""
        shown = method if method in _METHODS else "other"
        self.requests.labels(shown, route, str(status)).inc()
        self.seconds.labels(route).observe(took_s)
