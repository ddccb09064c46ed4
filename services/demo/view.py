"""The live terminal view of a running job."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from services.control.loop import Tick
from services.control.types import Decision, Observation, WorkerPhase

_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDTH = 60
_EVENTS = 6


def sparkline(values: list[float], *, top: float) -> str:
    """Values as bars, `top` the full height.

    >>> sparkline([0.0, 4.0, 8.0], top=8.0)
    ' ▄█'
    """
    scale = (len(_BLOCKS) - 1) / top if top > 0 else 0.0
    return "".join(_BLOCKS[min(len(_BLOCKS) - 1, max(0, round(value * scale)))] for value in values)


class LiveView:
    """Remembers the last minute or so of ticks and draws them."""

    def __init__(self, *, slo_s: float, address: str, title: str) -> None:
        self._slo_s = slo_s
        self._address = address
        self._title = title
        self._rates: deque[float] = deque(maxlen=_WIDTH)
        self._capacities: deque[float] = deque(maxlen=_WIDTH)
        self._lags_s: deque[float] = deque(maxlen=_WIDTH)
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
        coming = [] if seen.forecast is None else seen.forecast.path(0.5)[: _WIDTH // 2].tolist()
        top = max([*self._rates, *self._capacities, *coming, 1.0])
        table = Table.grid(padding=(0, 1))
        table.add_row(
            "traffic", Text(sparkline(list(self._rates), top=top), "cyan"), f"{self._rates[-1]:,.0f}/s"
        )
        if seen.forecast is not None:
            peak = f"to {max(coming):,.0f}/s ({seen.forecast.model})"
            table.add_row("forecast", Text(sparkline(coming, top=top), "magenta"), peak)
        ready = f"{self._capacities[-1]:,.0f}/s" if self._capacities else ""
        table.add_row("capacity", Text(sparkline(list(self._capacities), top=top), "green"), ready)
        late = self._lags_s[-1] > self._slo_s
        lag = Text(
            f"{self._lags_s[-1]:.1f} s of {self._slo_s:g} s promised, {seen.traffic.lag:,} samples",
            "bold red" if late else "",
        )
        bars = sparkline(list(self._lags_s), top=self._slo_s)
        table.add_row("lag", Text(bars, "red" if late else "yellow"), lag)
        return table

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
        return text
