"""How the Kubernetes pool sets a size: fenced, once, whatever the API server answers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from services.actuator.kubernetes_api import Conflict
from services.actuator.kubernetes_target import DECISION, FENCE
from services.control.errors import Fenced, PoolUnavailable, Rejected
from tests.actuator.clusters import ClusterRig, cluster_rig, workload
from tests.actuator.kubernetes_controllers import DEPLOYMENTS
from tests.actuator.kubernetes_server import Fault
from tests.actuator.rigs import ask, settled, until


@pytest.fixture
async def rig() -> AsyncIterator[ClusterRig]:
    async with cluster_rig() as made:
        yield made


async def test_the_token_is_written_before_the_size_and_the_size_carries_its_version(rig: ClusterRig) -> None:
    await rig.pool.resize(ask(2, fence=7))

    patch, put = [call for call in rig.server.calls if call.method != "GET"]
    assert (patch.method, patch.path) == ("PATCH", f"{DEPLOYMENTS}/ads")
    assert patch.body["metadata"]["annotations"] == {FENCE: "7", DECISION: "ads-2"}
    assert (put.method, put.path) == ("PUT", f"{DEPLOYMENTS}/ads/scale")
    assert int(put.body["metadata"]["resourceVersion"]) > int(patch.body["metadata"]["resourceVersion"])


async def test_a_repeated_resize_writes_nothing(rig: ClusterRig) -> None:
    await rig.pool.resize(ask(2))
    written = rig.server.writes()

    await rig.pool.resize(ask(2))

    assert rig.server.writes() == written


@pytest.mark.parametrize(("method", "path"), [("PATCH", "ads"), ("PUT", "scale")])
async def test_a_conflict_is_looked_at_again(rig: ClusterRig, method: str, path: str) -> None:
    rig.server.faults.append(Fault(method, path, 409, "the object has been modified", times=3))

    await rig.pool.resize(ask(2))

    assert rig.replicas == 2


async def test_a_superseded_controller_is_refused_even_between_its_look_and_its_write(
    rig: ClusterRig,
) -> None:
    newer = {**workload("ads", replicas=5)}
    newer["metadata"]["annotations"] = {FENCE: "9"}
    whole = rig.server._do

    def overtaken(method: str, *rest: object) -> object:
        if method == "PATCH" and rig.replicas != 5:
            rig.server.store.put(DEPLOYMENTS, newer)
        return whole(method, *rest)  # type: ignore[arg-type]

    rig.server._do = overtaken  # type: ignore[assignment, method-assign]
    with pytest.raises(Fenced) as fenced:
        await rig.pool.resize(ask(2, fence=8))

    assert (fenced.value.token, fenced.value.newest, rig.replicas) == (8, 9, 5)


async def test_conflicts_without_end_are_told(rig: ClusterRig) -> None:
    rig.server.faults.append(Fault("PUT", "scale", 409, "the object has been modified", times=100))

    with pytest.raises(Conflict):
        await rig.pool.resize(ask(2))


async def test_a_throttled_request_is_tried_again_when_the_server_says(rig: ClusterRig) -> None:
    rig.server.faults.append(Fault("PUT", "scale", 429, "too many", {"Retry-After": "0.01"}, times=2))

    await rig.pool.resize(ask(2))

    assert rig.replicas == 2


async def test_throttling_without_end_is_told(rig: ClusterRig) -> None:
    rig.server.faults.append(Fault("PUT", "scale", 429, "too many", {"Retry-After": "0.01"}, times=100))

    with pytest.raises(PoolUnavailable, match="answered 429: too many"):
        await rig.pool.resize(ask(2))


async def test_a_lost_response_is_made_good_by_asking_again(rig: ClusterRig) -> None:
    rig.server.faults.append(Fault("PUT", "scale", done=True))
    with pytest.raises(PoolUnavailable, match="does not answer"):
        await rig.pool.resize(ask(3))

    await rig.pool.resize(ask(3))

    state = await rig.until(settled(3), "three ready workers")
    assert (state.failures, rig.server.writes().count(f"PUT {DEPLOYMENTS}/ads/scale")) == (0, 1)


async def test_a_controller_that_died_before_the_size_leaves_it_to_its_successor(rig: ClusterRig) -> None:
    rig.server.faults.append(Fault("PUT", "scale"))
    with pytest.raises(PoolUnavailable):
        await rig.pool.resize(ask(3, fence=1))
    await rig.pool.close()

    async with rig.another() as successor:
        assert (await successor.observe()).requested == 0
        await successor.resize(ask(3, fence=2))
        await until(successor, settled(3), "three ready workers")


async def test_an_admission_denial_is_told_in_the_webhooks_words(rig: ClusterRig) -> None:
    denial = 'admission webhook "gpus.example" denied the request: team ads is over budget'
    rig.server.faults.append(Fault("PUT", "scale", 403, denial))

    with pytest.raises(Rejected, match=r"team ads is over budget$"):
        await rig.pool.resize(ask(2))


async def test_missing_rights_are_told_with_the_remedy(rig: ClusterRig) -> None:
    denial = 'deployments.apps "ads" is forbidden: User "penstock" cannot patch resource "deployments/scale"'
    rig.server.faults.append(Fault("PUT", "scale", 403, denial))

    with pytest.raises(Rejected, match=r"cannot patch .*; grant it as deploy/kubernetes/pool-rbac.yaml does"):
        await rig.pool.resize(ask(2))
