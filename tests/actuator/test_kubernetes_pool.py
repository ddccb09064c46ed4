"""What the Kubernetes pool sees: watches that break, pods that do not come, workers that are lost."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from services.actuator import kubernetes_mirror, kubernetes_view
from services.actuator.kubernetes_pods import GPU_TYPE_LABELS
from services.control.errors import PoolUnavailable
from services.control.types import WorkerPhase
from tests.actuator.clusters import ClusterRig, cluster_rig, workload
from tests.actuator.kubernetes_controllers import DEPLOYMENTS, PODS
from tests.actuator.kubernetes_server import ApiServer, Fault
from tests.actuator.rigs import ask, ids, refusal, settled
from tests.waiting import eventually_async


@pytest.fixture
async def rig() -> AsyncIterator[ClusterRig]:
    async with cluster_rig() as made:
        yield made


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


async def test_a_worker_tells_its_node_and_the_gpu_type_that_its_template_asks_for(rig: ClusterRig) -> None:
    target = rig.server.store.get(DEPLOYMENTS, "ads")
    target["spec"]["template"]["spec"] = {"nodeSelector": {GPU_TYPE_LABELS[0]: "NVIDIA-A100"}}
    rig.server.store.put(DEPLOYMENTS, target)
    await rig.pool.resize(ask(1))

    (worker,) = (await rig.until(settled(1), "one ready worker")).workers

    assert (worker.gpu_type, worker.node) == ("NVIDIA-A100", "gpu-1")
    assert worker.started_at_s == pytest.approx(time.time(), abs=60.0)


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


def _spec(replicas: int) -> dict[str, object]:
    return {"spec": workload("ads", replicas=replicas)["spec"]}


def _marked(server: ApiServer) -> set[str]:
    pods = server.store.things[PODS].values()
    return {pod["metadata"]["name"] for pod in pods if (pod["metadata"].get("annotations") or {})}
