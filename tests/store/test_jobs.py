"""Definitions of jobs: compare-and-set, on every store alike; tombstones, and what cannot be read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from services.access.role import Role
from services.access.token import Token
from services.clock import SystemClock
from services.controller.book import JobBook
from services.settings import JobSettings
from services.settings.root import RedisSettings
from services.store.backup import Backup, read_backup, restore_backup
from services.store.connect import connect
from services.store.errors import StateCorrupt
from services.store.job_record import JobExists, JobRecord, NoSuchJob, StaleVersion
from services.store.jobs import ABSENT, JobStore, MemoryJobs, RedisJobs, Trace, stored_job
from services.store.keys import Keys
from services.store.tokens import MemoryTokens, RedisTokens, TokenStore

KEYS = Keys("penstock")


def a_record(name: str = "clicks", **settings: object) -> JobRecord:
    return JobRecord(name=name, settings=JobSettings.model_validate({"topic": name, **settings}))


@pytest.fixture(params=["memory", "redis"])
async def jobs(request: pytest.FixtureRequest) -> AsyncIterator[JobStore]:
    if request.param == "memory":
        yield MemoryJobs()
        return
    async with connect(RedisSettings(url=request.getfixturevalue("redis_url"))) as client:
        yield RedisJobs(client, KEYS)


async def test_a_record_comes_back_as_it_was_stored(jobs: JobStore) -> None:
    stored = await jobs.put(a_record(slo={"fresh_within_s": 0.1}), expected=ABSENT)

    assert (await jobs.every()) == {"clicks": stored}
    assert stored.version > 0


@pytest.mark.parametrize("scaling", [{}, {"rate_per_worker": 1000.0}])
async def test_whether_somebody_gave_a_rate_is_not_forgotten(
    jobs: JobStore, scaling: dict[str, float]
) -> None:
    """Where nobody did, a job starts from what others of its group were like."""
    record = await jobs.put(a_record(scaling={"workers_max": 9, **scaling}), expected=ABSENT)
    saved = Backup(made_at_s=0.0, jobs=(record,), tokens=())
    restored = Backup.model_validate_json(saved.model_dump_json()).jobs[0]

    for found in ((await jobs.every())["clicks"], restored):
        assert isinstance(found, JobRecord)
        assert ("rate_per_worker" in found.settings.scaling.model_fields_set) == bool(scaling)
        assert found.settings.scaling.workers_max == 9


async def test_every_change_gets_a_version_of_its_own_and_is_noticed(jobs: JobStore) -> None:
    before = await jobs.version()
    first = await jobs.put(a_record("a"), expected=ABSENT)
    between = await jobs.version()
    second = await jobs.put(a_record("b"), expected=ABSENT)
    third = await jobs.put(first, expected=first.version)

    assert len({first.version, second.version, third.version}) == 3
    assert before < between < await jobs.version()


async def test_what_is_not_as_expected_is_refused_and_changes_nothing(jobs: JobStore) -> None:
    stored = await jobs.put(a_record(), expected=ABSENT)

    with pytest.raises(JobExists):
        await jobs.put(a_record(), expected=ABSENT)
    with pytest.raises(StaleVersion) as stale:
        await jobs.put(a_record(), expected=stored.version + 1)
    with pytest.raises(NoSuchJob):
        await jobs.put(a_record("other"), expected=stored.version)

    assert stale.value.found == stored.version
    assert await jobs.every() == {"clicks": stored}


async def test_of_many_who_expect_the_same_version_one_wins(jobs: JobStore) -> None:
    stored = await jobs.put(a_record(), expected=ABSENT)

    async def change(number: int) -> int:
        wanted = a_record(slo={"fresh_within_s": number + 1})
        try:
            return (await jobs.put(wanted, expected=stored.version)).version
        except StaleVersion:
            return 0

    won = [version for version in await asyncio.gather(*map(change, range(20))) if version]

    assert len(won) == 1


async def test_audit_entry_and_event_come_with_the_change_or_not_at_all(redis_url: str) -> None:
    async with connect(RedisSettings(url=redis_url)) as client:
        jobs = RedisJobs(client, KEYS)
        stored = await jobs.put(a_record(), expected=ABSENT, trace=Trace(b"{}", b"{}"))
        with pytest.raises(StaleVersion):
            await jobs.put(stored, expected=stored.version + 5, trace=Trace(b"{}", b"{}"))

        assert await client.xlen(KEYS.audit()) == 1
        assert await client.xlen(KEYS.events()) == 1


async def test_a_record_that_cannot_be_read_does_not_hide_the_others(redis_url: str) -> None:
    async with connect(RedisSettings(url=redis_url)) as client:
        jobs = RedisJobs(client, KEYS)
        await jobs.put(a_record("good"), expected=ABSENT)
        await client.hset(KEYS.jobs(), "bad", b'{"version": 3, "v": 99}')
        book = JobBook(jobs, {}, SystemClock())
        await book.open()

        assert isinstance((await jobs.every())["bad"], StateCorrupt)
        assert set(book.live) == {"good"}
        assert "bad" in book.unreadable


async def test_what_a_newer_release_added_to_a_job_is_passed_over(redis_url: str) -> None:
    """docs/store.md promises that one can go back a release."""
    document = json.loads(a_record(slo={"fresh_within_s": 7}).written())
    document["mood"] = document["settings"]["mood"] = document["settings"]["slo"]["mood"] = "good"
    async with connect(RedisSettings(url=redis_url)) as client:
        await client.hset(KEYS.jobs(), "clicks", json.dumps(document))
        read = (await RedisJobs(client, KEYS).every())["clicks"]

    assert read == a_record(slo={"fresh_within_s": 7})


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b'{"v": 2, "definition": {}}', "has format 2.*upgrade this Penstock"),
        (b'{"v": 1, "name": "clicks", "settings": {"topic": "cli', "backup restore --replace"),
        (b'{"v": 1, "name": "clicks", "settings": {"topic": "c", "slo": {"fresh_within_s": NaN}}}', "finite"),
    ],
    ids=["newer", "half", "NaN"],
)
def test_a_job_that_cannot_be_read_says_what_to_do(raw: bytes, told: str) -> None:
    with pytest.raises(StateCorrupt, match=told):
        JobRecord.read(raw, key="clicks")


async def test_a_field_whose_name_is_no_text_does_not_hide_the_others(redis_url: str) -> None:
    async with connect(RedisSettings(url=redis_url)) as client:
        jobs = RedisJobs(client, KEYS)
        stored = await jobs.put(a_record("good"), expected=ABSENT)
        await client.hset(KEYS.jobs(), b"\xff", b"?")
        found = await jobs.every()

    assert found["good"] == stored
    assert isinstance(found["\\xff"], StateCorrupt)


async def test_a_store_that_lost_its_data_is_written_again(redis_url: str) -> None:
    async with connect(RedisSettings(url=redis_url)) as client:
        book = JobBook(RedisJobs(client, KEYS), {"clicks": JobSettings(topic="clicks")}, SystemClock())
        await book.open()
        await client.flushdb()
        await book.refresh()

        assert set(await book.store.every()) == {"clicks"}


async def test_two_controllers_that_start_at_once_seed_each_job_once(redis_url: str) -> None:
    async with connect(RedisSettings(url=redis_url)) as client:
        seeds = {f"job-{n}": JobSettings(topic=f"t{n}") for n in range(5)}
        books = [JobBook(RedisJobs(client, KEYS), seeds, SystemClock()) for _ in range(4)]
        await asyncio.gather(*(book.open() for book in books))

        assert await client.xlen(KEYS.audit()) == 5
        assert all(book.live == books[0].live for book in books)


async def test_a_worker_reads_its_job_from_the_store(redis_url: str) -> None:
    settings = RedisSettings(url=redis_url)
    async with connect(settings) as client:
        jobs = RedisJobs(client, KEYS)
        stored = await jobs.put(a_record(worker={"batch": 7}), expected=ABSENT)
        found = stored_job(settings, "clicks")
        await jobs.put(stored.model_copy(update={"deleted": True}), expected=stored.version)

        assert found is not None
        assert found.worker.batch == 7
        assert stored_job(settings, "clicks") is None
        assert stored_job(settings, "other") is None


@pytest.fixture(params=["memory", "redis"])
async def tokens(request: pytest.FixtureRequest) -> AsyncIterator[TokenStore]:
    if request.param == "memory":
        yield MemoryTokens()
        return
    async with connect(RedisSettings(url=request.getfixturevalue("redis_url"))) as client:
        yield RedisTokens(client, KEYS)


async def test_tokens_are_kept_found_and_revoked(tokens: TokenStore) -> None:
    assert not await tokens.exist()
    token, _ = Token.mint(name="ann", role=Role.OPERATOR, now_s=1.0, jobs=("clicks",))
    await tokens.keep(token, audit=b"{}")

    assert await tokens.exist()
    assert await tokens.find(token.id) == token
    assert await tokens.every() == (token,)
    assert await tokens.revoke(token.id, audit=b"{}")
    assert not await tokens.revoke(token.id, audit=b"{}")
    assert await tokens.find(token.id) is None


async def test_jobs_and_tokens_are_saved_and_restored(redis_url: str) -> None:
    async with connect(RedisSettings(url=redis_url)) as client:
        saved_token = await _filled(client)
        saved = await read_backup(client, KEYS)
        await client.flushdb()
        done = await restore_backup(client, KEYS, saved, by="test", replace=False)
        again = await restore_backup(client, KEYS, saved, by="test", replace=False)
        record = (await RedisJobs(client, KEYS).every())["clicks"]

        assert done == ["job clicks", f"token ann ({saved_token.id})"]
        assert again == []
        assert isinstance(record, JobRecord)
        assert record.settings.slo.fresh_within_s == 7
        assert await RedisTokens(client, KEYS).find(saved_token.id) == saved_token


async def test_a_job_that_cannot_be_read_is_replaced_by_the_one_saved(redis_url: str) -> None:
    async with connect(RedisSettings(url=redis_url)) as client:
        await _filled(client)
        saved = await read_backup(client, KEYS)
        await client.hset(KEYS.jobs(), "clicks", b'{"v": 1, "name": "cli')
        kept = await restore_backup(client, KEYS, saved, by="test", replace=False)
        done = await restore_backup(client, KEYS, saved, by="test", replace=True)
        record = (await RedisJobs(client, KEYS).every())["clicks"]

        assert (kept, done) == ([], ["job clicks"])
        assert isinstance(record, JobRecord)
        assert record.settings.slo.fresh_within_s == 7


async def _filled(client: Redis) -> Token:
    jobs = RedisJobs(client, KEYS)
    await jobs.put(a_record(slo={"fresh_within_s": 7}), expected=ABSENT)
    gone = await jobs.put(a_record("gone"), expected=ABSENT)
    await jobs.put(gone.model_copy(update={"deleted": True}), expected=gone.version)
    token, _ = Token.mint(name="ann", role=Role.ADMIN, now_s=1.0)
    await RedisTokens(client, KEYS).keep(token, audit=b"{}")
    return token
