"""Mixed versions: what earlier controllers and workers left in Redis is read, and they can read us.

The files below `documents` hold what earlier states of this project wrote. Add one when a stored type
changes; never change one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from services.control.actuation import Outcome, Settlement
from services.store import codec
from services.store.job_record import JobRecord
from services.store.keys import Keys
from services.store.redis_state import RedisState
from tests.store.worlds import a_decision, a_report, told

FILES = sorted((Path(__file__).parent / "documents").glob("*.json"))
KEYS = Keys("penstock")


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def older(request: pytest.FixtureRequest) -> dict[str, Any]:
    """One kind of document to the other."""
    found: dict[str, Any] = json.loads(request.param.read_text(encoding="utf-8"))
    return found


def raw(document: object) -> bytes:
    return json.dumps(document).encode()


def test_an_older_controllers_memory_is_read(older: dict[str, Any]) -> None:
    state = codec.decode_state(raw(older["state"]), key="k")

    assert (state.sequence, state.planned, state.rule, state.pool_failures) == (7, 3, "penstock", 1)
    assert state.assignment == a_decision(7).state.assignment
    assert state.pool.awaited == {"w-3": 9.0}, "what was learned is kept"
    assert state.throughput.types.models.keys() == {"a10"}


def test_an_older_controllers_decision_and_assignment_are_read(older: dict[str, Any]) -> None:
    assert codec.decode_decision(raw(older["decision"]), key="k") == told(a_decision(7))
    assert codec.decode_assignment(raw(older["assignment"]), key="k") == a_decision(7).state.assignment


def test_an_older_workers_report_is_read(older: dict[str, Any]) -> None:
    assert codec.decode_report(raw(older["report"]), key="k") == a_report()


def test_a_job_that_an_older_controller_stored_is_read(older: dict[str, Any]) -> None:
    job = JobRecord.read(raw(older["job"]), key="k")

    assert (job.name, job.settings.topic) == ("clicks", "clicks")


async def test_a_newer_controller_takes_over_and_goes_on(older: dict[str, Any], client: Redis) -> None:
    await client.set(KEYS.state("clicks"), raw(older["state"]))
    await client.set(KEYS.fence("clicks"), "1")
    await client.xadd(KEYS.decisions("clicks"), {"id": "clicks-7", "decision": raw(older["decision"])})
    store = RedisState(client, KEYS)

    assert (await store.load("clicks")).sequence == 7
    await store.commit(a_decision(8), fence=2)

    assert [one.id for one in await store.decisions("clicks")] == ["clicks-8", "clicks-7"]


async def test_an_older_trail_is_shown_and_ended_by_a_newer_controller(client: Redis) -> None:
    """Its entries say nothing that refusals could be counted by."""
    older = json.loads(next(file for file in FILES if "refusals" in file.stem).read_text(encoding="utf-8"))
    for number in (5, 6):
        asked = {"id": f"clicks-{number}", "asked": raw(older["actuation"])}
        await client.xadd(KEYS.actuations("clicks"), asked)  # type: ignore[arg-type]
        if number == 5:
            ended = {"id": "clicks-5", "ended": raw(older["settlement"])}
            await client.xadd(KEYS.actuations("clicks"), ended)  # type: ignore[arg-type]
    await client.set(KEYS.unsettled("clicks"), "clicks-6")
    store = RedisState(client, KEYS)

    await store.settle("clicks", Settlement("clicks-6", 1_010.0, Outcome.REFUSED, "a quota"))

    assert [(one.outcome, one.times) for one in await store.actuations("clicks")] == [
        (Outcome.REFUSED, 1)
    ] * 2


def test_nothing_that_older_readers_know_is_left_out(older: dict[str, Any]) -> None:
    """One can go back a release: they pass over what is new, and find all that they know."""
    decision, actuation = a_decision(7), a_decision(7).actuation
    assert actuation is not None
    ours = {
        "state": codec.encode_state(decision.state),
        "decision": codec.encode_decision(decision),
        "assignment": codec.encode_assignment(decision.state.assignment),
        "report": codec.encode_report(a_report()),
        "actuation": codec.encode_actuation(actuation),
        "settlement": codec.encode_settlement(Settlement("clicks-7", 1_009.0, Outcome.REFUSED)),
        "job": JobRecord.read(raw(older["job"]), key="k").written(),
    }
    for kind, document in older.items():
        written = json.loads(ours[kind])
        assert written["v"] == document["v"]
        if kind == "job":
            assert document["settings"].keys() <= written["settings"].keys()
        else:
            assert document[kind].keys() <= written[kind].keys(), kind
