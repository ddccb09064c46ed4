"""The shuffler beside its peers, on a real broker: `make bench-shuffler`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import Producer
from redis import Redis
from rich.console import Console
from rich.table import Table

from benchmarks import shuffler_ledger, shuffler_plan, shuffler_rescale, shuffler_steady
from benchmarks.put_first import put_first
from services.embedded.apache import ApacheKafka
from services.embedded.redis import EmbeddedRedis
from services.settings.scaling import SloSettings

PARTS = ("plan", "ledger", "steady", "rescale")
WAYS = (*shuffler_rescale.MODES, "leases_undisturbed", "leases_of_2s", "leases_of_2s_undisturbed")


def steady(kafka: ApacheKafka, redis: EmbeddedRedis, *, rounds: int) -> dict[str, float]:
    """Interleaved runs, each in a process of its own."""
    kafka.create_topic("steady", shuffler_steady.PARTITIONS)
    _fill(kafka.bootstrap, "steady", shuffler_steady.RECORDS)
    kinds = shuffler_steady.KINDS

    def measured(measure: str, kind: str) -> float:
        command = [sys.executable, "-m", "benchmarks.shuffler_steady", measure, kind, kafka.bootstrap]
        said = subprocess.run([*command, "steady", redis.url], capture_output=True, check=True, text=True)
        return float(said.stdout.splitlines()[-1])

    found: dict[str, list[float]] = {"bare": [], "sdk": []}
    for _ in range(rounds):
        for kind, several in found.items():
            several.append(measured("cpu", kind))
    return {
        **{f"{kind}_cpu_us_per_record": median(several) for kind, several in found.items()},
        "sdk_over_bare": median(found["sdk"]) / median(found["bare"]),
        "sdk_over_bare_of_fastest": min(found["sdk"]) / min(found["bare"]),
        **{f"{kind}_bytes_fetched_per_byte": measured("fetched", kind) for kind in kinds},
    }


def _fill(bootstrap: str, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for number in range(records):
        while True:
            try:
                producer.produce(topic, b"\x00\x00\x80?" * 40, partition=number % shuffler_steady.PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush(60)


def rescale(
    kafka: ApacheKafka, redis: EmbeddedRedis, *, ways: Sequence[str], rounds: int, phase_s: float
) -> dict[str, float]:
    """Each way in turn, several rounds; leases also without a rescale, to tell what it costs them, and
    at the promise that a job makes by default, where they are as long as they get."""
    undisturbed = {"phases": (shuffler_rescale.PHASES[0],) * len(shuffler_rescale.PHASES)}
    of_2s = {"mode": "leases", "fresh_within_s": SloSettings().fresh_within_s}
    runs: dict[str, dict[str, Any]] = {
        **{mode: {"mode": mode} for mode in shuffler_rescale.MODES},
        "leases_undisturbed": {"mode": "leases", **undisturbed},
        "leases_of_2s": of_2s,
        "leases_of_2s_undisturbed": {**of_2s, **undisturbed},
    }
    found: dict[str, list[shuffler_rescale.Run]] = {way: [] for way in ways}
    for number in range(rounds):
        for name in ways:
            topic = f"{name}-{number}".replace("_", "-")
            kafka.create_topic(topic, shuffler_rescale.PARTITIONS)
            found[name].append(
                shuffler_rescale.measure(
                    kafka.bootstrap, redis.url, topic=topic, phase_s=phase_s, **runs[name]
                )
            )
    return {"rescale_load_average": os.getloadavg()[1]} | {
        f"rescale_{name}_{figure}": value
        for name, several in found.items()
        for figure, value in shuffler_rescale.figures(several).items()
    }


def _measured(options: argparse.Namespace) -> Iterator[dict[str, float]]:
    """The figures of each part as soon as they are there: the whole takes minutes."""
    if "plan" in options.parts:
        yield shuffler_plan.balance() | shuffler_plan.speed() | shuffler_plan.moves()
    with EmbeddedRedis() as redis:
        if options.first:
            put_first(os.getpid(), redis.process.pid)
        if "ledger" in options.parts:
            yield shuffler_ledger.measure(redis.url)
            with Redis.from_url(redis.url) as client:
                client.flushall()
        if {"steady", "rescale"} & set(options.parts):
            with ApacheKafka() as kafka:
                if options.first:
                    put_first(*map(kafka.pid, kafka.brokers))
                if "steady" in options.parts:
                    yield steady(kafka, redis, rounds=options.rounds)
                if "rescale" in options.parts:
                    yield rescale(
                        kafka, redis, ways=options.ways, rounds=options.rescales, phase_s=options.phase_s
                    )


def main() -> None:
    """Measure, keep what other parts measured before, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "parts", nargs="*", default=list(PARTS), help=f"of {', '.join(PARTS)}; all by default"
    )
    parser.add_argument("--rounds", type=int, default=5, help="interleaved runs of the steady state")
    parser.add_argument("--phase-s", type=float, default=10.0, help="seconds at each size of the rescale")
    parser.add_argument("--rescales", type=int, default=1, help="rescales of each way")
    parser.add_argument("--ways", nargs="*", default=WAYS, choices=WAYS, help="which to rescale")
    parser.add_argument("--first", action="store_true", help="before all other processes (needs root)")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/shuffler.json"))
    options = parser.parse_args()
    figures: dict[str, float] = json.loads(options.out.read_text()) if options.out.exists() else {}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for part in _measured(options):
        figures |= {name: round(value, 4) for name, value in part.items()}
        figures = dict(sorted(figures.items()))
        options.out.write_text(json.dumps(figures, indent=2) + "\n")
    table = Table("figure", "value")
    for name, value in figures.items():
        table.add_row(name, f"{value:,.4g}")
    Console().print(table)


if __name__ == "__main__":
    main()
