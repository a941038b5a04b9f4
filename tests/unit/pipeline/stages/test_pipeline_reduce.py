"""What a reduce adds to sums: each map item once, and nothing that a sum has no room for."""

from collections.abc import Sequence

import pytest
from support.lanes import lane_worker
from support.ledgers import HOME
from support.pipelines import RAWS, deliveries, map_items, shown, truth

from ledger.core.amounts import EXACT, to_text
from ledger.core.errors import AmountOverflow
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import Action, Outcome, Put, Update


async def test_a_category_goes_over_without_a_stop() -> None:
    """Entries of before stay and count; what is reduced from now on is added to the sum."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries(RAWS[:1]), store, totals="entries").run()
    await lane_worker(deliveries(RAWS), store).run()
    assert shown(store.table) == truth(RAWS)
    kinds = {key[:5] for key in store.table.partitions["risk/Delta"]}
    assert kinds == {"2026-", "~sum#"}
    await lane_worker(deliveries(RAWS), store, lane="back", totals="entries").run()
    assert shown(store.table) == truth(RAWS)


async def test_a_sum_without_room_stops_the_lane() -> None:
    """The map items wait, and the total stays what it was."""
    store = MemoryStore(HOME)
    full = {"value": {"N": "99999999999999999999999"}, "version": {"N": "1"}}
    await store.write(Put({"pk": {"S": "risk/Delta"}, "sk": {"S": f"~sum#{HOME}.1#0"}, **full}))
    with pytest.raises(AmountOverflow, match="risk/Delta"):
        await lane_worker(deliveries(RAWS), store).run()
    assert map_items(store.table) != []


async def test_a_sum_that_another_filled_by_the_same_items_stops_nothing() -> None:
    """It has no room left for what it has got already, and the map items are gone."""
    store, change = MemoryStore(HOME), truth(RAWS)["risk/Delta"]
    room = {"value": {"N": to_text(EXACT.subtract(10**23 - 1, change))}, "version": {"N": "1"}}
    await store.write(Put({"pk": {"S": "risk/Delta"}, "sk": {"S": f"~sum#{HOME}.1#0"}, **room}))

    class Twice(ForwardingStore):
        async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
            if any(isinstance(own, Update) and own.key[0] == "risk/Delta" for own in actions):
                await super().transact(actions)
            return await super().transact(actions, token=token)

    await lane_worker(deliveries(RAWS), Twice(store), batch_max=len(RAWS)).run()
    assert map_items(store.table) == []
    assert shown(store.table)["risk/Delta"] == 10**23 - 1
