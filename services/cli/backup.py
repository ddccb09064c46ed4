"""`penstock backup`: jobs and tokens to a file, and back."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from tempfile import mkstemp
from typing import Annotated

import typer
from pydantic import ValidationError

from services.cli.token import Config, whoami
from services.control.errors import StateUnavailable
from services.settings import SettingsError, load_settings
from services.store.backup import Backup, read_backup, restore_backup
from services.store.connect import connect
from services.store.errors import StateCorrupt
from services.store.keys import Keys

backup = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
"""The group; each command is a function below."""

File = Annotated[Path, typer.Argument(metavar="FILE")]


@backup.callback()
def group() -> None:
    """Save the jobs and the tokens of the store to a file, or restore them from one.

    Works on the Redis of the settings. Tokens are saved as hashes: the file opens nothing by itself.
    """


@backup.command("save")
def save(file: File, config: Config = None) -> None:
    """Write jobs and tokens to a file that only you can read."""

    async def run() -> Backup:
        async with connect(settings.redis) as client:
            return await read_backup(client, Keys(settings.redis.prefix))

    try:
        settings = load_settings(config)
        saved = asyncio.run(run())
        _write(file, saved.model_dump_json(indent=2) + "\n")
    except (SettingsError, StateUnavailable, StateCorrupt, OSError) as error:
        raise _failed(error) from error
    typer.echo(f"{len(saved.jobs)} job(s) and {len(saved.tokens)} token(s) in {file}")


def _write(file: Path, text: str) -> None:
    """Whole or not at all: a disk that is full must not cost the backup before, nor may others read a new one
    because they could read that."""
    if file.exists() and not file.is_file():  # such as /dev/stdout
        file.write_text(text, encoding="utf-8")
        return
    file = file.resolve()
    descriptor, beside = mkstemp(dir=file.parent, prefix=f".{file.name}-")  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(descriptor)
        Path(beside).replace(file)
    finally:
        Path(beside).unlink(missing_ok=True)


@backup.command("restore")
def restore(
    file: File,
    replace: Annotated[bool, typer.Option(help="Replace jobs that are there already.")] = False,
    config: Config = None,
) -> None:
    """Put the jobs and tokens of a file back. What is not in it stays."""

    async def run(saved: Backup) -> list[str]:
        async with connect(settings.redis) as client:
            return await restore_backup(
                client, Keys(settings.redis.prefix), saved, by=whoami(), replace=replace
            )

    try:
        settings = load_settings(config)
        saved = Backup.model_validate_json(file.read_bytes())
        done = asyncio.run(run(saved))
    except (SettingsError, StateUnavailable, OSError) as error:
        raise _failed(error) from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise _failed(ValueError(f"{file} is no backup of Penstock: {first['msg']}")) from error
    typer.echo(json.dumps({"restored": done}))


def _failed(error: Exception) -> typer.Exit:
    typer.echo(f"penstock backup: {error}", err=True)
    return typer.Exit(3 if isinstance(error, StateUnavailable) else 2)
