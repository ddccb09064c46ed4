"""Samples that arrived while nobody looked are dated by bisection, where Kafka can tell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.meter.dating import Doubt, settle
from services.meter.poll import UNKNOWN

EPOCH_S = 1_700_000_000.0


class Log:
    """Partitions with the dates of all their records, answering as Kafka does."""

    def __init__(self, *dates_s: Sequence[float]) -> None:
        self._dates = [np.array(dates) for dates in dates_s]
        self.calls: list[list[int]] = []

    def ask(self, wanted: Sequence[tuple[int, float]]) -> Sequence[int]:
        self.calls.append([partition for partition, _ in wanted])
        return [self._first(partition, at_s - EPOCH_S) for partition, at_s in wanted]

    def _first(self, partition: int, at_s: float) -> int:
        found = np.flatnonzero(self._dates[partition] >= at_s)
        return int(found[0]) if len(found) else len(self._dates[partition])


@settings(deadline=None)
@given(
    st.lists(st.floats(-5e6, -1.0), min_size=1, max_size=50).map(sorted),
    st.data(),
    st.booleans(),
)
def test_a_sample_is_dated_to_the_second(dates: list[float], data: st.DataObject, bounded: bool) -> None:
    offset = data.draw(st.integers(0, len(dates) - 1))
    doubt = Doubt(0, offset, after_s=-6e6 if bounded else -np.inf, before_s=0.0)

    [settled] = settle([doubt], Log(dates).ask, epoch_s=EPOCH_S)

    assert settled.after_s - 1e-3 <= dates[offset] <= settled.before_s + 1e-3
    assert settled.width_s <= 1.0


def test_doubts_of_several_partitions_are_settled_in_the_same_calls_each_asked_once() -> None:
    log = Log([-100.0, -50.0], [-7000.0, -3.0], [-2.0])
    doubts = [Doubt(p, 0, -np.inf, 0.0) for p in range(3)]

    settled = settle(doubts, log.ask, epoch_s=EPOCH_S)

    assert [round(d.before_s) for d in settled] == pytest.approx([-100, -7000, -2], abs=1)
    assert len(log.calls) <= 40
    assert all(len(set(call)) == len(call) for call in log.calls)


def test_a_cluster_that_cannot_tell_is_asked_once_and_believed() -> None:
    calls = 0

    def ask(wanted: Sequence[tuple[int, float]]) -> Sequence[int]:
        nonlocal calls
        calls += 1
        return [UNKNOWN] * len(wanted)

    doubt = Doubt(0, 5, -np.inf, 0.0)

    assert settle([doubt], ask, epoch_s=EPOCH_S) == [doubt]
    assert calls == 1


def test_a_sample_older_than_any_retention_ends_the_search() -> None:
    [settled] = settle([Doubt(0, 0, -np.inf, 0.0)], Log([-1e10]).ask, epoch_s=EPOCH_S)

    assert settled.after_s == -np.inf
    assert settled.before_s < -100 * 86_400


def test_what_is_narrow_enough_is_not_asked_about() -> None:
    log = Log([0.0])

    settle([Doubt(0, 0, after_s=-0.9, before_s=0.0)], log.ask, epoch_s=EPOCH_S)

    assert log.calls == []
