"""`penstock backfill`: a past for a job, so that its first forecast has something to go by."""

from __future__ import annotations

import asyncio
import csv
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress

from forecasting.history import TrafficHistory
from services.control.errors import ControlError, StateUnavailable
from services.meter.archive import HistoryKeeper
from services.meter.backfill import BackfillTerms
from services.meter.history import RESOLUTIONS, RateHistory
from services.meter.kafka_past import past_of_topic
from services.meter.past import PastUnavailable, kept_of, past_from_csv, past_from_prometheus
from services.meter.recall import known_bins
from services.meter.redis_archive import RedisArchive
from services.settings import Settings, SettingsError, load_settings
from services.store.connect import connect
from services.store.keys import Keys

SAVE_EVERY_S = 2.0


def backfill(
    *,
    job: Annotated[str, typer.Option(help="The job whose past it is.")],
    config: Annotated[
        Path | None, typer.Option(help="YAML file with the settings. PENSTOCK_ variables win over it.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="The topic, for a job that is not in the settings but in the store.")
    ] = None,
    prometheus: Annotated[
        str | None, typer.Option(metavar="URL", help="Take the past from this Prometheus server.")
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="With --prometheus: a query that gives samples a second, one series.")
    ] = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Take the past from timestamp,rate rows.")
    ] = None,
    days: Annotated[float, typer.Option(min=0.01, help="How far back to go.")] = 7.0,
    out: Annotated[
        Path | None, typer.Option(help="Write timestamp,rate rows to this file instead of the store.")
    ] = None,
) -> None:
    """Give a job a past: from its own topic (default), from Prometheus, or from a CSV file.

    From the topic, Kafka is asked which offset each minute of the last day began at, and each
    ten minutes of the days before, as far as the topic's retention reaches. Stopping is safe: the
    next run goes on where this one was. A controller takes the past over when it starts the job.

    Examples:

      penstock backfill --job clicks --config penstock.yaml

      penstock backfill --job clicks --prometheus http://prometheus:9090 \\
          --query 'sum(rate(kafka_server_brokertopicmetrics_messagesin_total{topic="clicks"}[1m]))'

      penstock backfill --job clicks --csv last-month.csv
    """
    if prometheus is not None and csv_file is not None:
        raise typer.BadParameter("choose one of --prometheus and --csv")
    if (prometheus is None) != (query is None):
        raise typer.BadParameter("--prometheus and --query go together")
    try:
        settings = load_settings(config)
        wanted = _Wanted(job, *_of_job(settings, job, topic), days)
        pieces = _pieces(settings, wanted, (prometheus, query or ""), csv_file, whole=out is not None)
        asyncio.run(_backfill(settings, wanted, pieces, out))
    except (PastUnavailable, SettingsError, ControlError) as error:
        typer.echo(f"penstock backfill: {error}", err=True)
        raise typer.Exit(1) from error


@dataclass(frozen=True, slots=True)
class _Wanted:
    job: str
    topic: str
    step_s: float
    days: float


Pieces = Callable[[TrafficHistory], Iterator[tuple[TrafficHistory, float]]]
"""From what is known already to pieces of the past, each with the share of the work that is done."""


def _of_job(settings: Settings, job: str, topic: str | None) -> tuple[str, float]:
    known = settings.jobs.get(job)
    if topic is not None:
        return topic, 60.0 if known is None else known.forecast.step_s
    if known is None:
        names = ", ".join(sorted(settings.jobs)) or "none"
        raise typer.BadParameter(f"{job!r} is not in the settings (there: {names}); give its --topic")
    return known.topic, known.forecast.step_s


def _pieces(
    settings: Settings,
    wanted: _Wanted,
    prometheus: tuple[str | None, str],
    csv_file: Path | None,
    *,
    whole: bool,
) -> Pieces:
    """`whole`: of a file also what a job would not remember."""
    now_s = time.time()
    keep_s = max(resolution.keep_s for resolution in RESOLUTIONS)

    def from_file(_: TrafficHistory) -> Iterator[tuple[TrafficHistory, float]]:
        past = past_from_csv(csv_file or Path())
        yield past if whole else kept_of(past, now_s=now_s, keep_s=keep_s), 1.0

    def from_prometheus(_: TrafficHistory) -> Iterator[tuple[TrafficHistory, float]]:
        url, query = prometheus
        yield past_from_prometheus(url or "", query, now_s=now_s, days=wanted.days), 1.0

    def from_kafka(known: TrafficHistory) -> Iterator[tuple[TrafficHistory, float]]:
        pieces = past_of_topic(
            settings.kafka.client(),
            wanted.topic,
            now_s=now_s,
            terms=BackfillTerms(days=wanted.days),
            known=known_bins(known),
            timeout_s=settings.kafka.timeout_s,
        )
        for piece in pieces:
            yield piece.history, 1.0 if piece.finished else piece.done / piece.total

    if csv_file is not None:
        return from_file
    return from_kafka if prometheus[0] is None else from_prometheus


async def _backfill(settings: Settings, wanted: _Wanted, pieces: Pieces, out: Path | None) -> None:
    rates = RateHistory(step_s=wanted.step_s)
    if out is not None:
        async for _ in _collected(rates, pieces):
            pass
        _write(out, rates.history())
        return
    redis = connect(settings.redis)
    try:
        keeper = HistoryKeeper(rates, RedisArchive(redis, Keys(settings.redis.prefix), wanted.job))
        await keeper.restore(now_s=time.time())
        await _save_as_it_comes(keeper, _collected(rates, pieces))
    finally:
        await redis.aclose()
    _tell(rates.history())


async def _save_as_it_comes(keeper: HistoryKeeper, shares: AsyncIterator[float]) -> None:
    """Every few seconds, so that whoever stops it loses no more than these; and at the end."""
    due_s = time.monotonic() + SAVE_EVERY_S
    async for share in shares:
        if share < 1.0 and time.monotonic() < due_s:
            continue
        due_s = time.monotonic() + SAVE_EVERY_S
        keeper.forget_saved()
        await keeper.save(now_s=time.time())
        if keeper.trouble:
            raise StateUnavailable(keeper.trouble)


async def _collected(rates: RateHistory, pieces: Pieces) -> AsyncIterator[float]:
    """Take the pieces over one by one; tells the share of the work that is done, 1 at last."""
    coming = pieces(rates.history())
    with Progress(console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("asking for the past", total=1.0)
        while (piece := await asyncio.to_thread(next, coming, None)) is not None:
            rates.seed(piece[0])
            shown.update(task, completed=piece[1])
            yield min(piece[1], 0.999)
    if rates.history().known == 0:
        raise PastUnavailable("nothing is known of the past there; does the topic hold records?")
    yield 1.0


def _write(path: Path, past: TrafficHistory) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["timestamp", "rate"])
        for place, rate in enumerate(past.rates):
            rows.writerow([past.start_s + place * past.step_s, "" if np.isnan(rate) else f"{rate:.6g}"])
    _tell(past)


def _tell(past: TrafficHistory) -> None:
    share = past.known / max(1, len(past.rates))
    typer.echo(f"{past.span_s / 3600:.1f} hours of past, {share:.0%} of them known", err=True)
