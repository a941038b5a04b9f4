"""What must hold of entries that a call makes once: reversals, and corrections by counts.

- No region is ever shown two entries of one call, whichever of it is late or lost.
- An entry that a call says was made, now or before, has reached the call's region, or one that is
  not lost.
- A region shows the sum of what has reached it, each once, as of any counter.
- At rest a reversed entry and its reversal come to nothing, in every region alike, and both are
  merged. In a world that loses a region this is not asked of a key with two changes: which of them
  counts may differ between regions, and change once more.

Items are decoded here, without the code that makes them.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ledger.core.entry import Item

REVERSED, COUNTED = "reversed", "counted"
COUNTERS = (REVERSED, COUNTED)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Tables = Mapping[str, Mapping[str, Mapping[str, Item]]]


@dataclass
class CorrectionAudit:
    """The audit of one world; `lost` are the regions of which nothing is promised any more."""

    fail: Callable[[str, str], None]
    lost: AbstractSet[str]
    _shown: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    _of_two: set[str] = field(default_factory=set)
    _reversals: dict[str, str] = field(default_factory=dict)
    _made: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def has(self, counter: str) -> bool:
        """Return whether a counter is judged here."""
        return counter in COUNTERS

    def changed(self, region: str, partition: str, items: Mapping[str, Item]) -> None:
        """Register what a region shows, and check that it is the sum of what it has shown."""
        if partition not in COUNTERS:
            return
        nets = [sort_key for sort_key, item in items.items() if "merged" in item]
        net = items[max(nets)] if nets else None
        total, named = 0, frozenset[str]()
        if net is not None:
            total, named = int(net["change"]["N"]), frozenset(_ids(net["merged"]["B"]))
        for sort_key, item in items.items():
            # What is named counts as it was merged, whatever arrives under its key once more.
            if "merged" not in item and _packed(sort_key) not in named:
                total += int(item["change"]["N"])
                self._register(region, partition, sort_key, item)
        shown = self._shown.get(region, {}).get(partition, {})
        expected = sum(shown.values())
        if total != expected and not self._open & shown.keys():
            self.fail("P1", f"{region} shows {partition} as {total}, and has shown {expected}")

    def _register(self, region: str, counter: str, sort_key: str, item: Item) -> None:
        here = self._shown.setdefault(region, {}).setdefault(counter, {})
        change = int(item["change"]["N"])
        if here.setdefault(sort_key, change) != change:
            self._of_two.add(sort_key)
        here[sort_key] = change
        call = item.get("reverses", item.get("token", {})).get("S")
        if call is None:
            return
        if "reverses" in item:
            self._reversals[sort_key] = call
        first = self._made.setdefault((region, counter, call), sort_key)
        if first != sort_key:
            self.fail("once", f"{region} is shown {first} and {sort_key}, both of call {call}")

    @property
    def _open(self) -> AbstractSet[str]:
        """The ids of one key with two changes, of which a lost region's may yet come, or not."""
        return self._of_two if self.lost else frozenset()

    def answered(self, counter: str, entry: str, *, repeated: bool, who: str) -> None:
        """Check what a call through region `who` says that it made, or that an earlier one did.

        A process that stood still may say so after its region is lost: then that region counts.
        """
        asked = [here for name, here in self._shown.items() if name == who or name not in self.lost]
        if not any(entry in here.get(counter, {}) for here in asked):
            said = "was made before" if repeated else "is made"
            self.fail("once", f"{who} says that {entry} {said}: no region has it")

    def is_small(self, tables: Tables) -> bool:
        """Return whether everything is merged in every region that is not lost."""
        return not any(
            "merged" not in item
            for table in tables.values()
            for counter in COUNTERS
            for item in table.get(counter, {}).values()
        )

    def check_rest(self, tables: Tables) -> None:
        """Check what must hold once everything has arrived and been merged."""
        remaining = {
            region: self._shown.get(region, {}) for region in tables if region not in self.lost
        }
        for counter in COUNTERS:
            shown = {
                region: {
                    key: each
                    for key, each in here.get(counter, {}).items()
                    if key not in self._open
                }
                for region, here in remaining.items()
            }
            if any(each != next(iter(shown.values())) for each in shown.values()):
                self.fail("P2", f"regions differ in {counter}: {shown}")
        for region, here in remaining.items():
            entries = here.get(REVERSED, {})
            for reversal, entry in self._reversals.items():
                left = entries.get(reversal, 0) + entries.get(entry, 0)
                if reversal in entries and left and entry not in self._open:
                    self.fail("once", f"{region}: {entry} and {reversal} come to more than nothing")
        if not self.is_small(tables):
            self.fail("P4", "a reversal or a correction is not merged")


def _ids(packed: bytes) -> list[str]:
    return [packed[at : at + 16].hex() for at in range(0, len(packed), 16)]


def _packed(sort_key: str) -> str:
    """Return how a net names an id, in hexadecimal digits."""
    at = datetime.fromisoformat(f"{sort_key[:26]}+00:00")
    microseconds = (at - _EPOCH) // timedelta(microseconds=1)
    return f"{microseconds:016x}{sort_key[28:]}"
