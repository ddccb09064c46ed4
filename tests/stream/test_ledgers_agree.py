"""The ledger on Redis is the pure one, step by step, in histories that neither was written for."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.settings.root import RedisSettings
from services.store.connect import connect_sync
from services.store.keys import Keys
from services.stream.memory_ledger import MemoryLedger
from services.stream.ports import LeaseLedger
from services.stream.redis_ledger import RedisLedger
from shuffler.errors import LedgerError
from shuffler.lease import Completed, Lease
from shuffler.ledger import Terms

PARTITIONS = range(4)
workers = st.sampled_from("abc")
leasts = st.sampled_from([1, 1, 10, 30])
steps = st.one_of(
    st.tuples(st.just("pass"), st.sampled_from([0.5, 1.0, 2.5, 4.0, 11.0, -0.5, -300.0])),
    st.tuples(st.just("extend"), st.dictionaries(st.sampled_from(PARTITIONS), st.integers(0, 200))),
    st.tuples(
        st.just("acquire"),
        workers,
        st.integers(1, 40),
        st.lists(st.sampled_from(PARTITIONS), unique=True),
        leasts,
    ),
    st.tuples(
        st.just("exchange"),
        st.integers(0, 30),
        st.integers(1, 40),
        st.lists(st.sampled_from(PARTITIONS), unique=True),
        leasts,
    ),
    st.tuples(
        st.just("reset"),
        st.dictionaries(st.sampled_from(PARTITIONS), st.integers(0, 200), max_size=2),
        st.integers(0, 100),
    ),
    st.tuples(st.just("complete"), st.integers(0, 30)),
    st.tuples(st.just("release"), st.integers(0, 30), st.floats(0, 1)),
    st.tuples(st.just("renew"), workers),
    st.tuples(st.just("leave"), workers, st.sampled_from([0.0, 1.0, 6.0, 14.0])),
    st.tuples(st.just("turn"), workers, st.sampled_from([0.0, 1.0])),
    st.tuples(st.just("end_turn"), workers),
)


class History:
    """Plays steps on one ledger and writes down every answer."""

    def __init__(self, ledger: LeaseLedger) -> None:
        self.ledger = ledger
        self.leases: list[Lease] = []

    def play(self, step: tuple[Any, ...]) -> object:
        try:
            return self._play(*step)
        except LedgerError as error:
            return type(error), str(error)

    def _play(self, name: str, *args: Any) -> object:
        answer: object = None
        match name:
            case "extend":
                self.ledger.extend(args[0])
            case "acquire":
                answer = lease = self.ledger.acquire(args[0], samples=args[1], prefer=args[2], least=args[3])
                self.leases += [] if lease is None else [lease]
            case "exchange" if args[0] < len(self.leases):
                done = self.leases[args[0]]
                completed = Completed(done, trained=done.end - done.start, late=0)
                answer = lease = self.ledger.acquire(
                    done.worker, samples=args[1], prefer=args[2], least=args[3], completed=completed
                )
                self.leases += [] if lease is None else [lease]
            case "reset":
                self.ledger.reset(args[0], {p: start + args[1] for p, start in args[0].items()})
            case "complete" if args[0] < len(self.leases):
                lease = self.leases[args[0]]
                self.ledger.complete(lease, trained=lease.end - lease.start, late=1)
            case "release" if args[0] < len(self.leases):
                lease = self.leases[args[0]]
                trained = round((lease.end - lease.start) * args[1])
                self.ledger.release(lease, upto=lease.start + trained, trained=trained, late=0)
            case "renew":
                self.ledger.renew(args[0])
            case "leave":
                self.ledger.leave(args[0], within_s=args[1])
            case "turn":
                answer = self.ledger.take_turn(args[0], every_s=args[1])
            case "end_turn":
                self.ledger.end_turn(args[0], committed=True)
        return answer


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(steps, min_size=5, max_size=60))
def test_every_answer_is_the_same(redis_url: str, history: list[tuple[Any, ...]]) -> None:
    now_s = 1_000_000.0
    terms = Terms(ttl_s=10.0, patience_s=5.0, fill_s=2.0, turn_s=3.0, lapses_max=3)
    with connect_sync(RedisSettings(url=redis_url)) as client:
        client.flushdb()
        pure = History(MemoryLedger(terms, now_s=lambda: now_s))
        redis = History(RedisLedger(client, Keys("test"), "clicks", terms, now_s=lambda: now_s))
        for player in (pure, redis):
            player.ledger.open(dict.fromkeys(PARTITIONS, 0))
        for step in history:
            if step[0] == "pass":
                now_s += step[1]
            assert redis.play(step) == pure.play(step), step
            assert redis.ledger.progress() == pure.ledger.progress(), step
