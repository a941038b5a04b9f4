"""What this process has seen merged: a net that vanishes, or counts less, is damage, not a total.

A net only ever counts more, in every region: each replaces the previous one, and a region shows
them in that order. Only a higher generation, made after a home was lost, may begin with less. So
every read compares the net with what an earlier read has shown. What was seen is taken before a
read begins (`of`), because reads overlap; only strongly consistent reads can judge.

Pure: no clock, no randomness, no I/O.
"""

from collections import OrderedDict
from dataclasses import dataclass

from ledger.core.errors import NetVanished
from ledger.core.values import NetChange

NETS_MAX = 100_000
"""Nets remembered; the least recently seen is forgotten first."""


@dataclass(frozen=True, slots=True)
class SeenNet:
    """Generation and count of a net."""

    generation: int
    count: int


class SeenNets:
    """The nets that one process has seen, by region and partition."""

    def __init__(self, nets_max: int = NETS_MAX) -> None:
        self._nets_max = nets_max
        self._seen: OrderedDict[tuple[str, str], SeenNet] = OrderedDict()

    def of(self, region: str, partition: str) -> SeenNet | None:
        """Return what was seen of a collection; to be called before it is read again."""
        return self._seen.get((region, partition))

    def is_whole(self, net: NetChange | None, before: SeenNet | None) -> bool:
        """Return whether a net counts at least what was seen before it was read."""
        if before is None:
            return True
        shown = (0, 0) if net is None else (net.generation, net.count)
        return shown[0] > before.generation or (
            shown[0] == before.generation and shown[1] >= before.count
        )

    def look(
        self, region: str, partition: str, net: NetChange | None, before: SeenNet | None
    ) -> None:
        """Remember the net that a strongly consistent read has shown.

        Raises:
            NetVanished: it is gone, or counts less than what was seen before the read began.
        """
        if before is not None and not self.is_whole(net, before):
            raise NetVanished(
                f"counter {partition!r} in {region}: the net change counted {before.count:,} merged"
                f" entries, and now {'is gone' if net is None else f'counts {net.count:,}'}: an"
                " item was deleted or overwritten; restore it, or if that was meant, start this"
                " process again"
            )
        if net is None or not net.count:
            return
        key = (region, partition)
        latest = self._seen.get(key)
        if latest is None or (net.generation, net.count) > (latest.generation, latest.count):
            self._seen[key] = SeenNet(net.generation, net.count)
        self._seen.move_to_end(key)
        while len(self._seen) > self._nets_max:
            self._seen.popitem(last=False)
