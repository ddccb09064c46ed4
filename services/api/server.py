"""Serve the application on a socket that was bound before anything else started."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI

from services.settings.root import ApiSettings


class AddressUnavailable(Exception):
    """The API's address cannot be bound; the message says why and what to do."""


def bind(settings: ApiSettings) -> socket.socket:
    """A listening socket for REST and the page. Raises AddressUnavailable.

    Bound first of all, so that a port that is taken is told before workers start; so is a certificate that
    cannot be used.
    """
    _check_certificate(settings)
    return _bound(settings.host, settings.port, "port")


def bind_operations(settings: ApiSettings) -> socket.socket:
    """A listening socket for health, readiness and metrics. Raises AddressUnavailable."""
    return _bound(settings.operations_host, settings.operations_port, "operations_port")


def _check_certificate(settings: ApiSettings) -> None:
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise AddressUnavailable(
            f"api.tls_certificate {certificate} with api.tls_key {key} cannot be used: {error}"
        ) from error


def _bound(host: str, port: int, setting: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise AddressUnavailable(
            f"cannot listen on {host}:{port}: {error.strerror or error}. "
            f"Stop what listens there, or set api.{setting} (PENSTOCK_API__{setting.upper()}); "
            "0 takes a free port."
        ) from error


class ApiServer(uvicorn.Server):
    """uvicorn without its signal handlers: the process that runs it decides when to stop."""

    def __init__(self, app: FastAPI, tls: ApiSettings | None = None) -> None:
        files = (tls.tls_certificate, tls.tls_key) if tls else (None, None)
        super().__init__(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                lifespan="off",
                server_header=False,
                proxy_headers=False,  # whoever is in front could otherwise name any address
                timeout_graceful_shutdown=2,  # event streams never end by themselves
                ssl_certfile=files[0],
                ssl_keyfile=files[1],
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def address(listening: socket.socket, *, tls: bool = False) -> str:
    """The URL of a listener."""
    host, port = listening.getsockname()[:2]
    scheme = "https" if tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
