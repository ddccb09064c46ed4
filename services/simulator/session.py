"""One backtest from files to files: what `penstock backtest` does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from services.simulator.arrivals import peak_rate
from services.simulator.contest import Contest, Verdict, judge
from services.simulator.errors import SimulationError
from services.simulator.forecasters import forecaster_named
from services.simulator.frontier import Frontier, frontier_of, swept
from services.simulator.oracle import PRICES
from services.simulator.page import as_page
from services.simulator.plant import Plant, load_plant
from services.simulator.policies import PolicyChoice, choose, every_policy
from services.simulator.recorded import compare, read_recording
from services.simulator.summary import (
    across_table,
    as_json,
    as_table,
    check_writable,
    write_arrivals,
    write_decisions,
    write_json,
)
from services.simulator.trace import Trace, read_trace

PEAK_WORKERS = 20
"""The pool at the peak where no plant is named."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files to write, where named."""

    json: Path | None = None
    arrivals: Path | None = None
    decisions: Path | None = None
    html: Path | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """What was asked for on the command line."""

    trace: Path | None
    policies: tuple[str, ...] = ()
    plant: Path | None = None
    baseline: str | None = None
    """Sweep knobs and read across against this one."""
    forecaster: str = "light"
    seed: int = 1
    days: float | None = None
    with_oracle: bool = True
    jobs: int = 1
    outputs: Outputs = Outputs()
    replay: Path | None = None

    def run(self) -> int:
        """The exit code: 0, 1 when a replay disagrees, 2 when something cannot be used."""
        try:
            if self.replay is not None:
                return _replay(self.replay)
            self._judge()
        except (SimulationError, OSError) as error:
            Console(stderr=True).print(
                f"penstock backtest: {error}", style="red", markup=False, highlight=False, soft_wrap=True
            )
            return 2
        return 0

    def _judge(self) -> None:
        if self.trace is None:
            raise SimulationError("give a TRACE.csv to judge policies on, or --replay RUN.json")
        outputs = self.outputs
        check_writable(outputs.json, outputs.arrivals, outputs.decisions, outputs.html)
        console = Console()
        choices = tuple(choose(text) for text in self.policies) or every_policy()
        for name in {self.forecaster, *(choice.forecaster for choice in choices if choice.forecaster)}:
            forecaster_named(name)  # a missing one fails before any work
        trace = read_trace(self.trace)
        plant = _usual_plant(trace) if self.plant is None else load_plant(self.plant)
        contest = Contest(trace, plant, self.seed, self.days, self.forecaster)
        baseline = None if self.baseline is None else choose(self.baseline)
        run = choices if baseline is None else swept((*choices, baseline))
        verdict = self._with_progress(console, contest, run)
        frontier = None if baseline is None else frontier_of([verdict], baseline=baseline.label)
        _show(console, verdict, frontier)
        if self.plant is None and plant.peak_workers is not None:
            console.print(
                f"note: no --plant given: traffic is scaled so that its peak needs {PEAK_WORKERS} workers",
                highlight=False,
            )
        _write(self.outputs, verdict, frontier)

    def _with_progress(self, console: Console, contest: Contest, run: tuple[PolicyChoice, ...]) -> Verdict:
        with Progress(console=console, transient=True) as progress:
            bar = progress.add_task("simulating", total=len(run) + self.with_oracle * len(PRICES))

            def tell(done: str) -> None:
                progress.update(bar, advance=1, description=f"simulated {done}")

            return judge(contest, run, with_oracle=self.with_oracle, jobs=self.jobs, tell=tell)


def _usual_plant(trace: Trace) -> Plant:
    """For who names no plant: what a worker can train is not known, so the pool's size is chosen instead."""
    return Plant(peak_workers=PEAK_WORKERS if peak_rate(trace) > 0 else None)


def _show(console: Console, verdict: Verdict, frontier: Frontier | None) -> None:
    console.print(as_table(verdict, wide=console.width >= 120))
    for note in (*verdict.notes, *verdict.forecasts):
        console.print(f"note: {note}", highlight=False)
    if frontier is not None:
        console.print(across_table(frontier.baseline, frontier.across))


def _write(outputs: Outputs, verdict: Verdict, frontier: Frontier | None) -> None:
    if outputs.json is not None:
        found = ((), ()) if frontier is None else (frontier.every_point, frontier.across)
        write_json(outputs.json, as_json(verdict, *found))
    if outputs.arrivals is not None:
        write_arrivals(outputs.arrivals, verdict.course)
    if outputs.decisions is not None:
        for judged in verdict.judged:
            write_decisions(_decisions_of(outputs.decisions, judged.choice, verdict), judged.run)
    if outputs.html is not None:
        outputs.html.write_text(as_page(verdict, frontier), encoding="utf-8")


def _decisions_of(path: Path, choice: PolicyChoice, verdict: Verdict) -> Path:
    """The file as named for one policy; with several, the policy's name goes before the suffix."""
    if len(verdict.judged) == 1:
        return path
    label = choice.label.translate(str.maketrans(":=,", "---"))
    return path.with_name(f"{path.stem}.{label}{path.suffix}")


def _replay(path: Path) -> int:
    comparison = compare(read_recording(path))
    Console().print(comparison.table())
    return 0 if comparison.agrees else 1
