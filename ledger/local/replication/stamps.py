"""What a global table does with concurrent writes to one item: the last writer wins, whole.

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

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ledger.local.engines.port import Change, KeyToken


class Stamp(NamedTuple):
    """When and where an item was last written; the larger one wins."""

    nanoseconds: int
    region: str


OLDEST = Stamp(0, "")


@dataclass(frozen=True, slots=True)
class Shipment:
    """One item's change on its way to another region."""

    change: Change
    token: KeyToken
    stamp: Stamp


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
        self, region: str, change: Change, token: KeyToken, *, now_nanoseconds: int
    ) -> Shipment:
        """Stamp a write that was just committed in `region`."""
        held = self._table(region, change.table).get(token)
        after_held = held.stamp.nanoseconds + 1 if held else 0
        stamp = Stamp(max(now_nanoseconds, after_held), region)
        shipment = Shipment(change, token, stamp)
        self._hold(region, shipment)
        return shipment

    def accept(self, region: str, shipment: Shipment) -> bool:
        """Take an arriving change over if it is newer than what `region` holds."""
        held = self._table(region, shipment.change.table).get(shipment.token)
        if held is not None and shipment.stamp <= held.stamp:
            return False
        self._hold(region, shipment)
        return True

    def stamp(self, region: str, table: str, token: KeyToken) -> Stamp:
        """Return the stamp of an item; the oldest possible if it was never stamped."""
        held = self._table(region, table).get(token)
        return held.stamp if held else OLDEST

    def deleted(self, region: str, table: str) -> Iterator[tuple[KeyToken, Stamp]]:
        """Walk the tombstones of a table."""
        for token, held in self._table(region, table).items():
            if held.tombstone:
                yield token, held.stamp

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

    def _hold(self, region: str, shipment: Shipment) -> None:
        stamps = self._table(region, shipment.change.table)
        before = stamps.get(shipment.token)
        tombstone = shipment.change.image is None
        self.tombstones += tombstone - (before.tombstone if before else False)
        stamps[shipment.token] = _Held(shipment.stamp, tombstone)


def newest_per_item(shipments: list[Shipment]) -> list[Shipment]:
    """Keep of each item only the last of these, which were accepted in this order."""
    return list({(item.change.table, item.token): item for item in shipments}.values())
