"""Pools that are elsewhere: the Kubernetes object, or the Ray cluster, that a job's workers run on."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec

from services.actuator.kubernetes_access import find_access
from services.actuator.ray_nodes import nodes_of_ray
from services.control.errors import ControlError, PoolUnavailable
from services.control.types import Shuffle
from services.controller.pools import pods_place
from services.doctor.finding import Finding, Verdict
from services.settings import JobSettings

_WITHIN_S = 15.0


def check_pods(what: str, name: str, job: JobSettings) -> Finding:
    """Whether the object that is to be sized is there, and may be sized by us."""
    if find_spec("httpx2") is None:
        return _not_installed(what, "httpx2", extra="kubernetes")
    settings = job.pool.kubernetes
    try:
        access = find_access(settings.kubeconfig, settings.context)
    except PoolUnavailable as error:
        return Finding(what, Verdict.WRONG, str(error), f"set jobs.{name}.pool.kubernetes.kubeconfig")
    namespace = settings.namespace or access.namespace
    target = f"{settings.kind} {settings.name or name} in namespace {namespace} at {access.server}"
    try:
        wrong, hindered = asyncio.run(_told_of_pods(name, job))
    except (ControlError, TimeoutError) as error:
        why = str(error) or f"not seen within {_WITHIN_S:g} s"
        return Finding(what, Verdict.WRONG, f"{target}: {why}", "docs/pools.md tells what it needs")
    if wrong or hindered:
        verdict = Verdict.WRONG if wrong else Verdict.WARNING
        return Finding(what, verdict, wrong or hindered, "see Kubernetes in docs/pools.md")
    return Finding(what, Verdict.OK, target)


async def _told_of_pods(name: str, job: JobSettings) -> tuple[str, str]:
    """What keeps the controller from sizing the pool, and what keeps the pool from its size."""
    place = pods_place(name, job.pool, leases=job.shuffle.mode is Shuffle.LEASES)
    async with asyncio.timeout(_WITHIN_S):
        view = await place.view(pool=f"the pool of job {name}")
    try:
        rivals = view.rivals() if job.pool.kind == "kubernetes" else ""
        return "; ".join(told for told in (rivals, view.hurried(place.drain_s)) if told), view.trouble()
    finally:
        await view.close()


def check_ray(what: str, name: str, job: JobSettings) -> Finding:
    """Whether a Ray cluster answers, and has GPUs."""
    address = job.pool.ray.address
    if find_spec("ray") is None:
        return _not_installed(what, "ray", extra="ray")
    try:
        nodes = asyncio.run(nodes_of_ray(address)).nodes
    except PoolUnavailable as error:
        return Finding(what, Verdict.WRONG, str(error), f"start it, or set jobs.{name}.pool.ray.address")
    gpus = sum(node.gpus for node in nodes.values())
    if job.pool.ray.gpus > 0 and not gpus:
        remedy = "no mistake where its autoscaler adds nodes"
        return Finding(what, Verdict.WARNING, f"the Ray cluster at {address} has no GPU now", remedy)
    return Finding(what, Verdict.OK, f"the Ray cluster at {address} has {gpus} GPUs on {len(nodes)} nodes")


def _not_installed(what: str, package: str, *, extra: str) -> Finding:
    detail = f"the package {package} is not installed"
    return Finding(what, Verdict.WRONG, detail, f"pip install 'penstock[{extra}]'")
