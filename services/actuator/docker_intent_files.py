"""Intents of a Docker pool as files of a directory, where the engine's volumes are not wanted."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from services.control.errors import PoolUnavailable


class IntentFiles:
    """What `DockerIntents` wants of volumes, one file for each: making one that is there changes nothing.

    Every controller of the job must see the same directory. Raises PoolUnavailable when it cannot be used.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def volumes(self, labels: Mapping[str, str]) -> dict[str, Mapping[str, str]]:
        """Labels by name, of all with these labels."""
        with self._usable():
            found = {path.stem: _read(path) for path in self._directory.glob("*.json")}
        return {name: has for name, has in found.items() if has is not None and labels.items() <= has.items()}

    def create_volume(self, name: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Make one, whole or not at all. One that is there already stays as it is: its labels come back."""
        with self._usable():
            self._directory.mkdir(parents=True, exist_ok=True)
            fresh = self._directory / f"{uuid4().hex}.new"
            try:
                _write(fresh, labels)
                with suppress(FileExistsError):
                    os.link(fresh, self._path(name))  # unlike a rename, never over another's
            finally:
                fresh.unlink(missing_ok=True)
            return _read(self._path(name)) or {}

    def remove_volume(self, name: str) -> None:
        """Nothing happens to one that is gone."""
        with self._usable():
            self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.json"

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise PoolUnavailable(
                f"{self._directory} cannot keep what the pool was asked for: {error}; "
                "see to pool.docker.intents_dir"
            ) from error


def _write(path: Path, labels: Mapping[str, str]) -> None:
    with path.open("x", encoding="utf-8") as file:
        json.dump(dict(labels), file)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> Mapping[str, str] | None:
    """None when another has removed it in between."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    content: dict[str, str] = json.loads(text)
    return content
