"""The Kubernetes pool against a real control plane (`make test-kubernetes`)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.actuator.kubernetes_api import KubernetesApi
from services.control.errors import PoolUnavailable, Rejected
from services.control.types import PoolState, WorkerPhase
from tests.actuator.control_plane import PlaneRig, administrator, create, delete, lacking, plane_rig
from tests.actuator.rigs import ask, ids, settled, until
from tests.waiting import eventually_async

pytestmark = pytest.mark.kubernetes

if lacking():
    pytest.skip(lacking(), allow_module_level=True)


@pytest.fixture
async def rig() -> AsyncIterator[PlaneRig]:
    async with plane_rig() as made:
        yield made


@pytest.fixture
async def stateful() -> AsyncIterator[PlaneRig]:
    async with plane_rig("StatefulSet") as made:
        yield made


async def test_growing_past_the_gpus_there_are_tells_the_pending_pods_and_why(rig: PlaneRig) -> None:
    await rig.pool.resize(ask(30))

    state = await rig.until(lambda state: state.ready == 24 and "6 pods" in state.trouble, "24 of 30")

    assert (state.requested, state.count(WorkerPhase.STARTING)) == (30, 6)
    assert "Unschedulable" in state.trouble
    assert "Insufficient nvidia.com/gpu" in state.trouble


async def test_the_drained_worker_is_the_one_that_goes(rig: PlaneRig) -> None:
    await rig.pool.resize(ask(6))
    before = ids(await rig.until(settled(6), "six ready workers"), WorkerPhase.READY)
    drained = tuple(sorted(before))[1:3]

    await rig.pool.resize(ask(4, remove=drained))

    state = await rig.until(settled(4), "four ready workers")
    assert ids(state, WorkerPhase.READY) == before - set(drained)
    assert state.failures == 0


async def test_a_stateful_set_loses_its_highest(stateful: PlaneRig) -> None:
    await stateful.pool.resize(ask(4))
    await stateful.until(settled(4), "four ready workers")

    await stateful.pool.resize(ask(2, remove=("ads-3", "ads-2")))

    state = await stateful.until(settled(2), "two ready workers")
    assert (ids(state, WorkerPhase.READY), state.failures) == ({"ads-0", "ads-1"}, 0)


async def test_a_concurrent_kubectl_scale_ends_at_one_size_and_ours_when_asked_again(rig: PlaneRig) -> None:
    await asyncio.gather(rig.pool.resize(ask(5)), *(rig.scale_by_hand(size) for size in (2, 3, 2)))
    await rig.pool.resize(ask(5, fence=2))

    state = await rig.until(settled(5), "five ready workers")
    assert state.trouble == ""


async def begin_rollout(rig: PlaneRig, *, workers: int) -> set[str]:
    """As many ready workers, which a rollout begins to replace one by one, by a surge of one."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await rig.admin.patch(f"{rig.workloads}/ads", {"spec": {"strategy": strategy}})
    await rig.pool.resize(ask(workers))
    before = ids(await rig.until(settled(workers), "ready workers"), WorkerPhase.READY)
    template = {"metadata": {"annotations": {"version": "2"}}}
    await rig.admin.patch(f"{rig.workloads}/ads", {"spec": {"template": template}})
    return before


async def test_a_pool_that_grows_in_a_rollout_keeps_to_the_surge_and_loses_nobody(rig: PlaneRig) -> None:
    async with rig.replica_sets() as totals:
        before, seen = await begin_rollout(rig, workers=4), []
        await rig.pool.resize(ask(6))

        def renewed(state: PoolState) -> bool:
            seen.append(state)
            renewed = settled(6)(state) and before.isdisjoint(ids(state, WorkerPhase.READY))
            return renewed and not state.replacing

        assert (await rig.until(renewed, "six of the new version")).failures == 0

    assert max(totals) == 7, "six, and a surge of one"
    assert {state.requested for state in seen} == {6}, "the surge is nothing that was asked for"
    assert min(state.ready for state in seen) >= 4
    assert any(state.replacing for state in seen)


async def test_a_pool_that_shrinks_in_a_rollout_keeps_to_the_surge_and_loses_nobody(rig: PlaneRig) -> None:
    async with rig.replica_sets() as totals:
        before = await begin_rollout(rig, workers=5)
        await rig.until(lambda state: state.replacing, "the rollout")
        await rig.pool.resize(ask(2, remove=tuple(sorted(before))[:3]))

        def renewed(state: PoolState) -> bool:
            return settled(2)(state) and before.isdisjoint(ids(state, WorkerPhase.READY))

        assert (await rig.until(renewed, "two of the new version")).failures == 0

    assert max(totals) == 6, "five, and a surge of one"


async def test_of_two_controllers_that_ask_at_once_the_newer_wins(rig: PlaneRig) -> None:
    async with rig.another() as newer:
        old, new = await asyncio.gather(
            rig.pool.resize(ask(2, fence=1)), newer.resize(ask(4, fence=2)), return_exceptions=True
        )

        assert new is None
        assert old is None or "superseded" in str(old)
        assert (await until(newer, settled(4), "four ready workers", within_s=90.0)).failures == 0


async def test_exactly_our_rights_and_no_more(rig: PlaneRig) -> None:
    """The rig's pool works with them; here is what they do not allow."""
    limited = KubernetesApi(rig.pool._place.access())
    try:
        for path in (
            "/api/v1/nodes",
            f"/api/v1/namespaces/{rig.namespace}/secrets",
            f"/apis/apps/v1/namespaces/{rig.namespace}/deployments",
            "/api/v1/namespaces/default/pods",
        ):
            with pytest.raises(Rejected, match="cannot list"):
                await limited.list(path, {})
        with pytest.raises(Rejected, match="cannot delete"):
            await limited._ask("DELETE", f"{rig.workloads}/ads")
    finally:
        await limited.close()


async def test_without_our_rights_the_remedy_is_told(rig: PlaneRig) -> None:
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{rig.namespace}/roles/penstock-pool-ads"
    await delete(rig.admin, role)

    async def refused() -> str:
        try:
            await rig.pool.resize(ask(1))
        except Rejected as error:
            return str(error)
        return ""

    told: str = await eventually_async(refused, what="the missing rights")
    assert told.endswith("grant it as deploy/kubernetes/pool-rbac.yaml does")


async def test_a_real_autoscaler_on_the_target_is_refused(rig: PlaneRig) -> None:
    hpas = f"/apis/autoscaling/v2/namespaces/{rig.namespace}/horizontalpodautoscalers"
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "ads"}
    await create(
        rig.admin, hpas, {"metadata": {"name": "rival"}, "spec": {"scaleTargetRef": ref, "maxReplicas": 3}}
    )

    state = await rig.until(lambda state: "HorizontalPodAutoscaler rival" in state.trouble, "the rival")

    assert state.requested == 0
    with pytest.raises(Rejected, match="would fight"):
        await rig.pool.resize(ask(2))


async def test_a_disruption_budget_is_a_floor(rig: PlaneRig) -> None:
    budgets = f"/apis/policy/v1/namespaces/{rig.namespace}/poddisruptionbudgets"
    spec = {"minAvailable": 3, "selector": {"matchLabels": {"app": "ads"}}}
    await create(rig.admin, budgets, {"metadata": {"name": "keep"}, "spec": spec})
    async with rig.another() as pool:
        await pool.resize(ask(5))
        await until(pool, settled(5), "five ready workers", within_s=90.0)

        await pool.resize(ask(1))

        state = await until(
            pool, lambda state: len(state.workers) == state.ready == 3, "three", within_s=90.0
        )
        assert "PodDisruptionBudget keep keeps at least 3" in state.trouble


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
async def test_a_quota_that_is_used_up_is_told(kind: str) -> None:
    async with plane_rig(kind) as rig:
        quotas = f"/api/v1/namespaces/{rig.namespace}/resourcequotas"
        hard = {"hard": {"pods": "2"}}
        await create(rig.admin, quotas, {"metadata": {"name": "gpus"}, "spec": hard})
        # A small control plane has no controller of quotas: what that would write, admission goes by.
        await rig.admin.patch(f"{quotas}/gpus/status", {"status": {**hard, "used": {"pods": "0"}}})
        await rig.pool.resize(ask(4))

        state = await rig.until(lambda state: "exceeded quota" in state.trouble, "the quota")

        assert state.requested == 4


async def test_an_api_server_that_restarts_mid_resize_ends_at_the_right_size(rig: PlaneRig) -> None:
    """Only on a control plane of this machine, whose API server the tests may stop and start."""
    run = Path(os.environ["PENSTOCK_TEST_KUBECONFIG"]).parent
    if not (run / "apiserver.pid").exists():
        pytest.skip("the API server is not one that the tests may restart")
    await rig.pool.resize(ask(2))
    await rig.until(settled(2), "two ready workers")

    command = stop_api_server(run)
    with pytest.raises(PoolUnavailable):
        await rig.pool.resize(ask(5))
    start_api_server(run, command)

    async def asked() -> bool:
        try:
            await rig.pool.resize(ask(5))
        except (PoolUnavailable, Rejected):  # while it starts, its authorisation is not there yet
            return False
        return True

    await eventually_async(asked, what="the API server back", within_s=90.0)
    assert (await rig.until(settled(5), "five ready workers")).failures == 0


def stop_api_server(run: Path) -> list[str]:
    """Its command line."""
    pid = int((run / "apiserver.pid").read_text(encoding="utf-8"))
    command = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").rstrip("\0").split("\0")
    os.kill(pid, signal.SIGKILL)
    return command


def start_api_server(run: Path, command: list[str]) -> None:
    with (run / "apiserver.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=run, stdout=log, stderr=log, start_new_session=True)
    (run / "apiserver.pid").write_text(str(process.pid), encoding="utf-8")
    process.returncode = 0  # it outlives us: the cluster is not ours


def test_the_plane_answers() -> None:
    assert administrator().server
