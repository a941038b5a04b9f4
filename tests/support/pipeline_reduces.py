"""Other ways to reduce, for their cost beside ours; each says what it does not survive."""

from collections.abc import Sequence
from datetime import datetime

from ledger.core.ids import suffix_of
from ledger.pipeline.core.category_sums import total
from ledger.pipeline.core.items import MapItem
from ledger.pipeline.core.plans import plan_reduce
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.store.writes import BATCH_WRITES_MAX, BatchWrite, Delete, Put, Update
from ledger.writes.entry_plan import Change, plan_entry


async def by_transaction(
    store: Store, items: Sequence[MapItem], settings: Settings, now: datetime
) -> None:
    """Reduce as the pipeline does: entries and conditional deletes in one transaction."""
    made = plan_reduce(items, region=store.region, settings=settings, now=now)
    await store.transact(made.actions, token=made.token)


async def by_batches(
    store: Store, items: Sequence[MapItem], settings: Settings, now: datetime
) -> None:
    """Put entries under ids that follow from the map items, then delete these, by plain batches.

    Harmless to repeat within the retry horizon of the ids, whose time has to lie in the map items:
    a reducer that was away for longer cannot tell any more which entries were merged meanwhile.
    """
    name = "".join(sorted(item.key[1] for item in items))
    puts: list[BatchWrite] = [
        Put(
            plan_entry(
                Change(category, change),
                region=store.region,
                settings=settings,
                now=now,
                suffix=suffix_of(category, name),
            ).item
        )
        for category, change in total(item.changes for item in items).items()
    ]
    deletes: list[BatchWrite] = [Delete(item.key, size_bytes=item.size_bytes) for item in items]
    for writes in (puts, deletes):
        for start in range(0, len(writes), BATCH_WRITES_MAX):
            await store.write_batch(writes[start : start + BATCH_WRITES_MAX])


async def by_adding(
    store: Store, items: Sequence[MapItem], _settings: Settings, _now: datetime
) -> None:
    """Add to one item per category in one transaction, as the published pipeline does.

    Exact for ten minutes by the token, in one region: two that add lose updates of each other.
    """
    adds = [
        Update((category, "total"), add={"change": {"N": str(change)}})
        for category, change in total(item.changes for item in items).items()
    ]
    deletes = [Delete(item.key, size_bytes=item.size_bytes) for item in items]
    await store.transact([*adds, *deletes], token="".join(sorted(i.key[1] for i in items))[4:40])
