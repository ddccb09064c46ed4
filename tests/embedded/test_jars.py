"""Kafka's jars: what must be installed, and fetching them once and whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from services.embedded import jars
from services.embedded.apache import ApacheKafka, missing
from services.embedded.errors import NotInstalled, StartFailed

# Plays `mvn -q -B -f POM ...`: the jars go where the real one would put them.
FETCHES = 'set -e; cd "${4%/*}"; test -f pom.xml; mkdir libs; echo jar > libs/kafka_2.13.jar'


class FakeMachine:
    """A machine with the programs and the cache of the test's choice."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.programs = home / "bin"
        self.programs.mkdir()
        self.jars = home / "cache" / "penstock" / f"kafka-{jars.KAFKA_VERSION}"
        monkeypatch.setenv("PATH", str(self.programs))
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))

    def install(self, name: str, script: str) -> None:
        program = self.programs / name
        program.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n", encoding="utf-8")
        program.chmod(0o755)

    def install_java(self, version: str) -> None:
        self.install("java", f"echo 'openjdk version \"{version}\"' >&2")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    return FakeMachine(tmp_path, monkeypatch)


def test_without_java_it_says_which_to_install(machine: FakeMachine) -> None:
    assert "install a JRE of version 17 or newer" in (missing() or "")
    with pytest.raises(NotInstalled, match="openjdk-17-jre-headless"):
        ApacheKafka().start()


@pytest.mark.parametrize("version", ["1.8.0_292", "11.0.2", "16-ea"])
def test_an_old_java_is_named(machine: FakeMachine, version: str) -> None:
    machine.install_java(version)

    assert "is too old" in (missing() or "")


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_maven_is_needed_until_the_jars_are_there(machine: FakeMachine, version: str) -> None:
    machine.install_java(version)
    assert "Maven is not installed" in (missing() or "")

    machine.jars.mkdir(parents=True)

    assert missing() is None


def test_jars_are_fetched_once(machine: FakeMachine) -> None:
    machine.install_java("17")
    machine.install("mvn", FETCHES)
    assert (jars.fetch_jars() / "kafka_2.13.jar").is_file()

    machine.install("mvn", "exit 1")

    assert jars.fetch_jars() == machine.jars
    assert [path.name for path in machine.jars.parent.iterdir() if path.is_dir()] == [machine.jars.name]


def test_two_that_fetch_at_once_fetch_once(machine: FakeMachine, tmp_path: Path) -> None:
    machine.install_java("17")
    machine.install("mvn", f"echo x >> {tmp_path}/fetches; sleep 0.3; {FETCHES}")
    script = "from services.embedded.jars import fetch_jars; print(fetch_jars())"

    both = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) for _ in range(2)]

    assert [each.communicate(timeout=60)[0].decode().strip() for each in both] == [str(machine.jars)] * 2
    assert (tmp_path / "fetches").read_text(encoding="utf-8") == "x\n"


def test_half_a_download_is_not_used(machine: FakeMachine) -> None:
    machine.install_java("17")
    machine.install("mvn", f"{FETCHES}; rm libs/kafka*; echo 'no route to host'; exit 1")

    with pytest.raises(StartFailed, match=r"check the network .*\n  \| no route to host"):
        jars.fetch_jars()
    assert not machine.jars.exists()

    machine.install("mvn", FETCHES)
    assert jars.fetch_jars() == machine.jars
