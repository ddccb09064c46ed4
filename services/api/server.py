"""Serve the application on a socket that was bound before anything else started."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI

from services.settings.root import ApiSettings


class AddressUnavailable(Exception):
    """The API's address cannot be bound; the message says why and what to do."""


def bind(settings: ApiSettings) -> socket.socket:
    """A listening socket on the address asked for. Raises AddressUnavailable.

    Bound first of all, so that a port that is taken is told before workers start.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        raise AddressUnavailable(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}. "
            "Stop what listens there, or set api.port (PENSTOCK_API__PORT); 0 takes a free port."
        ) from error


class ApiServer(uvicorn.Server):
    """uvicorn without its signal handlers: the process that runs it decides when to stop."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off"))

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def address(listening: socket.socket) -> str:
    """The URL of the API."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
