"""The controller as a service with a worker on the bench: it is woken by an assignment, and replaced."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from tests.e2e.test_serve import Controller, Site, site, working_site
from tests.waiting import eventually

__all__ = ["site", "working_site"]

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


def by_phase(controller: Controller) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    told = controller.get("/v1/jobs/clicks/workers")
    for worker in told if isinstance(told, list) else ():  # a problem, while it has not seen any
        found.setdefault(worker["phase"], set()).add(worker["id"])
    return found


def counts(controller: Controller) -> dict[str, int]:
    return {phase: len(workers) for phase, workers in by_phase(controller).items()}


def override(controller: Controller, workers: int) -> None:
    body = {"workers": workers, "lasting_s": 600, "reason": "a test"}
    request = urllib.request.Request(
        f"{controller.address}/v1/jobs/clicks/override",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200


def trail(controller: Controller) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = controller.get("/v1/jobs/clicks/actuations")
    return found


def test_a_pool_grows_by_waking_and_the_bench_is_filled_behind(working_site: Site) -> None:
    working_site.settings["jobs"]["clicks"]["scaling"] |= {"workers_max": 6, "standbys": 1}
    controller = working_site.serve()
    eventually(
        lambda: counts(controller) == {"ready": 2, "standby": 1}, within_s=90, what="two and one on the bench"
    )
    before = by_phase(controller)
    override(controller, 3)

    eventually(lambda: before["standby"] <= by_phase(controller).get("ready", set()), what="it was woken")
    eventually(
        lambda: counts(controller) == {"ready": 3, "standby": 1}, within_s=60, what="the bench filled again"
    )
    after = by_phase(controller)
    assert after["ready"] == before["ready"] | before["standby"], "nobody new trains"
    assert after["standby"].isdisjoint(before["standby"])
    assert [(one["before"], one["workers"], one["outcome"]) for one in trail(controller)][:1] == [
        (3, 4, "done")
    ]

    override(controller, 2)
    eventually(
        lambda: counts(controller) == {"ready": 2, "standby": 1},
        within_s=60,
        what="one fewer, the bench kept",
    )
    assert len(working_site.workers()) == 3
