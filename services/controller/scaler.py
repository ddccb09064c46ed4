"""KEDA's external scaler, where the settings want it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.actuator.keda_scaler import KedaScaler
from services.actuator.keda_server import ScalerTls, ScalerUnavailable, serve_scaler
from services.actuator.wish import Wishes
from services.settings.root import KedaSettings


@asynccontextmanager
async def scaler_served(settings: KedaSettings, wishes: Wishes) -> AsyncIterator[None]:
    """Answer KEDA while the context lasts, leading or not. Raises ScalerUnavailable."""
    if settings.port is None:
        yield
        return
    try:
        secret = "" if settings.secret_file is None else settings.secret_file.read_text("utf-8").strip()
    except OSError as error:
        raise ScalerUnavailable(f"keda.secret_file cannot be read: {error}") from error
    if settings.secret_file is not None and not secret:
        raise ScalerUnavailable(f"keda.secret_file {settings.secret_file} is empty: anybody would be let in")
    tls = None
    if settings.tls_certificate is not None and settings.tls_key is not None:
        tls = ScalerTls(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
    try:
        async with serve_scaler(KedaScaler(wishes, secret), f"{settings.host}:{settings.port}", tls):
            yield
    except ModuleNotFoundError as error:
        raise ScalerUnavailable(
            f"the external scaler needs the package {error.name}: pip install 'penstock[keda]'"
        ) from error
