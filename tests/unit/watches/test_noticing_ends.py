"""Closing while crossings are delivered, slow receivers, and where crossings are told."""

from decimal import Decimal

import anyio
import pytest
from support.ledgers import HOME, make_settings, sample
from support.watching import COUNTER, LOW, Place, made, read

from ledger.core.errors import InvalidInput
from ledger.core.watches import Crossing, Phase, Watch
from ledger.runtime.metrics import Metrics
from ledger.watches.crossings import CrossingCall, channels_of
from ledger.watches.watcher import Watches

WAIT_SECONDS_MAX = 10.0


async def test_closing_waits_for_the_delivery_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that reads once and ends has noticed what it read."""
    monkeypatch.setattr("ledger.watches.watcher.CLOSE_SECONDS_MAX", 10 * WAIT_SECONDS_MAX)
    place = Place()
    place.change(9)

    async def slowly(crossing: Crossing) -> None:
        await anyio.sleep(0.01)
        await place.take(crossing)

    with anyio.fail_after(WAIT_SECONDS_MAX):
        async with made(place) as ledger:
            ledger.watch(LOW.counters, below=10, call=slowly)
            await ledger.total(COUNTER)
    assert place.numbers == [1]


async def test_closing_waits_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver that hangs is left; its crossing stays to be delivered."""
    monkeypatch.setattr("ledger.watches.watcher.CLOSE_SECONDS_MAX", 0.01)
    place = Place()
    place.change(9)

    async def hang(_: Crossing) -> None:
        await anyio.sleep_forever()

    with anyio.fail_after(WAIT_SECONDS_MAX):
        async with made(place) as ledger:
            ledger.watch(LOW.counters, below=10, call=hang, name=LOW.name)
            await read(ledger, place)
    assert place.state().phase is Phase.CROSSED


async def test_a_cancelled_ledger_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled from outside it ends at once; the crossing stays to be delivered."""
    monkeypatch.setattr("ledger.watches.watcher.CLOSE_SECONDS_MAX", 10 * WAIT_SECONDS_MAX)
    place = Place()
    place.change(9)
    begun = anyio.Event()

    async def hang(_: Crossing) -> None:
        begun.set()
        await anyio.sleep_forever()

    with anyio.fail_after(WAIT_SECONDS_MAX), anyio.CancelScope() as scope:
        async with made(place) as ledger:
            ledger.watch(LOW.counters, below=10, call=hang, name=LOW.name)
            await ledger.total(COUNTER)
            await begun.wait()
            scope.cancel()
            await anyio.sleep_forever()
    assert place.state().phase is Phase.CROSSED


async def test_a_slow_receiver_holds_up_no_other() -> None:
    """While one counter's crossing is being delivered, another's is."""
    place = Place()
    place.change(9, "stock-1")
    place.change(9, "stock-2")
    second = anyio.Event()

    async def wait_for_the_second(crossing: Crossing) -> None:
        if crossing.counter == "stock-2":
            second.set()
        await second.wait()
        await place.take(crossing)

    with anyio.fail_after(WAIT_SECONDS_MAX):
        async with made(place) as ledger:
            ledger.watch(LOW.counters, below=10, call=wait_for_the_second)
            await ledger.total("stock-1")
            await place.clock.run_pending()
            await ledger.total("stock-2")
    assert len(place.delivered) == 2


async def test_a_plain_function_is_called_as_well() -> None:
    """One that does not block needs no async; the callback may use the ledger."""
    place = Place()
    place.change(9)
    seen: list[str] = []
    async with made(place) as ledger:

        async def order(crossing: Crossing) -> None:
            await ledger.record("orders", 1, note=crossing.id)

        ledger.watch("stock-*", below=10, call=lambda crossing: seen.append(crossing.id))
        ledger.watch("stock-*", below=10, call=order, name="order")
        await read(ledger, place)
        assert (await ledger.total("orders", max_age=0)).value == 1
    assert seen == ["stock-* below 10#1#stock-7"]


async def test_a_watch_of_the_settings_is_logged_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It needs no code: a line in the log, and a metric by watch."""
    place = Place()
    place.change(101, "credit-1")
    watches = {"credit": {"counters": "credit-*", "above": 100, "rearm": 80}}
    async with made(place, watches=watches) as ledger:
        await ledger.total("credit-1")
        await place.clock.run_pending()
        assert sample(ledger.metrics, "ledger_crossings_total", watch="credit", region=HOME) == 1
    assert [record.message for record in caplog.records] == [
        "watch 'credit': 'credit-1' is 101, above 100 (crossing 1)"
    ]


async def test_a_repeated_delivery_says_so_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A person who reads both lines sees one crossing."""
    metrics = Metrics()
    crossing = Crossing("low", COUNTER, 1, "below", Decimal(10), Decimal(9), None, repeated=True)
    for channel in channels_of(CrossingCall(LOW), metrics=metrics, region=HOME):
        await channel(crossing)
    assert caplog.messages == ["watch 'low': 'stock-7' is 9, below 10 (crossing 1); again"]


async def test_what_cannot_be_called_is_refused_at_once() -> None:
    """Not when the first crossing is to be delivered."""
    async with made(Place()) as ledger:
        with pytest.raises(InvalidInput, match="call of a watch must be callable, got 'x'"):
            ledger.watch(LOW.counters, below=10, call="x")  # type: ignore[arg-type]


def test_two_watches_of_one_name_are_refused() -> None:
    """In the settings or in code: they would end each other's crossings."""
    watches = Watches(make_settings(watches={"low": {"counters": "stock-*", "below": 10}}))
    with pytest.raises(InvalidInput, match="there is a watch 'low' already"):
        watches.add(CrossingCall(LOW))
    watches.add(CrossingCall(Watch.of("zero", "stock-7", below=0)))
    assert [watched.watch.name for watched in watches.of("stock-7")] == ["low", "zero"]
    assert watches.of("stick") == ()
    assert watches.of("stock-7") is watches.of("stock-7")
    assert watches.counters == {"stock-7"}
