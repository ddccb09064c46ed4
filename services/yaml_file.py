"""YAML files that people write: settings, fleets, plants."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml


class YamlUnreadable(Exception):
    """There is no such file, or it is no YAML. The message names the file and says what is wrong."""


class StrictLoader(yaml.SafeLoader):
    """YAML in which a key given twice is an error, not a silent last-one-wins."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                break  # which the loader itself refuses
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key!r} is given twice; remove one", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


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
