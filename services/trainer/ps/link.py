"""A worker's connection to one shard. Blocking: a worker's threads wait for it."""

from __future__ import annotations

import socket
from dataclasses import dataclass

import numpy as np

from services.trainer.ps.errors import ShardMoved, ShardRefused, ShardUnavailable
from services.trainer.ps.wire import (
    ANSWER_HEAD,
    FRAME_BYTES_MAX,
    TOO_LARGE,
    Answer,
    Load,
    Operation,
    Request,
    Verdict,
)


@dataclass(frozen=True, slots=True)
class ShardAddress:
    """Where a shard listens, the secret that it wants to hear, and which of its processes this is."""

    host: str
    port: int
    secret: str
    epoch: int = 0
    """Every process of a shard has a higher one than those before it."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class ShardLink:
    """Asks one question at a time: `send`, then `receive`. Raises ShardUnavailable, ShardRefused,
    ShardMoved."""

    def __init__(self, address: ShardAddress, *, timeout_s: float) -> None:
        self.address = address
        try:
            self._socket = socket.create_connection((address.host, address.port), timeout=timeout_s)
        except OSError as error:
            raise ShardUnavailable(str(address), str(error)) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.ask(Request(Operation.HELLO, np.empty(0, np.uint64), address.secret.encode()))
        except (ShardUnavailable, ShardRefused):
            self.close()
            raise

    def ask(self, request: Request) -> Answer:
        """Send and receive."""
        self.send(request)
        return self.receive()

    def send(self, request: Request) -> None:
        """Ask; the answer is to be received before the next question."""
        frame = request.written()
        if len(frame) > FRAME_BYTES_MAX:
            raise ShardRefused(str(self.address), TOO_LARGE)
        try:
            self._socket.sendall(frame)
        except OSError as error:
            raise ShardUnavailable(str(self.address), str(error)) from error

    def receive(self) -> Answer:
        """The answer to what was sent."""
        head = ANSWER_HEAD.unpack(self._exactly(ANSWER_HEAD.size))
        length, verdict, _, queue, rows, busy, cv2, version, bytes_in, bytes_out = head
        if length > FRAME_BYTES_MAX:
            raise ShardUnavailable(str(self.address), f"an answer of {length} bytes is none of ours")
        body = self._exactly(length)
        if verdict == Verdict.MOVED:
            raise ShardMoved(str(self.address))
        if verdict == Verdict.STRANGER:
            raise ShardUnavailable(str(self.address), body.decode(errors="replace"))
        if verdict != Verdict.OK:
            raise ShardRefused(str(self.address), body.decode(errors="replace"))
        load = Load(busy, cv2, version, queue, rows, bytes_in, bytes_out)
        return Answer(Verdict.OK, body, load)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _exactly(self, count: int) -> bytes:
        whole = bytearray(count)
        view, got = memoryview(whole), 0
        while got < count:
            try:
                more = self._socket.recv_into(view[got:])
            except OSError as error:
                raise ShardUnavailable(str(self.address), str(error)) from error
            if not more:
                raise ShardUnavailable(str(self.address), "it hung up")
            got += more
        return bytes(whole)
