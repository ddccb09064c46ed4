"""The object whose size a Kubernetes pool sets: through `/scale`, or by a patch where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.actuator import kubernetes_field
from services.actuator.kubernetes_api import JSON_PATCH, KubernetesApi, Object
from services.actuator.kubernetes_pods import read_grace_s
from services.actuator.kubernetes_rivals import TargetRef
from services.control.errors import Rejected
from services.control.types import PoolResize, Victims

FENCE, DECISION = "penstock/fence", "penstock/decision"
_RAY_AUTOSCALER = "enableInTreeAutoscaling"
_VICTIMS = {
    ("apps", "Deployment"): Victims.ANY,
    ("apps", "ReplicaSet"): Victims.ANY,
    ("apps", "StatefulSet"): Victims.HIGHEST,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): Victims.HIGHEST,  # its leaders are a StatefulSet
    ("ray.io", "RayCluster"): Victims.ANY,  # of a worker group: named in the same patch as its size
}


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """Which object, as the settings name it."""

    name: str
    api_version: str = "apps/v1"
    kind: str = "Deployment"
    replicas_path: str = ""
    """JSON pointer to the number of replicas, for a kind without `/scale`."""
    selector: str = ""
    """Label selector of the pods, for a kind whose `/scale` tells none."""

    @property
    def ref(self) -> TargetRef:
        return TargetRef(self.api_version.rpartition("/")[0], self.kind, self.name)

    @property
    def root(self) -> str:
        """The path of the kind's API group."""
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"

    @property
    def victims(self) -> Victims:
        """Who leaves: a ReplicaSet heeds the deletion cost, a StatefulSet its ordinals.

        >>> TargetSpec("ads").victims, TargetSpec("ads", "jobset.x-k8s.io/v1alpha2", "JobSet").victims
        (<Victims.ANY: 'any'>, <Victims.NONE: 'none'>)
        """
        return _VICTIMS.get((self.ref.group, self.kind), Victims.NONE)

    @property
    def heeds_marks(self) -> bool:
        """Whether the leavers are marked on the pods themselves, by their deletion cost."""
        return self.victims is Victims.ANY and self.ref.group == "apps"


@dataclass(frozen=True, slots=True)
class Sized:
    """The target at one look."""

    version: str = ""
    fence: int = 0
    replicas: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of its pods, as its template gives them; empty when it has no such template."""
    grace_s: float | None = None
    """What its template gives pods to leave; None when it has no such template."""
    hindrance: str = ""
    """Why its controller cannot make pods, as by a quota; empty when it can."""
    rolling: bool = False
    """A new version is being rolled out."""
    replacing: bool = False
    """Pods of an older version are still there, and which of them goes next is its controller's choice."""
    least: int = 0
    """The fewest that its own controller keeps, whatever it is asked for."""
    most: int | None = None
    """The most, likewise."""
    sizes_itself: str = ""
    """The field by which it was told to set its size itself; empty when it was not."""
    beside: tuple[str, ...] = ()
    """Fields that have to say the same number as its size."""


class Target:
    """Reads and writes the size of one object. Each write carries the version that was read."""

    def __init__(self, api: KubernetesApi, namespace: str, spec: TargetSpec) -> None:
        self._api = api
        self._namespace = namespace
        self._spec = spec
        self._scalable = False
        self.collection = ""

    async def find(self) -> str:
        """Learn from the API server how the kind is called and sized; the selector of its pods.

        Raises Rejected when there is no such kind, or no way to size it.
        """
        spec = self._spec
        resources = (await self._api.get(spec.root))["resources"]
        plural = next(
            (one["name"] for one in resources if one["kind"] == spec.kind and "/" not in one["name"]), ""
        )
        if not plural:
            raise Rejected(f"{spec.api_version} has no kind {spec.kind}; mend pool.kubernetes.kind")
        self.collection = f"{spec.root}/namespaces/{self._namespace}/{plural}"
        self._scalable = not spec.replicas_path and any(one["name"] == f"{plural}/scale" for one in resources)
        if not self._scalable and not spec.replicas_path:
            raise Rejected(
                f"{spec.kind} has no /scale: name where it keeps its size in pool.kubernetes.replicas_path"
            )
        return await self._selector()

    def read(self, found: Object) -> Sized:
        """The target as an object of the API server says."""
        metadata = found["metadata"]
        status = found.get("status") or {}
        spec, pointer = found.get("spec") or {}, self._spec.replicas_path
        template = spec.get("template") or {}
        least, most = kubernetes_field.bounds(found, pointer) if pointer else (0, None)
        return Sized(
            version=metadata["resourceVersion"],
            fence=int((metadata.get("annotations") or {}).get(FENCE, 0)),
            replicas=self._replicas(found),
            labels=(template.get("metadata") or {}).get("labels") or {},
            grace_s=read_grace_s(template["spec"]) if "spec" in template else None,
            hindrance=_hindrance(status),
            rolling=_rolling(status),
            replacing=self._spec.kind == "Deployment" and _replacing(status),
            least=least,
            most=most,
            sizes_itself=_RAY_AUTOSCALER if spec.get(_RAY_AUTOSCALER) else "",
            beside=kubernetes_field.companions(found, pointer) if pointer else (),
        )

    async def look(self) -> Sized:
        """The target now."""
        return self.read(await self._api.get(self._path))

    async def fence(self, request: PoolResize, *, version: str) -> str:
        """Write the request's token down, if nothing changed since `version`; the new version.

        Raises Conflict. From here on a superseded controller is refused, whatever it saw before.
        """
        annotations = {FENCE: str(request.fence), DECISION: request.decision_id}
        metadata = {"resourceVersion": version, "annotations": annotations}
        return str((await self._api.patch(self._path, {"metadata": metadata}))["metadata"]["resourceVersion"])

    async def resize(
        self, replicas: int, sized: Sized, *, version: str, leaving: tuple[str, ...] = ()
    ) -> str:
        """Set the size of what was looked at, if nothing changed since `version`; the new version.

        `leaving` goes with it where the object itself names who leaves. Raises Conflict.
        """
        if self._scalable:
            metadata = {"name": self._spec.name, "namespace": self._namespace, "resourceVersion": version}
            body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata}
            answer = await self._api.put(f"{self._path}/scale", {**body, "spec": {"replicas": replicas}})
        else:
            named = leaving if self._spec.victims is Victims.ANY else None
            patch = kubernetes_field.patch(
                self._spec.replicas_path, replicas, beside=sized.beside, version=version, leaving=named
            )
            answer = await self._api.patch(self._path, patch, kind=JSON_PATCH)
        return str(answer["metadata"]["resourceVersion"])

    @property
    def _path(self) -> str:
        return f"{self.collection}/{self._spec.name}"

    async def _selector(self) -> str:
        selector = self._spec.selector
        if self._scalable and not selector:
            scale = await self._api.get(f"{self._path}/scale")
            selector = str((scale.get("status") or {}).get("selector") or "")
        if not selector:
            raise Rejected(
                f"{self._spec.ref} does not tell which pods are its own: set pool.kubernetes.selector"
            )
        return selector

    def _replicas(self, found: Object) -> int:
        if self._spec.replicas_path:
            return int(kubernetes_field.pointed(found, self._spec.replicas_path))
        replicas = (found.get("spec") or {}).get("replicas")
        return 1 if replicas is None else int(replicas)


def _hindrance(status: Object) -> str:
    failing = (
        str(one.get("message") or one.get("reason"))
        for one in status.get("conditions") or []
        if one.get("type") == "ReplicaFailure" and one.get("status") == "True"
    )
    return next(failing, "")


def _replacing(status: Object) -> bool:
    """Of a Deployment's pods some are not of the latest version. A count of zero is left out."""
    return int(status.get("updatedReplicas") or 0) < int(status.get("replicas") or 0)


def _rolling(status: Object) -> bool:
    if status.get("updateRevision", "") != status.get("currentRevision", status.get("updateRevision", "")):
        return True
    reasons = [
        one.get("reason") for one in status.get("conditions") or [] if one.get("type") == "Progressing"
    ]
    return any(reason not in (None, "NewReplicaSetAvailable") for reason in reasons)
