"""A copy of a collection of the API server, kept by list and watch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import structlog

from services.actuator.kubernetes_api import KubernetesApi, NotThere, Object, VersionGone
from services.control.errors import PoolUnavailable, Rejected

T = TypeVar("T")
log = structlog.get_logger()

_RETRY_FIRST_S = 0.2
_RETRY_LONGEST_S = 10.0
_ABSENT_RETRY_S = 60.0
_SHORT_WATCH_S = 1.0
"""A watch that ended sooner is opened anew only then."""


class Mirror(Generic[T]):
    """Objects by uid, as `read` gives them. `changed(before, after)` is told of each change.

    A broken watch goes on from the version that was seen last; only a version that the server no
    longer knows (410) makes it list again, and then the differences are told as changes.
    `optional`: a resource that the cluster does not have, or does not let us see, is empty.
    """

    def __init__(
        self,
        api: KubernetesApi,
        path: str,
        read: Callable[[Object], T],
        *,
        selection: Mapping[str, str] | None = None,
        changed: Callable[[T | None, T | None], None] | None = None,
        optional: bool = False,
    ) -> None:
        self.objects: dict[str, T] = {}
        self.listed = asyncio.Event()
        self.fault = ""
        """What hinders it now; empty when it follows."""
        self.fault_since_s = 0.0
        self._api = api
        self._path = path
        self._read = read
        self._selection = selection or {}
        self._changed = changed or (lambda _before, _after: None)
        self._optional = optional
        self._version = ""
        self._retry_s = _RETRY_FIRST_S

    async def follow(self) -> None:
        """Keep the copy, for ever."""
        while True:
            begun_s = time.monotonic()
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except VersionGone:
                self._version = ""
            except (PoolUnavailable, Rejected) as error:
                await self._put_off(error)
                continue
            # Else one that a proxy ends at once would be asked for hundreds of times a second.
            await asyncio.sleep(max(0.0, begun_s + _SHORT_WATCH_S - time.monotonic()))

    async def _list(self) -> None:
        items, version = await self._api.list(self._path, self._selection)
        found = {item["metadata"]["uid"]: self._read(item) for item in items}
        for uid in self.objects.keys() - found.keys():
            self._changed(self.objects.pop(uid), None)
        for uid, one in found.items():
            self._keep(uid, one)
        self._version = version
        self._recovered()
        self.listed.set()

    async def _watch(self) -> None:
        async with self._api.watch(self._path, self._selection, self._version) as events:
            self._recovered()
            async for event in events:
                self._take(event)

    def _take(self, event: Object) -> None:
        item = event["object"]
        self._version = item["metadata"]["resourceVersion"]
        if event["type"] == "DELETED":
            before = self.objects.pop(item["metadata"]["uid"], None)
            if before is not None:
                self._changed(before, None)
        elif event["type"] in ("ADDED", "MODIFIED"):  # a bookmark only moves the version
            self._keep(item["metadata"]["uid"], self._read(item))

    def _keep(self, uid: str, one: T) -> None:
        before = self.objects.get(uid)
        self.objects[uid] = one
        self._changed(before, one)

    def _recovered(self) -> None:
        if self.fault:
            log.info("watch_recovered", path=self._path)
        self.fault, self._retry_s = "", _RETRY_FIRST_S

    async def _put_off(self, error: PoolUnavailable | Rejected) -> None:
        if self._optional and isinstance(error, Rejected):
            self.objects.clear()
            self._version = ""
            if not isinstance(error, NotThere) and not self.listed.is_set():
                log.warning("watch_refused", path=self._path, why=str(error))
            self.listed.set()
            await asyncio.sleep(_ABSENT_RETRY_S)
            return
        if not self.fault:
            self.fault_since_s = time.monotonic()
            log.warning("watch_hindered", path=self._path, why=str(error))
        self.fault = str(error)
        await asyncio.sleep(self._retry_s)
        self._retry_s = min(2 * self._retry_s, _RETRY_LONGEST_S)
