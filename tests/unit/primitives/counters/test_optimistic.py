from decimal import Decimal

import pytest
from support.counting import Interrupted, known_counter, make_counter

from ledger.core.entry import AttributeValue, Item
from ledger.core.errors import DamagedItem, Throttled
from ledger.primitives.counters.optimistic import START, TAGS_MAX, Tagged, judge, tagged_of
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get
from ledger.store.wrappers.faults import (
    FaultyStore,
    InOrder,
    Late,
    Lost,
    NeverArrived,
    Raises,
    Slow,
)
from ledger.store.writes import Applied, Outcome, Put, Rejected, Unknown, Write
from ledger.testing.clock import ManualClock

LOST_WHILE = Slow(after_seconds=1, then=Lost())
NEVER_WHILE = Slow(after_seconds=1, then=NeverArrived())


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [
        (["a"], ["mine", "a"], "applied"),
        (["a"], ["c", "b", "mine"], "applied"),  # others have written since
        (["a"], ["a"], "unchanged"),
        ([START], [START], "unchanged"),  # there was no item, and there is none
        (["a", "z"], ["b", "a", "z"], "overtaken"),  # anyone who came after a, it was not we
        ([START], ["b", START], "overtaken"),
        (["a"], ["c", "b"], "ambiguous"),
        (["a"], ["b"], "ambiguous"),  # one tag only: the plain optimistic counter
    ],
)
def test_what_became_of_a_write(before: list[str], now: list[str], verdict: str) -> None:
    """The tags before and now tell what became of our write."""
    zero = Decimal(0)
    assert judge(Tagged(zero, (*before,)), Tagged(zero, (*now,)), "mine") == verdict


def test_tags_are_read_with_their_tokens() -> None:
    """A writer's tag is followed by its token, where it had one."""
    item: dict[str, AttributeValue] = {
        "pk": {"S": "p"},
        "sk": {"S": "s"},
        "entityTag": {"S": "n1#order#17"},
        "recent": {"L": [{"S": "n2"}]},
    }
    found = tagged_of(item, Decimal(0))
    assert found.tags == ("n1#order#17", "n2")
    assert found.knows("order#17")
    assert not found.knows("17")
    assert not found.knows("n2")


@pytest.mark.parametrize("method", ["optimistic", "history"])
async def test_an_item_without_a_tag_is_taken_over(method: str) -> None:
    """A value that another tool left is counted on, by the first write that finds it unchanged."""
    store = MemoryStore("us-east-1")
    counter = make_counter(method, store)
    partition, sort_key = counter.key(0)
    item = {"pk": {"S": partition}, "sk": {"S": sort_key}, "value": {"N": "5"}}
    await store.write(Put(item))
    assert await counter.value() == 5
    assert await counter.add(1) == Applied(value=Decimal(6))
    assert await make_counter(method, store).add(1, token="t") == Applied(value=Decimal(7))
    assert await counter.add(1, token="t") == Rejected("applied before")


@pytest.mark.parametrize("fault", [LOST_WHILE, NEVER_WHILE], ids=["lost", "never arrived"])
async def test_a_value_without_a_tag_that_others_change_is_ambiguous(fault: Slow) -> None:
    """While another tool writes without tags, no answer to the first write leaves it unknown."""
    inner = MemoryStore("us-east-1")
    key = known_counter("optimistic", inner).key(0)
    item = {"pk": {"S": key[0]}, "sk": {"S": key[1]}}
    await inner.write(Put({**item, "value": {"N": "5"}}))

    async def act() -> None:
        await inner.write(Put({**item, "value": {"N": "9"}}))

    store = FaultyStore(inner, InOrder(None, fault), clock=Interrupted(act))
    outcome = await known_counter("optimistic", store).add(1)
    assert isinstance(outcome, Unknown)


async def test_a_damaged_tag_is_an_error() -> None:
    """A tag that is no text is not overwritten."""
    store = MemoryStore("us-east-1")
    counter = known_counter("optimistic", store)
    partition, sort_key = counter.key(0)
    await store.write(Put({"pk": {"S": partition}, "sk": {"S": sort_key}, "entityTag": {"N": "5"}}))
    with pytest.raises(DamagedItem, match="entityTag"):
        await counter.add(1)


async def interrupted(method: str, fault: Slow, others: int) -> tuple[object, int]:
    """Add 1000 under a fault while others add 1 so many times; returns outcome and value."""
    inner = MemoryStore("us-east-1")
    other = known_counter(method, inner)
    await other.add(100)

    async def act() -> None:
        for _ in range(others):
            await other.add(1)

    store = FaultyStore(inner, InOrder(None, fault), clock=Interrupted(act))
    outcome = await known_counter(method, store).add(1000)
    return outcome, int(await other.value())


@pytest.mark.parametrize("fault", [LOST_WHILE, NEVER_WHILE], ids=["lost", "never arrived"])
async def test_a_third_writer_makes_it_ambiguous(fault: Slow) -> None:
    """With one tag a single write of another hides whether ours was applied: Unknown, once."""
    outcome, value = await interrupted("optimistic", fault, others=1)
    assert isinstance(outcome, Unknown)
    assert "outcome cannot be determined" in outcome.cause
    assert value == (1101 if fault is LOST_WHILE else 101)


@pytest.mark.parametrize("fault", [LOST_WHILE, NEVER_WHILE], ids=["lost", "never arrived"])
async def test_the_history_tells(fault: Slow) -> None:
    """As long as the tag is not pushed out, history tells whether ours was applied; then again."""
    outcome, value = await interrupted("history", fault, others=TAGS_MAX - 1)
    assert isinstance(outcome, Applied)
    assert value == 1100 + TAGS_MAX - 1


@pytest.mark.parametrize("fault", [LOST_WHILE, NEVER_WHILE], ids=["lost", "never arrived"])
async def test_a_history_shorter_than_the_writers_is_ambiguous(fault: Slow) -> None:
    """The mutant: with as many other writers as tags, ours is pushed out."""
    outcome, value = await interrupted("history", fault, others=TAGS_MAX)
    assert isinstance(outcome, Unknown)
    assert value == (1100 if fault is LOST_WHILE else 100) + TAGS_MAX


async def test_a_late_write_changes_nothing_any_more() -> None:
    """What lands after its repeat was applied meets another tag: counted once."""
    inner = MemoryStore("us-east-1")
    store = FaultyStore(inner, InOrder(None, Late()), clock=ManualClock(instant=True))
    counter = known_counter("optimistic", store)
    assert await counter.add(5) == Applied(value=Decimal(5))
    await store.land()
    assert await counter.value() == 5


@pytest.mark.parametrize("method", ["optimistic", "history"])
async def test_a_token_is_known_while_its_tag_is(method: str) -> None:
    """The same token changes nothing until its tag is pushed out; then it counts again."""
    counter = known_counter(method, MemoryStore("us-east-1"))
    others = 1 if method == "optimistic" else TAGS_MAX
    await counter.add(1, token="t")
    for _ in range(others - 1):
        await counter.add(1)
    assert await counter.add(1, token="t") == Rejected("applied before")
    await counter.add(1)
    assert isinstance(await counter.add(1, token="t"), Applied)
    assert await counter.value() == others + 2


async def test_an_error_before_anything_was_sent_is_raised() -> None:
    """Throttled at once, nothing was written; throttled after a lost answer, no one knows."""
    inner = MemoryStore("us-east-1")
    slow = Raises(Throttled("slow down"))
    store = FaultyStore(inner, InOrder(None, slow), clock=ManualClock(instant=True))
    with pytest.raises(Throttled):
        await known_counter("optimistic", store).add(1)
    assert await known_counter("optimistic", inner).value() == 0
    store = FaultyStore(inner, InOrder(None, Lost(), *[slow] * 20), clock=ManualClock(instant=True))
    outcome = await known_counter("optimistic", store).add(1, token="t")
    assert outcome == Unknown("injected: Lost()", "t")
    assert await known_counter("optimistic", inner).add(1, token="t") == Rejected("applied before")


async def test_whoever_loses_every_race_is_told() -> None:
    """After so many lost races the change is rejected, surely not counted."""
    inner = MemoryStore("us-east-1")
    other = known_counter("optimistic", inner)

    class Ahead(MemoryStore):
        async def get(self, get: Get) -> Item | None:
            item = await super().get(get)
            await other.add(1)
            return item

        async def write(self, write: Write) -> Outcome:
            outcome = await super().write(write)
            await other.add(1)  # before the next try
            return outcome

    counter = known_counter("optimistic", Ahead("us-east-1", inner.table))
    outcome = await counter.add(1000)
    assert outcome == Rejected("contention", f"others were first {counter.backoff.tries_max} times")
    assert await other.value() == counter.backoff.tries_max + 1
