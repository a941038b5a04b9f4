"""Budgets of tests: rights items and entries that name grants, as the edge writes them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from support.compacting import World, compactor_settings
from support.ledgers import HOME, SOUTH, WEST, make_services

from ledger.budgets.grant_closing import RegionViews
from ledger.budgets.region_access import RegionAccess
from ledger.budgets.rights import GrantName, Holder, Rights, rights_item, rights_of
from ledger.budgets.rights_plan import create, take
from ledger.budgets.spend_record import SpendRecord, spend_attributes
from ledger.core.clock_offset import RegionTime
from ledger.core.entry import Item, entry_id, entry_item
from ledger.core.ids import EPOCH
from ledger.core.values import Entry
from ledger.runtime.clock import Clock
from ledger.settings import Settings
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.testing.replicas import ManualWorld

AT_HOME, AT_WEST, AT_SOUTH = Holder(HOME), Holder(WEST), Holder(SOUTH)
LIFE = 60


def whole(*numbers: Decimal | int) -> list[int]:
    """Return exact numbers as ints, which they are."""
    assert all(number == int(number) for number in numbers)
    return [int(number) for number in numbers]


def seconds(at: datetime) -> int:
    """Return a time in whole seconds since 1970."""
    return int((at - EPOCH).total_seconds())


def exactly(now: float) -> RegionTime:
    """Return a time that is known exactly, in seconds since 1970."""
    return RegionTime(now, now)


def access_to(
    store: Store, settings: LiveSettings, *others: Store, clock: Clock | None = None
) -> RegionAccess:
    """Return access to budgets from one region, beside which there are these others."""

    async def opened() -> Mapping[str, Store]:
        return {other.region: other for other in others}

    return RegionAccess(store, settings, make_services(clock), opened)


def granted(
    holder: Holder,
    *amounts: int,
    at: datetime,
    minted: int = 100,
    life: int = LIFE,
    counter: str = "",
) -> Rights:
    """Return rights of a holder that granted these amounts at a time: versions 2, 3, ..."""
    rights = create(holder, Decimal(minted))
    for number, amount in enumerate(amounts):
        taken = take(
            rights,
            Decimal(amount),
            since=seconds(at),
            expires=seconds(at) + life,
            token=f"token {number}",
            counter=counter,
        )
        assert isinstance(taken, Rights)
        rights = taken
    return rights


def spend_item(
    amount: int,
    *grants: GrantName,
    at: datetime,
    suffix: int = 1,
    hold: int | None = None,
    counter: str = "counter",
) -> Item:
    """Return the entry of a spend, or of a hold that expires then."""
    key = str(entry_id(at, suffix))
    spend = SpendRecord(key, Decimal(amount), grants, hold)
    return {**entry_item(Entry(counter, key, Decimal(-amount))), **spend_attributes(spend)}


def put_rights(world: ManualWorld, rights: Rights, counter: str = "counter") -> None:
    """Write rights in their region, as they are."""
    world.put(rights.holder.region, rights_item(rights, counter))


def shown_rights(
    world: ManualWorld, holder: Holder, *, by: str = "", counter: str = "counter"
) -> Rights:
    """Return rights as a region shows them, by default their own."""
    key = (f"~budget~{counter}", holder.sort_key)
    item = world.replicas[by or holder.region].table.get(key)
    return Rights(holder) if item is None else rights_of(item)


def changed(rights: Rights, **fields: object) -> Rights:
    """Return rights with other fields, one version on."""
    return replace(rights, version=rights.version + 1, **fields)  # type: ignore[arg-type]


def limited_settings(*, on_expiry: str = "void", **overrides: Any) -> Settings:
    """Return settings of three regions in which "counter" and "team" have a budget."""
    rule = {"on_expiry": on_expiry}
    return compactor_settings(**overrides).replace(budgets={"counter": rule, "team": rule})


def regions_of(world: World, **overrides: Any) -> RegionViews:
    """Return the regions of a world, under the terms of `limited_settings`."""
    return RegionViews(world.regions.replicas, limited_settings(**overrides).terms, world.clock)
