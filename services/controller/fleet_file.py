"""The fleet file: what is in it, and whether it has changed."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from services.settings import SettingsError
from services.settings.fleet import FleetContents
from services.yaml_file import YamlUnreadable, read_yaml


def stamp_of(file: Path) -> tuple[int, int] | None:
    """What changes when the file does; None while it is not there."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def read_fleet_file(file: Path) -> FleetContents:
    """What it says. Raises SettingsError for one that cannot be used."""
    try:
        content = read_yaml(file)
    except YamlUnreadable as error:
        raise SettingsError(str(error)) from error
    try:
        return FleetContents.model_validate(content or {})
    except ValidationError as error:
        mistakes = "; ".join(
            f"{'.'.join(map(str, mistake['loc'])) or 'fleet'}: {mistake['msg'].removeprefix('Value error, ')}"
            for mistake in error.errors(include_url=False, include_input=False)
        )
        raise SettingsError(f"{file}: {mistakes}") from error
