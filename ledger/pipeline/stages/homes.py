"""Which region keeps the states of a pipeline without patterns: the table's home, when it began.

The home of the table may move while the pipeline lives. Its states stay where they are: the region
is in the pipeline's registry, written once, through the table's home. When that region has left the
table, the home of then takes its place, and the states as it shows them.
"""

from collections.abc import Mapping

from ledger.core.entry import Item, damaged
from ledger.core.errors import Unreachable
from ledger.pipeline.core.adapting import form_of
from ledger.pipeline.core.registry import home_item, home_key
from ledger.settings import Settings
from ledger.store.conditions import Absent, Equals
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Put

TRIES_MAX = 10


async def regions_of(store: Store, settings: Settings) -> set[str]:
    """Return the regions that a lane of the store's region has to reach.

    Raises:
        SettingsError: no category is configured.
        StoreError: the table cannot be read.
    """
    form = form_of(settings)
    needed = {store.region, *form.homes}
    if form.has_patterns:
        return needed
    kept = await store.get(Get(home_key(settings.pipeline.name)))
    return needed | ({_region(kept)} & settings.regions.keys() if kept else set())


async def settled_home(stores: Mapping[str, Store], own: Store, settings: Settings) -> str:
    """Return the region that keeps the states of the pipeline; the first to ask settles it.

    Raises:
        StoreError: it cannot be read, or not be settled.
    """
    key, at_home = home_key(settings.pipeline.name), stores[settings.home]
    found = await own.get(Get(key))
    for _ in range(TRIES_MAX):
        if found is not None and _region(found) in settings.regions:
            return _region(found)
        found = await at_home.get(Get(key))
        if found is not None and _region(found) in settings.regions:
            return _region(found)
        before = Equals("region", {"S": _region(found)}) if found else Absent()
        await at_home.write(Put(home_item(settings.home, settings.pipeline.name), before))
        found = await at_home.get(Get(key))
    raise Unreachable(f"the home of the pipeline was not settled in {TRIES_MAX} tries")


def _region(item: Item) -> str:
    region = item.get("region", {}).get("S")
    if not isinstance(region, str):
        raise damaged(item, "the home of a pipeline needs its region")
    return region
