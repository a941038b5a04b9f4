"""How a global table treats concurrent writes to one item: the last writer wins, whole.

Every committed write of an item gets a stamp: nanoseconds, never less than the stamp held there
plus one, and the region that wrote. Stamps are ordered by time, then by the name of the region, so
any two regions reach the same result in any order of arrival::

    us-east-1   put x=1 (t=10) ------------------.            x=2
    eu-west-1          put x=2 (t=12) ---.        `-> t=10 < 12: dropped
                                          `-> t=12 > 10: applied

A delete leaves its stamp behind (a tombstone), or an older put still on its way would bring the
item back. Source: Amazon DynamoDB Developer Guide, "Global tables: how it works" (MREC).

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ledger.local.engines.port import ItemChange, KeyToken


class Stamp(NamedTuple):
    """When and where an item was last written; the larger one wins."""

    nanoseconds: int
    region: str


OLDEST = Stamp(0, "")


@dataclass(frozen=True, slots=True)
class Shipment:
    """One item's change on its way to another region, of the global table numbered `group`.

    A table that is deleted and made again under its old name is of another group.
    """

    change: ItemChange
    token: KeyToken
    stamp: Stamp
    group: int


@dataclass(frozen=True, slots=True)
class _Held:
    stamp: Stamp
    tombstone: bool


class Versions:
    """The stamps held in every region, of items that are there and of those deleted."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], dict[KeyToken, _Held]] = {}
        self.tombstones = 0

    def commit(
        self, region: str, change: ItemChange, token: KeyToken, *, group: int, now_nanoseconds: int
    ) -> Shipment:
        """Stamp a write that was just committed in `region`."""
        held = self._table(region, change.table).get(token)
        after_held = held.stamp.nanoseconds + 1 if held else 0
        stamp = Stamp(max(now_nanoseconds, after_held), region)
        shipment = Shipment(change, token, stamp, group)
        self.hold(region, shipment)
        return shipment

    def newest(self, region: str, shipments: Iterable[Shipment]) -> list[Shipment]:
        """Return of each item the newest of these, if it is newer than what `region` holds.

        Nothing is held yet: `hold` each once the engine has it.
        """
        chosen: dict[tuple[str, KeyToken], Shipment] = {}
        for shipment in shipments:
            place = (shipment.change.table, shipment.token)
            rival = chosen.get(place)
            if self._is_newer(region, shipment) and (rival is None or shipment.stamp > rival.stamp):
                chosen[place] = shipment
        return list(chosen.values())

    def hold(self, region: str, shipment: Shipment) -> None:
        """Take over the stamp of a change that `region` has."""
        stamps = self._table(region, shipment.change.table)
        before = stamps.get(shipment.token)
        tombstone = shipment.change.image is None
        self.tombstones += tombstone - (before.tombstone if before else False)
        stamps[shipment.token] = _Held(shipment.stamp, tombstone)

    def _is_newer(self, region: str, shipment: Shipment) -> bool:
        held = self._table(region, shipment.change.table).get(shipment.token)
        return held is None or shipment.stamp > held.stamp

    def stamp(self, region: str, table: str, token: KeyToken) -> Stamp:
        """Return the stamp of an item; the oldest possible if it was never stamped."""
        held = self._table(region, table).get(token)
        return held.stamp if held else OLDEST

    def has(self, region: str, table: str, token: KeyToken) -> bool:
        """Return whether a region has an item, by its stamp."""
        held = self._table(region, table).get(token)
        return held is not None and not held.tombstone

    def deleted(self, region: str, table: str) -> Iterator[tuple[KeyToken, Stamp]]:
        """Walk the tombstones of a table."""
        for token, held in self._table(region, table).items():
            if held.tombstone:
                yield token, held.stamp

    def present(self, region: str, table: str) -> frozenset[KeyToken]:
        """Return the items of a table that were stamped and not deleted."""
        stamps = self._table(region, table)
        return frozenset(token for token, held in stamps.items() if not held.tombstone)

    def known(self, region: str, table: str) -> frozenset[KeyToken]:
        """Return the items of a table that were stamped, those that were deleted among them."""
        return frozenset(self._table(region, table))

    def forget(self, region: str, table: str) -> None:
        """Forget a table that is gone."""
        gone = self._held.pop((region, table), {})
        self.tombstones -= sum(held.tombstone for held in gone.values())

    def forget_tombstones(self) -> None:
        """Forget all tombstones: right only while nothing is on its way anywhere."""
        for place, stamps in self._held.items():
            self._held[place] = {
                token: held for token, held in stamps.items() if not held.tombstone
            }
        self.tombstones = 0

    def _table(self, region: str, table: str) -> dict[KeyToken, _Held]:
        return self._held.setdefault((region, table), {})
