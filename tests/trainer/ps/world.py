"""Shards that move slots among themselves while workers train and anybody may be killed at any step.

The shards are the real ones but for sockets, disk and Redis; time is virtual, and every step that would take
time takes a seeded one: so each seed is one history, the same at every run, and kills fall between any two.

A sample teaches each of its keys one number of their rows, so a row tells which samples it has learned; and
the sum of squares, which grows alike with each, how many times in all.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar, cast

import numpy as np

from services.control.errors import StateUnavailable
from services.samples.layout import Floats, Ids
from services.stream.memory_ledger import MemoryLedger
from services.stream.ports import LeaseLedger
from services.trainer.ps.desk import ShardDesk
from services.trainer.ps.errors import ShardMissing, ShardMoved, ShardRefused, ShardUnavailable
from services.trainer.ps.placement import SLOTS, slots_of
from services.trainer.ps.wire import Operation, Verdict
from shuffler.errors import LeaseLost
from shuffler.ledger import Terms
from tests.trainer.ps.incarnation import NO_KEYS, Directory, Incarnation, Vault, VirtualLoop, here
from tests.trainer.ps.shards import desk

SAMPLES: Final = 80
ROW_SIZE: Final = SAMPLES
HOT_SLOTS: Final = 8
KEYS_A_SLOT: Final = 2
LINK_TIMEOUT_S: Final = 10.0
SETTLES_WITHIN_S: Final = 600.0
NO_PLACES: Final = np.empty(0, np.intp)
Links = dict[int, Incarnation]
"""A worker's connections, by shard."""

Value = TypeVar("Value")

STEPS = (
    *(f"asking {name}" for name in ("STATS", "COPY", "TAKE", "RELEASE")),
    "serving RELEASE",
    *(f"{when} {what}" for what in ("progress", "write", "give", "slots") for when in ("before", "after")),
)
"""Where kills are aimed at: before and after whatever another process or the disk learns of."""


class World:
    """One history. `gentle` ones have no kills and lose nothing on the way."""

    def __init__(self, seed: int, *, shards: int = 2, gentle: bool = False, usurping: float = 0.1) -> None:
        """`usurping` is how many of the misfortunes are a second process of a shard that lives."""
        self._usurping = usurping
        self.random = random.Random(seed)
        self.shards = shards
        self.row_size = ROW_SIZE
        self.gentle = gentle
        self.peace = self.store_away = False
        self.broken: list[str] = []
        self.moves = self.rewound = self.released = 0
        self.killed_while = Counter[str]()
        self.directory = Directory(self)
        self.vaults = [Vault() for _ in range(shards)]
        self.latest: dict[int, Incarnation] = {}
        self.everyone: dict[str, Incarnation] = {}
        """By secret: every process that ever was."""
        self.usurped = 0
        self.loop = VirtualLoop()
        self.ledger: LeaseLedger = MemoryLedger(Terms(ttl_s=1e9), now_s=self.loop.time)
        slots = self.random.sample(range(SLOTS), HOT_SLOTS)
        self.keys = [(slot << 54) + 7 * number for slot in slots for number in range(KEYS_A_SLOT)]
        self.lessons = [self.random.sample(self.keys, self.random.randint(1, 4)) for _ in range(SAMPLES)]
        self._trap: tuple[str, bool] | None = None
        self._caught = asyncio.Event()

    def run(self) -> None:
        """All of it, with its promises checked on the way and at the end."""
        self.loop.set_task_factory(cast(Any, self._factory))
        unpatched, asyncio.to_thread = asyncio.to_thread, cast(Any, self._to_thread)
        try:
            self.loop.run_until_complete(self._history())
        finally:
            asyncio.to_thread = unpatched
            self._end()

    def _end(self) -> None:
        everything = asyncio.all_tasks(self.loop)
        for task in everything:
            task.cancel()
        if everything:
            self.loop.run_until_complete(asyncio.wait(everything))
        self.loop.close()

    async def _history(self) -> None:
        self.ledger.open({0: 0})
        for number in range(self.shards):
            self.latest[number] = Incarnation(self, number)
        workers = [self.spawn(self._train(f"w{number}")) for number in range(2)]
        teaching = self.spawn(self._release_samples())
        while not teaching.done():
            await asyncio.sleep(self.random.expovariate(1 / 1.5))
            if not self.gentle:
                await self._misfortune()
        self.peace = True
        await self._settled(workers)
        assert not self.broken, self.broken[0]
        self._check()
        for worker in workers:
            worker.cancel()
        for number in range(self.shards):
            await self.latest[number].leave()
        self._check_snapshots()

    async def _release_samples(self) -> None:
        for count in range(1, SAMPLES + 1):
            self.released = count
            self.ledger.extend({0: count})
            await asyncio.sleep(self.random.expovariate(1 / 0.12))

    async def _misfortune(self) -> None:
        what, number = self.random.random(), self.random.randrange(self.shards)
        if self.random.random() < self._usurping:
            self._usurp(number)
            return
        if what < 0.15:
            self.store_away = True
            await asyncio.sleep(self.random.uniform(0.1, 5.0))
            self.store_away = False
        elif what < 0.35:
            everybody = self.random.sample(range(self.shards), self.shards)
            for one in [number] if self.random.random() < 0.5 else everybody:
                await self.latest[one].leave()
            await self._away([])
        elif what < 0.5:
            await self._away([number] if self.random.random() < 0.6 else list(range(self.shards)))
        else:
            await self._ambush()

    def _usurp(self, number: int) -> None:
        """Another process of a shard is started while the one before lives, serves, and does not know."""
        if self.latest[number].alive and self.latest[number].listens:
            self.latest[number] = Incarnation(self, number)
            self.usurped += 1

    async def _ambush(self) -> None:
        """Wait until somebody is at a certain step, and kill it, or all others."""
        self._caught.clear()
        self._trap = (self.random.choice(STEPS), self.random.random() < 0.5)
        try:
            async with asyncio.timeout(3.0):
                await self._caught.wait()
        except TimeoutError:
            self._trap = None
        await self._away([])

    async def _away(self, victims: list[int]) -> None:
        """These are killed, and whoever is not there comes back after a while."""
        for number in victims:
            self.latest[number].kill()
        for number, each in list(self.latest.items()):
            if not each.alive:
                await asyncio.sleep(self.random.choice((0.0, 0.5, 0.5, 12.0)) * self.random.random())
                self.latest[number] = Incarnation(self, number)

    def spawn(
        self, coroutine: Coroutine[Any, Any, Value], *, of: Incarnation | None = None
    ) -> asyncio.Task[Value]:
        """A task of that process."""
        before = here.set(of)
        try:
            return asyncio.get_running_loop().create_task(coroutine)
        finally:
            here.reset(before)

    async def pause(self) -> None:
        """What a step takes: mostly little, sometimes longer than a frozen slot waits."""
        chance = self.random.random()
        if chance < 0.95:
            await asyncio.sleep(self.random.expovariate(1 / 0.02))
        elif chance < 0.998 or self.gentle:
            await asyncio.sleep(self.random.uniform(0.1, 1.0))
        else:
            await asyncio.sleep(self.random.uniform(8.0, 13.0))

    @contextmanager
    def doing(self, who: Incarnation | None, what: str) -> Iterator[None]:
        if who is None:
            yield
            return
        who.doing[what] += 1
        if self._trap is not None and self._trap[0] == what:
            itself, self._trap = self._trap[1], None
            victims = [each for each in self.latest.values() if (each is who) is itself]
            asyncio.get_running_loop().call_soon(self._spring, victims)
        try:
            yield
        finally:
            who.doing[what] -= 1

    async def asked(
        self, target: Incarnation | None, operation: Operation, keys: Ids, numbers: bytes
    ) -> bytes:
        """The answer's body, as a link would bring it: requests and answers may be lost on the way."""
        await self.pause()
        self._lose(0.01)
        if target is None or not target.listens:
            raise ShardUnavailable("sim", "connection refused")
        reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        reply.add_done_callback(_heard)
        target.replies[reply] = None
        call = self.spawn(self._carry_out(target, operation, keys, numbers, reply), of=target)
        target.calls[call] = None
        try:
            async with asyncio.timeout(LINK_TIMEOUT_S):
                body = await asyncio.shield(reply)
        except TimeoutError as error:
            raise ShardUnavailable("sim", "timed out") from error
        finally:
            target.replies.pop(reply)
        await self.pause()
        self._lose(0.01)
        return body

    async def _carry_out(
        self,
        target: Incarnation,
        operation: Operation,
        keys: Ids,
        numbers: bytes,
        reply: asyncio.Future[bytes],
    ) -> None:
        async with target.turn:
            with self.doing(target, f"serving {operation.name}"):
                answer = await target.shard.server.answer(operation, 0, len(keys), keys.tobytes() + numbers)
        self.check_homes()
        if reply.done():
            return
        if answer is None:
            reply.set_exception(ShardUnavailable("sim", "it hung up"))
        elif answer.verdict is Verdict.MOVED:
            reply.set_exception(ShardMoved("sim"))
        elif answer.verdict is Verdict.REFUSED:
            reply.set_exception(ShardRefused("sim", answer.body.decode()))
        else:
            reply.set_result(answer.body)

    async def _train(self, worker: str) -> None:
        links, epoch = Links(), 0
        while True:
            lease = self.ledger.acquire(worker, samples=self.random.randint(1, 3), prefer=())
            if lease is None:
                await asyncio.sleep(0.05)
                continue
            if lease.epoch > epoch:  # as ParameterClient.since
                links, epoch = Links(), lease.epoch
            for sample in range(lease.start, lease.end):
                keys: Ids = np.array(sorted(self.lessons[sample]), np.uint64)
                gradients = np.zeros((len(keys), ROW_SIZE), np.float32)
                gradients[:, sample] = 1.0
                await self._all(links, Operation.PULL, keys, np.empty((len(keys), 0), np.float32))
                await self._all(links, Operation.PUSH, keys, gradients)
            with suppress(LeaseLost):
                self.ledger.complete(lease, trained=lease.end - lease.start, late=0)

    async def _all(self, links: Links, operation: Operation, keys: Ids, numbers: Floats) -> None:
        """As the workers' client: all shards, those that did not answer again, until all have."""
        known, missing = self.directory.map, np.arange(len(keys))
        while len(missing):
            homes, left = known.shards(keys[missing]), []
            for shard in np.unique(homes).tolist():
                places = missing[homes == shard]
                try:
                    if shard not in links:
                        links[shard] = self.everyone[self.directory.find(shard).secret]
                    await self.asked(links[shard], operation, keys[places], numbers[places].tobytes())
                except ShardMoved:
                    left.append(places)
                    known = self.directory.map
                except (ShardUnavailable, ShardMissing, StateUnavailable):
                    left.append(places)
                    links.pop(shard, None)
                    await asyncio.sleep(0.3)
            missing = np.sort(np.concatenate(left)) if left else NO_PLACES

    async def _settled(self, workers: list[asyncio.Task[None]]) -> None:
        """Everybody is there, everything is trained, no slot is on its way."""
        for number, each in list(self.latest.items()):
            if not each.alive:
                self.latest[number] = Incarnation(self, number)
        loop = asyncio.get_running_loop()
        until_s = loop.time() + SETTLES_WITHIN_S
        while not self._at_rest():
            for task in (*workers, *(each.life for each in self.latest.values())):
                assert not task.done(), f"it ended: {task}"
            assert loop.time() < until_s, f"it does not settle: {self._told()}"
            await asyncio.sleep(0.5)

    def _at_rest(self) -> bool:
        for each in self.latest.values():
            each.shard.desk.slots.serves(NO_KEYS, now_s=self.loop.time())  # what was frozen for long thaws
        progress = self.ledger.progress()
        still = all((d.slots.held() == d.slots.served).all() for d in self._desks())
        still = still and all(each.listens for each in self.latest.values())
        return progress.watermarks == {0: SAMPLES} and not progress.out and still

    def _told(self) -> str:
        slots = [each.shard.desk.slots for each in self.latest.values()]
        ways = [(sorted(s.coming), s.leaving, np.flatnonzero(s.held() != s.served).tolist()) for s in slots]
        return f"{self.ledger.progress()}, coming, leaving, not served: {ways}"

    def check_homes(self) -> None:
        """At any time: no slot is served twice, and none by whom the store does not name."""
        for number, each in self.latest.items():
            if each.alive and each.listens:
                wrong = each.shard.desk.slots.served & (self.directory.map.shard_of != number)
                if wrong.any():
                    self.broken.append(f"shard {number} serves {np.flatnonzero(wrong)}, which are another's")

    def _check(self) -> None:
        """In the end: every row lies where the store says, none is lost, none is there twice."""
        for number, found in enumerate(self._desks()):
            named = self.directory.map.shard_of == number
            assert (found.slots.served == named).all(), "each slot is served by whom the store names"
            content = found.table.content()
            assert (self.directory.map.shards(content.keys) == number).all(), "a row lies elsewhere"
        unlearned = desk(row_size=ROW_SIZE).table
        for key in self.keys:
            one = np.array([key], np.uint64)
            wanted = [sample for sample in range(SAMPLES) if key in self.lessons[sample]]
            if not wanted:
                continue
            content = self.latest[int(self.directory.map.shards(one)[0])].shard.desk.table.content()
            at = np.flatnonzero(content.keys == key)
            assert len(at) == 1, f"key {key:#x} is lost"
            learned = np.flatnonzero(content.rows[at[0]] != unlearned.pull(one)[0]).tolist()
            assert learned == wanted, f"key {key:#x} of slot {slots_of(one)[0]} has not learned all"
            if self.gentle:
                assert round(float(content.squares[at[0]]) * ROW_SIZE) == len(wanted), "each once"

    def _check_snapshots(self) -> None:
        for number, vault in enumerate(self.vaults):
            kept = vault.latest()
            assert kept is not None
            assert kept.clean
            assert (self.directory.map.shards(kept.table.keys) == number).all()

    def _desks(self) -> list[ShardDesk]:
        return [self.latest[number].shard.desk for number in range(self.shards)]

    def _spring(self, victims: list[Incarnation]) -> None:
        for victim in victims:
            victim.kill()
        self._caught.set()

    def _lose(self, chance: float) -> None:
        if not self.gentle and self.random.random() < chance:
            raise ShardUnavailable("sim", "lost on the way")

    async def _to_thread(self, function: Callable[..., Value], /, *args: Any) -> Value:
        """What would be done in a thread takes a while before and after, and is not undone by a cancellation
        of whoever waits for it."""
        me, name = here.get(), getattr(function, "__name__", "?").lstrip("_")

        async def work() -> Value:
            with self.doing(me, f"before {name}"):
                await self.pause()
            done = function(*args)
            with self.doing(me, f"after {name}"):
                await self.pause()
            return done

        working = asyncio.get_running_loop().create_task(work())
        working.add_done_callback(_heard)
        return await asyncio.shield(working)

    def _factory(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **more: Any
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coroutine, loop=loop, **more)
        me = here.get()
        if me is not None:
            me.tasks[task] = None
            task.add_done_callback(me.tasks.pop)
        return task


def _heard(future: asyncio.Future[Any]) -> None:
    """Nobody may wait for it any more."""
    if not future.cancelled():
        future.exception()
