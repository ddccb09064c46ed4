"""Bearer tokens. The secret is shown once, when it is made; what is kept is its hash.

A token is `pst_ID_SECRET`. The secret has 256 random bits, so a fast hash is enough: there is no
dictionary to try, and a slow one would only slow the API down.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Self

from pydantic import BaseModel, ConfigDict

from services.access.role import Role

_SHAPE = re.compile(r"pst_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", flags=re.ASCII)
_NOBODY = hashlib.sha256(b"").hexdigest()


class Token(BaseModel):
    """What is kept of a token."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    id: str
    name: str
    """Who or what uses it, for the audit log."""
    role: Role
    jobs: tuple[str, ...] | None = None
    """The jobs it is good for; all when None."""
    sha256: str
    created_at_s: float
    expires_at_s: float | None = None

    @classmethod
    def mint(
        cls,
        *,
        name: str,
        role: Role,
        now_s: float,
        jobs: tuple[str, ...] | None = None,
        lifetime_s: float | None = None,
    ) -> tuple[Self, str]:
        """A new token, and its text: the only time that anybody sees it."""
        number, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        text = f"pst_{number}_{secret}"
        token = cls(
            id=number,
            name=name,
            role=role,
            jobs=jobs,
            sha256=hashlib.sha256(text.encode()).hexdigest(),
            created_at_s=now_s,
            expires_at_s=None if lifetime_s is None else now_s + lifetime_s,
        )
        return token, text

    def good_for(self, job: str) -> bool:
        """Whether it may touch this job."""
        return self.jobs is None or job in self.jobs

    def expired(self, now_s: float) -> bool:
        """Whether its time is over."""
        return self.expires_at_s is not None and now_s >= self.expires_at_s


def id_in(text: str) -> str | None:
    """The id that a token's text names; None when it cannot be a token."""
    found = _SHAPE.fullmatch(text)
    return found[1] if found else None


def matches(token: Token | None, text: str) -> bool:
    """Whether `text` is this token's, in constant time; a token that is not there takes as long."""
    kept = token.sha256 if token is not None else _NOBODY
    given = hashlib.sha256(text.encode(errors="replace")).hexdigest()
    return hmac.compare_digest(kept, given) and token is not None


def same_secret(kept: str, given: str) -> bool:
    """Whether two secrets are the same, in constant time."""
    return hmac.compare_digest(
        hashlib.sha256(kept.encode(errors="replace")).digest(),
        hashlib.sha256(given.encode(errors="replace")).digest(),
    )
