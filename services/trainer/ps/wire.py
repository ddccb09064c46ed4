"""What goes between worker and shard: a head, keys, numbers. Little-endian, lengths first.

| request   | answer                       |
|-----------|------------------------------|
| HELLO     | the shard's secret is right  |
| PULL keys | their rows, the dense part   |
| PUSH keys, gradients, the dense gradient | that they are taken in |
| BEGIN dense | that the dense part has started |
| STATS     | JSON                         |
| COPY slot | its rows, as they are        |
| TAKE slot | its rows, for good: they are asked for here no more |
| RELEASE slot | that the store names the shard that asks now |

COPY, TAKE and RELEASE also tell who asks: the shard, and which of its processes.
PULL and PUSH of a slot that is served elsewhere, or on its way, are answered MOVED, and nothing is done.
A request is head (length of what follows it, operation, flags, the wire's form, keys) and body; an answer
likewise, with the shard's load on the way: its busy share, the variability of its service, its version, and
what waits, lies and went through there.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final

import numpy as np

from services.samples.layout import Floats, Ids

FRAME_BYTES_MAX: Final = 256 * 1024 * 1024
"""A frame that claims more is no frame of ours."""

TOO_LARGE: Final = (
    f"what a batch asks for at once is beyond {FRAME_BYTES_MAX // 2**20} MiB; make worker.batch smaller, or "
    "have more parameters.shards"
)
"""Told at once: asked again, it would be as large."""

WIRE_FORM: Final = 0
"""Raised when frames change so that shards and workers of neighbouring releases would misread each other."""
REQUEST_HEAD: Final = struct.Struct("<IBBHI")
ANSWER_HEAD: Final = struct.Struct("<IBBHIffQQQ")
_QUEUE_MAX: Final = 65_535
SLOT: Final = struct.Struct("<HHI")
"""A slot, the shard that wants it, and the epoch of its process."""
_SCALE: Final = struct.Struct("<f")


class Operation(IntEnum):
    """What is asked for."""

    HELLO = 1
    PULL = 2
    PUSH = 3
    BEGIN = 4
    STATS = 5
    COPY = 6
    TAKE = 7
    RELEASE = 8


class Flag(IntFlag):
    """How."""

    NONE = 0
    HALF = 1
    """Numbers of rows travel in 16 bits."""
    DENSE = 2
    """The dense part, or its gradient, is behind the rows."""


class Verdict(IntEnum):
    """How it went."""

    OK = 0
    REFUSED = 1
    MOVED = 2
    """Look in the store where it is, and ask there."""
    STRANGER = 3
    """The secret is another process's: look in the store again."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a shard."""

    operation: Operation
    keys: Ids
    numbers: bytes = b""
    flags: Flag = Flag.NONE

    def written(self) -> bytes:
        """For the wire."""
        body = self.keys.tobytes() + self.numbers
        return REQUEST_HEAD.pack(len(body), self.operation, self.flags, WIRE_FORM, len(self.keys)) + body


@dataclass(frozen=True, slots=True)
class Load:
    """How a shard is doing, told with every answer."""

    busy: float = 0.0
    service_cv2: float = 0.0
    version: int = 0
    """Pushes taken in since the shard came into being."""
    queue: int = 0
    """Requests that wait behind this one."""
    rows: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    """Since the process started."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A shard's answer."""

    verdict: Verdict
    body: bytes
    load: Load

    def written(self) -> bytes:
        """For the wire."""
        load = self.load
        queue, counts = min(load.queue, _QUEUE_MAX), (load.version, load.bytes_in, load.bytes_out)
        head = (len(self.body), self.verdict, 0, queue, load.rows, load.busy, load.service_cv2, *counts)
        return ANSWER_HEAD.pack(*head) + self.body


def pack_rows(rows: Floats, flags: Flag) -> bytes:
    """Rows as bytes; in 16 bits as shares of the largest, so that small gradients do not vanish."""
    if not flags & Flag.HALF:
        return rows.tobytes()
    largest = float(np.abs(rows).max(initial=0.0)) or 1.0
    return _SCALE.pack(largest) + (rows / np.float32(largest)).astype(np.float16).tobytes()


def rows_bytes(count: int, row_size: int, flags: Flag) -> int:
    """How long `pack_rows` makes so many rows."""
    return _SCALE.size + 2 * count * row_size if flags & Flag.HALF else 4 * count * row_size


def unpack_rows(body: memoryview | bytes, count: int, row_size: int, flags: Flag) -> Floats:
    """What `pack_rows` packed."""
    if not flags & Flag.HALF:
        return np.frombuffer(body, np.float32, count * row_size).reshape(count, row_size)
    (largest,) = _SCALE.unpack_from(body)
    halves = np.frombuffer(body, np.float16, count * row_size, offset=_SCALE.size)
    return (halves.astype(np.float32) * np.float32(largest)).reshape(count, row_size)
