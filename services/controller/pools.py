"""The pool that a job's settings name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from services.actuator.backoff import Backoff
from services.actuator.kubernetes_access import Access, find_access
from services.actuator.process_pool import ProcessPool
from services.actuator.recommend_pool import RecommendPool
from services.actuator.wish import Wishes
from services.control.errors import PoolUnavailable
from services.control.ports import WorkerPool
from services.settings.pool import PoolSettings

_WORKER_OF_IMAGE = ("penstock", "worker", "--job", "{job}", "--worker-id", "{worker}")


@asynccontextmanager
async def open_pool(
    name: str, pool: PoolSettings, *, own_worker: Sequence[str], owned: bool, wishes: Wishes
) -> AsyncIterator[WorkerPool]:
    """The pool of job `name`, closed with the context. Workers go on unless they are owned.

    `own_worker` is the command of Penstock's own worker on this machine, `wishes` is where KEDA's
    sizes are left. Raises PoolUnavailable.
    """
    if pool.kind == "recommend":
        yield RecommendPool()
    elif pool.kind == "docker":
        async with _docker_pool(name, pool) as containers:
            yield containers
    elif pool.kind in ("kubernetes", "keda"):
        async with _pods(name, pool, wishes) as pods:
            yield pods
    else:
        async with ProcessPool(
            name,
            command=pool.command or own_worker,
            run_dir=pool.run_dir,
            owned=owned,
            drain_s=pool.drain_s,
            backoff=Backoff(longest_s=pool.backoff_max_s),
        ) as processes:
            yield processes


@asynccontextmanager
async def _docker_pool(name: str, pool: PoolSettings) -> AsyncIterator[WorkerPool]:
    try:
        from services.actuator.docker_engine import ContainerSpec, DockerEngine  # noqa: PLC0415 - an extra
        from services.actuator.docker_pool import DockerPool  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise _extra_missing(name, error, extra="docker") from error
    docker = pool.docker
    spec = ContainerSpec(
        docker.image,
        _WORKER_OF_IMAGE if pool.command is None else pool.command,
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
        drain_s=pool.drain_s,
        backoff=Backoff(longest_s=pool.backoff_max_s),
    ) as containers:
        yield containers


@asynccontextmanager
async def _pods(name: str, pool: PoolSettings, wishes: Wishes) -> AsyncIterator[WorkerPool]:
    try:
        from services.actuator.keda_pool import KedaPool  # noqa: PLC0415 - an extra
        from services.actuator.kubernetes_pool import KubernetesPool  # noqa: PLC0415
        from services.actuator.kubernetes_target import TargetSpec  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise _extra_missing(name, error, extra="kubernetes") from error
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

    if pool.kind == "keda":
        async with KedaPool(name, target, wishes, access=access, namespace=settings.namespace) as pulled:
            yield pulled
    else:
        async with KubernetesPool(name, target, access=access, namespace=settings.namespace) as set_by_us:
            yield set_by_us


def _extra_missing(name: str, error: ModuleNotFoundError, *, extra: str) -> PoolUnavailable:
    return PoolUnavailable(
        f"the pool of job {name} needs the package {error.name}: pip install 'penstock[{extra}]'"
    )
