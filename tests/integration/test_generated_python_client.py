"""A client that openapi-python-client makes of the OpenAPI document is whole, and works."""

import json
import os
import sys
from pathlib import Path
from textwrap import dedent

import anyio
import httpx
import pytest
from support import needs
from support.serving import served
from support.sockets import listening

from ledger.testing import MemoryGlobalTable

PROGRAM = dedent(
    '''
    """What a program does with the service by the generated client: it prints what it saw."""

    import json
    import sys

    from ledger_client import AuthenticatedClient
    from ledger_client.api.budgets import (
        create_v1_budgets_counter_put as create_budget,
        hold_v1_budgets_counter_holds_post as hold,
        settle_v1_holds_hold_settle_post as settle,
        spend_v1_budgets_counter_spends_post as spend,
    )
    from ledger_client.api.reading import total_v1_counters_counter_get as total
    from ledger_client.api.writing import record_v1_counters_counter_entries_post as record
    from ledger_client.models import (
        BudgetBody, Entry, EntryBody, HoldBody, Problem, SettleBody, SpendBody, Total,
    )

    url, now = sys.argv[1:]
    client = AuthenticatedClient(base_url=url, token="any")
    seen: dict[str, object] = {}


    def shown(answer: object) -> object:
        return answer.change if isinstance(answer, Entry) else getattr(answer, "type_", answer)


    for change in ("2.50", "2.5", "3"):
        answer = record.sync_detailed(
            "shop/größe 42",
            client=client,
            body=EntryBody(change=change, note="from Python"),
            idempotency_key="order-17",
            idempotency_time=now,
            prefer="wait=20",
        )
        seen[f"record {change}"] = [int(answer.status_code), shown(answer.parsed)]

    found = total.sync("shop/größe 42", client=client, max_age=0.0)
    assert isinstance(found, Total)
    seen["total"] = found.value

    create_budget.sync("key/42", client=client, body=BudgetBody(limit="5"))
    for amount in ("4", "2"):
        answer = spend.sync_detailed("key/42", client=client, body=SpendBody(amount=amount))
        seen[f"spend {amount}"] = [int(answer.status_code), shown(answer.parsed)]
    held = hold.sync(
        "key/42",
        client=client,
        body=HoldBody(amount="1", expires=600.0),
        idempotency_key="hold-1",
        idempotency_time=now,
    )
    assert isinstance(held, Entry), held
    came_to = SettleBody(counter=held.counter, actual="0.5")
    settled = settle.sync(held.id, client=client, body=came_to)
    seen["hold"] = [held.change, shown(settled)]
    print(json.dumps(seen))
    '''
)


async def _run(*command: str, folder: Path) -> str:
    done = await anyio.run_process(command, check=False, cwd=folder)
    output = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0, output
    return done.stdout.decode()


@pytest.mark.tools("python_client", "mypy")
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_generated_python_client_is_whole_and_works(tmp_path: Path) -> None:
    """No operation is left out; what uses it is right by its types; each write is made, once."""
    generator = needs.python_client()
    table = MemoryGlobalTable(budgets={"*": {}})
    (tmp_path / "main.py").write_text(PROGRAM, encoding="utf-8")
    async with served(table) as service, listening(service.app) as url:
        async with httpx.AsyncClient(base_url=url) as http:
            (tmp_path / "openapi.json").write_bytes((await http.get("/openapi.json")).content)
        tools = os.pathsep.join([str(generator.parent), os.environ["PATH"]])
        await _run(
            "env", f"PATH={tools}", str(generator), "generate", "--path", "openapi.json",
            "--output-path", "ledger_client", "--meta", "none", "--fail-on-warning",
            folder=tmp_path,
        )  # fmt: skip
        python = str(generator.parent / "python")
        await _run(python, "-m", "compileall", "-q", "ledger_client", folder=tmp_path)
        typed = ("--strict", "--follow-imports=silent", "main.py")
        await _run(sys.executable, "-m", "mypy", *typed, folder=tmp_path)
        now = table.clock.now().isoformat()
        seen = json.loads(await _run(python, "main.py", url, now, folder=tmp_path))
    assert seen == {
        "record 2.50": [201, "2.5"],
        "record 2.5": [200, "2.5"],
        "record 3": [409, "/problems/key-conflict"],
        "total": "2.5",
        "spend 4": [201, "-4"],
        "spend 2": [409, "/problems/budget-exceeded"],
        "hold": ["-1", "-0.5"],
    }
