"""`penstock token`: who may use the API. Works on the store itself: whoever holds Redis holds all."""

from __future__ import annotations

import asyncio
import getpass
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from services.access.audit import AuditEntry, Change
from services.access.role import Role
from services.access.token import Token
from services.cli.forecast import duration_s
from services.cli.shown import AsJson, at, table_of
from services.clock import SystemClock
from services.control.errors import StateUnavailable
from services.settings import SettingsError, load_settings
from services.store.connect import connect
from services.store.keys import Keys
from services.store.tokens import RedisTokens

token = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
"""The group; each command is a function below."""

Config = Annotated[
    Path | None, typer.Option(help="YAML file with the settings. PENSTOCK_ variables win over it.")
]
Result = TypeVar("Result")


@token.callback()
def group() -> None:
    """Make, list and revoke the tokens that open the API.

    Works on the Redis of the settings, not through a server: the first token has to come from somewhere.
    """


@token.command("create")
def create(
    *,
    name: Annotated[str, typer.Argument(help="Who or what uses it; shown in the audit log.")],
    role: Annotated[Role, typer.Option(help="What it may do.")] = Role.VIEWER,
    job: Annotated[list[str] | None, typer.Option(help="Good for this job only; repeat for more.")] = None,
    expires: Annotated[str | None, typer.Option(help="Good for this long, as 12h or 30d.")] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Make a token. It is shown once; only its hash is kept."""
    if not name.isprintable() or not 1 <= len(name) <= 100:
        raise typer.BadParameter("a name has 1 to 100 printable characters")
    lifetime_s = None if expires is None else duration_s(expires)
    made, text = Token.mint(
        name=name,
        role=role,
        now_s=SystemClock().now_s(),
        jobs=tuple(job) if job else None,
        lifetime_s=lifetime_s,
    )
    entry = _entry("token.create", made.id, f"{name}, {role}")
    _with_tokens(config, lambda tokens: tokens.keep(made, audit=entry.written()))
    if as_json:
        typer.echo(json.dumps({**_told(made), "token": text}))
        return
    typer.echo("Keep it safe; it is not shown again.", err=True)
    typer.echo(text)


@token.command("list")
def list_tokens(config: Config = None, as_json: AsJson = False) -> None:
    """All tokens, without their secrets."""
    tokens = _with_tokens(config, lambda tokens: tokens.every())
    if as_json:
        typer.echo(json.dumps([_told(one) for one in tokens], indent=2))
        return
    rows = [
        (
            t.id,
            t.name,
            t.role.value,
            ", ".join(t.jobs) if t.jobs else "all",
            at(t.created_at_s),
            at(t.expires_at_s),
        )
        for t in tokens
    ]
    Console().print(table_of(("id", "name", "role", "jobs", "made (UTC)", "expires (UTC)"), rows))


@token.command("revoke")
def revoke(token_id: Annotated[str, typer.Argument(metavar="ID")], config: Config = None) -> None:
    """Close a token: from the next request on it opens nothing."""
    entry = _entry("token.revoke", token_id, "")
    if not _with_tokens(config, lambda tokens: tokens.revoke(token_id, audit=entry.written())):
        typer.echo(f"penstock token: no token has the id {token_id!r}; see `penstock token list`", err=True)
        raise typer.Exit(1)
    typer.echo(f"revoked {token_id}")


def _with_tokens(config: Path | None, work: Callable[[RedisTokens], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        async with connect(settings.redis) as client:
            return await work(RedisTokens(client, Keys(settings.redis.prefix)))

    try:
        settings = load_settings(config)
        return asyncio.run(run())
    except SettingsError as error:
        typer.echo(f"penstock token: {error}", err=True)
        raise typer.Exit(2) from error
    except StateUnavailable as error:
        typer.echo(f"penstock token: {error}", err=True)
        raise typer.Exit(3) from error


def _entry(action: str, token_id: str, what: str) -> AuditEntry:
    change = Change(field=f"token {token_id}", after=what or None)
    return AuditEntry(
        at_s=SystemClock().now_s(), who=whoami(), role="admin", action=action, changes=(change,)
    )


def whoami() -> str:
    """Who runs this command, for the audit log."""
    return f"{getpass.getuser()}@{socket.gethostname()} (command line)"


def _told(one: Token) -> dict[str, object]:
    return one.model_dump(mode="json", exclude={"sha256"})
