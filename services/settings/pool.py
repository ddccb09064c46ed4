"""Settings of a job's pool: where its workers run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from services.settings.group import SettingsGroup

HEARD_WITHIN_S: Final = 2.0
"""From the moment at which a pool asks a worker to leave until the worker knows: no longer than this. One
that was frozen takes the heartbeat that it missed for that moment, and those are at most a second apart."""


class DockerSettings(SettingsGroup):
    """Containers of a Docker engine, one per worker. In use when `pool.kind` is `docker`."""

    image: str = ""
    """The image of a worker. It is not pulled: have it on the engine's machine."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of every worker, such as `PENSTOCK_REDIS__URL`. Shown to whoever may see the
    job: give secrets as files."""
    network: str = ""
    """The network to join, by name, such as compose's; the engine's default when empty."""
    binds: list[str] = Field(default_factory=list)
    """Directories and files of the engine's machine: `HOST_PATH:CONTAINER_PATH[:ro]`."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Further labels of every container, such as compose's, so that `docker compose down` removes them.
    Names that begin with `penstock.` are the pool's own."""
    gpus: Annotated[int, Field(ge=0)] = 0
    """GPUs of each container."""
    memory_mib: Annotated[int, Field(ge=6)] | None = None
    """Memory that a container may use at most; no limit when not given."""
    intents_dir: Path | None = None
    """A directory that keeps what was asked for, shared by every controller of the job. When not given it is
    kept in the engine, by volumes that `docker compose down -v` would leave behind."""
    url: str | None = None
    """The engine; `DOCKER_HOST`, or its usual socket, when not given."""


class KubernetesSettings(SettingsGroup):
    """Pods of an object that can be sized. In use when `pool.kind` is `kubernetes` or `keda`."""

    name: str = ""
    """The object's name; the job's when empty."""
    kind: str = "Deployment"
    """The object's kind: `Deployment`, `StatefulSet`, or a custom one."""
    api_version: str = "apps/v1"
    """The kind's API group and version, such as `leaderworkerset.x-k8s.io/v1`."""
    namespace: str = ""
    """The object's namespace; the service account's or kubeconfig's own when empty."""
    replicas_path: Annotated[str, Field(pattern=r"^(/.+)?$")] = ""
    """Where a kind without `/scale` keeps its size, such as `/spec/workerGroupSpecs/0/replicas`."""
    selector: str = ""
    """Label selector of the pods; what the object's `/scale` tells when empty."""
    kubeconfig: Path | None = None
    """How to reach the API server; as a pod does, else `KUBECONFIG` or `~/.kube/config`, when not given."""
    context: str = ""
    """The kubeconfig's context; its current one when empty."""


class RaySettings(SettingsGroup):
    """Actors of a Ray cluster, one per worker. In use when `pool.kind` is `ray`."""

    address: str = "auto"
    """The cluster: `auto` for the one of this machine, `HOST:6379`, or `ray://HOST:10001`."""
    gpus: Annotated[float, Field(ge=0)] = 1.0
    """GPUs of each worker; may be a part of one."""
    cpus: Annotated[float, Field(ge=0)] = 1.0
    """CPUs of each worker."""
    gpu_type: str = ""
    """The type of GPU to run on, as Ray names it (`T4`, `A100`); any when empty."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of every worker, such as `PENSTOCK_REDIS__URL`. Shown to whoever may see the
    job: give secrets as files."""


class TypePoolSettings(SettingsGroup):
    """Where a job's workers of one GPU type run. What is not given is as the job's `pool` says."""

    command: list[str] | None = None
    """The worker's command line on this type."""
    docker: DockerSettings | None = None
    """Containers on this type."""
    kubernetes: KubernetesSettings | None = None
    """The object whose pods run on this type: each type has an object of its own."""
    ray: RaySettings | None = None
    """Actors on this type."""


class PoolSettings(SettingsGroup):
    """Where the workers run."""

    kind: Literal["process", "docker", "kubernetes", "keda", "ray", "recommend"] = "process"
    """`process`: on this machine. `docker`: in containers of a Docker engine. `kubernetes`: in pods, whose
    number is set. `keda`: in pods whose number KEDA sets, as Penstock tells it.
    `ray`: as actors of a Ray cluster.
    `recommend`: nowhere; decisions are only recorded."""
    command: list[str] | None = None
    """The worker's command line, `{job}` and `{worker}` filled in; Penstock's own when not given, in a
    container the image's own when empty."""
    run_dir: Path = Path(".penstock")
    """Where the pool keeps the pids and logs of its workers, so that a restarted controller finds them."""
    drain_s: PositiveFloat = 30.0
    """A worker asked to leave is killed after this long: with leases, no less than `shuffle.lease_ttl_s` and
    two seconds. Pods have their own `terminationGracePeriodSeconds`, which must be as long."""
    backoff_max_s: PositiveFloat = 60.0
    """The longest wait before a worker that keeps dying is started again."""
    docker: DockerSettings = DockerSettings()
    kubernetes: KubernetesSettings = KubernetesSettings()
    ray: RaySettings = RaySettings()
    by_gpu_type: dict[str, TypePoolSettings] = Field(default_factory=dict)
    """A pool for each GPU type that the job may run on, by the fleet's name of the type: the fleet then
    chooses one of them, and moves the job when another serves all better. One pool when empty."""

    def of_type(self, gpu_type: str) -> PoolSettings:
        """The pool of one GPU type, as a pool of its own."""
        given = self.by_gpu_type[gpu_type]
        told = {name: getattr(given, name) for name in given.model_fields_set}
        changes = {name: value for name, value in told.items() if value is not None}
        return self.model_copy(update={**changes, "by_gpu_type": {}})

    @model_validator(mode="after")
    def _types_apart(self) -> Self:
        if self.by_gpu_type and self.kind in ("keda", "recommend"):
            raise ValueError(f"by_gpu_type needs pools that Penstock sizes; kind is {self.kind}")
        if self.by_gpu_type and self.kind == "kubernetes":
            objects = [self.of_type(kind).kubernetes for kind in self.by_gpu_type]
            places = [
                (one.namespace, one.api_version, one.kind, one.name, one.replicas_path) for one in objects
            ]
            if "" in (one.name for one in objects) or len(set(places)) < len(places):
                raise ValueError("by_gpu_type needs a kubernetes.name of its own for each GPU type")
        return self

    @model_validator(mode="after")
    def _image_named(self) -> Self:
        if self.kind == "docker" and not self.docker.image:
            raise ValueError("kind is docker and docker.image is empty; name the image of a worker")
        return self
