"""POST /v1/entries with a key of the request: one list, each change of which counts once."""

from typing import Any
from unittest.mock import AsyncMock

import pytest
from support.serving import served

from ledger.store.writes import Unknown
from ledger.writes.asked_parts import LISTED_MAX

TIMED = {"idempotency_key": "usage.log:4096"}
CHANGES = [{"counter": counter, "change": "2"} for counter in ("a", "b", "a")]


@pytest.mark.parametrize("is_in_body", [False, True])
async def test_a_list_is_written_once(*, is_in_body: bool) -> None:
    """201 for each change, and 200 for each when it is repeated, by the headers or the body."""
    async with served() as service:
        time = service.table.clock.now().isoformat()
        headers = {} if is_in_body else {**TIMED, "idempotency_time": time}
        named = {"key": TIMED["idempotency_key"], "at": time} if is_in_body else {}
        for status in (201, 200):
            answer = await service.post("/v1/entries", {"entries": CHANGES, **named}, **headers)
            assert answer.status_code == 200
            results = answer.json()["results"]
            assert [result["status"] for result in results] == [status] * 3
            assert [result["entry"]["id"][-4:] for result in results] == [".000", ".000", ".001"]
        assert (await service.value("a"), await service.value("b")) == ("4", "2")
        other = [{**change, "change": "3"} for change in CHANGES]
        answer = await service.post("/v1/entries", {"entries": other, **named}, **headers)
        assert (answer.status_code, answer.json()["type"]) == (409, "/problems/key-conflict")
        assert await service.value("a") == "4"


async def test_a_list_that_conflicts_in_one_counter_may_be_written_in_others() -> None:
    """So nobody is told that nothing was written, and makes the rest again."""
    async with served() as service:
        timed = {**TIMED, "idempotency_time": service.table.clock.now().isoformat()}
        await service.post("/v1/entries", {"entries": CHANGES[:1]}, **timed)
        other = [{"counter": counter, "change": "3"} for counter in ("a", "b")]
        answer = await service.post("/v1/entries", {"entries": other}, **timed)
        assert (answer.status_code, answer.json()["outcome"]) == (409, "unknown")
        assert (await service.value("a"), await service.value("b")) == ("2", "3")


@pytest.mark.parametrize(
    ("body", "headers", "detail"),
    [
        ({"entries": [{**CHANGES[0], "note": "n"}]}, TIMED, "an amount alone"),
        ({"entries": CHANGES, "together": True}, TIMED, "not written together"),
        ({"entries": CHANGES, "key": "k"}, TIMED, "send one"),
        ({"entries": CHANGES, "at": "now"}, {}, "give both, or neither"),
        ({"entries": CHANGES, "key": "k"}, {}, "needs at"),
    ],
)
async def test_what_breaks_a_rule_is_refused_as_a_whole(
    body: dict[str, Any], headers: dict[str, str], detail: str
) -> None:
    """Nothing of it is written."""
    async with served() as service:
        time = service.table.clock.now().isoformat()
        body = {**body, "at": time} if "at" in body else body
        headers = {**headers, "idempotency_time": time} if headers else {}
        answer = await service.post("/v1/entries", body, **headers)
        assert answer.status_code == 400
        assert detail in answer.json()["detail"]
        assert await service.value("a") == "0"


async def test_what_is_unknown_of_a_list_is_written_again_however_long_its_amounts_are() -> None:
    """An item of a list has a hundred, in as many write units as they take."""
    longest = f"-0.{'0' * 37}1"
    changes = [{"counter": "a", "change": longest}] * LISTED_MAX
    async with served(body_max=1_000_000) as service:
        time = service.table.clock.now().isoformat()
        store = type(service.table.store())
        with pytest.MonkeyPatch.context() as patch:
            unknown = AsyncMock(return_value=Unknown("lost"))
            patch.setattr(store, "write", unknown)
            answer = await service.post(
                "/v1/entries", {"entries": changes}, **TIMED, idempotency_time=time, Prefer="wait=1"
            )
        problem = answer.json()
        assert (answer.status_code, problem["outcome"]) == (503, "unknown")
        answer = await service.post("/v1/retries", {"entries": problem["entries"]})
        assert answer.status_code == 200, answer.text
        results = answer.json()["results"]
        assert [result["status"] for result in results] == [201] * LISTED_MAX
        assert await service.value("a") == f"-0.{'0' * 35}1"


@pytest.mark.parametrize("change", ["1e125", "1e-130", "1e38"])
async def test_no_repeat_brings_what_no_call_adds(change: str) -> None:
    """Its counter would have no total."""
    async with served() as service:
        entry = {"counter": "a", "id": "2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887", "key": "k"}
        answer = await service.post("/v1/retries", {"entries": [{**entry, "change": change}]})
        assert (answer.status_code, answer.json()["type"]) == (400, "/problems/invalid-amount")
