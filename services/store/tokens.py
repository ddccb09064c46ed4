"""Where tokens live: in Redis, by id, as hashes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, cast

import structlog
from pydantic import ValidationError
from redis.asyncio import Redis

from services.access.token import Token
from services.store.connect import asking
from services.store.keys import Keys
from services.store.streams import AUDIT_KEPT, MemoryStream

log = structlog.get_logger(__name__)


class TokenStore(Protocol):
    """The tokens of the fleet."""

    async def find(self, token_id: str) -> Token | None:
        """The token with this id; None when there is none. Raises StateUnavailable."""
        ...

    async def every(self) -> tuple[Token, ...]:
        """All of them, oldest first. Raises StateUnavailable."""
        ...

    async def exist(self) -> bool:
        """Whether there is any token at all. Raises StateUnavailable."""
        ...

    async def keep(self, token: Token, *, audit: bytes) -> None:
        """Store a token and the entry of the audit log together. Raises StateUnavailable."""
        ...

    async def revoke(self, token_id: str, *, audit: bytes) -> bool:
        """Whether there was one to revoke; from then on it opens nothing. Raises StateUnavailable."""
        ...


class RedisTokens:
    """A TokenStore that all controllers with the same Redis and prefix share."""

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._key = keys.tokens()
        self._audit = keys.audit()

    async def find(self, token_id: str) -> Token | None:
        async with asking(self._client, f"HGET {self._key}"):
            raw = cast(bytes | None, await self._client.hget(self._key, token_id))
        return None if raw is None else _read(raw, token_id)

    async def every(self) -> tuple[Token, ...]:
        async with asking(self._client, f"HGETALL {self._key}"):
            stored = cast(dict[bytes, bytes], await self._client.hgetall(self._key))
        read = (_read(raw, name.decode(errors="replace")) for name, raw in stored.items())
        return tuple(sorted((t for t in read if t is not None), key=lambda token: token.created_at_s))

    async def exist(self) -> bool:
        async with asking(self._client, f"HLEN {self._key}"):
            return bool(await self._client.hlen(self._key))

    async def keep(self, token: Token, *, audit: bytes) -> None:
        async with (
            asking(self._client, f"HSET {self._key}"),
            self._client.pipeline(transaction=True) as steps,
        ):
            steps.hset(self._key, token.id, token.model_dump_json())
            steps.xadd(self._audit, {"entry": audit}, maxlen=AUDIT_KEPT, approximate=True)
            await steps.execute()

    async def revoke(self, token_id: str, *, audit: bytes) -> bool:
        async with asking(self._client, f"HDEL {self._key}"):
            if not await self._client.hexists(self._key, token_id):
                return False
            async with self._client.pipeline(transaction=True) as steps:
                steps.hdel(self._key, token_id)
                steps.xadd(self._audit, {"entry": audit}, maxlen=AUDIT_KEPT, approximate=True)
                await steps.execute()
        return True


def _read(raw: bytes, token_id: str) -> Token | None:
    """A token that cannot be read opens nothing."""
    try:
        return Token.model_validate_json(raw)
    except ValidationError as error:
        log.warning("token_unreadable", token=token_id, why=str(error.errors(include_input=False)[0]["msg"]))
        return None


@dataclass(slots=True)
class MemoryTokens:
    """A TokenStore that lives as long as its process."""

    audit: MemoryStream = field(default_factory=lambda: MemoryStream(kept=AUDIT_KEPT))
    _tokens: dict[str, Token] = field(default_factory=dict)

    async def find(self, token_id: str) -> Token | None:
        return self._tokens.get(token_id)

    async def every(self) -> tuple[Token, ...]:
        return tuple(sorted(self._tokens.values(), key=lambda token: token.created_at_s))

    async def exist(self) -> bool:
        return bool(self._tokens)

    async def keep(self, token: Token, *, audit: bytes) -> None:
        self._tokens[token.id] = token
        await self.audit.append({"entry": audit})

    async def revoke(self, token_id: str, *, audit: bytes) -> bool:
        known = self._tokens.pop(token_id, None)
        if known is not None:
            await self.audit.append({"entry": audit})
        return known is not None
