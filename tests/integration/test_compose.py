"""The stack of docker-compose.yml for real: a day of traffic, a pool of containers, and nothing left of it.

One day is played for all tests. They ask about the record of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.deploy.queries import dashboard_queries, rules
from tests.integration.compose import Stack, lacking_for_compose
from tests.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.timeout(2400)]

SHARDS = ("shard-0", "shard-1")
NOON, EVENING, NIGHT = 12.0, 20.0, 24.0
"""Hours of the synthetic day: quiet until noon, busiest in the evening."""

BLANK_HERE = {"controllers.json: Watched topics"}
"""Dashboard panels about what this stack does not have."""


@dataclass(frozen=True)
class Moment:
    """What ran at an hour of the synthetic day; the hours go on after midnight."""

    hour: float
    workers: int


@dataclass
class Day:
    """What was seen while the stack ran, and after it was taken down."""

    services: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)
    course: list[Moment] = field(default_factory=list)
    late_share: float = 1.0
    trained: float = 0.0
    quality: dict[str, float] = field(default_factory=dict)
    shards: dict[str, bool] = field(default_factory=dict)
    rules: dict[str, str] = field(default_factory=dict)
    blank: set[str] = field(default_factory=set)
    """Dashboard panels that show nothing after a whole day."""
    remains: list[str] = field(default_factory=list)

    def workers_at(self, hour: float) -> int:
        """The size of the pool at an hour: the last that was seen before it."""
        seen = [moment.workers for moment in self.course if moment.hour < hour]
        assert seen, f"the stack took until {self.course[0].hour:.1f} o'clock to start"
        return seen[-1]


@pytest.fixture(scope="module")
def day() -> Iterator[Day]:
    reason = lacking_for_compose()
    if reason is not None:
        pytest.skip(reason)
    stack = Stack()
    try:
        yield _played(stack)
    finally:
        stack.clear()


def _played(stack: Stack) -> Day:
    day = Day()
    stack.compose("build", "-q", within_s=1200)
    stack.compose("up", "-d", "--wait", within_s=900)
    _look_around(stack, day)

    clock = stack.clock()

    def over() -> bool:
        now = Moment(clock.hour(), len(stack.workers()))
        day.course.append(now)
        return now.hour >= NIGHT and now.workers < day.workers_at(EVENING)

    eventually(over, within_s=400, every_s=1.0, what="a pool that is smaller after the evening")
    metrics = stack.metrics()
    day.late_share = metrics['penstock_late_share{job="clicks"}']
    day.trained = metrics['penstock_aged_samples_total{job="clicks"}']
    day.quality = {name: metrics[f'penstock_model_{name}{{job="clicks"}}'] for name in ("auc", "logloss")}
    day.shards = {shard: '"snapshot_kept"' in stack.compose("logs", shard) for shard in SHARDS}
    day.rules = stack.rules()
    answered = {query: bool(stack.ask_prometheus(query.filled_in)) for query in dashboard_queries()}
    shown = {query.where for query, any_value in answered.items() if any_value}
    day.blank = {query.where for query in answered} - shown
    eventually(lambda: _calm(stack), within_s=120, every_s=0.2, what="nobody starting or leaving")
    stack.down()
    day.remains = stack.remains()
    return day


def _calm(stack: Stack) -> bool:
    phases = ("starting", "draining")
    metrics = stack.metrics()
    return all(metrics.get(f'penstock_workers{{job="clicks",phase="{phase}"}}') == 0 for phase in phases)


def _look_around(stack: Stack, day: Day) -> None:
    shown = stack.compose("ps", "--format", "{{.Service}}\t{{.Health}}").splitlines()
    day.services = dict(line.split("\t") for line in shown)
    token = stack.compose(
        "exec", "-T", "-u", "penstock", "controller", "cat", "/var/lib/penstock/admin-token"
    ).strip()
    day.statuses = {
        "page": stack.status(f"{stack.page}/"),
        "jobs": stack.status(f"{stack.page}/v1/jobs"),
        "jobs with the token": stack.status(f"{stack.page}/v1/jobs", Authorization=f"Bearer {token}"),
    }
    for service in ("controller", "traffic", "shard-0"):
        (day.users[service],) = stack.compose(
            "exec", "-T", service, "stat", "-c", "%u", "/proc/1"
        ).splitlines()


def test_every_service_is_healthy(day: Day) -> None:
    expected = {"kafka", "redis", *SHARDS, "controller", "traffic", "prometheus", "worker"}
    assert expected <= day.services.keys()
    assert {health for service, health in day.services.items() if service != "worker"} == {"healthy"}


def test_the_page_is_open_and_the_jobs_want_the_token(day: Day) -> None:
    assert day.statuses == {"page": 200, "jobs": 401, "jobs with the token": 200}


def test_none_of_our_processes_is_root(day: Day) -> None:
    assert day.users == {"controller": "10001", "traffic": "10001", "shard-0": "10001"}


def test_the_pool_grows_before_the_evening_and_shrinks_after_it_by_real_containers(day: Day) -> None:
    assert day.workers_at(NOON) < day.workers_at(EVENING) > day.course[-1].workers
    assert day.workers_at(EVENING) >= 4


def test_the_promise_of_freshness_is_kept(day: Day) -> None:
    assert day.trained > 10_000
    assert day.late_share <= 0.01


def test_both_shards_keep_what_they_were_taught(day: Day) -> None:
    assert day.shards == dict.fromkeys(SHARDS, True)


def test_the_workers_learn_from_the_traffic_and_tell_how_well(day: Day) -> None:
    """By chance it is 0.5; the hidden model itself reaches some 0.82."""
    assert 0.6 < day.quality["auc"] < 0.9
    assert 0 < day.quality["logloss"] < 0.69, "no better than a guess"


def test_prometheus_evaluates_every_rule(day: Day) -> None:
    assert day.rules == {rule.get("alert") or rule["record"]: "ok" for rule in rules()}


def test_every_panel_of_the_dashboards_has_something_to_show(day: Day) -> None:
    assert day.blank == BLANK_HERE


def test_down_leaves_nothing_behind(day: Day) -> None:
    assert day.remains == []
