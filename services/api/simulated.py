"""The `WhatIf` on the simulator: one process that is started with the first question."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections import OrderedDict
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Self

import structlog

from services.api import replay
from services.api.what_if import Answer, Question, WhatIfUnavailable

log = structlog.get_logger(__name__)

ANSWER_WITHIN_S = 180.0
_REMEMBERED = 200
_NEWS_S = 60.0
"""An answer is remembered until this much more traffic has come."""


@dataclass(frozen=True, slots=True)
class _Child:
    process: BaseProcess
    pipe: Connection


class SimulatedWhatIf:
    """Asks one question at a time; answers stay known for a while, so that a slider can be moved back."""

    def __init__(self) -> None:
        self._child: _Child | None = None
        self._turn = asyncio.Lock()
        self._known: OrderedDict[str, Answer] = OrderedDict()

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
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                said = await asyncio.to_thread(self._converse, question)
        except TimeoutError:
            self._end()
            raise WhatIfUnavailable(f"the simulation took longer than {ANSWER_WITHIN_S:g} s") from None
        except (EOFError, OSError) as error:
            self._end()
            raise WhatIfUnavailable("the simulator's process ended; ask again") from error
        if isinstance(said, str):
            raise WhatIfUnavailable(said)
        return said

    def _converse(self, question: Question) -> Answer | str:
        if self._child is None or not self._child.process.is_alive():
            self._child = _started()
        pipe = self._child.pipe
        pipe.send(question)
        said: Answer | str = pipe.recv()
        return said

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.process.kill()
            child.process.join()
            child.pipe.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()


def _started() -> _Child:
    # Spawned, not forked: the controller has threads, and a fork would copy their locks. The child holds
    # no end of ours, so it ends by itself when this process does, however that happens.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=replay.run, args=(theirs,), name="what-if", daemon=True)
    process.start()
    theirs.close()
    log.info("simulator_started", pid=process.pid)
    return _Child(process, ours)


def _key(question: Question) -> str:
    job, capacity = question.job, question.capacity
    parts = (
        job.model_dump_json(include={"slo", "scaling", "forecast", "pool", "auc_by_delay_s"}),
        f"{capacity.rate_per_worker:.3g} {capacity.contention:.2g}",
        f"{question.history.end_s // max(_NEWS_S, job.forecast.season_s / 100):.0f}",
        str(question.with_curve),
    )
    return "|".join(parts)
