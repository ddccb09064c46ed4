"""The demo, run as a user runs it: everything is trained, the pool follows, nothing is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

PENSTOCK = (sys.executable, "-m", "services.cli.main")


class RunningDemo:
    """A demo in a process of its own, with a temporary directory that must be empty in the end."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.temporary = directory / "tmp"
        self.temporary.mkdir()
        self.report = directory / "report.json"
        self._log = (directory / "demo.log").open("w+")
        self._process = subprocess.Popen(
            [*PENSTOCK, "demo", "--headless", "--report", str(self.report), *options],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(self.temporary), "PYTHONFAULTHANDLER": "1"},
        )
        self.process = psutil.Process(self._process.pid)

    def log(self) -> str:
        self._log.flush()
        return Path(self._log.name).read_text(encoding="utf-8")

    def resized(self, word: str) -> bool:
        """Whether the log tells of a resize with this word."""
        return any("pool_resized" in line and word in line for line in self.log().splitlines())

    def weight(self, model: str) -> float:
        """Of a model in the forecast that decisions rest on; 0 before there is any."""
        scores = self._told("forecast").get("scores", ())
        return sum(score["weight"] or 0.0 for score in scores if score["model"] == model)

    def trained(self) -> int:
        """Samples so far; 0 before any."""
        return int(self._told("quality").get("trained", 0))

    def _told(self, about: str) -> dict[str, Any]:
        """What the API tells of the job; nothing before it does."""
        found = re.search(r"PENSTOCK_SERVER=(\S+) PENSTOCK_TOKEN=(\S+)", self.log())
        if found is None:
            return {}
        address = f"{found[1]}/v1/jobs/demo/{about}"
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {found[2]}"})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                told: dict[str, Any] = json.load(answer)
        except OSError:
            return {}
        return told

    def workers(self) -> list[psutil.Process]:
        return [child for child in self._children() if "worker" in child.cmdline()[3:4]]

    def kill_child(self, word: str) -> None:
        """Kill the descendant whose program or command contains `word`; guardians do not count."""

        def found() -> list[psutil.Process]:
            lines = [(child, " ".join(child.cmdline())) for child in self._children()]
            return [child for child, line in lines if word in line and "guardian" not in line]

        eventually(found, what=f"a process of {word}")[0].kill()

    def _children(self) -> list[psutil.Process]:
        found = []
        for child in self.process.children(recursive=True):
            try:
                child.cmdline()
            except psutil.Error:
                continue
            found.append(child)
        return found

    def wait(self, within_s: float) -> int:
        """Its exit code. One that does not end says where it hangs."""
        try:
            return self._process.wait(timeout=within_s)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGABRT)
            self._process.wait()
            raise AssertionError(f"no end within {within_s:g} s:\n{self.log()[-8000:]}") from None

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def figures(self) -> dict[str, Any]:
        figures: dict[str, Any] = json.loads(self.report.read_text(encoding="utf-8"))
        return figures


@contextmanager
def demo(directory: Path, *options: str) -> Iterator[RunningDemo]:
    running = RunningDemo(directory, *options)
    try:
        yield running
    finally:
        running.stop()


def test_the_pool_follows_the_traffic_first_by_light_models_then_by_the_transformer(tmp_path: Path) -> None:
    with demo(tmp_path, "--minutes", "10", "--rate", "750") as running:
        # Light models serve until it is trained; then it has its say, as far as its live score earns it.
        # That it leads is held without a cluster (tests/demo): a busy machine sends other traffic.
        eventually(
            lambda: running.weight("patchtst") > 0,
            within_s=300,
            every_s=0.5,
            what="decisions that rest on the transformer's forecast too",
        )
        said = len(running.log())
        eventually(
            lambda: "pool_resized" in running.log()[said:] and running.resized("reason=forecast_fall"),
            within_s=240,
            every_s=0.5,
            what="a resize on such a forecast, and one downwards",
        )
        running.process.send_signal(signal.SIGINT)
        code = running.wait(within_s=120)
        log = running.log()

    assert code == 0, log
    assert "What the run came to" in log, "a summary after Ctrl-C"
    figures = running.figures()
    assert figures["trained"] == figures["produced"] > 25_000
    assert figures["repeated"] == 0
    assert figures["lost"] == 0
    late = figures["late_share"] * figures["trained"]
    assert late < 0.05 * 135_000, "of two minutes; the flash crowd comes once, however short the run is"
    assert figures["workers_max"] > figures["workers_min"]
    assert figures["grown"] >= 1, figures
    assert figures["shrunk"] >= 1, figures
    assert "trained models serve now: patchtst" in log
    assert set(figures["forecast_models"]) - {"patchtst"}, "light models serve while it is trained"
    assert 0 < figures["forecast_score"] < 0.2
    assert figures["orphans"] == 0
    assert list(running.temporary.iterdir()) == []


def test_whatever_is_killed_is_noticed_and_replaced(tmp_path: Path) -> None:
    with demo(tmp_path, "--minutes", "10", "--rate", "750") as running:
        eventually(lambda: "worker_ready" in running.log(), within_s=180, what="a worker that trains")
        running.workers()[0].kill()
        eventually(lambda: "workers_lost" in running.log(), within_s=60, what="the loss told")
        running.kill_child("traffic")
        eventually(
            lambda: "traffic generator had died" in running.log(), within_s=60, what="the generator replaced"
        )
        before = eventually(running.trained, within_s=60, what="training told of")
        running.kill_child("valkey-server")
        eventually(lambda: "Redis had died" in running.log(), within_s=60, what="Redis replaced")
        eventually(lambda: running.trained() > before, within_s=60, what="training goes on")
        running.process.send_signal(signal.SIGINT)
        code = running.wait(within_s=180)
        log = running.log()

    assert code == 0, log
    figures = running.figures()
    assert figures["trained"] == figures["produced"]
    assert figures["workers_lost"] >= 1
    assert figures["orphans"] == 0
    assert list(running.temporary.iterdir()) == []


def test_after_a_run_up_a_shard_is_killed_and_what_it_lost_is_trained_again(tmp_path: Path) -> None:
    with demo(tmp_path, "--run-up", "12", "--minutes", "0.3") as running:
        eventually(lambda: "the run-up is over" in running.log(), within_s=240, what="figures that count")
        assert "action=job.override.end" in running.log(), "the size is the rule's from now on"
        running.kill_child(" shard ")
        eventually(lambda: "it restores itself" in running.log(), within_s=60, what="the shard replaced")
        code = running.wait(within_s=240)
        log = running.log()

    assert code == 0, log
    figures = running.figures()
    assert figures["trained"] >= figures["produced"] > 0
    assert figures["lost"] == 0
    assert figures["auc"] > 0.55
    assert figures["minutes"] < 0.55, "the run-up is not among them"
    assert figures["orphans"] == 0


def test_a_killed_demo_leaves_nothing_behind(tmp_path: Path) -> None:
    with demo(tmp_path, "--minutes", "10") as running:
        eventually(running.workers, within_s=180, what="a worker")
        everyone = running.process.children(recursive=True)
        running.process.kill()

        eventually(lambda: not [child for child in everyone if child.is_running()], what="no process left")
        eventually(lambda: list(running.temporary.iterdir()) == [], what="no directory left")


@pytest.mark.real_broker
def test_the_demo_runs_on_servers_of_the_users_own(tmp_path: Path, kafka: Any, redis_url: str) -> None:
    options = ("--minutes", "0.2", "--kafka", kafka.bootstrap, "--redis", redis_url)
    with demo(tmp_path, *options) as running:
        code = running.wait(within_s=180)
        log = running.log()

    assert code == 0, log
    figures = running.figures()
    assert figures["trained"] == figures["produced"] > 0
    topics = kafka.admin().list_topics(timeout=10).topics
    assert not [name for name in topics if name.startswith("penstock-demo")]


def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    del tmp_path
    result = subprocess.run(
        [*PENSTOCK, "demo", "--headless", "--redis", "redis://:hunter2@127.0.0.1:1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "TMPDIR": tempfile.gettempdir()},
    )

    assert result.returncode == 1
    assert "the Redis given does not answer" in result.stderr
    assert "hunter2" not in result.stderr
