"""Every PromQL query below deploy/, and the series that it reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
RULES = DEPLOY / "prometheus" / "penstock.rules.yml"
_GRAFANAS = {"$__rate_interval": "1m", "$job": "clicks"}
"""What Grafana fills in."""


@dataclass(frozen=True)
class Query:
    """A query and where it stands."""

    where: str
    expr: str

    @property
    def filled_in(self) -> str:
        """As Grafana sends it to Prometheus."""
        text = self.expr
        for name, value in _GRAFANAS.items():
            text = text.replace(name, value)
        return text


@dataclass(frozen=True)
class Selector:
    """One series that a query reads, and the labels that it is chosen by."""

    metric: str
    labels: frozenset[str]


def dashboard_queries() -> list[Query]:
    return [
        Query(f"{path.name}: {panel['title']}", target["expr"])
        for path in DASHBOARDS
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]
        for target in panel["targets"]
    ]


def rules() -> list[dict[str, Any]]:
    """Every rule, recording and alerting."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def rule_queries() -> list[Query]:
    return [Query(rule.get("alert") or rule["record"], rule["expr"]) for rule in rules()]


def selectors(query: Query) -> list[Selector]:
    """The series that the query reads. Raises ValueError when it is no PromQL."""
    return [
        Selector(found.name or "", frozenset(matcher.name for matcher in found.matchers.matchers))
        for found in _vectors(promql_parser.parse(query.filled_in))
    ]


def _vectors(node: Any) -> Iterator[promql_parser.VectorSelector]:
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    for part in ("vector_selector", "expr", "param", "lhs", "rhs"):
        below = getattr(node, part, None)
        if below is not None:
            yield from _vectors(below)
    for argument in getattr(node, "args", ()):
        yield from _vectors(argument)
