"""Peers that know each job alone: static quotas, and first come first served, HPA per job in both."""

from __future__ import annotations

import numpy as np

from services.simulator.fleet.balance import balanced
from services.simulator.fleet.file import FleetFile
from services.simulator.fleet.hpa_jobs import PERIOD, HpaJobs
from services.simulator.fleet.kernel import Counts
from services.simulator.fleet.seen import FleetDecision, FleetSeen
from services.simulator.fleet.traffic import FleetTraffic, workers_needed
from services.simulator.trace import Floats

TARGET = 0.8


class StaticQuotas:
    """`static`: every job has GPUs of its own and an HPA within them.

    Its operator knows each job's peak of the days before, puts jobs on the types where that loads the fleet
    least, and deals out all GPUs of a type by peak and weight: never less than a guarantee, nor more than the
    peak needs at the HPA's target while another has less.
    """

    period_s = PERIOD

    def __init__(self, fleet: FleetFile, traffic: FleetTraffic) -> None:
        peaks = np.quantile(traffic.minutes[:, : traffic.first], 0.999, axis=1) if traffic.first else None
        self.kinds, self.quotas = quotas_of(fleet, traffic.judged.max(axis=1) if peaks is None else peaks)
        self._hpa = HpaJobs(fleet, self.quotas)

    def decide(self, seen: FleetSeen) -> FleetDecision:
        wanted = self._hpa.wanted(seen)
        sizes = np.zeros(seen.requested.shape, dtype=np.int64)
        sizes[np.arange(len(wanted)), self.kinds] = np.minimum(wanted, self.quotas)
        full = (wanted >= self.quotas) & (seen.busy > 0.99)
        return FleetDecision(sizes, sizes, bool(full.any()))


def quotas_of(fleet: FleetFile, peaks: Floats) -> tuple[Counts, Counts]:
    """The type and the GPUs of each job."""
    needs = np.array(
        [
            [
                workers_needed(job, kind, peak / TARGET) if kind in job.rates else np.inf
                for kind in fleet.kinds
            ]
            for job, peak in zip(fleet.jobs, peaks, strict=True)
        ]
    )
    capacity = np.array([kind.gpus for kind in fleet.gpu_types.values()])
    _, parts = balanced(needs, capacity)
    kinds = parts.argmax(axis=1)
    quotas = np.zeros(len(kinds), dtype=np.int64)
    for kind, name in enumerate(fleet.kinds):
        here = np.flatnonzero(kinds == kind)
        least = np.array([_least(fleet, int(job), name) for job in here], dtype=np.float64)
        weights = np.array([fleet.jobs[job].weight for job in here])
        quotas[here] = dealt(int(capacity[kind]), least, needs[here, kind], weights)
    return kinds, quotas


def _least(fleet: FleetFile, place: int, kind: str) -> int:
    """Workers of this type that are worth the guarantee on the job's own; one at least."""
    job = fleet.jobs[place]
    n, alone = job.guaranteed, job.rates[job.home]
    promised = alone * n / (1 + job.contention * max(n - 1, 0))
    return max(1, int(np.ceil(workers_needed(job, kind, promised) - 1e-9)))


def dealt(gpus: int, least: Floats, needs: Floats, weights: Floats) -> Counts:
    """GPUs one by one to the job with the least of its weighted need; all of them are dealt.

    >>> dealt(6, np.array([1.0, 1.0]), np.array([4.0, 4.0]), np.array([1.0, 2.0])).tolist()
    [2, 4]
    """
    quotas = least.astype(np.int64)
    while len(quotas) and quotas.sum() < gpus:
        open_ = quotas < np.ceil(needs)
        filled = quotas / np.maximum(needs * np.maximum(weights, 1e-9), 1e-9)
        filled = np.where(open_, filled, np.inf) if open_.any() else quotas / np.maximum(needs, 1e-9)
        quotas[int(filled.argmin())] += 1
    return quotas


class FirstCome:
    """`fcfs`: an HPA per job, and pods that wait in the order in which they were asked for.

    A pod takes a GPU of the first of its job's types that has one free; nobody is ever sent away for another.
    """

    period_s = PERIOD

    def __init__(self, fleet: FleetFile, traffic: FleetTraffic) -> None:
        del traffic
        self._hpa = HpaJobs(fleet)
        self._order = [[fleet.kinds.index(kind) for kind in job.rates] for job in fleet.jobs]
        self._waiting: list[int] = []
        """Jobs with pods that wait, the first to have asked first."""

    def decide(self, seen: FleetSeen) -> FleetDecision:
        wanted = self._hpa.wanted(seen)
        holds = seen.ready + seen.starting
        sizes = np.array([_shrunk(holds[job], wanted[job], self._order[job]) for job in range(len(wanted))])
        missing = wanted - sizes.sum(axis=1)
        short = [job for job in self._waiting if missing[job] > 0]
        short += [int(job) for job in np.flatnonzero(missing > 0) if job not in short]
        # What drains now is free at the next tick at the latest; nothing is promised before.
        free = seen.free.copy()
        asked = sizes.copy()
        for job in short:
            for kind in self._order[job]:
                taken = min(int(missing[job]), int(free[kind]))
                sizes[job, kind] += taken
                free[kind] -= taken
                missing[job] -= taken
        self._waiting = [job for job in short if missing[job] > 0]
        for job in short:
            asked[job, self._order[job][0]] += wanted[job] - asked[job].sum()
        # Pods without a GPU stay asked for on the first type, so that the autoscaler sees them pending.
        for job in self._waiting:
            sizes[job, self._order[job][0]] += missing[job]
        return FleetDecision(sizes, asked, bool(self._waiting))


def _shrunk(holds: Counts, wanted: int, order: list[int]) -> Counts:
    """What a job keeps when it wants fewer: the last of its types goes first."""
    kept = holds.copy()
    for kind in reversed(order):
        kept[kind] -= min(kept[kind], max(int(kept.sum()) - wanted, 0))
    return kept
