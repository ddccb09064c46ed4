"""The plan in force as a document: why, what binds it, what else could have been, what would change it."""

from __future__ import annotations

from typing import Literal, Self

from services.api.words import binding, words_for
from services.api.would_change import would_change
from services.controller.snapshot import JobSnapshot
from services.controller.views.decision import DecisionView
from services.controller.views.traffic import TrafficView
from services.controller.views.view import View
from services.settings import JobSettings


class Alternative(View):
    """What another size would mean for the traffic of now and for what is forecast."""

    workers: int
    capacity_per_s: float
    utilisation_now: float
    """Traffic of now over its capacity."""
    utilisation_peak: float | None
    """The 0.95 quantile of the highest forecast rate over its capacity; null without a forecast."""
    drain_s: float | None
    """Until today's backlog would be trained; null when it would grow."""
    gpus: float


class Candidate(View):
    """A size that the planner rolled through the futures, and what it foresaw of it."""

    size: Literal["chosen", "next_smaller", "next_larger", "as_it_is"]
    workers: int | None
    """Null in a decision of an earlier release."""
    cost_worker_s: float | None
    """GPU time, lateness at its price and resizes over the horizon, in worker-seconds."""
    late_share: float | None
    """Of what arrives over the horizon or waits now."""


_CANDIDATES: tuple[tuple[Literal["chosen", "next_smaller", "next_larger", "as_it_is"], str], ...] = (
    ("chosen", ""),
    ("next_smaller", "_one_fewer"),
    ("next_larger", "_one_more"),
    ("as_it_is", "_as_it_is"),
)


class PlanView(DecisionView):
    """The plan in force, why, what binds it, what else could have been, and what would change it."""

    why: str
    notes_in_words: list[str]
    binding: str
    """The constraint that decided rather than the demand; empty when none did."""
    alternatives: list[Alternative]
    candidates: list[Candidate]
    """What the planner weighed; empty where another rule decided, or the planner has no model yet."""
    would_change: list[str]
    """What would make the next decision another one."""

    @classmethod
    def of_snapshot(cls, plan: DecisionView, seen: JobSnapshot, job: JobSettings) -> Self:
        """The decision with its context."""
        return cls(
            **plan.model_dump(),
            why=words_for(plan.reason),
            notes_in_words=[words_for(note) for note in plan.notes],
            binding=binding(plan.reason, plan.notes),
            alternatives=_alternatives(plan, seen, job),
            candidates=[
                Candidate(
                    size=size,
                    workers=_whole(plan.numbers.get(f"workers{end}")),
                    cost_worker_s=plan.numbers[f"cost{end}"],
                    late_share=plan.numbers[f"late_share{end}"],
                )
                for size, end in _CANDIDATES
                if f"cost{end}" in plan.numbers and f"late_share{end}" in plan.numbers
            ],
            would_change=would_change(plan, job),
        )


def _alternatives(plan: DecisionView, seen: JobSnapshot, job: JobSettings) -> list[Alternative]:
    """The sizes around the plan, within the job's limits."""
    if seen.throughput is None or seen.traffic is None:
        return []
    curve, traffic = seen.throughput.curve, seen.traffic
    peak = max(seen.forecast.paths["0.95"], default=None) if seen.forecast else None
    lowest = max(job.scaling.workers_min, plan.planned - 3)
    highest = min(job.scaling.workers_max, plan.planned + 3, len(curve) - 1)
    return [
        Alternative(
            workers=workers,
            capacity_per_s=curve[workers],
            utilisation_now=_over(traffic.rate_per_s, curve[workers]),
            utilisation_peak=None if peak is None else _over(peak, curve[workers]),
            drain_s=_drain_s(traffic, curve[workers]),
            gpus=workers * job.scaling.gpus_per_worker,
        )
        for workers in range(lowest, highest + 1)
    ]


def _whole(number: float | None) -> int | None:
    return None if number is None else round(number)


def _over(rate: float, capacity: float) -> float:
    return rate / capacity if capacity > 0 else 0.0


def _drain_s(traffic: TrafficView, capacity: float) -> float | None:
    spare = capacity - traffic.rate_per_s
    if traffic.lag == 0:
        return 0.0
    return traffic.lag / spare if spare > 0 else None
