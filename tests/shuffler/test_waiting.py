"""How long partitions wait, on a virtual clock: workers that take leases as a stream does, one ahead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from shuffler.lease import Lease
from shuffler.ledger import Ledger, Terms

BATCH, STEP_S = 50, 0.1
LEASE_S = 0.25
TICK_S = 0.005
UTILISATION = 0.9
TERMS = Terms(patience_s=LEASE_S, fill_s=0.1)


@dataclass
class Worker:
    """Trains full batches, or what came while the first of a batch waited; keeps a batch leased ahead."""

    name: str
    queue: list[tuple[Lease, int]] = field(default_factory=list)
    busy_until_s: float = 0.0
    waiting_since_s: float | None = None
    training: list[Lease] = field(default_factory=list)

    def unread(self) -> int:
        return sum(lease.end - read_to for lease, read_to in self.queue)

    def take_batch(self, now_s: float) -> Iterator[tuple[int, int]]:
        """The samples of the next batch, once it is full or has waited long enough."""
        if now_s < self.busy_until_s or not self.queue:
            return
        self.waiting_since_s = now_s if self.waiting_since_s is None else self.waiting_since_s
        if self.unread() < BATCH and now_s - self.waiting_since_s < 0.1:
            return
        room = BATCH
        while room and self.queue:
            lease, read_to = self.queue.pop(0)
            upto = min(lease.end, read_to + room)
            yield from ((lease.partition, offset) for offset in range(read_to, upto))
            room -= upto - read_to
            if upto < lease.end:
                self.queue.insert(0, (lease, upto))
            else:
                self.training.append(lease)
        self.busy_until_s, self.waiting_since_s = now_s + STEP_S, None


@dataclass
class World:
    """Partitions that fill evenly, a ledger, and workers; what was taken from each partition, and when."""

    partitions: int
    workers: list[Worker]
    ledger: Ledger
    backlog: int = 0
    sent_s: dict[int, list[float]] = field(default_factory=dict)
    taken: dict[int, list[tuple[float, int]]] = field(default_factory=dict)

    def play(self, seconds: float) -> None:
        due = 0.0
        self.sent_s = {p: [0.0] * self.backlog for p in range(self.partitions)}
        self.ledger.open(dict.fromkeys(self.sent_s, 0), now_s=0.0)
        for tick in range(round(seconds / TICK_S)):
            now_s = tick * TICK_S
            due += UTILISATION * len(self.workers) * BATCH / STEP_S * TICK_S / self.partitions
            for sent in self.sent_s.values():
                sent.extend([now_s] * (int(due) + self.backlog - len(sent)))
            if not tick % 20:  # every 0.1 s one of them looks
                self.ledger.extend({p: len(sent) for p, sent in self.sent_s.items()}, now_s=now_s)
            for worker in self.workers:
                self._work(worker, now_s)

    def _work(self, worker: Worker, now_s: float) -> None:
        if now_s >= worker.busy_until_s:
            for lease in worker.training:
                self.ledger.complete(lease, trained=lease.end - lease.start, late=0)
            worker.training = []
        for partition, offset in worker.take_batch(now_s):
            self.taken.setdefault(partition, []).append((now_s, offset))
        while worker.unread() < BATCH:
            wanted = round(LEASE_S * BATCH / STEP_S)
            wanted = max(BATCH, wanted - (worker.unread() + wanted) % BATCH)
            found = self.ledger.acquire(worker.name, samples=wanted, prefer=(), least=BATCH, now_s=now_s)
            if found is None:
                return
            worker.queue.append((found, found.start))

    def gaps_s(self, *, from_s: float) -> Iterator[float]:
        """Between two batches of a partition, as far as a full batch of it waited for the second."""
        for partition, taken in self.taken.items():
            # Nothing is given back here, so that the offsets of a partition are taken in their order.
            before_s = 0.0
            for at_s, offset in taken:
                full_s = self.sent_s[partition][offset : offset + BATCH][-1]
                if max(before_s, from_s) < at_s and offset + BATCH <= len(self.sent_s[partition]):
                    yield at_s - max(before_s, full_s)
                before_s = at_s


@pytest.mark.parametrize("workers", [8, 4, 3])
def test_a_partition_with_a_batch_to_give_waits_no_longer_than_a_lease(workers: int) -> None:
    world = World(8, [Worker(f"w{n}") for n in range(workers)], Ledger(TERMS))
    world.play(5.0)

    assert max(world.gaps_s(from_s=1.0)) <= LEASE_S


@pytest.mark.parametrize(("partitions", "workers"), [(8, 4), (8, 3), (12, 3)])
def test_where_all_partitions_have_a_backlog_leases_become_shorter(partitions: int, workers: int) -> None:
    """Patience passes before a partition comes first, then the batches of those before it are trained."""
    world = World(partitions, [Worker(f"w{n}") for n in range(workers)], Ledger(TERMS), backlog=400)
    world.play(5.0)

    assert max(world.gaps_s(from_s=1.0)) <= 2 * LEASE_S + STEP_S / 2
