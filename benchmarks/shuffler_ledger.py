"""Completing a lease and taking the next, in one script, beside a script that does nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from redis import Redis

from services.store.keys import Keys
from services.stream.redis_ledger import RedisLedger
from shuffler.lease import Completed
from shuffler.ledger import Terms

WORKERS, PARTITIONS, CALLS, ROUNDS = 20, 64, 1_000, 7


def measure(redis_url: str) -> dict[str, float]:
    """Round trip from one client, and the server's own median; interleaved rounds."""
    with Redis.from_url(redis_url) as client:
        ledger = RedisLedger(client, Keys("bench"), "ledger", Terms())
        ledger.open(dict.fromkeys(range(PARTITIONS), 0))
        ledger.extend(dict.fromkeys(range(PARTITIONS), 10**9))
        workers = [f"w{n}" for n in range(WORKERS)]
        held = {worker: ledger.acquire(worker, samples=100, prefer=()) for worker in workers}
        prefer = {w: [p for p in range(PARTITIONS) if p % WORKERS == n] for n, w in enumerate(workers)}
        nothing = client.register_script("return 1")

        def exchange(number: int) -> None:
            worker = workers[number % WORKERS]
            lease = held[worker]
            done = None if lease is None else Completed(lease, trained=100, late=0)
            held[worker] = ledger.acquire(worker, samples=100, prefer=prefer[worker], completed=done)

        found: dict[str, list[tuple[float, float]]] = {"exchange": [], "no_op": []}
        for _ in range(ROUNDS):
            found["no_op"].append(_timed(client, lambda _n: nothing(keys=["{bench}"], args=["x"])))
            found["exchange"].append(_timed(client, exchange))
    trips = {name: median(trip for trip, _ in rounds) for name, rounds in found.items()}
    server = {name: median(us for _, us in rounds) for name, rounds in found.items()}
    return {
        "ledger_exchange_round_trip_us": trips["exchange"],
        "ledger_no_op_round_trip_us": trips["no_op"],
        "ledger_round_trip_ratio": trips["exchange"] / trips["no_op"],
        "ledger_exchange_server_us": server["exchange"],
        "ledger_no_op_server_us": server["no_op"],
        "ledger_server_ratio": server["exchange"] / server["no_op"],
        "ledger_exchanges_per_s_one_client": 1e6 / trips["exchange"],
    }


def _timed(client: Redis, call: Callable[[int], object]) -> tuple[float, float]:
    """Microseconds of a round trip on average, and of the server at the median."""
    call(0)
    client.config_resetstat()
    began_s = time.perf_counter()
    for number in range(CALLS):
        call(number)
    trip_us = (time.perf_counter() - began_s) / CALLS * 1e6
    return trip_us, float(client.info("latencystats")["latency_percentiles_usec_evalsha"]["p50"])
