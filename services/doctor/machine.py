"""This machine: versions of what we stand on, and whether workers can be started here."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from services.control.errors import PoolUnavailable
from services.doctor.clusters import check_pods, check_ray
from services.doctor.finding import Finding, Verdict
from services.settings import JobSettings, Settings

_PACKAGES = ("penstock", "confluent-kafka", "redis", "fastapi", "numpy", "scipy")
_EXTRAS = {
    "torch": "forecast",
    "neuralforecast": "forecast",
    "docker": "docker",
    "httpx2": "kubernetes",
    "grpcio": "keda",
    "ray": "ray",
}


def check_versions() -> Iterator[Finding]:
    """Python and the packages; extras that are not there are no mistake."""
    yield Finding("Python", Verdict.OK, sys.version.split()[0])
    found = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    yield Finding("packages", Verdict.OK, found)
    missing = sorted({extra for name, extra in _EXTRAS.items() if not _installed(name)})
    if missing:
        wanted = ", ".join(f"penstock[{extra}]" for extra in missing)
        yield Finding("extras", Verdict.OK, f"not installed, and not needed unless used: {wanted}")


def _installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def check_pools(settings: Settings) -> Iterator[Finding]:
    """Whether the workers of each job can be started where they should."""
    for name, job in _each_pool(settings):
        what = f"pool of {name}"
        if job.pool.kind == "process":
            yield _command(name, job)
            yield _run_dir(name, job)
        elif job.pool.kind == "docker":
            yield _engine(name, job)
        elif job.pool.kind in ("kubernetes", "keda"):
            yield check_pods(what, name, job)
        elif job.pool.kind == "ray":
            yield check_ray(what, name, job)
        else:
            yield Finding(what, Verdict.OK, "recommend: decisions are recorded, nothing starts")


def _each_pool(settings: Settings) -> Iterator[tuple[str, JobSettings]]:
    """Every job with its pool; one with a pool for each GPU type once for each."""
    for name, job in settings.jobs.items():
        if not job.pool.by_gpu_type:
            yield name, job
        for kind in job.pool.by_gpu_type:
            yield f"{name} on {kind}", job.model_copy(update={"pool": job.pool.of_type(kind)})


def _command(name: str, job: JobSettings) -> Finding:
    what = f"workers of {name}"
    if job.pool.command is None:
        return Finding(what, Verdict.OK, "Penstock's own worker")
    program = job.pool.command[0] if job.pool.command else ""
    if shutil.which(program) is None:
        remedy = f"install it, or correct jobs.{name}.pool.command"
        return Finding(what, Verdict.WRONG, f"the program {program!r} is not found", remedy)
    return Finding(what, Verdict.OK, f"{program} is found")


def _engine(name: str, job: JobSettings) -> Finding:
    what, image = f"pool of {name}", job.pool.docker.image
    try:
        from services.actuator.docker_engine import DockerEngine  # noqa: PLC0415 - an extra

        with closing(DockerEngine(job.pool.docker.url, timeout_s=5.0)) as engine:
            there = engine.has_image(image)
    except ModuleNotFoundError as error:
        remedy = "pip install 'penstock[docker]'"
        return Finding(what, Verdict.WRONG, f"the package {error.name} is not installed", remedy)
    except PoolUnavailable as error:
        return Finding(what, Verdict.WRONG, str(error), f"start it, or set jobs.{name}.pool.docker.url")
    if not there:
        remedy = f"docker pull {image}, or correct jobs.{name}.pool.docker.image"
        return Finding(what, Verdict.WRONG, f"the Docker engine has no image {image}", remedy)
    return Finding(what, Verdict.OK, f"the Docker engine answers and has the image {image}")


def _run_dir(name: str, job: JobSettings) -> Finding:
    what, directory = f"run_dir of {name}", job.pool.run_dir.absolute()
    there = next(parent for parent in (directory, *directory.parents) if parent.exists())
    if not os.access(there, os.W_OK | os.X_OK) or not there.is_dir():
        remedy = f"make it writable, or set jobs.{name}.pool.run_dir"
        return Finding(what, Verdict.WRONG, f"{there} cannot be written to", remedy)
    return Finding(what, Verdict.OK, _room(there))


def _room(directory: Path) -> str:
    return f"{directory} has {shutil.disk_usage(directory).free / 2**30:.1f} GiB free"
