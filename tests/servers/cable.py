"""A cable between a process and a server, which can be cut: a partition of the network on one machine."""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Lock, Thread
from types import TracebackType
from typing import Self


class Cable:
    """Listens on `port`, and passes on what comes, both ways, while it is whole."""

    def __init__(self, host: str, port: int) -> None:
        self._there = (host, port)
        self._lock = Lock()
        self._ends: list[socket.socket] = []
        self._whole = True
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])

    def __enter__(self) -> Self:
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._listening.close()

    def cut(self) -> None:
        """Every connection breaks, and new ones do."""
        with self._lock:
            self._whole = False
            for end in self._ends:
                _break(end)
            self._ends = []

    def mend(self) -> None:
        """What connects from now on gets through."""
        with self._lock:
            self._whole = True

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listening.accept()
            except OSError:
                return
            with self._lock:
                if not self._whole:
                    here.close()
                    continue
                there = socket.create_connection(self._there)
                self._ends += [here, there]
            for source, target in ((here, there), (there, here)):
                Thread(target=_pass_on, args=(source, target), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    for end in (source, target):
        _break(end)


def _break(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
