"""The latest of each job as a document: made here while we lead, read from the store otherwise."""

from __future__ import annotations

from typing import Protocol

import structlog
from pydantic import ValidationError

from services.control.errors import StateUnavailable
from services.control.loop import Tick
from services.control.ports import Clock, Leadership
from services.control.training_quality import pooled
from services.control.types import Shuffle
from services.controller.book import JobBook
from services.controller.hindsight import Hindsight
from services.controller.journal import Journal
from services.controller.snapshot import JobSnapshot
from services.controller.views.forecast import ModelScore, TrainingView
from services.controller.views.quality import QualityView
from services.store.snapshots import SnapshotStore
from shuffler.lease import Progress

log = structlog.get_logger(__name__)

_QUALITY_EVERY_S = 5.0


class Sources(Protocol):
    """Where the parts come from."""

    @property
    def leadership(self) -> Leadership: ...

    @property
    def snapshots(self) -> SnapshotStore: ...

    async def progress(self, name: str) -> Progress: ...

    def scores(self, name: str) -> tuple[ModelScore, ...]: ...

    def training(self, name: str) -> TrainingView | None: ...


class Showcase:
    """Listens to the ticks for what they alone know; makes documents when asked."""

    def __init__(
        self, journal: Journal, book: JobBook, sources: Sources, *, clock: Clock, silent_after_s: float
    ) -> None:
        self._clock = clock
        self._silent_after_s = silent_after_s
        self._journal = journal
        self._book = book
        self._sources = sources
        self._hindsight: dict[str, Hindsight] = {}
        self._quality: dict[str, tuple[float, QualityView | None]] = {}
        self._made: dict[str, tuple[Tick, JobSnapshot]] = {}

    def told(self, tick: Tick) -> None:
        """Remember what the forecast says of the moment for which scaling has to be ready."""
        record = self._book.get(tick.job)
        if tick.seen is None or tick.seen.forecast is None or record is None:
            return
        hindsight = self._hindsight.setdefault(tick.job, Hindsight())
        hindsight.told(tick.seen.forecast, lead_s=record.settings.scaling.lead_time_s)

    def forget(self, job: str) -> None:
        """The job was deleted: one of the same name starts afresh."""
        for kept in (self._hindsight, self._quality, self._made):
            kept.pop(job, None)

    async def snapshot(self, job: str) -> JobSnapshot | None:
        """Our own while we lead, the leader's otherwise. Raises StateUnavailable."""
        leads = self._sources.leadership.token() is not None
        found = await (self._own(job) if leads else self._left(job))
        return None if found is None else self._or_silent(found)

    async def _left(self, job: str) -> JobSnapshot | None:
        """What the leader has left in the store."""
        raw = await self._sources.snapshots.get(job)
        if raw is None:
            return None
        try:
            return JobSnapshot.model_validate_json(raw)
        except ValidationError as error:
            log.warning("snapshot_unreadable", job=job, why=str(error))
            return None

    def _or_silent(self, snapshot: JobSnapshot) -> JobSnapshot:
        """What a dead leader left, or a loop that hangs, is not how the job does now, and says so."""
        silent_s = self._clock.now_s() - snapshot.at_s
        if silent_s <= self._silent_after_s:
            return snapshot
        why = f"no decision for {silent_s:.0f} s: no controller leads, or its loop hangs; all here is old"
        return snapshot.model_copy(update={"degraded": True, "trouble": why})

    async def document(self, job: str) -> bytes | None:
        """Our own, for the store."""
        snapshot = await self._own(job)
        return None if snapshot is None else snapshot.model_dump_json().encode()

    async def _own(self, job: str) -> JobSnapshot | None:
        status, record = self._journal.status(job), self._book.get(job)
        if status is None or record is None:
            return None
        made = self._made.get(job)
        if made is not None and made[0] is status.tick:
            return made[1]
        hindsight = self._hindsight.get(job)
        snapshot = JobSnapshot.of(
            status,
            record.settings,
            said=hindsight.until(status.tick.at_s) if hindsight else (),
            scores=self._sources.scores(job),
            training=self._sources.training(job),
            quality=await self._quality_of(job, status.tick.at_s),
        )
        self._made[job] = (status.tick, snapshot)
        return snapshot

    async def _quality_of(self, job: str, now_s: float) -> QualityView | None:
        record = self._book.get(job)
        if record is None or record.settings.shuffle.mode is not Shuffle.LEASES:
            return None  # without a ledger nobody counts the late ones
        asked_at_s, known = self._quality.get(job, (float("-inf"), None))
        if now_s - asked_at_s < _QUALITY_EVERY_S:
            return known
        try:
            progress = await self._sources.progress(job)
        except StateUnavailable as error:
            log.debug("quality_not_known", job=job, why=str(error))
            return known
        status = self._journal.status(job)
        by_arrival = status.seen.traffic.late_share if status and status.seen else None
        by_event_time = progress.late / progress.trained if progress.trained else 0.0
        model = pooled(report.quality for report in status.seen.reports) if status and status.seen else None
        view = QualityView(
            trained=progress.trained,
            late=progress.late,
            late_share=by_event_time if by_arrival is None else by_arrival,
            late_share_by_event_time=by_event_time,
            repeated=progress.repeated,
            lost=progress.lost,
            auc=model.auc if model else None,
            logloss=model.logloss if model else None,
            sample_age_s=model.sample_age_s if model else None,
            evaluated=model.samples if model else None,
            skipped_batches=model.skipped if model else None,
            rejected=model.rejected if model else None,
        )
        self._quality[job] = (now_s, view)
        return view
