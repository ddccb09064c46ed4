"""Who asks: a token, or somebody on this machine while there are no tokens."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from services.access.role import Role
from services.access.token import Token, id_in, matches, same_secret
from services.api.problems import ApiProblem, Kind
from services.control.errors import StateUnavailable
from services.control.ports import Clock
from services.controller.desk import Caller
from services.store.tokens import TokenStore

REMEMBERED_S = 300.0
"""While the store is away, a token seen this lately may still look; changes need the store anyway."""
_REMEMBERED_MAX = 1000


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks, and what they may."""

    key: str
    """For the rate limit: the token's id, or `local`."""
    name: str
    role: Role
    jobs: tuple[str, ...] | None = None

    @property
    def caller(self) -> Caller:
        """For the audit log."""
        return Caller(self.name, self.role.value)

    def good_for(self, job: str) -> bool:
        """Whether they may see this job."""
        return self.jobs is None or job in self.jobs


def is_loopback(host: str) -> bool:
    """Whether an address to listen on, or a name to be reached by, means this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Doorkeeper:
    """Finds out who asks. Raises ApiProblem; no message repeats what was given."""

    def __init__(
        self, tokens: TokenStore, clock: Clock, *, listens_on: str, admin_token: str | None = None
    ) -> None:
        self._tokens = tokens
        self._clock = clock
        self._local_only = is_loopback(listens_on)
        self._admin_token = admin_token
        self._lately: OrderedDict[str, tuple[float, Token]] = OrderedDict()

    async def admit(self, headers: Headers, *, changes: bool) -> Principal:
        """Who asks with these headers. Raises ApiProblem, StateUnavailable."""
        given = headers.get("authorization")
        if given is None:
            return await self._without_token(headers)
        scheme, _, text = given.partition(" ")
        if scheme.lower() != "bearer" or not text:
            raise _unauthorised(Kind.TOKEN_MISSING, "send the header `Authorization: Bearer TOKEN`")
        return await self._with_token(text.strip(), changes=changes)

    async def _with_token(self, text: str, *, changes: bool) -> Principal:
        if self._admin_token is not None and same_secret(self._admin_token, text):
            return Principal("file", "admin token file", Role.ADMIN)
        token_id = id_in(text)
        token = await self._find(token_id, changes=changes) if token_id else None
        if token is None or not matches(token, text) or token.expired(self._clock.now_s()):
            raise _unauthorised(
                Kind.TOKEN_INVALID, "the token is unknown, revoked or expired; ask an admin for another"
            )
        return Principal(token.id, f"{token.name} ({token.id})", token.role, token.jobs)

    async def _find(self, token_id: str, *, changes: bool) -> Token | None:
        now_s = self._clock.now_s()
        try:
            token = await self._tokens.find(token_id)
        except StateUnavailable:
            seen_at_s, known = self._lately.get(token_id, (float("-inf"), None))
            if changes or known is None or now_s - seen_at_s > REMEMBERED_S:
                raise
            return known
        if token is None:
            self._lately.pop(token_id, None)
        else:
            self._lately[token_id] = (now_s, token)
            self._lately.move_to_end(token_id)
            if len(self._lately) > _REMEMBERED_MAX:
                self._lately.popitem(last=False)
        return token

    async def _without_token(self, headers: Headers) -> Principal:
        """Somebody on this machine, while nobody has made a token.

        A browser on this machine may be led here by any site that it visits: the request must name
        this machine, and must not come from a page of another origin.
        """
        wanted = _unauthorised(Kind.TOKEN_MISSING, "send the header `Authorization: Bearer TOKEN`")
        if not self._local_only or self._admin_token is not None:
            raise wanted
        if not is_loopback(_host_in(headers.get("host", ""))) or not _same_origin(headers):
            raise wanted
        if await self._tokens.exist():
            raise wanted
        return Principal("local", "anonymous on this machine", Role.ADMIN)


def _host_in(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _same_origin(headers: Headers) -> bool:
    origin = headers.get("origin")
    if origin is None:
        return headers.get("sec-fetch-site", "none") in ("none", "same-origin")
    return origin.partition("://")[2] == headers.get("host", "")


def _unauthorised(kind: Kind, detail: str) -> ApiProblem:
    return ApiProblem(kind, detail, headers={"WWW-Authenticate": 'Bearer realm="penstock"'})
