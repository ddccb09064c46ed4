"""Before any route: who asks, how often, and how much. And what every answer carries."""

from __future__ import annotations

from http import HTTPMethod

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.access.rate import RateLimit
from services.api.api_metrics import ApiMetrics
from services.api.principal import Doorkeeper
from services.api.problems import ApiProblem, Kind, explained
from services.clock import elapsed_s

_SAFE = {HTTPMethod.GET, HTTPMethod.HEAD, HTTPMethod.OPTIONS}
_FAILURES_PER_S, _FAILURES_BURST = 1.0, 30
"""Wrong tokens that one address may try."""

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}


class Gate:
    """ASGI middleware. `/v1` needs a principal; the rest (page, OpenAPI) shows nothing of the jobs."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        doorkeeper: Doorkeeper,
        limit: RateLimit,
        body_bytes_max: int,
        metrics: ApiMetrics,
    ) -> None:
        self._app = app
        self._doorkeeper = doorkeeper
        self._limit = limit
        self._failures = RateLimit(per_s=_FAILURES_PER_S, burst=_FAILURES_BURST)
        self._body_bytes_max = body_bytes_max
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_s = elapsed_s()
        body = _Body(receive, self._body_bytes_max)
        answered = _Answer(send, body)
        try:
            await self._let_in(scope)
            body.check_announced(Headers(scope=scope))
            await self._app(scope, body, answered)
            if body.overflowed and not answered.status:
                await body.too_large().response()(scope, receive, answered)
        except Exception as error:  # the last resort: nobody else would answer
            if answered.status:
                raise
            await explained(error).response()(scope, receive, answered)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.answered(scope["method"], route, answered.status, elapsed_s() - started_s)

    async def _let_in(self, scope: Scope) -> None:
        if not scope["path"].startswith("/v1/"):
            return
        address = scope["client"][0] if scope.get("client") else "unknown"
        if self._failures.spent(address, now_s=elapsed_s()):
            raise _too_many(1.0 / _FAILURES_PER_S)
        try:
            changes = scope["method"] not in _SAFE
            principal = await self._doorkeeper.admit(Headers(scope=scope), changes=changes)
        except ApiProblem as problem:
            if problem.kind is Kind.TOKEN_INVALID:
                self._failures.wait_s(address, now_s=elapsed_s())
            raise
        wait_s = self._limit.wait_s(principal.key, now_s=elapsed_s())
        if wait_s > 0:
            raise _too_many(wait_s)
        scope.setdefault("state", {})["principal"] = principal


class _Answer:
    """Adds the headers, and remembers the status. An answer to half a body is not sent."""

    def __init__(self, send: Send, body: _Body) -> None:
        self._send = send
        self._body = body
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if self._body.overflowed and not self.status and message.get("status") != Kind.TOO_LARGE.status:
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await self._send(message)


class _Body:
    """Passes the body on, up to its limit."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._most = most
        self._seen = 0
        self.overflowed = False

    def check_announced(self, headers: Headers) -> None:
        """Refuse before a byte is read what says itself that it is too large."""
        announced = headers.get("content-length", "0")
        if not announced.isdigit() or int(announced) > self._most:
            raise self.too_large()

    async def __call__(self) -> Message:
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        if self._seen > self._most:
            self.overflowed = True  # the framework would take an error here for a body that is not JSON
            raise self.too_large()
        return message

    def too_large(self) -> ApiProblem:
        """What to answer."""
        return ApiProblem(Kind.TOO_LARGE, f"a request may have {self._most} bytes; this one has more")


def _too_many(wait_s: float) -> ApiProblem:
    seconds = max(1, round(wait_s + 0.5))
    return ApiProblem(
        Kind.TOO_MANY, f"too many requests; try again in {seconds} s", headers={"Retry-After": str(seconds)}
    )
