"""The examples of budgets: small costs, calls and writes that fail."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.tutorials import KEY, calling, program, spent

from ledger.budgets.budget import Hold
from ledger.core.errors import OutcomeUnknown
from ledger.testing import MemoryGlobalTable

GATEWAY = "ledger/docs/howto/hold-an-amount.md"
API = "ledger/docs/howto/limit-spending.md"


@asynccontextmanager
async def opened(
    folder: Path, limit: int | Decimal, **options: Decimal
) -> AsyncIterator[tuple[dict[str, Any], Any]]:
    """Open a gateway for a key with this limit; with what its page defines."""
    page = program(GATEWAY, folder)
    async with MemoryGlobalTable(budgets={"key/*": {}}).table() as table:
        await table.budget("key/42").create(limit)
        yield page, page["BudgetStore"](table, **options)


async def test_calls_of_less_than_a_cent_are_not_free(tmp_path: Path) -> None:
    """Each is charged as it cost; the limit holds for them, too."""
    async with opened(tmp_path, Decimal("0.05"), estimate=Decimal("0.0049")) as (page, gateway):
        call = calling(page, gateway)
        made = sum([await call(f"call-{n}", 0.0049) for n in range(20)])
        assert (made, await spent(gateway.table)) == (10, Decimal("0.049"))
        assert not gateway.held


async def test_a_cost_is_rounded_up(tmp_path: Path) -> None:
    """To a millionth."""
    async with opened(tmp_path, 10) as (page, gateway):
        await page["call"](gateway, "call", 1.2e-8)
        assert await spent(gateway.table) == Decimal("0.000001")


async def test_a_settlement_without_an_answer_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway keeps the hold until it is settled."""
    async with opened(tmp_path, 10) as (_, gateway):
        data = await gateway.async_pre_call_hook(KEY, None, {"litellm_call_id": "1"}, "completion")
        done = {**data, "response_cost": 0.25}
        with monkeypatch.context() as patched:
            patched.setattr(Hold, "settle", unanswered)
            with pytest.raises(OutcomeUnknown):
                await gateway.async_log_success_event(done, None, None, None)
        assert await spent(gateway.table) == gateway.estimate
        await gateway.async_log_success_event(done, None, None, None)
        assert await spent(gateway.table) == Decimal("0.25")


async def test_a_caller_s_key_is_no_way_past_the_limit(tmp_path: Path) -> None:
    """What was charged before is not done again for nothing; a key that is none is the caller's."""
    page = program(API, tmp_path)
    world = MemoryGlobalTable(budgets={"key/*": {}})
    async with world.table() as table:
        page["app"].state.table = table
        await table.budget("key/42").create(9)
        answers = httpx.ASGITransport(page["app"])
        async with httpx.AsyncClient(transport=answers, base_url="http://api") as http:

            async def status(path: str, key: str | None = None) -> int:
                headers = {} if key is None else {"Idempotency-Key": key}
                return (await http.post(path, headers=headers)).status_code

            at = int(world.clock.now().timestamp() * 1000)
            made = str(uuid.UUID(int=at << 80 | 7 << 76 | 2 << 62 | 5))
            assert [await status("/42/embeddings", made) for _ in range(3)] == [200, 409, 409]
            assert await spent(table) == 1
            for key in ("foo", "", str(uuid.UUID(int=(at - 10**7) << 80 | 7 << 76 | 2 << 62 | 5))):
                assert await status("/42/embeddings", key) == 400
            assert await status("/43/embeddings") == 403


async def unanswered(*_: object, **__: object) -> None:
    """Settle without an answer."""
    raise OutcomeUnknown("no answer", entries=[], retryable=True)
