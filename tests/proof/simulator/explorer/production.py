"""The production code for small cases: `compactor.merge_plan.plan_merge`, `Collection.total`.

The explorer keeps states as small integers. Here they become real entries, net changes and
observations, are passed to the production code, and its results become integers again. Both
functions are pure, so the results are cached.

Entry number i has the amount 8**i: the digits of a total in base 8 show how often it counts each
entry, and no two faults cancel out. Every entry is old enough to be merged as soon as it is
written; see `proof.simulator.explorer` for why a retry needs no step of its own.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from compactor.merge_plan import MergePlan, MergeRules, Observation, plan_merge
from ledger.core.fold import Collection
from ledger.core.ids import EntryId
from ledger.core.values import NetChange

REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-2")
PARTITION = "counter"
NOW = datetime(2026, 11, 21, tzinfo=UTC)
NOWHERE = -1

_DIGIT_BITS = 3
_COUNT_MAX = 3
"""What two bits hold: a net that counts an entry more often is wrong anyway."""
_COUNT_MASK = 0b11
_IDS_BIT = 0b100
NET_BITS = 3
"""Of each entry a net knows how often it counts it, and whether it names it."""
_NET_MASK = (1 << NET_BITS) - 1

Deciding = Callable[[Observation, MergeRules, str], MergePlan]


def decide_now(observation: Observation, rules: MergeRules, version: str) -> MergePlan:
    """Decide as the compactor does."""
    return plan_merge(observation, rules, now=NOW, version=version)


@dataclass(frozen=True, slots=True)
class Decision:
    """A plan in integers.

    `bits` has of each entry: 1 to delete it, then what the new net knows of it. `fold_home` is the
    home that the new net names, NOWHERE without a fold.
    """

    bits: tuple[int, ...]
    fold_home: int


class ProductionCode:
    """Calls the production code and caches its results."""

    def __init__(
        self, *, entries: int, regions: int, fold_max: int, deciding: Deciding = decide_now
    ) -> None:
        self.regions = REGIONS[:regions]
        self._ids = [EntryId(number + 1, number + 1) for number in range(entries)]
        self._keys = [str(entry) for entry in self._ids]
        self._amounts = [1 << (_DIGIT_BITS * number) for number in range(entries)]
        self._fold_max = fold_max
        self._deciding = deciding
        self._counts: dict[object, tuple[int, ...]] = {}
        self._decisions: dict[object, Decision] = {}

    def counts(self, shown: tuple[int, ...], *, has_net: bool) -> tuple[int, ...]:
        """Return how often a region's total counts each entry.

        `shown` has of each entry what the region's net knows of it, and above that whether the
        entry is visible.
        """
        question = (shown, has_net)
        answer = self._counts.get(question)
        if answer is None:
            net = self._net([state & _NET_MASK for state in shown], "", 0) if has_net else None
            visible = [number for number, state in enumerate(shown) if state >> NET_BITS]
            total = self._total(self._collection(visible, net))
            answer = self._counts[question] = self._digits(total)
        return answer

    def decision(
        self,
        *,
        home: int,
        base: int,
        views: tuple[int, ...],
        seen: tuple[int, ...],
        nets: tuple[int, ...],
        homes: tuple[int, ...],
    ) -> Decision:
        """Return what is decided on an observation.

        `base` is the number of the net that was read first, `views` has that of each region's, 0
        for none; `seen` has of each entry the regions (bits) that showed it, `nets` what each net
        knows of it; `homes` has the home of each net.
        """
        question = (home, base, views, seen, nets, homes)
        answer = self._decisions.get(question)
        if answer is None:
            answer = self._decisions[question] = self._decide(*question)
        return answer

    def _decide(
        self,
        home: int,
        base: int,
        views: Sequence[int],
        seen: Sequence[int],
        nets: Sequence[int],
        homes: Sequence[int],
    ) -> Decision:
        known: dict[int, NetChange | None] = {0: None}
        for slot, net_home in enumerate(homes, start=1):
            triples = [(net >> (NET_BITS * (slot - 1))) & _NET_MASK for net in nets]
            known[slot] = self._net(triples, f"v{slot}", net_home)
        observation = Observation(
            PARTITION, known[base], self._views(views, seen=seen, known=known)
        )
        return self._in_bits(self._deciding(observation, self._rules(home), "new"))

    def _views(
        self, views: Sequence[int], *, seen: Sequence[int], known: Mapping[int, NetChange | None]
    ) -> dict[str, Collection]:
        return {
            name: self._collection(
                [number for number, where in enumerate(seen) if where >> place & 1],
                known[views[place]],
            )
            for place, name in enumerate(self.regions)
        }

    def _rules(self, home: int) -> MergeRules:
        return MergeRules(
            home=self.regions[home],
            settle=1.0,
            fold_max=self._fold_max,
            fold_min=1,
            fold_age=0.0,
            prune_min=1,
        )

    def _in_bits(self, plan: MergePlan) -> Decision:
        bits = [int(key in plan.deletes) for key in self._keys]
        if plan.fold is None:
            return Decision(tuple(bits), NOWHERE)
        counts, merged = self._digits(self._counted(plan.fold)), set(plan.fold.merged)
        for number, count in enumerate(counts):
            named = _IDS_BIT if self._ids[number] in merged else 0
            bits[number] |= (count | named) << 1
        return Decision(tuple(bits), self.regions.index(plan.fold.home))

    def _total(self, collection: Collection) -> int:
        """Return what the readers of a region add up."""
        return int(collection.total())

    def _counted(self, net: NetChange) -> int:
        """Return what a net adds to a total."""
        return int(net.change)

    def _collection(self, visible: Sequence[int], net: NetChange | None) -> Collection:
        shown = {self._keys[number]: Decimal(self._amounts[number]) for number in visible}
        return Collection(shown, net)

    def _net(self, triples: Sequence[int], version: str, home: int) -> NetChange:
        counts = [triple & _COUNT_MASK for triple in triples]
        change = sum(map(int.__mul__, counts, self._amounts))
        merged = tuple(
            entry for entry, triple in zip(self._ids, triples, strict=True) if triple & _IDS_BIT
        )
        name = self.regions[home]
        return NetChange(Decimal(change), sum(counts), merged, version, "", name)

    def _digits(self, total: int) -> tuple[int, ...]:
        digits = tuple(
            total >> (_DIGIT_BITS * number) & ((1 << _DIGIT_BITS) - 1)
            for number in range(len(self._ids))
        )
        if total < 0 or total >> (_DIGIT_BITS * len(digits)) or max(digits) > _COUNT_MAX + 1:
            raise OverflowError(f"a total of {total:o} (octal) counts more than the model holds")
        return digits
