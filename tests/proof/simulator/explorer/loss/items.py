"""Items of a small global table: every write of an item, and which of them each region shows.

The writes of an item are kept in the order of their stamps: the last writer wins, so a region that
shows one is never reached by an earlier one. A write is stamped later than what its own region
shows. Towards writes that have not arrived there it is later too, by time; but the lost region's
clock may be ahead, so that what it wrote counts as the later one wherever it has not arrived.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

GONE = -1
"""What a delete leaves."""
PAST = 3
"""The origin of what the lost region wrote before it was lost; it arrives late, or never."""
LOST = 0
"""The region that is lost."""
EVERYWHERE = -1
"""The origin of a write that has arrived in every region."""


class Item(NamedTuple):
    """What was written, with its origin, by stamp; of each region how many of these it has got."""

    writes: tuple[tuple[int, int], ...]
    got: tuple[int, ...]

    def shown(self, region: int) -> int | None:
        """Return what a region shows; None if it shows no such item."""
        place = self.got[region]
        what = self.writes[place - 1][0] if place else GONE
        return None if what == GONE else what

    def arrivals(self, region: int) -> Iterator[tuple[int, int]]:
        """Yield place and origin of each write that may still arrive in a region."""
        for place in range(self.got[region], len(self.writes)):
            yield place, self.writes[place][1]

    def arrived(self, region: int, place: int) -> "Item":
        """Return the item once this write has arrived in a region."""
        return self._replace(got=_with(self.got, region, place + 1))

    def written(self, region: int, what: int, *, ahead: frozenset[int]) -> Iterator["Item"]:
        """Yield the item once it is written in a region, for each order that stamps may have.

        `ahead` has the origins whose clock may be ahead of this region's.
        """
        first = 0 if region in ahead else self.got[region]
        for place in range(len(self.writes), first - 1, -1):
            yield self.inserted(region, what, place)
            if region in ahead or not place or self.writes[place - 1][1] not in ahead:
                return

    def inserted(self, region: int, what: int, place: int) -> "Item":
        """Return the item once it is written in a region, with a stamp that takes this place."""
        writes = (*self.writes[:place], (what, region), *self.writes[place:])
        got = tuple(one + (one > place) for one in self.got)
        return Item(writes, _with(got, region, place + 1))

    def lost(self, region: int) -> "Item":
        """Return the item once a region is lost."""
        writes = tuple((what, PAST if origin == region else origin) for what, origin in self.writes)
        return Item(writes, _with(self.got, region, 0))

    def copied(self, source: int, target: int) -> "Item":
        """Return the item once a new replica is made from a region's."""
        return self._replace(got=_with(self.got, target, self.got[source]))

    def tidy(self, live: Sequence[int], losable: frozenset[int]) -> "Item":
        """Return the item without writes that make no difference any more.

        Those that every region has got past; and of two that follow one another, with the same
        content, neither of a `losable` origin, the first: one arrives in place of the other.
        """
        writes, got = self.writes, self.got
        passed = min(got[region] for region in live)
        if passed:
            writes = ((writes[passed - 1][0], EVERYWHERE), *writes[passed:])
            got = tuple([max(0, one - passed + 1) for one in got])
        for place in range(len(writes) - 2, -1, -1):
            (what, origin), (then, after) = writes[place : place + 2]
            if what == then and origin not in losable and after not in losable:
                writes = (*writes[:place], *writes[place + 1 :])
                got = tuple([one - (one > place + 1) for one in got])
        if passed:
            writes = ((writes[0][0], EVERYWHERE), *writes[1:])
        return Item(writes, got)


def never_written(regions: int) -> Item:
    """Return an item that nothing has been written to."""
    return Item((), (0,) * regions)


def _with(got: tuple[int, ...], region: int, place: int) -> tuple[int, ...]:
    return (*got[:region], place, *got[region + 1 :])
