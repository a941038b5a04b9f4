"""`RegionAccess`: how parts read and write budgets through any region of the table."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from ledger.budgets.limit_windows import BudgetLimit, newest_of
from ledger.budgets.rights import Holder, Rights, holder_in
from ledger.budgets.rights_items import ControlItems
from ledger.core.errors import StoreError, Unreachable
from ledger.runtime.services import Services
from ledger.runtime.tasks import run_requests
from ledger.runtime.validity import signed_within
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.retrier import DEADLINE_BACKOFF, Retrier, Tries


@dataclass(frozen=True, slots=True)
class RegionAccess:
    """The store of one region; `others` opens those of the other regions when they are needed."""

    store: Store
    settings: LiveSettings
    services: Services
    others: Callable[[], Awaitable[Mapping[str, Store]]]

    async def store_of(self, region: str) -> Store:
        """Return the store of a region, through which nothing is written by a clock that is off.

        Raises:
            Unreachable: it cannot be reached from here.
        """
        stores = {self.store.region: self.store}
        if region not in stores:
            stores.update(await self.others())
        if region not in stores:
            raise Unreachable(f"region {region} cannot be reached from here")
        return self.items(stores[region]).store

    def items(self, store: Store) -> ControlItems:
        """Return the control items of budgets in the region of a store."""
        return ControlItems(store, settings=self.settings, services=self.services)

    @property
    def here(self) -> ControlItems:
        """The control items of budgets in this region."""
        return self.items(self.store)

    @property
    def holder(self) -> Holder:
        """The holder of this region."""
        return holder_in(self.store.region, self.settings.current.terms)

    @property
    def holders(self) -> list[Holder]:
        """The holders of all regions that may be written to."""
        terms = self.settings.current.terms
        return [holder_in(region, terms) for region in terms.written]

    def new_token(self) -> str:
        """Return a token by which a grant that is asked for is known, should no answer come."""
        return f"{self.services.randomness.getrandbits(64):016x}"

    def signed(self) -> signed_within:
        """Sign the requests within under the contract as this process knows it now."""
        return signed_within(self.settings.validity, self.services.clock)

    async def items_everywhere(self) -> dict[str, ControlItems]:
        """Return those of each region that can be reached."""
        stores = {self.store.region: self.store, **await self.others()}
        return {region: self.items(store) for region, store in stores.items()}

    async def limit_of(self, budget: str, home: ControlItems) -> BudgetLimit | None:
        """Return the limit of a budget as home shows it; None if it has none.

        Until home has written it in its own generation of the contract that is the newest that any
        region shows: of what a lost home wrote home may have got less than others.

        Raises:
            DamagedItem: a control item cannot be read whole.
            StoreError: a region cannot be reached, or read.
        """
        limit = (await home.read(budget)).limit
        terms = self.settings.current.terms
        if terms.generation == 1 or (limit and limit.generation >= terms.generation):
            return limit
        everywhere = await self.items_everywhere()
        if unreached := sorted({*terms.regions} - {*everywhere}):
            raise Unreachable(f"region {unreached[0]} cannot be reached from here")
        others = [items for region, items in everywhere.items() if region != home.store.region]
        return newest_of([limit, *[(await items.read(budget)).limit for items in others]])

    async def left(self, counter: str) -> list[Rights] | None:
        """Return after a loss the newest version of each rights item that any region shows.

        None where nothing was lost, or while a region cannot be read: it may show a newer one.

        Raises:
            DamagedItem: an item cannot be read whole.
        """
        terms = self.settings.current.terms
        regions = await self.items_everywhere() if terms.lost else {}
        if not terms.lost or {*terms.regions} - {*regions}:
            return None
        reads = [partial(items.read, counter) for items in regions.values()]
        try:
            shown = await run_requests(reads, at_once=len(reads))
        except StoreError:
            return None
        items = [rights for there in shown for rights in there.items.values()]
        newest_last = sorted(items, key=lambda rights: rights.version)
        return list({rights.holder: rights for rights in newest_last}.values())

    def tries(self, store: Store, *, seconds: float) -> Tries:
        """Begin a write through a store that is repeated for so many seconds."""
        clock, randomness = self.services.clock, self.services.randomness
        retrier = Retrier.of(store, clock=clock, randomness=randomness, backoff=DEADLINE_BACKOFF)
        return retrier.begin("write", deadline=clock.monotonic() + seconds)
