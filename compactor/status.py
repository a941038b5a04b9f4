"""The compactor's lease as each region shows it, who leads how many slices, and the last passes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from compactor.observe import lease_name
from compactor.pass_record import SEARCHED, SUCCEEDED, PassRecord, Recorded, recorded_passes
from compactor.sharing import read_directory
from compactor.slices import HEAD, NO_MEMBER, is_marked
from ledger.administration.contract import show
from ledger.core.errors import StoreError
from ledger.primitives.leases.lease_rules import LeaseRecord, lease_key, record_of
from ledger.runtime.tasks import run_all
from ledger.settings import Settings
from ledger.store.connections import open_store
from ledger.store.port import Store
from ledger.store.reads import Get


@dataclass(frozen=True, slots=True)
class CompactorStatus:
    """The lease as each region shows it: None for no lease yet, an error if it cannot be read.

    `led` is how many slices each process leads by what home shows; slices without a leader are
    under the empty name. It is empty if no process divides the collections, or home cannot be read.
    `passes` are those recorded, the newest first, by home or else a region that can be read.
    `hidden_by` is home if it cannot be read and no other region shows a pass.
    """

    table: str
    lease: str
    regions: Mapping[str, LeaseRecord | StoreError | None]
    led: Mapping[str, int]
    passes: Sequence[Recorded] = ()
    hidden_by: str = ""

    @property
    def newest(self) -> Sequence[Recorded]:
        """The last pass of each member."""
        found: dict[str, Recorded] = {}
        for recorded in self.passes:
            found.setdefault(recorded.member, recorded)
        return list(found.values())

    @property
    def last_success(self) -> PassRecord | None:
        """The last pass that succeeded."""
        return self._last(SUCCEEDED)

    @property
    def last_search(self) -> PassRecord | None:
        """The last pass that searched the whole table, or a part of it."""
        return self._last(SEARCHED)

    @property
    def lag_seconds(self) -> Mapping[str, float]:
        """The replication lag of each region, as the last pass measured it."""
        shown = (recorded.record.lag_seconds for recorded in self.passes if recorded.record)
        return next((lag for lag in shown if lag), {})

    def _last(self, kind: str) -> PassRecord | None:
        return next(
            (
                recorded.record
                for recorded in self.passes
                if recorded.kind == kind and recorded.record
            ),
            None,
        )


async def status_of(settings: Settings) -> CompactorStatus:
    """Read the lease in every region that the table's contract names, or else the settings."""
    newest = (await show(settings)).newest
    if newest is not None:
        settings = settings.under(newest.obeyed, home=newest.terms.home)
    async with AsyncExitStack() as stack:
        stores = {
            region: await stack.enter_async_context(open_store(settings, region))
            for region in settings.regions
        }
        return await status_in(stores, settings)


async def status_in(stores: Mapping[str, Store], settings: Settings) -> CompactorStatus:
    """Read the lease in every region, through its open store; settings are under the contract."""
    name = lease_name(settings)
    # Concurrently: a region that hangs delays the answer once, not for each in turn.
    jobs = [partial(_lease, store, name) for store in stores.values()]
    shown = dict(zip(stores, await run_all(jobs, at_once=len(jobs)), strict=True))
    home = stores[settings.home]
    led = await _led(home, name, shown[settings.home], settings.compactor.slices)
    # A pass recorded at home may not have arrived elsewhere yet.
    passes: Sequence[Recorded] = ()
    for region in settings.home_first:
        if not passes and not isinstance(shown[region], StoreError):
            passes = await recorded_passes(stores[region], name)
    is_hidden = not passes and isinstance(shown[settings.home], StoreError)
    hidden_by = settings.home if is_hidden else ""
    return CompactorStatus(settings.table, name, shown, led, passes, hidden_by)


async def _lease(store: Store, name: str) -> LeaseRecord | StoreError | None:
    try:
        item = await store.get(Get(lease_key(name)))
    except StoreError as error:
        return error
    return None if item is None else record_of(item)


async def _led(
    store: Store, name: str, shown: LeaseRecord | StoreError | None, slices: int
) -> Mapping[str, int]:
    if not isinstance(shown, LeaseRecord) or not is_marked(shown.data, shown.owner, slices):
        return {}
    directory = await read_directory(store, name, slices)
    names = {HEAD: shown.owner, NO_MEMBER: ""}
    for member, item in directory.members.items():
        names[member] = record_of(item).owner
    return Counter(names.get(owned.owner, "") for owned in directory.slices)
