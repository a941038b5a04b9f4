"""Bad input of the methods beside the ledger: refused by name before anything is sent."""

from decimal import Decimal
from typing import Any

import pytest
from support.ledgers import HOME, make_settings, seeded

from ledger.core.errors import (
    AmountOverflow,
    InvalidAmount,
    InvalidCounter,
    InvalidInput,
    LedgerError,
)
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.store.memory import MemoryStore
from ledger.table import Table

SURROGATE = "\ud800"  # no text of UTF-8


def opened() -> Table:
    """Return a table in memory, to be opened."""
    return Table(
        make_settings(),
        region=HOME,
        given=GivenConnections(store=MemoryStore(HOME)),
        services=Services.of(randomness=seeded()),
    )


@pytest.mark.parametrize("method", ["counter", "sort-key"])
@pytest.mark.parametrize("name", ["", "~x", "a\tb", 7])
async def test_a_sequence_is_called_by_its_name(method: Any, name: Any) -> None:
    """What is wrong is its name; no counter is spoken of."""
    async with opened() as table:
        with pytest.raises(InvalidCounter, match=r"^name of a sequence must"):
            table.sequence(name, method=method)


@pytest.mark.parametrize("method", ["atomic", "marker-sharded", "slots"])
@pytest.mark.parametrize(
    ("bound", "error"),
    [(10**38 + 1, AmountOverflow), (Decimal("1E-200"), AmountOverflow), (1.5, InvalidAmount)],
)
@pytest.mark.parametrize("name", ["minimum", "maximum"])
async def test_a_bound_that_is_no_amount_is_named(
    name: str, bound: Any, error: type[LedgerError], method: Any
) -> None:
    """It says which of the two does not fit, and why."""
    async with opened() as table:
        with pytest.raises(error, match=rf"^{name}: amount must"):
            table.counter("stock", method=method, **{name: bound})


@pytest.mark.parametrize("region", ["", "x", SURROGATE, 7, [], "us_east_1"])
async def test_a_counter_is_handed_over_to_a_region(region: Any) -> None:
    """What no region is called could never write it again, and none such was lost."""
    async with opened() as table:
        counter = table.counter("stock", method="atomic")
        await counter.add(1)
        for call in (counter.hand_over(region), counter.hand_over(HOME, lost=region)):
            with pytest.raises(InvalidInput, match=r"^region must be a name such as eu-west-1"):
                await call
        await counter.add(1)


@pytest.mark.parametrize("content", [{"a": {"S": SURROGATE}}, {SURROGATE: {"S": "a"}}])
@pytest.mark.parametrize("nested", [False, True])
async def test_content_is_text_of_utf8(content: Any, nested: bool) -> None:  # noqa: FBT001
    """DynamoDB stores no other; names are meant as well as values, at every depth."""
    async with opened() as table:
        given = {"m": {"M": content}} if nested else content
        tickets = table.sequence("tickets", method="sort-key")
        with pytest.raises(InvalidInput, match=r"^content must map names to attribute values"):
            await tickets.append(given)
        with pytest.raises(InvalidInput, match=r"^content must map names to attribute values"):
            await tickets.append_many([given], token="t")


@pytest.mark.parametrize("method", ["condition", "lock"])
@pytest.mark.parametrize("event", [None, "a", ("a", 1)])
async def test_dead_letters_are_of_events(method: Any, event: Any) -> None:
    """To find, count or release one takes an event."""
    async with opened() as table:
        letters = table.versions(method=method, failures_max=2).dead_letters
        for call in (letters.find(event), letters.failed(event, "why"), letters.release(event)):
            with pytest.raises(InvalidInput, match=r"^event must be an Event"):
                await call


async def test_a_lease_has_terms() -> None:
    """Terms in another form are refused at once, not when the lease is taken."""
    async with opened() as table:
        terms: Any = {"lease_seconds": 30}
        with pytest.raises(InvalidInput, match=r"^terms of a lease must be LeaseTerms"):
            table.lease("job", terms=terms)
        with pytest.raises(InvalidInput, match=r"^terms of a lease must be LeaseTerms"):
            table.versions(method="lock", terms=terms)


@pytest.mark.parametrize("actions", [None, 7, "put", [None], [{"Put": {}}]])
async def test_a_lease_takes_actions(actions: Any) -> None:
    """What is no list of actions is refused; the lease is kept."""
    async with opened() as table:
        lease = table.lease("job")
        async with lease.held():
            with pytest.raises(InvalidInput, match=r"^actions must be a list of actions"):
                await lease.transact(actions)
            lease.check()
