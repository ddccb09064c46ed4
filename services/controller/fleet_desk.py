"""The fleet behind a controller: its file, what each job has of it, and what a new job would do to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog
import yaml
from pydantic import ValidationError

from estimator.fleet import Budget, Configuration, FleetPlan, InvalidFleet, JobId, Standing
from estimator.fleet.admission import Admission, admitted
from estimator.fleet.budget_what_if import BudgetWhatIf, with_nodes_fewer
from estimator.fleet.contention import TypeAhead, contention_ahead
from estimator.fleet.demand_ahead import demand_ahead
from estimator.fleet.future import Outlook
from estimator.fleet.group_history import GroupPrior, JobRecord, prior_of
from estimator.fleet.seating import check_guarantees
from estimator.fleet.worker_shape import WorkerShape
from services.control.errors import ControlError
from services.control.fleet_share import FleetShare, FleetTerms
from services.control.types import Reason
from services.controller.batch_pool import BatchPool
from services.controller.fleet_lessons import record_of, worker_advice
from services.controller.fleet_source import NodeSource
from services.controller.journal import JobStatus
from services.controller.usher import Usher
from services.settings import JobSettings, SettingsError
from services.settings.fleet import FleetContents, FleetSettings, NodeSettings

log = structlog.get_logger(__name__)

STEP_S = 3_600.0
HORIZONS = (24, 168)
"""A day and a week, in steps."""
CURVE_MAX = 512
"""Workers up to which a job's curve is drawn for a question about days ahead."""


@dataclass(frozen=True, slots=True)
class FleetState:
    """The fleet as it is now."""

    budget: Budget
    plan: FleetPlan
    held: Mapping[JobId, Configuration]
    asked: Mapping[JobId, int]
    lent: Mapping[JobId, int]
    """By job, workers of its guarantee that others may have."""
    batch: Mapping[str, float]
    """By type, GPUs that the batch pool has."""
    trouble: str = ""


class FleetDesk:
    """One for each controller. Without a fleet in the settings it does nothing at all."""

    def __init__(
        self,
        settings: FleetSettings,
        *,
        interval_s: float,
        status: Callable[[str], JobStatus | None],
        find: NodeSource | None = None,
    ) -> None:
        """Raises SettingsError for a fleet file that cannot be used. `find` reads the nodes there are."""
        self._find = find
        self.batch: BatchPool | None = None
        """Who has what is idle, while this controller leads and one is set."""
        self.usher: Usher | None = None
        """Who places workers that wait for a node, while this controller leads."""
        self._file = settings.file
        self._read_at: tuple[int, int] | None = None
        self._contents: FleetContents = settings
        self._status = status
        self._trouble = ""
        if self._file is not None:
            self._contents, self._read_at = _read(self._file), _stamp(self._file)
        terms = self._contents.terms()
        shares = self._file is not None or terms is not None or find is not None
        self.share = FleetShare(terms or FleetTerms(Budget(())), interval_s=interval_s) if shares else None
        """What the jobs' loops ask; None where nothing is shared."""
        if self.share is not None and find is not None:
            self.share.unknown = "nobody has told yet which nodes there are"

    def refresh(self, jobs: Mapping[str, JobSettings]) -> None:
        """Read the fleet file again if it changed, and forget the jobs that are gone.

        A file that cannot be used, or that breaks a guarantee, leaves the last good one in force.
        """
        if self.share is None:
            return
        self.share.keep(jobs.keys())
        if self._file is None:
            return
        stamp = _stamp(self._file)
        if stamp == self._read_at:
            return
        self._read_at = stamp
        try:
            contents = _read(self._file)
            terms = contents.terms() or FleetTerms(Budget(()))
            self._check(contents, jobs)
        except (SettingsError, InvalidFleet) as error:
            self._trouble = f"the fleet file is not in force: {error}"
            log.warning("fleet_file_refused", file=str(self._file), why=str(error))
            return
        self._contents, self._trouble = contents, ""
        self.share.terms = terms
        log.info("fleet_file_read", file=str(self._file), gpus=terms.budget.gpus)

    async def look(self, jobs: Mapping[str, JobSettings]) -> None:
        """Read the nodes from the platform. What cannot be read leaves what was read before in force.

        Nodes that were there and are gone are lost where guarantees rest on them; else they are forgotten.
        """
        if self.share is None or self._find is None:
            return
        try:
            found = await self._find()
            gone = {name: node for name, node in self._contents.nodes.items() if name not in found.nodes}
            contents = self._with_nodes(found.nodes, found.lost)
            try:
                self._check(contents, jobs)
            except InvalidFleet:
                contents = self._with_nodes({**found.nodes, **gone}, [*found.lost, *gone])
                self._check(contents, jobs)
        except (ControlError, InvalidFleet, ValidationError) as error:
            self._trouble = f"the platform's nodes are not in force: {error}"
            log.warning("fleet_nodes_refused", why=str(error))
            return
        self.share.unknown, self._trouble = "", ""
        if contents != self._contents:
            self._contents = contents
            self.share.terms = contents.terms() or FleetTerms(Budget(()))
            log.info("fleet_nodes_read", gpus=self.share.terms.budget.gpus, lost=contents.lost)

    def _with_nodes(self, nodes: Mapping[str, NodeSettings], lost: Iterable[str]) -> FleetContents:
        """What is in force, on these nodes. Raises ValidationError, InvalidFleet."""
        given = {name: getattr(self._contents, name) for name in FleetContents.model_fields}
        return FleetContents.model_validate({**given, "nodes": dict(nodes), "lost": sorted(lost)})

    def _check(self, contents: FleetContents, jobs: Mapping[str, JobSettings]) -> None:
        check_guarantees(contents.budget(), [job.standing(name) for name, job in jobs.items()])

    def check(self, jobs: Mapping[str, JobSettings]) -> None:
        """Refuse jobs whose guarantees the fleet cannot hold together. Raises InvalidFleet."""
        if self.share is not None and self.share.terms.budget.nodes:
            standings = [job.standing(name) for name, job in jobs.items()]
            self.share.terms.tenants.weights(standings)  # names their tenants
            check_guarantees(self.share.terms.budget, standings)

    def state(self) -> FleetState | None:
        """What there is and who gets what by the latest wishes; None without a fleet. Raises InvalidFleet."""
        if self.share is None:
            return None
        batch = f"the batch pool: {self.batch.trouble}" if self.batch and self.batch.trouble else ""
        unplaced = self.usher.trouble if self.usher else ""
        trouble = self._trouble or self.share.unknown or self.share.trouble or batch or unplaced
        share = self.share
        return FleetState(
            share.terms.budget,
            share.placed_plan(),
            share.held(),
            share.asked(),
            share.loans(),
            share.batch(),
            trouble,
        )

    def admission(
        self, newcomer: Outlook, jobs: Mapping[str, JobSettings], *, now_s: float
    ) -> Admission | None:
        """What taking in a job would do over a day and a week; None without a fleet. Raises InvalidFleet.

        Takes long for many jobs: call it in a thread.
        """
        if self.share is None:
            return None
        return admitted(
            newcomer,
            self._outlooks(jobs, now_s),
            self.share.terms.budget,
            self.share.terms.tenants,
            horizons=HORIZONS,
            step_s=STEP_S,
            policy=self._contents.admission.policy(),
            rules=self.share.terms.rules,
        )

    def ahead(self, jobs: Mapping[str, JobSettings], *, now_s: float) -> tuple[TypeAhead, ...] | None:
        """What of each type will be wished by the hour for a day; None without a fleet.

        Takes long for many jobs: call it in a thread.
        """
        if self.share is None:
            return None
        outlooks = self._outlooks(jobs, now_s)
        return contention_ahead(self.share.terms.budget, outlooks, steps=HORIZONS[0])

    def prior(self, group: str, gpu_type: str, jobs: Mapping[str, JobSettings]) -> GroupPrior | None:
        """What jobs of the same group were like; None for no group, and for one of which nothing is known."""
        return prior_of(group, gpu_type, self._records(group, jobs)) if group else None

    def _records(self, group: str, jobs: Mapping[str, JobSettings]) -> Iterable[JobRecord]:
        for name, job in sorted(jobs.items()):
            status = self._status(name) if job.fleet.group == group else None
            decision, seen = (status.decision, status.seen) if status is not None else (None, None)
            if decision is not None and seen is not None and seen.history is not None:
                record = record_of(group, decision, seen.history)
                if record is not None:
                    yield record

    def advice(self, name: str, job: JobSettings) -> WorkerShape | None:
        """What a worker of the job should be made of; None where its workers do not tell, or nobody asks."""
        cores, standing, status = job.fleet.cores, job.standing(name), self._status(name)
        kind = None if self.share is None else self.share.kind_of(name)
        if cores is None or kind is None or self.share is None or status is None or status.seen is None:
            return None
        return worker_advice(
            status.seen,
            gpu_share=standing.gpus_per_worker,
            cores=cores,
            gpu_price=self.share.terms.budget.price(kind),
            core_price=self._contents.core_price,
            cores_max=self._contents.cores_max,
        )

    def without(self, nodes: Sequence[str]) -> BudgetWhatIf | None:
        """Who suffers while these nodes are away; None without a fleet. Raises InvalidFleet."""
        if self.share is None:
            return None
        terms = self.share.terms
        return with_nodes_fewer(terms.budget, nodes, self.share.wishes(), terms.tenants, rules=terms.rules)

    def _outlooks(self, jobs: Mapping[str, JobSettings], now_s: float) -> list[Outlook]:
        return list(self._seen_outlooks(jobs, now_s))

    def _seen_outlooks(self, jobs: Mapping[str, JobSettings], now_s: float) -> Iterable[Outlook]:
        """Of the jobs that have ticked: one that nobody has observed is a guarantee at most."""
        for name, job in sorted(jobs.items()):
            standing, status = job.standing(name), self._status(name)
            kind = None if self.share is None else self.share.kind_of(name)
            decision, seen = (status.decision, status.seen) if status is not None else (None, None)
            if kind is None or decision is None or seen is None or seen.history is None:
                continue
            if Reason.RECOMMEND_ONLY in decision.notes:
                continue
            model = decision.state.throughput.model
            most = min(standing.workers_max, CURVE_MAX)
            demand = demand_ahead(
                seen.history, seen.forecast, now_s=now_s, steps=max(HORIZONS), step_s=STEP_S
            )
            curve = tuple(model.low(workers) for workers in range(most + 1))
            yield Outlook(standing, {kind: curve}, demand, job.slo.fresh_within_s)


def newcomer(
    standing: Standing, rates: Mapping[str, float], hourly_per_s: Sequence[float], *, slo_s: float
) -> Outlook:
    """A job that is not there yet, as somebody describes it: a lone worker's rate by type, traffic by hour.

    The hours repeat until a week is full. Raises InvalidFleet.
    """
    week = tuple(hourly_per_s[hour % len(hourly_per_s)] for hour in range(max(HORIZONS)))
    most = min(standing.workers_max, CURVE_MAX)
    curves = {
        kind: tuple(rate * workers / (1 + 0.02 * max(0, workers - 1)) for workers in range(most + 1))
        for kind, rate in rates.items()
    }
    return Outlook(standing, curves, week, slo_s)


def _stamp(file: Path) -> tuple[int, int] | None:
    """What changes when the file does; None while it is not there."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _read(file: Path) -> FleetContents:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{file}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"{file}: is not valid YAML: {error}") from error
    try:
        return FleetContents.model_validate(content or {})
    except ValidationError as error:
        mistakes = "; ".join(
            f"{'.'.join(map(str, mistake['loc'])) or 'fleet'}: {mistake['msg'].removeprefix('Value error, ')}"
            for mistake in error.errors(include_url=False, include_input=False)
        )
        raise SettingsError(f"{file}: {mistakes}") from error
