"""Write docs/configuration.md from the settings classes: `python -m services.settings.reference FILE`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from services.settings.fleet import GpuTypeSettings, NodeSettings, TenantSettings
from services.settings.job import JobSettings
from services.settings.pool import TypePoolSettings
from services.settings.root import Settings

_INTRODUCTION = """# Configuration

<!-- Generated from services/settings by `make docs`; edit the settings classes instead. -->

`penstock serve --config penstock.yaml` reads a YAML file; every setting can also be given as an environment
variable, which wins over the file. The name is `PENSTOCK_` and the path in capitals, joined by two
underscores: `kafka.bootstrap` is `PENSTOCK_KAFKA__BOOTSTRAP`, `jobs.clicks.scaling.workers_max` is
`PENSTOCK_JOBS__CLICKS__SCALING__WORKERS_MAX`. Unknown names, values out of range and jobs that contradict
each other are refused at start, all at once, each with the field, the value and the rule. No time is
longer than a year.

```yaml
kafka:
  bootstrap: broker-1:9092,broker-2:9092
redis:
  url: redis://redis:6379/0
jobs:
  clicks:
    topic: clicks
    slo: {fresh_within_s: 60, late_share_target: 0.01}
    scaling: {workers_min: 1, workers_max: 16, rate_per_worker: 2000}
```
"""


def reference() -> str:
    """The whole document, deterministic."""
    parts = [_INTRODUCTION]
    parts += _sections(Settings, "")
    parts += _sections(GpuTypeSettings, "fleet.gpu_types.<type>")
    parts += _sections(NodeSettings, "fleet.nodes.<node>")
    parts += _sections(TenantSettings, "fleet.tenants.<tenant>")
    parts.append("## Jobs\n\nEach entry of `jobs` is one online-training job.\n")
    parts += _sections(JobSettings, "jobs.<job>")
    parts += _sections(TypePoolSettings, "jobs.<job>.pool.by_gpu_type.<type>")
    return "\n".join(parts)


def _sections(model: type[BaseModel], path: str) -> Iterator[str]:
    rows = [_row(name, field) for name, field in model.model_fields.items() if not _is_group(field)]
    if path and rows:
        yield f"### `{path}`\n\n{_doc(model)}\n\n" + _table(rows)
    for name, field in model.model_fields.items():
        group = field.annotation
        if isinstance(group, type) and issubclass(group, BaseModel):
            yield from _sections(group, f"{path}.{name}".lstrip("."))


def _is_group(field: FieldInfo) -> bool:
    return isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)


def _table(rows: list[str]) -> str:
    return "| setting | type | default | meaning |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


def _row(name: str, field: FieldInfo) -> str:
    meaning = " ".join((field.description or "").split()).replace("|", "\\|")
    return f"| `{name}` | {_type_name(field.annotation)}{_rules(field)} | {_default(field)} | {meaning} |"


def _doc(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split())


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "empty"
    if field.default is PydanticUndefined:
        return "required"
    if field.default is None:
        return "-"
    value = field.default.value if isinstance(field.default, Enum) else field.default
    return f"`{value}`"


def _rules(field: FieldInfo) -> str:
    signs = {"gt": "> ", "ge": ">= ", "lt": "< ", "le": "<= ", "pattern": "matching "}
    rules = [
        f"{sign}{getattr(rule, attribute)}"
        for rule in field.metadata
        for attribute, sign in signs.items()
        if getattr(rule, attribute, None) is not None
    ]
    return f", {' and '.join(rules)}".replace("|", "\\|") if rules else ""


def _type_name(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is None:
        return _plain_name(annotation)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin is Annotated:
        return _type_name(arguments[0])
    names = [_type_name(argument) for argument in arguments if argument not in (type(None), ...)]
    wording = {list: "list of {}", tuple: "list of {}", dict: "mapping of {} to {}"}
    return wording[origin].format(*names) if origin in wording else " or ".join(names)


def _plain_name(annotation: Any) -> str:
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(f"`{member.value}`" for member in annotation)
    names = {str: "text", int: "whole number", float: "number", bool: "true or false", Path: "path"}
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
