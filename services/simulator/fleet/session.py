"""One backtest of a fleet from files to files: what `penstock backtest --fleet` does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from services.simulator.errors import SimulationError
from services.simulator.fleet.builtin import PREFIX, builtin_fleet
from services.simulator.fleet.contest import POLICIES, FleetVerdict, judge_fleet
from services.simulator.fleet.file import FleetFile, load_fleet
from services.simulator.fleet.summary import as_json, as_table
from services.simulator.summary import check_writable, write_json


@dataclass(frozen=True, slots=True)
class FleetSession:
    """What was asked for on the command line."""

    fleet: str
    """A YAML file, or `builtin:NAME`."""
    trace: Path | None = None
    """Followed by every second job of a built-in fleet."""
    policies: tuple[str, ...] = ()
    seed: int = 1
    days: float | None = None
    json: Path | None = None

    def run(self) -> int:
        """The exit code: 0, or 2 when something cannot be used."""
        try:
            check_writable(self.json)
            verdict = self._judge()
        except (SimulationError, OSError) as error:
            Console(stderr=True).print(
                f"penstock backtest: {error}", style="red", markup=False, highlight=False, soft_wrap=True
            )
            return 2
        Console().print(as_table(verdict))
        if self.json is not None:
            write_json(self.json, as_json(verdict))
        return 0

    def _judge(self) -> FleetVerdict:
        fleet = self._fleet()
        policies = self.policies or tuple(POLICIES)
        with Progress(console=Console(), transient=True) as progress:
            bar = progress.add_task("simulating", total=len(policies))

            def tell(done: str) -> None:
                progress.update(bar, advance=1, description=f"simulated {done}")

            name = self.fleet if self.fleet.startswith(PREFIX) else Path(self.fleet).stem
            return judge_fleet(name, fleet, policies, seed=self.seed, days=self.days, tell=tell)

    def _fleet(self) -> FleetFile:
        if self.fleet.startswith(PREFIX):
            return builtin_fleet(self.fleet.removeprefix(PREFIX), seed=self.seed, trace=self.trace)
        if self.trace is not None:
            raise SimulationError("a fleet file names its own traces; give a TRACE only with builtin:NAME")
        return load_fleet(Path(self.fleet))
