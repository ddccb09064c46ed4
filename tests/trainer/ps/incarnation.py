"""One process of a shard in a world of virtual time: the real one but for sockets, disk and Redis."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from services.control.errors import StateUnavailable
from services.samples.layout import Ids
from services.settings import Settings
from services.stream.plan import StreamPlan
from services.stream.ports import LeaseLedger
from services.trainer.ps.directory import RedisDirectory
from services.trainer.ps.errors import ShardMissing, ShardSuperseded, ShardUnavailable
from services.trainer.ps.link import ShardAddress
from services.trainer.ps.peers import Peers
from services.trainer.ps.placement import SLOTS, SlotMap
from services.trainer.ps.server import ServiceTimes
from services.trainer.ps.shard import Shard
from services.trainer.ps.slots import Heir
from services.trainer.ps.snapshot import Position, Snapshot, SnapshotVault
from services.trainer.ps.wire import SLOT, Operation

if TYPE_CHECKING:
    from tests.trainer.ps.world import World

LEAVES_WITHIN_S: Final = 60.0
"""Virtual: a leaving shard waits for nobody, but its last questions may take until they time out."""
NO_KEYS: Ids = np.empty(0, np.uint64)

here: ContextVar[Incarnation | None] = ContextVar("here", default=None)
"""The process that does what is being done."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Whenever nothing is left to do, it is as late as the next thing to do."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        cast(Any, self)._selector.select = lambda _: []  # nothing comes from outside

    def time(self) -> float:
        return self.now_s

    def _run_once(self) -> None:
        inner = cast(Any, self)
        if not inner._ready and inner._scheduled:
            self.now_s = max(self.now_s, inner._scheduled[0]._when)
        inner_run: Callable[[], None] = getattr(super(), "_run_once")  # noqa: B009 - typeshed hides it
        inner_run()


class SeededTimes(ServiceTimes):
    """As busy as chance has it, until there is peace."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def turn(self) -> None:
        self.busy = 0.0 if self._world.peace else self._world.random.choice((0.05, 1.0))


class Vault:
    """Snapshots that outlive their process. A kill before the end of a write leaves the one before."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, Snapshot]] = []
        """By epoch of the process that wrote it, in the order of names."""

    def opened(self) -> OpenVault:
        """As one process sees it."""
        return OpenVault(self)

    def latest(self) -> Snapshot | None:
        return self.kept[-1][1] if self.kept else None


class OpenVault:
    """Implements SnapshotVault, for one process."""

    def __init__(self, vault: Vault) -> None:
        self.epoch = 0
        self._vault = vault

    @property
    def newest_epoch(self) -> int:
        return self._vault.kept[-1][0] if self._vault.kept else 0

    def write(self, snapshot: Snapshot) -> Path:
        kept = self._vault.kept
        kept.append((self.epoch, snapshot))
        kept.sort(key=lambda each: each[0])  # stable: within an epoch the last is the newest
        return Path(f"{len(kept)}.npz")

    def latest(self) -> Snapshot | None:
        return self._vault.latest()

    def take_over(self, restored: Snapshot) -> None:
        self._vault.kept = [(self.epoch, dataclasses.replace(restored, clean=False))]


class Directory:
    """The store: who is where, and whose the slots are."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.addresses: dict[int, ShardAddress] = {}
        self.epochs = Counter[int]()
        self.map = SlotMap((np.arange(SLOTS) % world.shards).astype(np.uint16))

    def find(self, shard: int) -> ShardAddress:
        self._answers()
        if shard not in self.addresses:
            raise ShardMissing("clicks", shard)
        if self.addresses[shard].epoch < self.epochs[shard]:
            raise ShardUnavailable("sim", "another process of this shard is taking over")
        return self.addresses[shard]

    def claim(self, shard: int, *, after: int = 0) -> int:
        self._answers()
        self.epochs[shard] = max(self.epochs[shard], after) + 1
        return self.epochs[shard]

    def newest(self, shard: int) -> int:
        self._answers()
        return self.epochs[shard]

    def known(self, shard: int) -> bool:
        return shard in self.addresses

    def enter(self, shard: int, address: ShardAddress) -> None:
        self._check({shard: address.epoch})
        self.addresses[shard] = address

    def slots(self, shards: int) -> SlotMap:
        del shards
        self._answers()
        return self.map

    def give(self, slot: int, *, to: int, shards: int, while_: Mapping[int, int]) -> None:
        del shards
        self._answers()
        self._check(while_)
        self.map = self.map.moved(slot, to)
        self._world.moves += 1

    def _check(self, epochs: Mapping[int, int]) -> None:
        for shard, epoch in epochs.items():
            if self.epochs[shard] > epoch:
                raise ShardSuperseded(shard, epoch=epoch, newest=self.epochs[shard])

    def _answers(self) -> None:
        if self._world.store_away:
            raise StateUnavailable("redis")


class SimulatedShard(Shard):
    """A real one with the world's peers, and a stream that can be rewound."""

    def __init__(self, world: World, number: int) -> None:
        parameters = {
            "shards": world.shards,
            "dim": world.row_size - 1,
            "rows_max": 200,
            "forget": 0.0,
            "relief": 0.1,
            "relief_s": 0.2,
            "snapshot_s": 2.0,
        }
        settings = Settings.model_validate(
            {"jobs": {"clicks": {"topic": "clicks", "parameters": parameters}}}
        )
        super().__init__(settings, "clicks", number)
        self.plan = StreamPlan.of("clicks", settings.jobs["clicks"])
        self._world = world
        self.vault = cast(SnapshotVault, world.vaults[number].opened())
        self.server.times = SeededTimes(world)

    def _peers(self, directory: RedisDirectory) -> Peers:
        return cast(Peers, WorldPeers(self._world, Heir(self._shard, self.epoch)))

    def _train_again(self, plan: StreamPlan, ledger: LeaseLedger, position: Position) -> None:
        progress = ledger.progress()
        starts = position.starts_again(progress) or dict(progress.watermarks)
        ledger.reset(starts, {0: self._world.released})
        self._world.rewound += 1


class Incarnation:
    """One process of a shard: all that it does ends with it."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self.number = number
        self.alive = True
        self.listens = False
        self.doing = Counter[str]()
        """What it is in the middle of: where a kill hits it."""
        # In order, which sets of tasks are not: a seed is to be one history.
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.replies: dict[asyncio.Future[bytes], None] = {}
        self.calls: dict[asyncio.Task[Any], None] = {}
        self.turn = asyncio.Lock()
        self.leaving = asyncio.Event()
        self.shard = SimulatedShard(world, number)
        world.everyone[self.shard.server.secret] = self
        cast(Any, self.shard.server).close = self._hang_up
        self.life = world.spawn(self._live(), of=self)

    async def _live(self) -> None:
        world, directory = self._world, cast(RedisDirectory, self._world.directory)
        while world.store_away:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.5)
        self.shard.begin(self.shard.plan, directory, world.ledger, known=directory.known(self.number))
        await world.pause()
        where = ShardAddress("sim", 1, self.shard.server.secret, self.shard.epoch)
        try:
            directory.enter(self.number, where)
        except ShardSuperseded:
            return
        self.listens = True
        await self.shard.serve(directory, world.ledger, self.leaving)

    async def _hang_up(self) -> None:
        self.listens = False
        for call in list(self.calls):
            call.cancel()
        self.drop_replies()

    def drop_replies(self) -> None:
        for reply in list(self.replies):
            if not reply.done():
                reply.set_exception(ShardUnavailable("sim", "it hung up"))

    def kill(self) -> None:
        self._world.killed_while.update(key for key, count in self.doing.items() if count > 0)
        self.alive = self.listens = False
        for task in list(self.tasks):
            task.cancel()
        self.drop_replies()

    async def leave(self) -> None:
        """In order, as after SIGTERM; its process ends when its threads have ended."""
        self.leaving.set()
        done, _ = await asyncio.wait({self.life}, timeout=LEAVES_WITHIN_S)
        assert done, f"shard {self.number} does not leave"
        self.life.result()
        while any(not task.done() for task in self.tasks):  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.01)
        self.alive = False


class WorldPeer:
    """One process of another shard, as long as it is there."""

    def __init__(self, world: World, target: Incarnation | None, asking: Heir) -> None:
        self._world = world
        self._target = target
        self._asking = asking

    async def ask(self, operation: Operation, slot: int | None = None) -> bytes:
        numbers = b"" if slot is None else SLOT.pack(slot, *self._asking)
        me = here.get()
        with self._world.doing(me, f"asking {operation.name}"):
            return await self._world.asked(self._target, operation, NO_KEYS, numbers)


class WorldPeers:
    """Implements Peers within the world."""

    def __init__(self, world: World, asking: Heir) -> None:
        self._world = world
        self._asking = asking

    async def find(self, shard: int) -> WorldPeer:
        address = await asyncio.to_thread(self._world.directory.find, shard)
        return WorldPeer(self._world, self._world.everyone[address.secret], self._asking)

    async def owner_of(self, slot: int) -> int:
        slots = await asyncio.to_thread(self._world.directory.slots, self._world.shards)
        return int(slots.shard_of[slot])
