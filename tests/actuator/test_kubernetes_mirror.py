"""The copy of a collection, on API servers that do as no good one does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest

from services.actuator.kubernetes_api import KubernetesApi, Object, VersionGone
from services.actuator.kubernetes_mirror import Mirror

ENOUGH = 20


@dataclass
class ShortServer:
    """Every watch ends as soon as it is open, or is of a version that is gone already."""

    gone: bool
    asked: int = 0

    async def list(self, path: str, selection: Any) -> tuple[list[Object], str]:
        self._count()
        return [], "7"

    @asynccontextmanager
    async def watch(self, path: str, selection: Any, version: str) -> AsyncIterator[AsyncIterator[Object]]:
        self._count()
        if self.gone:
            raise VersionGone("too old resource version")
        yield _no_events()

    def _count(self) -> None:
        self.asked += 1
        if self.asked >= ENOUGH:
            raise asyncio.CancelledError


async def _no_events() -> AsyncIterator[Object]:
    for event in cast(list[Object], []):
        yield event


@pytest.mark.parametrize("gone", [False, True])
async def test_a_watch_that_ends_at_once_is_not_asked_for_again_at_once(
    gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, waited_s = ShortServer(gone), []

    async def note(seconds: float) -> None:
        waited_s.append(seconds)

    monkeypatch.setattr("services.actuator.kubernetes_mirror.asyncio.sleep", note)
    with pytest.raises(asyncio.CancelledError):
        await Mirror(cast(KubernetesApi, server), "/api/v1/pods", lambda found: found).follow()

    assert len(waited_s) >= ENOUGH / 2 - 1
    assert min(waited_s) > 0.9
