"""Apache Kafka's broker as Maven Central has it: ordinary jars, kept outside the source tree."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from services.embedded.errors import NotInstalled, StartFailed
from services.embedded.guarded import GuardedProcess

KAFKA_VERSION = "4.1.1"
_JAVA_AT_LEAST = 17
_FETCH_WITHIN_S = 600.0

_POM = f"""<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>penstock</groupId>
  <artifactId>kafka-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.24.3</version>
    </dependency>
  </dependencies>
</project>
"""


def jars_directory() -> Path:
    """Where the jars of this version are kept: under `$XDG_CACHE_HOME`, else `~/.cache`."""
    cache_home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache_home) / "penstock" / f"kafka-{KAFKA_VERSION}"


def class_archive(java: Path) -> Path:
    """Where Kafka's classes are kept as this Java has them in memory: brokers need not load them anew.

    Java takes no notice of a file that is not there, or that another Java made.
    """
    made_by = zlib.crc32(_told_version(java).encode())
    return jars_directory().with_name(f"kafka-{KAFKA_VERSION}-{made_by:08x}.jsa")


def missing() -> str | None:
    """What to install before Apache Kafka can run here; None when nothing is missing.

    Maven is needed only until the jars are in the cache.
    """
    java = find_java()
    if java is None:
        return "Java is not installed; install a JRE of version 17 or newer (Debian: openjdk-17-jre-headless)"
    version = _java_version(java)
    if version < _JAVA_AT_LEAST:
        return f"Java {version} at {java} is too old; install a JRE of version 17 or newer"
    if not jars_directory().is_dir() and shutil.which("mvn") is None:
        return "Maven is not installed; install it to fetch Kafka's jars once (Debian: maven)"
    return None


def find_java() -> Path | None:
    """The `java` of `$JAVA_HOME`, else the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else None
    found = found or shutil.which("java")
    return None if found is None else Path(found)


def require_java() -> Path:
    """The Java to run Kafka with. Raises NotInstalled, saying what to install."""
    java, lacking = find_java(), missing()
    if java is None or lacking is not None:
        raise NotInstalled(f"Apache Kafka cannot run here: {lacking}")
    return java


def fetch_jars() -> Path:
    """The directory that holds the jars, fetched with Maven the first time (about 43 MB).

    Several processes may call this at once: one fetches, the others wait for it. Half a download
    is never used. Raises NotInstalled or StartFailed.
    """
    target = jars_directory()
    if target.is_dir():
        return target
    require_java()  # Maven needs it as well
    target.parent.mkdir(parents=True, exist_ok=True)
    with _exclusive(target.with_suffix(".lock")):
        if not target.is_dir():  # another process may have fetched them while we waited
            _fetch_into(target)
    return target


def _fetch_into(target: Path) -> None:
    for leftover in target.parent.glob("fetching-*"):  # of a fetch that was killed: we hold the lock
        shutil.rmtree(leftover, ignore_errors=True)
    workspace = Path(tempfile.mkdtemp(prefix="fetching-", dir=target.parent))
    try:
        (workspace / "pom.xml").write_text(_POM, encoding="utf-8")
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=libs"]
        maven = GuardedProcess(
            ["mvn", "-q", "-B", "-f", str(workspace / "pom.xml"), *goal],
            log=workspace / "maven.log",
            remove=[workspace],
        )
        maven.start()
        code = _finish(maven)
        libs = workspace / "libs"
        if code != 0 or not any(libs.glob("kafka_*.jar")):
            raise StartFailed(
                f"Maven could not fetch Apache Kafka {KAFKA_VERSION} (exit code {code}); "
                "check the network and the proxy in ~/.m2/settings.xml",
                log=maven.log_tail(),
            )
        libs.rename(target)
    finally:
        shutil.rmtree(workspace, ignore_errors=True)


def _finish(maven: GuardedProcess) -> int:
    try:
        return maven.wait(within_s=_FETCH_WITHIN_S)
    except TimeoutError as error:
        log = maven.log_tail()
        maven.stop()
        raise StartFailed(str(error), log=log) from error


@contextmanager
def _exclusive(lock: Path) -> Iterator[None]:
    """One process at a time; a lock of a process that was killed is free again."""
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _java_version(java: Path) -> int:
    """The major version; 0 when it cannot be told.

    `1.8.0_292` is 8, `17.0.15` is 17, `21-ea` is 21.
    """
    found = re.search(r'version "(?:1\.)?(\d+)', _told_version(java))
    return int(found[1]) if found else 0


@cache
def _told_version(java: Path) -> str:
    """All that it says of its version; nothing when it cannot be run."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return told.stderr + told.stdout
