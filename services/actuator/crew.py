"""The workers of one pool: one pass brings what runs nearer to what was asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import structlog

from services.actuator.backoff import Backoff, Vacancy
from services.actuator.intent import Intent
from services.actuator.lead_time import LeadTime, LeadTimes
from services.actuator.moment import Moment
from services.actuator.platform import Exit, NotStarted, Platform, WorkerFacts
from services.actuator.victims import choose_victims
from services.control.types import Worker, WorkerPhase

_SLOW_START_S = 300.0
_UNKILLABLE_AFTER_S = 10.0
_TIDY_EVERY_S = 10.0
_LONGEST_START_S = 86_400.0

log = structlog.get_logger()


@dataclass(slots=True)
class Member:
    """A live worker. Times are steady; the facts hold the same as wall times."""

    facts: WorkerFacts
    asked_s: float
    ready_since_s: float | None = None
    drain_until_s: float | None = None
    place: Vacancy | None = None
    """The vacancy that it fills, when another died in that place."""

    @property
    def phase(self) -> WorkerPhase:
        if self.drain_until_s is not None:
            return WorkerPhase.DRAINING
        return WorkerPhase.STARTING if self.ready_since_s is None else WorkerPhase.READY

    def shown(self) -> Worker:
        """As the port shows it."""
        facts = self.facts
        return Worker(facts.id, self.phase, facts.started_at_s, gpu_type=facts.gpu_type, node=facts.node)

    def complaint(self, now_s: float) -> tuple[int, str] | None:
        """What is wrong with it, after the number of strikes in its place."""
        name = f"worker {self.facts.id} ({self.facts.where})"
        if self.drain_until_s is not None:
            if now_s > self.drain_until_s + _UNKILLABLE_AFTER_S:
                return 0, f"{name} was killed and is still there; look at its state"
        elif self.ready_since_s is None:
            if self.place is not None:
                return self.place.strikes, self.place.retried(self.facts.id)
            if now_s - self.asked_s > _SLOW_START_S:
                waited = f"{name} has been starting for {now_s - self.asked_s:.0f} s"
                return 0, f"{waited}; it must make the file named by PENSTOCK_READY_FILE once it is ready"
        return None


class Crew:
    """Starts, watches, drains and replaces workers on a platform. Synchronous; time is an argument.

    A start takes a moment of the platform, and many at once would stall whoever waits for the pass:
    a pass makes at most `starts_per_pass`.
    """

    def __init__(
        self,
        job: str,
        platform: Platform,
        *,
        backoff: Backoff,
        drain_s: float,
        starts_per_pass: int = 8,
        names: str = "w",
    ) -> None:
        self.failures = 0
        self.lead_times = LeadTimes()
        self._platform = platform
        self._backoff = backoff
        self._drain_s = drain_s
        self._starts_per_pass = starts_per_pass
        self._names = names
        self._members: dict[str, Member] = {}
        self._vacancies: list[Vacancy] = []
        self._tidied_s = 0.0
        self._log = log.bind(job=job)

    def adopt(self, now: Moment) -> None:
        """Take over the workers of the platform. The dead among them are found by the next pass."""
        self._vacancies.clear()
        self._members = {facts.id: self._member(facts, now) for facts in self._platform.found()}
        for worker, member in self._members.items():
            self._log.info("worker_adopted", worker=worker, where=member.facts.where)

    def join(self, now: Moment) -> None:
        """Take in what another controller has started or asked to leave since the last pass."""
        for facts in self._platform.found():
            known = self._members.get(facts.id)
            drains = known is not None and known.drain_until_s is not None
            if known is None or (facts.draining_at_s is not None and not drains):
                self._members[facts.id] = self._member(facts, now)

    def on_record(self, now: Moment) -> tuple[Worker, ...]:
        """Everyone that the platform tells of, for a pool that only looks on."""
        return tuple(self._member(facts, now).shown() for facts in self._platform.found())

    def reconcile(self, intent: Intent, now: Moment) -> Intent:
        """One pass; the intent comes back with the worker ids used up."""
        for worker, sight in self._platform.look(self._members).items():
            member = self._members[worker]
            if sight.ended is not None:
                self._settle(member, sight.ended, now)
            elif sight.ready and member.ready_since_s is None:
                self._welcome(member, sight.node, now)
        self._drain(intent, now)
        self._see_off(now)
        intent = self._fill(intent, now)
        if now.steady_s - self._tidied_s >= _TIDY_EVERY_S:
            self._tidied_s = now.steady_s
            self._platform.tidy(self._members)
        return intent

    def kill_all(self) -> None:
        """End everyone now, and forget who has gone. Starts nobody, whatever was asked for."""
        for worker in self._members:
            self._platform.kill(worker)
        for worker, sight in self._platform.look(self._members).items():
            if sight.ended is not None:
                self._platform.forget(worker)
                del self._members[worker]

    @property
    def empty(self) -> bool:
        """Nobody is left, draining ones included."""
        return not self._members

    def workers(self) -> tuple[Worker, ...]:
        """Everyone, and whoever died in a place that waits for its next try."""
        waiting = (
            Worker(place.lost, WorkerPhase.FAILED, place.lost_started_at_s)
            for place in self._vacancies
            if place.lost
        )
        return (*(member.shown() for member in self._members.values()), *waiting)

    def trouble(self, now: Moment) -> str:
        """What keeps the pool from its size: the place with the longest story, and how many more."""
        told = [(place.strikes, place.waiting(now.steady_s)) for place in self._vacancies if place.why]
        complaints = (member.complaint(now.steady_s) for member in self._members.values())
        told.extend(complaint for complaint in complaints if complaint is not None)
        if not told:
            return ""
        worst = max(told)[1]
        return worst if len(told) == 1 else f"{worst} (and {len(told) - 1} more)"

    def _member(self, facts: WorkerFacts, now: Moment) -> Member:
        def steady_of(wall_s: float | None, at_most_s: float) -> float | None:
            return None if wall_s is None else now.steady_of(wall_s, at_most_s=at_most_s)

        told_at_s = facts.draining_at_s if facts.told_at_s is None else facts.told_at_s
        draining_s = steady_of(told_at_s, self._drain_s)
        return Member(
            facts,
            asked_s=now.steady_of(facts.asked_at_s, at_most_s=_LONGEST_START_S),
            ready_since_s=steady_of(facts.ready_at_s, self._backoff.healthy_s),
            drain_until_s=None if draining_s is None else draining_s + self._drain_s,
        )

    def _settle(self, member: Member, ended: Exit, now: Moment) -> None:
        """A worker has ended: clean up, and if nobody asked it to, count it and keep its place."""
        worker = member.facts.id
        last_line = self._platform.last_line(worker)
        self._platform.forget(worker)
        del self._members[worker]
        if member.phase is WorkerPhase.DRAINING:
            self._log.info("worker_left", worker=worker, exit=str(ended))
            return
        self.failures += 1
        place = self._vacated(member, ended, last_line, now)
        self._vacancies.append(place)
        self._log.warning("worker_lost", worker=worker, exit=str(ended), strikes=place.strikes, log=last_line)

    def _vacated(self, member: Member, ended: Exit, last_line: str, now: Moment) -> Vacancy:
        facts, since_s = member.facts, member.ready_since_s
        strikes = self._backoff.strikes_after(
            facts.strikes, ready_for_s=None if since_s is None else now.steady_s - since_s
        )
        early = " before it was ready" if since_s is None else ""
        return Vacancy(
            due_s=now.steady_s + self._backoff.wait_s(strikes),
            strikes=strikes,
            why=f"worker {facts.id} {ended}{early}",
            last_line=last_line,
            lost=facts.id,
            lost_started_at_s=facts.started_at_s,
        )

    def _welcome(self, member: Member, node: str, now: Moment) -> None:
        """A worker has become ready. One that drains already is too late to be told of."""
        facts = replace(member.facts, ready_at_s=now.wall_s, node=node or member.facts.node)
        self._platform.note(facts)
        member.facts, member.ready_since_s = facts, now.steady_s
        if member.phase is WorkerPhase.READY:
            took_s = max(0.0, now.steady_s - member.asked_s)
            self.lead_times.note(LeadTime(facts.id, facts.asked_at_s, took_s))
            self._log.info("worker_ready", worker=facts.id, took_s=round(took_s, 3))

    def _drain(self, intent: Intent, now: Moment) -> None:
        staying = [member.shown() for member in self._members.values() if member.drain_until_s is None]
        for worker in choose_victims(staying, keep=intent.requested, remove=intent.remove):
            member = self._members[worker]
            facts = replace(member.facts, draining_at_s=now.wall_s)
            # Noted before it is done: a death after the note is never taken for a failure.
            self._platform.note(facts)
            member.facts, member.drain_until_s = facts, now.steady_s + self._drain_s
            self._ask_to_leave(member, now)
            self._log.info("worker_draining", worker=worker, drain_s=self._drain_s)

    def _ask_to_leave(self, member: Member, now: Moment) -> None:
        """Once, as far as can be: a worker asked twice may take it for haste. Its time counts from here:
        who was not told yet keeps its leases alive."""
        self._platform.ask_to_leave(member.facts.id)
        member.facts = replace(member.facts, told_at_s=now.wall_s)
        member.drain_until_s = now.steady_s + self._drain_s
        self._platform.note(member.facts)

    def _see_off(self, now: Moment) -> None:
        """Kill who had its time to leave, and ask again who may not have been able to hear."""
        for worker, member in self._members.items():
            if member.drain_until_s is None:
                continue
            if member.facts.told_at_s is None:
                # The last controller died between the note and the signal, or the platform did not take it.
                self._ask_to_leave(member, now)
            elif now.steady_s >= member.drain_until_s:
                self._platform.kill(worker)
            elif member.ready_since_s is None:
                # A container's first process is deaf until it has a handler; and haste does no harm.
                self._platform.ask_to_leave(worker)

    def _fill(self, intent: Intent, now: Moment) -> Intent:
        """Start what is missing and due. Places no longer wanted go, those with most strikes first."""
        staying = sum(member.drain_until_s is None for member in self._members.values())
        missing = max(0, intent.requested - staying)
        self._vacancies.sort(key=lambda place: (place.strikes, place.due_s))
        del self._vacancies[missing:]
        fresh = missing - len(self._vacancies)
        self._vacancies.extend([Vacancy(due_s=now.steady_s)] * fresh)
        due = [place for place in self._vacancies if place.due_s <= now.steady_s][: self._starts_per_pass]
        if not due:
            return intent
        first = intent.next_worker
        intent = self._platform.reserve(intent, len(due))
        for number, place in enumerate(due, start=first):
            self._vacancies.remove(place)
            self._start(f"{self._names}-{number}", place, now, node=self._lacking(intent))
        return intent

    def _lacking(self, intent: Intent) -> str:
        """A node with fewer workers than it should have; empty where none is named, or has too few."""
        staying = [member.facts.node for member in self._members.values() if member.drain_until_s is None]
        return next(iter((Counter(intent.nodes) - Counter(staying)).elements()), "")

    def _start(self, worker: str, place: Vacancy, now: Moment, *, node: str) -> None:
        asked_at_s = now.wall_s - (now.steady_s - place.due_s)
        wanted = WorkerFacts(worker, asked_at_s, now.wall_s, strikes=place.strikes, node=node)
        try:
            facts = self._platform.start(wanted)
        except NotStarted as error:
            self._put_off(place, str(error), now)
            return
        self._members[worker] = Member(facts, asked_s=place.due_s, place=place if place.why else None)

    def _put_off(self, place: Vacancy, why: str, now: Moment) -> None:
        strikes = place.strikes + 1
        due_s = now.steady_s + self._backoff.wait_s(strikes)
        self._vacancies.append(replace(place, due_s=due_s, strikes=strikes, why=why, last_line=""))
        self._log.warning("worker_not_started", why=why, strikes=strikes)
