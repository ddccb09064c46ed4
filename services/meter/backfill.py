"""Rebuilds past arrival rates from Kafka itself, by asking for offsets by time. Pure: `ask` does the I/O.

The offset at each edge of a grid, newest first, gives the samples between the
edges. A few large partitions stand for all. What Kafka cannot tell stays a gap:
time before the log begins, and time behind a record that carries a date in the
future (every later question is answered with that record).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecasting.history import Rates, TrafficHistory
from services.meter.dating import Ask
from services.meter.poll import UNKNOWN, Offsets

VALID_SHARE_MIN = 0.5
"""A bin is told when the partitions that can tell it hold at least this share of the sampled samples."""
CLOCK_SKEW_S = 60.0
"""A record dated further ahead than this lies in the future; less may be a clock that runs ahead."""


@dataclass(frozen=True, slots=True)
class BackfillTerms:
    """How far back to go, how finely, and how much of the cluster's time to take."""

    days: float = 7.0
    fine_days: float = 1.0
    fine_step_s: float = 60.0
    coarse_step_s: float = 600.0
    partitions_max: int = 16
    """Partitions that stand for all of the topic's, the largest first."""
    lookups_max: int = 60_000
    """The budget. A week takes some 37,000 with 16 partitions."""
    lookups_per_s: float = 2_800.0
    bins_a_piece: int = 60


@dataclass(frozen=True, slots=True)
class BackfillPiece:
    """A stretch of the past, and how far the work is."""

    history: TrafficHistory
    done: int
    """Bins looked at, those already known included."""
    total: int
    lookups: int
    finished: bool = False
    """Nothing is left to ask, or the log does not reach back further, or the budget is spent."""


@dataclass(frozen=True, slots=True)
class _Sample:
    """The partitions that are asked, and what they stand for."""

    partitions: NDArray[np.intp]
    weights: Rates
    """Samples retained in each."""
    scale: float
    """Samples retained in all partitions, to those in these."""
    starts: Offsets
    poisoned_from: Offsets
    """Offsets of records dated in the future; answers from there on mean nothing."""


def rebuild(
    ask: Ask,
    starts: Offsets,
    ends: Offsets,
    *,
    now_s: float,
    terms: BackfillTerms,
    known: Callable[[float], bool] = lambda _: False,
) -> Iterator[BackfillPiece]:
    """Pieces of the past, newest first. Bins `known` at their middle are not asked for again.

    So a backfill that was cut short goes on where it was by being started again.
    """
    sample = _sample(ask, starts, ends, now_s, terms)
    grids = _grids(now_s, terms)
    total = sum(len(edges) - 1 for _, edges in grids)
    done, lookups = 0, len(sample.partitions)
    for step_s, edges in grids:
        below: Offsets | None = None
        for first in range(0, len(edges) - 1, terms.bins_a_piece):
            piece = edges[first : first + terms.bins_a_piece + 1]
            done += len(piece) - 1
            spent = lookups + len(sample.partitions) * len(piece) > terms.lookups_max
            if spent or len(sample.partitions) == 0:
                yield BackfillPiece(_nothing(now_s, step_s), done, total, lookups, finished=True)
                return
            if all(known(low + step_s / 2) for low in piece[1:]):
                below = None
                continue
            rows = [] if below is None else [below]
            rows += [_look(ask, sample, at_s) for at_s in piece[len(rows) :]]
            lookups += len(sample.partitions) * (len(piece) - (below is not None))
            below = rows[-1]
            over = bool(np.all(below <= sample.starts)) or done == total
            yield BackfillPiece(_history(sample, rows, piece, step_s), done, total, lookups, over)
            if over:
                return


def _grids(now_s: float, terms: BackfillTerms) -> list[tuple[float, list[float]]]:
    """Each grid's step and its edges, newest first. The coarse one begins where the fine one ends."""
    fine, coarse = terms.fine_step_s, terms.coarse_step_s
    newest = math.floor(now_s / fine)
    seam_s = math.ceil((now_s - min(terms.days, terms.fine_days) * 86_400) / coarse) * coarse
    last = math.floor((now_s - terms.days * 86_400) / coarse)
    return [
        (fine, [bin_ * fine for bin_ in range(newest, round(seam_s / fine) - 1, -1)]),
        (coarse, [bin_ * coarse for bin_ in range(round(seam_s / coarse), last - 1, -1)]),
    ]


def _sample(ask: Ask, starts: Offsets, ends: Offsets, now_s: float, terms: BackfillTerms) -> _Sample:
    retained = np.where((starts == UNKNOWN) | (ends == UNKNOWN), 0, ends - starts)
    largest = np.argsort(-retained, kind="stable")[: terms.partitions_max]
    chosen = largest[retained[largest] > 0]
    ahead = _offsets(ask([(int(p), now_s + CLOCK_SKEW_S) for p in chosen]))
    poisoned = (ahead != UNKNOWN) & (ahead < ends[chosen])
    return _Sample(
        partitions=chosen,
        weights=retained[chosen].astype(np.float64),
        scale=float(retained.sum() / max(1, retained[chosen].sum())),
        starts=starts[chosen],
        poisoned_from=np.where(poisoned, ahead, np.iinfo(np.int64).max),
    )


def _look(ask: Ask, sample: _Sample, at_s: float) -> Offsets:
    """One call, each partition once: of two times for one partition Kafka answers only one."""
    return _offsets(ask([(int(partition), at_s) for partition in sample.partitions]))


def _history(
    sample: _Sample, rows: Sequence[Offsets], edges: Sequence[float], step_s: float
) -> TrafficHistory:
    """Rates between the edges, oldest first."""
    offsets = np.array(rows[::-1])
    lower, upper = offsets[:-1], offsets[1:]
    told = (lower > sample.starts) & (upper >= lower) & (upper < sample.poisoned_from)
    told &= (lower != UNKNOWN) & (upper != UNKNOWN)
    weight = (told * sample.weights).sum(axis=1)
    came = np.where(told, upper - lower, 0).sum(axis=1)
    enough = weight >= VALID_SHARE_MIN * sample.weights.sum()
    rates = np.full(len(came), np.nan)
    share = weight[enough] / sample.weights.sum()
    rates[enough] = came[enough] / share * sample.scale / step_s
    return TrafficHistory(start_s=edges[-1], step_s=step_s, rates=rates)


def _nothing(now_s: float, step_s: float) -> TrafficHistory:
    return TrafficHistory(start_s=now_s, step_s=step_s, rates=np.empty(0))


def _offsets(answers: Sequence[int]) -> Offsets:
    return np.array(answers, dtype=np.int64)
