"""What is asked of a fleet, and answered: may a job come in, who suffers with fewer nodes, what is ahead."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, StringConstraints, model_validator

from estimator.fleet.admission import Admission, Effect, Outcome
from estimator.fleet.budget_what_if import BudgetWhatIf, Change
from estimator.fleet.contention import TypeAhead
from services.api.actions import Request
from services.controller.views.view import View
from services.settings.job import JOB_ID

EFFECTS_MAX = 50
"""Jobs named in an answer, the most harmed first."""

GpuName = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")]
NodeName = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[^\x00-\x1f\x7f]*$")]
Rate = Annotated[float, Field(ge=0, le=1e12)]


class AdmissionRequest(Request):
    """A job that wants in, as somebody describes it."""

    name: Annotated[str, StringConstraints(pattern=JOB_ID)]
    rates: Annotated[
        dict[GpuName, Annotated[float, Field(gt=0, le=1e12)]], Field(min_length=1, max_length=20)
    ]
    """Samples/s of a lone worker, by the GPU types it may run on; the first holds its guarantee."""
    hourly_per_s: Annotated[list[Rate], Field(default_factory=list, max_length=168)]
    """Traffic by hour from now on; it repeats until a week is full."""
    mean_per_s: Rate | None = None
    """Mean traffic, in the place of `hourly_per_s`: its day has the shape that the group's days have."""
    group: Annotated[str, StringConstraints(max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    """Same owner, same model: jobs that are there and tell what this one will be like."""
    tenant: Annotated[str, StringConstraints(max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    weight: Annotated[NonNegativeFloat, Field(le=1e6)] = 1.0
    guaranteed: Annotated[int, Field(ge=0, le=10_000)] = 0
    workers_max: Annotated[int, Field(ge=1, le=10_000)] = 64
    gpus_per_worker: Annotated[PositiveFloat, Field(le=1024)] = 1.0
    """A quarter, a half, or whole GPUs."""
    fresh_within_s: Annotated[PositiveFloat, Field(le=1e9)] = 60.0


class EffectView(View):
    """What the change does to one job."""

    job: str
    late_share_before: float
    late_share_after: float

    @classmethod
    def of(cls, effect: Effect) -> Self:
        """The same, as a document."""
        return cls(
            job=effect.job.name, late_share_before=effect.late_before, late_share_after=effect.late_after
        )


class OutcomeView(View):
    """What accepting does over so many hours."""

    hours: int
    late_share: float
    """Of the new job."""
    bill_before: float
    """What the GPUs of all jobs cost without it, at the fleet's prices."""
    bill_after: float
    effects: list[EffectView]
    """The most harmed first."""

    @classmethod
    def of(cls, outcome: Outcome) -> Self:
        """The same, as a document."""
        return cls(
            hours=outcome.steps,
            late_share=outcome.late,
            bill_before=outcome.bill_before,
            bill_after=outcome.bill_after,
            effects=[EffectView.of(effect) for effect in outcome.effects[:EFFECTS_MAX]],
        )


class AdmissionView(View):
    """Whether the job may come in, and what that would do."""

    verdict: str
    why: str
    start_s: float
    """From now until a queued job may begin."""
    outcomes: list[OutcomeView]

    @classmethod
    def of(cls, answer: Admission) -> Self:
        """The same, as a document."""
        return cls(
            verdict=answer.verdict,
            why=answer.why,
            start_s=answer.start_s,
            outcomes=[OutcomeView.of(outcome) for outcome in answer.outcomes],
        )


class OtherBudgetRequest(Request):
    """Another budget: nodes to do without, or another number of GPUs of some types."""

    nodes: Annotated[list[NodeName], Field(default_factory=list, max_length=1000)]
    gpus: Annotated[
        dict[GpuName, Annotated[int, Field(ge=0, le=1_000_000)]], Field(default_factory=dict, max_length=20)
    ]
    """By type, how many there would be: fewer are lost with the last nodes, more come as new ones."""

    @model_validator(mode="after")
    def _differs(self) -> Self:
        if not self.nodes and not self.gpus:
            raise ValueError("name nodes to do without, or GPUs by type")
        return self


class SuffererView(View):
    """A job for which something would change."""

    job: str
    workers_before: int
    workers_after: int
    satisfaction_before: float
    satisfaction_after: float

    @classmethod
    def of(cls, change: Change) -> Self:
        """The same, as a document."""
        return cls(
            job=change.job.name,
            workers_before=change.before.given.workers,
            workers_after=change.after.given.workers,
            satisfaction_before=change.before.satisfaction,
            satisfaction_after=change.after.satisfaction,
        )


class OtherBudgetView(View):
    """Who would suffer, the most first; whoever gains comes last."""

    jobs: list[SuffererView]
    """Those for which something would change."""
    gpus: dict[str, int]
    """By type, what there would be."""
    shadow_prices: dict[str, float]
    """By GPU type, what one more GPU would then be worth."""

    @classmethod
    def of(cls, answer: BudgetWhatIf) -> Self:
        """The same, as a document."""
        return cls(
            jobs=[SuffererView.of(change) for change in answer.changes],
            gpus=dict(answer.gpus),
            shadow_prices=dict(answer.after.prices),
        )


class TypeAheadView(View):
    """GPUs of one type over the hours to come."""

    gpu_type: str
    gpus: int
    """There now."""
    wished: list[float]
    """By hour, what the jobs on it would take if each were alone."""
    short_in_h: int | None
    """Hours until more is wished than there is; null where that is not in sight."""

    @classmethod
    def of(cls, one: TypeAhead) -> Self:
        """The same, as a document."""
        return cls(gpu_type=one.gpu_type, gpus=one.gpus, wished=list(one.wished), short_in_h=one.short_from)


class FleetAheadView(View):
    """Contention as it is forecast."""

    from_s: float
    types: list[TypeAheadView]
