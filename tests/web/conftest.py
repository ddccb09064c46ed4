"""The page in a real browser, on a site in memory that a test can move."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, expect, sync_playwright

from services.access.role import Role
from tests.api.sites import Rig
from tests.waiting import eventually

FLAGS = [
    *("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"),
    *("--disable-background-networking", "--no-first-run"),
]
Value = TypeVar("Value")


class Served:
    """A rig on a real socket, in a thread of its own; `run` does something in that thread's event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.rig = self.run(self._made)
        config = uvicorn.Config(
            self.rig.app, port=0, log_level="error", lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        self._serving = asyncio.run_coroutine_threadsafe(self._server.serve(), self.loop)
        eventually(lambda: self._server.started, what="the server")

    async def _made(self) -> Rig:
        return await Rig().opened()

    def run(self, work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work(*arguments, **options), self.loop).result(30)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"

    def token(self, role: Role = Role.ADMIN, jobs: tuple[str, ...] | None = None) -> str:
        text: str = self.run(self.rig.token, role, jobs=jobs)
        return text

    def tick(self, **options: Any) -> None:
        """One tick, told to whoever watches."""

        async def tell() -> None:
            await self.rig.tell(self.rig.controller.tick(**options))

        self.run(tell)

    def end(self) -> None:
        self._server.should_exit = True
        self.run(self.rig.site.events.close)
        self._serving.result(30)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    yield served
    served.end()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh page; any error of its scripts fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(30_000)
    expect.set_options(timeout=30_000)  # a safety net, as everywhere: a busy machine takes its time
    broken: list[str] = []
    page.on("pageerror", lambda error: broken.append(str(error)))
    yield page
    context.close()
    assert broken == []
