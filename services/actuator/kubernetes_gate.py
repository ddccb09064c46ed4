"""The gate before which a pod waits until Penstock has chosen its node. No I/O.

A pod template that names the gate has pods that the scheduler leaves alone until it is taken away. While it
is there a pod's node affinity may be narrowed, and both go in one patch, so nobody sees half of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from estimator.fleet.machines import Amounts
from services.actuator.kubernetes_api import Object
from services.actuator.kubernetes_requests import requested
from services.actuator.kubernetes_suits import REQUIRED, required_terms

GATE = "penstock/placement"
JOB_LABEL = "penstock/job"
"""Whose worker a pod is: without it, nobody's who is guaranteed anything."""
NODE_NOTE = "penstock/node"
"""The node that was chosen for a pod."""


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod as placement sees it: what it takes, where, and whether it waits for us."""

    uid: str
    namespace: str
    name: str
    version: str
    job: str
    owner: str
    """The uid of what made it: a ReplicaSet, a StatefulSet."""
    node: str
    """Where it is, or has been told to go; empty before that."""
    bound: bool
    """Whether the scheduler has put it there."""
    gated: bool
    refused: bool
    """Whether the scheduler has found no way to put it anywhere."""
    going: bool
    needs: Amounts
    spec: Object
    """Of one that waits at the gate; empty for all others, of which there may be many."""

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"


def read_placed(pod: Object) -> PlacedPod:
    """Any pod of the cluster. One that has run its course takes nothing."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    ended = (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")
    gated = any(one.get("name") == GATE for one in spec.get("schedulingGates") or [])
    chosen = (metadata.get("annotations") or {}).get(NODE_NOTE, "")
    return PlacedPod(
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        version=metadata["resourceVersion"],
        job=(metadata.get("labels") or {}).get(JOB_LABEL, ""),
        owner=next((str(one["uid"]) for one in metadata.get("ownerReferences") or []), ""),
        node="" if ended or gated else spec.get("nodeName") or chosen,
        bound=bool(spec.get("nodeName")),
        gated=gated and not ended,
        refused=_unschedulable(pod.get("status") or {}),
        going=ended or bool(metadata.get("deletionTimestamp")),
        needs=requested(spec),
        spec=spec if gated else {},
    )


def _unschedulable(status: Object) -> bool:
    return any(
        one.get("type") == "PodScheduled" and one.get("reason") == "Unschedulable"
        for one in status.get("conditions") or []
    )


def opened(pod: PlacedPod, node: str) -> dict[str, Any]:
    """Merge patch that lets a pod through, to one node or, where that is empty, to wherever it fits.

    It is refused if anybody has touched the pod since it was seen.

    >>> at = {"uid": "u", "namespace": "train", "name": "ads-0", "resourceVersion": "7"}
    >>> gated = read_placed({"metadata": at, "spec": {"schedulingGates": [{"name": GATE}]}})
    >>> opened(gated, "")
    {'metadata': {'resourceVersion': '7'}, 'spec': {'schedulingGates': []}}
    """
    gates = [one for one in pod.spec.get("schedulingGates") or [] if one.get("name") != GATE]
    metadata: dict[str, Any] = {"resourceVersion": pod.version}
    spec: dict[str, Any] = {"schedulingGates": gates}
    if node:
        metadata["annotations"] = {NODE_NOTE: node}
        here = {"key": "metadata.name", "operator": "In", "values": [node]}
        terms = [
            {**term, "matchFields": [*(term.get("matchFields") or []), here]}
            for term in required_terms(pod.spec) or [{}]
        ]
        spec["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    return {"metadata": metadata, "spec": spec}


def sent_back(pod: PlacedPod) -> dict[str, Any]:
    """Body of a deletion that is refused if the pod has changed: the scheduler may just have taken it."""
    return {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid, "resourceVersion": pod.version}}
