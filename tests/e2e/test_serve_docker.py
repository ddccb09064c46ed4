"""The controller as a service, with its workers in containers."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.actuator.containers import IMAGE, DockerRig, fake_spec, lacking
from tests.e2e.test_serve import Site, site, working_site
from tests.waiting import eventually

__all__ = ["site", "working_site"]

pytestmark = [pytest.mark.e2e, pytest.mark.containers, pytest.mark.timeout(240)]


@pytest.fixture
def containers() -> Iterator[DockerRig]:
    if lacking():
        pytest.skip(lacking())
    rig = DockerRig()
    yield rig
    rig.clear()


def test_containers_named_in_the_settings_are_started_and_outlive_the_controller(
    containers: DockerRig, working_site: Site
) -> None:
    spec = fake_spec()
    job = working_site.settings["jobs"].pop("clicks")
    job["pool"] = {
        "kind": "docker",
        "command": list(spec.command),
        "docker": {"image": IMAGE, "binds": list(spec.binds)},
    }
    working_site.settings["jobs"][containers.job] = job

    first = working_site.serve()
    eventually(lambda: first.ready_workers(containers.job) == 2, within_s=90, what="two workers ready")
    started = containers.containers()
    first.process.send_signal(signal.SIGTERM)
    assert first.process.wait(timeout=30) == 0, first.log()
    second = working_site.serve()

    eventually(lambda: second.ready_workers(containers.job) == 2, within_s=90, what="the workers adopted")
    assert containers.containers() == started
