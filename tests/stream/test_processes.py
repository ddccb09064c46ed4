"""Worker processes that come, go, die and freeze: every sample is trained, repeats stay in bounds."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from services.settings import Settings
from tests.servers.kafka import KafkaUnderTest
from tests.stream.crews import Crew, at_work, every_sample, killed_at_its_turn
from tests.stream.streams import Traffic, committed, opened, produce, progress_of, settings_for
from tests.waiting import eventually

TTL_S = 1.5


@pytest.mark.parametrize("seed", [1, 2])
def test_joins_leaves_a_kill_and_a_zombie_lose_nothing(
    kafka: KafkaUnderTest, redis_url: str, group: str, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    topic = kafka.new_topic(4)
    settings = settings_for(
        kafka.bootstrap, redis_url, topic, group, shuffle={"lease_ttl_s": TTL_S, "lease_s": 0.4}
    )
    with at_work(settings, tmp_path, workers=3, step_s=0.02) as crew:
        with Traffic(kafka.bootstrap, topic, weights=(18, 8, 3, 1), rate_per_s=1_500) as traffic:
            killed = havoc(crew, settings, chance)
        progress = crew.finish(every_sample(traffic.counts))

    assert {worker for worker, p in crew.processes.items() if p.exitcode == -signal.SIGKILL} == {killed}
    assert progress.trained == sum(traffic.counts.values())
    repeats = sum(crew.trained().values()) - progress.trained
    assert repeats <= progress.repeated, "more was repeated than the leases that were lost"


def havoc(crew: Crew, settings: Settings, chance: random.Random) -> str:
    """One worker is killed, one freezes until its leases have lapsed, others join and leave.

    Who was killed.
    """
    killed, frozen, *others = crew.processes
    for worker in (killed, frozen, *others):
        crew.wait_until_training(worker)
    crew.freeze_mid_lease(killed)
    crew.kill(killed)
    crew.freeze_mid_lease(frozen)
    for _ in range(chance.randint(2, 3)):
        others.append(crew.hire(trains=True))
        leaver = others.pop(chance.randrange(len(others)))
        assert crew.dismiss(leaver) == 0
    eventually(lambda: progress_of(settings).repeated > 0, what="the silent workers' leases return")
    crew.signal(frozen, signal.SIGCONT)
    return killed


def test_fifty_joins_and_leaves_lose_and_repeat_nothing(
    kafka: KafkaUnderTest, redis_url: str, group: str, tmp_path: Path
) -> None:
    chance = random.Random(50)
    topic = kafka.new_topic(3)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group, shuffle={"lease_s": 0.1})
    with at_work(settings, tmp_path, workers=0) as crew:
        with Traffic(kafka.bootstrap, topic, weights=(5, 3, 1), rate_per_s=1_000) as traffic:
            present: list[str] = []
            for _ in range(50):
                if present and chance.random() < 0.5:
                    assert crew.dismiss(present.pop(chance.randrange(len(present)))) == 0
                else:
                    present.append(crew.hire())
        crew.hire()
        progress = crew.finish(every_sample(traffic.counts))

    assert set(crew.trained().values()) == {1}, "after leaving in order nothing is repeated"
    assert progress.repeated == 0


def test_the_last_worker_to_leave_waits_out_the_turn_of_one_that_was_killed_at_its_commit(
    kafka: KafkaUnderTest, redis_url: str, group: str, tmp_path: Path
) -> None:
    topic = kafka.new_topic(1)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group)
    with at_work(settings, tmp_path, workers=1) as crew:
        eventually(lambda: opened(settings).ends == {0: 0}, what="the ledger is open")
        assert killed_at_its_turn(settings) == -signal.SIGKILL
        produce(kafka.bootstrap, topic, {0: 300})
        eventually(lambda: progress_of(settings).watermarks == {0: 300}, within_s=60, what="the end")
        assert committed(settings, 1) != {0: 300}, "nobody can commit while the turn is the dead worker's"
        crew.finish(every_sample({0: 300}))  # ends with the group at the end of the partition


def test_a_sample_that_kills_its_workers_is_given_up_and_the_rest_is_trained(
    kafka: KafkaUnderTest, redis_url: str, group: str, tmp_path: Path
) -> None:
    topic = kafka.new_topic(1)
    produce(kafka.bootstrap, topic, {0: 200})
    shuffle = {"lease_ttl_s": 0.6, "lapses_max": 2}
    settings = settings_for(kafka.bootstrap, redis_url, topic, group, shuffle=shuffle)
    with at_work(settings, tmp_path, workers=0, poison="0:120") as crew:
        for _ in range(2):
            assert crew.ended(crew.hire()) == 3
        survivor = crew.hire()
        eventually(lambda: progress_of(settings).watermarks == {0: 200}, within_s=60, what="the end")
        code = crew.dismiss(survivor)

    progress = progress_of(settings)
    given_up = {offset for start, end in progress.quarantined[0] for offset in range(start, end)}
    assert code == 0
    assert 120 in given_up
    assert {offset for _, offset in crew.trained()} | given_up == set(range(200))
    assert progress.trained == 200 - len(given_up)
    assert committed(settings, 1) == {0: 200}
