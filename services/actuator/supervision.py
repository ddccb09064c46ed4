"""One pool object's part in supervising a directory of workers. Synchronous; time is an argument."""

from __future__ import annotations

from dataclasses import replace

import structlog

from services.actuator.claim import Claim
from services.actuator.crew import Crew
from services.actuator.intent import Intent
from services.actuator.moment import Moment
from services.actuator.process_platform import ProcessPlatform
from services.actuator.run_files import Fence, RunFiles
from services.control.types import PoolResize, PoolState

log = structlog.get_logger()


class Supervision:
    """Makes passes while it holds the claim; stands by and only looks while another does.

    Every method that changes anything takes the directory's lock, raises RunDirBusy at once when
    another controller has it, and reads the fence file afresh.
    """

    def __init__(self, job: str, files: RunFiles, platform: ProcessPlatform, crew: Crew) -> None:
        self.active = False
        """Whether we supervised at the last look."""
        self._crew = crew
        self._platform = platform
        self._files = files
        self._claim = Claim(files)
        self._intent = Intent()
        self._name = f"pool of job {job}"
        self._log = log.bind(job=job)

    def make_pass(self, now: Moment) -> None:
        """Bring the workers nearer to what was asked for, if that is for us to do."""
        with self._files.lock():
            fence = self._files.fence()
            if not self._claim.held(fence):
                self._look_on()
                if not self._claim.open_to_us(fence, now):
                    return
                fence = self._claim.taken(fence)
                self._files.write_fence(fence)
            self._supervise(fence, now)

    def ask(self, request: PoolResize, now: Moment) -> None:
        """Write down what is wanted, and take the supervision: the leader's pool does the work.

        Raises Fenced and Rejected. Nothing is started or ended here; the next pass does that.
        """
        with self._files.lock():
            fence = self._files.fence()
            wanted = self._claim.taken(replace(fence, intent=fence.intent.after(request, pool=self._name)))
            if wanted != fence:
                self._files.write_fence(wanted)
            if not self.active:
                self._adopt(now)
            self._intent = wanted.intent

    def dismiss_all(self) -> None:
        """Want no worker any more, if we supervise; the fence stays as it is."""
        with self._files.lock():
            fence = self._files.fence()
            if self._claim.held(fence):
                nobody = replace(fence.intent, requested=0, remove=())
                self._files.write_fence(replace(fence, intent=nobody))
            else:
                self._look_on()

    def release(self) -> None:
        """Let the next pool supervise at once."""
        self.active = False
        self._platform.reap()
        with self._files.lock():
            fence = self._files.fence()
            if self._claim.held(fence):
                self._files.write_fence(self._claim.released(fence))

    def state(self, now: Moment) -> PoolState:
        """What was asked for and what is there. One that stands by tells what is on record."""
        if not self.active:
            return PoolState(self._files.fence().intent.requested, self._crew.on_record(now))
        return PoolState(
            requested=self._intent.requested,
            workers=self._crew.workers(),
            failures=self._crew.failures,
            trouble=self._crew.trouble(now),
        )

    def _supervise(self, fence: Fence, now: Moment) -> None:
        if not self.active:
            self._adopt(now)
        self._intent = self._crew.reconcile(fence.intent, now)
        self._files.give_sign_of_life()

    def _adopt(self, now: Moment) -> None:
        self._platform.reap()
        self._crew.adopt(now)
        self.active = True
        self._log.info("pool_supervised")

    def _look_on(self) -> None:
        if self.active:
            self.active = False
            self._log.info("pool_superseded")
        self._platform.reap()
