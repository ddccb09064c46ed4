"""Settings come from YAML and the environment; mistakes are told all at once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from services.settings import Settings, SettingsError, load_settings
from services.settings.reference import reference


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "penstock.yaml"


def loaded(config: Path, text: str) -> Settings:
    config.write_text(text, encoding="utf-8")
    return load_settings(config)


def refused(config: Path, text: str) -> str:
    with pytest.raises(SettingsError) as caught:
        loaded(config, text)
    return str(caught.value)


def test_a_minimal_job_gets_defaults(config: Path) -> None:
    settings = loaded(config, "jobs: {clicks: {topic: clicks}}")

    assert settings.jobs["clicks"].scaling.gpus_per_worker == 1.0
    assert settings.jobs["clicks"].group_of("clicks") == "penstock-clicks"


@pytest.mark.parametrize("start", ["2026-01-31 08:00:00", "'2026-01-31T08:00'", "2026-01-31T09:00:00+01:00"])
def test_a_start_is_the_same_time_wherever_a_worker_lives(config: Path, start: str) -> None:
    settings = loaded(config, f"jobs: {{a: {{topic: t, shuffle: {{start: {start}}}}}}}")

    assert settings.jobs["a"].shuffle.start == datetime(2026, 1, 31, 8, tzinfo=UTC)


def test_an_empty_file_is_all_defaults(config: Path) -> None:
    assert loaded(config, "").jobs == {}


def test_the_environment_beats_the_file(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_JOBS__CLICKS__SCALING__WORKERS_MAX", "5")
    monkeypatch.setenv("PENSTOCK_KAFKA__BOOTSTRAP", "kafka:1234")

    settings = loaded(config, "jobs: {clicks: {topic: clicks, scaling: {workers_max: 3, workers_min: 2}}}")

    assert settings.kafka.bootstrap == "kafka:1234"
    assert settings.jobs["clicks"].scaling.workers_max == 5
    assert settings.jobs["clicks"].scaling.workers_min == 2


def test_a_misspelt_variable_is_refused(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_KAKFA__BOOTSTRAP", "kafka:1234")

    assert "PENSTOCK_KAKFA__BOOTSTRAP: no such setting" in refused(config, "")


def test_what_kubernetes_tells_of_a_service_named_penstock_is_no_setting(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives these to every pod of the namespace, unless told not to."""
    for name in ("PENSTOCK_SERVICE_HOST", "PENSTOCK_SERVICE_PORT_HTTP", "PENSTOCK_PORT_8080_TCP_ADDR"):
        monkeypatch.setenv(name, "10.0.0.7")

    assert loaded(config, "jobs: {clicks: {topic: clicks}}").jobs.keys() == {"clicks"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("jobs: {clicks: {topic: clicks, slo: {fresh_within: 3}}}", "jobs.clicks.slo.fresh_within: no such"),
        ("kafak: {}", "kafak: no such setting"),
        (
            "jobs: {clicks: {topic: clicks, slo: {fresh_within_s: -3}}}",
            "jobs.clicks.slo.fresh_within_s: Input should be greater than or equal to 0.001 (given: -3)",
        ),
        (
            "jobs: {clicks: {topic: clicks, slo: {fresh_within_s: .nan}}}",
            "jobs.clicks.slo.fresh_within_s: Input should be a finite number",
        ),
        (
            "jobs: {clicks: {topic: clicks, scaling: {workers_min: 9, workers_max: 3}}}",
            "workers_min (9) is above workers_max (3)",
        ),
        (
            "jobs: {clicks: {topic: clicks, pool: {drain_s: 5}}}",
            "pool.drain_s (5) is below shuffle.lease_ttl_s and 2 s (17)",
        ),
        ("controller: {tick_s: 1.0e+308}", "tick_s is longer than a year"),
        (
            "jobs: {clicks: {topic: clicks, scaling: {lead_time_s: 31622401}}}",
            "jobs.clicks.scaling: lead_time_s is longer than a year",
        ),
        (
            "jobs: {clicks: {topic: clicks, meter: {history_keep_s: [1.0e+308], history_step_s: [1]}}}",
            "history_keep_s is longer than a year",
        ),
        (
            "jobs: {clicks: {topic: clicks, meter: {history_keep_s: [60], history_step_s: [1.0e-300]}}}",
            "history_keep_s has more than 10000000 bins of its history_step_s",
        ),
        (
            "jobs: {clicks: {topic: clicks, forecast: {step_s: 1.0e-300}}}",
            "horizon_s has more than 50000 bins of step_s",
        ),
        (
            "jobs: {clicks: {topic: clicks, forecast: {season_s: 31622400}}}",
            "season_s has more than 50000 bins of step_s",
        ),
        (
            "jobs: {clicks: {topic: clicks, forecast: {season_s: 1.0e-300}}}",
            "season_s (1e-300) is shorter than one step_s (60)",
        ),
        (
            "jobs: {clicks: {topic: clicks, scaling: {workers_max: 1000000000}}}",
            "jobs.clicks.scaling.workers_max: Input should be less than or equal to 100000",
        ),
        ("jobs: {a: {topic: t, shuffle: {start: 0001-01-01T00:00:00}}}", "before 1970"),
        ('jobs: {a: {topic: t, group: "g\\0"}}', "group has 1 to 255 printable characters"),
        ('jobs: {a: {topic: t, group: "g\\e[2J"}}', "group has 1 to 255 printable characters"),
        ("jobs: {clicks: {}}", "jobs.clicks.topic: is required"),
        ("jobs: {Clicks!: {topic: clicks}}", "jobs.Clicks!"),
        ("jobs:\n  clicks: {topic: a}\n  clicks: {topic: b}", "'clicks' is given twice"),
        (
            "jobs: {a: {topic: t, group: g}, b: {topic: t, group: g}}",
            "jobs 'a' and 'b' both train topic 't' as group 'g'",
        ),
        ("jobs: {a: {topic: t, scaling: {rule: magic}}}", "no rule is called 'magic'"),
        (
            "jobs: {a: {topic: t, scaling: {rule_options: {utilization: 1}}}}",
            "rule 'penstock' has no option utilization",
        ),
        ("jobs: {a: {topic: t, pool: {kind: docker}}}", "kind is docker and docker.image is empty"),
        ("keda: {port: 9090, host: 0.0.0.0}", "host 0.0.0.0 is open to others; give secret_file or"),
        ("kafka: {bootstrap: broker}", "kafka.bootstrap: 'broker' is not HOST:PORT"),
        ("? [a]\n: 1", "unhashable key"),
        ("redis: {url: 'redis://localhost:port/0'}", "redis.url: cannot be parsed; a port is a number"),
        ("redis: {url: 'redis+sentinel://a:1,b:2'}", "redis.url: cannot be parsed"),
        ("- a\n- b", "top level must be a mapping"),
        ("jobs: {a: [", "is not valid YAML"),
    ],
)
def test_a_mistake_names_the_field_and_the_rule(config: Path, text: str, told: str) -> None:
    assert told in refused(config, text)


def test_all_mistakes_are_told_at_once(config: Path) -> None:
    told = refused(config, "api: {port: 99999}\njobs: {a: {topic: t, slo: {fresh_within_s: -1}}}")

    assert "2 mistake(s)" in told
    assert "api.port" in told
    assert "jobs.a.slo.fresh_within_s" in told


def test_without_leases_a_worker_may_be_ended_as_soon_as_one_likes(config: Path) -> None:
    config.write_text("jobs: {a: {topic: t, shuffle: {mode: group}, pool: {drain_s: 5}}}", encoding="utf-8")

    assert load_settings(config).jobs["a"].pool.drain_s == 5.0


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.yaml: cannot be read"):
        load_settings(tmp_path / "nowhere.yaml")


def test_secrets_are_not_repeated(config: Path) -> None:
    told = refused(config, "redis: {url: 'http://:hunter2@host'}")
    told += refused(config, "redis: {url: 'redis://:hunter2/@host'}")
    told += refused(config, "redis: redis://:hunter2@host")
    told += refused(config, "kafka: sasl.password=hunter2")
    settings = loaded(
        config, "kafka: {options: {sasl.password: hunter2}}\nredis: {url: 'redis://:hunter2@h'}"
    )

    assert "hunter2" not in told
    assert "hunter2" not in repr(settings)
    assert settings.kafka.shown() == {"sasl.password": "***"}


def test_the_reference_is_current() -> None:
    written = Path(__file__).parents[2] / "docs" / "configuration.md"

    assert written.read_text(encoding="utf-8") == reference(), "run `make docs`"


def test_every_setting_is_explained() -> None:
    assert "|  |\n" not in reference(), "a setting lacks the text below its field"


def test_staleness_allowed_becomes_a_limit_on_workers_and_must_leave_the_least_of_them() -> None:
    job = {"topic": "clicks", "worker": {"staleness": 2}, "scaling": {"staleness_batches_max": 9}}
    settings = Settings.model_validate({"jobs": {"clicks": job}})

    assert settings.jobs["clicks"].policy(stale_after_s=30.0).workers_unstale_max == 4
    job["scaling"] = {"staleness_batches_max": 5, "workers_min": 3}
    with pytest.raises(ValueError, match=r"staleness_batches_max \(5\).*allows 2 workers, workers_min is 3"):
        Settings.model_validate({"jobs": {"clicks": job}})


@pytest.mark.parametrize("cross", [(0, 6), (2, 2)])
def test_a_cross_of_fields_that_are_not_there_is_refused(cross: tuple[int, int]) -> None:
    job = {"topic": "clicks", "worker": {"categorical": 6, "crosses": [cross]}}

    with pytest.raises(ValueError, match=r"two different places below categorical \(6\)"):
        Settings.model_validate({"jobs": {"clicks": job}})


def test_capacities_are_one_for_each_shard() -> None:
    job = {"topic": "clicks", "parameters": {"shards": 3, "capacities": [1.0, 2.0]}}

    with pytest.raises(ValueError, match="capacities has 2 numbers; shards is 3"):
        Settings.model_validate({"jobs": {"clicks": job}})


def test_a_batch_is_no_larger_than_what_kafkas_client_gives_at_once() -> None:
    Settings.model_validate({"jobs": {"clicks": {"topic": "clicks", "worker": {"batch": 1_000_000}}}})
    with pytest.raises(ValueError, match="less than or equal to 1000000"):
        Settings.model_validate({"jobs": {"clicks": {"topic": "clicks", "worker": {"batch": 1_000_001}}}})
