"""Tokens of sequences by a counter item, and items put under the next number."""

from collections.abc import Sequence
from functools import partial

import pytest
from support.clients import together
from support.ledgers import HOME, make_services

from ledger.core.entry import Item
from ledger.core.errors import DamagedItem, InvalidEntry, InvalidInput, Throttled
from ledger.primitives.sequences import (
    NUMBER_MAX,
    CounterSequence,
    MaybeNumbered,
    NotNumbered,
    Numbered,
)
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.port import Store
from ledger.store.retry import Backoff
from ledger.store.wrappers.faults import (
    Fault,
    FaultyStore,
    InOrder,
    Late,
    Lost,
    NeverArrived,
    Raises,
)
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import Action, Outcome, Rejected, Unknown, Write
from ledger.testing.clock import START

COUNTER = ("~sequence~orders", "counter")
MARKER = ("~sequence~~number~order-17", "orders")
CONFLICT = NotNumbered("token conflict")


def sequence(
    store: Store, *, seed: int = 7, tries_max: int = 8, kept_seconds: float | None = None
) -> CounterSequence:
    """Return a client of the orders' sequence in a process of its own."""
    return CounterSequence(
        store,
        "orders",
        services=make_services(seed=seed),
        kept_seconds=kept_seconds,
        backoff=Backoff(tries_max=tries_max),
    )


def memory(table: MemoryTable) -> MemoryStore:
    """Return the table of one region."""
    return MemoryStore(HOME, table)


def faulty(table: MemoryTable, *faults: Fault | None) -> FaultyStore:
    """Return a store whose calls go wrong in this order."""
    return FaultyStore(memory(table), InOrder(*faults))


def order(number: int, how: str = "expedited") -> Item:
    """Return an order whose partition key is made of its number, which is an attribute too."""
    return {
        "pk": {"S": f"order-{number}"},
        "sk": {"S": "order"},
        "number": {"N": str(number)},
        "delivery": {"S": how},
    }


def orders(table: MemoryTable) -> list[int]:
    """Return the numbers of all orders that lie in the table."""
    return sorted(int(name[6:]) for name in table.partitions if name.startswith("order-"))


class Silent(ForwardingStore):
    """An engine that does not return the items which made conditions false."""

    async def write(self, write: Write) -> Outcome:
        """Write; of a refusal only the positions are returned."""
        return _without_items(await self._inner.write(write))

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction; as above."""
        return _without_items(await self._inner.transact(actions, token=token))


def _without_items(outcome: Outcome) -> Outcome:
    return (
        Rejected(found=dict.fromkeys(outcome.found)) if isinstance(outcome, Rejected) else outcome
    )


async def test_a_repeat_gets_the_number_given_before() -> None:
    """A process that restarts and asks again with its token gets its number, and leaves no gap."""
    table = MemoryTable()
    assert await sequence(memory(table)).next() == Numbered(1)
    for seed in (7, 8, 9):
        assert await sequence(memory(table), seed=seed).next(token="order-17") == Numbered(2)
    assert await sequence(memory(table)).next(token="order-18") == Numbered(3)


async def test_two_processes_with_one_token_get_one_number() -> None:
    """Both take a number; the marker decides whose is given, and the other is a gap."""
    table = MemoryTable()
    answers: list[object] = []
    late = faulty(table, None, None, Late())
    answers.append(await sequence(late, tries_max=1).next(token="order-17"))
    await together(
        [partial(_take, sequence(memory(table), seed=seed), answers) for seed in range(3)]
    )
    assert isinstance(await late.land(), Rejected)
    assert isinstance(answers[0], Unknown)
    assert answers[1:] == [Numbered(2)] * 3


async def _take(client: CounterSequence, answers: list[object]) -> None:
    answers.append(await client.next(token="order-17"))


@pytest.mark.parametrize("fault", [Lost(), NeverArrived(), Late()])
@pytest.mark.parametrize("store", [memory, lambda table: Silent(memory(table))])
async def test_an_unanswered_marker_is_put_again(fault: Fault, store: object) -> None:
    """Whatever became of the first try, the token has one number, and the caller gets it."""
    table = MemoryTable()
    behind: Store = store(table)  # type: ignore[operator]
    lossy = FaultyStore(behind, InOrder(None, None, fault))
    assert await sequence(lossy).next(token="order-17") == Numbered(1)
    while lossy.in_flight:
        await lossy.land()
    assert await sequence(behind).next(token="order-17") == Numbered(1)


async def test_a_number_whose_marker_could_not_be_put_is_a_gap() -> None:
    """After an error the token has no number yet; the next call takes another."""
    table = MemoryTable()
    with pytest.raises(Throttled):
        await sequence(faulty(table, None, None, Raises(Throttled("slow down")))).next(token="t")
    assert await sequence(memory(table)).next(token="t") == Numbered(2)


async def test_a_token_without_an_answer_is_asked_again() -> None:
    """`Unknown` for the number or its marker: the same token settles it."""
    table = MemoryTable()
    for faults in ([None, NeverArrived()], [None, None, Lost()]):
        client = sequence(faulty(table, *faults), tries_max=1)
        assert isinstance(await client.next(token="order-17"), Unknown)
    assert await sequence(memory(table)).next(token="order-17") == Numbered(1)


async def test_the_last_number_is_remembered_too() -> None:
    """At the end a repeat gets its number, and a new token the end."""
    table = MemoryTable()
    place = {"pk": {"S": COUNTER[0]}, "sk": {"S": COUNTER[1]}}
    table.set(COUNTER, {**place, "number": {"N": str(NUMBER_MAX - 1)}})
    client = sequence(memory(table))
    assert await client.next(token="order-17") == Numbered(NUMBER_MAX)
    assert await client.next(token="order-17") == Numbered(NUMBER_MAX)
    assert await client.next(token="order-18") == NotNumbered("exhausted")
    assert await client.put_next(order, token="order-18") == NotNumbered("exhausted")
    assert await client.put_next(order) == NotNumbered("exhausted")


@pytest.mark.parametrize(("kept", "expires"), [(None, None), (86_400.0, 86_400)])
async def test_a_marker_is_kept_for_good_or_as_long_as_was_asked(
    kept: float | None, expires: int | None
) -> None:
    """By default a marker has no end; with `kept_seconds` the time to live deletes it."""
    table = MemoryTable()
    await sequence(memory(table), kept_seconds=kept).next(token="order-17")
    found = (table.get(MARKER) or {}).get("~expires")
    assert found == (None if expires is None else {"N": str(int(START.timestamp()) + expires)})


@pytest.mark.parametrize("kept", [0, -1.0, float("nan"), float("inf"), True, "week", 4e9])
def test_how_long_a_marker_is_kept_has_bounds(kept: object) -> None:
    """What is no time up to a century is refused when the sequence is made."""
    with pytest.raises(InvalidInput, match="kept_seconds must be over 0 and at most"):
        sequence(MemoryStore(HOME), kept_seconds=kept)  # type: ignore[arg-type]


async def test_the_item_lies_under_its_number() -> None:
    """The number is part of the key, or an attribute, as the caller makes it."""
    table = MemoryTable()
    client = sequence(memory(table))
    assert await client.put_next(order) == Numbered(1)
    assert await client.put_next(order, token="order-17") == Numbered(2)
    assert [table.get((f"order-{number}", "order")) for number in (1, 2)] == [order(1), order(2)]


async def test_a_repeated_put_finds_its_item() -> None:
    """A restarted process with its token puts nothing again, also what was deleted since."""
    table = MemoryTable()
    for seed in (7, 8):
        client = sequence(memory(table), seed=seed)
        assert await client.put_next(order, token="order-17") == Numbered(1)
    assert orders(table) == [1]
    table.set(("order-1", "order"), None)
    assert await client.put_next(order, token="order-17") == Numbered(1)
    assert orders(table) == []


async def test_another_item_under_a_token_is_refused() -> None:
    """A token stands for its item: another is a conflict, and so is a bare number."""
    table = MemoryTable()
    client = sequence(memory(table))
    await client.put_next(order, token="order-17")
    other = await client.put_next(lambda number: order(number, "slow"), token="order-17")
    assert other == CONFLICT
    assert "has number 1" in str(other)
    assert await client.next(token="order-17") == CONFLICT
    assert orders(table) == [1]


@pytest.mark.parametrize("dies_at", [1, 2, 3])
async def test_a_crash_leaves_one_number_unused_at_most(dies_at: int) -> None:
    """Whichever request is the last of a process, its successor with the token puts one item.

    Between `ADD` and put the number is a gap; after the put there is none.
    """
    table = MemoryTable()

    def dies(_: object) -> Fault | None:
        return Raises(_DiedError("process")) if store.calls == dies_at else None

    store = FaultyStore(memory(table), dies)
    with pytest.raises(_DiedError):
        await sequence(store).put_next(order, token="order-17")
    expected = 2 if dies_at == 3 else 1
    assert await sequence(memory(table)).put_next(order, token="order-17") == Numbered(expected)
    assert orders(table) == [expected]


class _DiedError(Throttled):
    """Ends the process in the test."""


@pytest.mark.parametrize("fault", [Lost(), NeverArrived(), Late()])
@pytest.mark.parametrize("token", [None, "order-17"])
@pytest.mark.parametrize("is_silent", [False, True])
async def test_an_unanswered_put_is_repeated(
    fault: Fault, token: str | None, *, is_silent: bool
) -> None:
    """One item under one number, whatever became of the first try."""
    table = MemoryTable()
    behind: Store = Silent(memory(table)) if is_silent else memory(table)
    faults = [None, fault] if token is None else [None, None, fault]
    store = FaultyStore(behind, InOrder(*faults))
    assert await sequence(store).put_next(order, token=token) == Numbered(1)
    while store.in_flight:
        await store.land()
    assert orders(table) == [1]


@pytest.mark.parametrize("token", [None, "order-17"])
async def test_what_stayed_open_is_resumed(token: str | None) -> None:
    """`MaybeNumbered` goes on under its number, or by its token, and puts one item."""
    table = MemoryTable()
    faults = [None, Late()] if token is None else [None, None, Late()]
    store = faulty(table, *faults)
    maybe = await sequence(store, tries_max=1).put_next(order, token=token)
    assert isinstance(maybe, MaybeNumbered)
    assert (maybe.number, maybe.is_callers) == (1, token is not None)
    await store.land()
    client = sequence(memory(table), seed=8)
    assert await client.put_next(order, token=token, resume=maybe) == Numbered(1)
    assert await client.put_next(order, resume=maybe) == Numbered(1)
    assert orders(table) == [1]


async def test_twins_with_one_token_put_one_item() -> None:
    """A transaction that lands after its twin's is refused by the marker, with its item."""
    table = MemoryTable()
    late = faulty(table, None, None, Late())
    assert isinstance(
        await sequence(late, tries_max=1).put_next(order, token="order-17"), MaybeNumbered
    )
    twin = sequence(memory(table), seed=8)
    assert await twin.put_next(order, token="order-17") == Numbered(2)
    assert isinstance(await late.land(), Rejected)
    assert orders(table) == [2]


@pytest.mark.parametrize("token", [None, "order-17"])
async def test_a_place_that_is_not_free_is_left_alone(token: str | None) -> None:
    """Another item where this one was to be is never replaced; the number stays unused."""
    table = MemoryTable()
    table.set(("order-1", "order"), order(1, "of another"))
    client = sequence(memory(table))
    outcome = await client.put_next(order, token=token)
    assert outcome == NotNumbered("occupied")
    assert "'order-1', 'order'; number 1 stays unused" in str(outcome)
    assert table.get(("order-1", "order")) == order(1, "of another")
    assert await client.put_next(order, token=token) == Numbered(2)


@pytest.mark.parametrize("token", [None, "order-17"])
async def test_an_equal_item_of_another_is_another(token: str | None) -> None:
    """Where every request was answered, an item that is there cannot be this call's."""
    table = MemoryTable()
    table.set(("order-1", "order"), order(1))
    assert await sequence(memory(table)).put_next(order, token=token) == NotNumbered("occupied")


@pytest.mark.parametrize("is_silent", [False, True])
async def test_a_rivals_item_is_not_taken_for_one_that_was_lost(*, is_silent: bool) -> None:
    """After an unanswered put, in the call or before it, another item there means occupied."""
    table = MemoryTable()
    behind: Store = Silent(memory(table)) if is_silent else memory(table)
    lossy = FaultyStore(behind, InOrder(None, NeverArrived()))
    maybe = await sequence(lossy, tries_max=1).put_next(order)
    assert isinstance(maybe, MaybeNumbered)
    table.set(("order-1", "order"), order(1, "of another"))
    resumed = await sequence(behind).put_next(order, resume=maybe)
    assert resumed == NotNumbered("occupied")


@pytest.mark.parametrize("token", ["", "x" * 1025, 7])
async def test_a_token_follows_the_rule_of_tokens(token: object) -> None:
    """What is no token of a counter is none here, and nothing is sent."""
    store = faulty(MemoryTable())
    for call in (sequence(store).next, partial(sequence(store).put_next, order)):
        with pytest.raises(InvalidEntry, match="token"):
            await call(token=token)  # type: ignore[arg-type]
    assert store.calls == 0


async def test_what_is_no_call_is_refused() -> None:
    """An item in place of a function, or another call's `MaybeNumbered`, is an error of ours."""
    client = sequence(MemoryStore(HOME))
    with pytest.raises(InvalidInput, match="make must be a function"):
        await client.put_next(order(1))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="must be a MaybeNumbered"):
        await client.put_next(order, resume=Numbered(1))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="with token 'order-17', got another"):
        await client.put_next(order, token="order-17", resume=MaybeNumbered(1, "", "x"))
    with pytest.raises(InvalidInput, match="string 'sk'"):
        await client.put_next(lambda _: {"pk": {"S": "order-1"}})


@pytest.mark.parametrize("number", [{"N": "0"}, {"N": "1.5"}, {"S": "1"}])
async def test_a_damaged_marker_is_said_to_be(number: Item) -> None:
    """A marker without a whole number is damage, and no number is made up for it."""
    table = MemoryTable()
    client = sequence(memory(table))
    await client.next(token="order-17")
    table.set(MARKER, {**(table.get(MARKER) or {}), "number": number})
    with pytest.raises(DamagedItem):
        await client.next(token="order-17")
