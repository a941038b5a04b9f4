"""`GET /v1/feed` over a ledger in memory."""

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from proof.simulator.loop import run
from support.serving import AWAY, served
from support.tokens import token_header

from ledger.core import amounts
from ledger.http.service.access.access import FileAccess
from ledger.http.service.context import Context
from ledger.http.wire import schemas
from ledger.reads.feed.cursors import Cursor, to_text
from ledger.reads.feed.selection import Filter
from ledger.testing import MemoryGlobalTable


def changes(page: schemas.FeedModel) -> list[tuple[str, str]]:
    """Return counter and change of each entry of a page."""
    return [(entry.counter, amounts.to_text(entry.change)) for entry in page.entries]


async def test_pages_follow_each_other_by_their_cursors() -> None:
    """Each entry is in one; asking again after a cursor returns the same."""
    async with served() as service:

        async def page(**asked: Any) -> schemas.FeedModel:
            answer = await service.http.get("/v1/feed", params=asked)
            assert answer.status_code == 200, answer.text
            return schemas.FeedModel(**answer.json())

        for change in ("1", "2", "3"):
            await service.record("a", change)
        await service.record("b", "4")
        first = await page(prefix="a", limit=2)
        assert (changes(first), first.more) == ([("a", "1"), ("a", "2")], True)
        for _ in range(2):
            second = await page(prefix="a", limit=2, after=first.next)
            assert (changes(second), second.more) == ([("a", "3")], False)
        assert changes(await page(counter=["b", "c"])) == [("b", "4")]
        later = service.table.clock.now().replace(year=2027).isoformat()
        assert changes(await page(since=later)) == []


async def test_a_cursor_of_another_prefix_is_a_400() -> None:
    """Which names both, since what only one of them wants would be skipped."""
    async with served() as service:
        await service.record("bar/a", "1")
        first = (await service.http.get("/v1/feed", params={"prefix": "bar/"})).json()
        for other in ({}, {"prefix": "shop/"}, {"prefix": "bar/a"}, {"counter": "bar/a"}):
            answer = await service.http.get("/v1/feed", params={**other, "after": first["next"]})
            assert answer.status_code == 400, answer.text
            detail = answer.json()["detail"]
            assert "'bar/'" in detail
            assert repr(other.get("prefix", "")) in detail


async def test_one_change_sent_to_two_regions_comes_once() -> None:
    """Under one key, before either try came to the other region."""
    table = MemoryGlobalTable(["us-east-1", AWAY])
    named = {
        "Idempotency_Key": "order-17",
        "Idempotency_Time": table.clock.now().isoformat(),
    }
    async with served(table) as home, served(table, region=AWAY) as away:
        for service in (home, away):
            assert (await service.record("dup", "1", **named)).status_code == 201
        table.replicate()
        for service in (home, away):
            page = schemas.FeedModel(**(await service.http.get("/v1/feed")).json())
            assert changes(page) == [("dup", "1")]


async def test_a_request_waits_for_an_entry() -> None:
    """And is answered as soon as there is one."""
    async with served() as service, anyio.create_task_group() as tasks:
        start = (await service.http.get("/v1/feed")).json()["next"]
        found: list[Any] = []

        async def wait() -> None:
            answer = await service.http.get("/v1/feed", params={"after": start, "wait": 60})
            found.append(answer.json())

        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert not found
        await service.record("a", "1")
        service.table.clock.pass_by(1)
        service.context.leave()  # in place of the second that a wait lasts
        with anyio.fail_after(5):
            while not found:
                await anyio.lowlevel.checkpoint()
        assert [entry["change"] for entry in found[0]["entries"]] == ["1"]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let time go by at once while requests wait; return for how long each has paused."""
    found: list[float] = []

    async def pause(_context: Context, seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr(Context, "pause", pause)
    monkeypatch.setattr(Context, "time", lambda _context: sum(found))
    return found


@pytest.mark.parametrize(
    ("wait", "prefer", "expected"),
    [
        (0, None, []),
        (2.5, None, [1, 1, 0.5]),
        (5, "wait=1", [0.9]),
        (2, "wait=50", [1, 1]),
        (0, "wait=50", []),
    ],
)
def test_a_request_waits_no_longer_than_either_bound(
    pauses: list[float], wait: float, prefer: str | None, expected: list[float]
) -> None:
    """`wait`, and the deadline of the request; each look but the first goes on from a cursor."""
    headers = {} if prefer is None else {"prefer": prefer}
    asked: dict[str, Any] = {"wait": wait, "since": "2026-11-21T06:50:00Z"}

    async def main() -> int:
        async with served() as service:
            answer = await service.http.get("/v1/feed", params=asked, headers=headers)
            return answer.status_code

    assert (run(main), pauses) == (200, expected)


async def test_looks_are_a_part_of_the_time_that_a_request_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 2 seconds 1.8 are for waiting; with looks that take 0.5 each there are two."""
    asked = list[float]()
    async with served() as service:
        clock, read = service.table.clock, service.ledger.feed_page

        async def pause(_context: Context, seconds: float) -> None:
            clock.pass_by(seconds)

        async def looked(*given: Any, **named: Any) -> Any:
            asked.append(clock.monotonic())
            clock.pass_by(0.5)
            return await read(*given, **named)

        monkeypatch.setattr(Context, "pause", pause)
        monkeypatch.setattr(Context, "time", lambda _context: clock.monotonic())
        monkeypatch.setattr(service.ledger, "feed_page", looked)
        answer = await service.http.get(
            "/v1/feed", params={"wait": 30}, headers={"prefer": "wait=2"}
        )
    assert (answer.status_code, asked) == (200, [0, 1.5])


async def test_a_last_look_that_takes_too_long_changes_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The caller gets the page before it, with its cursor."""
    async with served() as service:
        read, looks = service.ledger.feed_page, list[Any]()

        async def looked(*given: Any, **named: Any) -> Any:
            looks.append(given)
            if len(looks) > 1:
                await anyio.sleep_forever()
            return await read(*given, **named)

        monkeypatch.setattr(service.ledger, "feed_page", looked)
        answer = await service.http.get(
            "/v1/feed", params={"wait": 30}, headers={"prefer": "wait=1"}
        )
    assert (answer.status_code, answer.json()["entries"], len(looks)) == (200, [], 2)


@pytest.mark.parametrize(("rate", "looks"), [(0.5, 6), (1.0, 11), (None, 11)])
async def test_each_look_of_a_request_that_waits_counts_against_the_callers_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: float | None, looks: int
) -> None:
    """A second without one is waited for all the same, and no longer."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    headers = token_header(path, table, "read", rate=rate)
    async with served(table, access=FileAccess(path, table.clock)) as service:
        asked, read = list[float](), service.ledger.feed_page

        async def pause(_context: Context, seconds: float) -> None:
            table.clock.pass_by(seconds)

        async def looked(*given: Any, **named: Any) -> Any:
            asked.append(table.clock.monotonic())
            return await read(*given, **named)

        monkeypatch.setattr(Context, "pause", pause)
        monkeypatch.setattr(Context, "time", lambda _context: table.clock.monotonic())
        monkeypatch.setattr(service.ledger, "feed_page", looked)
        began = table.clock.monotonic()
        answer = await service.http.get("/v1/feed", params={"wait": 10}, headers=headers)
        assert (answer.status_code, answer.json()["entries"]) == (200, [])
        assert (len(asked), table.clock.monotonic() - began) == (looks, 10)


async def test_a_request_waits_no_more_once_the_instance_leaves(pauses: list[float]) -> None:
    """The client asks another one."""
    async with served() as service:
        service.context.leave()
        answer = await service.http.get("/v1/feed", params={"wait": 60})
    assert (answer.status_code, pauses) == (200, [])


@pytest.mark.parametrize("asked", [{"prefix": "shop/"}, {"counter": ["shop/a", "shop/b"]}])
async def test_what_a_token_no_longer_allows_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: dict[str, Any]
) -> None:
    """Where it changed while the request waited: for its counters."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    headers = token_header(path, table, "read", prefixes=["shop/"])
    access = FileAccess(path, table.clock)
    async with served(table, access=access) as service:

        async def pause(_context: Context, _seconds: float) -> None:
            path.write_text(path.read_text().replace('"shop/"', '"shop/a"'))
            await access.look_again()
            await service.ledger.record("shop/b", 4711)

        monkeypatch.setattr(Context, "pause", pause)
        answer = await service.http.get("/v1/feed", params={**asked, "wait": 1}, headers=headers)
    assert answer.status_code == 403, answer.text


async def test_what_merging_deleted_is_passed_all_the_same() -> None:
    """A region's feed has what arrived there, late or merged since."""
    table = MemoryGlobalTable(["us-east-1", AWAY], compactor={"fold_min": 1, "scan_every": 0})
    async with served(table) as home, served(table, region=AWAY) as away:
        start = (await away.http.get("/v1/feed")).json()["next"]
        await home.record("a", "1")
        await table.merge()
        assert (await away.http.get("/v1/counters/a/entries")).json()["entries"] == []
        page = (await away.http.get("/v1/feed", params={"after": start})).json()
        assert [entry["change"] for entry in page["entries"]] == ["1"]


async def test_a_cursor_that_is_too_old_is_a_410() -> None:
    """Or of another region; the problem says what to do."""
    table = MemoryGlobalTable(["us-east-1", AWAY])
    async with served(table) as home, served(table, region=AWAY) as away:
        await home.record("a", "1")
        start = (await home.http.get("/v1/feed")).json()["next"]
        answers = [await away.http.get("/v1/feed", params={"after": start})]
        stream = table._world.streams["us-east-1"]
        stream.roll(0)
        stream.roll(1)
        await table.pass_time(25 * 3600)
        answers.append(await home.http.get("/v1/feed", params={"after": start}))
        for answer in answers:
            assert (answer.status_code, answer.json()["type"]) == (410, "/problems/feed-behind")
            assert not answer.json()["retryable"]


@pytest.mark.parametrize(
    "asked",
    [
        {"after": "x"},
        {"after": "f1", "since": "2026-11-21T06:50:00Z"},
        {"since": "2026-11-21T06:50:00"},
        {"limit": 1001},
        {"wait": 61},
        {"prefix": "~"},
        {"counter": "~a"},
        {"since": "9999-12-31T23:59:59Z", "after": ""},
        {"since": "0001-01-01T00:00:00+14:00"},
        {"since": "9999-12-31T23:59:59-14:00"},
        *[
            {"after": to_text(cursor)}
            for cursor in (
                Cursor("x" * 10_000),
                Cursor("\ud800"),
                Cursor("us-east-1/memory", filter=Filter("\ud800")),
                Cursor("us-east-1/memory", filter=Filter("", "\udfff")),
                Cursor("us-east-1/memory", positions={"shardId-0": 10**50}),
            )
        ],
    ],
)
async def test_what_breaks_a_rule_is_a_400(asked: Any) -> None:
    """By its name."""
    async with served() as service:
        answer = await service.http.get("/v1/feed", params=asked)
        assert answer.status_code == 400, answer.text


async def test_a_token_reads_what_it_is_for(tmp_path: Path) -> None:
    """Its prefix, or counters that begin with it; without either nothing is told."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    reader = token_header(path, table, "read", prefixes=["shop/"])
    writer = token_header(path, table, "write", prefixes=["shop/"], name="writer")
    async with served(table, access=FileAccess(path, table.clock)) as service:

        async def status(headers: dict[str, str], **asked: Any) -> int:
            answer = await service.http.get("/v1/feed", params=asked, headers=headers)
            return answer.status_code

        assert await status(reader, prefix="shop/") == 200
        assert await status(reader, counter=["shop/a", "shop/b"]) == 200
        assert await status(reader) == 403
        assert await status(reader, prefix="sho") == 403
        assert await status(reader, prefix="shop/", counter=["other"]) == 403
        assert await status(writer, prefix="shop/") == 403
