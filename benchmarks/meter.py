"""How quick, how cheap and how exact the meter is, on one real broker: `python -m benchmarks.meter`.

Every figure of ours stands beside what the plain way gives in the same run: one
`list_offsets` call for everything, offsets taken for samples, lag divided by rate
taken for age.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from benchmarks.meter_leases import compaction, transactions
from benchmarks.meter_memory import memory
from benchmarks.meter_producer import PARTITIONS, Truth, started
from services.clock import SystemClock, elapsed_s
from services.control.errors import TrafficUnavailable
from services.embedded.apache import KAFKA_VERSION, ApacheKafka
from services.meter.kafka_meter import KafkaMeter
from services.meter.kafka_offsets import KafkaOffsets
from services.meter.poll import OffsetPoll

RESULTS = Path(__file__).parent / "results" / "meter.json"
BIN_S = 10.0
PARTS = ("exact", "transactions", "compaction", "cpu", "memory", "poll")
CLEANS_OFTEN = {"log.cleaner.backoff.ms": "500"}
_END = OffsetSpec.latest()  # type: ignore[no-untyped-call]
Figures = dict[str, float | int | str]


def client(kafka: ApacheKafka) -> dict[str, Any]:
    return {"bootstrap.servers": kafka.bootstrap, "log_level": 2}


def timed(call: Callable[[], object]) -> float:
    begun_s = time.perf_counter()
    call()
    return time.perf_counter() - begun_s


def plain_list_offsets(admin: AdminClient, topics: Mapping[str, int]) -> None:
    """What one would write first: all partitions in one call."""
    wanted = {TopicPartition(t, p): _END for t, count in topics.items() for p in range(count)}
    for answer in admin.list_offsets(wanted, request_timeout=60).values():
        answer.result()


def made(kafka: ApacheKafka, topics: Mapping[str, int]) -> None:
    """Create topics and wait until every partition answers."""
    for name, partitions in topics.items():
        kafka.create_topic(name, partitions)
    offsets = KafkaOffsets(client(kafka), timeout_s=30.0)

    def answers(polled: OffsetPoll | TrafficUnavailable) -> bool:
        return isinstance(polled, OffsetPoll) and not polled.errors

    while not all(answers(polled) for polled in offsets.poll(topics).values()):
        time.sleep(1.0)
    time.sleep(5.0)  # the broker is still busy with its new files


def poll_time(kafka: ApacheKafka, *, partitions: int, rounds: int) -> Figures:
    """One poll, of ends and last stable offsets, against one call for the ends alone."""
    topics = {f"many-{n}": 1000 for n in range(partitions // 1000)}
    made(kafka, topics)
    admin, offsets = AdminClient(client(kafka)), KafkaOffsets(client(kafka), timeout_s=60.0)
    refreshing = KafkaOffsets(client(kafka), timeout_s=60.0, layout_every_s=0.0, starts_every_s=0.0)
    ours, refreshed, plain = [], [], []
    for _ in range(rounds):
        plain.append(timed(lambda: plain_list_offsets(admin, topics)))
        refreshed.append(timed(lambda: refreshing.poll(topics)))
        offsets.poll(topics)  # metadata and log starts, which most polls do without, may be due
        ours.append(timed(lambda: offsets.poll(topics)))
    return {
        "poll_partitions": partitions,
        "poll_s": statistics.median(ours),
        "poll_with_refresh_s": statistics.median(refreshed),
        "poll_unchunked_call_s": statistics.median(plain),
        "poll_ratio": statistics.median(ours) / statistics.median(plain),
        "poll_ratio_limit": 0.5,
    }


async def cpu_share(kafka: ApacheKafka, *, seconds: int) -> Figures:
    """CPU of the whole process at one reading a second of 1,000 partitions, commits included."""
    made(kafka, {"wide": 1000})
    admin = AdminClient(client(kafka))
    async with KafkaMeter(client(kafka), topic="wide", group="bench", clock=SystemClock()) as meter:
        await meter.read()
        used_s, begun_s = time.process_time(), time.monotonic()
        for _ in range(seconds):
            await meter.read()
            await asyncio.sleep(1.0 - (time.monotonic() - begun_s) % 1.0)
        share = (time.process_time() - used_s) / (time.monotonic() - begun_s)
    used_s = time.process_time()
    for _ in range(10):
        plain_list_offsets(admin, {"wide": 1000})
    return {
        "cpu_partitions": 1000,
        "cpu_share_at_1s": share,
        "cpu_share_limit": 0.1,
        "cpu_share_unchunked_ends_only": (time.process_time() - used_s) / 10,
    }


async def exactness(kafka: ApacheKafka, path: Path, *, seconds: int) -> Figures:
    """Rates by ten-second bins and ages of the oldest untrained sample, against the producer's own book."""
    made(kafka, {"plain": PARTITIONS})
    truth = Truth.new(path, records=200_000)
    producer = started("plain", kafka.bootstrap, "plain", path, seconds + 3)
    delays_s = np.repeat([0.5, 3.0, 10.0, 25.0, 1.0], -(-seconds // 5))
    given: dict[int, int] = {}

    async def progress() -> dict[int, int]:
        given.update(enumerate(truth.arrived_by(elapsed_s() - delay_s)))
        return given

    delay_s, ours, plain = float(delays_s[0]), [], []
    epoch_s = time.time() - elapsed_s()
    async with KafkaMeter(
        client(kafka), topic="plain", group="bench", clock=SystemClock(), step_s=BIN_S, progress=progress
    ) as meter:
        await meter.read()
        for second in range(seconds):
            delay_s = float(delays_s[second])
            reading = await meter.read()
            polled_at_s = reading.at_s - epoch_s
            true_s = true_age_s(truth, given, polled_at_s)
            if reading.lag and second > 2:
                ours.append(abs(reading.lag_s - true_s))
                plain.append(abs(reading.lag / max(reading.rate_per_s, 1e-9) - true_s))
            await asyncio.sleep(1.0 - (time.time() % 1.0))
        rates = meter.history()
    producer.wait()
    start_s = rates.start_s - epoch_s
    errors = truth.bin_errors(start_s, list(rates.rates), BIN_S, after_s=start_s + BIN_S / 2)
    return {
        "rate_windows": len(errors),
        "rate_error_max": max(errors),
        "rate_error_mean": statistics.fmean(errors),
        "rate_error_limit": 0.01,
        "lag_readings": len(ours),
        "lag_s_error_max": max(ours),
        "lag_s_error_mean": statistics.fmean(ours),
        "lag_s_error_limit": 1.0,
        "lag_over_rate_error_max_s": max(plain),
        "lag_over_rate_error_mean_s": statistics.fmean(plain),
    }


def true_age_s(truth: Truth, given: Mapping[int, int], at_s: float) -> float:
    """Age of the oldest record that the progress given has not passed, of those that had come by then."""
    came = [truth.times[p, offset] for p, offset in given.items() if 0 < truth.times[p, offset] <= at_s]
    return at_s - min(came, default=at_s)


def show(figures: Figures) -> None:
    rows = [
        (
            "one poll of {poll_partitions:,} partitions",
            "{poll_s:.3f} s",
            "{poll_unchunked_call_s:.3f} s in one call",
        ),
        ("  as a share of that call", "{poll_ratio:.2f}", "limit {poll_ratio_limit}"),
        ("  with metadata and log starts, 1 in 10", "{poll_with_refresh_s:.3f} s", ""),
        ("CPU at 1 s, {cpu_partitions:,} partitions", "{cpu_share_at_1s:.1%}", "limit {cpu_share_limit:.0%}"),
        ("rate error, 10 s windows, worst", "{rate_error_max:.2%}", "limit {rate_error_limit:.0%}"),
        ("time-lag error, worst", "{lag_s_error_max:.2f} s", "{lag_over_rate_error_max_s:.2f} s as lag/rate"),
        (
            "time-lag error, mean",
            "{lag_s_error_mean:.2f} s",
            "{lag_over_rate_error_mean_s:.2f} s by lag/rate",
        ),
        (
            "rate error with transactions, worst",
            "{transactions_rate_error_max:.2%}",
            "{transactions_rate_error_unscaled_mean:.1%} unscaled",
        ),
        (
            "rate error with compaction, worst",
            "{compaction_rate_error_max:.2%}",
            "{compaction_rate_error_unscaled_mean:.1%} unscaled",
        ),
        (
            "a week of minutes, {memory_topics:,} topics",
            "{memory_week_of_minutes_mb:.0f} MB",
            "{memory_sorted_set_mb:.0f} MB in sorted sets",
        ),
    ]
    for row in rows:
        try:
            what, ours, beside = (cell.format(**figures) for cell in row)
        except KeyError:
            continue  # a part that was not asked for
        print(f"{what:<44} {ours:>10}   {beside}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=90, help="of each timed part")
    parser.add_argument("--partitions", type=int, default=10_000, help="of the large poll")
    parser.add_argument("--only", nargs="*", choices=PARTS)
    options = parser.parse_args()
    parts = options.only or PARTS
    figures: Figures = {
        "kafka": KAFKA_VERSION,
        "cores": os.cpu_count() or 0,
        "load_before": os.getloadavg()[0],
    }
    # With the test brokers' small heap, 10,000 partitions keep the collector busy for seconds at a time.
    os.environ["_JAVA_OPTIONS"] = "-Xmx2g"
    if "memory" in parts:
        figures |= asyncio.run(memory(topics=1000))
    with ApacheKafka(settings=CLEANS_OFTEN) as kafka, tempfile.TemporaryDirectory() as directory:
        if "exact" in parts:
            figures |= asyncio.run(exactness(kafka, Path(directory, "plain"), seconds=options.seconds))
        if "transactions" in parts:
            figures |= asyncio.run(transactions(kafka, Path(directory, "many"), seconds=options.seconds))
        if "compaction" in parts:
            figures |= asyncio.run(compaction(kafka, Path(directory, "again"), seconds=options.seconds))
        if "cpu" in parts:
            figures |= asyncio.run(cpu_share(kafka, seconds=30))
        if "poll" in parts:
            figures |= poll_time(kafka, partitions=options.partitions, rounds=9)
    show(figures)
    if options.only is None:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
