"""Deciding at home: once per crossing, delivered at least once, whatever fails in between."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal

import anyio
import pytest
from support.ledgers import AWAY, HOME, make_settings
from support.live import Live, SignedStore
from support.watching import COUNTER, LOW, Place, Unconditional

from ledger.core.contract import NO_HOME, Validity
from ledger.core.errors import ContractStale, DamagedItem, StoreError, Throttled
from ledger.core.watches import Crossing, Phase, WatchState, state_item, state_key
from ledger.store.port import Store
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
from ledger.store.writes import Outcome, Write
from ledger.testing.clock import START
from ledger.watches.crossings import REPEAT_SECONDS, repeat_after

REPEAT = REPEAT_SECONDS + make_settings().clock_skew


class Crashed(Exception):
    """The process died."""


@dataclass(slots=True)
class Meeting:
    """So many processes, each of which waits with its first write for the others."""

    missing: int
    complete: anyio.Event = field(default_factory=anyio.Event)


class MeetingStore(ForwardingStore):
    """A store that writes once all processes have come so far."""

    def __init__(self, inner: Store, meeting: Meeting) -> None:
        super().__init__(inner)
        self._meeting = meeting

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write, once all are here."""
        self._meeting.missing -= 1
        if self._meeting.missing <= 0:
            self._meeting.complete.set()
        await self._meeting.complete.wait()
        return await super().write(write)


async def test_a_crossing_is_delivered_once_and_again_only_after_it_came_back() -> None:
    """Between the bound and `rearm` nothing happens, however many look and how often."""
    place = Place()
    one, other = place.decider(seed=1), place.decider(seed=2)
    for change, numbers in ((25, []), (-16, [1]), (-4, [1]), (14, [1]), (1, [1]), (-11, [1, 2])):
        place.change(change)
        for decider in (one, other, one):
            await place.look(decider)
        assert place.numbers == numbers
    first, second = place.delivered
    assert (first.value, second.value, first.repeated) == (Decimal(9), Decimal(9), False)
    assert first.id != second.id


async def test_of_processes_that_look_at_once_one_delivers() -> None:
    """Each has read the state before any writes it: the condition lets one write through."""
    assert await _delivered_by_three(Place(), is_conditional=True) == [1]


async def test_negative_twin_without_the_condition_all_deliver() -> None:
    """The same three processes, with a store that writes whatever the condition says."""
    assert await _delivered_by_three(Place(), is_conditional=False) == [1, 1, 1]


async def _delivered_by_three(place: Place, *, is_conditional: bool) -> list[int]:
    place.change(9)
    meeting = Meeting(3)
    async with anyio.create_task_group() as tasks:
        for seed in range(3):
            store: Store = MeetingStore(place.store(), meeting)
            decider = place.decider(store if is_conditional else Unconditional(store), seed=seed)
            tasks.start_soon(place.look, decider)
    return place.numbers


async def test_a_process_that_comes_second_learns_what_the_first_decided() -> None:
    """The answer to its rejected write has the state: it is not asked for again."""
    place = Place()
    place.change(9)
    meeting = Meeting(2)
    stores = [FaultyStore(MeetingStore(place.store(), meeting), InOrder()) for _ in range(2)]
    found: list[WatchState] = []

    async def look(store: Store, seed: int) -> None:
        found.append(await place.look(place.decider(store, seed=seed)))

    async with anyio.create_task_group() as tasks:
        for seed, store in enumerate(stores):
            tasks.start_soon(look, store, seed)
    assert {state.phase for state in found} == {Phase.CROSSED, Phase.DELIVERED}
    assert {state.number for state in found} == {1}
    assert sorted(store.calls for store in stores) == [3, 4]


async def test_while_a_crossing_is_delivered_again_it_is_claimed_and_crossed() -> None:
    """So a third process neither delivers it at the same time, nor takes it for over."""
    place = Place()
    place.change(9)
    claims: list[WatchState] = []

    async def fail(_: Crossing) -> None:
        claims.append(place.state())
        raise RuntimeError("no such room")

    await place.decider().look(LOW, COUNTER, [fail])
    place.clock.pass_by(REPEAT)
    await place.decider(seed=2).look(LOW, COUNTER, [fail])
    first, again = claims
    assert [state.phase for state in claims] == [Phase.CROSSED] * 2
    assert (first.claimed, again.claimed) == (START, place.clock.now())
    assert (first.at, again.at, again.number) == (START, START, 1)
    assert first.stamp != again.stamp
    place.clock.pass_by(REPEAT - 1)
    await place.look(place.decider(seed=3))
    assert place.numbers == []


async def test_a_delivery_is_not_confirmed_under_a_view_that_ended_meanwhile() -> None:
    """The home may have moved while the receiver was at work: it is delivered again there."""
    place = Place()
    place.change(9)
    validity = Validity.of_read(place.clock.now(), place.clock.monotonic(), contract_life=60)
    live = Live(make_settings(), validity=validity)

    async def freeze(_: Crossing) -> None:
        place.clock.pass_by(61)

    decider = place.decider(SignedStore(HOME, place.clock, place.table), settings=live)
    with pytest.raises(ContractStale):
        await decider.look(LOW, COUNTER, [freeze])
    assert place.state().phase is Phase.CROSSED


async def test_a_counter_without_changes_is_not_watched() -> None:
    """A name that is asked for and has no entry makes no item and no crossing."""
    place = Place()
    await place.look(place.decider())
    assert (place.numbers, place.table.partitions) == ([], {})


async def test_a_suspect_that_is_none_costs_one_read() -> None:
    """If the state makes nothing of the total that was seen, no total is read at home."""
    place = Place()
    place.change(9)
    store = FaultyStore(place.store(), InOrder())
    assert await place.look(place.decider(store), suspect=Decimal(15)) == WatchState()
    assert (store.calls, place.numbers) == (1, [])
    await place.look(place.decider(store), suspect=Decimal(9))
    assert (store.calls, place.numbers) == (5, [1])


async def test_a_suspect_that_the_home_does_not_confirm_is_no_crossing() -> None:
    """The total of the home region decides, not the one of the region that suspects."""
    place = Place()
    place.change(15)
    await place.look(place.decider(), suspect=Decimal(9))
    assert place.numbers == []


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("is_applied", [False, True])
async def test_a_process_that_dies_at_any_request_leaves_a_crossing_to_be_delivered(
    steps: int, *, is_applied: bool
) -> None:
    """Requests: state, total, crossed, (delivery,) delivered; then another process looks."""
    place = Place()
    place.change(9)
    faults = [None] * steps + [Raises(Crashed(), applied=is_applied)]
    with suppress(Crashed):
        await place.look(place.decider(FaultyStore(place.store(), InOrder(*faults))))
    before = list(place.numbers)
    place.clock.pass_by(REPEAT)
    for seed in (2, 3):
        await place.look(place.decider(seed=seed))
    assert {*place.numbers} == {1}
    assert len(place.numbers) <= 2
    assert place.state().phase is Phase.DELIVERED
    assert before in ([], [1])
    repeated = [crossing.repeated for crossing in place.delivered]
    assert repeated == sorted(repeated)


async def test_a_process_that_dies_in_its_delivery_is_replaced_after_a_while() -> None:
    """Not before `REPEAT_SECONDS` and the skew: by then no delivery is under way any more."""
    place = Place()
    place.change(9)

    async def die(_: Crossing) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await place.decider().look(LOW, COUNTER, [place.take, die])
    assert place.state().phase is Phase.CROSSED
    place.clock.pass_by(REPEAT - 0.1)
    await place.look(place.decider(seed=2))
    assert place.numbers == [1]
    place.clock.pass_by(0.1)
    await place.look(place.decider(seed=2))
    first, again = place.delivered
    assert (again.id, again.value, again.at) == (first.id, first.value, first.at)
    assert again.repeated
    assert place.state().phase is Phase.DELIVERED


async def test_an_undelivered_crossing_goes_out_even_if_the_total_is_back() -> None:
    """A crossing that was decided is never dropped; then the watch is armed again."""
    place = Place()
    place.change(9)

    async def fail(_: Crossing) -> None:
        raise RuntimeError("no such room")

    decider = place.decider()
    assert not (await decider.look(LOW, COUNTER, [fail])).is_delivered
    place.change(100)
    place.clock.pass_by(REPEAT)
    looked = await decider.look(LOW, COUNTER, [place.take])
    assert (looked.is_delivered, place.numbers) == (True, [1])
    assert (await place.look(decider)).phase is Phase.ARMED


async def test_a_channel_that_takes_too_long_has_not_delivered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is stopped, and the crossing stays to be delivered."""
    monkeypatch.setattr("ledger.watches.crossings.DELIVERY_SECONDS", 0.0)
    place = Place()
    place.change(9)

    async def hang(_: Crossing) -> None:
        await anyio.sleep_forever()

    looked = await place.decider().look(LOW, COUNTER, [hang])
    assert (looked.is_delivered, looked.state.phase) == (False, Phase.CROSSED)


@pytest.mark.parametrize(
    ("fault", "now", "later"), [(Lost(), [1], [1]), (NeverArrived(), [], [1]), (Late(), [], [1])]
)
async def test_a_decision_without_an_answer_is_read(
    fault: Fault, now: list[int], later: list[int]
) -> None:
    """Applied: delivered at once. Not there: decided, or delivered, at a later look, once."""
    place = Place()
    place.change(9)
    store = FaultyStore(place.store(), InOrder(None, None, fault))
    await place.look(place.decider(store))
    assert place.numbers == now
    if store.in_flight:
        await store.land()
        await place.look(place.decider(seed=2))
        assert place.numbers == []
        place.clock.pass_by(REPEAT)
    await place.look(place.decider(seed=2))
    assert place.numbers == later


async def test_a_late_decision_meets_another_stamp() -> None:
    """A request that lands after another process has decided changes nothing."""
    place = Place()
    place.change(9)
    store = FaultyStore(place.store(), InOrder(None, None, Late()))
    await place.look(place.decider(store))
    await place.look(place.decider(seed=2))
    state = place.state()
    await store.land()
    assert (place.state(), place.numbers) == (state, [1])


async def test_a_delivery_that_cannot_be_confirmed_is_repeated() -> None:
    """At least once: the receiver sees the same id again."""
    place = Place()
    place.change(9)
    store = FaultyStore(place.store(), InOrder(None, None, None, Raises(Throttled("slow"))))
    with pytest.raises(Throttled):
        await place.look(place.decider(store))
    place.clock.pass_by(REPEAT)
    await place.look(place.decider(seed=2))
    assert place.numbers == [1, 1]


async def test_a_clock_far_ahead_does_not_silence_a_crossing() -> None:
    """A claim from the future is taken over, as an old one is."""
    place = Place()
    place.change(9)
    ahead = WatchState().crossed(Decimal(9), at=START + timedelta(days=9), stamp="x")
    key = state_key(LOW.name, COUNTER)
    place.table.set(key, state_item(key, ahead))
    await place.look(place.decider())
    assert place.numbers == [1]


async def test_only_the_home_decides() -> None:
    """In another region, or while the home is being moved, nothing is read or written."""
    place = Place()
    place.change(9)
    moving = make_settings()
    moving = moving.under(replace(moving.terms, home=NO_HOME), home=HOME)
    for store, live in ((place.store(AWAY), make_settings()), (place.store(), moving)):
        with pytest.raises(StoreError, match="is not the home of the table now"):
            await place.look(place.decider(store, settings=live))
    assert place.numbers == []


async def test_nothing_is_decided_under_a_view_of_the_contract_that_is_too_old() -> None:
    """A process that froze may not know that the home has moved."""
    place = Place()
    place.change(9)
    validity = Validity.of_read(place.clock.now(), place.clock.monotonic(), contract_life=60)
    live = Live(make_settings(), validity=validity)
    decider = place.decider(SignedStore(HOME, place.clock, place.table), settings=live)
    place.clock.pass_by(61)
    with pytest.raises(ContractStale):
        await place.look(decider)


async def test_a_state_that_cannot_be_read_is_an_error() -> None:
    """An edited item neither arms a watch nor silences it without a word."""
    place = Place()
    place.change(9)
    key = state_key(LOW.name, COUNTER)
    place.table.set(key, {"pk": {"S": key[0]}, "sk": {"S": key[1]}, "phase": {"S": "asleep"}})
    with pytest.raises(DamagedItem, match="not a state of a watch"):
        await place.look(place.decider())


def test_a_repetition_waits_for_the_skew_too() -> None:
    """Two clocks that are apart by `clock_skew` do not repeat a delivery under way."""
    assert repeat_after(make_settings(clock_skew=5)) == timedelta(seconds=REPEAT_SECONDS + 5)
