"""The images of deploy/Dockerfile: whom they run as, what is in them, and that they write nowhere."""

from __future__ import annotations

import json
import math
import os
import re
from typing import Any

import pytest

from tests.integration.running import ROOT, printed
from tests.servers.docker import lacking

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1800)]

TRAINER = os.environ.get("PENSTOCK_TEST_TRAINER_IMAGE")
"""An image of the target `trainer`. It takes gigabytes: whoever has built one may name it."""
LEARNED = """
import sys
import numpy as np
from services.samples.layout import SampleShape
from services.trainer.net import NetShape
from services.trainer.net_choice import net_on
shape = NetShape(SampleShape(categorical=3, numeric=2))
rows, numbers, labels = np.zeros((4, 3, shape.row_size)), np.zeros((4, 2)), np.array([0.0, 1.0, 1.0, 0.0])
given = (part.astype(np.float32) for part in (rows, numbers, labels, shape.first_dense()))
print(net_on(sys.argv[1], shape).learn(*given).loss)
"""
LISTED = """
import json
import math
from importlib.metadata import distributions
print(json.dumps({one.name: one.version for one in distributions()}))
"""


def run(image: str, *command: str) -> str:
    """A command as Kubernetes would run it: nothing may be written but /tmp, and nobody is reached."""
    guarded = ("--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges")
    return printed("docker", "run", "--rm", "--network=none", *guarded, image, *command)


@pytest.fixture(scope="module", params=["controller", *(["trainer"] if TRAINER else [])])
def image(request: pytest.FixtureRequest) -> str:
    reason = lacking("python:3.11-slim")
    if reason is not None:
        pytest.skip(reason)
    if request.param == "trainer":
        assert TRAINER is not None
        return TRAINER
    build = ("docker", "build", "-q", "-f", "deploy/Dockerfile", "--target", "controller")
    printed(*build, "-t", "penstock:test", ".", within_s=1500)
    return "penstock:test"


def test_it_runs_as_nobody_in_particular_and_tells_how_it_is(image: str) -> None:
    (found,) = json.loads(printed("docker", "image", "inspect", image))
    config: dict[str, Any] = found["Config"]

    assert config["User"] == "10001:10001"
    assert config["Healthcheck"]["Test"] == ["CMD", "penstock-healthy"]
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert run(image, "id", "-u").strip() == "10001"


def test_every_package_in_it_is_told_by_its_metadata_and_has_the_version_that_is_pinned(image: str) -> None:
    constraints = (ROOT / "deploy" / "constraints.txt").read_text(encoding="utf-8")
    pinned = {_plain(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)$", constraints, re.M)}

    found = {
        _plain(name): version for name, version in json.loads(run(image, "python", "-c", LISTED)).items()
    }

    assert found.pop("penstock")
    assert not found.keys() & {"pip", "setuptools", "wheel"}, "what is only needed to build"
    assert {name: version.partition("+")[0] for name, version in found.items()} == {
        name: pinned.get(name, "not pinned") for name in found
    }


def _plain(name: str) -> str:
    """As PEP 503 compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_it_learns_and_serves_without_writing_to_its_disk(image: str) -> None:
    device = "cpu" if image == TRAINER else "numpy"

    assert float(run(image, "python", "-c", LEARNED, device)) == pytest.approx(math.log(2), abs=0.05)
    assert "serve" in run(image, "penstock", "--help")


def test_nothing_of_it_belongs_to_whom_it_runs_as(image: str) -> None:
    own = run(image, "sh", "-c", "find / -xdev -user 10001 -not -path '/proc/*' -not -path '/tmp*' | sort")

    assert {line for line in own.splitlines() if "/home/penstock/" not in line} == {
        "/home/penstock",
        "/var/lib/penstock",
    }
