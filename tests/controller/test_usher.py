"""Workers that wait at the gate are told their node, whatever goes wrong, and none waits for long."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from estimator.fleet import Budget, JobId, Node, Standing
from services.actuator.kubernetes_cluster import KubernetesCluster
from services.actuator.kubernetes_gate import GATE, JOB_LABEL, NODE_NOTE
from services.controller.house import House
from services.controller.usher import Usher
from tests.actuator.clusters import access_to, workload
from tests.actuator.kubernetes_controllers import DEPLOYMENTS, NODES, PODS
from tests.actuator.kubernetes_server import ApiServer, Fault, api_server
from tests.actuator.kubernetes_store import Thing
from tests.waiting import eventually_async

WITHIN_S = 30.0
FORBIDDEN = 'is forbidden: User "penstock" cannot list resource at the cluster scope'
PINNED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass
class UsherRig:
    """Three nodes of four GPUs, a Deployment whose pods wait at the gate, and a clock of its own."""

    server: ApiServer
    jobs: dict[str, Standing] = field(default_factory=lambda: {"ads": Standing("ads")})
    now_s: float = 0.0
    lent: dict[JobId, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number in range(3):
            self.server.store.put(NODES, node(f"n{number}"))
        self.deploy("ads")
        self.cluster = KubernetesCluster(access_to(self.server), [""])

    def house(self) -> House:
        names = sorted(self.server.store.things[NODES])
        return House(Budget(tuple(Node(name, "a100", 4) for name in names)), self.jobs, self.lent)

    def deploy(self, name: str, *, gpus: int = 1, gated: bool = True, **spec: Any) -> None:
        made = workload(name)
        template = made["spec"]["template"]
        template["metadata"]["labels"][JOB_LABEL] = name
        limits = {"limits": {"nvidia.com/gpu": str(gpus), "cpu": "2", "memory": "8Gi"}}
        template["spec"] = {"containers": [{"name": "worker", "resources": limits}], **spec}
        if gated:
            template["spec"]["schedulingGates"] = [{"name": GATE}]
        self.server.store.put(DEPLOYMENTS, made)

    def scale(self, name: str, replicas: int) -> None:
        target = self.server.store.get(DEPLOYMENTS, name)
        self.server.store.put(DEPLOYMENTS, {**target, "spec": {**target["spec"], "replicas": replicas}})
        self.server.controllers.reconcile()

    def pods(self, job: str = "ads") -> list[Thing]:
        pods = self.server.store.things.get(PODS, {}).values()
        return [pod for pod in pods if pod["metadata"]["labels"][JOB_LABEL] == job]

    def nodes(self, job: str = "ads") -> Counter[str]:
        return Counter(pod["spec"].get("nodeName", "") for pod in self.pods(job))

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        async def held() -> bool:
            await self.usher.tend()
            return condition()

        await eventually_async(held, what=what, every_s=0.0)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[UsherRig]:
        try:
            await self.cluster.open()
            self.usher = Usher(self.cluster, self.house, within_s=WITHIN_S, now_s=lambda: self.now_s)
            yield self
        finally:
            await self.cluster.close()


def node(name: str, *, gpus: int = 4, **labels: str) -> Thing:
    resources = {"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": str(gpus)}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]},
    }


@pytest.fixture
async def rig() -> AsyncIterator[UsherRig]:
    async with api_server() as server, UsherRig(server).opened() as made:
        yield made


def gated(pod: Thing) -> bool:
    return bool(pod["spec"].get("schedulingGates"))


async def test_pods_are_packed_on_the_nodes_that_were_chosen_for_them(rig: UsherRig) -> None:
    rig.scale("ads", 6)

    await rig.until(lambda: "" not in rig.nodes(), "all have a node")

    assert sorted(rig.nodes().values()) == [2, 4], "one node full, the next begun"
    for pod in rig.pods():
        assert pod["metadata"]["annotations"][NODE_NOTE] == pod["spec"]["nodeName"]
        assert not gated(pod)


async def test_a_pod_at_the_gate_of_another_namespace_is_another_controllers(rig: UsherRig) -> None:
    rig.deploy("theirs")
    rig.scale("theirs", 1)
    theirs = rig.pods("theirs")[0]
    rig.server.store.put(PODS, {**theirs, "metadata": {**theirs["metadata"], "namespace": "elsewhere"}})
    rig.scale("ads", 1)
    rig.now_s += 2 * WITHIN_S

    await rig.until(lambda: "" not in rig.nodes(), "ours has a node")

    assert not [write for write in rig.server.writes() if "elsewhere" in write]
    assert not rig.usher.trouble


async def test_a_pod_without_the_gate_is_the_schedulers(rig: UsherRig) -> None:
    rig.deploy("feed", gated=False)
    rig.scale("feed", 2)
    rig.scale("ads", 1)

    await rig.until(lambda: "" not in rig.nodes() and bool(rig.nodes()), "the gated one has a node")

    assert all("annotations" not in pod["metadata"] for pod in rig.pods("feed"))
    assert [call.path for call in rig.server.calls if call.method == "PATCH"] == [
        f"{PODS}/{rig.pods()[0]['metadata']['name']}"
    ]


async def test_what_others_have_requested_counts_whoever_they_are(rig: UsherRig) -> None:
    others = "/api/v1/namespaces/elsewhere/pods"
    limits = {"requests": {"cpu": "31", "memory": "1Gi"}}
    for name in ("n0", "n1"):
        spec = {"nodeName": name, "containers": [{"resources": limits}]}
        rig.server.store.put(others, {"metadata": {"name": name, "namespace": "elsewhere"}, "spec": spec})
    await rig.until(lambda: len(rig.cluster.pods()) == 2, "the others are seen")

    rig.scale("ads", 2)

    await rig.until(lambda: rig.nodes() == {"n2": 2}, "both where there are cores left")


async def test_a_guarantee_keeps_its_node_free_of_surge_workers(rig: UsherRig) -> None:
    rig.jobs |= {"wide": Standing("wide", guaranteed=2, gpus_per_worker=4.0)}
    rig.deploy("wide", gpus=4)
    rig.scale("ads", 6)
    await rig.until(lambda: rig.nodes()[""] == 2, "four have a node, and two wait")
    await rig.usher.tend()

    assert sorted(rig.nodes().values()) == [2, 4]  # the third node would be free

    rig.lent[JobId("", "wide")] = 1
    await rig.until(lambda: rig.nodes()[""] == 0, "what is lent may be had")


async def test_own_labels_affinity_and_taints_of_nodes_are_heeded(rig: UsherRig) -> None:
    rig.server.store.put(NODES, node("n0", gpu="t4"))
    tainted = node("n1", gpu="a100")
    tainted["spec"]["taints"] = [{"key": "spot", "effect": "NoSchedule"}]
    rig.server.store.put(NODES, tainted)
    rig.server.store.put(NODES, node("n2", gpu="a100"))
    term = {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a100"]}]}
    rig.deploy("feed", affinity={"nodeAffinity": {PINNED: {"nodeSelectorTerms": [term]}}})
    rig.scale("feed", 2)

    await rig.until(lambda: rig.nodes("feed") == {"n2": 2}, "on the one node that suits")

    terms = rig.pods("feed")[0]["spec"]["affinity"]["nodeAffinity"][PINNED]["nodeSelectorTerms"]
    assert [one["matchExpressions"] for one in terms] == [term["matchExpressions"]]  # narrowed, not replaced


async def test_a_pod_for_which_no_node_is_right_is_let_through_in_time(rig: UsherRig) -> None:
    rig.deploy("ads", nodeSelector={"gpu": "h200"})
    rig.scale("ads", 1)
    await rig.until(lambda: len(rig.cluster.pods()) == 1, "it is seen")
    rig.now_s += WITHIN_S - 1
    await rig.usher.tend()
    assert gated(rig.pods()[0])

    rig.now_s += 2

    await rig.until(lambda: not gated(rig.pods()[0]), "the gate is open")
    assert "affinity" not in rig.pods()[0]["spec"]


async def test_nodes_that_cannot_be_read_hold_nobody_up_for_longer(rig: UsherRig) -> None:
    rig.server.faults.append(Fault("GET", "^/api/v1/nodes", 403, f"nodes {FORBIDDEN}", times=1000))
    blind = UsherRig(rig.server)
    async with blind.opened():
        blind.scale("ads", 2)
        await blind.until(lambda: len(blind.cluster.pods()) == 2, "they are seen")
        assert all(map(gated, blind.pods()))
        assert blind.usher.trouble.startswith("the nodes are not known: nodes is forbidden")
        assert "fleet-rbac.yaml" in blind.usher.trouble

        blind.now_s += WITHIN_S + 1

        await blind.until(lambda: not any(map(gated, blind.pods())), "the gates are open")
        assert blind.nodes()[""] == 0


async def test_without_the_right_to_see_all_pods_our_own_count_and_it_says_so(rig: UsherRig) -> None:
    rig.server.faults.append(Fault("GET", r"^/api/v1/pods\?", 403, f"pods {FORBIDDEN}", times=1))
    limited = UsherRig(rig.server)
    async with limited.opened():
        assert not limited.usher.trouble  # nobody waits
        limited.scale("ads", 2)

        await limited.until(lambda: limited.nodes() == {"n0": 2}, "both on one node")
        assert limited.usher.trouble.startswith("only pods of train are counted: pods is forbidden")


async def test_a_write_in_between_is_looked_at_again(rig: UsherRig) -> None:
    rig.server.faults.append(Fault("PATCH", "/pods/", 409, "the object has been modified"))
    rig.scale("ads", 1)

    await rig.until(lambda: "" not in rig.nodes() and bool(rig.nodes()), "it has a node all the same")


async def test_an_answer_that_is_lost_does_not_place_twice(rig: UsherRig) -> None:
    rig.server.faults.append(Fault("PATCH", "/pods/", done=True))
    rig.scale("ads", 2)

    await rig.until(lambda: rig.nodes() == {"n0": 2} or rig.nodes()[""] == 0, "both have a node")

    assert 2 in rig.nodes().values()
    assert len([call for call in rig.server.calls if call.method == "PATCH"]) == 2


async def test_a_pod_that_may_not_be_touched_holds_up_no_other(rig: UsherRig) -> None:
    rig.scale("ads", 3)
    untouchable = min(pod["metadata"]["name"] for pod in rig.pods())
    rig.server.faults.append(Fault("PATCH", untouchable, 403, "hands off", times=1000))

    await rig.until(lambda: rig.nodes()[""] == 1, "the two others have a node")

    await rig.until(
        lambda: untouchable in rig.usher.trouble and "hands off" in rig.usher.trouble, "it is told"
    )


async def test_a_refused_narrowing_is_told_and_the_pod_is_let_through_in_time(rig: UsherRig) -> None:
    rig.server.faults.append(Fault("PATCH", "/pods/", 422, "admission webhook says no", times=1))
    rig.scale("ads", 1)
    await rig.until(lambda: "admission webhook says no" in rig.usher.trouble, "it is told")
    rig.server.faults.append(Fault("PATCH", "/pods/", 422, "admission webhook says no", times=1))
    rig.now_s += WITHIN_S + 1

    await rig.until(lambda: not gated(rig.pods()[0]), "the gate is open")

    assert "affinity" not in rig.pods()[0]["spec"]


async def test_a_pod_that_its_node_does_not_take_is_made_anew_and_left_to_the_scheduler(
    rig: UsherRig,
) -> None:
    rig.server.controllers.shunned = {"n0"}
    rig.scale("ads", 1)
    await rig.until(lambda: any(pod.refused for pod in rig.cluster.pods()), "the scheduler has refused it")
    first = rig.pods()[0]["metadata"]["name"]
    await rig.usher.tend()
    assert rig.pods()[0]["metadata"]["name"] == first

    rig.now_s += WITHIN_S + 1

    await rig.until(lambda: rig.nodes()[""] == 0 and bool(rig.nodes()), "another pod, that has a node")
    assert rig.pods()[0]["metadata"]["name"] != first
    assert "affinity" not in rig.pods()[0]["spec"]


async def test_a_successor_counts_what_was_chosen_before_it(rig: UsherRig) -> None:
    rig.server.controllers.never_ready = True
    rig.scale("ads", 3)
    await rig.until(lambda: rig.nodes()[""] == 0, "three have a node")
    before = rig.nodes()

    successor = KubernetesCluster(access_to(rig.server), [""])
    await successor.open()
    rig.usher, rig.cluster = Usher(successor, rig.house, within_s=WITHIN_S, now_s=lambda: 0.0), successor
    rig.scale("ads", 5)
    await rig.until(lambda: rig.nodes()[""] == 0, "five have a node")

    assert sorted(before.values()) == [3]
    assert sorted(rig.nodes().values()) == [1, 4]
