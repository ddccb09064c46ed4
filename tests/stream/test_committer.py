"""When the watermark is committed, by whom, and what is told on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import Event
from typing import cast

from structlog.testing import capture_logs

from services.stream.committer import Committer
from services.stream.frontier import Frontier
from services.stream.group_commit import Commit
from services.stream.loss_log import LossLog
from services.stream.topic import Topic
from tests.stream.conftest import TERMS, LedgerUnderTest
from tests.stream.test_ledger_contract import acquired, opened

HALF_A_DAY_S = 12 * 3600.0


class Group:
    """A topic whose group only remembers what it is told."""

    name = "clicks"

    def __init__(self) -> None:
        self.commits: list[dict[int, int]] = []
        self._epoch: int | None = None

    def id(self) -> str:
        return "first"

    def committed(self, partitions: Iterable[int]) -> dict[int, Commit]:
        latest = self.commits[-1] if self.commits else {}
        return {p: Commit(latest[p], self._epoch) for p in partitions if p in latest}

    def commit(self, offsets: Mapping[int, int], *, epoch: int | None) -> None:
        self.commits.append(dict(offsets))
        self._epoch = epoch


class MadeAnew(Group):
    """Another topic of the name, of whose partitions only the first has a leader yet."""

    def id(self) -> str:
        return "second"

    def begins(self, partitions: Iterable[int]) -> dict[int, int]:
        return {p: 0 for p in partitions if p == 0}

    ends = begins


class Looks:
    """A frontier that only counts how often it was looked at."""

    def __init__(self) -> None:
        self.count = 0

    def refresh(self) -> bool:
        self.count += 1
        return False


class Waits(Event):
    """Stops whoever waits after so many times, and remembers for how long each was to be."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.asked_s: list[float] = []
        self._times = times

    def wait(self, timeout: float | None = None) -> bool:
        self.asked_s.append(timeout or 0.0)
        return len(self.asked_s) > self._times


def committing(
    shared: LedgerUnderTest, group: Group, worker: str, *, looks: Looks | None = None, every_s: float = 0.0
) -> Committer:
    return Committer(
        cast(Topic, group),
        shared.connect(),
        cast(Frontier, looks),
        holder=worker,
        every_s=every_s,
        losses=LossLog("clicks", worker=worker, append=lambda _entry: None),
        now_s=lambda: shared.time.now_s,
    )


def test_the_same_watermark_is_committed_once_and_again_before_kafka_forgets_it(
    shared: LedgerUnderTest,
) -> None:
    opened(shared, {0: 10})
    group = Group()
    committer = committing(shared, group, "a")
    for _ in range(3):
        committer.commit(every_s=0.0)
    assert len(group.commits) == 1

    shared.time.pass_s(HALF_A_DAY_S + 1)
    committer.commit(every_s=0.0)

    assert group.commits == [{0: 0}, {0: 0}]


def test_ranges_that_are_given_up_are_told_once(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 1})
    for number in range(TERMS.lapses_max):
        acquired(ledger, f"victim-{number}", samples=1)
        shared.keep_alive("watch", for_s=TERMS.ttl_s)
    ledger.acquire("watch", samples=1, prefer=())
    committer = committing(shared, Group(), "watch")

    with capture_logs() as logs:
        committer.commit(every_s=0.0)
        committer.commit(every_s=0.0)

    assert [log["offsets"] for log in logs if log["event"] == "samples_quarantined"] == [[0, 1]]


def test_of_a_topic_made_anew_a_partition_without_a_leader_starts_at_its_beginning_too(
    shared: LedgerUnderTest,
) -> None:
    ledger = opened(shared, {0: 10, 1: 10})
    ledger.open({}, topic_id="first")
    for _ in range(2):
        ledger.complete(acquired(ledger, "a", samples=10), trained=10, late=0)

    committing(shared, MadeAnew(), "a").commit(every_s=0.0)

    assert ledger.progress().watermarks == {0: 0, 1: 0}
    assert ledger.progress().ends == {0: 0, 1: 0}


def test_whoever_has_the_turn_looks_for_new_samples_then_and_half_way_to_the_next(
    shared: LedgerUnderTest,
) -> None:
    opened(shared, {0: 10})
    group, looks, other_looks, waits = Group(), Looks(), Looks(), Waits(times=2)

    committing(shared, group, "a", looks=looks, every_s=1.0).run(waits)
    committing(shared, group, "b", looks=other_looks, every_s=1.0).run(Waits(times=1))

    assert waits.asked_s == [1.0, 0.5, 1.0]
    assert (len(group.commits), looks.count) == (1, 2)
    assert other_looks.count == 0, "it was not its turn"


def test_a_worker_that_stops_does_not_wait_for_its_second_look(shared: LedgerUnderTest) -> None:
    opened(shared, {0: 10})
    looks = Looks()

    committing(shared, Group(), "a", looks=looks, every_s=1.0).run(Waits(times=1))

    assert looks.count == 1
