"""The comparison of a region that leaves the table with those that stay, before its replica goes.

Nothing is written there any more once the announcement's wait is over. So an item that the region
goes on showing unchanged, and that one of the others does not show alike, has not replicated: it
was written there. What only has not arrived *there* yet changes within the time between two looks.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from ledger.contract.wait_report import Alone
from ledger.core.entry import Item, Key
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import run_all
from ledger.store.port import Store
from ledger.store.reads import EACH_GETS_MAX, Get, Scan

LOOKS_SECONDS = 10.0
"""Time between two looks at an item that differs; replication usually takes a second."""
SUSPECTS_MAX = 1_000
"""Items that are looked at again; a table with more of them has not replicated in any case."""


async def count_alone(leaving: Store, others: Sequence[Store], *, clock: Clock) -> Alone:
    """Return how many items a region shows that another does not show alike, though unchanged.

    Reads the whole table once in every region, with strong consistency.

    Raises:
        TableMissing: the region's replica is gone.
        StoreError: a region cannot be read.
    """
    suspects: dict[Key, Item] = {}
    scan, is_whole = Scan(consistent=True), False
    while not is_whole and len(suspects) < SUSPECTS_MAX:
        page = await leaving.scan(scan)
        suspects |= await _unlike({_key(item): item for item in page.items}, others)
        is_whole = page.after is None
        scan = scan if is_whole else scan.next(page)
    if not suspects:
        return Alone(0, is_whole)
    await clock.sleep(LOOKS_SECONDS)
    now = await _shown(leaving, [*suspects])
    unchanged = {key: item for key, item in suspects.items() if now[key] == item}
    return Alone(len(await _unlike(unchanged, others)), is_whole)


async def _unlike(items: Mapping[Key, Item], others: Sequence[Store]) -> dict[Key, Item]:
    """Return those of the items that one of the other regions does not show so."""
    reads = [partial(_shown, store, [*items]) for store in others]
    shown = await run_all(reads, at_once=len(reads)) if items and reads else []
    return {key: item for key, item in items.items() if any(there[key] != item for there in shown)}


async def _shown(store: Store, keys: Sequence[Key]) -> dict[Key, Item | None]:
    found: dict[Key, Item | None] = {}
    for start in range(0, len(keys), EACH_GETS_MAX):
        some = keys[start : start + EACH_GETS_MAX]
        read = await store.get_each([Get(key) for key in some])
        found |= zip(some, read.items, strict=True)
    return found


def _key(item: Item) -> Key:
    return item["pk"]["S"], item["sk"]["S"]
