"""Settings of the whole controller."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from estimator.fleet.seating import check_guarantees
from services.settings.fleet import FleetSettings
from services.settings.group import SettingsGroup
from services.settings.job import JOB_ID, JobSettings

_SECRET_WORDS = ("password", "secret", "token", "key")


class KafkaSettings(SettingsGroup):
    """The Kafka cluster that carries the samples."""

    bootstrap: str = "localhost:9092"
    """Brokers to ask first, `HOST:PORT[,HOST:PORT...]`."""
    options: dict[str, str] = Field(default_factory=dict, repr=False)
    """Passed on to librdkafka as they are: `security.protocol`, `sasl.mechanism`, ..."""
    timeout_s: PositiveFloat = 5.0
    """How long one request to the cluster may take."""
    metadata_every_s: PositiveFloat = 10.0
    """How often topics are looked at for new partitions and other leaders."""
    watch: list[str] = Field(default_factory=list)
    """Regular expressions: topics whose whole name matches one are measured though no job trains them,
    so that a job made of one later has its past."""

    @field_validator("bootstrap")
    @classmethod
    def _host_and_port(cls, bootstrap: str) -> str:
        for part in bootstrap.split(","):
            _host, colon, port = part.strip().rpartition(":")
            if not colon or not port.isdigit():
                raise ValueError(f"{part!r} is not HOST:PORT")
        return bootstrap

    @field_validator("watch")
    @classmethod
    def _expressions(cls, watch: list[str]) -> list[str]:
        for pattern in watch:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
        return watch

    def client(self, **more: Any) -> dict[str, Any]:
        """librdkafka's configuration for a client of ours."""
        return {"bootstrap.servers": self.bootstrap, **self.options, **more}

    def shown(self) -> dict[str, str]:
        """The options without their secrets, for logs and `doctor`."""
        return {
            name: "***" if any(word in name for word in _SECRET_WORDS) else value
            for name, value in self.options.items()
        }


class RedisSettings(SettingsGroup):
    """Where jobs, leases and decisions outlive the controller."""

    model_config = ConfigDict(hide_input_in_errors=True)  # the URL may carry a password

    url: str = Field(default="redis://localhost:6379/0", repr=False)
    """`redis://[[user]:password@]host:port/db`, or `rediss://` for TLS. Behind Sentinel:
    `redis+sentinel://[[user]:password@]host:port,host:port/SERVICE/db`, or `rediss+sentinel://`."""
    timeout_s: PositiveFloat = 2.0
    """How long one command may take."""
    prefix: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,32}$")] = "penstock"
    """Every key starts with this; two controllers that share a prefix share their jobs."""

    @field_validator("url")
    @classmethod
    def _scheme(cls, url: str) -> str:
        schemes = ("redis://", "rediss://", "unix://", "redis+sentinel://", "rediss+sentinel://")
        if not url.startswith(schemes):
            # The address may carry a password: it is not repeated.
            raise ValueError("must start with redis://, rediss://, unix:// or redis+sentinel://")
        if not _parses(url):
            raise ValueError(
                "cannot be parsed; a port is a number, special characters of the password are "
                "percent-encoded, and a Sentinel URL names the SERVICE"
            )
        return url


def _parses(url: str) -> bool:
    """Whether there are ports where they should be: a `/` in a password would begin the path."""
    try:
        parts = urlsplit(url)
        ports = [urlsplit(f"//{host}").port for host in parts.netloc.rpartition("@")[2].split(",")]
    except ValueError:
        return False
    return 0 not in ports and bool("sentinel" not in parts.scheme or parts.path.strip("/"))


class ApiSettings(SettingsGroup):
    """REST and the web page; health, readiness and metrics on a listener of their own."""

    host: str = "127.0.0.1"
    """The address of REST and the page. Beyond this machine only with tokens: see docs/operators.md."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    """The port of REST and the page; 0 takes a free one."""
    operations_host: str = "127.0.0.1"
    """The address of `/healthz`, `/readyz` and `/metrics`, which need no token."""
    operations_port: Annotated[int, Field(ge=0, le=65535)] = 8081
    """Their port; 0 takes a free one."""
    tls_certificate: Path | None = None
    """PEM file with the certificate chain; REST and the page are then served over HTTPS."""
    tls_key: Path | None = None
    """PEM file with the certificate's private key."""
    admin_token_file: Path | None = None
    """A file with one more admin token, as a mounted secret; it works without Redis too."""
    requests_per_s: PositiveFloat = 50.0
    """Requests a second that one token may make."""
    requests_burst: PositiveInt = 200
    """Requests that one token may make at once, after a rest."""
    body_bytes_max: PositiveInt = 262_144
    """The largest request body."""
    cors_origins: list[str] = Field(default_factory=list)
    """Other sites whose scripts may read the API, as `https://ops.example.com`; none by default."""
    allow_commands: bool = False
    """Whether the API may set `pool.command`, `pool.run_dir`, `pool.docker`, `pool.kubernetes` and
    `pool.ray` of jobs: that is running programs."""

    @model_validator(mode="after")
    def _both_halves_of_tls(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key are given together or not at all")
        return self

    @field_validator("cors_origins")
    @classmethod
    def _origins(cls, origins: list[str]) -> list[str]:
        for origin in origins:
            if not re.fullmatch(r"https?://[^/\s*]+", origin):
                raise ValueError(f"{origin!r} is no origin; write it as https://ops.example.com")
        return origins


class KedaSettings(SettingsGroup):
    """The external scaler that KEDA asks, for jobs whose `pool.kind` is `keda`."""

    host: str = "127.0.0.1"
    """The address of the scaler. Beyond this machine only with a secret or a client authority."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Its port; it is not served when not given."""
    secret_file: Path | None = None
    """A file with the secret that a trigger's metadata must carry, as a mounted secret."""
    tls_certificate: Path | None = None
    """PEM file with the certificate chain; gRPC is then served with TLS."""
    tls_key: Path | None = None
    """PEM file with the certificate's private key."""
    tls_client_ca: Path | None = None
    """PEM file with the authority that KEDA's client certificate must be of."""

    @model_validator(mode="after")
    def _both_halves_of_tls(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key are given together or not at all")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise ValueError("tls_client_ca needs tls_certificate and tls_key")
        return self

    @model_validator(mode="after")
    def _not_open_to_all(self) -> Self:
        local = self.host in ("127.0.0.1", "::1", "localhost")
        if self.port is not None and not local and self.secret_file is None and self.tls_client_ca is None:
            raise ValueError(f"host {self.host} is open to others; give secret_file or tls_client_ca")
        return self


class ControllerSettings(SettingsGroup):
    """The loop itself."""

    tick_s: PositiveFloat = 5.0
    """Seconds between two decisions of a job."""
    stale_after_s: PositiveFloat = 60.0
    """Traffic measured longer ago than this holds the plan."""
    leader_ttl_s: PositiveFloat = 10.0
    """Another controller takes over this long after the leader fell silent."""
    resizes_per_hour: PositiveInt | None = 3600
    """Resizes of all pools together within any hour; any number when null."""
    models_dir: Path = Path(".penstock/models")
    """Where trained forecasting models are kept, by version."""


class LogSettings(SettingsGroup):
    """How events are written."""

    format: Literal["console", "json"] = "console"
    """For people or for machines."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is written."""


class Settings(BaseSettings):
    """Everything `penstock serve` needs. Environment beats file beats default."""

    model_config = SettingsConfigDict(
        env_prefix="PENSTOCK_",
        env_nested_delimiter="__",
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
    )

    kafka: KafkaSettings = KafkaSettings()
    redis: RedisSettings = RedisSettings()
    api: ApiSettings = ApiSettings()
    controller: ControllerSettings = ControllerSettings()
    keda: KedaSettings = KedaSettings()
    log: LogSettings = LogSettings()
    fleet: FleetSettings = FleetSettings()
    jobs: dict[Annotated[str, StringConstraints(pattern=JOB_ID)], JobSettings] = Field(default_factory=dict)
    """The jobs, by name: lower-case letters, digits and dashes."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The file's content arrives as init arguments; the environment beats it."""
        del settings_cls, dotenv_settings, file_secret_settings
        return env_settings, init_settings

    @model_validator(mode="after")
    def _guarantees_fit_the_fleet(self) -> Self:
        budget = self.fleet.budget()
        if budget.nodes:
            check_guarantees(budget, [job.standing(name) for name, job in self.jobs.items()])
        return self

    @model_validator(mode="after")
    def _one_job_per_group(self) -> Self:
        taken: dict[tuple[str, str], str] = {}
        for name, job in self.jobs.items():
            position = (job.topic, job.group_of(name))
            if position in taken:
                raise ValueError(
                    f"jobs {taken[position]!r} and {name!r} both train topic {job.topic!r} as group "
                    f"{position[1]!r}; give each its own group"
                )
            taken[position] = name
        return self
