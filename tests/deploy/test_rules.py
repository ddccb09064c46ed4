"""The Prometheus rules, tested by promtool, and the runbook that goes with them."""

from __future__ import annotations

import shutil
import subprocess

import pytest
import yaml
from prometheus_client import generate_latest

from tests.deploy.exported import everything
from tests.deploy.queries import DEPLOY, RULES, rules

ALERTS = [rule for rule in rules() if "alert" in rule]


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed; it comes with Prometheus (Debian: apt install prometheus)")
    return found


def test_the_rules_do_what_their_tests_say(promtool: str) -> None:
    done = subprocess.run(
        [promtool, "test", "rules", "penstock.tests.yml"],
        cwd=RULES.parent,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_its_configuration(promtool: str) -> None:
    done = subprocess.run(
        [promtool, "check", "config", "--syntax-only", "prometheus.yml"],
        cwd=RULES.parent,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_names_and_units_of_metrics_follow_the_conventions(promtool: str) -> None:
    """`promtool check metrics` on what a controller exposes: units, suffixes, help."""
    done = subprocess.run(
        [promtool, "check", "metrics"],
        input=generate_latest(everything()).decode(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested() -> None:
    tests = yaml.safe_load((RULES.parent / "penstock.tests.yml").read_text(encoding="utf-8"))["tests"]
    fired = {
        case["alertname"] for test in tests for case in test["alert_rule_test"] if case.get("exp_alerts")
    }

    assert fired == {alert["alert"] for alert in ALERTS}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_says_how_urgent_it_is_and_what_to_do(alert: dict[str, dict[str, str]]) -> None:
    assert alert["labels"]["severity"] in ("page", "ticket")
    page, _, heading = alert["annotations"]["runbook"].partition("#")
    headings = [
        line.removeprefix("### ").lower()
        for line in (DEPLOY.parent / page).read_text(encoding="utf-8").splitlines()
        if line.startswith("### ")
    ]
    assert heading == str(alert["alert"]).lower()
    assert heading in headings
