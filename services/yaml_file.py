"""YAML files that people write: settings, fleets, plants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


class YamlUnreadable(Exception):
    """There is no such file, or it is no YAML. The message names the file and says what is wrong."""


def read_yaml(path: Path, *, loader: type[yaml.SafeLoader] = yaml.SafeLoader) -> Any:
    """What the file holds; None when it is empty. Raises YamlUnreadable."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise YamlUnreadable(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise YamlUnreadable(f"{path}: is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except yaml.YAMLError as error:
        raise YamlUnreadable(f"{path}: is not valid YAML: {error}") from error
