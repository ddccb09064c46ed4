"""The little that the Kubernetes pool needs of the API server: plain objects, watches, our errors.

ControlError
├── PoolUnavailable     no answer, throttled for too long, a failure of the server
│   └── Conflict        409: another wrote in between; look again
├── Rejected            400, 403, 422: admission, RBAC; the message is the server's
│   └── NotThere        404
└── VersionGone         410: the watch's version was compacted away; list again
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import httpx2

from services.actuator.kubernetes_access import Access
from services.control.errors import ControlError, PoolUnavailable, Rejected

Object = Mapping[str, Any]

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
_PAGE = 500
_THROTTLED_TRIES = 4
_LONGEST_WAIT_S = 5.0
_WATCH_S = 60
"""How long a watch lasts before it is opened anew at its version: that is how a dead connection shows."""


class Conflict(PoolUnavailable):
    """Another wrote in between; look again."""


class NotThere(Rejected):
    """There is no such object or resource."""


class VersionGone(ControlError):
    """The version to watch from is too old."""


class KubernetesApi:
    """A client for JSON objects by path. No models: any custom resource is as good as a Deployment."""

    def __init__(self, access: Access, *, timeout_s: float = 15.0) -> None:
        self._token = access.token
        self._timeout_s = timeout_s
        self._client = httpx2.AsyncClient(
            base_url=access.server,
            verify=access.tls,
            timeout=timeout_s,
            headers={"User-Agent": "penstock", "Accept": "application/json"},
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=8),
            trust_env=False,
        )

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    async def get(self, path: str) -> Object:
        return await self._ask("GET", path)

    async def put(self, path: str, body: Object) -> Object:
        return await self._ask("PUT", path, body=body)

    async def patch(self, path: str, body: object, *, kind: str = MERGE_PATCH) -> Object:
        return await self._ask("PATCH", path, body=body, kind=kind)

    async def delete(self, path: str, body: object) -> Object:
        return await self._ask("DELETE", path, body=body)

    async def list(self, path: str, selection: Mapping[str, str]) -> tuple[list[Object], str]:
        """All objects of a collection, page by page, and the version to watch from. Raises VersionGone."""
        found: list[Object] = []
        page: dict[str, str] = {}
        while True:
            answer = await self._ask("GET", path, params={**selection, "limit": str(_PAGE), **page})
            found += answer.get("items") or []
            metadata = answer["metadata"]
            if not metadata.get("continue"):
                return found, str(metadata["resourceVersion"])
            page = {"continue": metadata["continue"]}

    @asynccontextmanager
    async def watch(
        self, path: str, selection: Mapping[str, str], version: str
    ) -> AsyncIterator[AsyncIterator[Object]]:
        """The events after `version` until the server ends the watch. Raises VersionGone."""
        params = {
            **selection,
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_S),
        }
        timeout = httpx2.Timeout(self._timeout_s, read=_WATCH_S + self._timeout_s)
        try:
            async with self._client.stream(
                "GET", path, params=params, headers=await self._authorization(), timeout=timeout
            ) as answer:
                if answer.status_code != 200:
                    await answer.aread()
                    self._raise(answer)
                yield _events(answer)
        except httpx2.HTTPError as error:
            raise _unanswered(error) from error

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        kind: str = "application/json",
    ) -> Object:
        """One request; a server that asks for patience (429) gets some."""
        content = None if body is None else json.dumps(body).encode()
        tries_left = _THROTTLED_TRIES
        while True:
            tries_left -= 1
            headers = {**await self._authorization(), "Content-Type": kind}
            try:
                answer = await self._client.request(
                    method, path, params=params, content=content, headers=headers
                )
            except httpx2.HTTPError as error:
                if method == "GET" and tries_left == _THROTTLED_TRIES - 1:
                    continue  # a connection kept from before may have been closed by the server
                raise _unanswered(error) from error
            if answer.is_success:
                return dict(answer.json())
            if answer.status_code == 429 and tries_left:
                await asyncio.sleep(_patience_s(answer))
            elif answer.status_code == 401 and tries_left:
                self._token.refused()
            else:
                self._raise(answer)

    async def _authorization(self) -> dict[str, str]:
        token = await asyncio.to_thread(self._token.value) if self._token.lapsed else self._token.value()
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _raise(self, answer: httpx2.Response) -> NoReturn:
        if answer.status_code == 401:
            self._token.refused()  # before the next try
        raise error_of(answer.status_code, _message(answer))


def error_of(code: int, message: str) -> ControlError:
    """The error for a status of the API server, its message kept.

    >>> error_of(409, "the object has been modified")
    Conflict('the object has been modified')
    """
    if code == 409:
        return Conflict(message)
    if code == 410:
        return VersionGone(message)
    if code == 404:
        return NotThere(message)
    if code == 403 and "admission webhook" not in message and "cannot" in message:
        cluster_wide = "at the cluster scope" in message
        rights = "fleet" if cluster_wide else "pool"
        return Rejected(f"{message}; grant it as deploy/kubernetes/{rights}-rbac.yaml does")
    if code in (400, 403, 405, 422):
        return Rejected(message)
    return PoolUnavailable(f"the Kubernetes API server answered {code}: {message}")


async def _events(answer: httpx2.Response) -> AsyncIterator[Object]:
    async for line in answer.aiter_lines():
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except ValueError as error:  # cut off in the middle: the server went away
            raise PoolUnavailable(f"a watch was cut off: {error}") from error
        if event["type"] == "ERROR":
            status = event["object"]
            raise error_of(int(status.get("code", 500)), str(status.get("message", "")))
        yield event


def _unanswered(error: httpx2.HTTPError) -> PoolUnavailable:
    return PoolUnavailable(f"the Kubernetes API server does not answer: {str(error) or type(error).__name__}")


def _message(answer: httpx2.Response) -> str:
    """The message of a Status object, or the bare text of whatever stands before the server."""
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:200]


def _patience_s(answer: httpx2.Response) -> float:
    try:
        return min(float(answer.headers["Retry-After"]), _LONGEST_WAIT_S)
    except (KeyError, ValueError):
        return 1.0
