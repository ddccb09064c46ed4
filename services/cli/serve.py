"""`penstock serve`: the controller against a given Kafka and Redis."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path
from typing import Annotated

import structlog
import typer
from prometheus_client import CollectorRegistry

from services.actuator.keda_server import ScalerUnavailable
from services.api.app import create_app
from services.api.event_feed import EventFeed
from services.api.exposure import Exposed, admin_token, check_exposure
from services.api.operations import create_operations_app
from services.api.server import AddressUnavailable, ApiServer, address, bind, bind_operations
from services.api.simulated import SimulatedWhatIf
from services.api.site import Site
from services.controller.controller import Controller
from services.controller.scaler import scaler_served
from services.controller.wiring import LiveWiring
from services.logs import configure_logs
from services.settings import Settings, SettingsError, load_settings

log = structlog.get_logger()


def serve(
    config: Annotated[
        Path | None,
        typer.Option(help="YAML file with the settings. PENSTOCK_ variables win over it."),
    ] = None,
) -> None:
    """Run the controller: measure, forecast, decide and resize, for every job of the settings.

    REST, metrics and health are served on the address of the `api` settings. Workers go on when
    the controller stops; the next one to start takes them over. Stop it with Ctrl-C or SIGTERM.

    All settings are described in docs/configuration.md. Check them, and what they point at, with
    `penstock doctor --config FILE`.
    """
    try:
        settings = load_settings(config)
        token = admin_token(settings.api)
        listening, operations = bind(settings.api), bind_operations(settings.api)
    except (SettingsError, AddressUnavailable, Exposed) as error:
        typer.echo(f"penstock serve: {error}", err=True)
        raise typer.Exit(2) from error
    configure_logs(settings.log)
    try:
        asyncio.run(_serve(settings, config, listening, operations, token))
    except (Exposed, ScalerUnavailable) as error:
        typer.echo(f"penstock serve: {error}", err=True)
        raise typer.Exit(2) from error


async def _serve(
    settings: Settings,
    config: Path | None,
    listening: socket.socket,
    operations: socket.socket,
    token: str | None,
) -> None:
    registry = CollectorRegistry()
    async with (
        LiveWiring(settings, config=config) as wiring,
        SimulatedWhatIf() as what_if,
        scaler_served(settings.keda, wiring.wishes),
    ):
        await check_exposure(settings.api, wiring.tokens, token)
        controller = Controller(settings, wiring, registry)
        site = Site(
            controller=controller,
            tokens=wiring.tokens,
            audit=wiring.audit,
            events=EventFeed(wiring.events),
            settings=settings.api,
            registry=registry,
            what_if=what_if,
            admin_token=token,
        )
        api = ApiServer(create_app(site), settings.api)
        beside = ApiServer(create_operations_app(site))
        running = {
            asyncio.create_task(controller.run(), name="controller"),
            asyncio.create_task(api.serve(sockets=[listening]), name="api"),
            asyncio.create_task(beside.serve(sockets=[operations]), name="operations"),
            asyncio.create_task(_stop_asked_for(), name="stop"),
        }
        page = address(listening, tls=settings.api.tls_certificate is not None)
        log.info("serving", address=page, operations=address(operations), jobs=sorted(settings.jobs))
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        log.info("stopping", because=", ".join(task.get_name() for task in done))
        await site.events.close()  # event streams never end by themselves, and questions take long
        await what_if.close()
        for task in running - done:
            task.cancel()
        await asyncio.wait(running)
        for task in done:
            task.result()


async def _stop_asked_for() -> None:
    """Returns on SIGTERM or Ctrl-C."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
