"""What the Kubernetes pool can size, who else has a say in it, and targets that are not there."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from services.actuator.kubernetes_target import TargetSpec
from services.control.errors import PoolUnavailable, Rejected
from services.control.types import Victims, WorkerPhase
from tests.actuator.clusters import HPAS, ClusterRig, cluster_rig, workload
from tests.actuator.kubernetes_controllers import DEPLOYMENTS, NAMESPACE
from tests.actuator.kubernetes_server import api_server
from tests.actuator.rigs import ask, ids, refusal, settled
from tests.waiting import eventually_async

SCALED_OBJECTS = f"/apis/keda.sh/v1alpha1/namespaces/{NAMESPACE}/scaledobjects"
BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
RAY_CLUSTERS = f"/apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters"


@pytest.fixture
async def rig() -> AsyncIterator[ClusterRig]:
    async with cluster_rig() as made:
        yield made


@pytest.fixture
async def stateful() -> AsyncIterator[ClusterRig]:
    async with cluster_rig("StatefulSet") as made:
        yield made


async def test_a_stateful_set_says_that_its_highest_go_and_they_do(stateful: ClusterRig) -> None:
    assert stateful.pool.capabilities().victims is Victims.HIGHEST
    await stateful.pool.resize(ask(3))
    await stateful.until(settled(3), "three ready workers")

    await stateful.pool.resize(ask(1, remove=("ads-2", "ads-1")))

    state = await stateful.until(settled(1), "one ready worker")
    assert (ids(state, WorkerPhase.READY), state.failures) == ({"ads-0"}, 0)


async def test_a_lost_pod_of_a_stateful_set_is_counted_though_its_name_comes_back(
    stateful: ClusterRig,
) -> None:
    await stateful.pool.resize(ask(2))
    await stateful.until(settled(2), "two ready workers")

    stateful.kill("ads-0")

    state = await stateful.until(lambda state: settled(2)(state) and state.failures == 1, "it is back")
    assert ids(state, WorkerPhase.READY) == {"ads-0", "ads-1"}


async def test_a_kind_without_scale_is_sized_by_a_patch() -> None:
    async with api_server() as server:
        groups = [{"replicas": 1}]
        server.store.put(RAY_CLUSTERS, {"metadata": {"name": "ads"}, "spec": {"workerGroupSpecs": groups}})
        rig = ClusterRig(
            server, TargetSpec("ads", "ray.io/v1", "RayCluster", "/spec/workerGroupSpecs/0/replicas", "a=b")
        )
        async with rig.pool:
            await rig.pool.resize(ask(4))

            assert (await rig.pool.observe()).requested == 4
            assert rig.pool.capabilities().victims is Victims.NONE
        assert server.store.get(RAY_CLUSTERS, "ads")["spec"]["workerGroupSpecs"] == [{"replicas": 4}]


async def test_a_kind_without_scale_asks_for_the_way_to_its_size() -> None:
    async with api_server() as server:
        rig = ClusterRig(server, TargetSpec("ads", "ray.io/v1", "RayCluster"))

        with pytest.raises(PoolUnavailable, match="RayCluster has no /scale: name where it keeps its size"):
            await rig.pool.open()


async def test_another_autoscaler_on_the_target_is_told_and_no_size_is_set(rig: ClusterRig) -> None:
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "ads"}
    rig.server.store.put(HPAS, {"metadata": {"name": "by-cpu"}, "spec": {"scaleTargetRef": ref}})

    state = await rig.until(lambda state: bool(state.trouble), "the rival is seen")

    assert "HorizontalPodAutoscaler by-cpu sizes Deployment ads too" in state.trouble
    with pytest.raises(Rejected, match="HorizontalPodAutoscaler by-cpu sizes Deployment ads too"):
        await rig.pool.resize(ask(2))
    assert rig.server.writes() == []


async def test_an_autoscaler_of_something_else_is_none_of_our_business(rig: ClusterRig) -> None:
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
    rig.server.store.put(HPAS, {"metadata": {"name": "by-cpu"}, "spec": {"scaleTargetRef": ref}})
    await rig.pool.resize(ask(1))

    assert (await rig.until(settled(1), "one ready worker")).trouble == ""


async def test_a_scaled_object_of_keda_is_a_rival_too() -> None:
    async with api_server() as server:
        server.keda = True
        server.store.put(DEPLOYMENTS, workload("ads"))
        server.store.put(
            SCALED_OBJECTS, {"metadata": {"name": "s"}, "spec": {"scaleTargetRef": {"name": "ads"}}}
        )
        rig = ClusterRig(server, TargetSpec("ads"))
        async with rig.pool:
            with pytest.raises(Rejected, match="ScaledObject s sizes Deployment ads too"):
                await rig.pool.resize(ask(2))


async def test_a_disruption_budget_is_a_floor_and_a_percentage_is_none() -> None:
    async with api_server() as server:
        server.store.put(DEPLOYMENTS, workload("ads", replicas=5))
        for name, least in (("keep", 3), ("share", "90%")):
            spec = {"minAvailable": least, "selector": {"matchLabels": {"app": "ads"}}}
            server.store.put(BUDGETS, {"metadata": {"name": name}, "spec": spec})
        rig = ClusterRig(server, TargetSpec("ads"))
        async with rig.pool:
            await rig.pool.resize(ask(1))
            assert rig.replicas == 3
            told = (await rig.pool.observe()).trouble
            assert "PodDisruptionBudget keep keeps at least 3 pods and 1 were asked for" in told
            await rig.pool.resize(ask(4))
            assert (await rig.pool.observe()).trouble == ""


async def test_a_target_that_is_not_there_is_told() -> None:
    async with api_server() as server:
        rig = ClusterRig(server, TargetSpec("ads"))

        with pytest.raises(PoolUnavailable, match='deployments "ads" not found'):
            await rig.pool.open()


async def test_a_target_that_is_deleted_is_told(rig: ClusterRig) -> None:
    rig.server.store.delete(DEPLOYMENTS, "ads")

    told: str = await eventually_async(lambda: refusal(rig.pool), what="it is noticed")

    assert told == f"there is no Deployment ads in namespace {NAMESPACE}: create it"


async def test_a_thousand_pods_are_listed_by_the_page(rig: ClusterRig) -> None:
    rig.server.controllers.gpus = 0
    rig.server.controllers.quota = 1_200
    await rig.pool.resize(ask(1_100))
    async with rig.another() as other:
        assert len((await other.observe()).workers) == 1_100
