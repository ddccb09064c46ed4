"""A job's memory in Redis."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import cast

import structlog
from redis.asyncio import Redis

from services.control.actuation import Outcome, Settlement
from services.control.errors import Fenced
from services.control.types import Actuation, ControlState, Decision
from services.store import codec
from services.store.connect import asking
from services.store.errors import StateCorrupt
from services.store.keys import Keys
from services.store.memory_state import DECISIONS_KEPT, settled

log = structlog.get_logger(__name__)

# Redis runs a script alone, but does not undo what it did before an error. So everything that can fail
# comes before the first change: the reads find keys of a wrong type, and a server that is full, read-only
# or without a disk refuses the first write; after that one Redis lets the script finish.
# Where the resize before asked the same and ended in vain likewise, the latest takes its place and counts it.
_CLOSE = """
local function field(entry, name)
  for i = 1, #entry[2], 2 do
    if entry[2][i] == name then return entry[2][i + 1] end
  end
end

local function close(actuations, recent, id, kept, end_json, answer)
  local asked, ended_before, asked_before = recent[1], recent[2], recent[3]
  local ended = {'id', id, 'ended', end_json, 'answer', answer}
  local question = asked and field(asked, 'question')
  if answer ~= '' and asked_before and question and question == field(asked_before, 'question')
      and answer == field(ended_before, 'answer') then
    local times = tonumber(field(ended_before, 'times') or 1) + 1
    local first_at_s = field(ended_before, 'first_at_s') or field(asked_before, 'at_s')
    for _, more in ipairs({'times', times, 'first_at_s', first_at_s}) do table.insert(ended, more) end
    redis.call('XDEL', actuations, ended_before[1], asked_before[1])
  end
  redis.call('XADD', actuations, 'MAXLEN', '=', 2 * kept, '*', unpack(ended))
end
"""

_COMMIT = f"""
{_CLOSE}
local state, fence, decisions, assignment, actuations, unsettled = unpack(KEYS)
local token, state_json, id, decision_json, kept, assignment_json, end_json, answer = unpack(ARGV)
local actuation_json, question, at_s = unpack(ARGV, 9)

local newest = redis.call('GET', fence)
if newest and tonumber(token) < tonumber(newest) then return newest end

local last = redis.call('XREVRANGE', decisions, '+', '-', 'COUNT', 1)[1]
local open = redis.call('GET', unsettled)
local recent = redis.call('XREVRANGE', actuations, '+', '-', 'COUNT', 3)
if last and last[2][2] == id then redis.call('XDEL', decisions, last[1]) end
redis.call('XADD', decisions, 'MAXLEN', '=', kept, '*', 'id', id, 'decision', decision_json)
redis.call('SET', state, state_json)
redis.call('SET', assignment, assignment_json)
redis.call('SET', fence, token)
if open == id then
  if recent[1] then redis.call('XDEL', actuations, recent[1][1]) end
  redis.call('DEL', unsettled)
end
if actuation_json then
  if open and open ~= id then close(actuations, recent, open, kept, end_json, answer) end
  redis.call('XADD', actuations, 'MAXLEN', '=', 2 * kept, '*',
    'id', id, 'asked', actuation_json, 'question', question, 'at_s', at_s)
  redis.call('SET', unsettled, id)
end
return false
"""

_SETTLE = f"""
{_CLOSE}
local actuations, unsettled = KEYS[1], KEYS[2]
local id, kept, end_json, answer = unpack(ARGV)

if redis.call('GET', unsettled) ~= id then return end
local recent = redis.call('XREVRANGE', actuations, '+', '-', 'COUNT', 3)
close(actuations, recent, id, kept, end_json, answer)
redis.call('DEL', unsettled)
"""


class RedisState:
    """A StateStore for several controllers, of which the one with the newest token may commit.

    A Redis that lost its data reads as one that never had any: jobs start afresh, and the next
    commit writes all again, the assignment included.
    """

    def __init__(self, client: Redis, keys: Keys, *, decisions_kept: int = DECISIONS_KEPT) -> None:
        self._client = client
        self._keys = keys
        self._decisions_kept = decisions_kept
        self._commit = client.register_script(_COMMIT)
        self._settle = client.register_script(_SETTLE)

    async def load(self, job: str) -> ControlState:
        """The state last committed; a fresh one for a job never seen.

        Raises StateUnavailable, or StateCorrupt when it was written by another kind of Penstock.
        """
        key = self._keys.state(job)
        async with asking(self._client, f"GET {key}"):
            raw = await self._client.get(key)
        return ControlState() if raw is None else codec.decode_state(raw, key=key)

    async def commit(self, decision: Decision, *, fence: int) -> None:
        """Write decision, state, assignment and actuation in one step, or nothing at all.

        A decision with the id of the newest one replaces it: the loop decides again under the same id
        when it could not learn whether the first commit had arrived.
        Raises Fenced, StateUnavailable.
        """
        keys, job, actuation = self._keys, decision.job, decision.actuation
        superseded = Settlement("", decision.at_s, Outcome.SUPERSEDED)
        asked = (
            ()
            if actuation is None
            else (codec.encode_actuation(actuation), actuation.question, repr(actuation.at_s))
        )
        args = (
            fence,
            codec.encode_state(decision.state),
            decision.id,
            codec.encode_decision(decision),
            self._decisions_kept,
            codec.encode_assignment(decision.state.assignment),
            codec.encode_settlement(superseded),
            superseded.answer,
            *asked,
        )
        async with asking(self._client, f"commit of decision {decision.id}"):
            newest = await self._commit(
                keys=[
                    keys.state(job),
                    keys.fence(job),
                    keys.decisions(job),
                    keys.assignment(job),
                    keys.actuations(job),
                    keys.unsettled(job),
                ],
                args=args,
            )
        if newest is not None:
            raise Fenced(f"commit of decision {decision.id}", token=fence, newest=int(newest))

    async def settle(self, job: str, settlement: Settlement) -> None:
        """Add the end of the latest actuation to the trail, once. Raises StateUnavailable."""
        keys = [self._keys.actuations(job), self._keys.unsettled(job)]
        ended = codec.encode_settlement(settlement)
        args = (settlement.decision_id, self._decisions_kept, ended, settlement.answer)
        async with asking(self._client, f"settlement of decision {settlement.decision_id}"):
            await self._settle(keys=keys, args=args)

    async def actuations(self, job: str, *, limit: int = 100) -> tuple[Actuation, ...]:
        """The trail of resizes, newest first. What cannot be read is left out, and the log says so."""
        if limit < 1:
            return ()
        key = self._keys.actuations(job)
        # Each is two entries at most: what was asked, and how it ended.
        found: dict[str, Actuation] = {}
        ends: dict[str, tuple[Settlement, dict[bytes, bytes]]] = {}
        for entry, content in await self._latest(key, 2 * limit):
            name = content.get(b"id", b"").decode()
            try:
                if b"ended" in content:
                    ends.setdefault(name, (codec.decode_settlement(content[b"ended"], key=key), content))
                elif name not in found:
                    found[name] = codec.decode_actuation(content.get(b"asked", b""), key=key)
            except StateCorrupt as error:
                log.warning("actuation_unreadable", entry=entry.decode(), why=str(error))
        trail = (_ended(one, *ends[name]) if name in ends else one for name, one in found.items())
        return tuple(islice(trail, limit))

    async def decisions(self, job: str, *, limit: int = 100) -> tuple[Decision, ...]:
        """The latest decisions, newest first, each with a default `ControlState()` as its state.

        One that cannot be read is left out, and the log says so: it must not hide the others.
        """
        if limit < 1:  # the client refuses a count below one
            return ()
        key = self._keys.decisions(job)
        found = []
        for entry, content in await self._latest(key, limit):
            try:
                found.append(codec.decode_decision(content.get(b"decision", b""), key=key))
            except StateCorrupt as error:
                log.warning("decision_unreadable", entry=entry.decode(), why=str(error))
        return tuple(found)

    async def _latest(self, key: str, limit: int) -> list[tuple[bytes, dict[bytes, bytes]]]:
        async with asking(self._client, f"XREVRANGE {key}"):
            # The client's types allow for the replies of other options too.
            return cast(
                list[tuple[bytes, dict[bytes, bytes]]], await self._client.xrevrange(key, count=limit)
            )


def _ended(asked: Actuation, end: Settlement, content: dict[bytes, bytes]) -> Actuation:
    """With its end, and how often it came to that."""
    actuation = settled(asked, end)
    if b"times" not in content:
        return actuation
    return replace(actuation, times=int(content[b"times"]), first_at_s=float(content[b"first_at_s"]))
