"""Why an embedded server is not there.

EmbeddedError
├── NotInstalled    a program or library is missing; the message says what to install
├── PortTaken       the port asked for is in use; the message says which and what to do
├── StartFailed     the server ended, or did not answer in time; carries the end of its log
└── NotRunning      asked of a server that is not up
"""

from __future__ import annotations


class EmbeddedError(Exception):
    """Anything that keeps an embedded server from serving."""


class NotInstalled(EmbeddedError):
    """Something that the server needs is not on this machine."""


class PortTaken(EmbeddedError):
    """Somebody else listens on the port that was asked for."""

    def __init__(self, port: int, *, server: str) -> None:
        super().__init__(
            f"{server} cannot listen on 127.0.0.1:{port}: the port is taken. "
            f"Stop what listens there, ask for another port, or give none to get a free one."
        )
        self.port = port


class StartFailed(EmbeddedError):
    """The server did not come up. Its last words are in the message."""

    def __init__(self, what: str, *, log: str) -> None:
        super().__init__(f"{what}\n{_indent(log)}" if log else f"{what} (its log is empty)")
        self.log = log


class NotRunning(EmbeddedError):
    """The server was not started, or has been stopped."""


def _indent(log: str) -> str:
    return "\n".join(f"  | {line}" for line in log.splitlines())
