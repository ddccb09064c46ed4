"""A shard's life: restore, rewind what was lost, serve, keep snapshots, leave in order."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from services.control.errors import StateUnavailable
from services.control.types import Shuffle
from services.settings.root import Settings
from services.settings.trainer import ParameterSettings
from services.store.connect import connect_sync
from services.store.errors import StateCorrupt
from services.store.keys import Keys
from services.stream import position as stream_position
from services.stream.errors import SourceMissing, StreamError
from services.stream.plan import StreamPlan
from services.stream.ports import LeaseLedger
from services.stream.redis_ledger import RedisLedger
from services.stream.topic import Topic
from services.trainer.ps.adoption import Adoption
from services.trainer.ps.desk import ShardDesk
from services.trainer.ps.directory import RedisDirectory
from services.trainer.ps.errors import ShardError
from services.trainer.ps.link import ShardAddress
from services.trainer.ps.peers import LinkedPeers, Peers
from services.trainer.ps.server import ShardServer
from services.trainer.ps.slots import Heir
from services.trainer.ps.snapshot import Position, Snapshot, SnapshotVault
from services.trainer.ps.table import Learning
from services.trainer.ready import say_ready
from shuffler.errors import NotOpened
from shuffler.lease import Progress

_log = structlog.get_logger(__name__)

EXIT_LEFT: Final = 0
EXIT_UNAVAILABLE: Final = 69
_RETRY_S: Final = 0.5
_LISTED_S: Final = 1.0
"""Between two looks whether the store still names this process."""


@dataclass(frozen=True, slots=True)
class Listen:
    """Where a shard listens, and the name or address by which workers reach it: not always the same."""

    host: str
    port: int
    advertised: str


def run_shard(settings: Settings, job: str, shard: int, listen: Listen, *, connect_s: float) -> int:
    """Serve one shard of a job's parameters until SIGTERM or SIGINT; the exit code."""
    try:
        asyncio.run(Shard(settings, job, shard).live(listen, connect_s=connect_s))
    except (StreamError, StateUnavailable, StateCorrupt, ShardError, OSError) as error:
        _log.critical("shard_gave_up", job=job, shard=shard, why=str(error))
        return EXIT_UNAVAILABLE
    _log.info("shard_left", job=job, shard=shard)
    return EXIT_LEFT


def learning_of(wanted: ParameterSettings) -> Learning:
    """How the settings want parameters to follow their gradients."""
    return Learning(
        rate=wanted.learning_rate,
        dense_rate=wanted.dense_learning_rate,
        forget=wanted.forget,
        admit_after=wanted.admit_after,
    )


class Shard:
    """One shard process."""

    def __init__(self, settings: Settings, job: str, shard: int) -> None:
        self._settings = settings
        self._job = job
        self._shard = shard
        self._leases = settings.jobs[job].shuffle.mode is Shuffle.LEASES
        wanted = self._wanted = settings.jobs[job].parameters
        self.desk = ShardDesk(row_size=1 + wanted.dim, rows_max=wanted.rows_max, learning=learning_of(wanted))
        self._directory: RedisDirectory | None = None
        self.epoch = 0
        """Which process of the shard this is: claimed at its start, higher than all before."""
        self.server = ShardServer(self.desk, service_ms=wanted.service_ms, giver=self._give)
        self._keeping = asyncio.Lock()
        """Rows on their way here are as good as the watermark that was read before them: no other snapshot
        may have them."""
        self.vault = SnapshotVault(
            Path(wanted.directory) / job / f"shard-{shard}", kept=wanted.snapshots_kept
        )
        self._log = _log.bind(job=job, shard=shard)

    async def live(self, listen: Listen, *, connect_s: float) -> None:
        """From the restored snapshot to the last one.

        Raises StreamError, StateUnavailable, StateCorrupt, ShardSuperseded, SnapshotMisfit, OSError.
        """
        leaving = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, leaving.set)
        redis = self._settings.redis
        plan = StreamPlan.of(self._job, self._settings.jobs[self._job])
        with ExitStack() as stack:
            client = stack.enter_context(closing(connect_sync(redis)))
            ledger = RedisLedger(client, Keys(redis.prefix), self._job, plan.terms)
            directory = RedisDirectory(
                client, Keys(redis.prefix), self._job, capacities=self._wanted.capacities
            )
            known = await self._within(connect_s, directory, leaving)
            self.begin(plan, directory, ledger, known=known)
            self.desk.warm_up()
            bound = await self.server.start(listen.host, listen.port)
            where = ShardAddress(listen.advertised, bound, self.server.secret, self.epoch)
            directory.enter(self._shard, where)
            self._log.info("shard_ready", pid=os.getpid(), host=listen.advertised, port=bound)
            say_ready()
            await self.serve(directory, ledger, leaving)

    def begin(self, plan: StreamPlan, directory: RedisDirectory, ledger: LeaseLedger, *, known: bool) -> None:
        """Be what this shard was, with the slots that the store gives it.

        Its place is claimed first: a process of it that still lives then has no say in the store, and
        workers that lease anything after the ledger was moved go where this one will be. Raises
        StreamError, StateUnavailable, StateCorrupt, SnapshotMisfit.
        """
        self._directory = directory
        self.epoch = self.vault.epoch = directory.claim(self._shard, after=self.vault.newest_epoch)
        self.desk.slots.settle(directory.slots(self._wanted.shards), self._shard)
        restored = self._restore(plan, ledger, known=known)
        try:
            self.vault.take_over(restored or Snapshot.of(self.desk, Position()))
        except OSError as error:
            self._log.error("snapshot_failed", why=str(error), remedy="make room; the next one is tried")

    def _restore(self, plan: StreamPlan, ledger: LeaseLedger, *, known: bool) -> Snapshot | None:
        """The newest snapshot, and the ledger to where it is good for. Raises StreamError, SnapshotMisfit."""
        snapshot = self.vault.latest()
        if snapshot is None:
            if known:
                self._train_again(plan, ledger, Position())
            return None
        snapshot.restore(self.desk)
        self._log.info("snapshot_restored", rows=len(self.desk.table), clean=snapshot.clean)
        if snapshot.lacks(self.desk.slots.served):  # the newest could not be read
            self._train_again(plan, ledger, Position())
        elif not snapshot.clean:
            self._train_again(plan, ledger, snapshot.position)
        return snapshot

    async def serve(self, directory: RedisDirectory, ledger: LeaseLedger, leaving: asyncio.Event) -> None:
        """Until asked to leave, with a last snapshot, or until another process is this shard."""
        superseded = asyncio.create_task(self._superseded(directory, leaving))
        relieving = asyncio.create_task(_until(leaving, self._relieve(directory, ledger)))
        await self._keep_snapshots(ledger, leaving)
        await asyncio.gather(relieving, return_exceptions=True)
        await self.server.close()
        if await superseded:
            self._log.error("shard_superseded", remedy="another process serves it; its snapshots count")
        else:
            await self.keep(ledger, clean=True)

    def _give(self, slot: int, heir: Heir) -> None:
        if self._directory is not None:
            epochs = {self._shard: self.epoch, heir.shard: heir.epoch}
            self._directory.give(slot, to=heir.shard, shards=self._wanted.shards, while_=epochs)

    def _peers(self, directory: RedisDirectory) -> Peers:
        return LinkedPeers(directory, shard=self._shard, shards=self._wanted.shards, epoch=self.epoch)

    async def _relieve(self, directory: RedisDirectory, ledger: LeaseLedger) -> None:
        """Look every `relief_s` whether another shard is much busier, and take slots from it."""
        if self._wanted.shards == 1:
            return
        shards = self._wanted.shards
        adoption = Adoption(
            self.desk,
            self._peers(directory),
            shard=self._shard,
            shards=shards,
            keep=partial(self._kept, ledger),
        )
        async with self._keeping:
            await _insistently(adoption.resolve)
        while True:
            await asyncio.sleep(self._wanted.relief_s)
            try:
                await self.server.give_away()
                if self._wanted.relief is not None:
                    busy = self.server.figures()["busy"]
                    async with self._keeping:
                        await adoption.relieve(busy_here=busy, difference=self._wanted.relief)
            except (ShardError, StateUnavailable) as error:
                self._log.warning("relief_postponed", why=str(error))
            self.desk.slots.fade()

    async def _superseded(self, directory: RedisDirectory, leaving: asyncio.Event) -> bool:
        """Whether another process has claimed this shard by the time this one leaves; then it leaves at once.

        Workers that still push here teach a shard that nobody restores.
        """
        left = False
        while True:
            try:
                if await asyncio.to_thread(directory.newest, self._shard) > self.epoch:
                    leaving.set()
                    return True
            except StateUnavailable:
                pass  # nobody knows; the next look will tell
            if left:
                return False
            left = await _happened(leaving, within_s=_LISTED_S)

    async def _within(self, connect_s: float, directory: RedisDirectory, leaving: asyncio.Event) -> bool:
        """Whether this shard was there before; Redis has `connect_s` to tell."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + connect_s
        while True:
            try:
                return directory.known(self._shard)
            except StateUnavailable:
                if loop.time() >= deadline_s or leaving.is_set():
                    raise
                await asyncio.sleep(_RETRY_S)

    def _train_again(self, plan: StreamPlan, ledger: LeaseLedger, position: Position) -> None:
        """What was trained after the snapshot is lost here: back to its watermark. Raises StreamError."""
        if not self._leases:
            return  # Kafka's own groups have no ledger
        with closing(Topic(self._settings.kafka, plan.topic, plan.group)) as topic:
            try:
                progress = ledger.progress()
            except NotOpened:
                progress = _as_committed(topic)
                if not progress.watermarks:
                    return
            # With nothing to train again the ledger is moved to where it stands: its epoch rises, so that
            # whoever leases from now on looks where this shard is, and does not teach a process that it
            # superseded.
            starts = position.starts_again(progress) or dict(progress.watermarks)
            starts = stream_position.rewind(topic, ledger, starts)
        again = sum(progress.watermarks[p] - start for p, start in starts.items() if p in progress.watermarks)
        self._log.warning(
            "ledger_rewound", samples_again=max(0, again), why="this shard lost what they taught, if any"
        )

    async def _keep_snapshots(self, ledger: LeaseLedger, leaving: asyncio.Event) -> None:
        """One as soon as the ledger is open, then one every `snapshot_s`."""
        wait_s = _RETRY_S
        while not await _happened(leaving, within_s=wait_s):
            wait_s = self._wanted.snapshot_s if await self.keep(ledger) else _RETRY_S

    async def keep(self, ledger: LeaseLedger, *, clean: bool = False) -> bool:
        """A snapshot, and not in the middle of a slot's way here; False when there is none yet."""
        async with self._keeping:
            return await self._kept(ledger, clean=clean)

    async def _kept(
        self, ledger: LeaseLedger, bring: Callable[[], Awaitable[None]] | None = None, *, clean: bool = False
    ) -> bool:
        """The watermark first, then the parameters: a sample may be in twice, and is never missing.

        Rows of another shard that are to be in it are fetched by `bring` in between. False when there is
        no snapshot of them, or none at all yet.
        """
        position = await self._position(ledger, clean=clean)
        if position is None:
            return False
        if bring is not None:
            await bring()
        snapshot = Snapshot.of(self.desk, position, clean=clean)
        try:
            path = await asyncio.to_thread(self.vault.write, snapshot)
        except OSError as error:
            self._log.error(
                "snapshot_failed", why=str(error), remedy="make room; the snapshot before it is still whole"
            )
            return bring is None
        self._log.info("snapshot_kept", path=path.name, **self.server.figures())
        return True

    async def _position(self, ledger: LeaseLedger, *, clean: bool) -> Position | None:
        """How far the stream is trained; None when that cannot be told now."""
        try:
            return Position.of(await asyncio.to_thread(ledger.progress))
        except NotOpened:
            # Kafka's own groups know how far they are.
            return None if self._leases and not clean else Position()
        except StreamError as error:
            self._log.warning("snapshot_postponed", why=str(error))
            return None


def _as_committed(topic: Topic) -> Progress:
    """What Redis has lost of the ledger, as far as the group knows it: the next worker would start there.

    Only what we committed: where others stopped, or an operator wants to be, nothing of ours was trained.
    Raises StreamError.
    """
    try:
        commits = topic.committed(topic.partitions())
    except SourceMissing:
        commits = {}
    marks = {partition: commit.offset for partition, commit in commits.items() if commit.epoch is not None}
    return Progress(marks, marks, trained=0, late=0, repeated=0, lost=0, epoch=0, topic_id=topic.id())


async def _insistently(task: Callable[[], Awaitable[None]]) -> None:
    """Until the store answers."""
    while True:
        try:
            await task()
        except StateUnavailable:
            await asyncio.sleep(_RETRY_S)
        else:
            return


async def _until(event: asyncio.Event, task: Awaitable[None]) -> None:
    """Do it until that happens. Relief may wait for another shard for ever, and snapshots wait for relief."""
    doing = asyncio.ensure_future(task)
    await event.wait()
    doing.cancel()
    await asyncio.gather(doing, return_exceptions=True)


async def _happened(event: asyncio.Event, *, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
