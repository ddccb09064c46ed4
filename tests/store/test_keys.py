"""One key layout, and its page in the docs."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis.crc import key_slot

from services.store.keys import Keys

DOCS = Path(__file__).parents[2] / "docs" / "store.md"


@dataclass(frozen=True)
class _Named:
    of_job: tuple[str, ...]
    of_all: tuple[str, ...]


def names(keys: Keys, job: str) -> _Named:
    return _Named(
        of_job=(
            keys.state(job),
            keys.fence(job),
            keys.decisions(job),
            keys.actuations(job),
            keys.unsettled(job),
            keys.assignment(job),
            keys.workers(job),
            keys.report(job, "w-1"),
            keys.ledger(job),
            keys.ledger(job, "ranges"),
            keys.traffic(job),
            keys.traffic(job, "PART"),
            keys.snapshot(job),
            keys.wish(job),
            keys.shards(job),
            keys.slots(job),
        ),
        of_all=(
            keys.jobs(),
            keys.jobs_version(),
            keys.tokens(),
            keys.audit(),
            keys.events(),
            keys.leader(),
            keys.leader_token(),
        ),
    )


def test_every_key_starts_with_the_prefix_and_the_version() -> None:
    named = names(Keys("mine"), "clicks")

    assert all(name.startswith("mine:v1:") for name in (*named.of_job, *named.of_all))


def test_no_two_keys_are_the_same() -> None:
    every = [n for job in ("a", "b", "leader", "jobs") for n in names(Keys("p"), job).of_job]
    every += names(Keys("p"), "a").of_all

    assert len(set(every)) == len(every)


def test_all_keys_of_a_job_lie_in_one_slot_of_a_cluster() -> None:
    slots = {key_slot(name.encode()) for name in names(Keys("p"), "clicks").of_job}

    assert len(slots) == 1


def test_both_keys_of_the_leader_lie_in_one_slot_of_a_cluster() -> None:
    keys = Keys("p")

    assert key_slot(keys.leader().encode()) == key_slot(keys.leader_token().encode())


@pytest.mark.parametrize("job", ["", "a}b", "{a"])
def test_a_job_that_would_break_the_hash_tag_is_refused(job: str) -> None:
    with pytest.raises(ValueError, match="cannot name a key"):
        Keys("p").state(job)


def test_every_key_is_documented() -> None:
    documented = set(
        re.findall(r"^\| `(PREFIX:[^`]+)`", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    keys, job = Keys("PREFIX"), "JOB"
    written = {
        keys.state(job), keys.fence(job), keys.decisions(job), keys.assignment(job), keys.workers(job),
        keys.actuations(job), keys.unsettled(job),
        keys.report(job, "WORKER"), keys.ledger(job), keys.ledger(job, "PART"), keys.traffic(job),
        keys.traffic(job, "PART"), keys.wish(job), keys.shards(job), keys.slots(job),
        keys.snapshot(job), keys.jobs(), keys.jobs_version(), keys.tokens(), keys.audit(), keys.events(),
        keys.leader(), keys.leader_token(),
    }  # fmt: skip

    assert documented == written
    assert len([name for name in vars(Keys) if not name.startswith("_")]) == 22  # `prefix` and 21 methods
