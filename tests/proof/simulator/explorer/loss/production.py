"""The production code, called for small cases: `succeed`, `plan_merge` and `Collection.total`.

As in `explorer.production`: integers become real items and observations, and results integers
again; all functions are pure, so results are cached. A net is one integer: three bits an entry,
how often it counts it and whether it names it, and above these its home. Entry number i has the
amount 8**i.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import NamedTuple

from compactor.merge_plan import MergeRules, Observation, plan_merge
from compactor.succession import Succession, succeed
from ledger.core import keys
from ledger.core.entry import Item, entry_item, net_item
from ledger.core.fold import Collection, collect
from ledger.core.ids import EntryId
from ledger.core.values import Entry, NetChange
from proof.simulator.explorer.production import NET_BITS, NOW, PARTITION, REGIONS

Shown = tuple[tuple[int, int], ...]
"""Generation and content of each net that a region shows, lowest generation first."""
View = tuple[int, Shown]
"""The entries (bits) and the nets that a region shows."""
Contract = tuple[int, int, bool]
"""Home, generation, and whether the rules for a lost region are kept."""
Succeeding = Callable[[Observation, MergeRules, str], Succession]
Reading = Callable[[Shown], Shown]

_NAMED_BIT = 0b100
_NET_MASK = (1 << NET_BITS) - 1


class Put(NamedTuple):
    """A net to put, on condition that the item is at `expected`; None: that it is not there."""

    generation: int
    expected: int | None
    content: int


class Delete(NamedTuple):
    """A delete through a region: of a net of this generation, or of an entry if that is 0."""

    region: int
    generation: int
    entry: int


class PutAgain(NamedTuple):
    """An entry to put again through a region, if the net there is still at `expected`."""

    region: int
    entry: int
    generation: int
    expected: int | None


class Decision(NamedTuple):
    """What is to be done, each part on its own."""

    put: Put | None
    deletes: tuple[Delete, ...]
    again: tuple[PutAgain, ...]


NOTHING = Decision(None, (), ())


def succeed_now(observation: Observation, rules: MergeRules, version: str) -> Succession:
    """Decide as the compactor does once a region was lost."""
    return succeed(observation, rules, now=NOW, version=version)


class Question(NamedTuple):
    """What a leader has seen; `views` has None for a region that is not observed."""

    contract: Contract
    base: tuple[int, int] | None
    views: tuple[View | None, ...]


class ProductionCode:
    """Calls the production code and caches its results."""

    def __init__(
        self,
        *,
        entries: int,
        succeeding: Succeeding = succeed_now,
        reading: Reading = tuple,
        remembers: bool = False,
    ) -> None:
        self._ids = [EntryId(number + 1, number + 1) for number in range(entries)]
        self._keys = {str(one): number for number, one in enumerate(self._ids)}
        self._amounts = [1 << (NET_BITS * number) for number in range(entries)]
        self._succeeding = succeeding
        self._reading = reading
        self._given_up = NOW if remembers else None
        self._counts: dict[View, tuple[int, ...]] = {}
        self._decisions: dict[Question, Decision] = {}

    def counts(self, view: View) -> tuple[int, ...]:
        """Return how often a region's total counts each entry."""
        answer = self._counts.get(view)
        if answer is None:
            visible, nets = view
            total = int(self._collection((visible, self._reading(nets))).total())
            answer = self._counts[view] = self._digits(total)
        return answer

    def decision(self, question: Question) -> Decision:
        """Return what is decided on an observation."""
        answer = self._decisions.get(question)
        if answer is None:
            answer = self._decisions[question] = self._decide(question)
        return answer

    def _decide(self, question: Question) -> Decision:
        views = {
            REGIONS[region]: self._collection(view)
            for region, view in enumerate(question.views)
            if view is not None
        }
        base = None if question.base is None else self._net(*question.base)
        place, generation, mends = question.contract
        home = REGIONS[place]
        observation = Observation(PARTITION, base, views)
        rules = MergeRules(
            home=home,
            settle=1.0,
            fold_max=len(self._ids),
            fold_min=1,
            fold_age=0.0,
            prune_min=1,
            generation=generation,
            given_up=self._given_up if mends else None,
        )
        if mends:
            found = self._succeeding(observation, rules, "new")
        else:
            plan = plan_merge(observation, rules, now=NOW, version="new")
            found = Succession(plan=plan, deletes={home: plan.deletes})
        return self._in_bits(found, question)

    def _in_bits(self, found: Succession, question: Question) -> Decision:
        new, base = found.take_over or found.plan.fold, question.base
        put = None
        if new is not None:
            is_first = base is None or base[0] < new.generation
            put = Put(new.generation, None if is_first or not base else base[1], self._bits(new))
        again = tuple(
            PutAgain(
                REGIONS.index(one.region),
                self._keys[one.key],
                keys.generation_of(one.net_key) or 0,
                None if one.stamp is None or not base else base[1],
            )
            for one in found.again
        )
        return Decision(put, tuple(self._deletes(found)), again)

    def _deletes(self, found: Succession) -> Iterator[Delete]:
        for region, sort_keys in (found.deletes or {}).items():
            for key in sort_keys:
                generation = keys.generation_of(key) or 0
                yield Delete(REGIONS.index(region), generation, self._keys.get(key, 0))

    def _collection(self, view: View) -> Collection:
        return collect(self._items(view))

    def _items(self, view: View) -> Iterator[Item]:
        visible, nets = view
        for number, one in enumerate(self._ids):
            if visible >> number & 1:
                yield entry_item(Entry(PARTITION, str(one), Decimal(self._amounts[number])))
        for generation, content in nets:
            yield net_item(self._net(generation, content), PARTITION)

    def _net(self, generation: int, content: int) -> NetChange:
        parts = [content >> (NET_BITS * number) & _NET_MASK for number in range(len(self._ids))]
        counts = [part & ~_NAMED_BIT for part in parts]
        named = tuple(one for one, part in zip(self._ids, parts, strict=True) if part & _NAMED_BIT)
        counted = [str(one) for one, count in zip(self._ids, counts, strict=True) if count]
        return NetChange(
            change=Decimal(sum(map(int.__mul__, counts, self._amounts))),
            count=max(sum(counts), len(named)),
            merged=named,
            version=f"v{content:o}",
            until=max(counted, default=""),
            home=REGIONS[content >> (NET_BITS * len(self._ids))],
            generation=generation,
        )

    def _bits(self, net: NetChange) -> int:
        named = set(net.merged)
        counts = self._digits(int(net.change))
        home = REGIONS.index(net.home) << (NET_BITS * len(self._ids))
        return home | sum(
            (count | (_NAMED_BIT if one in named else 0)) << (NET_BITS * number)
            for number, (one, count) in enumerate(zip(self._ids, counts, strict=True))
        )

    def _digits(self, total: int) -> tuple[int, ...]:
        digits = _octal(total, len(self._ids))
        if total < 0 or total >> (NET_BITS * len(digits)) or max(digits) >= _NAMED_BIT:
            raise OverflowError(f"a total of {total:o} (octal) counts more than the model holds")
        return digits


def _octal(total: int, count: int) -> tuple[int, ...]:
    return tuple(total >> (NET_BITS * number) & _NET_MASK for number in range(count))
