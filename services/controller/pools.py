"""The pool that a job's settings name."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from services.actuator.backoff import Backoff
from services.actuator.kubernetes_access import Access, find_access
from services.actuator.process_pool import TENDING as PROCESS_TENDING
from services.actuator.process_pool import ProcessPool
from services.actuator.recommend_pool import RecommendPool
from services.actuator.tending import Tending
from services.actuator.typed_pool import TypedPool
from services.actuator.wish import Wishes
from services.control.errors import PoolUnavailable
from services.control.ports import WorkerPool
from services.settings.pool import PoolSettings

if TYPE_CHECKING:
    from services.actuator.kubernetes_place import KubernetesPlace

_INSTALLED_WORKER = ("penstock", "worker", "--job", "{job}", "--worker-id", "{worker}")


@asynccontextmanager
async def open_pool(
    name: str,
    pool: PoolSettings,
    *,
    own_worker: Sequence[str],
    owned: bool,
    wishes: Wishes,
    leases: bool = False,
) -> AsyncIterator[WorkerPool]:
    """The pool of job `name`, closed with the context. Workers go on unless they are owned.

    `own_worker` is the command of Penstock's own worker on this machine, `wishes` is where KEDA's
    sizes are left, `leases` whether workers hold some, which they need time to give back. Raises
    PoolUnavailable.
    """
    if pool.by_gpu_type:
        pools = _pools_by_type(name, pool, own_worker=own_worker, owned=owned, wishes=wishes, leases=leases)
    else:
        pools = _one_pool(name, pool, own_worker=own_worker, owned=owned, wishes=wishes, leases=leases)
    async with pools as opened:
        yield opened


@asynccontextmanager
async def _pools_by_type(
    job: str,
    pool: PoolSettings,
    *,
    own_worker: Sequence[str],
    owned: bool,
    wishes: Wishes,
    leases: bool,
) -> AsyncIterator[WorkerPool]:
    """A pool for each GPU type: each keeps its own account, and its workers have names of their own."""
    async with AsyncExitStack() as stack:
        pools: dict[str, WorkerPool] = {}
        for kind in pool.by_gpu_type:
            settings, slug = pool.of_type(kind), _slug(kind)
            if slug in (_slug(other) for other in pools):
                raise PoolUnavailable(f"the pools of job {job} for GPU types like {slug!r} have one name")
            if settings.command is not None:
                settings = settings.model_copy(update={"command": _for_job(settings.command, job)})
            opened = _one_pool(
                f"{job}-{slug}",
                settings,
                own_worker=_for_job(own_worker, job),
                installed=_for_job(_INSTALLED_WORKER, job),
                owned=owned,
                wishes=wishes,
                leases=leases,
                names=slug,
            )
            pools[kind] = await stack.enter_async_context(opened)
        yield TypedPool(pools)


def _for_job(command: Sequence[str], job: str) -> list[str]:
    return [part.replace("{job}", job) for part in command]


def _slug(gpu_type: str) -> str:
    """What names of workers, files and containers may hold.

    >>> _slug("NVIDIA A100-SXM4")
    'nvidia-a100-sxm4'
    """
    return re.sub(r"[^a-z0-9]+", "-", gpu_type.lower()).strip("-") or "gpu"


@asynccontextmanager
async def _one_pool(
    name: str,
    pool: PoolSettings,
    *,
    own_worker: Sequence[str],
    owned: bool,
    wishes: Wishes,
    leases: bool,
    installed: Sequence[str] = _INSTALLED_WORKER,
    names: str = "w",
) -> AsyncIterator[WorkerPool]:
    if pool.kind == "recommend":
        yield RecommendPool()
    elif pool.kind == "docker":
        async with _docker_pool(name, pool, installed, names) as containers:
            yield containers
    elif pool.kind == "ray":
        async with _ray_pool(name, pool, installed, names) as actors:
            yield actors
    elif pool.kind in ("kubernetes", "keda"):
        async with _pods(name, pool, wishes, leases=leases) as pods:
            yield pods
    else:
        async with ProcessPool(
            name,
            command=pool.command or own_worker,
            run_dir=pool.run_dir,
            owned=owned,
            tending=_tending(pool, PROCESS_TENDING, names),
        ) as processes:
            yield processes


@asynccontextmanager
async def _docker_pool(
    name: str, pool: PoolSettings, installed: Sequence[str], names: str
) -> AsyncIterator[WorkerPool]:
    try:
        from services.actuator.docker_engine import ContainerSpec, DockerEngine  # noqa: PLC0415 - an extra
        from services.actuator.docker_pool import TENDING, DockerPool  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise _extra_missing(name, error, extra="docker") from error
    docker = pool.docker
    spec = ContainerSpec(
        docker.image,
        installed if pool.command is None else pool.command,
        env=docker.env,
        network=docker.network,
        binds=docker.binds,
        labels=docker.labels,
        gpus=docker.gpus,
        memory_mib=docker.memory_mib,
    )
    async with DockerPool(
        name,
        spec,
        connect=lambda: DockerEngine(docker.url),
        intents_dir=docker.intents_dir,
        tending=_tending(pool, TENDING, names),
    ) as containers:
        yield containers


@asynccontextmanager
async def _ray_pool(
    name: str, pool: PoolSettings, installed: Sequence[str], names: str
) -> AsyncIterator[WorkerPool]:
    try:
        from services.actuator.ray_platform import ActorSpec  # noqa: PLC0415 - an extra
        from services.actuator.ray_pool import TENDING, RayPool  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise _extra_missing(name, error, extra="ray") from error
    ray, command = pool.ray, installed if pool.command is None else pool.command
    spec = ActorSpec(command, ray.env, gpus=ray.gpus, cpus=ray.cpus, gpu_type=ray.gpu_type)
    async with RayPool(name, spec, address=ray.address, tending=_tending(pool, TENDING, names)) as actors:
        yield actors


@asynccontextmanager
async def _pods(name: str, pool: PoolSettings, wishes: Wishes, *, leases: bool) -> AsyncIterator[WorkerPool]:
    try:
        from services.actuator.keda_pool import KedaPool  # noqa: PLC0415 - an extra
        from services.actuator.kubernetes_pool import KubernetesPool  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise _extra_missing(name, error, extra="kubernetes") from error
    place = pods_place(name, pool, leases=leases)
    if pool.kind == "keda":
        async with KedaPool(name, place, wishes) as pulled:
            yield pulled
    else:
        async with KubernetesPool(name, place) as set_by_us:
            yield set_by_us


def pods_place(name: str, pool: PoolSettings, *, leases: bool) -> KubernetesPlace:
    """Which pods are the job's, and how they are reached."""
    from services.actuator.kubernetes_place import KubernetesPlace  # noqa: PLC0415 - an extra
    from services.actuator.kubernetes_target import TargetSpec  # noqa: PLC0415

    settings = pool.kubernetes
    target = TargetSpec(
        settings.name or name,
        settings.api_version,
        settings.kind,
        replicas_path=settings.replicas_path,
        selector=settings.selector,
    )

    def access() -> Access:
        return find_access(settings.kubeconfig, settings.context)

    return KubernetesPlace(target, access, settings.namespace, drain_s=pool.drain_s if leases else 0.0)


def _tending(pool: PoolSettings, usual: Tending, names: str) -> Tending:
    backoff = Backoff(longest_s=pool.backoff_max_s)
    return replace(usual, drain_s=pool.drain_s, backoff=backoff, names=names)


def _extra_missing(name: str, error: ModuleNotFoundError, *, extra: str) -> PoolUnavailable:
    return PoolUnavailable(
        f"the pool of job {name} needs the package {error.name}: pip install 'penstock[{extra}]'"
    )
