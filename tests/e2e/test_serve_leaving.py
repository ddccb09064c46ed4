"""The controller as a service takes away workers that hold leases: nothing is trained twice."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer

from tests.e2e.test_serve import Controller, Site, site, working_site
from tests.e2e.test_serve_standbys import override, trail
from tests.waiting import eventually

__all__ = ["site", "working_site"]

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

SAMPLES = 12_000
LEASE = 320
"""Samples that a worker trains in the second that a lease lasts: ten batches of 32."""


def quality(controller: Controller) -> dict[str, Any]:
    """Empty while nothing was counted."""
    told = controller.get("/v1/jobs/clicks/quality")
    return told if isinstance(told, dict) and "trained" in told else {}


def produce(site: Site) -> None:
    producer = Producer({"bootstrap.servers": site.settings["kafka"]["bootstrap"], "log_level": 2})
    for number in range(SAMPLES):
        producer.produce(site.settings["jobs"]["clicks"]["topic"], b"a sample", partition=number % 4)
        producer.poll(0)
    assert producer.flush(30) == 0


def test_workers_that_leave_finish_or_give_back_what_they_hold(working_site: Site) -> None:
    """A backlog that takes three workers seconds, and leases and patience that outlast a busy machine."""
    working_site.settings["controller"]["leader_ttl_s"] = 30.0
    job = working_site.settings["jobs"]["clicks"]
    job["scaling"] |= {"workers_min": 1}
    job["worker"] = {"batch": 32, "step_ms": 100.0}
    job["shuffle"] = {"lease_s": 1.0, "lease_ttl_s": 120.0, "start": "earliest"}
    job["pool"]["drain_s"] = 122.0
    controller = working_site.serve()
    eventually(lambda: controller.ready_workers() >= 1, within_s=120, what="a first worker")
    override(controller, 3)
    eventually(lambda: controller.ready_workers() == 3, within_s=120, what="three workers")
    produce(working_site)
    eventually(lambda: quality(controller).get("trained", 0) > 0, within_s=60, what="they train")

    override(controller, 1)

    left = SAMPLES - quality(controller)["trained"]
    assert left > 2 * 3 * LEASE, "so much was left that everybody held a lease"
    eventually(lambda: len(working_site.workers()) == 1, within_s=120, what="two have left")
    eventually(lambda: quality(controller)["trained"] == SAMPLES, within_s=120, what="every sample trained")
    assert (quality(controller)["repeated"], quality(controller)["lost"]) == (0, 0)
    shrunk = trail(controller)[0]
    assert (shrunk["before"], shrunk["workers"], shrunk["outcome"]) == (3, 1, "done")
    assert len(shrunk["remove"]) == 2
