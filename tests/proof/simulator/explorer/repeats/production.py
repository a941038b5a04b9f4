"""The production code, called for entries old and young: `plan_merge`, `succeed`, `total`.

As in `explorer.production`: integers become ids, nets and observations, and results integers again.
A net is one integer: three bits an entry, how often it counts it and whether it names it. Entry
number i has the amount 8**i.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from compactor.merge_plan import MergeRules, Observation
from compactor.succession import succeed
from ledger.core.fold import Collection, named_by
from ledger.core.ids import EPOCH, MICROSECOND, EntryId, EntryIds
from ledger.core.values import NetChange
from proof.simulator.explorer.production import (
    NET_BITS,
    NOW,
    PARTITION,
    REGIONS,
    Deciding,
)

NAMED = 0b100
COUNT = 0b11
_NET_MASK = (1 << NET_BITS) - 1
_YOUNG = (NOW - EPOCH) // MICROSECOND - 1_000

View = tuple[int, int]
"""The entries (bits) that a region shows, and the number of its net; 0 for no net."""


class Question(NamedTuple):
    """What a leader has seen, of each region that is read.

    `base` is the number of the net that was read first; `nets` has the contents of all, oldest
    first. `old` entries (bits) are older than `settle`; `may` are those and the answered ones.
    `lost` if the table has lost a region, `remembered` if it knows what that may have written.
    """

    base: int
    views: tuple[View, ...]
    nets: tuple[int, ...]
    old: int
    may: int
    lost: bool = False
    remembered: bool = False


class Decision(NamedTuple):
    """Entries (bits) to delete, and to put again, by region; and a net to put, None for none."""

    deletes: tuple[int, ...]
    again: tuple[int, ...]
    fold: int | None

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not any(self.deletes) and not any(self.again) and self.fold is None


class ProductionCode:
    """Calls the production code and caches its results."""

    def __init__(self, *, entries: int, deciding: Deciding) -> None:
        self._entries = range(entries)
        self._amounts = [1 << (NET_BITS * number) for number in self._entries]
        self._deciding = deciding
        self._counts: dict[tuple[int, int | None], tuple[int, ...]] = {}
        self._decisions: dict[Question, Decision] = {}

    def counts(self, visible: int, content: int | None) -> tuple[int, ...]:
        """Return how often a total counts each entry; `content` is that of the net, if any."""
        question = visible, content
        answer = self._counts.get(question)
        if answer is None:
            ids = self._ids(visible)
            net = None if content is None else self._net(content, 1, ids)
            total = int(self._collection(visible, net, ids).total())
            answer = self._counts[question] = self._digits(total)
        return answer

    def decision(self, question: Question) -> Decision:
        """Return what is decided on an observation."""
        answer = self._decisions.get(question)
        if answer is None:
            answer = self._decisions[question] = self._decide(question)
        return answer

    def _decide(self, asked: Question) -> Decision:
        """Decide; only in what may be merged does an answered entry count as old."""
        rules = MergeRules(REGIONS[0], 1.0, len(self._entries), 1, 0.0, 1)
        if asked.remembered:
            rules = replace(rules, given_up=NOW)
        ids = self._ids(asked.may)
        plan = self._deciding(self._observed(asked, ids), rules, "new")
        regions = REGIONS[: len(asked.views)]
        deletes = tuple(
            _bits(plan.deletes if not place else (), ids) for place in range(len(regions))
        )
        again = (0,) * len(regions)
        if asked.lost:
            own = self._ids(asked.old)
            found = succeed(self._observed(asked, own), rules, now=NOW, version="new")
            left = found.deletes or {}
            deletes = tuple(_bits(left.get(region, ()), own) for region in regions)
            puts = [[put.key for put in found.again if put.region == region] for region in regions]
            again = tuple(_bits(some, own) for some in puts)
        fold = None if plan.fold is None else self._content(plan.fold, ids)
        return Decision(deletes, again, fold)

    def _ids(self, old: int) -> list[EntryId]:
        """Return ids of which these entries (bits) have old ones."""
        return [
            EntryId(number + 1 if old >> number & 1 else _YOUNG + number + 1, number + 1)
            for number in self._entries
        ]

    def _observed(self, asked: Question, ids: Sequence[EntryId]) -> Observation:
        nets = [
            None,
            *(self._net(content, slot, ids) for slot, content in enumerate(asked.nets, start=1)),
        ]
        views = {
            name: self._collection(visible, nets[slot], ids)
            for name, (visible, slot) in zip(REGIONS, asked.views, strict=False)
        }
        return Observation(PARTITION, nets[asked.base], views)

    def _collection(
        self, visible: int, net: NetChange | None, ids: Sequence[EntryId]
    ) -> Collection:
        shown = {
            str(ids[number]): Decimal(self._amounts[number])
            for number in self._entries
            if visible >> number & 1
        }
        return Collection(shown, net)

    def _net(self, content: int, slot: int, ids: Sequence[EntryId]) -> NetChange:
        parts = [content >> (NET_BITS * number) & _NET_MASK for number in self._entries]
        counts = [part & COUNT for part in parts]
        named = [str(ids[number]) for number in self._entries if parts[number] & NAMED]
        change = sum(map(int.__mul__, counts, self._amounts))
        merged = EntryIds.of_sort_keys(sorted(named))
        return NetChange(Decimal(change), sum(counts), merged, f"v{slot}", "", REGIONS[0])

    def _content(self, net: NetChange, ids: Sequence[EntryId]) -> int:
        named = _bits(named_by(net), ids)
        return sum(
            (count | (NAMED if named >> number & 1 else 0)) << (NET_BITS * number)
            for number, count in enumerate(self._digits(int(net.change)))
        )

    def _digits(self, total: int) -> tuple[int, ...]:
        return tuple(total >> (NET_BITS * number) & _NET_MASK for number in self._entries)


def _bits(keys: Sequence[str], ids: Sequence[EntryId]) -> int:
    """Return which entries (bits) have one of these sort keys."""
    return sum((str(one) in keys) << number for number, one in enumerate(ids))
