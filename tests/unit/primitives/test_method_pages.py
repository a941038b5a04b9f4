"""The pages of the other methods: their examples run as they are written."""

import ast
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from support.ledgers import InstantClock, seeded

from ledger.core.entry import Item
from ledger.primitives.versions import Handled, Skipped, version_of
from ledger.runtime.clock import SystemClock, system_random
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get
from ledger.store.writes import Action, Put

HOME = "us-east-1"


async def run(module: str, **names: Any) -> Mapping[str, Any]:
    """Run every example of a module's page, one after the other; return the names that they left.

    What an example does not import must be in `names`, or in an example before it.
    """
    page = (files(module) / "README.md").read_text(encoding="utf-8")
    known: dict[str, Any] = {"clock": InstantClock(), "randomness": seeded(1), **names}
    examples = re.findall(r"^```python\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    assert examples
    for example in examples:
        code = compile(example, f"{module}/README.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        running = eval(code, known)  # noqa: S307 (our own page)
        if running is not None:
            await running
    return known


async def test_the_page_of_sequences() -> None:
    """A number of the counter, and an item under a number of its own."""
    store = MemoryStore(HOME)
    left = await run("ledger.primitives.sequences", store=store)
    assert left["number"] == 1
    assert await left["tickets"].read(1) == {"title": {"S": "It is slow"}}


async def test_the_page_of_versions() -> None:
    """A record put, an event with its actions, and one by the lock with a mail."""
    store, mails = MemoryStore(HOME), list[object]()

    async def send_mail(event: object) -> None:
        mails.append(event)

    left = await run(
        "ledger.primitives.versions", store=store, clock=SystemClock(), send_mail=send_mail
    )
    assert len(mails) == 1
    assert version_of(await store.get(Get(("record~customer-7", "address")))) == 4
    assert left["outcomes"] == [Handled(4), Skipped(3, 4)]


async def test_the_page_of_leases() -> None:
    """Work done part by part under a lease, from where the holder before it stopped."""
    store, done = MemoryStore(HOME), list[int]()

    def writes_of(part: int) -> list[Action]:
        done.append(part)
        item: Item = {"pk": {"S": "report"}, "sk": {"S": str(part)}}
        return [Put(item)]

    names = {"host": "here", "writes_of": writes_of, "PARTS": 3, "clock": SystemClock()}
    names["randomness"] = system_random()  # the second holder must not draw the same
    for _ in range(2):
        await run("ledger.primitives.leases", store=store, **names)
    assert done == [0, 1, 2]
