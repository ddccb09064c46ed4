"""The Redis that the tests use: which one, why, and how to get it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from tests.servers import docker

Kind = Literal["embedded", "container", "given"]

URL_VARIABLE = "PENSTOCK_TEST_REDIS"
IMAGE_VARIABLE = "PENSTOCK_TEST_REDIS_IMAGE"
IMAGE_DEFAULT = "redis:7"
_DATABASES = 16


@dataclass(frozen=True)
class RedisUnderTest:
    """A running Redis. Its `url` names database 0, or the one that was given."""

    kind: Kind
    url: str

    def database(self, number: int) -> str:
        """The URL of another database of the same server. A given URL's is the only one it has.

        >>> RedisUnderTest("embedded", "redis://127.0.0.1:6379/0").database(3)
        'redis://127.0.0.1:6379/3'
        """
        if self.kind == "given":
            return self.url
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{number % _DATABASES}"))


@dataclass(frozen=True)
class RedisChoice:
    """Which Redis the `redis` fixture uses, and why; decided before anything is started."""

    kind: Kind
    why: str
    url: str = ""

    def __str__(self) -> str:
        where = urlsplit(self.url)  # a password in the URL is not for the screen
        return f"{self.kind}{f' {where.hostname}:{where.port}' if self.url else ''} ({self.why})"


def choose_redis(option: str | None) -> RedisChoice:
    """What `--redis` says; else PENSTOCK_TEST_REDIS; else the embedded one.

    Raises ValueError, with the remedy, when what was asked for cannot be had.
    """
    if option == "embedded":
        return RedisChoice("embedded", "by --redis")
    if option == "container":
        reason = docker.lacking(redis_image())
        if reason is not None:
            raise ValueError(f"--redis=container: {reason}")
        return RedisChoice("container", "by --redis")
    by, url = ("--redis", option) if option else (URL_VARIABLE, os.environ.get(URL_VARIABLE))
    if not url:
        return RedisChoice("embedded", "the default; choose with --redis")
    if "://" not in url:
        raise ValueError(f"{by}={url}: give embedded, container or a URL such as redis://HOST:PORT/0")
    return RedisChoice("given", f"by {by}", url=url)


def redis_image() -> str:
    return os.environ.get(IMAGE_VARIABLE) or IMAGE_DEFAULT


def start_redis(choice: RedisChoice, stack: ExitStack) -> RedisUnderTest:
    """Start what was chosen; it ends with the stack."""
    if choice.kind == "given":
        return RedisUnderTest("given", choice.url)
    if choice.kind == "container":
        return RedisUnderTest("container", stack.enter_context(docker.redis_container(redis_image())))
    from services.embedded.redis import EmbeddedRedis

    return RedisUnderTest("embedded", stack.enter_context(EmbeddedRedis(databases=_DATABASES)).url)
