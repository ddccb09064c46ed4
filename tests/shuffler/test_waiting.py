"""How long partitions wait, on a virtual clock: workers that take leases as a stream does, one ahead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from shuffler.lease import Lease
from shuffler.ledger import Ledger, Terms

BATCH, STEP_S = 50, 0.1
FRESH_WITHIN_S = 1.0
LEASE_S = 0.6 * FRESH_WITHIN_S
PATIENCE_S = LEASE_S / 2
TICK_S = 0.005
UTILISATION = 0.9


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
    """Partitions that fill evenly, a ledger, and workers that come and go; what was trained when."""

    partitions: int
    workers: list[Worker]
    lease_s: float = LEASE_S
    patience_s: float = PATIENCE_S
    backlog: int = 0
    now_s: float = 0.0
    taken: dict[int, list[tuple[float, list[int]]]] = field(default_factory=dict)
    """By partition, the offsets that each batch had of it, and when they were taken."""

    def __post_init__(self) -> None:
        self.ledger = Ledger(Terms(patience_s=self.patience_s, fill_s=0.1))
        self.sent_s = {p: [0.0] * self.backlog for p in range(self.partitions)}
        self.ledger.open(dict.fromkeys(self.sent_s, 0), now_s=0.0)
        self._due = float(self.backlog)
        self._leavers: list[Worker] = []

    def play(self, seconds: float) -> None:
        for tick in range(round(seconds / TICK_S)):
            self.now_s += TICK_S
            self._due += UTILISATION * len(self.workers) * BATCH / STEP_S * TICK_S / self.partitions
            for sent in self.sent_s.values():
                sent.extend([self.now_s] * (int(self._due) - len(sent)))
            if not tick % 20:  # every 0.1 s one of them looks
                self.ledger.extend({p: len(sent) for p, sent in self.sent_s.items()}, now_s=self.now_s)
            for worker in self.workers:
                self._work(worker)
            for worker in self._leavers:
                self._leave(worker)

    def resize(self, size: int) -> None:
        """As the pool does: who leaves trains what it has in hand, and gives back the rest."""
        self.workers, leavers = self.workers[:size], self.workers[size:]
        self._leavers += leavers
        self.workers += [Worker(f"w{self.now_s}-{n}") for n in range(len(self.workers), size)]

    def _leave(self, worker: Worker) -> None:
        if self.now_s >= worker.busy_until_s:
            self._settle(worker)
            for lease, upto in worker.queue:
                self.ledger.release(lease, upto=upto, trained=upto - lease.start, late=0)
            worker.queue = []

    def _settle(self, worker: Worker) -> None:
        for lease in worker.training:
            self.ledger.complete(lease, trained=lease.end - lease.start, late=0)
        worker.training = []

    def _work(self, worker: Worker) -> None:
        if self.now_s >= worker.busy_until_s:
            self._settle(worker)
        parts: dict[int, list[int]] = {}
        for partition, offset in worker.take_batch(self.now_s):
            parts.setdefault(partition, []).append(offset)
        for partition, offsets in parts.items():
            self.taken.setdefault(partition, []).append((self.now_s, offsets))
        while worker.unread() < BATCH:
            wanted = round(self.lease_s * BATCH / STEP_S)
            wanted = max(BATCH, wanted - (worker.unread() + wanted) % BATCH)
            found = self.ledger.acquire(worker.name, samples=wanted, prefer=(), least=BATCH, now_s=self.now_s)
            if found is None:
                return
            worker.queue.append((found, found.start))

    def gaps_s(self, *, from_s: float) -> Iterator[float]:
        """Between two batches of a partition, as far as a full batch of it waited for the second."""
        for partition, taken in self.taken.items():
            sent_s, before_s = self.sent_s[partition], 0.0
            untaken = list(range(len(sent_s)))
            for at_s, offsets in taken:
                full_s = sent_s[untaken[BATCH - 1]] if len(untaken) >= BATCH else at_s
                if max(before_s, from_s) < at_s:
                    yield max(0.0, at_s - max(before_s, full_s))
                for offset in offsets:
                    untaken.remove(offset)  # no sample is trained twice here
                before_s = at_s

    def ages_s(self, *, from_s: float) -> Iterator[float]:
        """Of every sample, when its step was over."""
        for partition, taken in self.taken.items():
            for at_s, offsets in taken:
                if at_s >= from_s:
                    yield from (at_s + STEP_S - self.sent_s[partition][offset] for offset in offsets)


@pytest.mark.parametrize("workers", [8, 4, 3])
def test_a_partition_with_a_batch_to_give_waits_no_longer_than_a_lease(workers: int) -> None:
    world = World(8, [Worker(f"w{n}") for n in range(workers)])
    world.play(5.0)

    assert max(world.gaps_s(from_s=1.0)) <= LEASE_S


@pytest.mark.parametrize(("lease_s", "patience_s"), [(LEASE_S, PATIENCE_S), (2.0, 10.0)])
def test_a_rescale_makes_no_partition_wait_for_longer_than_a_lease_and_no_sample_late(
    lease_s: float, patience_s: float
) -> None:
    """With leases of the default length as with short ones: none holds more than what is there."""
    world = World(8, [Worker(f"w{n}") for n in range(4)], lease_s=lease_s, patience_s=patience_s)
    for size in (4, 8, 3):
        world.resize(size)
        world.play(8.0)

    assert max(world.gaps_s(from_s=2.0)) <= lease_s
    assert max(world.ages_s(from_s=2.0)) <= FRESH_WITHIN_S


@pytest.mark.parametrize(("partitions", "workers"), [(8, 4), (8, 3), (12, 3)])
def test_where_all_partitions_have_a_backlog_leases_become_shorter(partitions: int, workers: int) -> None:
    """Patience passes before a partition comes first, then the batches of those before it are trained."""
    world = World(partitions, [Worker(f"w{n}") for n in range(workers)], backlog=400)
    world.play(5.0)

    assert max(world.gaps_s(from_s=2.0)) <= PATIENCE_S + LEASE_S
