"""A supervision of fake workers whose time stands still unless it is moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from services.actuator.backoff import Backoff
from services.actuator.crew import Crew
from services.actuator.launcher import Launcher, WorkerCommand
from services.actuator.moment import Moment
from services.actuator.process_platform import ProcessPlatform
from services.actuator.run_files import RunFiles
from services.actuator.supervision import Supervision
from services.actuator.worker_logs import WorkerLogs
from services.control.types import PoolState
from tests.actuator.processes import FAKE_WORKER
from tests.actuator.rigs import ask
from tests.waiting import eventually


class Bench:
    """Real processes, passes when the test says so, and a clock of its own."""

    def __init__(
        self, run_dir: Path, *how: str, command: Sequence[str] = FAKE_WORKER, drain_s: float = 30.0
    ) -> None:
        self.now = Moment(wall_s=50_000.0, steady_s=100.0)
        self.files = RunFiles(run_dir / "ads")
        self.files.make()
        self.logs = WorkerLogs(self.files.directory / "logs")
        launcher = Launcher(WorkerCommand("ads", (*command, *how), {}), self.files, self.logs)
        backoff = Backoff(first_s=1.0, longest_s=10.0, healthy_s=30.0)
        platform = ProcessPlatform(self.files, self.logs, launcher)
        self.crew = Crew("ads", platform, backoff=backoff, drain_s=drain_s)
        self.supervision = Supervision("ads", self.files, platform, self.crew)

    def ask(self, workers: int, *, fence: int = 1, remove: tuple[str, ...] = ()) -> None:
        self.supervision.ask(ask(workers, fence=fence, remove=remove), self.now)

    def forward(self, by_s: float) -> None:
        """Let time go by, unseen."""
        self.now = Moment(self.now.wall_s + by_s, self.now.steady_s + by_s)

    def look(self) -> PoolState:
        """One pass, and what is there after it."""
        self.supervision.make_pass(self.now)
        return self.supervision.state(self.now)

    def until(self, condition: Callable[[PoolState], bool], what: str) -> PoolState:
        """Pass after pass at one moment, until the processes have come so far."""

        def satisfied() -> PoolState:
            state = self.look()
            assert condition(state), state
            return state

        return eventually(satisfied, what=what)

    def started(self) -> int:
        """How many workers were ever started: each leaves a log."""
        return len(list((self.files.directory / "logs").glob("*.log")))

    def end(self) -> None:
        """Leave nothing behind."""

        def ended() -> bool:
            self.crew.kill_all()
            return self.crew.empty

        eventually(ended, what="every worker is gone")
