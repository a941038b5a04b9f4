"""Noticing crossings while totals are read: in the background, at the price of few requests."""

from dataclasses import dataclass, field, replace

import anyio
import pytest
from support.ledgers import AWAY, HOME, make_services, make_settings, sample, seeded
from support.live import Live
from support.watching import COUNTER, LOW, Place, made, read, watching

from ledger.core.contract import NO_HOME
from ledger.core.errors import AccessDenied, Throttled
from ledger.core.watches import Crossing, Phase
from ledger.reads.reader import Reader
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, InOrder, Raises
from ledger.watches.crossings import CrossingCall
from ledger.watches.watcher import LOOKS_MAX, REFRESH_SECONDS, Watcher, Watches

WAIT_SECONDS_MAX = 10.0


@dataclass(slots=True)
class Counting:
    """What a store was asked for, by operation."""

    asked: dict[str, int] = field(default_factory=dict)

    def __call__(self, call: FaultCall) -> Fault | None:
        """Count a call."""
        self.asked[call.operation] = self.asked.get(call.operation, 0) + 1
        return None


async def test_a_total_that_is_read_calls_the_function_once_per_crossing() -> None:
    """From 25 down to 9, up to 20 and down again: two calls, with the total and the number."""
    place = Place()
    async with watching(place) as ledger:
        for change, numbers in ((25, []), (-16, [1]), (-1, [1]), (12, [1]), (-18, [1, 2])):
            place.change(change)
            await read(ledger, place)
            assert place.numbers == numbers
    assert [str(crossing.value) for crossing in place.delivered] == ["9", "2"]


async def test_of_two_processes_that_read_one_is_called() -> None:
    """They share the state of the name, in any order."""
    place = Place()
    async with watching(place) as one, watching(place) as other:
        place.change(9)
        for _ in range(2):
            await read(one, place)
            await read(other, place)
    assert place.numbers == [1]


async def test_totals_and_steady_ones_are_watched_too() -> None:
    """Whichever way a total is read."""
    place = Place()
    async with watching(place) as ledger:
        place.change(9, "stock-1")
        place.change(9, "stock-2")
        place.change(9, "stick-3")
        await ledger.totals(["stock-1", "stick-3"])
        await ledger.total("stock-2", steady=True)
        await place.clock.run_pending()
    assert sorted(crossing.counter for crossing in place.delivered) == ["stock-1", "stock-2"]


async def test_without_a_watch_reading_is_as_it_was() -> None:
    """Neither a request nor a task more, for any counter."""
    place, counting = Place(), Counting()
    async with made(place, FaultyStore(place.store(), counting)) as ledger:
        for _ in range(3):
            await read(ledger, place)
    assert counting.asked == {"query": 3}


async def test_a_counter_on_the_right_side_costs_one_request_a_minute() -> None:
    """Its state is read at the first read, and again when it was known for so long."""
    place, counting = Place(), Counting()
    place.clock.pass_by(1000)
    place.change(25)
    async with watching(place, FaultyStore(place.store(), counting)) as ledger:
        for _ in range(5):
            await read(ledger, place)
        assert counting.asked == {"query": 5, "get": 1}
        place.clock.pass_by(REFRESH_SECONDS)
        await read(ledger, place)
    assert counting.asked == {"query": 6, "get": 2}


async def test_a_crossing_of_another_process_is_ended_by_one_that_did_not_see_it() -> None:
    """What was known a minute ago is read again, so that the next crossing is one."""
    place = Place()
    place.change(25)
    async with watching(place) as one:
        await read(one, place)
        place.change(-16)
        async with watching(place) as other:
            await read(other, place)
        place.change(16)
        place.clock.pass_by(REFRESH_SECONDS)
        await read(one, place)
        assert place.state().phase is Phase.ARMED
        place.change(-16)
        await read(one, place)
    assert place.numbers == [1, 2]


@pytest.mark.parametrize(
    ("seconds", "numbers"), [(REFRESH_SECONDS - 0.001, [1]), (REFRESH_SECONDS, [1, 2])]
)
async def test_a_return_that_only_a_process_of_an_older_state_reads_ends_a_crossing_after_a_minute(
    seconds: float, numbers: list[int]
) -> None:
    """One reads 25, the other 9, the one 25 again, then both 9: crossing 2 only past the bound."""
    place = Place()
    place.clock.pass_by(1000)
    place.change(25)
    async with watching(place) as one, watching(place) as other:
        await read(one, place)
        place.clock.pass_by(seconds)
        place.change(-16)
        await read(other, place)
        place.change(16)
        await read(one, place)
        place.change(-16)
        await read(one, place)
        await read(other, place)
    assert place.numbers == numbers


async def test_a_reader_elsewhere_decides_by_the_total_of_the_home() -> None:
    """It suspects, and looks again while the change is on its way; then it is called."""
    place, away = Place(), MemoryTable()
    place.change(25)
    place.change(25, table=away)
    place.change(-16, table=away)
    looks = 0

    def arrives(call: FaultCall) -> None:
        nonlocal looks
        looks += call.operation == "get"
        if looks == LOOKS_MAX and call.operation == "get":
            place.change(-16)

    ledger = Ledger(
        make_settings(),
        region=AWAY,
        given=GivenConnections(
            store=MemoryStore(AWAY, away), home=FaultyStore(place.store(), arrives)
        ),
        services=Services.of(clock=place.clock, randomness=seeded()),
    )
    async with ledger:
        ledger.watch(LOW.counters, below=10, rearm=20, call=place.take, name=LOW.name)
        assert await read(ledger, place) == 9
    assert [crossing.value for crossing in place.delivered] == [9]
    assert looks == LOOKS_MAX
    assert LOW.name not in str(away.partitions)


async def test_a_suspicion_that_is_confirmed_is_looked_at_once() -> None:
    """Elsewhere too: one state, one total, two writes."""
    place, counting = Place(), Counting()
    place.change(9)
    ledger = Ledger(
        make_settings(),
        region=AWAY,
        given=GivenConnections(
            store=MemoryStore(AWAY, place.table), home=FaultyStore(place.store(), counting)
        ),
        services=Services.of(clock=place.clock, randomness=seeded()),
    )
    async with ledger:
        ledger.watch(LOW.counters, below=10, rearm=20, call=place.take, name=LOW.name)
        await read(ledger, place)
    assert (counting.asked, place.numbers) == ({"get": 1, "query": 1, "write": 2}, [1])


async def test_a_suspicion_that_is_over_is_looked_at_once_at_home() -> None:
    """Nothing is on its way to where the total was read: 9, and 15 when it is looked at."""
    place, looks = Place(), 0
    place.change(9)

    def restock(call: FaultCall) -> None:
        nonlocal looks
        if call.operation == "get":
            looks += 1
            place.change(6)

    async with watching(place, FaultyStore(place.store(), restock)) as ledger:
        await read(ledger, place)
    assert (looks, place.numbers) == (1, [])


async def test_a_delivery_that_failed_is_made_again_by_a_later_read() -> None:
    """The same process, once the claim is old enough; reads before that ask for nothing."""
    place, counting = Place(), Counting()
    place.change(9)
    is_broken = True

    async def call(crossing: Crossing) -> None:
        if is_broken:
            raise RuntimeError("no such room")
        await place.take(crossing)

    async with made(place, FaultyStore(place.store(), counting)) as ledger:
        ledger.watch(LOW.counters, below=10, call=call)
        await read(ledger, place)
        is_broken = False
        await read(ledger, place)
        assert (counting.asked["get"], place.numbers) == (1, [])
        for _ in range(3):  # the state is read again each minute
            place.clock.pass_by(REFRESH_SECONDS - 1)
            await read(ledger, place)
            await read(ledger, place)
    assert place.numbers == [1]
    assert [crossing.repeated for crossing in place.delivered] == [True]


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of states, of counters and their watches, and of what waits: the rest is asked for again."""
    for name in ("KNOWN_MAX", "WAITING_MAX"):
        monkeypatch.setattr(f"ledger.watches.watcher.{name}", 2)
    place, counting = Place(), Counting()
    names = [f"stock-{number}" for number in range(3)]
    for name in names:
        place.change(25, name)
    async with watching(place, FaultyStore(place.store(), counting)) as ledger:
        for name in [*names, names[2], names[1]]:
            await ledger.total(name, max_age=0)
            await place.clock.run_pending()
        assert counting.asked["get"] == 3
        await ledger.total(names[0], max_age=0)
        await place.clock.run_pending()
        assert counting.asked["get"] == 4
        place.clock.pass_by(REFRESH_SECONDS)
        await ledger.totals(names, max_age=0)  # none is looked at before all are read
        await place.clock.run_pending()
    assert counting.asked["get"] == 6


async def test_a_total_that_only_another_region_shows_crosses_nothing() -> None:
    """The home keeps its own total: after some looks the suspicion rests until the next read."""
    place, away, counting = Place(), MemoryTable(), Counting()
    place.change(25)
    place.change(9, table=away)
    ledger = Ledger(
        make_settings(),
        region=AWAY,
        given=GivenConnections(
            store=MemoryStore(AWAY, away), home=FaultyStore(place.store(), counting)
        ),
        services=Services.of(clock=place.clock, randomness=seeded()),
    )
    async with ledger:
        ledger.watch(LOW.counters, below=10, rearm=20, call=place.take, name=LOW.name)
        await read(ledger, place)
    assert place.numbers == []
    assert counting.asked["get"] == LOOKS_MAX


async def test_without_a_store_of_the_home_nothing_is_decided() -> None:
    """A ledger over a given store opens no connection by itself; the error is counted."""
    place, away = Place(), MemoryTable()
    place.change(9, table=away)
    ledger = Ledger(
        make_settings(),
        region=AWAY,
        given=GivenConnections(store=MemoryStore(AWAY, away)),
        services=Services.of(clock=place.clock),
    )
    async with ledger:
        ledger.watch(LOW.counters, below=10, call=place.take)
        assert await read(ledger, place) == 9
    assert place.numbers == []
    assert sample(ledger.metrics, "ledger_errors_total", kind="LedgerError") == 1


async def test_a_look_that_fails_fails_no_read_and_is_made_again() -> None:
    """A throttled state is read at the next read of the total."""
    place = Place()
    place.change(9)
    store = FaultyStore(place.store(), InOrder(None, Raises(Throttled("slow down"))))
    async with watching(place, store) as ledger:
        assert await read(ledger, place) == 9
        assert place.numbers == []
        await read(ledger, place)
    assert place.numbers == [1]
    assert sample(ledger.metrics, "ledger_errors_total", kind="Throttled") == 1


async def test_a_role_that_may_not_decide_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Without the permission nothing is looked at any more; totals are read as before."""
    place = Place()
    place.change(9)

    def refuse(call: FaultCall) -> Fault | None:
        return Raises(AccessDenied("no GetItem")) if call.operation == "get" else None

    async with watching(place, FaultyStore(place.store(), refuse)) as ledger:
        for _ in range(3):
            assert await read(ledger, place) == 9
    assert [record.message for record in caplog.records] == [
        "no watch is decided by this process: no GetItem"
    ]


async def test_the_home_that_decides_is_the_one_in_force() -> None:
    """Nothing while it moves; then the new home's store is opened, and its total counts."""
    place, new = Place(), MemoryTable()
    place.change(9)
    place.change(8, table=new)
    settings = make_settings()
    moving = settings.under(replace(settings.terms, home=NO_HOME), home=HOME)
    moved = settings.under(replace(settings.terms, home=AWAY), home=AWAY)
    live = Live(settings)
    async with anyio.create_task_group() as tasks:
        watches = Watches(settings)
        watches.add(CrossingCall(LOW, place.take))
        services = make_services(place.clock)
        watcher = Watcher(
            watches,
            place.store(),
            home=MemoryStore(AWAY, new),
            settings=live,
            services=services,
            tasks=tasks,
        )
        reader = Reader(place.store(), settings=live, services=services)
        for now, values in ((moving, []), (settings, [9]), (moving, [9]), (moved, [9, 8])):
            live.current = now
            place.clock.pass_by(REFRESH_SECONDS)
            watcher.saw(await reader.total(COUNTER))
            await place.clock.run_pending()
            assert [crossing.value for crossing in place.delivered] == values
        await watcher.close()
    assert LOW.name in str(new.partitions)
