from collections.abc import Sequence
from dataclasses import replace

import anyio
import pytest
from lab.harness.model import Service, open_model
from proof.simulator import loop

from ledger.core.entry import Key
from ledger.core.errors import SignedTooLate, Throttled
from ledger.core.keys import EXPIRES
from ledger.demo.harness.options import REGIONS
from ledger.runtime.clock import Clock
from ledger.runtime.metrics import summed
from ledger.store.reads import Get, Query
from ledger.store.writes import (
    TOKEN_SECONDS,
    Applied,
    BatchOutcome,
    EachOutcome,
    Put,
    Update,
)

SEED = 7
KEY = ("~count~0~x", "sum")
ADD = Update(KEY, add={"value": {"N": "1"}})


def test_a_partition_takes_a_thousand_units_a_second() -> None:
    """Beyond what has come in at that rate a write is throttled; another partition is not."""
    one = Service()
    admitted = [one.admit([(KEY, 1)], 0.001 * step, 0) == "" for step in range(1, 201)]
    assert all(admitted)
    burst = [one.admit([(KEY, 1)], 0.2, 0) for _ in range(200)]
    assert burst.count("") <= 20
    assert set(burst) == {"", "throttled"}
    assert one.admit([(("another", "sum"), 1)], 0.2, 0) == ""


def test_a_write_larger_than_what_is_left_at_once_delays_others() -> None:
    """A net change of 50 units is taken, and 30 ms later the partition takes more."""
    one = Service()
    assert one.admit([(KEY, 1)], 0.0, 0) == ""
    assert one.admit([(KEY, 50)], 0.0, 0) == "throttled"
    assert one.admit([(KEY, 50)], 0.001, 0) == ""
    assert one.admit([(KEY, 1)], 0.031, 0) == "throttled"
    assert one.admit([(KEY, 1)], 0.032, 0) == ""


def test_a_transaction_holds_its_items() -> None:
    """A write at an item of a transaction is in conflict until that is over; others go on."""
    one = Service()
    assert one.admit([(KEY, 2)], 1.0, 0.006) == ""
    assert one.admit([(KEY, 1)], 1.005, 0) == "conflict"
    assert one.admit([(("another", "sum"), 1)], 1.005, 0) == ""
    assert one.admit([(KEY, 1)], 1.006, 0) == ""


def test_a_token_is_forgotten_after_ten_minutes() -> None:
    """Its transaction is known for ten minutes of virtual time, then applied again."""

    async def run() -> list[str]:
        async with open_model(2, SEED) as model:
            store, seen = model.stores[REGIONS[0]], []
            for seconds in (0.0, TOKEN_SECONDS / 2, TOKEN_SECONDS):
                await model.clock.sleep(seconds)
                assert await store.transact([ADD], token="t") == Applied()
                seen.append((await store.get(Get(KEY)) or {})["value"]["N"])
            return seen

    assert loop.run(run) == ["1", "1", "2"]


def test_what_is_signed_too_late_is_not_sent() -> None:
    """A write past its `not_after` is not sent."""

    async def run() -> None:
        async with open_model(2, SEED) as model:
            store, limit = model.stores[REGIONS[0]], model.clock.now()
            await model.clock.sleep(1)
            with pytest.raises(SignedTooLate):
                await store.write(replace(ADD, not_after=limit))
            assert await store.get(Get(KEY)) is None

    loop.run(run)


def test_conflict_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that meets a conflict in each of its tries raises, having written nothing."""
    monkeypatch.setattr(Service, "admit", lambda *_: "conflict")

    async def run() -> None:
        async with open_model(2, SEED) as model:
            store = model.stores[REGIONS[0]]
            with pytest.raises(Throttled, match="still conflict after 8 tries"):
                await store.write(ADD)
            assert await store.get(Get(KEY)) is None

    loop.run(run)


BATCH = [Put({"pk": {"S": "x"}, "sk": {"S": f"{number:02}"}}) for number in range(25)]


@pytest.mark.parametrize("operation", ["write_batch", "write_each"])
def test_what_a_partition_does_not_take_of_a_batch_is_sent_again(operation: str) -> None:
    """Of 25 units it takes 20 at once, and the others a moment later."""

    async def run() -> tuple[float, int]:
        async with open_model(1, SEED) as model:
            store = model.stores[REGIONS[0]]
            answer = await getattr(store, operation)(BATCH)
            whole = BatchOutcome(), EachOutcome((Applied(),) * len(BATCH))
            assert answer in whole
            items = (await store.query(Query("x"))).items
            return summed(model.registry, "ledger_retries_total", cause="throttled"), len(items)

    assert loop.run(run) == (1, len(BATCH))


def test_the_rest_of_a_batch_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no try is taken of is told; of a batch that none is taken of nothing is written."""
    admit = Service.admit

    def refuse(service: Service, costs: Sequence[tuple[Key, int]], *when: float) -> str:
        return "throttled" if costs[0][0][1] >= "03" else admit(service, costs, *when)

    monkeypatch.setattr(Service, "admit", refuse)

    async def run() -> None:
        async with open_model(1, SEED) as model:
            store = model.stores[REGIONS[0]]
            assert (await store.write_batch(BATCH[:5])).unprocessed == (3, 4)
            with pytest.raises(Throttled, match="us-east-1: still throttled"):
                await store.write_batch(BATCH[3:5])
            each = (await store.write_each(BATCH[2:4])).outcomes
            assert each[0] == Applied()
            assert isinstance(each[1], Throttled)
            assert len((await store.query(Query("x"))).items) == 3

    loop.run(run)


def test_regions_that_are_cut_off_meet_when_they_heal() -> None:
    """Nothing arrives while all is cut; healing waits until everything has."""

    async def run() -> None:
        async with open_model(3, SEED) as model:
            stores = list(model.stores.values())
            model.cut()
            await stores[0].write(ADD)
            await anyio.sleep(60)
            assert [await store.get(Get(KEY)) is not None for store in stores] == [
                True,
                False,
                False,
            ]
            await model.heal()
            assert [await store.get(Get(KEY)) is not None for store in stores] == [True, True, True]

    loop.run(run)


def test_what_has_expired_is_deleted_everywhere() -> None:
    """TTL deletes an item once its time has passed, and leaves the others."""

    async def run() -> None:
        async with open_model(2, SEED) as model:
            store, clock = model.stores[REGIONS[0]], model.clock
            for name, seconds in (("soon", 10), ("later", 1000)):
                item = {"pk": {"S": name}, "sk": {"S": "x"}, EXPIRES: expiry(clock, seconds)}
                await store.write(Put(item))
            await store.write(ADD)
            await clock.sleep(60)
            model.expire()
            keys = (("soon", "x"), ("later", "x"), KEY)
            for region in model.stores.values():
                assert [await region.get(Get(key)) is not None for key in keys] == [
                    False,
                    True,
                    True,
                ]

    loop.run(run)


def expiry(clock: Clock, seconds: float) -> dict[str, str]:
    """Return when an item expires, as an attribute."""
    return {"N": str(int(clock.now().timestamp() + seconds))}
