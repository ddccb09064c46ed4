"""The operators' commands against a real server: tables for people, JSON for scripts, exit codes."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from typer.testing import CliRunner, Result

from services.access.role import Role
from services.access.token import Token
from services.cli.main import app
from services.doctor.stored_jobs import check_stored_jobs
from services.logs import configure_logs
from services.settings import Settings
from services.settings.root import LogSettings, RedisSettings
from services.settings.scaling import SloSettings
from services.store.connect import connect
from services.store.job_record import JobRecord
from services.store.jobs import RedisJobs
from services.store.keys import Keys
from services.store.tokens import RedisTokens
from tests.api.sites import trained
from tests.web.conftest import Served


@pytest.fixture
def served() -> Iterator[Served]:
    """A server in this process; its log must not mix with what the commands print."""
    configure_logs(LogSettings(level="error"))
    served = Served()
    yield served
    served.end()
    structlog.reset_defaults()


class Shell:
    """Runs commands as an operator would, with server and token from the environment."""

    def __init__(self, served: Served, token: str, *, columns: int = 200) -> None:
        self._env = {"PENSTOCK_SERVER": served.url, "PENSTOCK_TOKEN": token, "COLUMNS": str(columns)}

    def __call__(self, *words: str, given: str | None = None) -> Result:
        return CliRunner().invoke(app, list(words), env=self._env, input=given)

    def json(self, *words: str) -> Any:
        result = self(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@pytest.fixture
def shell(served: Served) -> Shell:
    served.tick()
    return Shell(served, served.token())


@pytest.fixture
def narrow(served: Served) -> Shell:
    served.tick()
    return Shell(served, served.token(), columns=80)


def test_jobs_are_listed_and_shown(shell: Shell) -> None:
    listed = shell("job", "list")

    assert listed.exit_code == 0
    assert "clicks" in listed.stdout
    assert "on time" in listed.stdout
    assert shell.json("job", "list")[0]["id"] == "clicks"
    assert "penstock-clicks" in shell("job", "show", "clicks").stdout
    assert shell.json("job", "show", "clicks")["topic"] == "clicks-raw"


def test_plan_forecast_and_what_if_are_shown(shell: Shell) -> None:
    assert "More traffic is forecast" in shell("job", "plan", "clicks").stdout
    assert "flat" in shell("job", "forecast", "clicks").stdout
    curve = shell("job", "what-if", "clicks", "--fresh-within", "30s")
    assert "knob=0.7" in curve.stdout
    assert shell.json("job", "what-if", "clicks", "--fresh-within", "30s")["asked"]["late_share"] == 0.01


def test_safety_shows_limits_standbys_and_the_trail(shell: Shell) -> None:
    shown = shell("job", "safety", "clicks")
    told = shell.json("job", "safety", "clicks", "--limit", "5")

    assert shown.exit_code == 0, shown.output
    for words in (
        "of 360 in the last hour",
        "any step up",
        "breaker closed",
        "0 loaded, 0 wanted",
        "outcome",
    ):
        assert words in shown.stdout
    assert told["standbys"] == {"wanted": 0, "loaded": 0, "numbers": {}}
    (resize,) = told["actuations"]
    assert resize["decision_id"] in shown.stdout
    assert (resize["outcome"], resize["times"]) == ("asked", 1)


def test_a_promise_is_changed_unless_somebody_was_faster(shell: Shell) -> None:
    assert shell.json("job", "slo", "clicks", "--fresh-within", "2m")["fresh_within_s"] == 120
    refused = shell("job", "slo", "clicks", "--late-share", "0.5", "--if-version", "999")

    assert refused.exit_code == 1
    assert "somebody changed it" in refused.stderr


def test_a_job_is_overridden_paused_resumed_switched_and_deleted(shell: Shell, served: Served) -> None:
    assert (
        shell.json("job", "override", "clicks", "6", "--for", "2h", "--reason", "test")["override"]["workers"]
        == 6
    )
    assert shell.json("job", "override", "clicks", "--end")["override"] is None
    assert shell.json("job", "pause", "clicks", "--reason", "moving")["paused"]["reason"] == "moving"
    assert shell.json("job", "resume", "clicks")["paused"] is None
    assert shell.json("job", "mode", "clicks", "recommend")["mode"] == "recommend"
    assert shell("job", "delete", "clicks", given="n\n").exit_code == 1
    assert "ledger" in shell.json("job", "delete", "clicks", "--yes")
    assert set(served.rig.controller.jobs) == {"views"}


def test_forecasting_models_are_rolled_back(shell: Shell, served: Served) -> None:
    served.rig.controller.training = None
    nothing = shell("job", "rollback", "clicks", "--reason", "bad")
    served.rig.controller.training = trained("7")
    unreasoned = shell("job", "rollback", "clicks")

    assert (nothing.exit_code, unreasoned.exit_code) == (2, 2)
    assert "no trained models in force" in nothing.stderr
    assert shell.json("job", "rollback", "clicks", "--reason", "bad")["rollback"]["version"] == "7"
    assert shell("job", "rollback", "clicks", "--models", "6", "--reason", "bad").exit_code == 1
    assert "7" in shell("job", "forecast", "clicks").stdout


def test_a_file_is_applied_once_and_again(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(yaml.safe_dump({"jobs": {"ads": {"topic": "ads"}, "clicks": {"topic": "clicks-raw"}}}))

    first, second = shell.json("job", "apply", str(file)), shell.json("job", "apply", str(file))

    assert [row["done"] for row in first] == ["made", "unchanged"]
    assert [row["done"] for row in second] == ["unchanged", "unchanged"]


def test_a_file_may_have_dates_as_yaml_writes_them(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "jobs:\n"
        "  ads: {topic: ads, shuffle: {start: 2026-01-31T08:00:00Z}, forecast: {holidays: [2026-12-25]}}\n",
        encoding="utf-8",
    )

    assert shell.json("job", "apply", str(file)) == [{"job": "ads", "done": "made"}]
    settings = shell.json("job", "show", "ads")["settings"]
    assert settings["shuffle"]["start"] == "2026-01-31T08:00:00Z"
    assert settings["forecast"]["holidays"] == ["2026-12-25"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("jobs:\n  ads:\n", "job ads has no settings"),
        ("jobs: {ads: [topic]}", "job ads has no settings"),
        ("jobs:\n  ads: {topic: a}\n  ads: {topic: b}\n", "'ads' is given twice"),
        ("jobs: {ads: {topic: !!binary YQ==}}", "cannot be sent as JSON"),
        ("jobs: {? [ads] : 1}", "unhashable"),
        ("- ads", "has no `jobs`"),
    ],
)
def test_a_file_that_cannot_be_applied_is_wrong_usage(
    shell: Shell, tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(text, encoding="utf-8")

    result = shell("job", "apply", str(file))

    assert result.exit_code == 2, result.exception
    assert told in " ".join(result.stderr.split())
    assert {job["id"] for job in shell.json("job", "list")} == {"clicks", "views"}


def test_a_job_that_is_refused_is_named_beside_those_applied_before(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text("jobs: {ads: {topic: ads}, bad: {topic: bad, scaling: {workers_max: 0}}}")

    result = shell("job", "apply", str(file), "--json")

    assert result.exit_code == 1
    assert json.loads(result.stdout) == [{"job": "ads", "done": "made"}]
    assert "job bad: scaling.workers_max" in result.stderr


def test_events_are_told_for_people_and_for_scripts(shell: Shell, served: Served) -> None:
    start = str(served.run(served.rig.jobs.events.span).first)
    people = shell("events", "--since", start, "--count", "2")
    script = shell("events", "--since", start, "--count", "1", "--json", "--kinds", "job")

    assert "job.seed" in people.stdout
    assert json.loads(script.stdout)["kind"] == "job"


def test_exit_codes_tell_what_went_wrong(shell: Shell, served: Served) -> None:
    assert shell("job", "show", "nothing").exit_code == 1
    assert shell("job", "show").exit_code == 2
    assert shell("job", "override", "clicks").exit_code == 2
    assert shell("job", "list", "--server", "http://127.0.0.1:1").exit_code == 3
    assert shell("job", "list", "--server", "nonsense").exit_code == 3
    wrong = Shell(served, "pst_wrong")("job", "list")
    assert wrong.exit_code == 4
    assert "PENSTOCK_TOKEN" in wrong.stderr
    assert "pst_wrong" not in wrong.output


async def test_a_token_good_for_longer_than_calendars_go_does_not_hide_the_others(
    redis_url: str, tmp_path: Path
) -> None:
    """Older releases made such ones."""
    config = tmp_path / "penstock.yaml"
    config.write_text(f"redis: {{url: '{redis_url}'}}")
    async with connect(RedisSettings(url=redis_url)) as client:
        for name, lifetime_s in (("ann", 1e17), ("bob", 3600.0)):
            token, _ = Token.mint(name=name, role=Role.VIEWER, now_s=1.7e9, lifetime_s=lifetime_s)
            await RedisTokens(client, Keys("penstock")).keep(token, audit=b"{}")

    # In a thread: the command has an event loop of its own.
    listed = await asyncio.to_thread(CliRunner().invoke, app, ["token", "list", "--config", str(config)])

    assert listed.exit_code == 0, listed.exception
    assert "ann" in listed.stdout
    assert "bob" in listed.stdout


@pytest.mark.parametrize("expires", ["9" * 400, "999999999999d", "0", "-1d", "nan", "soon"])
def test_a_token_that_never_or_at_once_expires_is_wrong_usage(expires: str) -> None:
    made = CliRunner().invoke(app, ["token", "create", "ann", f"--expires={expires}"])

    assert made.exit_code == 2, made.exception
    assert "no duration" in made.stderr


def test_tokens_are_made_listed_and_revoked(redis_url: str, tmp_path: Path) -> None:
    config = tmp_path / "penstock.yaml"
    config.write_text(yaml.safe_dump({"redis": {"url": redis_url}}))

    def run(*words: str) -> Result:
        return CliRunner().invoke(app, ["token", *words, "--config", str(config)])

    made = json.loads(
        run("create", "ann", "--role", "operator", "--job", "clicks", "--expires", "1d", "--json").stdout
    )
    listed = json.loads(run("list", "--json").stdout)

    assert made["token"].startswith(f"pst_{made['id']}_")
    assert [(token["name"], token["role"], token["jobs"]) for token in listed] == [
        ("ann", "operator", ["clicks"])
    ]
    assert "sha256" not in listed[0]
    assert made["token"] not in run("list").output
    assert run("revoke", made["id"]).exit_code == 0
    assert run("revoke", made["id"]).exit_code == 1
    assert json.loads(run("list", "--json").stdout) == []


def test_tokens_without_a_redis_are_told_of(tmp_path: Path) -> None:
    config = tmp_path / "penstock.yaml"
    config.write_text(yaml.safe_dump({"redis": {"url": "redis://:secret@127.0.0.1:1", "timeout_s": 0.5}}))

    result = CliRunner().invoke(app, ["token", "list", "--config", str(config)])

    assert result.exit_code == 3
    assert "secret" not in result.output


def test_jobs_and_tokens_are_saved_to_a_file_that_only_the_owner_reads(
    redis_url: str, tmp_path: Path
) -> None:
    config, file = tmp_path / "penstock.yaml", tmp_path / "saved.json"
    config.write_text(yaml.safe_dump({"redis": {"url": redis_url}}))
    CliRunner().invoke(app, ["token", "create", "ann", "--config", str(config)])

    saved = CliRunner().invoke(app, ["backup", "save", str(file), "--config", str(config)])
    restored = CliRunner().invoke(app, ["backup", "restore", str(file), "--config", str(config)])

    assert saved.exit_code == 0, saved.output
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(restored.stdout) == {"restored": []}
    file.write_text("{}")
    assert CliRunner().invoke(app, ["backup", "restore", str(file), "--config", str(config)]).exit_code == 2


def test_a_backup_is_for_its_owner_alone_and_one_that_fails_leaves_the_one_before(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, file = tmp_path / "penstock.yaml", tmp_path / "saved.json"
    config.write_text(f"redis: {{url: '{redis_url}'}}")
    file.write_text("the one before")
    file.chmod(0o644)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("services.cli.backup.os.fsync", full)
        failed = CliRunner().invoke(app, ["backup", "save", str(file), "--config", str(config)])
    assert (failed.exit_code, file.read_text()) == (2, "the one before")
    saved = CliRunner().invoke(app, ["backup", "save", str(file), "--config", str(config)])

    assert saved.exit_code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["penstock.yaml", "saved.json"]


def test_the_doctor_shows_how_settings_and_store_differ(redis_url: str) -> None:
    settings = Settings.model_validate(
        {
            "redis": {"url": redis_url},
            "jobs": {name: {"topic": name} for name in ("same", "other", "gone", "new")},
        }
    )

    async def fill() -> None:
        async with connect(RedisSettings(url=redis_url)) as client:
            jobs = RedisJobs(client, Keys("penstock"))
            changed = settings.jobs["other"].model_copy(update={"slo": SloSettings(fresh_within_s=5.0)})
            for name, job, deleted in (
                ("same", settings.jobs["same"], False),
                ("other", changed, False),
                ("gone", settings.jobs["gone"], True),
                ("made", settings.jobs["same"], False),
            ):
                await jobs.put(
                    JobRecord.model_construct(name=name, settings=job, deleted=deleted), expected=0
                )

    asyncio.run(fill())
    found = {finding.what: finding for finding in check_stored_jobs(settings)}

    assert "the same" in found["job same"].detail
    assert "slo.fresh_within_s is 5.0, not 60.0" in found["job other"].detail
    assert found["job gone"].verdict == "warning"
    assert "settings only" in found["job new"].detail
    assert "store only" in found["job made"].detail


@pytest.mark.parametrize(
    "words",
    [
        ("job", "list"),
        ("job", "show", "clicks"),
        ("job", "plan", "clicks"),
        ("job", "forecast", "clicks"),
        ("job", "safety", "clicks"),
        ("job", "what-if", "clicks", "--fresh-within", "30s"),
        ("fleet", "show"),
    ],
    ids=" ".join,
)
def test_at_80_columns_nothing_is_cut_off(narrow: Shell, words: tuple[str, ...]) -> None:
    shown = narrow(*words)

    assert shown.exit_code == 0, shown.output
    assert "…" not in shown.stdout
    assert max(len(line) for line in shown.stdout.splitlines()) <= 80


def test_a_job_that_nobody_has_observed_is_shown_as_such(shell: Shell) -> None:
    shown = shell("job", "show", "views")

    assert "None" not in shown.stdout
    assert "not observed yet" in shown.stdout


def test_a_job_set_by_hand_still_tells_how_it_does(shell: Shell, served: Served) -> None:
    shell("job", "pause", "clicks", "--reason", "moving")
    served.tick(lag_s=900)

    assert "late, paused" in shell("job", "list").stdout


def test_what_takes_a_while_is_said_beside_the_answer_not_in_it(shell: Shell) -> None:
    asked = shell("job", "what-if", "clicks", "--json")

    assert json.loads(asked.stdout)["asked"]
    assert "playing" not in asked.stdout


def test_every_group_has_help_and_completion() -> None:
    for words in (
        ["--help"],
        ["job", "--help"],
        ["token", "--help"],
        ["events", "--help"],
        ["backup", "--help"],
    ):
        assert CliRunner().invoke(app, words).exit_code == 0
    assert "--install-completion" in CliRunner().invoke(app, ["--help"]).output


def test_the_fleet_is_shown_and_asked(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "video.yaml"
    file.write_text(yaml.safe_dump({"name": "video", "rates": {"a100": 2000}, "hourly_per_s": [4000]}))

    shown, admitted = shell("fleet", "show"), shell("fleet", "admit", str(file))

    assert shown.exit_code == 0, shown.output
    assert "a100" in shown.stdout
    assert "clicks" in shown.stdout
    assert shell.json("fleet", "show")["jobs"][0]["asked"] == 5
    assert admitted.exit_code == 0, admitted.output
    assert admitted.stdout.startswith("accept: ")
    assert "clicks" in shell("fleet", "without", "a100-0", "a100-1").stdout
    assert "clicks" in shell("fleet", "with", "a100=3").stdout
    odd = shell("fleet", "with", "a100:3")
    assert (odd.exit_code, "is not TYPE=GPUS" in odd.stderr) == (2, True)


def test_a_job_that_may_not_come_in_is_told_why_by_the_exit_code_too(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "huge.yaml"
    huge = {"name": "huge", "rates": {"a100": 10}, "hourly_per_s": [1], "guaranteed": 20}
    file.write_text(yaml.safe_dump(huge))

    refused, unread = shell("fleet", "admit", str(file)), shell("fleet", "admit", str(tmp_path / "none"))

    assert refused.exit_code == 1
    assert "21 of a100 against 16" in refused.stdout
    assert unread.exit_code == 2
    assert "cannot be read" in unread.stderr
