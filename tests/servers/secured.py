"""A real broker behind TLS that lets in nobody without a password."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from services.embedded.apache import ApacheKafka
from services.embedded.jars import require_java

USER, PASSWORD = "meter", "pa55-that-nobody-may-read"
_STORE_PASSWORD = "store-pa55"  # noqa: S105 - of a certificate that lasts for one test run


@dataclass(frozen=True)
class SecuredKafka:
    """A running broker, and the options with which it lets a client in."""

    bootstrap: str
    options: dict[str, str]
    server: ApacheKafka


def client_options(directory: Path) -> dict[str, str]:
    """As an operator writes them under `kafka.options`."""
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
        "ssl.ca.location": str(directory / "ca.pem"),
    }


def broker_settings(directory: Path) -> dict[str, str]:
    """SASL over TLS on the only listener; its name in the broker stays what it was."""
    login = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{USER}" password="{PASSWORD}" user_{USER}="{PASSWORD}";'
    )
    return {
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": login,
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(directory / "broker.p12"),
        "ssl.keystore.password": _STORE_PASSWORD,
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(directory / "broker.p12"),
        "ssl.truststore.password": _STORE_PASSWORD,
    }


def make_certificate(directory: Path) -> None:
    """A certificate for 127.0.0.1 that vouches for itself, with the tool that comes with Java."""
    store = [
        "-keystore",
        str(directory / "broker.p12"),
        "-storetype",
        "PKCS12",
        "-storepass",
        _STORE_PASSWORD,
    ]
    named = ["-alias", "broker", "-dname", "CN=127.0.0.1", "-ext", "SAN=ip:127.0.0.1", "-ext", "bc:c"]
    _keytool("-genkeypair", "-keyalg", "EC", *named, *store)
    _keytool("-exportcert", "-rfc", "-alias", "broker", "-file", str(directory / "ca.pem"), *store)


def _keytool(*arguments: str) -> None:
    subprocess.run([str(require_java().with_name("keytool")), *arguments], check=True, capture_output=True)
