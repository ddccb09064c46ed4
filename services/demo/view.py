"""The live terminal view of a running job."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from services.control.loop import Tick
from services.control.training_quality import pooled
from services.control.types import Decision, Observation, WorkerPhase

_BLOCKS = " ▁▂▃▄▅▆▇█"
_EIGHTHS = len(_BLOCKS) - 1
_PAST = 56
_FUTURE = 20
_EVENTS = 6


def bars(values: Sequence[float], *, top: float, rows: int) -> list[str]:
    """Values as bars over `rows` lines, the topmost first; `top` is the full height.

    >>> bars([0.0, 4.0, 16.0], top=16.0, rows=2)
    ['  █', ' ▄█']
    """
    scale = _EIGHTHS * rows / top if top > 0 else 0.0
    heights = [min(_EIGHTHS * rows, max(0, round(value * scale))) for value in values]
    return [
        "".join(_BLOCKS[min(_EIGHTHS, max(0, height - _EIGHTHS * row))] for height in heights)
        for row in reversed(range(rows))
    ]


class LiveView:
    """Remembers the last minute or so of ticks and draws them."""

    def __init__(self, *, slo_s: float, address: str, title: str) -> None:
        self._slo_s = slo_s
        self._address = address
        self._title = title
        self._rates: deque[float] = deque(maxlen=_PAST)
        self._capacities: deque[float] = deque(maxlen=_PAST)
        self._lags_s: deque[float] = deque(maxlen=_PAST)
        self._events: deque[str] = deque(maxlen=_EVENTS)
        self._seen: Observation | None = None
        self._decision: Decision | None = None
        self._trouble = ""

    def told(self, tick: Tick) -> None:
        """Take in one tick."""
        self._trouble = tick.trouble
        if tick.seen is not None:
            self._seen = tick.seen
            self._rates.append(tick.seen.traffic.rate_per_s)
            self._lags_s.append(tick.seen.traffic.lag_s)
        if tick.decision is None:
            return
        self._decision = tick.decision
        self._capacities.append(tick.decision.numbers["capacity_ready_per_s"])
        if tick.decision.resize is not None:
            self.say(f"{tick.decision.requested} → {tick.decision.planned}: {tick.decision.reason.value}")
        for note in tick.decision.notes:
            if note.value == "workers_lost":
                self.say("a worker was lost; the pool replaces it")

    def say(self, event: str) -> None:
        """Add a line to the events."""
        self._events.append(f"{datetime.now(UTC):%H:%M:%S}  {event}")

    def __rich__(self) -> RenderableType:
        if self._seen is None or self._decision is None:
            return Panel(Text(self._trouble or "starting ..."), title=self._title)
        parts: list[RenderableType] = [self._charts(self._seen), self._pool(self._seen, self._decision)]
        if self._trouble:
            parts.append(Text(f"degraded: {self._trouble}", style="bold red"))
        parts.append(Text("\n".join(self._events), style="dim"))
        return Panel(Group(*parts), title=self._title, subtitle=self._address)

    def _charts(self, seen: Observation) -> Table:
        coming = [] if seen.forecast is None else seen.forecast.path(0.5)[:_FUTURE].tolist()
        top = max([*self._rates, *self._capacities, *coming, 1.0])
        table = Table.grid(padding=(0, 2))
        table.add_row(
            "traffic", _past_and_future(self._rates, coming, top), self._traffic_words(seen, coming)
        )
        capacity = f"{self._capacities[-1]:,.0f}/s" if self._capacities else ""
        table.add_row("capacity", _past(self._capacities, top, "green", rows=2), capacity)
        late = self._lags_s[-1] > self._slo_s
        words = f"{self._lags_s[-1]:.1f} s of {self._slo_s:g} s promised\n{seen.traffic.lag:,} samples"
        lag = _past(self._lags_s, max(self._slo_s, *self._lags_s), "red" if late else "yellow", rows=2)
        table.add_row("lag", lag, Text(words, "bold red" if late else ""))
        return table

    def _traffic_words(self, seen: Observation, coming: Sequence[float]) -> str:
        words = f"{self._rates[-1]:,.0f}/s now"
        if seen.forecast is None:
            return words
        return f"{words}\nup to {max(coming):,.0f}/s coming\n({seen.forecast.model} forecast)"

    def _pool(self, seen: Observation, decision: Decision) -> Text:
        pool = seen.pool
        counts = ", ".join(f"{pool.count(phase)} {phase.value}" for phase in WorkerPhase if pool.count(phase))
        text = Text("\nworkers   ", "default")
        text.append(f"planned {decision.planned}", "bold")
        text.append(f"  requested {pool.requested}  ready {pool.ready}", "bold")
        text.append(f"   ({counts or 'none yet'})\n")
        text.append(f"decision  {decision.reason.value}", "bold cyan")
        notes = "".join(f", {note.value}" for note in decision.notes)
        demand = decision.numbers.get("demand_per_s")
        text.append(f"{notes}" + (f"  demand {demand:,.0f}/s" if demand is not None else "") + "\n")
        quality = pooled(report.quality for report in seen.reports)
        if quality is not None and quality.auc is not None:
            text.append(f"model     AUC {quality.auc:.3f}", "bold green")
            text.append(f"  trained {quality.sample_age_s:.1f} s after the click\n")
        return text


def _past(values: Sequence[float], top: float, style: str, *, rows: int) -> Text:
    """Right-aligned, so that now is always in the same column."""
    return Text("\n".join(line.rjust(_PAST) for line in bars(values, top=top, rows=rows)), style)


def _past_and_future(past: Sequence[float], coming: Sequence[float], top: float) -> Text:
    chart = Text()
    lines = zip(bars(past, top=top, rows=4), bars(coming, top=top, rows=4), strict=True)
    for number, (was, will_be) in enumerate(lines):
        chart.append(("\n" if number else "") + was.rjust(_PAST), "cyan")
        chart.append("│", "dim")
        chart.append(will_be, "magenta")
    return chart
