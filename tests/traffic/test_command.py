"""`penstock traffic` as its users run it: a process that counts exactly and never outlives its owner."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from services.cli.main import app
from services.samples.decode import decode
from services.samples.layout import SampleShape
from tests.servers.kafka import KafkaUnderTest, TopicFactory
from tests.traffic.test_outbox import written
from tests.trainer.test_dead_letters import consumed
from tests.waiting import eventually

COMMAND = (sys.executable, "-m", "services.cli.main", "traffic")


class Processes:
    """Starts `penstock traffic` and makes sure that none is left."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *options: str, **more: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
        )
        self.started.append(process)
        return process


@pytest.fixture
def processes() -> Iterator[Processes]:
    made = Processes()
    yield made
    for process in made.started:
        process.kill()
        process.communicate()


def last_line(output: str) -> dict[str, Any]:
    counts: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    return counts


def test_a_terminated_generator_reports_exactly_what_the_topic_holds(
    kafka: KafkaUnderTest, topic: TopicFactory, processes: Processes, tmp_path: Path
) -> None:
    name, report = topic(partitions=3), tmp_path / "report.json"
    process = processes.start("--kafka", kafka.bootstrap, "--topic", name, "--report", str(report))
    eventually(lambda: report.exists() and json.loads(report.read_text())["produced"] > 0, within_s=60)

    process.send_signal(signal.SIGTERM)

    assert process.wait(timeout=60) == 0
    counts = json.loads(report.read_text())
    assert counts["finished"]
    assert counts["in_flight"] == 0
    assert counts["produced"] == written(kafka.bootstrap, name, 3)


def test_samples_are_counted_out_and_the_counts_come_last_on_standard_output(
    kafka: KafkaUnderTest, topic: TopicFactory, processes: Processes
) -> None:
    name = topic(partitions=2)
    process = processes.start(
        *("--kafka", kafka.bootstrap, "--topic", name, "--rate", "5000", "--samples", "700")
    )

    out, _ = process.communicate(timeout=60)

    assert last_line(out)["produced"] == written(kafka.bootstrap, name, 2) == 700


def test_a_trace_is_replayed_faster_and_larger_and_then_over(
    kafka: KafkaUnderTest, topic: TopicFactory, processes: Processes, tmp_path: Path
) -> None:
    name, trace = topic(partitions=1), tmp_path / "trace.csv"
    trace.write_text("timestamp,rate\n0,10\n60,30\n")
    process = processes.start(
        *("--kafka", kafka.bootstrap, "--topic", name, "--trace", str(trace)),
        *("--scale", "20", "--speed-up", "120"),
    )

    out, _ = process.communicate(timeout=60)

    counts = last_line(out)
    assert counts["elapsed_s"] == pytest.approx(1.0)
    assert counts["produced"] == pytest.approx(20 * (10 + 30) / 2, rel=0.25)


def test_a_log_of_interactions_is_replayed_by_event_time_and_then_over(
    kafka: KafkaUnderTest, topic: TopicFactory, processes: Processes, tmp_path: Path
) -> None:
    name, log = topic(partitions=1), tmp_path / "log.csv"
    rows = [f"{second},{second % 2},user-{second % 7},{second / 10},{second / 5}" for second in range(120)]
    log.write_text("\n".join(["timestamp,label,user,price,age:number", *rows]) + "\n")
    process = processes.start(
        *("--kafka", kafka.bootstrap, "--topic", name, "--samples", str(log)),
        *("--numeric", "price", "--speed-up", "120"),
    )

    out, _ = process.communicate(timeout=60)

    assert last_line(out)["produced"] == 120
    messages = consumed(kafka.bootstrap, name, 120)
    found = decode([message.value() for message in messages], SampleShape(categorical=1, numeric=2))
    assert not found.rejected
    assert found.samples.labels.tolist() == [second % 2 for second in range(120)]
    assert found.samples.numbers[:, 0].tolist() == pytest.approx([second / 10 for second in range(120)])
    assert len(set(found.samples.ids[:, 0].tolist())) == 7


def test_it_ends_when_its_owner_does(
    kafka: KafkaUnderTest, topic: TopicFactory, processes: Processes, tmp_path: Path
) -> None:
    name, report = topic(partitions=1), tmp_path / "report.json"
    watched, held = os.pipe()
    process = processes.start(
        *("--kafka", kafka.bootstrap, "--topic", name, "--report", str(report)),
        pass_fds=[watched],
        env={**os.environ, "PENSTOCK_OWNER_FD": str(watched)},
    )
    os.close(watched)
    eventually(report.exists, within_s=60)

    os.close(held)  # as the kernel does for an owner that is killed

    assert process.wait(timeout=60) == 0
    assert json.loads(report.read_text())["finished"]


def test_a_missing_topic_ends_it_with_advice(kafka: KafkaUnderTest, processes: Processes) -> None:
    process = processes.start("--kafka", kafka.bootstrap, "--topic", "no-such-topic")

    _, err = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "topic 'no-such-topic' is not on" in err
    assert "--partitions" in err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--kafka", "nowhere"), "HOST:PORT"),
        (("--crowd", "noon"), "HOUR:HEIGHT"),
        (("--crowd", "12:-1"), "HOUR:HEIGHT"),
        (("--start", "tomorrow"), "ISO date"),
        (("--trace", "no-such.csv"), "no-such.csv"),
        (("--samples", "no-such.csv"), "no-such.csv"),
        (("--samples", "7", "--numeric", "price"), "names columns of a log"),
        (("--kafka-option", "sasl.password hunter2"), "NAME=VALUE"),
    ],
)
def test_bad_options_are_refused_with_the_rule(options: tuple[str, ...], complaint: str) -> None:
    result = CliRunner().invoke(app, ["traffic", "--topic", "clicks", *options])

    assert result.exit_code == 2
    assert complaint in result.output
    assert "hunter2" not in result.output, "a secret in the wrong place is not repeated"
