"""When the watermark is committed, by whom, and what is told on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def committing(shared: LedgerUnderTest, group: Group, worker: str) -> Committer:
    return Committer(
        cast(Topic, group),
        shared.connect(),
        cast(Frontier, None),  # looked at between commits only
        holder=worker,
        every_s=0.0,
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
