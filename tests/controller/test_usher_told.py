"""What the usher tells of its work: who waits for a node and why, and who was told which."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from estimator.fleet import Standing
from services.controller.usher import WaitReason
from tests.actuator.kubernetes_server import Fault, api_server
from tests.controller.test_usher import FORBIDDEN, WITHIN_S, UsherRig, gated


@pytest.fixture
async def rig() -> AsyncIterator[UsherRig]:
    async with api_server() as server, UsherRig(server).opened() as made:
        yield made


def waiting(rig: UsherRig) -> list[tuple[str, WaitReason, float]]:
    return [(one.job, one.why, one.waits_s) for one in rig.usher.waiting]


async def test_a_worker_that_no_node_has_room_for_is_named_with_how_long_it_waits(rig: UsherRig) -> None:
    rig.deploy("ads", gpus=8)
    rig.scale("ads", 1)
    await rig.until(lambda: bool(rig.usher.waiting), "it is seen")

    rig.now_s += 12.0
    await rig.usher.tend()

    assert waiting(rig) == [("ads", WaitReason.FULL, 12.0)]
    assert rig.usher.waiting[0].pod == rig.pods()[0]["metadata"]["name"]


async def test_one_that_waits_because_guarantees_need_the_room_is_told_so(rig: UsherRig) -> None:
    rig.jobs |= {"wide": Standing("wide", guaranteed=3, gpus_per_worker=4.0)}
    rig.scale("ads", 1)

    await rig.until(lambda: waiting(rig) == [("ads", WaitReason.KEPT, 0.0)], "it waits")

    rig.jobs.pop("wide")
    await rig.until(lambda: rig.nodes()[""] == 0, "it has a node")
    assert rig.usher.waiting == ()
    assert [(one.job, one.node, one.why) for one, _ in rig.usher.seated()] == [
        ("ads", next(iter(rig.nodes())), "packed")
    ]


async def test_the_latest_that_was_told_a_node_comes_first_with_how_long_ago(rig: UsherRig) -> None:
    rig.scale("ads", 1)
    await rig.until(lambda: rig.nodes()[""] == 0, "one has a node")
    rig.now_s += 30.0
    rig.deploy("feed", nodeSelector={"gpu": "h200"})
    rig.scale("feed", 1)
    await rig.until(lambda: bool(rig.usher.waiting), "another waits")
    rig.now_s += WITHIN_S + 1
    await rig.until(lambda: not gated(rig.pods("feed")[0]), "it is let through")
    rig.now_s += 5.0

    assert [(one.job, one.why, ago_s) for one, ago_s in rig.usher.seated()] == [
        ("feed", "scheduler", 5.0),
        ("ads", "packed", 30.0 + WITHIN_S + 1 + 5.0),
    ]


async def test_while_nobody_knows_the_nodes_that_is_why_they_wait(rig: UsherRig) -> None:
    rig.server.faults.append(Fault("GET", "^/api/v1/nodes", 403, f"nodes {FORBIDDEN}", times=1000))
    blind = UsherRig(rig.server)
    async with blind.opened():
        blind.scale("ads", 1)
        await blind.until(lambda: waiting(blind) == [("ads", WaitReason.BLIND, 0.0)], "it waits")


async def test_one_whose_pod_may_not_be_touched_is_hindered(rig: UsherRig) -> None:
    rig.server.faults.append(Fault("PATCH", "/pods/", 403, "hands off", times=1000))
    rig.scale("ads", 1)

    await rig.until(lambda: waiting(rig) == [("ads", WaitReason.HINDERED, 0.0)], "it waits")

    assert "hands off" in rig.usher.trouble


async def test_one_that_its_node_does_not_take_is_named_with_the_node(rig: UsherRig) -> None:
    rig.server.controllers.shunned = {"n0"}
    rig.scale("ads", 1)

    await rig.until(lambda: waiting(rig) == [("ads", WaitReason.REFUSED, 0.0)], "the scheduler refused it")

    assert rig.usher.waiting[0].node == "n0"
