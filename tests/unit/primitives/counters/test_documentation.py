import re
from collections.abc import Iterator
from decimal import Decimal
from importlib.resources import files
from typing import get_args

import pytest
from support.counting import known_counter
from support.ledgers import HOME

from ledger.core.capacity import item_size
from ledger.core.entry import entry_id, entry_item
from ledger.core.values import Entry
from ledger.primitives.counters import METHODS, MethodName
from ledger.settings import Settings
from ledger.settings.fields import AWS_SIGNATURE_SECONDS
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Late, NeverArrived
from ledger.store.writes import Rejected, Unknown
from ledger.testing.clock import START, ManualClock

READ_UNIT_BYTES = 4096

PAGE = (files("ledger") / "docs/reference/methods.md").read_text(encoding="utf-8")
CHOICE = (files("ledger") / "docs/howto/choose-a-method.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_on_the_pages(method: str) -> None:
    """In the table of the how-to, and under a heading of the reference; shards have theirs."""
    assert re.search(rf"^\|.*`{method}`.*\|$", CHOICE, re.MULTILINE)
    assert re.search(rf"^## .*`{method.removesuffix('-sharded')}`", PAGE, re.MULTILINE)


def test_every_method_is_a_name_for_type_checkers() -> None:
    """Each of the registry, and no other."""
    named = {name for union in get_args(MethodName) for name in get_args(union) or [union]}
    assert named == set(METHODS)


@pytest.mark.parametrize("method", ["marker", "client-token"])
async def test_a_threshold_says_nothing_of_an_unknown_before_it(method: str) -> None:
    """It cannot be known across calls, so guarantees and page say until when it may land."""
    inner = MemoryStore(HOME)
    faults: Iterator[Fault] = iter([Late(), *[NeverArrived()] * 4])

    def decide(call: FaultCall) -> Fault | None:
        return next(faults, None) if call.operation == "transact" else None

    store = FaultyStore(inner, decide, clock=ManualClock(instant=True))
    counter = known_counter(method, store, minimum=0)
    await known_counter(method, inner).add(5)
    assert isinstance(await counter.add(-5, token="t"), Unknown)
    other = known_counter(method, inner, minimum=0)
    await other.add(-1)
    assert await counter.add(-5, token="t") == Rejected("threshold", "minimum 0")
    await other.add(1)
    await store.land()
    assert await other.value() == 0
    until = f"until its signature has expired, {AWS_SIGNATURE_SECONDS / 60:.0f} minutes"
    assert until in counter.guarantees.unknown
    assert "still on its way" in counter.guarantees.tokens
    assert until in " ".join(PAGE.split())


def test_the_figures_about_random_sort_keys_follow_from_entries_and_settings() -> None:
    """Size of an entry, read units of a fold in order of time, and of all that is not settled."""
    settings = Settings(regions={HOME: {}})
    entry = Entry("customer1-balance", str(entry_id(START, 2**63)), Decimal(3), "eu-west-1")
    size = item_size(entry_item(entry))
    young = 1_000 * settings.settle
    in_order = settings.compactor.fold_max * size / READ_UNIT_BYTES
    in_none = young * size / READ_UNIT_BYTES
    assert f"{young / 1e6:.1f} million young entries of {size} bytes" in PAGE
    assert f"a fold of {settings.compactor.fold_max:,} takes: {in_order:.0f} read units" in PAGE
    assert f"{in_none:,.0f} units a region and visit" in PAGE
