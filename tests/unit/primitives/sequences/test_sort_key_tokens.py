"""Tokens of sequences by sort keys: a repeat gets the numbers that were given before."""

from collections.abc import Sequence
from functools import partial

import pytest
from support.clients import together
from support.ledgers import HOME, make_services

from ledger.core.entry import Item
from ledger.core.errors import DamagedItem, InvalidEntry, InvalidInput, Unreachable
from ledger.primitives.sequences import (
    NUMBER_MAX,
    MaybeNumbered,
    NotNumbered,
    Numbered,
    SortKeySequence,
    sort_key_of,
)
from ledger.primitives.sequences.sort_key_sequence import AppendOptions
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
from ledger.store.writes import Action, Outcome, Rejected

PARTITION = "~sequence~project"
MARKER = ("~sequence~~item~order-17", "project")
CONTENT: Item = {"title": {"S": "a ticket"}}
OTHER: Item = {"title": {"S": "another"}}
CONFLICT = NotNumbered("token conflict")


def sequence(store: Store, *, seed: int = 7, tries_max: int = 8) -> SortKeySequence:
    """Return a client of the project's tickets in a process of its own."""
    return SortKeySequence(
        store,
        "project",
        services=make_services(seed=seed),
        options=AppendOptions(backoff=Backoff(tries_max=tries_max)),
    )


def faulty(table: MemoryTable, *faults: Fault | None) -> FaultyStore:
    """Return a store whose calls go wrong in this order."""
    return FaultyStore(MemoryStore(HOME, table), InOrder(*faults))


def shown(table: MemoryTable) -> list[int]:
    """Return the numbers of all items."""
    return [int(key) for key in sorted(table.partitions.get(PARTITION, {}))]


async def test_without_a_token_a_restarted_caller_gets_a_second_number() -> None:
    """What a token is for: the same order appended again after a crash has two numbers."""
    table = MemoryTable()
    assert await sequence(MemoryStore(HOME, table)).append(CONTENT) == Numbered(1)
    assert await sequence(MemoryStore(HOME, table), seed=8).append(CONTENT) == Numbered(2)


async def test_a_repeat_gets_the_number_given_before() -> None:
    """A process that crashed after its put appends again with its token: one item, one number."""
    table = MemoryTable()
    await sequence(MemoryStore(HOME, table)).append(OTHER)
    for seed in (7, 8, 9):
        restarted = sequence(MemoryStore(HOME, table), seed=seed)
        assert await restarted.append(CONTENT, token="order-17") == Numbered(2)
    assert shown(table) == [1, 2]


async def test_a_repeat_is_recognized_long_after() -> None:
    """Others' items since, and edits of its own, do not make a repeat another call."""
    table = MemoryTable()
    client = sequence(MemoryStore(HOME, table))
    assert await client.append(CONTENT, token="order-17") == Numbered(1)
    for _ in range(5):
        await client.append(OTHER)
    key = (PARTITION, sort_key_of(1))
    table.set(key, {**(table.get(key) or {}), "title": {"S": "edited"}})
    assert await client.append(CONTENT, token="order-17") == Numbered(1)
    assert shown(table) == [1, 2, 3, 4, 5, 6]


async def test_other_content_under_a_token_is_refused() -> None:
    """A token stands for its content: another is a conflict, and nothing is written."""
    table = MemoryTable()
    client = sequence(MemoryStore(HOME, table))
    await client.append(CONTENT, token="order-17")
    outcome = await client.append(OTHER, token="order-17")
    assert outcome == CONFLICT
    assert "'order-17' stands for other content, which has number 1" in str(outcome)
    assert await client.append_many([CONTENT, CONTENT], token="order-17") == CONFLICT
    assert shown(table) == [1]


async def test_a_token_is_of_one_sequence() -> None:
    """Another project takes the same token for itself; markers have partitions of their own."""
    store = MemoryStore(HOME)
    await sequence(store).append(CONTENT, token="order-17")
    other = SortKeySequence(store, "other", services=make_services())
    assert await other.append(OTHER, token="order-17") == Numbered(1)
    await other.append(OTHER, token="order-18")
    assert sorted(store.table.partitions) == [
        "~sequence~other",
        "~sequence~project",
        "~sequence~~item~order-17",
        "~sequence~~item~order-18",
    ]


async def test_two_processes_with_one_token_get_one_number() -> None:
    """Both offer at once: one transaction is applied, and both get its number."""
    table = MemoryTable()
    answers: list[object] = []

    async def work(seed: int) -> None:
        client = sequence(MemoryStore(HOME, table), seed=seed)
        answers.append(await client.append(CONTENT, token="order-17"))

    await together([partial(work, seed) for seed in range(5)])
    assert answers == [Numbered(1)] * 5
    assert shown(table) == [1]


async def test_a_process_behind_its_twin_is_told_the_twins_number() -> None:
    """The token decides also where the two offered different numbers."""
    table = MemoryTable()
    late = faulty(table, None, Late(), None, Late())
    maybe = await sequence(late, tries_max=2).append(CONTENT, token="order-17")
    assert maybe == MaybeNumbered(
        1, "order-17", str(getattr(maybe, "cause", "")), 1, is_callers=True
    )
    await sequence(MemoryStore(HOME, table)).append(OTHER)
    twin = sequence(MemoryStore(HOME, table))
    assert await twin.append(CONTENT, token="order-17") == Numbered(2)
    while late.in_flight:
        assert isinstance(await late.land(), Rejected)
    assert shown(table) == [1, 2]


@pytest.mark.parametrize("fault", [Lost(), NeverArrived(), Late()])
async def test_an_unanswered_transaction_is_settled_by_reading(fault: Fault) -> None:
    """One item and one number, whether the transaction was applied, lost, or lands later."""
    store = faulty(table := MemoryTable(), None, fault)
    assert await sequence(store).append(CONTENT, token="order-17") == Numbered(1)
    while store.in_flight:
        await store.land()
    assert shown(table) == [1]
    assert await sequence(store, seed=8).append(CONTENT, token="order-17") == Numbered(1)


async def test_what_stayed_open_is_settled_by_the_token_alone() -> None:
    """A new process needs no `MaybeNumbered`: the same token finds what landed meanwhile."""
    store = faulty(table := MemoryTable(), None, Late())
    outcome = await sequence(store, tries_max=1).append(CONTENT, token="order-17")
    assert isinstance(outcome, MaybeNumbered)
    await store.land()
    assert await sequence(store, seed=8).append(CONTENT, token="order-17") == Numbered(1)
    assert await sequence(store, seed=9).append(CONTENT, resume=outcome) == Numbered(1)
    assert shown(table) == [1]


async def test_the_last_number_is_remembered_too() -> None:
    """Where no number is left a repeat still gets its own, and a new token the end."""
    table = MemoryTable()
    place = {"pk": {"S": PARTITION}, "sk": {"S": sort_key_of(NUMBER_MAX - 1)}}
    table.set((PARTITION, sort_key_of(NUMBER_MAX - 1)), place)
    client = sequence(MemoryStore(HOME, table))
    assert await client.append(CONTENT, token="order-17") == Numbered(NUMBER_MAX)
    assert await client.append(CONTENT, token="order-17") == Numbered(NUMBER_MAX)
    assert await client.append(CONTENT, token="order-18") == NotNumbered("exhausted")
    assert await client.append_many([CONTENT] * 2, token="order-17") == CONFLICT


async def test_several_share_a_token() -> None:
    """A token of `append_many` stands for all of its contents in their order."""
    table = MemoryTable()
    client = sequence(MemoryStore(HOME, table))
    assert await client.append_many([CONTENT, OTHER], token="order-17") == Numbered(1, 2)
    assert await client.append_many([CONTENT, OTHER], token="order-17") == Numbered(1, 2)
    assert await client.append_many([OTHER, CONTENT], token="order-17") == CONFLICT
    assert shown(table) == [1, 2]


class Silent(ForwardingStore):
    """An engine that does not return the items which made conditions false."""

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction; of a refusal only the positions are returned."""
        outcome = await self._inner.transact(actions, token=token)
        return (
            Rejected(found=dict.fromkeys(outcome.found))
            if isinstance(outcome, Rejected)
            else outcome
        )


async def test_an_engine_that_returns_no_items_is_asked() -> None:
    """A refusal without items is settled by reads: a repeat, a conflict and a lost race alike."""
    table = MemoryTable()
    client = sequence(Silent(MemoryStore(HOME, table)))
    assert await client.append(CONTENT, token="order-17") == Numbered(1)
    assert await client.append(CONTENT, token="order-17") == Numbered(1)
    assert await client.append(OTHER, token="order-17") == CONFLICT
    assert await client.append_many([CONTENT] * 3) == Numbered(2, 3)


async def test_an_error_while_a_transaction_is_open_is_no_end() -> None:
    """After an unanswered transaction errors leave the outcome open, never raise."""
    store = faulty(MemoryTable(), None, NeverArrived(), Raises(Unreachable("no connection")))
    outcome = await sequence(store, tries_max=1).append(CONTENT, token="order-17")
    assert isinstance(outcome, MaybeNumbered)
    assert outcome.is_callers
    assert "no connection" in outcome.cause


@pytest.mark.parametrize("token", ["", "x" * 1025, 7])
async def test_a_token_follows_the_rule_of_tokens(token: object) -> None:
    """What is no token of a counter is none here, and nothing is sent."""
    store = faulty(MemoryTable())
    with pytest.raises(InvalidEntry, match="token"):
        await sequence(store).append(CONTENT, token=token)  # type: ignore[arg-type]
    assert store.calls == 0


@pytest.mark.parametrize(
    ("resume", "count", "message"),
    [
        (Numbered(1), 1, "must be a MaybeNumbered"),
        (MaybeNumbered(1, "t", "x", count=2), 1, "2 of them, got 1"),
        (MaybeNumbered(1, "nonce", "x"), 1, "of a call with token 'order-17'"),
        (MaybeNumbered(1, "order-18", "x", is_callers=True), 1, "of a call with token 'order-17'"),
    ],
)
async def test_a_call_resumes_none_but_its_own(resume: object, count: int, message: str) -> None:
    """Another count of contents, or another token, cannot be the call that is resumed."""
    client = sequence(MemoryStore(HOME))
    with pytest.raises(InvalidInput, match=message):
        await client.append_many([CONTENT] * count, token="order-17", resume=resume)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [{"N": "0"}, {"N": "1.5"}, {"S": "1"}])
async def test_a_damaged_marker_is_said_to_be(number: Item) -> None:
    """A marker without a whole number is damage, and no number is made up for it."""
    table = MemoryTable()
    client = sequence(MemoryStore(HOME, table))
    await client.append(CONTENT, token="order-17")
    table.set(MARKER, {**(table.get(MARKER) or {}), "number": number})
    with pytest.raises(DamagedItem):
        await client.append(CONTENT, token="order-17")
