"""Which build of torch the trainer's image gets, decided by pip under the constraints file."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "deploy" / "constraints.txt"


def pinned(package: str) -> str:
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith(f"{package}=="))


def a_wheel(directory: Path, name: str, version: str, *needs: str) -> None:
    """The least that pip takes for one."""
    about = f"{name}-{version}.dist-info"
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata += [f"Requires-Dist: {need}" for need in needs]
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{about}/METADATA", "\n".join(metadata) + "\n")
        wheel.writestr(f"{about}/WHEEL", tags)
        wheel.writestr(f"{about}/RECORD", "")


def chosen(*places: Path) -> dict[str, str]:
    """What pip would install for `torch` as it is pinned, from these places and no other."""
    told = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--isolated", "--disable-pip-version-check", "--quiet"]
        + ["--dry-run", "--ignore-installed", "--no-index", "--report", "-"]
        + [part for place in places for part in ("--find-links", str(place))]
        + ["--constraint", str(CONSTRAINTS), f"torch=={pinned('torch')}"],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    installed = [one["metadata"] for one in json.loads(told.stdout)["install"]]
    return {one["name"]: one["version"] for one in installed}


@pytest.fixture
def usual(tmp_path: Path) -> Path:
    """As pip's usual index has it: with CUDA, and what that needs."""
    directory = tmp_path / "usual"
    directory.mkdir()
    a_wheel(directory, "torch", pinned("torch"), f"triton=={pinned('triton')}")
    a_wheel(directory, "triton", pinned("triton"))
    return directory


def test_an_index_with_builds_for_cpus_is_preferred_and_brings_nothing_of_cuda(
    usual: Path, tmp_path: Path
) -> None:
    further = tmp_path / "cpu"
    further.mkdir()
    a_wheel(further, "torch", f"{pinned('torch')}+cpu")
    a_wheel(further, "torch", f"{pinned('torch')}.1+cpu")  # later, and not what is pinned

    assert chosen(usual, further) == {"torch": f"{pinned('torch')}+cpu"}


def test_without_it_the_usual_build_is_taken(usual: Path) -> None:
    assert chosen(usual) == {"torch": pinned("torch"), "triton": pinned("triton")}
