"""Failed handlings counted in the table by all processes; past the bound an event is set aside."""

from functools import partial

import pytest
from support.clients import together
from support.guarding import SUBJECT, Handling, Noting, condition_guard, event, lock_guard
from support.ledgers import AWAY, HOME

from ledger.core.entry import Item
from ledger.core.errors import (
    DamagedItem,
    InvalidInput,
    LeaseLost,
    LedgerError,
    RequestRefused,
    Throttled,
    Unreachable,
)
from ledger.primitives.leases.lease import Lease
from ledger.primitives.versions import (
    ConditionGuard,
    DeadLetter,
    Event,
    Handled,
    LockLost,
    Refused,
    Skipped,
)
from ledger.primitives.versions.failure_items import COUNT_SECONDS, failures_key, partitions
from ledger.store.conditions import Absent
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import (
    Fault,
    FaultCall,
    FaultyStore,
    InOrder,
    Late,
    Lost,
    NeverArrived,
    Raises,
)
from ledger.store.writes import Action, Outcome, Put, Write
from ledger.testing.clock import START

POISON = Event(SUBJECT, 3, body=b"what is to be handled")
THERE: Item = {"pk": {"S": "customer"}, "sk": {"S": "7"}}


async def fails(event: Event, _: Lease) -> list[Action]:
    """Fail as the same event always does."""
    raise LookupError(f"no city in\nversion {event.version}")


async def listed(guard: ConditionGuard) -> list[DeadLetter]:
    """Return all dead letters."""
    return [letter async for letter in guard.dead_letters.letters()]


async def test_the_third_failure_is_a_dead_letter_and_is_handled_no_more() -> None:
    """Two deliveries raise, the third is a dead letter with causes, the fourth is not handled."""
    store, handler = Noting(), Handling()
    for _ in range(2):
        with pytest.raises(LookupError):
            await lock_guard(store, failures_max=3).handle(POISON, fails)
    letter = await lock_guard(store, failures_max=3).handle(POISON, fails)
    cause = "LookupError: no city in version 3"
    assert letter == DeadLetter(POISON, 3, (cause,) * 3, START, START)
    assert await lock_guard(store, failures_max=3).handle(POISON, handler) == letter
    assert handler.versions == []


async def test_a_dead_letter_is_listed_and_released_with_its_event() -> None:
    """The list has the event and its body; once released it is handled, with a count from 0."""
    store = Noting()
    guard = lock_guard(store, failures_max=1)
    assert isinstance(await guard.handle(POISON, fails), DeadLetter)
    (letter,) = [one async for one in guard.dead_letters.letters()]
    assert letter.event.body == b"what is to be handled"
    assert await guard.dead_letters.find(Event(SUBJECT, 3)) == letter
    assert await guard.dead_letters.release(letter.event)
    assert not await guard.dead_letters.release(letter.event)
    assert await guard.dead_letters.find(POISON) is None
    assert await guard.handle(letter.event, Handling()) == Handled(3)
    assert [one async for one in guard.dead_letters.letters()] == []


async def test_a_dead_letter_keeps_back_no_other_version() -> None:
    """Older and newer versions and other kinds are handled; released later it is old."""
    guard = lock_guard(Noting(), failures_max=1)
    assert isinstance(await guard.handle(POISON, fails), DeadLetter)
    assert await guard.handle(event(2), Handling()) == Handled(2)
    assert await guard.handle(event(3, "address"), Handling()) == Handled(3)
    assert await guard.handle(event(4), Handling()) == Handled(4)
    assert await guard.dead_letters.release(POISON)
    assert await guard.handle(POISON, Handling()) == Skipped(3, 4)


async def test_processes_at_once_lose_no_failure() -> None:
    """Of ten processes that fail at once each is counted, and the dead letter has all causes."""
    store = Noting()
    guards = [condition_guard(store, failures_max=10) for _ in range(10)]
    await together([partial(guard.dead_letters.failed, POISON, "why") for guard in guards])
    (letter,) = await listed(guards[0])
    assert (letter.failures, len(letter.causes)) == (10, 10)


class Unconditional(Noting):
    """A broken store for counts: it puts them whatever another has put meanwhile."""

    async def write(self, write: Write) -> Outcome:
        """Do one write without its condition."""
        return await super().write(
            write._replace(condition=None) if isinstance(write, Put) else write
        )


async def test_mutant_counted_without_the_condition_failures_are_lost() -> None:
    """The same ten, each putting its count over the others', leave fewer than ten."""
    store = Unconditional()
    guards = [condition_guard(store, failures_max=10) for _ in range(10)]
    await together([partial(guard.dead_letters.failed, POISON, "why") for guard in guards])
    assert await listed(guards[0]) == []


@pytest.mark.parametrize("fault", [Lost(), NeverArrived(), Late()])
async def test_an_unanswered_count_is_counted_once(fault: Fault) -> None:
    """A count without an answer is repeated, and recognized by its id if it was there."""
    store = FaultyStore(MemoryStore(HOME), InOrder(None, fault))
    letters = condition_guard(store, failures_max=2).dead_letters
    assert await letters.failed(POISON, "first") is None
    while store.in_flight:
        await store.land()
    letter = await letters.failed(POISON, "second")
    assert letter is not None
    assert (letter.failures, letter.causes) == (2, ("first", "second"))


@pytest.mark.parametrize("fault", [Lost(), NeverArrived(), Late()])
async def test_an_unanswered_release_never_releases_what_failed_again(fault: Fault) -> None:
    """A release that lands late finds another latest failure, and leaves the new dead letter."""
    store = FaultyStore(MemoryStore(HOME), InOrder(None, None, None, fault))
    letters = condition_guard(store, failures_max=1).dead_letters
    await letters.failed(POISON, "first")
    assert await letters.release(POISON)
    again = await letters.failed(POISON, "second")
    while store.in_flight:
        await store.land()
    assert await letters.find(POISON) == again is not None


async def test_a_release_without_any_answer_is_not_known() -> None:
    """It says False, and repeated it finds nothing to release."""
    store = FaultyStore(MemoryStore(HOME), InOrder(None, None, None, Lost(), Lost()))
    letters = condition_guard(store, failures_max=1, tries_max=2).dead_letters
    await letters.failed(POISON, "first")
    assert not await letters.release(POISON)
    assert not await letters.release(POISON)
    assert await letters.find(POISON) is None


async def test_a_count_expires_and_a_dead_letter_does_not() -> None:
    """A count has `~expires`, 14 days after the last failure; a dead letter waits for a release."""
    store = MemoryStore(HOME)
    letters = condition_guard(store, failures_max=2).dead_letters
    await letters.failed(POISON, "first")
    item = store.table.get(failures_key(POISON))
    assert item is not None
    assert int(item["~expires"]["N"]) == START.timestamp() + COUNT_SECONDS
    await letters.failed(POISON, "second")
    assert "~expires" not in (store.table.get(failures_key(POISON)) or {})


async def test_the_last_ten_causes_are_kept_each_a_short_line() -> None:
    """Of twelve failures the last ten are kept, in one line of at most 500 characters."""
    letters = condition_guard(MemoryStore(HOME), failures_max=12).dead_letters
    for number in range(11):
        await letters.failed(POISON, f"{number}\n{'x' * 1000}")
    letter = await letters.failed(POISON, ValueError("the last"))
    assert letter is not None
    assert letter.failures == 12
    assert [cause[:2] for cause in letter.causes[:2]] == ["2 ", "3 "]
    assert letter.causes[-1] == "ValueError: the last"
    assert max(map(len, letter.causes)) == 500


async def test_by_condition_what_can_never_be_written_is_counted() -> None:
    """A condition of its own that stays false, and a request that is refused, are failures."""
    store = MemoryStore(HOME)
    store.table.set(("customer", "7"), THERE)
    guard = condition_guard(store, failures_max=2)
    actions = [Put(THERE, Absent())]
    assert await guard.handle(event(1), actions) == Refused({0: THERE})
    letter = await guard.handle(event(1), actions)
    assert isinstance(letter, DeadLetter)
    assert letter.causes[0] == "refused: the condition of its action 0 was false"
    large = Put({**THERE, "content": {"B": bytes(400 * 1024)}})
    with pytest.raises(RequestRefused):
        await guard.handle(event(2), [large])
    assert isinstance(await guard.handle(event(2), [large]), DeadLetter)
    assert [letter.event.version for letter in await listed(guard)] == [1, 2]


async def test_what_is_not_the_events_fault_is_not_counted() -> None:
    """A lock that is lost and a table that is throttled say nothing about the event."""
    store = Noting()

    async def loses(_: Event, __: Lease) -> list[Action]:
        raise LeaseLost("another has it")

    async def throttled(_: Event, __: Lease) -> list[Action]:
        raise Throttled("slow down")

    guard = lock_guard(store, failures_max=1)
    assert await guard.handle(POISON, loses) == LockLost("another has it")
    with pytest.raises(Throttled):
        await guard.handle(POISON, throttled)
    assert await guard.handle(POISON, Handling()) == Handled(3)
    assert not any(partition in store.table.partitions for partition in partitions())


async def test_without_failures_max_nothing_is_counted_or_looked_for() -> None:
    """A guard that counts no failures makes no request for it."""
    store = Noting()
    with pytest.raises(LookupError):
        await lock_guard(store).handle(POISON, fails)
    assert not {place for _, place in store.calls} & set(partitions())


async def test_a_failure_that_cannot_be_counted_is_raised_with_a_note() -> None:
    """The handler's own error is what is raised; that it was not counted is its note."""

    def down(call: FaultCall) -> Fault | None:
        return Raises(Throttled("slow down")) if call.number > 6 else None

    store = FaultyStore(MemoryStore(HOME), down)
    with pytest.raises(LookupError) as raised:
        await lock_guard(store, failures_max=1).handle(POISON, fails)
    assert raised.value.__notes__ == ["slow down"]


async def test_a_count_without_any_answer_is_an_error_of_ours() -> None:
    """Neither counted nor not: the caller of `failed` learns it as `Unreachable`."""
    store = FaultyStore(MemoryStore(HOME), InOrder(None, Lost(), Lost()))
    letters = condition_guard(store, tries_max=2).dead_letters
    with pytest.raises(Unreachable, match="may not be counted"):
        await letters.failed(POISON, "why")


async def test_a_damaged_count_is_named() -> None:
    """An item among the failures that is none of ours raises `DamagedItem`, whatever it lacks."""
    store = MemoryStore(HOME)
    letters = condition_guard(store, failures_max=1).dead_letters
    await letters.failed(POISON, "why")
    key = failures_key(POISON)
    item = dict(store.table.get(key) or {})
    for name in ("subject", "version", "failures", "causes", "ids", "since", "dead", "latest"):
        store.table.set(key, {other: item[other] for other in item if other != name})
        with pytest.raises(DamagedItem, match="failures"):
            await letters.find(POISON)
    store.table.set(key, {**item, "since": {"S": "yesterday"}})
    with pytest.raises(LedgerError):
        await letters.find(POISON)


async def test_bounds_and_bodies_that_are_none_are_refused() -> None:
    """`failures_max` is a whole number from 1; a body is bytes, up to what an item has room for."""
    for failures_max in (0, -1, 1.5, "3", True):
        with pytest.raises(InvalidInput, match="failures_max must be a whole number from 1"):
            condition_guard(MemoryStore(HOME), failures_max=failures_max)
    for body in ("text", bytearray(3), bytes(350 * 1024 + 1)):
        with pytest.raises(InvalidInput, match="body must"):
            Event(SUBJECT, 1, body=body)  # type: ignore[arg-type]


async def test_the_largest_event_has_a_dead_letter() -> None:
    """With the longest subject, kind, version, body and causes the item is below 400 KB."""
    letters = condition_guard(MemoryStore(HOME), failures_max=10).dead_letters
    largest = Event("s" * 1024, 10**38 - 1, "k" * 1024, body=bytes(350 * 1024))
    for _ in range(9):
        await letters.failed(largest, "\U0001f642" * 1000)
    letter = await letters.failed(largest, "\U0001f642" * 1000)
    assert letter is not None
    assert await letters.find(largest) == letter


async def test_a_count_below_the_bound_is_not_released() -> None:
    """Only a dead letter is released: a count goes on where it was."""
    letters = condition_guard(MemoryStore(HOME), failures_max=2).dead_letters
    assert await letters.failed(POISON, "first") is None
    assert not await letters.release(POISON)
    letter = await letters.failed(POISON, "second")
    assert letter is not None
    assert letter.failures == 2


async def test_a_dead_letter_is_counted_no_further() -> None:
    """A failure that was under way when another made the dead letter leaves it as it is."""
    letters = condition_guard(MemoryStore(HOME), failures_max=1).dead_letters
    letter = await letters.failed(POISON, "first")
    assert await letters.failed(POISON, "second") == letter


async def test_an_event_is_kept_whole_and_apart_from_all_others() -> None:
    """What deletes still does; texts that run into each other have keys of their own."""
    letters = condition_guard(MemoryStore(HOME), failures_max=1).dead_letters
    deletes = event(7, deletes=True)
    letter = await letters.failed(deletes, "why")
    assert letter is not None
    assert await letters.find(event(7)) == letter
    found = await letters.find(deletes)
    assert found is not None
    assert found.event == deletes
    alike = [Event("ab", 1, "c"), Event("a", 1, "bc"), Event("a", 11, "b"), Event("a", 1, "b1")]
    assert len({failures_key(one)[1] for one in alike}) == len(alike)


async def test_of_two_releases_at_once_one_released_it() -> None:
    """The other one finds nothing to release."""
    store = Noting()
    guards = [condition_guard(store, failures_max=1) for _ in range(2)]
    await guards[0].dead_letters.failed(POISON, "why")
    ends: list[bool] = []

    async def release(guard: ConditionGuard) -> None:
        ends.append(await guard.dead_letters.release(POISON))

    await together([partial(release, guard) for guard in guards])
    assert sorted(ends) == [False, True]


async def test_dead_letters_are_listed_over_all_pages() -> None:
    """More of one subject than a page has are all listed."""
    guard = condition_guard(MemoryStore(HOME, page_items_max=2), failures_max=1)
    for version in range(5):
        await guard.dead_letters.failed(event(version), "why")
    assert {letter.event.version for letter in await listed(guard)} == set(range(5))


async def test_a_lock_of_another_region_is_no_failure_of_the_event() -> None:
    """`LeaseLost` is raised to a guard in the wrong region, and nothing is counted."""
    store = Noting()
    await lock_guard(store).handle(event(1), Handling())
    elsewhere = lock_guard(MemoryStore(AWAY, store.table), failures_max=1)
    with pytest.raises(LeaseLost):
        await elsewhere.handle(POISON, Handling())
    assert await elsewhere.dead_letters.find(POISON) is None
