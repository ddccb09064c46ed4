"""Read settings from a YAML file and the environment, with errors that a person can act on."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import SettingsError as EnvironmentInvalid

from services.settings.root import Settings
from services.yaml_file import StrictLoader, YamlUnreadable, read_yaml

_NOT_SETTINGS = (
    *("PENSTOCK_READY_FILE", "PENSTOCK_OWNER_FD", "PENSTOCK_DRAIN_S", "PENSTOCK_TRACES", "PENSTOCK_TEST_"),
    *("PENSTOCK_SERVER", "PENSTOCK_TOKEN"),
)
"""Variables with our prefix that are no settings: for workers from their pool, for commands, for tests."""


_SECRET = ("redis.url", "kafka.options")
_GROUPS = ("redis", "kafka")
"""An address given in the place of the whole group may carry a password just as well."""


class SettingsError(Exception):
    """The settings cannot be used. The message names each field, its value and the rule it breaks."""


def load_settings(path: Path | None = None) -> Settings:
    """The settings in force: environment over file over defaults.

    Raises SettingsError, listing every mistake at once.
    """
    _refuse_unknown(os.environ)
    try:
        return Settings(**({} if path is None else _read(path)))
    except ValidationError as error:
        source = "the environment" if path is None else f"{path} and the environment"
        raise SettingsError(_explain(error, source)) from error
    except EnvironmentInvalid as error:
        raise SettingsError(f"environment: {error}") from error


def _refuse_unknown(names: Iterable[str]) -> None:
    """A misspelt variable would otherwise be ignored, and the default used in its place."""
    names = set(names)
    known = {f"PENSTOCK_{field.upper()}" for field in Settings.model_fields}
    passed_over = (*_NOT_SETTINGS, *_service_links(names))
    for name in sorted(names):
        if not name.upper().startswith("PENSTOCK_") or name.upper().startswith(passed_over):
            continue
        if name.upper().split("__")[0] not in known:
            raise SettingsError(f"environment: {name}: no such setting; there are {', '.join(sorted(known))}")


def _service_links(names: Iterable[str]) -> Iterable[str]:
    """How variables begin that Kubernetes gives every pod of a namespace with a Service named `penstock`.

    >>> sorted(_service_links(["PENSTOCK_SERVICE_HOST", "PENSTOCK_PORT_8080_TCP", "PENSTOCK_API__PORT"]))
    ['PENSTOCK_PORT', 'PENSTOCK_SERVICE_']
    """
    for name in names:
        service, host, _ = name.partition("_SERVICE_HOST")
        if host:
            yield from (f"{service}_SERVICE_", f"{service}_PORT")


def _read(path: Path) -> dict[str, Any]:
    try:
        content = read_yaml(path, loader=StrictLoader)
    except YamlUnreadable as error:
        raise SettingsError(str(error)) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingsError(f"{path}: the top level must be a mapping of settings")
    return content


def _explain(error: ValidationError, source: str) -> str:
    lines = [f"{error.error_count()} mistake(s) in {source}:"]
    for mistake in error.errors(include_url=False):
        field = ".".join(str(part) for part in mistake["loc"] if part != "[key]") or "settings"
        rule = mistake["msg"].removeprefix("Value error, ")
        if mistake["type"] == "extra_forbidden":
            lines.append(f"  {field}: no such setting; check the spelling against docs/configuration.md")
        elif mistake["type"] == "missing":
            lines.append(f"  {field}: is required")
        else:
            lines.append(f"  {field}: {rule}{_given(mistake['input'], field)}")
    return "\n".join(lines)


def _given(value: object, field: str) -> str:
    """The offending value, unless it is a whole group or may hold a secret."""
    if isinstance(value, dict | list) or field.startswith(_SECRET) or field in _GROUPS:
        return ""
    return f" (given: {value!r})"
