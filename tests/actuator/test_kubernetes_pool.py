"""The Kubernetes pool against the faults of an API server and the habits of its controllers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from services.actuator import kubernetes_mirror, kubernetes_view
from services.actuator.kubernetes_api import Conflict
from services.actuator.kubernetes_target import DECISION, FENCE, TargetSpec
from services.control.errors import Fenced, PoolUnavailable, Rejected
from services.control.types import Victims, WorkerPhase
from tests.actuator.clusters import HPAS, ClusterRig, cluster_rig, workload
from tests.actuator.kubernetes_controllers import DEPLOYMENTS, NAMESPACE, PODS
from tests.actuator.kubernetes_server import ApiServer, Fault, api_server
from tests.actuator.rigs import ask, ids, refusal, settled, until
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


async def test_a_broken_watch_goes_on_where_it_ended(rig: ClusterRig) -> None:
    await rig.pool.resize(ask(1))
    await rig.until(settled(1), "one ready worker")
    lists = sum(call.path == PODS for call in rig.server.calls)

    rig.server.cut()
    await rig.pool.resize(ask(2))

    await rig.until(settled(2), "two ready workers")
    asked = [call for call in rig.server.calls if call.path == PODS]
    assert len(asked) == lists + 1, "a watch was opened, nothing was listed again"


async def test_a_watch_that_is_too_old_lists_again_and_tells_what_it_missed(rig: ClusterRig) -> None:
    await rig.pool.resize(ask(2))
    before = await rig.until(settled(2), "two ready workers")
    await rig.server.stop()
    victim, survivor = sorted(ids(before, WorkerPhase.READY))
    rig.server.controllers.lose(victim)
    rig.server.store.compact()
    await rig.server.start()

    await rig.until(lambda state: victim not in ids(state, WorkerPhase.READY), "the loss is seen")

    state = await rig.until(lambda state: settled(2)(state) and state.failures == 1, "the loss is counted")
    assert survivor in ids(state, WorkerPhase.READY)


async def test_a_server_that_restarts_mid_resize_ends_at_the_right_size(rig: ClusterRig) -> None:
    await rig.pool.resize(ask(1))
    await rig.until(settled(1), "one ready worker")
    await rig.server.stop()
    with pytest.raises(PoolUnavailable, match="does not answer"):
        await rig.pool.resize(ask(3))
    assert (await rig.pool.observe()).ready == 1, "a short break is bridged"

    await rig.server.start()
    await rig.pool.resize(ask(3))

    assert (await rig.until(settled(3), "three ready workers")).failures == 0


async def test_a_server_that_stays_away_is_told(rig: ClusterRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_view, "_HINDERED_FOR_S", 0.1)
    monkeypatch.setattr(kubernetes_mirror, "_RETRY_LONGEST_S", 0.1)
    await rig.server.stop()

    told: str = await eventually_async(lambda: refusal(rig.pool), what="it is noticed")

    assert "the Kubernetes API server does not answer" in told
    await rig.server.start()
    await rig.until(lambda state: state.requested == 0, "it goes on")


async def test_pods_beyond_the_gpus_there_are_stay_pending_with_their_reason(rig: ClusterRig) -> None:
    rig.server.controllers.gpus = 2
    await rig.pool.resize(ask(5))

    state = await rig.until(lambda state: state.ready == 2 and bool(state.trouble), "two ready, a reason")

    assert (state.requested, len(state.workers)) == (5, 5)
    assert state.count(WorkerPhase.STARTING) == 3
    assert state.trouble.startswith("3 pods (ads-")
    assert "Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu" in state.trouble


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
async def test_pods_beyond_the_quota_are_told_though_there_are_none(kind: str) -> None:
    async with cluster_rig(kind) as rig:
        rig.server.controllers.quota = 2
        await rig.pool.resize(ask(5))

        state = await rig.until(lambda state: bool(state.trouble), "the trouble")

        assert "exceeded quota" in state.trouble


async def test_partial_readiness_counts_only_who_is_ready(rig: ClusterRig) -> None:
    await rig.pool.resize(ask(2))
    await rig.until(settled(2), "two ready workers")
    rig.server.controllers.never_ready = True
    await rig.pool.resize(ask(4))

    state = await rig.until(lambda state: len(state.workers) == 4, "four pods")

    assert (state.ready, state.count(WorkerPhase.STARTING), state.trouble) == (2, 2, "")


async def test_a_container_that_keeps_crashing_is_counted_and_told(rig: ClusterRig) -> None:
    await rig.pool.resize(ask(1))
    before = await rig.until(settled(1), "one ready worker")
    (pod,) = ids(before, WorkerPhase.READY)

    rig.server.controllers.crash(pod, code=137)

    state = await rig.until(lambda state: state.failures == 1, "the crash is counted")
    assert ids(state, WorkerPhase.FAILED) == {pod}
    assert state.trouble == f"pod {pod}: CrashLoopBackOff: last ended with OOMKilled, code 137"


async def test_a_size_set_by_hand_shows_and_its_leavers_are_no_failures(rig: ClusterRig) -> None:
    await rig.pool.resize(ask(4))
    await rig.until(settled(4), "four ready workers")

    rig.server.store.put(DEPLOYMENTS, {**rig.server.store.get(DEPLOYMENTS, "ads"), **_spec(2)})
    rig.server.controllers.reconcile()

    state = await rig.until(settled(2), "two ready workers")
    assert state.failures == 0
    await rig.pool.resize(ask(4))
    await rig.until(settled(4), "ours again")


async def test_marks_of_workers_that_stay_after_all_are_taken_back(rig: ClusterRig) -> None:
    await rig.pool.resize(ask(3))
    first, second, third = sorted(ids(await rig.until(settled(3), "three"), WorkerPhase.READY))
    rig.server.faults.append(Fault("PUT", "scale"))
    with pytest.raises(PoolUnavailable):
        await rig.pool.resize(ask(2, remove=(first,)))

    async def marked() -> bool:
        return _marked(rig.server) == {first}

    await eventually_async(marked, what="the mark")
    await rig.pool.resize(ask(2, remove=(second,)))

    state = await rig.until(settled(2), "two ready workers")
    assert ids(state, WorkerPhase.READY) == {first, third}
    assert _marked(rig.server) == set()


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


def _spec(replicas: int) -> dict[str, object]:
    return {"spec": workload("ads", replicas=replicas)["spec"]}


def _marked(server: ApiServer) -> set[str]:
    pods = server.store.things[PODS].values()
    return {pod["metadata"]["name"] for pod in pods if (pod["metadata"].get("annotations") or {})}
