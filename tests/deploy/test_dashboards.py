"""Dashboards and rules read metrics that the code exports, and every metric is shown to somebody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.deploy.exported import exported
from tests.deploy.queries import DASHBOARDS, DEPLOY, Query, dashboard_queries, rule_queries, rules, selectors

ALL = [*dashboard_queries(), *rule_queries()]
_OF_PROMETHEUS = {"instance"}
_RECORDED = {rule["record"] for rule in rules() if "record" in rule}


@pytest.mark.parametrize("query", ALL, ids=lambda query: query.where)
def test_a_query_parses_and_reads_only_what_is_exported(query: Query) -> None:
    read = selectors(query)

    assert read, "a query that reads nothing"
    for selector in read:
        if selector.metric in _RECORDED:
            assert selector.labels <= {"job"}
        else:
            assert selector.metric in exported(), f"{selector.metric} is not exported"
            assert selector.labels <= exported()[selector.metric] | _OF_PROMETHEUS


def test_every_metric_is_on_a_dashboard() -> None:
    shown = {selector.metric for query in dashboard_queries() for selector in selectors(query)}
    families = {name.removesuffix("_sum").removesuffix("_count").removesuffix("_bucket") for name in shown}

    unseen = {name for name in exported() if name not in shown and _family(name) not in families}

    assert not unseen


def _family(name: str) -> str:
    return name.removesuffix("_sum").removesuffix("_count").removesuffix("_bucket")


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_a_dashboard_can_be_provisioned(path: Path) -> None:
    board = json.loads(path.read_text(encoding="utf-8"))

    assert board["uid"]
    assert board["title"].startswith("Penstock")
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    names = {variable["name"] for variable in board["templating"]["list"]}
    for panel in board["panels"]:
        assert panel["description"], f"{panel['title']} says nothing of what it shows"
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert "$job" not in target["expr"] or "job" in names


def test_grafana_is_pointed_at_the_stacks_prometheus_and_at_the_mounted_dashboards() -> None:
    compose = yaml.safe_load((DEPLOY.parent / "docker-compose.yml").read_text(encoding="utf-8"))
    provisioning = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())["datasources"]
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "penstock.yml").read_text())["providers"]

    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in compose["services"]
    mounts = [volume.split(":") for volume in compose["services"]["grafana"]["volumes"]]
    assert any(
        source == "./deploy/grafana/dashboards" and at == provider["options"]["path"]
        for source, at, *_ in mounts
    )
