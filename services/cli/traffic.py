"""`penstock traffic`: made-up or recorded traffic for a topic."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from forecasting.errors import InvalidTraffic
from services.logs import configure_logs
from services.samples.interactions import Interactions, LogInvalid
from services.settings.root import KafkaSettings, LogSettings
from services.traffic.clicks import ClickMaker
from services.traffic.generator import (
    Playback,
    SampleSource,
    TrafficGenerator,
    TrafficReport,
    stop_with_owner,
    write_report,
)
from services.traffic.outbox import Outbox
from services.traffic.replayed import ReplayedSamples
from services.traffic.samples import SampleMaker
from services.traffic.shape import MONDAY_S, FlashCrowd, SyntheticTraffic, TrafficShape
from services.traffic.topic import TopicUnavailable, require_topic
from services.traffic.trace import TraceInvalid, TraceReplay

OWNER_FD = "PENSTOCK_OWNER_FD"


def traffic(
    *,
    topic: Annotated[str, typer.Option(help="The topic to send to.")],
    kafka: Annotated[
        str, typer.Option(envvar="PENSTOCK_KAFKA__BOOTSTRAP", help="Brokers, HOST:PORT[,HOST:PORT...].")
    ] = "localhost:9092",
    kafka_option: Annotated[
        list[str] | None,
        typer.Option(help="A librdkafka option, NAME=VALUE, such as security.protocol=SSL. Repeatable."),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Make the topic with this many partitions if it is missing.")
    ] = None,
    rate: Annotated[float, typer.Option(min=0, help="Mean samples per wall second.")] = 1000.0,
    trace: Annotated[
        Path | None, typer.Option(help="Replay this CSV file (timestamp,rate) instead of a synthetic day.")
    ] = None,
    scale: Annotated[float, typer.Option(help="Multiply the trace's rates by this.")] = 1.0,
    speed_up: Annotated[
        float,
        typer.Option(min=1e-6, help="Simulated seconds per wall second; 144 plays a day in ten minutes."),
    ] = 1.0,
    start: Annotated[
        str | None,
        typer.Option(
            help="Simulated time to start at: seconds or an ISO date. Default: a Monday or the trace's start."
        ),
    ] = None,
    crowd: Annotated[
        list[str] | None,
        typer.Option(
            help="A flash crowd, HOUR:HEIGHT[:RISE_S[:FALL_S]]: hours after the start, height in mean rates, "
            "rise and fall in simulated seconds. Repeatable."
        ),
    ] = None,
    diurnal: Annotated[
        float, typer.Option(min=0, help="Half the swing of a day, as a share of the mean.")
    ] = 0.6,
    noise: Annotated[
        float, typer.Option(min=0, help="Deviation of the noise, as a share of the rate.")
    ] = 0.06,
    users: Annotated[int, typer.Option(min=1, help="Users; each is a message key.")] = 10_000,
    skew: Annotated[
        float,
        typer.Option(min=0, help="Zipf exponent of the users: 0 is even, 1 makes partitions very uneven."),
    ] = 0.8,
    items: Annotated[int, typer.Option(min=1, help="Items that may be clicked.")] = 2_000,
    drift_hours: Annotated[
        float, typer.Option(min=0.001, help="Simulated hours in which tastes go round once.")
    ] = 24.0,
    payload_bytes: Annotated[
        int | None, typer.Option(min=0, help="Send padding of this size instead of clicks.")
    ] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="Stop after this many wall minutes.")] = None,
    samples: Annotated[
        str | None,
        typer.Option(
            metavar="N|LOG.csv",
            help="Stop after exactly N samples; or replay this log (timestamp,label, then ids, and numbers "
            "named NAME:number) by event time.",
        ),
    ] = None,
    numeric: Annotated[
        list[str] | None, typer.Option(help="A column of the log that is a number. Repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed sends the same samples.")] = 1,
    report: Annotated[
        Path | None,
        typer.Option(help="Write the counts here, every second and at the end. Default: stdout at the end."),
    ] = None,
) -> None:
    """Send traffic to a Kafka topic: a synthetic day (default) or a recorded trace.

    The day has a night and an evening, weekends, noise, and flash crowds where asked for. Samples are
    clicks of a hidden model whose tastes drift, in the trainer's binary form.
    Stops on Ctrl-C or SIGTERM, waits for the broker's acknowledgements, and reports exactly
    how many samples were acknowledged.

    Examples:

      penstock traffic --topic clicks --partitions 8 --rate 2000 --speed-up 144 --crowd 12:1.5

      penstock traffic --topic clicks --trace taxi.csv --scale 50 --speed-up 60

      penstock traffic --topic clicks --samples clicks.csv --speed-up 60
    """
    client = _client(kafka, kafka_option or [])
    count, log = _samples(samples, speed_up, numeric or [])
    shape, start_s = _shape(
        trace, scale, start, crowd or [], SyntheticTraffic(rate, diurnal=diurnal, noise=noise, seed=seed)
    )
    source: SampleSource = (
        ClickMaker(users=users, skew=skew, items=items, drift_s=drift_hours * 3600.0, seed=seed)
        if payload_bytes is None
        else SampleMaker(users=users, skew=skew, payload_bytes=payload_bytes, seed=seed)
    )
    if log is not None:
        shape, source, start_s = log, log, log.start_s if start is None else _time(start)
    try:
        require_topic(client, topic, partitions=partitions)
    except TopicUnavailable as error:
        typer.echo(f"penstock traffic: {error}", err=True)
        raise typer.Exit(1) from error
    configure_logs(LogSettings())  # to standard error: standard output is for the counts
    stop = _stop_when_told()
    generator = TrafficGenerator(
        shape,
        Playback(
            topic=topic,
            start_s=start_s,
            speed_up=speed_up,
            duration_s=float("inf") if minutes is None else minutes * 60,
            samples_max=float("inf") if count is None else count,
            seed=seed,
        ),
        source,
        Outbox(client, topic, stop=stop),
        stop=stop,
        report=lambda counts: _tell(report, counts),
    )
    last = generator.run()
    if report is None:
        typer.echo(json.dumps(asdict(last)))


def _samples(
    text: str | None, speed_up: float, numeric: list[str]
) -> tuple[int | None, ReplayedSamples | None]:
    """How many samples to send, or which log to replay."""
    if text is None or text.isdigit():
        if numeric:
            raise typer.BadParameter("it names columns of a log; give one with --samples LOG.csv")
        return (None if text is None else int(text)), None
    try:
        return None, ReplayedSamples(Interactions.read(Path(text), numeric=numeric).samples, speed_up)
    except LogInvalid as error:
        raise typer.BadParameter(str(error), param_hint="--samples") from error


def _client(kafka: str, options: list[str]) -> dict[str, Any]:
    pairs = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals:
            # The value may be a secret typed in the wrong place: it is not repeated.
            raise typer.BadParameter("expected NAME=VALUE", param_hint="--kafka-option")
        pairs[name] = value
    try:
        return KafkaSettings(bootstrap=kafka, options=pairs).client()
    except ValidationError as error:
        raise typer.BadParameter(error.errors()[0]["msg"], param_hint="--kafka") from error


def _shape(
    trace: Path | None, scale: float, start: str | None, crowds: list[str], day: SyntheticTraffic
) -> tuple[TrafficShape, float]:
    if trace is None:
        start_s = MONDAY_S if start is None else _time(start)
        lifts = tuple(_crowd(crowd, start_s) for crowd in crowds)
        return SyntheticTraffic(
            day.mean_per_s, diurnal=day.diurnal, noise=day.noise, seed=day.seed, crowds=lifts
        ), start_s
    if crowds:
        raise typer.BadParameter("a trace has its own crowds; leave out one of --crowd and --trace")
    try:
        replay = TraceReplay.read(trace, scale=scale)
    except TraceInvalid as error:
        raise typer.BadParameter(str(error), param_hint="--trace") from error
    return replay, replay.start_s if start is None else _time(start)


def _time(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is neither seconds nor an ISO date", param_hint="--start"
        ) from error
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _crowd(text: str, start_s: float) -> FlashCrowd:
    parts = text.split(":")
    try:
        hour, height, *rest = (float(part) for part in parts)
        return FlashCrowd(start_s + hour * 3600, height, *rest)
    except (ValueError, TypeError, InvalidTraffic) as error:
        raise typer.BadParameter(
            f"{text!r} is not HOUR:HEIGHT[:RISE_S[:FALL_S]] with positive numbers", param_hint="--crowd"
        ) from error


def _stop_when_told() -> threading.Event:
    """Set by SIGTERM, Ctrl-C, or the end of the process that started us."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    owner = os.environ.get(OWNER_FD)
    if owner is not None:
        stop_with_owner(int(owner), stop)
    return stop


def _tell(path: Path | None, counts: TrafficReport) -> None:
    if path is not None:
        write_report(path, counts)
