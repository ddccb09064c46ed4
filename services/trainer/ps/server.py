"""A shard's sockets: frames come in from many workers and are carried out one after the other."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import structlog

from services.control.errors import StateUnavailable
from services.trainer.ps.desk import Elsewhere, ShardDesk, Unfit, slot_asked
from services.trainer.ps.errors import ShardSuperseded
from services.trainer.ps.slots import Heir
from services.trainer.ps.wire import (
    FRAME_BYTES_MAX,
    REQUEST_HEAD,
    TOO_LARGE,
    WIRE_FORM,
    Answer,
    Flag,
    Load,
    Operation,
    Verdict,
)

_log = structlog.get_logger(__name__)

_WINDOW_S: Final = 1.0
_SLOWED: Final = frozenset({Operation.PULL, Operation.PUSH})

Giver = Callable[[int, Heir], None]


def _nobody(slot: int, heir: Heir) -> None:
    """Where there is no store, the other shard is told of its slots by whoever moves them."""


class ServiceTimes:
    """How long requests take, over windows of a second: busy share and variability."""

    def __init__(self) -> None:
        self.busy = 0.0
        self.service_cv2 = 0.0
        self._began_s = time.monotonic()
        self._count = 0
        self._total_s = 0.0
        self._squares = 0.0

    def add(self, took_s: float) -> None:
        """One request took this long."""
        self._count += 1
        self._total_s += took_s
        self._squares += took_s * took_s

    def turn(self) -> None:
        """Close the window when it is long enough; an idle one has no variability to tell, so it is kept."""
        now_s = time.monotonic()
        passed_s = now_s - self._began_s
        if passed_s < _WINDOW_S:
            return
        self.busy = min(1.0, self._total_s / passed_s)
        if self._total_s > 0:
            self.service_cv2 = max(0.0, self._count * self._squares / self._total_s**2 - 1.0)
        self._began_s, self._count, self._total_s, self._squares = now_s, 0, 0.0, 0.0


@dataclass(frozen=True, slots=True)
class _Call:
    operation: int
    flags: int
    form: int
    keys: int
    body: bytes
    out: asyncio.StreamWriter


class ShardServer:
    """Serves one desk. `service_ms` makes each pull and push take at least so long, for demonstrations."""

    def __init__(self, desk: ShardDesk, *, service_ms: float = 0.0, giver: Giver = _nobody) -> None:
        """`giver` writes in the store that a slot is another shard's; it may raise StateUnavailable, and
        ShardSuperseded when one of the two processes is no longer its shard."""
        self.desk = desk
        self._giver = giver
        self.secret = secrets.token_hex(16)
        self.times = ServiceTimes()
        self.bytes_in = self.bytes_out = self.requests = self.refused = self.moved = 0
        self._service_s = service_ms / 1000.0
        self._calls: asyncio.Queue[_Call] = asyncio.Queue()
        self._server: asyncio.Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._giving = asyncio.Lock()
        """One at a time: said again late, a slot that has come back meanwhile would be given away anew."""

    async def start(self, host: str, port: int = 0) -> int:
        """Listen; the port."""
        self._server = await asyncio.start_server(self._connected, host, port, limit=1 << 20)
        self._serving = asyncio.create_task(self._serve(), name="shard")
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Answer nothing more. What was asked and not answered was not done, as far as anybody knows."""
        if self._server is not None:
            self._server.close()
        for out in list(self._open):
            out.close()
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)

    def figures(self) -> dict[str, float]:
        """All that there is to tell of this shard."""
        self.times.turn()
        return {
            **self.desk.figures(),
            "busy": self.times.busy,
            "queue": self._calls.qsize(),
            "requests": self.requests,
            "refused": self.refused,
            "moved": self.moved,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
        }

    async def _connected(self, source: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        self._open.add(out)
        try:
            if await self._greeted(source, out):
                while True:
                    await self._calls.put(await self._next(source, out))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the worker has left: what it asked for and did not hear of, it asks again
        except Unfit as error:
            _log.warning("connection_refused", why=str(error))
        finally:
            self._open.discard(out)
            out.close()

    async def _greeted(self, source: asyncio.StreamReader, out: asyncio.StreamWriter) -> bool:
        call = await self._next(source, out)
        if call.form != WIRE_FORM:
            told = f"it speaks form {call.form} of the wire, this shard form {WIRE_FORM}"
            self._send(out, self._refusal(f"{told}; run workers and shards of one release"))
        elif call.operation == Operation.HELLO and secrets.compare_digest(call.body, self.secret.encode()):
            self._send(out, Answer(Verdict.OK, b"", self._load()))
            return True
        else:
            why = "the secret is wrong, or that of another process; it is in the store"
            self._send(out, self._refusal(why, Verdict.STRANGER))
        await out.drain()
        return False

    async def _next(self, source: asyncio.StreamReader, out: asyncio.StreamWriter) -> _Call:
        head = await source.readexactly(REQUEST_HEAD.size)
        length, operation, flags, form, keys = REQUEST_HEAD.unpack(head)
        if length > FRAME_BYTES_MAX or 8 * keys > length:
            raise Unfit(f"a frame of {length} bytes with {keys} keys is none of ours")
        body = await source.readexactly(length)
        self.bytes_in += REQUEST_HEAD.size + length
        return _Call(operation, flags, form, keys, body, out)

    async def _serve(self) -> None:
        while True:
            call = await self._calls.get()
            began_s = time.monotonic()
            answer = await self.answer(call.operation, call.flags, call.keys, call.body)
            if answer is None:
                call.out.close()
            else:
                self._send(call.out, answer)
            left_s = began_s + self._service_s - time.monotonic()
            if call.operation in _SLOWED and self._service_s and left_s > 0:
                await asyncio.sleep(left_s)
            self.times.add(time.monotonic() - began_s)
            self.times.turn()

    async def answer(self, operation: int, flags: int, keys: int, body: bytes) -> Answer | None:
        """Carry a request out: `keys` keys, then numbers. None when nobody knows yet how it went, and it is
        to be asked again."""
        self.requests += 1
        try:
            found = await self._done(Operation(operation), Flag(flags), keys, body)
        except Elsewhere:
            self.moved += 1
            return Answer(Verdict.MOVED, b"", self._load())
        except ValueError as error:
            return self._refusal(str(error))
        if found is not None and len(found) > FRAME_BYTES_MAX:
            return self._refusal(TOO_LARGE)
        return None if found is None else Answer(Verdict.OK, found, self._load())

    async def _done(self, operation: Operation, flags: Flag, keys: int, body: bytes) -> bytes | None:
        if operation is Operation.STATS:
            return json.dumps({**self.figures(), "asked": self.desk.slots.asked.tolist()}).encode()
        now_s = asyncio.get_running_loop().time()
        if operation is Operation.RELEASE:
            return await self._release(memoryview(body)[8 * keys :], now_s)
        writable = bytearray(body)  # arrays that may not be written to would be compiled for once more
        numbers = memoryview(writable)[8 * keys :]
        return self.desk.answer(
            operation, flags, np.frombuffer(writable, np.uint64, keys), numbers, now_s=now_s
        )

    async def _release(self, numbers: memoryview, now_s: float) -> bytes | None:
        """The shard that asks has the slot's rows: from now on it is that shard's, in the store too."""
        slot, shard, epoch = slot_asked(numbers)
        if not self.desk.slots.release(slot, Heir(shard, epoch), now_s=now_s):
            raise Unfit(f"slot {slot} is not on its way to shard {shard}")
        if not await self.give_away():
            return None
        if self.desk.slots.served[slot]:
            raise Unfit(f"slot {slot} stays: process {epoch} of shard {shard} was superseded")
        return b""

    async def give_away(self) -> bool:
        """Write in the store whose the slots are that leave, and forget their rows; False when it is away."""
        async with self._giving:
            for slot, heir in list(self.desk.slots.leaving.items()):
                try:
                    await asyncio.to_thread(self._giver, slot, heir)
                except StateUnavailable as error:
                    _log.warning("slot_not_given_yet", slot=slot, to=heir.shard, why=str(error))
                    return False
                except ShardSuperseded as error:
                    _log.warning("slot_not_given", slot=slot, to=heir.shard, why=str(error))
                    if error.shard != heir.shard:
                        return False  # this process is the one: it has nothing more to say
                    self.desk.slots.keep(slot)
                    continue
                self.desk.slots.gave(slot)
                self.desk.table.drop(slot)
                _log.info("slot_given_away", slot=slot, to=heir.shard)
        return True

    def _refusal(self, why: str, verdict: Verdict = Verdict.REFUSED) -> Answer:
        self.refused += 1
        _log.warning("request_refused", why=why)
        return Answer(verdict, why.encode(), self._load())

    def _send(self, out: asyncio.StreamWriter, answer: Answer) -> None:
        if out.is_closing():
            return
        frame = answer.written()
        self.bytes_out += len(frame)
        out.write(frame)

    def _load(self) -> Load:
        return Load(
            self.times.busy,
            self.times.service_cv2,
            self.desk.version,
            self._calls.qsize(),
            len(self.desk.table),
            self.bytes_in,
            self.bytes_out,
        )
