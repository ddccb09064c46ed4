"""The fleet behind a controller: its file, what each job has of it, and what a new job would do to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from pydantic import ValidationError

from estimator.fleet import Budget, Configuration, FleetPlan, InvalidFleet, JobId
from estimator.fleet.admission import Admission, admitted
from estimator.fleet.budget_what_if import BudgetWhatIf, with_gpus, with_other_budget, without_nodes
from estimator.fleet.contention import TypeAhead, contention_ahead
from estimator.fleet.future import Outlook
from estimator.fleet.group_history import GroupPrior, JobRecord, prior_of
from estimator.fleet.seating import check_guarantees
from estimator.fleet.worker_shape import WorkerShape
from services.control.errors import ControlError
from services.control.fleet_packing import NodeSeats
from services.control.fleet_share import FleetShare, FleetTerms
from services.controller.batch_pool import BatchPool
from services.controller.fleet_file import read_fleet_file, stamp_of
from services.controller.fleet_lessons import record_of, worker_advice
from services.controller.fleet_outlooks import HORIZONS, STEP_S, outlooks_of
from services.controller.fleet_source import NodeSource
from services.controller.journal import JobStatus
from services.controller.usher import Seated, Usher, Waiting
from services.settings import JobSettings, SettingsError
from services.settings.fleet import FleetContents, FleetSettings, NodeSettings

log = structlog.get_logger(__name__)


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
    standbys_lent: Mapping[JobId, int] = field(default_factory=dict)
    """By job, standbys in whose place the batch pool may have GPUs."""
    nodes: tuple[NodeSeats, ...] = ()
    batch_nodes: Mapping[str, int] = field(default_factory=dict)
    """By node, workers of the batch pool."""
    waiting: tuple[Waiting, ...] = ()
    """Workers that wait at the gate for a node, the longest first."""
    seated: tuple[tuple[Seated, float], ...] = ()
    """Workers that were told a node, the latest first, and how many seconds ago."""
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
            self._contents, self._read_at = read_fleet_file(self._file), stamp_of(self._file)
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
        stamp = stamp_of(self._file)
        if stamp == self._read_at:
            return
        self._read_at = stamp
        try:
            contents = read_fleet_file(self._file)
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
        share, usher, batch = self.share, self.usher, self.batch
        lending = f"the batch pool: {batch.trouble}" if batch and batch.trouble else ""
        placing = usher.trouble if usher else ""
        troubles = (self._trouble, share.unknown, share.trouble, lending, placing)
        return FleetState(
            share.terms.budget,
            share.placed_plan(),
            share.held(),
            share.asked(),
            share.loans(),
            share.batch(),
            standbys_lent=share.standbys_lent(),
            nodes=share.nodes(),
            batch_nodes=dict(batch.nodes) if batch else {},
            waiting=usher.waiting if usher else (),
            seated=usher.seated() if usher else (),
            trouble="; ".join(dict.fromkeys(filter(None, troubles))),
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
            list(outlooks_of(jobs, self.share, self._status, now_s=now_s)),
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
        outlooks = list(outlooks_of(jobs, self.share, self._status, now_s=now_s))
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

    async def what_if(self, nodes: Sequence[str], gpus: Mapping[str, int]) -> BudgetWhatIf | None:
        """Who suffers, or gains, without these nodes and with so many GPUs of some types.

        None without a fleet. Raises InvalidFleet.
        """
        if self.share is None:
            return None
        terms = self.share.terms
        other = with_gpus(without_nodes(terms.budget, nodes), gpus)
        wishes = self.share.wishes()  # before the thread begins: the jobs go on speaking
        return await asyncio.to_thread(
            with_other_budget, terms.budget, other, wishes, terms.tenants, rules=terms.rules
        )
