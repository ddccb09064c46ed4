"""Where the page of a running demo is, and the token that opens it until the demo ends."""

from __future__ import annotations

from dataclasses import dataclass, field

from services.access.audit import AuditEntry
from services.access.role import Role
from services.access.token import Token
from services.clock import SystemClock
from services.store.tokens import TokenStore


@dataclass(frozen=True, slots=True)
class Visit:
    """What a visitor needs to know."""

    page: str
    operations: str
    token: str = field(repr=False)

    def invitation(self) -> str:
        """In words. The token is in the fragment of the address, which browsers do not send."""
        return (
            f"Web page:  {self.page}/#token={self.token}\n"
            f"For penstock job and curl, until the demo ends:\n"
            f"  export PENSTOCK_SERVER={self.page} PENSTOCK_TOKEN={self.token}"
        )


async def demo_token(tokens: TokenStore) -> str:
    """An admin token in the demo's own store, which goes with the demo. Raises StateUnavailable."""
    now_s = SystemClock().now_s()
    token, text = Token.mint(name="demo", role=Role.ADMIN, now_s=now_s)
    entry = AuditEntry(at_s=now_s, who="demo", role="admin", action="token.create")
    await tokens.keep(token, audit=entry.written())
    return text
