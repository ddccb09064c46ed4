"""The control loop of one job, as the algorithm reads: observe, forecast, decide, record, act."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from math import floor

from services.control.actuation import Outcome, Settlement
from services.control.decide import decide
from services.control.errors import ControlError, Fenced, Rejected
from services.control.fleet import FleetCount
from services.control.fleet_share import FleetShare
from services.control.gpu_move import on_type, settled_on
from services.control.ports import (
    Clock,
    ForecastSource,
    Leadership,
    StateStore,
    Telemetry,
    TrafficMeter,
    WorkerPool,
)
from services.control.safety import SAFETY_REASONS, allowance
from services.control.standby import standing_by
from services.control.types import (
    ControlState,
    Decision,
    Observation,
    Policy,
    PoolCapabilities,
    PoolResize,
    PoolState,
    TrafficReading,
)


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything that a loop needs from the world."""

    clock: Clock
    leadership: Leadership
    meter: TrafficMeter
    forecasts: ForecastSource
    pool: WorkerPool
    telemetry: Telemetry
    store: StateStore
    fleet: FleetCount = field(default_factory=FleetCount)
    """Shared with the other jobs of this controller."""
    share: FleetShare | None = None
    """The GPUs shared with them; None where no fleet is configured."""


@dataclass(frozen=True, slots=True)
class Tick:
    """What one tick came to. A tick with an `error` held the pool as it was."""

    job: str
    at_s: float
    seen: Observation | None = None
    decision: Decision | None = None
    error: ControlError | None = None
    following: bool = False
    """Another controller leads; nothing was done."""
    took_s: float = 0.0

    @property
    def trouble(self) -> str:
        """Why decisions rest on less than they should, in words; empty when all is well."""
        if self.error is not None:
            return f"{type(self.error).__name__}: {self.error}"
        if self.seen is None:
            return ""
        return self.seen.traffic.degraded or self.seen.pool.trouble

    @property
    def degraded(self) -> bool:
        """Whether decisions rest on less than they should."""
        return bool(self.trouble)


class JobLoop:
    """Drives the ports of one job. Ticks never overlap: the next starts after this one has ended."""

    def __init__(self, job: str, policy: Policy, ports: Ports, *, tell: Callable[[Tick], None]) -> None:
        self.job = job
        self.policy = policy
        """Replaced by whoever changes the job's settings; read once a tick."""
        self._ports = ports
        self._tell = tell
        self._state = ControlState()
        self._state_of_fence: int | None = None
        self._unsettled: PoolResize | None = None
        """Asked for, and not yet marked with what became of it."""

    async def run(self, *, interval_s: float, prepare: Callable[[], Awaitable[None]] | None = None) -> None:
        """Tick on a fixed grid, for ever. A tick that overruns skips grid points; it does not pile up.

        `prepare` runs before each tick: the moment to replace the policy.
        """
        clock = self._ports.clock
        while True:
            if prepare is not None:
                await prepare()
            await self.tick()
            await clock.sleep_until((floor(clock.now_s() / interval_s) + 1) * interval_s)

    async def tick(self) -> Tick:
        """Once through the loop. An expected failure holds the pool and is told, not raised."""
        started_at_s = self._ports.clock.now_s()
        fence = self._ports.leadership.token()
        if fence is None:
            self._state_of_fence = None
            if self._ports.share is not None:
                self._ports.share.forget(self.job)
            tick = Tick(self.job, started_at_s, following=True)
        else:
            tick = await self._lead(fence, started_at_s)
        self._tell(tick)
        return tick

    async def _lead(self, fence: int, started_at_s: float) -> Tick:
        seen, decision, failure = None, None, None
        try:
            await self._recall(fence)
            seen = await self._observe(fence)
            await self._settle_earlier(seen)
            decision = self._decide(seen)
            await self._record(decision, fence)
            await self._act(decision)
        except ControlError as error:
            if isinstance(error, Fenced):
                self._state_of_fence = None
            failure = error
        took_s = self._ports.clock.now_s() - started_at_s
        return Tick(self.job, started_at_s, seen, decision, failure, took_s=took_s)

    async def _recall(self, fence: int) -> None:
        """On taking the lead, go on from what the last leader committed."""
        if self._state_of_fence != fence:
            self._state = await self._ports.store.load(self.job)
            self._state_of_fence = fence
            # Perhaps carried out by a predecessor that died before it could say so.
            self._unsettled = self._state.resized

    async def _observe(self, fence: int) -> Observation:
        traffic: TrafficReading = await self._ports.meter.read()
        able = self._ports.pool.capabilities()
        pool = _capped(await self._ports.pool.observe(), able)
        pool = standing_by(pool, self._state.assignment)
        gpu_type = settled_on(pool, self._state)
        history = self._ports.meter.history()
        return Observation(
            job=self.job,
            at_s=self._ports.clock.now_s(),
            traffic=traffic,
            pool=pool.towards(gpu_type),
            reports=await self._ports.telemetry.reports(),
            fence=fence,
            forecast=self._ports.forecasts.forecast(history),
            history=history,
            victims=able.victims,
            can_stand_by=able.standbys,
            can_place=able.places,
            gpu_type=gpu_type,
        )

    async def _settle_earlier(self, seen: Observation) -> None:
        """A resize whose answer was lost, or whose controller died: what the pool shows is what happened."""
        resize = self._unsettled
        if resize is not None and seen.pool.requested == resize.workers:
            await self._settle(resize, seen, Outcome.DONE)

    def _decide(self, seen: Observation) -> Decision:
        """Nothing is awaited between the look at the fleet and the word to it: two jobs cannot both
        take the last resize that is left."""
        fleet = self._ports.fleet
        fleet.tell(self.job, self._state.safety.hour)
        share = self._ports.share
        own, others = (0, 0) if share is None else share.reserved(self.job, now_s=seen.at_s)
        elsewhere = fleet.elsewhere(self.job, seen.at_s) + others
        if elsewhere or own:
            seen = replace(seen, resizes_elsewhere=elsewhere, resizes_reserved=own)
        decision = self._granted(decide(seen, self._state, self.policy), seen)
        fleet.tell(self.job, decision.state.safety.hour)
        return decision

    def _granted(self, decision: Decision, seen: Observation) -> Decision:
        """The same decision where the fleet grants it, else the one within what is granted."""
        share, standing = self._ports.share, self.policy.standing
        if share is None or standing is None:
            return decision
        left = allowance(
            self._state.safety, self.policy.safety, now_s=seen.at_s, elsewhere=seen.resizes_elsewhere
        )
        grant = share.grant(decision, standing, seen, self.policy.slo, allowance=left)
        if grant is None:
            return decision
        held = replace(
            seen,
            fleet_max=grant.workers,
            standbys_lent=grant.standbys_lent,
            yielding=grant.leave,
            leaving_order=grant.order,
            nodes=grant.nodes,
        )
        if not grant.gpu_type:
            return decide(held, self._state, self.policy)
        moved = decide(on_type(held, grant.gpu_type), self._state, self.policy)
        if moved.planned > 0 and SAFETY_REASONS.isdisjoint(moved.notes):
            return moved
        share.stay(decision, grant)
        return decide(replace(seen, fleet_max=decision.requested), self._state, self.policy)

    async def _record(self, decision: Decision, fence: int) -> None:
        """Before acting: a controller that dies in between finds out what it was about to do."""
        await self._ports.store.commit(decision, fence=fence)
        self._state = decision.state

    async def _act(self, decision: Decision) -> None:
        """The assignment is out with the record, so a shrinking pool drains before it is cut.

        A growing pool is assigned by the tick that sees its new workers ready. A resize whose answer is
        lost stays unsettled: the next look at the pool tells.
        """
        resize = decision.resize
        if resize is None:
            if self._unsettled is not None:  # not seen done, and not wanted any more
                await self._settle(self._unsettled, decision, Outcome.SUPERSEDED)
            return
        token = self._ports.leadership.token()
        if token != resize.fence:  # stopped or held up since the tick began: another may lead by now
            raise Fenced(f"resize of decision {resize.decision_id}", token=resize.fence, newest=token or 0)
        self._unsettled = resize
        try:
            await self._ports.pool.resize(resize)
        except Rejected as error:
            await self._settle(resize, decision, Outcome.REFUSED, why=str(error))
            raise
        await self._settle(resize, decision, Outcome.DONE)

    async def _settle(
        self, resize: PoolResize, at: Observation | Decision, outcome: Outcome, *, why: str = ""
    ) -> None:
        settlement = Settlement(resize.decision_id, at.at_s, outcome, why)
        await self._ports.store.settle(self.job, settlement)
        self._unsettled = None


def _capped(pool: PoolState, able: PoolCapabilities) -> PoolState:
    """With the most that its kind can ever have, where that is less than what others allow it now."""
    if able.workers_max is None or (pool.most is not None and pool.most <= able.workers_max):
        return pool
    return replace(pool, most=able.workers_max)
