"""What the Kubernetes pool can size, who else has a say in it, and targets that are not there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from services.actuator.kubernetes_target import TargetSpec
from services.control.errors import PoolUnavailable, Rejected
from services.control.types import Victims, WorkerPhase
from tests.actuator.clusters import HPAS, ClusterRig, cluster_rig, workload
from tests.actuator.kubernetes_controllers import DEPLOYMENTS, NAMESPACE, PODS
from tests.actuator.kubernetes_server import api_server
from tests.actuator.rigs import ask, ids, refusal, settled, until
from tests.waiting import eventually_async

SCALED_OBJECTS = f"/apis/keda.sh/v1alpha1/namespaces/{NAMESPACE}/scaledobjects"
BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
JOB_SETS = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{NAMESPACE}/jobsets"
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


def a_ray_cluster(**spec: object) -> dict[str, Any]:
    """Of one worker group, whose operator keeps it between one and six."""
    group = {"replicas": 3, "minReplicas": 1, "maxReplicas": 6}
    return {"metadata": {"name": "ads"}, "spec": {"workerGroupSpecs": [group], **spec}}


@asynccontextmanager
async def ray_rig(cluster: dict[str, Any]) -> AsyncIterator[ClusterRig]:
    """Its operator's three pods are there."""
    async with api_server() as server:
        server.store.put(RAY_CLUSTERS, cluster)
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        for number in range(3):
            metadata = {"name": f"ads-x{number}", "namespace": NAMESPACE, "labels": {"a": "b"}}
            server.store.put(PODS, {"metadata": metadata, "spec": {"nodeName": "gpu-1"}, "status": ready})
        path = "/spec/workerGroupSpecs/0/replicas"
        rig = ClusterRig(server, TargetSpec("ads", "ray.io/v1", "RayCluster", path, "a=b"))
        async with rig.pool:
            yield rig


def group_of(rig: ClusterRig) -> dict[str, Any]:
    (group,) = rig.server.store.get(RAY_CLUSTERS, "ads")["spec"]["workerGroupSpecs"]
    return dict(group)


async def test_a_kind_without_scale_is_sized_by_a_patch() -> None:
    async with ray_rig(a_ray_cluster()) as rig:
        await rig.pool.resize(ask(4))

        assert (await rig.pool.observe()).requested == 4
        assert group_of(rig)["replicas"] == 4


async def test_who_leaves_a_ray_clusters_group_is_named_with_its_size_and_forgotten_when_it_grows() -> None:
    async with ray_rig(a_ray_cluster()) as rig:
        assert rig.pool.capabilities().victims is Victims.ANY
        await rig.pool.resize(ask(2, remove=("ads-x0",)))
        shrunk = group_of(rig)
        await rig.pool.resize(ask(4, fence=2))

        assert (shrunk["replicas"], shrunk["scaleStrategy"]) == (2, {"workersToDelete": ["ads-x0"]})
        assert group_of(rig)["scaleStrategy"] == {"workersToDelete": []}
        assert not [one for one in rig.server.writes() if PODS in one], "its pods are not marked"


async def test_the_bounds_of_a_ray_clusters_group_are_heeded_and_told() -> None:
    async with ray_rig(a_ray_cluster()) as rig:
        state = await rig.pool.observe()
        assert (state.least, state.most) == (1, 6)

        await rig.pool.resize(ask(9))

        assert group_of(rig)["replicas"] == 6
        told = (await rig.pool.observe()).trouble
        assert "RayCluster ads itself allows 6 replicas where 9 were asked for" in told


async def test_a_ray_cluster_that_sizes_itself_is_refused() -> None:
    async with ray_rig(a_ray_cluster(enableInTreeAutoscaling=True)) as rig:
        with pytest.raises(Rejected, match=r"RayCluster ads sizes itself \(spec.enableInTreeAutoscaling\)"):
            await rig.pool.resize(ask(4))

        assert group_of(rig)["replicas"] == 3


async def test_an_elastic_job_set_gets_as_many_completions_as_parallelism() -> None:
    job = {"parallelism": 2, "completions": 2, "completionMode": "Indexed"}
    replicated = [{"name": "workers", "replicas": 1, "template": {"spec": job}}]
    async with api_server() as server:
        server.store.put(JOB_SETS, {"metadata": {"name": "ads"}, "spec": {"replicatedJobs": replicated}})
        path = "/spec/replicatedJobs/0/template/spec/parallelism"
        rig = ClusterRig(server, TargetSpec("ads", "jobset.x-k8s.io/v1alpha2", "JobSet", path, "a=b"))
        async with rig.pool:
            await rig.pool.resize(ask(5))

            state = await rig.pool.observe()
            assert (state.requested, state.least) == (5, 1)
            assert rig.pool.capabilities().victims is Victims.NONE
        (sized,) = server.store.get(JOB_SETS, "ads")["spec"]["replicatedJobs"]
        assert sized["template"]["spec"] == {**job, "parallelism": 5, "completions": 5}


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
            assert (await rig.pool.observe()).least == 3
            await rig.pool.resize(ask(1))
            assert rig.replicas == 3
            told = (await rig.pool.observe()).trouble
            assert "PodDisruptionBudget keep keeps at least 3 pods and 1 were asked for" in told
            await rig.pool.resize(ask(4))
            assert (await rig.pool.observe()).trouble == ""


def hurried(grace_s: int) -> dict[str, Any]:
    """A Deployment of three pods that get so long to leave."""
    made = workload("ads", replicas=3)
    made["spec"]["template"]["spec"] = {"terminationGracePeriodSeconds": grace_s}
    return made


async def test_pods_that_would_be_killed_before_they_have_drained_are_not_sent_away() -> None:
    async with api_server() as server:
        server.store.put(DEPLOYMENTS, hurried(29))
        server.controllers.reconcile()
        rig = ClusterRig(server, TargetSpec("ads"))
        async with rig.another(drain_s=30.0) as pool:
            told = (await pool.observe()).trouble
            with pytest.raises(Rejected) as refused:
                await pool.resize(ask(2))
            assert rig.replicas == 3
            await pool.resize(ask(4))
            assert rig.replicas == 4, "growing takes nobody's leases"

        assert told == str(refused.value)
        assert "get 29 s to leave and pool.drain_s is 30" in told
        assert "raise their terminationGracePeriodSeconds, or lower pool.drain_s" in told


async def test_pods_that_get_as_long_as_a_worker_may_need_are_sent_away() -> None:
    async with api_server() as server:
        server.store.put(DEPLOYMENTS, hurried(30))
        server.controllers.reconcile()
        rig = ClusterRig(server, TargetSpec("ads"))
        async with rig.another(drain_s=30.0) as pool:
            await pool.resize(ask(2))

            assert (await pool.observe()).trouble == ""
        assert rig.replicas == 2


async def test_pods_of_an_older_template_count_until_they_are_gone() -> None:
    async with api_server() as server:
        server.store.put(DEPLOYMENTS, hurried(5))
        server.controllers.reconcile()
        mended = server.store.get(DEPLOYMENTS, "ads")
        mended["spec"]["template"]["spec"] = {"terminationGracePeriodSeconds": 60}
        server.store.put(DEPLOYMENTS, mended)
        rig = ClusterRig(server, TargetSpec("ads"))
        async with rig.another(drain_s=30.0) as pool:
            with pytest.raises(Rejected, match="get 5 s to leave"):
                await pool.resize(ask(2))
            for pod in list(server.store.things[PODS]):
                server.controllers.lose(pod)
            await until(pool, lambda state: not state.trouble, "pods of the new template")

            await pool.resize(ask(2))

        assert rig.replicas == 2


async def test_while_a_rollout_replaces_pods_nobody_is_chosen_to_leave(rig: ClusterRig) -> None:
    await rig.pool.resize(ask(4))
    await rig.until(settled(4), "four ready workers")
    (first, *_) = sorted(rig.server.store.things[PODS])

    def roll(**status: int) -> None:
        target = rig.server.store.get(DEPLOYMENTS, "ads")
        rig.server.store.put(DEPLOYMENTS, {**target, "status": status})

    roll(replicas=5)  # a surge of one, and none of the new version has been counted yet
    await rig.until(lambda state: state.replacing, "the rollout")
    await rig.pool.resize(ask(3, remove=(first,)))
    await rig.until(settled(3), "three ready workers")
    assert not [write for write in rig.server.writes() if PODS in write], "its pods are not marked"

    roll(replicas=3, updatedReplicas=3)
    await rig.until(lambda state: not state.replacing, "its end")


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
