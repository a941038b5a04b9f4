"""Calls of one process for one subject: the newest that waits is handled in place of the others."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio
import pytest
from support.clients import together
from support.guarding import (
    ARRIVALS,
    SUBJECT,
    Handling,
    HastyTurns,
    Noting,
    event,
    lock_guard,
    record_in,
    record_put,
)
from support.ledgers import seeded

from ledger.core.errors import InvalidInput
from ledger.primitives.leases.lease import Lease
from ledger.primitives.leases.lease_rules import LeaseTerms
from ledger.primitives.versions import Busy, Event, Handled, LockGuard, Repeats, Skipped
from ledger.primitives.versions.turn_queue import SubjectTurns
from ledger.primitives.versions.version_rules import VersionRules
from ledger.store.writes import Action
from ledger.testing.clock import ManualClock


@dataclass
class Gate:
    """A handler that holds its first event until it is opened, and fails for some versions."""

    failing: tuple[int, ...] = ()
    versions: list[int] = field(default_factory=list)
    entered: anyio.Event = field(default_factory=anyio.Event)
    opened: anyio.Event = field(default_factory=anyio.Event)

    async def __call__(self, event: Event, _: Lease) -> Sequence[Action]:
        """Handle one event."""
        self.versions.append(event.version)
        if not self.entered.is_set():
            self.entered.set()
            await self.opened.wait()
        if event.version in self.failing:
            raise RuntimeError(f"version {event.version}")
        return [record_put(event.version)]


@dataclass
class Deliveries:
    """Events handed to one guard at once, behind a first one that is held back meanwhile."""

    guard: LockGuard
    gate: Gate
    clock: ManualClock
    ends: dict[str, object] = field(default_factory=dict)

    async def deliver(self, event: Event, *, wait_seconds: float = 60.0) -> None:
        """Hand in one event and note its end."""
        name = f"{event.kind} {event.version}"
        while name in self.ends:
            name += " again"
        self.ends[name] = None
        try:
            outcome: object = await self.guard.handle(event, self.gate, wait_seconds=wait_seconds)
        except RuntimeError as error:
            outcome = str(error)
        self.ends[name] = outcome

    async def all(
        self, *events: Event, meanwhile: Callable[[], Awaitable[None]] | None = None
    ) -> list[object]:
        """Hand in the first, the others while it is handled, and return how each ended."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.deliver, events[0])
            await self.gate.entered.wait()
            for one in events[1:]:
                tasks.start_soon(self.deliver, one)
                await self.clock.run_pending()
            if meanwhile is not None:
                await meanwhile()
            self.gate.opened.set()
        return list(self.ends.values())


def deliveries(
    store: Noting,
    *,
    failing: tuple[int, ...] = (),
    waiting_max: int = 1000,
    repeats: Repeats = "skip",
) -> Deliveries:
    """Return a guard that events are handed to."""
    clock = ManualClock()
    guard = lock_guard(store, clock=clock, waiting_max=waiting_max, repeats=repeats)
    return Deliveries(guard, Gate(failing), clock)


async def test_of_those_that_wait_the_newest_is_handled() -> None:
    """While 1 is handled 4, 3, 2, 5 arrive: 5 is handled, the others are skipped by its name."""
    store = Noting()
    at_once = deliveries(store)
    ends = await at_once.all(*map(event, ARRIVALS))
    assert ends == [Handled(1), Skipped(4, 5), Skipped(3, 5), Skipped(2, 5), Handled(5)]
    assert at_once.gate.versions == [1, 5]
    assert record_in(store.table) == 5


async def worked_example(waiting_max: int, seed: int = 1) -> tuple[Noting, list[int]]:
    """Deliver the worked example at once, on a clock that runs when all wait."""
    store, clock = Noting(), ManualClock()
    terms = LeaseTerms(lease_seconds=40.0, heartbeat_seconds=20.0)
    guard = lock_guard(
        store, clock=clock, waiting_max=waiting_max, terms=terms, randomness=seeded(seed)
    )
    handler, left = Handling(), len(ARRIVALS)

    async def deliver(version: int) -> None:
        nonlocal left
        await guard.handle(event(version), handler, wait_seconds=600.0)
        left -= 1

    async def run() -> None:
        while left:
            await clock.advance(1.0)

    await together([*(partial(deliver, version) for version in ARRIVALS), run])
    assert record_in(store.table) == 5
    return store, handler.versions


async def test_the_worked_example_at_once() -> None:
    """Versions 1, 4, 3, 2, 5 handed in at once: in turns a third of the requests, or less."""
    store, handled = await worked_example(waiting_max=9)
    assert handled == [1, 5]
    assert (store.lock_calls.total(), len(store.calls)) == (4, 12)
    for seed in range(20):
        alone, handled = await worked_example(waiting_max=0, seed=seed)
        assert (handled[0], handled[-1]) == (1, 5)
        assert alone.lock_calls.total() >= 10
        assert len(alone.calls) >= 3 * len(store.calls) - 1


async def test_if_the_newest_fails_the_next_newest_is_handled() -> None:
    """5 fails, so 4 is handled, and only then are 3 and 2 skipped, by its name."""
    store = Noting()
    at_once = deliveries(store, failing=(5,))
    ends = await at_once.all(*map(event, ARRIVALS))
    assert ends == [Handled(1), Handled(4), Skipped(3, 4), Skipped(2, 4), "version 5"]
    assert at_once.gate.versions == [1, 5, 4]
    assert record_in(store.table) == 4


async def test_mutant_skipped_at_once_all_are_lost_with_the_newest() -> None:
    """Skipped before the newest is handled, 4, 3 and 2 are acknowledged, and 1 is what stays."""
    store = Noting()
    at_once = deliveries(store, failing=(5,))
    at_once.guard._turns.__class__ = HastyTurns
    ends = await at_once.all(*map(event, ARRIVALS))
    assert ends[1:4] == [Skipped(4, 5), Skipped(3, 5), Skipped(2, 5)]
    assert record_in(store.table) == 1


async def test_if_all_fail_each_caller_gets_its_own_error() -> None:
    """No failure is answered by another's; the newest has its turn first."""
    at_once = deliveries(Noting(), failing=(1, 2, 3, 4, 5))
    ends = await at_once.all(*map(event, ARRIVALS))
    assert ends == [f"version {version}" for version in ARRIVALS]
    assert at_once.gate.versions == [1, 5, 4, 3, 2]


async def test_a_version_that_was_handled_meanwhile_skips_what_waits() -> None:
    """If another process handles 9 first, all that wait are skipped by it, without a request."""
    store = Noting()
    at_once = deliveries(store)

    async def elsewhere() -> None:
        await store.transact([VersionRules().version_put(event(9), now=at_once.clock.now())])

    ends = await at_once.all(*map(event, ARRIVALS), meanwhile=elsewhere)
    assert ends == [Skipped(version, 9) for version in ARRIVALS]
    assert (store.count("get"), store.lock_calls.total()) == (3, 2)
    assert at_once.gate.versions == [1]


async def test_duplicates_that_wait_are_skipped_or_handled_by_the_rule() -> None:
    """Of three deliveries of 2 one is handled by `<`, and each by `<=`."""
    cases: list[tuple[Repeats, list[int]]] = [("skip", [1, 2]), ("handle", [1, 2, 2, 2])]
    for repeats, handled in cases:
        at_once = deliveries(Noting(), repeats=repeats)
        ends = await at_once.all(event(1), event(2), event(2), event(2))
        assert at_once.gate.versions == handled
        assert ends.count(Handled(2)) == len(handled) - 1
        assert ends.count(Skipped(2, 2)) == 4 - len(handled)


async def test_kinds_share_the_turns_and_overtake_only_themselves() -> None:
    """A balance at 9 skips no address; the kind that has waited longest comes first."""
    at_once = deliveries(Noting())
    events = [event(1), event(2, "address"), event(9, "balance"), event(3, "address")]
    ends = await at_once.all(*events)
    assert ends == [Handled(1), Skipped(2, 3), Handled(9), Handled(3)]
    assert at_once.gate.versions == [1, 3, 9]


async def test_a_lower_version_of_another_kind_is_handled() -> None:
    """An address at 9 says nothing of a balance at 2, which is not old."""
    store = Noting()
    at_once = deliveries(store)
    ends = await at_once.all(event(1), event(9, "address"), event(2, "balance"))
    assert ends == [Handled(1), Handled(9), Handled(2)]
    assert at_once.gate.versions == [1, 9, 2]


async def test_subjects_do_not_wait_for_each_other() -> None:
    """An event of another subject is handled while the first subject's is under way."""
    store = Noting()
    at_once = deliveries(store)

    async def other() -> None:
        outcome = await at_once.guard.handle(Event(f"{SUBJECT}0", 1), Handling())
        assert outcome == Handled(1)

    assert await at_once.all(event(1), meanwhile=other) == [Handled(1)]


async def test_a_wait_for_a_turn_ends_in_time() -> None:
    """`wait_seconds` counts from the call: past it `Busy`, and what waited with it is handled."""
    store = Noting()
    at_once = deliveries(store)

    async def meanwhile() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(at_once.deliver, event(5), wait_seconds=1.5))
            await at_once.clock.run_pending()
            await at_once.clock.advance(2.0)
            assert at_once.ends["record 5"] == Busy("handler")
        assert await at_once.guard.handle(event(6), Handling(), wait_seconds=0) == Busy("handler")

    assert await at_once.all(event(1), event(4), meanwhile=meanwhile) == [
        Handled(1),
        Handled(4),
        Busy("handler"),
    ]


async def test_a_caller_that_is_cancelled_gives_its_turn_on() -> None:
    """Cancelled while it waits, or while it is handled, an event leaves the others their turns."""
    store, clock = Noting(), ManualClock()
    guard, gate = lock_guard(store, clock=clock), Gate()
    ends: list[object] = []
    first, newest = anyio.CancelScope(), anyio.CancelScope()

    async def deliver(version: int, scope: anyio.CancelScope) -> None:
        with scope:
            ends.append(await guard.handle(event(version), gate))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(deliver, 1, first)
        await gate.entered.wait()
        for version, scope in ((4, anyio.CancelScope()), (5, newest), (3, anyio.CancelScope())):
            tasks.start_soon(deliver, version, scope)
            await clock.run_pending()
        newest.cancel()
        await clock.run_pending()
        first.cancel()
    assert sorted(map(str, ends)) == ["Handled(version=4)", "Skipped(version=3, newest=4)"]
    assert guard._turns._queues == {}
    assert guard._turns._waiting == 0


async def test_a_turn_that_comes_with_the_cancellation_is_given_on() -> None:
    """An event cancelled in the moment in which its turn comes does not keep it."""
    turns = SubjectTurns(rules=VersionRules(), clock=ManualClock(), owner="me", waiting_max=9)
    ends: list[object] = []
    going, newest = anyio.Event(), anyio.CancelScope()

    async def handle(version: int) -> Handled:
        if version == 1:
            await going.wait()
            newest.cancel()  # with the end of this turn, which is then that of 5
        return Handled(version)

    async def deliver(version: int, scope: anyio.CancelScope) -> None:
        with scope:
            ends.append(await turns.take(event(version), partial(handle, version), deadline=9.0))

    async with anyio.create_task_group() as tasks:
        for version in (1, 4, 5):
            scope = newest if version == 5 else anyio.CancelScope()
            tasks.start_soon(deliver, version, scope)
            await ManualClock().run_pending()
        going.set()
    assert ends == [Handled(1), Handled(4)]
    assert turns._queues == {}


async def test_beyond_the_bound_calls_contend_by_themselves() -> None:
    """With room for one, 4 waits and 3 contends for the lock by itself; all is handled rightly."""
    store = Noting()
    at_once = deliveries(store, waiting_max=1)

    async def meanwhile() -> None:
        outcome = await at_once.guard.handle(event(3), Handling(), wait_seconds=0)
        assert isinstance(outcome, Busy)
        assert outcome.owner.startswith("handler#")

    assert await at_once.all(event(1), event(4), meanwhile=meanwhile) == [Handled(1), Handled(4)]


async def test_bounds_that_are_none_are_refused() -> None:
    """How many may wait, and for how long, are numbers from 0."""
    for waiting_max in (-1, 1.5, "9", True):
        with pytest.raises(InvalidInput, match="waiting_max must be a whole number from 0"):
            lock_guard(Noting(), waiting_max=waiting_max)
    for seconds in (-1.0, float("nan"), float("inf"), "9"):
        with pytest.raises(InvalidInput, match="wait_seconds must be from 0 to 86,400"):
            await lock_guard(Noting()).handle(event(1), Handling(), wait_seconds=seconds)  # type: ignore[arg-type]
