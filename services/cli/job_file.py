"""Files of YAML that commands send to a controller, which takes JSON."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

from services.yaml_file import StrictLoader, YamlUnreadable, read_yaml


def read_document(file: Path) -> Any:
    """What the file says, as JSON can carry it. Raises YamlUnreadable."""
    content = read_yaml(file, loader=StrictLoader)
    try:
        return json.loads(json.dumps(content, default=_as_text))
    except (TypeError, ValueError) as error:
        raise YamlUnreadable(f"{file}: cannot be sent as JSON: {error}") from error


def _as_text(value: object) -> str:
    """YAML has dates and times, such as those of `shuffle.start` and `forecast.holidays`; JSON has text."""
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{value!r} is neither text nor a number")
