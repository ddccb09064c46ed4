"""Run the demo: servers, traffic, controller and workers come up, play, drain and go away again."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import structlog
import yaml
from prometheus_client import CollectorRegistry

from estimator.rules import rule_named
from services.api.app import create_app
from services.api.event_feed import EventFeed
from services.api.operations import create_operations_app
from services.api.server import ApiServer, address, bind, bind_operations
from services.api.simulated import SimulatedWhatIf
from services.api.site import Site
from services.clock import SystemClock
from services.control.errors import StateUnavailable
from services.control.loop import Tick
from services.controller.controller import Controller
from services.controller.wiring import LiveWiring
from services.demo.audience import Audience
from services.demo.children import Children
from services.demo.report import DemoReport
from services.demo.run_up import RunUp
from services.demo.scenario import JOB, Scenario
from services.demo.servers import DemoServers, demo_servers
from services.demo.shard_processes import ShardProcesses
from services.demo.tally import Tally
from services.demo.traffic_process import TrafficProcess
from services.demo.training_news import TrainingNews
from services.demo.visit import Visit, demo_token
from services.settings import Settings
from services.stream.offsets import end_offsets
from shuffler.lease import Progress

log = structlog.get_logger()

_DRAIN_WITHIN_S = 60.0


def run_demo(scenario: Scenario, audience: Audience, *, kafka: str | None, redis: str | None) -> DemoReport:
    """Play the scenario to its end, or to the first Ctrl-C, and say what it came to.

    Raises ServerUnavailable when a server that was named cannot be used.
    """
    children = Children()
    with demo_servers(kafka=kafka, redis=redis) as servers, _working_directory() as directory:
        settings = scenario.settings(
            kafka=servers.kafka,
            redis=servers.redis,
            prefix=servers.prefix,
            topic=servers.topic,
            run_dir=directory / "workers",
        )
        play = _Play(scenario, servers, directory, settings, audience=audience, children=children)
        produced, progress, minutes = asyncio.run(play.run())
        hidden_auc = play.hidden_auc
    left = children.alive()
    for orphan in left:
        log.error("process_left_behind", pid=orphan.pid)
    return DemoReport.of(
        play.tally,
        progress,
        produced=produced,
        orphans=len(left),
        minutes=minutes,
        seed=scenario.seed,
        hidden_auc=hidden_auc,
        before=play.before,
    )


@contextmanager
def _working_directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


class _Play:
    """One run of the scenario on servers that are up."""

    def __init__(
        self,
        scenario: Scenario,
        servers: DemoServers,
        directory: Path,
        settings: Settings,
        *,
        audience: Audience,
        children: Children,
    ) -> None:
        self._scenario = scenario
        self._servers = servers
        self._directory = directory
        self._settings = settings
        self._audience = audience
        self._children = children
        self._news = TrainingNews()
        self._traffic = TrafficProcess(
            scenario, kafka=servers.kafka, topic=servers.topic, directory=directory
        )
        self._config = self._write_config()
        self._shards = ShardProcesses(settings, JOB, config=self._config, directory=directory)
        self.tally = self._new_tally()
        self.before: Progress | None = None
        """Where the ledger stood when figures began to count; None where they count from the start."""

    def _told(self, tick: Tick) -> None:
        self.tally.told(tick)  # which one that is changes with the end of a run-up

    def _new_tally(self) -> Tally:
        return Tally(
            gpus_per_worker=self._settings.jobs[JOB].scaling.gpus_per_worker,
            rate_per_worker=self._scenario.rate_per_worker,
        )

    @property
    def hidden_auc(self) -> float | None:
        """How well the model that made the clicks told the latest of them."""
        return self._traffic.hidden_auc

    async def run(self) -> tuple[int, Progress, float]:
        """Samples produced, where the ledger stood at the end, and minutes played."""
        try:
            # Before anything counts time: the very first start on a machine compiles for some seconds.
            rule = rule_named(self._scenario.rule, self._scenario.rule_options)
            await asyncio.gather(asyncio.to_thread(self._shards.start), asyncio.to_thread(rule.prepare))
            # Before anything is measured: the meter would take a generator that is starting for a lull.
            await asyncio.to_thread(self._traffic.start)
            return await self._run()
        finally:
            self._traffic.stop()
            await asyncio.to_thread(self._shards.stop)
            self._children.look()

    async def _run(self) -> tuple[int, Progress, float]:
        registry = CollectorRegistry()
        began_s = SystemClock().now_s() - self._traffic.elapsed_s
        past = {JOB: self._scenario.history(until_s=began_s)}
        wiring = LiveWiring(self._settings, config=self._config, owned=True, past=past)
        async with wiring, SimulatedWhatIf() as what_if:
            controller = Controller(self._settings, wiring, registry)
            controller.journal.listen(self._told)
            controller.journal.listen(self._audience.told)
            listening, operations = bind(self._settings.api), bind_operations(self._settings.api)
            slo_s = self._settings.jobs[JOB].slo.fresh_within_s
            site = Site(
                controller=controller,
                tokens=wiring.tokens,
                audit=wiring.audit,
                events=EventFeed(wiring.events),
                settings=self._settings.api,
                registry=registry,
                what_if=what_if,
            )
            visit = Visit(
                page=address(listening), operations=address(operations), token=await demo_token(wiring.tokens)
            )
            with self._audience.watching(visit, slo_s=slo_s, directory=self._directory):
                api = ApiServer(create_app(site))
                beside = ApiServer(create_operations_app(site))
                running = [
                    asyncio.create_task(controller.run(), name="controller"),
                    asyncio.create_task(api.serve(sockets=[listening]), name="api"),
                    asyncio.create_task(beside.serve(sockets=[operations]), name="operations"),
                ]
                try:
                    return await self._until_drained(wiring, controller, running)
                finally:
                    await site.events.close()
                    await what_if.close()
                    api.should_exit = beside.should_exit = True
                    running[0].cancel()
                    await asyncio.wait(running)
                    self._children.look()

    async def _until_drained(
        self, wiring: LiveWiring, controller: Controller, running: list[asyncio.Task[None]]
    ) -> tuple[int, Progress, float]:
        stop = _stop_on_signals()
        if self._scenario.run_up_s:
            watch = partial(self._watch, wiring, running)
            run_up = RunUp(self._scenario, controller, self._traffic, watch, stop)
            self.before = await run_up.play(lambda: wiring.progress(JOB))
            self.tally = self._new_tally()
            self._audience.say("the run-up is over; from now on figures count")
        await self._watch(wiring, running, until=lambda: self._over(stop))
        minutes = (self._traffic.elapsed_s - self._scenario.run_up_s) / 60.0
        await asyncio.to_thread(self._traffic.stop)
        self._audience.say("traffic has ended; training what is left")
        produced = await asyncio.to_thread(self._count_produced)
        return produced, await self._drained(wiring, running, produced), minutes

    async def _drained(
        self, wiring: LiveWiring, running: list[asyncio.Task[None]], produced: int
    ) -> Progress:
        """The ledger once everything is trained, or when that has taken too long."""
        out_of_time = _after(_DRAIN_WITHIN_S)
        while True:
            try:
                progress = await wiring.progress(JOB)
            except StateUnavailable:
                if out_of_time():
                    raise  # until then Redis is being replaced
            else:
                # By watermark, not by count: after a lost shard some are trained and counted twice.
                if sum(progress.watermarks.values()) >= produced or out_of_time():
                    return progress
            await self._watch(wiring, running, until=_after(0.2))

    def _count_produced(self) -> int:
        """By Kafka's own count: the topic is ours alone, and began empty."""
        return sum(end_offsets(self._settings.kafka.client(), self._servers.topic).values())

    def _over(self, stop: asyncio.Event) -> bool:
        scenario = self._scenario
        return stop.is_set() or self._traffic.elapsed_s >= scenario.run_up_s + scenario.minutes * 60.0

    async def _watch(
        self, wiring: LiveWiring, running: list[asyncio.Task[None]], *, until: Callable[[], bool]
    ) -> None:
        """Wait, replacing what dies meanwhile and saying so. A controller or API that broke is raised."""
        while not until():
            for mended in (self._servers.mend, self._traffic.mend, self._shards.mend):
                event = await asyncio.to_thread(mended)
                if event is not None:
                    log.warning("replaced", what=event)
                    self._audience.say(event)
            for event in self._news.news(wiring.training(JOB)):
                self._audience.say(event)
            self._children.look()
            done, _ = await asyncio.wait(running, timeout=0.2)
            for task in done:
                task.result()
                raise RuntimeError(f"{task.get_name()} ended before the demo did")

    def _write_config(self) -> Path:
        """What the workers read; only this user may: a Redis URL can hold a password."""
        path = self._directory / "penstock.yaml"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(self._settings.model_dump(mode="json")), encoding="utf-8")
        return path


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


def _after(seconds: float) -> Callable[[], bool]:
    loop = asyncio.get_running_loop()
    until_s = loop.time() + seconds
    return lambda: loop.time() >= until_s
