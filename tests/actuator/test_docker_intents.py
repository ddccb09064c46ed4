"""Intents as volumes and as files: of several writers one wins, and everyone can tell who."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from services.actuator.charge import Charge, IntentMoved
from services.actuator.docker_intent_files import IntentFiles
from services.actuator.docker_intents import CONTENT, JOB, KIND, NUMBER, DockerIntents, Volumes
from services.actuator.intent import Intent
from services.control.errors import PoolUnavailable


class EngineVolumes:
    """The volumes of an engine: making one that is there shows the old labels."""

    def __init__(self) -> None:
        self.made: dict[str, Mapping[str, str]] = {}

    def volumes(self, labels: Mapping[str, str]) -> dict[str, Mapping[str, str]]:
        return {name: has for name, has in self.made.items() if labels.items() <= has.items()}

    def create_volume(self, name: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        return self.made.setdefault(name, dict(labels))

    def remove_volume(self, name: str) -> None:
        self.made.pop(name, None)


def wanted(size: int) -> Charge:
    return Charge(Intent(requested=size, remove=("w-1",)), supervisor="us")


@pytest.fixture(params=["volumes", "files"])
def volumes(request: pytest.FixtureRequest, tmp_path: Path) -> Volumes:
    return EngineVolumes() if request.param == "volumes" else IntentFiles(tmp_path / "intents")


@pytest.fixture
def intents(volumes: Volumes) -> DockerIntents:
    return DockerIntents(volumes, "ads")


def test_a_pool_that_was_never_asked_wants_nothing(intents: DockerIntents) -> None:
    assert intents.latest().charge == Charge()


def test_what_is_written_last_is_in_force_and_the_rest_is_cleared_away(
    intents: DockerIntents, volumes: Volumes
) -> None:
    for size in (1, 2, 3):
        intents.write(wanted(size), after=intents.latest().number)

    assert intents.latest().charge == wanted(3)
    assert len(volumes.volumes({})) == 1


def test_of_two_writers_the_second_is_told_to_look_again(intents: DockerIntents) -> None:
    number = intents.latest().number
    intents.write(wanted(1), after=number)

    with pytest.raises(IntentMoved):
        intents.write(wanted(2), after=number)

    assert intents.latest().charge.intent.requested == 1


def test_a_writer_that_slept_while_numbers_were_cleared_away_does_not_win(intents: DockerIntents) -> None:
    slept = intents.latest().number
    for size in (1, 2, 3):
        intents.write(wanted(size), after=intents.latest().number)

    with pytest.raises(IntentMoved):
        intents.write(wanted(9), after=slept)

    assert intents.latest().charge.intent.requested == 3


def test_the_intents_of_other_jobs_are_left_alone(intents: DockerIntents, volumes: Volumes) -> None:
    other = DockerIntents(volumes, "shop")
    other.write(wanted(7), after=0)
    intents.write(wanted(1), after=0)

    assert (other.latest().charge.intent.requested, intents.latest().charge.intent.requested) == (7, 1)


def test_an_intent_that_cannot_be_read_is_named(intents: DockerIntents, volumes: Volumes) -> None:
    labels = {JOB: "ads", KIND: "intent", NUMBER: "4", CONTENT: '{"intent": {"fence": "seven"}}'}
    volumes.create_volume("penstock-ads-intent-4", labels)

    with pytest.raises(PoolUnavailable, match="volume penstock-ads-intent-4 was written by another version"):
        intents.latest()


def test_of_many_writers_at_once_exactly_one_wins(tmp_path: Path) -> None:
    def won(size: int) -> bool:
        try:
            DockerIntents(IntentFiles(tmp_path), "ads").write(wanted(size), after=0)
        except IntentMoved:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        winners = [size for size, first in enumerate(threads.map(won, range(64))) if first]

    (winner,) = winners
    assert DockerIntents(IntentFiles(tmp_path), "ads").latest().charge == wanted(winner)


def test_a_directory_that_cannot_be_used_is_named_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    intents = DockerIntents(IntentFiles(tmp_path / "taken"), "ads")

    with pytest.raises(PoolUnavailable, match=r"taken cannot keep .* see to pool\.docker\.intents_dir"):
        intents.write(wanted(1), after=0)


def test_a_file_that_holds_no_intent_is_named(tmp_path: Path) -> None:
    (tmp_path / "penstock-ads-intent-1.json").write_text("half", encoding="utf-8")

    with pytest.raises(PoolUnavailable, match="cannot keep what the pool was asked for"):
        DockerIntents(IntentFiles(tmp_path), "ads").latest()
