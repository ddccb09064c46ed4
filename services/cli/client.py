"""A client of the REST API for the command line: standard library only, problems as sentences.

ServerError
├── Unreachable     nobody answers there, or something that is no controller
├── Denied          the token is missing, wrong, or may not
└── Refused         the server said no, and why
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

DEFAULT_SERVER = "http://127.0.0.1:8080"
TIMEOUT_S = 20.0
WHAT_IF_TIMEOUT_S = 240.0


class ServerError(Exception):
    """The server could not be asked, or said no."""

    exit_code = 1


class Unreachable(ServerError):
    """Nobody answers there, or something that is no controller."""

    exit_code = 3


class Denied(ServerError):
    """The token is missing, wrong, or may not."""

    exit_code = 4


class Refused(ServerError):
    """The server said no, and why."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@dataclass(frozen=True, slots=True)
class Reply:
    """A document, and the version it has."""

    document: Any
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One event, or only a place in the stream of them."""

    last: str | None
    """Where to go on after it."""
    kind: str
    data: Any
    """None where only the place is told."""


class Client:
    """Asks one server. The token comes from PENSTOCK_TOKEN: options of a command are seen by everyone."""

    def __init__(self, server: str, *, ca_file: str | None = None) -> None:
        self.server = server.rstrip("/")
        self._token = os.environ.get("PENSTOCK_TOKEN", "").strip()
        if not self.server.startswith(("http://", "https://")):
            raise Unreachable(f"{server!r} is no address; write http://HOST:PORT")
        try:
            urllib.parse.urlsplit(self.server)
            https = self.server.startswith("https")
            self._tls = ssl.create_default_context(cafile=ca_file) if https else None
        except OSError as error:  # no such file, or no certificate in it
            raise Unreachable(f"the certificate authority {ca_file} cannot be used: {error}") from error
        except ValueError as error:
            raise Unreachable(f"{server!r} is no address: {error}; write http://HOST:PORT") from error

    def get(self, path: str) -> Reply:
        """Read."""
        return self.ask("GET", path)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        etag: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Reply:
        """Ask once. Raises ServerError."""
        headers = {"If-Match": etag} if etag else {}
        with self._open(method, path, body, headers, timeout_s) as answer:
            try:
                raw = answer.read()
                return Reply(json.loads(raw) if raw else None, answer.headers.get("ETag"))
            except (OSError, http.client.HTTPException) as error:
                raise Unreachable(f"{self.server}: the connection was lost: {error}") from error
            except ValueError as error:  # a proxy's page, say
                raise Unreachable(
                    f"what answers at {self.server} is no controller: its answer is not JSON. "
                    "Set PENSTOCK_SERVER or --server."
                ) from error

    def events(self, query: str, *, last: str | None) -> Iterator[Event]:
        """What happens, until the connection ends. Raises ServerError.

        The first says where the stream is and tells nothing else. An event without an id, as that of a
        log that cannot be read, leaves the place as it was.
        """
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last} if last else {})
        with self._open("GET", f"/v1/events{query}", None, headers, 60.0) as answer:
            told: dict[str, str] = {}
            try:
                for line in answer:
                    name, _, value = line.decode().rstrip("\n").partition(": ")
                    if name:
                        told[name] = value
                    elif told:
                        last = told.get("id", last)
                        yield Event(last, told.get("event", ""), json.loads(told.get("data", "null")))
                        told = {}
            except (OSError, http.client.HTTPException) as error:
                raise Unreachable(f"{self.server}: the connection was lost: {error}") from error
            except ValueError as error:
                raise Unreachable(
                    f"what answers at {self.server} is no controller: its answer is no stream of events. "
                    "Set PENSTOCK_SERVER or --server."
                ) from error

    def _open(self, method: str, path: str, body: object, headers: dict[str, str], timeout_s: float) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server + path, data=data, method=method)  # noqa: S310 - checked above
        request.add_header("Accept", "application/json")
        if data is not None:
            request.add_header("Content-Type", "application/json")
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        for name, value in headers.items():
            request.add_header(name, value)
        try:
            return urllib.request.urlopen(request, timeout=timeout_s, context=self._tls)  # noqa: S310
        except urllib.error.HTTPError as error:
            with error:
                raise _explained(error) from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = str(getattr(error, "reason", error)).strip()
            raise Unreachable(
                f"{self.server} does not answer: {reason}; is `penstock serve` running there? "
                "Set PENSTOCK_SERVER or --server."
            ) from error


def _explained(error: urllib.error.HTTPError) -> ServerError:
    try:
        problem = json.loads(error.read())
        detail = str(problem.get("detail") or problem.get("title"))
        for mistake in (problem.get("errors") or [])[1:]:
            detail += f"\n  {mistake['field']}: {mistake['rule']}"
    except (ValueError, AttributeError, KeyError, TypeError):
        detail = f"status {error.code}"
    if error.code == 401:
        return Denied(f"{detail}. Set PENSTOCK_TOKEN.")
    return Denied(detail) if error.code == 403 else Refused(error.code, detail)


def quoted(name: str) -> str:
    """A job's name as a part of a path."""
    return urllib.parse.quote(name, safe="")
