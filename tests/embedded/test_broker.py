"""One broker's start, with a Java that only writes down how it was called."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.embedded.broker import Broker
from services.embedded.jars import class_archive

# Plays `java @FILE`: formatting leaves what it should, and the classes where it was told to.
JAVA = """#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17.0.15"' >&2; exit; fi
cat "${1#@}" >> CALLS
case "$1" in
  *format.args)
    home=$(dirname "${1#@}"); mkdir "$home/data"; touch "$home/data/meta.properties"
    made=$(sed -n 's/"-XX:ArchiveClassesAtExit=\\(.*\\)"/\\1/p' "${1#@}")
    [ -z "$made" ] || echo classes > "$made" ;;
esac
"""


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache" / "penstock").mkdir(parents=True)
    program = tmp_path / "java"
    program.write_text(JAVA.replace("CALLS", str(tmp_path / "calls")), encoding="utf-8")
    program.chmod(0o755)
    return program


def calls_of_a_start(java: Path, directory: Path) -> str:
    """What Java was told by a broker that starts on an empty directory."""
    directory.mkdir()
    calls = java.with_name("calls")
    calls.unlink(missing_ok=True)
    broker = Broker(node=1, port=1, controller_port=2, directory=directory)
    broker.prepare(java, Path("jars"), "an-id", "1@127.0.0.1:2", nodes=1, settings={})
    broker.start()
    assert broker.process.wait(within_s=60) == 0
    return calls.read_text(encoding="utf-8")


def test_the_first_broker_leaves_its_classes_to_all_others(java: Path, tmp_path: Path) -> None:
    archive = class_archive(java)
    assert "ArchiveClassesAtExit" in calls_of_a_start(java, tmp_path / "first")
    assert archive.read_text(encoding="utf-8") == "classes\n"

    later = calls_of_a_start(java, tmp_path / "second")

    assert "ArchiveClassesAtExit" not in later
    assert later.count(f"-XX:SharedArchiveFile={archive}") == 2, "to format, and to run"


def test_a_cache_that_cannot_be_written_only_makes_starts_slower(java: Path, tmp_path: Path) -> None:
    (tmp_path / "cache" / "penstock").rmdir()

    assert "kafka.Kafka" in calls_of_a_start(java, tmp_path / "first")
    assert not class_archive(java).exists()
