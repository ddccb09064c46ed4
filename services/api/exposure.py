"""Whether an API may be bound as asked, and the one token that comes from a file."""

from __future__ import annotations

import structlog

from services.api.principal import is_loopback
from services.control.errors import StateUnavailable
from services.settings.root import ApiSettings
from services.store.tokens import TokenStore

log = structlog.get_logger(__name__)

_TOKEN_LENGTH_MIN = 20


class Exposed(Exception):
    """The API would be reachable from elsewhere without any token; the message says what to do."""


def admin_token(settings: ApiSettings) -> str | None:
    """The token in `admin_token_file`; None when there is no such setting. Raises Exposed."""
    path = settings.admin_token_file
    if path is None:
        return None
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Exposed(f"api.admin_token_file: {path} cannot be read: {error}") from error
    if len(text) < _TOKEN_LENGTH_MIN:
        raise Exposed(
            f"api.admin_token_file: the token in {path} has {len(text)} characters; "
            f"at least {_TOKEN_LENGTH_MIN} random ones are needed"
        )
    return text


async def check_exposure(settings: ApiSettings, tokens: TokenStore, token: str | None) -> None:
    """Refuse to be reached from elsewhere while there is no token. Raises Exposed.

    A store that does not answer is no reason to refuse: without it no token opens anything, and
    beyond loopback nothing is open without a token.
    """
    try:
        there = token is not None or await tokens.exist()
    except StateUnavailable as error:
        log.warning("tokens_not_known_yet", why=str(error))
        return
    if there:
        return
    if not is_loopback(settings.host):
        raise Exposed(
            f"api.host is {settings.host}, which others can reach, and there is no token; "
            "make one with `penstock token create --role admin NAME`, or set api.admin_token_file"
        )
    log.warning(
        "api_open_on_this_machine",
        what_to_do="whoever can log in here may change jobs; `penstock token create` makes the first token "
        "and closes it",
    )
