"""How soon a worker trains: started cold, and woken from standby, in turns on one machine.

`python -m benchmarks.standby --rounds 8`. Real worker processes of a process pool, the SDK's stream, Kafka's
protocol and a Redis server. Cold: from `resize` to the end of the first batch. Standby: from the commit that
names it to the same. Samples wait all the while, a batch takes 5 ms, and no model is loaded, which is the
cold start at its best: `--startup-s` adds what loading one takes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import yaml
from confluent_kafka import Producer

from services.actuator.process_pool import ProcessPool
from services.control.types import ControlState, Decision, PoolResize, Reason
from services.embedded.librdkafka import EmbeddedKafka
from services.embedded.redis import EmbeddedRedis
from services.settings import Settings
from services.store.connect import connect
from services.store.keys import Keys
from services.store.redis_state import RedisState
from shuffler.assignment import Assignment

RESULT = Path(__file__).parent / "results" / "standby.json"
JOB = "clicks"
PARTITIONS = 4
SAMPLES = 4_000
WITHIN_S = 60.0


def main() -> None:
    """Measure both, print a table, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--startup-s", type=float, default=0.0)
    options = parser.parse_args()
    figures = asyncio.run(_measure(options.rounds, options.startup_s))
    RESULT.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    for name, value in figures.items():
        print(f"{name:24} {value:10.4f}")


async def _measure(rounds: int, startup_s: float) -> dict[str, float]:
    cold, warm = [], []
    with TemporaryDirectory() as kept, EmbeddedKafka() as kafka, EmbeddedRedis() as redis:
        kafka.create_topic(JOB, PARTITIONS)
        settings = _settings(kafka.bootstrap, redis.url, startup_s)
        client = connect(settings.redis)
        try:
            bench = await _Bench.open(Path(kept), settings, RedisState(client, Keys(settings.redis.prefix)))
            async with bench.pool:
                for _ in range(rounds):
                    cold.append(await bench.cold())
                    warm.append(await bench.woken())
        finally:
            await client.aclose()
    return {
        "rounds": float(rounds),
        "startup_s": startup_s,
        "cold_median_s": median(cold),
        "cold_best_s": min(cold),
        "standby_median_s": median(warm),
        "standby_worst_s": max(warm),
        "times_faster_median": median(cold) / median(warm),
        "times_faster_least": min(cold) / max(warm),
    }


def _settings(bootstrap: str, redis_url: str, startup_s: float) -> Settings:
    worker = {"batch": 32, "step_ms": 5.0, "startup_s": startup_s}
    return Settings.model_validate(
        {
            "kafka": {"bootstrap": bootstrap},
            "redis": {"url": redis_url},
            "jobs": {JOB: {"topic": JOB, "worker": worker}},
        }
    )


@dataclass(slots=True)
class _Bench:
    """One job, its pool, and the store that tells its workers what they are for."""

    directory: Path
    settings: Settings
    pool: ProcessPool
    store: RedisState
    asked: int = 0
    started: int = 0

    @classmethod
    async def open(cls, directory: Path, settings: Settings, store: RedisState) -> _Bench:
        config = directory / "penstock.yaml"
        config.write_text(yaml.safe_dump(settings.model_dump(mode="json")), encoding="utf-8")
        command = [sys.executable, "-m", "benchmarks.standby_worker", str(config), JOB, "{worker}"]
        pool = ProcessPool(JOB, command=[*command, str(directory)], run_dir=directory / "run", owned=True)
        return cls(directory, settings, pool, store)

    async def cold(self) -> float:
        """From asking for a worker to its first trained batch."""
        await self._name(None)
        worker = self._next_worker()
        asked_at_s = time.time()
        await self._resize(1)
        took_s = await self._first(worker) - asked_at_s
        await self._empty()
        return took_s

    async def woken(self) -> float:
        """From naming a worker that stands by to its first trained batch."""
        await self._name(())
        worker = self._next_worker()
        await self._resize(1)
        await _until(self._is_ready, "the standby to be loaded")
        named_at_s = time.time()
        await self._name((worker,))
        took_s = await self._first(worker) - named_at_s
        await self._empty()
        return took_s

    def _next_worker(self) -> str:
        """The pool counts its workers from one."""
        self._produce()
        self.started += 1
        return f"w-{self.started}"

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.settings.kafka.bootstrap, "log_level": 2})
        for number in range(SAMPLES):
            producer.produce(JOB, b"sample", partition=number % PARTITIONS)
            producer.poll(0)
        if producer.flush(30):
            raise RuntimeError("Kafka did not take the samples")

    async def _is_ready(self) -> bool:
        return (await self.pool.observe()).ready == 1

    async def _is_empty(self) -> bool:
        return not (await self.pool.observe()).workers

    async def _empty(self) -> None:
        await self._resize(0)
        await _until(self._is_empty, "the worker to leave")

    async def _resize(self, workers: int) -> None:
        self.asked += 1
        await self.pool.resize(PoolResize(workers, decision_id=f"{JOB}-{self.asked}", fence=1))

    async def _name(self, active: tuple[str, ...] | None) -> None:
        """As a controller's decision does: by the commit that goes before any resize."""
        self.asked += 1
        decision = Decision(
            id=f"{JOB}-{self.asked}",
            job=JOB,
            at_s=time.time(),
            planned=1,
            requested=1,
            ready=0,
            reason=Reason.STEADY,
            notes=(),
            numbers={},
            resize=None,
            assignment=None,
            state=ControlState(sequence=self.asked, assignment=Assignment(active=active)),
        )
        await self.store.commit(decision, fence=1)

    async def _first(self, worker: str) -> float:
        told = self.directory / f"{worker}.first"

        async def there() -> bool:
            return told.exists()

        await _until(there, f"the first batch of {worker}")
        return float(told.read_text(encoding="utf-8"))


async def _until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while not await condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{what}: did not happen within {WITHIN_S:g} s")
        await asyncio.sleep(0.005)


if __name__ == "__main__":
    main()
