"""An object that lives in a process of its own, so that what ends that process does not end ours.

Ray needs this: it ends every process that is connected to a cluster whose head is lost, or has started
anew without what it knew, and a controller has other pools to look after.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import IO, Any

import structlog

from services.control.errors import ControlError, PoolUnavailable

_LEAVES_WITHIN_S = 5.0
_LAST_WORDS = 2000
_GLANCE_S = 5.0
"""A call waits no longer for an object that is still being made: whoever calls has more to do."""

log = structlog.get_logger()


class NotReached(PoolUnavailable):
    """The object is still being made; asking again waits on."""


@dataclass(frozen=True, slots=True)
class _Call:
    method: str
    arguments: tuple[object, ...]
    options: dict[str, object]


@dataclass(frozen=True, slots=True)
class _Answer:
    value: object = None
    error: ControlError | None = None
    mistake: str = ""
    """The traceback of anything else that was raised."""
    events: tuple[dict[str, Any], ...] = ()
    """What was logged meanwhile: how that is to look is known on our side alone."""


@dataclass(slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    pipe: Connection
    words: IO[bytes]
    made: bool = False


class Apart:
    """Calls methods of what `make(*arguments)` gives, in a child process. Blocking; one call at a time.

    The child is started by the first call, and by the next one after it has ended, however that was: so
    the object begins anew then. All that goes in and out has to be picklable. `what` names the object in
    messages.
    """

    def __init__(
        self, what: str, make: Callable[..., object], *arguments: object, within_s: float = 30.0
    ) -> None:
        self._what = what
        self._make = (make, arguments)
        self._within_s = within_s
        self._child: _Child | None = None
        self.started = 0
        """How many processes it has had."""

    def call(self, method: str, *arguments: object, **options: object) -> Any:
        """What the object answers. Raises what it raises of ControlError, and PoolUnavailable when its
        process has ended, or has not answered in time."""
        child = self.reach(within_s=_GLANCE_S)
        try:
            child.pipe.send(_Call(method, arguments, options))
        except OSError as error:
            raise self._ended(child) from error
        if not child.pipe.poll(self._within_s):
            self._end(child, within_s=0.0)
            raise PoolUnavailable(f"{self._what} did not answer within {self._within_s:g} s")
        return self._heard(child)

    def reach(self, *, within_s: float = 90.0) -> _Child:
        """Have the object made. Raises NotReached, and what its making raises.

        One that is still being made is left to it: what it reaches for may be away for a while.
        """
        child = self._child = self._child or self._start()
        if not child.made:
            if not child.pipe.poll(within_s):
                raise NotReached(f"{self._what} has not been reached yet")
            self._heard(child)
            child.made = True
        return child

    def close(self) -> None:
        """End the process. The next call would start another."""
        if self._child is not None:
            self._end(self._child, within_s=_LEAVES_WITHIN_S)

    def _start(self) -> _Child:
        self.started += 1
        ours, theirs = Pipe()
        words = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import main; main()", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                start_new_session=True,  # a terminal's Ctrl-C is for us: we tell it
            )
        ours.send(self._make)
        return _Child(process, ours, words)

    def _heard(self, child: _Child) -> Any:
        try:
            answer: _Answer = child.pipe.recv()
        except (EOFError, OSError) as error:
            raise self._ended(child) from error
        for event in answer.events:
            getattr(log, event.pop("level"))(event.pop("event"), **event)
        if answer.error is not None:
            if not child.made:
                self._end(child, within_s=_LEAVES_WITHIN_S)
            raise answer.error
        if answer.mistake:
            self._end(child, within_s=0.0)
            raise RuntimeError(f"{self._what} failed in its own process:\n{answer.mistake}")
        return answer.value

    def _ended(self, child: _Child) -> PoolUnavailable:
        """It has gone by itself: tell its last words, and be ready to start another."""
        self._child = None
        child.pipe.close()
        code = child.process.wait()
        child.words.seek(0)
        tail = child.words.read().decode(errors="replace")[-_LAST_WORDS:]
        child.words.close()
        log.warning("process_lost", what=self._what, code=code, words=tail)
        return PoolUnavailable(f"{self._what} was lost: its process ended with code {code}; trying again")

    def _end(self, child: _Child, *, within_s: float) -> None:
        self._child = None
        child.pipe.close()
        try:
            child.process.wait(within_s)
        except subprocess.TimeoutExpired:
            child.process.kill()
            child.process.wait()
        child.words.close()


def serve(pipe: Connection) -> None:
    """Be the child: make the object, then do as told until nobody is there to tell."""
    events: list[dict[str, Any]] = []
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.format_exc_info, _gather(events)]
    )
    try:
        make, arguments = pipe.recv()
        made: list[object] = []
        pipe.send(_answered(lambda: made.append(make(*arguments)), events))
        while made:
            call: _Call = pipe.recv()
            method = getattr(made[0], call.method)
            pipe.send(_answered(lambda: method(*call.arguments, **call.options), events))  # noqa: B023
    except (EOFError, OSError):
        return  # our side has closed, or died


def _answered(do: Callable[[], object], events: list[dict[str, Any]]) -> _Answer:
    value, error, mistake = None, None, ""
    try:
        value = do()
    except ControlError as raised:
        error = raised
    except Exception:  # noqa: BLE001 - raised again on our side
        mistake = traceback.format_exc()
    told = tuple(events)
    events.clear()
    return _Answer(value, error, mistake, told)


def _gather(events: list[dict[str, Any]]) -> structlog.typing.Processor:
    """Keep what is logged, for whoever hears the answer."""

    def keep(_logger: object, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        events.append(dict(event))
        raise structlog.DropEvent

    return keep


def main() -> None:
    """The child's program."""
    serve(Connection(int(sys.argv[1])))
