"""Kinds that Kubernetes does not come with, on a real API server (`make test-kubernetes`)."""

from __future__ import annotations

import pytest

from services.control.errors import Rejected
from services.control.types import Victims, WorkerPhase
from tests.actuator.control_plane import lacking, prepared_rig
from tests.actuator.custom_resources import JOB_SET, LEADER_WORKER_SET, RAY_CLUSTER, custom_target
from tests.actuator.rigs import ask, ids, settled

pytestmark = pytest.mark.kubernetes

if lacking():
    pytest.skip(lacking(), allow_module_level=True)


async def test_a_leader_worker_set_is_sized_by_its_scale_and_loses_its_highest() -> None:
    kind = LEADER_WORKER_SET
    async with (
        prepared_rig(kind.target, kind.plural) as rig,
        custom_target(rig.admin, rig.namespace, kind),
        rig.pool,
    ):
        assert rig.pool.capabilities().victims is Victims.HIGHEST
        await rig.pool.resize(ask(3))
        await rig.until(settled(3), "three leaders")

        await rig.pool.resize(ask(1, remove=("ads-2", "ads-1")))

        state = await rig.until(settled(1), "one leader")
        assert (ids(state, WorkerPhase.READY), state.failures) == ({"ads-0"}, 0)


async def test_a_ray_clusters_group_is_sized_within_its_bounds_and_loses_whom_the_decision_names() -> None:
    kind = RAY_CLUSTER
    async with (
        prepared_rig(kind.target, kind.plural) as rig,
        custom_target(rig.admin, rig.namespace, kind),
        rig.pool,
    ):
        await rig.pool.resize(ask(9))
        full = await rig.until(lambda state: state.ready == 5, "as many as the group may have")
        assert (full.requested, full.most) == (5, 5)
        assert "RayCluster ads itself allows 5 replicas" in full.trouble
        before = ids(full, WorkerPhase.READY)
        named = tuple(sorted(before))[2:4]

        await rig.pool.resize(ask(3, remove=named))

        state = await rig.until(settled(3), "three of them")
        assert (ids(state, WorkerPhase.READY), state.failures) == (before - set(named), 0)

        await rig.admin.patch(f"{rig.workloads}/ads", {"spec": {"enableInTreeAutoscaling": True}})
        await rig.until(lambda state: "sizes itself" in state.trouble, "its own autoscaler is noticed")
        with pytest.raises(Rejected, match="sizes itself"):
            await rig.pool.resize(ask(4))


async def test_an_elastic_job_set_is_sized_by_a_patch_of_both_its_numbers() -> None:
    kind = JOB_SET
    async with (
        prepared_rig(kind.target, kind.plural) as rig,
        custom_target(rig.admin, rig.namespace, kind),
        rig.pool,
    ):
        await rig.pool.resize(ask(4))

        assert (await rig.pool.observe()).requested == 4
        (job,) = (await rig.admin.get(f"{rig.workloads}/ads"))["spec"]["replicatedJobs"]
        assert (job["template"]["spec"]["parallelism"], job["template"]["spec"]["completions"]) == (4, 4)
