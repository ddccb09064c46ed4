"""The `WhatIf` on the simulator: one process that is started with the first question."""

from __future__ import annotations

import asyncio
import pickle
import sys
from asyncio.subprocess import PIPE
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self, cast

import structlog

from services.api.replay import LENGTH_BYTES, framed
from services.api.what_if import Answer, Question, WhatIfUnavailable

log = structlog.get_logger(__name__)

ANSWER_WITHIN_S = 180.0
_REMEMBERED = 200
_STOPPING = "the controller is stopping"
_NEWS_S = 60.0
"""An answer is remembered until this much more traffic has come."""


@dataclass(slots=True)
class _Child:
    process: asyncio.subprocess.Process
    questions: asyncio.StreamWriter
    answers: asyncio.StreamReader
    asked: int = 0
    length: int | None = None
    """Of the answer whose beginning is read: whoever waited for the rest may have left."""

    async def converse(self, question: Question) -> Answer | str:
        """Its answer to this question; those to questions that were given up are passed over."""
        self.asked += 1
        self._tell(question)
        await self.questions.drain()
        while True:
            if self.length is None:
                self.length = int.from_bytes(await self.answers.readexactly(LENGTH_BYTES))
            content = await self.answers.readexactly(self.length)
            self.length = None
            number, said = pickle.loads(content)  # noqa: S301 - our own child
            if number == self.asked:
                return cast("Answer | str", said)

    def give_up(self) -> None:
        """Nobody wants the answer: it may turn to the next question."""
        self._tell(None)

    def _tell(self, question: Question | None) -> None:
        self.questions.write(framed((self.asked, question)))


class SimulatedWhatIf:
    """Asks one question at a time; answers stay known for a while, so that a slider can be moved back.

    When somebody stops waiting, the process is told and takes the next question: it stays, since one started
    anew would spend seconds on loading what it runs.
    """

    def __init__(self) -> None:
        self._child: _Child | None = None
        self._turn = asyncio.Lock()
        self._known: OrderedDict[str, Answer] = OrderedDict()
        self._talk: asyncio.Task[Answer | str] | None = None
        self._closed = False

    async def ask(self, question: Question) -> Answer:
        """Raises WhatIfUnavailable."""
        key = _key(question)
        async with self._turn:
            known = self._known.get(key)
            if known is not None:
                return known
            answer = await self._asked(question)
            self._known[key] = answer
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
            return answer

    async def _asked(self, question: Question) -> Answer:
        if self._closed:
            raise WhatIfUnavailable(_STOPPING)
        self._talk = asyncio.create_task(self._converse(question))
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                said = await self._talk
        except TimeoutError:
            await self._end()  # it may never look up
            raise WhatIfUnavailable(f"the simulation took longer than {ANSWER_WITHIN_S:g} s") from None
        except (asyncio.IncompleteReadError, OSError) as error:
            raise WhatIfUnavailable("the simulator's process ended; ask again") from error
        except asyncio.CancelledError:
            if self._closed:
                raise WhatIfUnavailable(_STOPPING) from None
            if self._child is not None:
                self._child.give_up()
            raise
        finally:
            if not self._talk.cancelled() and self._talk.exception() is not None:
                await self._end()
        if isinstance(said, str):
            raise WhatIfUnavailable(said)
        return said

    async def _converse(self, question: Question) -> Answer | str:
        if self._child is None:
            self._child = await _started()
        return await self._child.converse(question)

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            with suppress(ProcessLookupError):  # it may have ended by itself
                child.process.kill()
            await child.process.wait()

    async def close(self) -> None:
        """Whoever waits is told so at once; nothing runs after this. Closing twice is closing once."""
        self._closed = True
        if self._talk is not None:
            self._talk.cancel()
            await asyncio.wait((self._talk,))
        await self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def _started() -> _Child:
    # A program of its own, not `multiprocessing`: that leaves a tracker process behind until we end. It
    # reads until its input is closed, so it ends by itself when this process does, however that happens.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.api.replay", stdin=PIPE, stdout=PIPE
    )
    log.info("simulator_started", pid=process.pid)
    return _Child(
        process, cast(asyncio.StreamWriter, process.stdin), cast(asyncio.StreamReader, process.stdout)
    )


def _key(question: Question) -> str:
    job, capacity = question.job, question.capacity
    parts = (
        job.model_dump_json(include={"slo", "scaling", "forecast", "pool", "auc_by_delay_s"}),
        f"{capacity.rate_per_worker:.3g} {capacity.contention:.2g}",
        f"{question.history.end_s // max(_NEWS_S, job.forecast.season_s / 100):.0f}",
        str(question.turned),
    )
    return "|".join(parts)
