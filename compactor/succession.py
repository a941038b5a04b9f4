"""The decision on one collection of a table that has lost a region.

A region is lost once no remaining region lists it among its replicas: it neither reads nor writes
any more. Each remaining region has received some of its last writes, may receive others late, and
never receives the rest. The remaining regions are those of the contract in force, which names the
region that is home now and the table's generation, one more for each region that was lost: whether
home or not, it may have been home before, and left a net that did not reach every region. Like any
change of the contract it is in force after a wait, so that nothing decided under the previous one
is under way any more.

The rules besides those of `compactor.merge_plan`, and what breaks without each:

- *take over*: a collection whose highest net anywhere is of an older generation gets a net of the
  table's generation, a copy of the newest version seen. The version before would do as well: its
  home put one version at a time and deleted what it folded once all regions showed it, so wherever
  the last version is missing its entries are all there. The old net is never overwritten: a late
  write of the lost home would replace its successor, by its stamp.
- *outdated* nets are deleted once the new one is committed: deleted earlier, all that they count
  vanishes where the new one has not arrived.
- *named* entries are deleted through home if home shows them, otherwise through each region that
  does: deleting a missing item is not a write, so it does not replicate, and the id would stay
  named for ever. Not through all at once: a delete by a region whose clock is behind could lose
  against a copy in flight that home's own delete beats, and the id be forgotten before.
- *again*: an entry that some regions show, and others do not or differently, is put once more, or
  regions differ for ever. Through a region that shows it, so that the put is newer than what is
  there; through another, a late original could be newer still, outlive the delete of the copy, and
  be visible after its id was forgotten. Of a hold through one that shows it resolved, else through
  that of its grant, in which it is resolved: through another the put could take the resolution
  back. In a transaction on condition that the entry and the net are unchanged, or an entry comes
  back that was merged meanwhile.
- *copies* of sums that a region leaves behind are put through home, the newest that any region
  shows, each time that one shows a newer one: copied only once, a version that arrives later would
  count only in its region. The item itself is never written: its own late writes would replace
  that.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from compactor.merge_plan import (
    MergePlan,
    MergeRules,
    Observation,
    is_committed,
    older_than,
    plan_merge,
)
from ledger.budgets.spend_record import is_open, spend_of
from ledger.core import ids, keys
from ledger.core.entry import RESOLVED
from ledger.core.fold import Collection, Stamp, named_by, stamp_of
from ledger.core.sums import Sum, SumPlace, to_copy
from ledger.core.values import NetChange


@dataclass(frozen=True, slots=True)
class PutAgain:
    """An entry to be put again, whole as `region` shows it, in one transaction through `region`.

    The transaction applies only if `region` still shows the entry unchanged, and the net at
    `net_key` still at the version in `stamp`; with `stamp` None, no such net. A process
    puts an entry again once an hour at most: before, the copy may still be on its way.
    """

    region: str
    key: str
    net_key: str
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class Succession:
    """What to do with one collection; the parts are independent, in any order, now or never.

    `take_over` is a net to put through home, on condition that there is none under its sort key
    (`attribute_not_exists`); only copies accompany it. `plan` is the usual one: its `fold` goes
    through home on condition of the version observed (for a first net: that there is none).
    `deletes` has the sort keys to delete by region, plainly: those of `plan.deletes` and more, so
    it replaces them. `copies` are put through home if it has none of that version. `waits` says
    why nothing else is done.
    """

    take_over: NetChange | None = None
    plan: MergePlan = field(default_factory=MergePlan)
    deletes: Mapping[str, tuple[str, ...]] | None = None
    again: tuple[PutAgain, ...] = ()
    copies: Mapping[SumPlace, Sum] = field(default_factory=dict)
    waits: str = ""

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        parts = self.take_over, self.plan.fold, self.deletes, self.again, self.copies
        return not any(parts)

    @property
    def is_last(self) -> bool:
        """Whether nothing is left to do, once this is done, before other entries settle."""
        return self.plan.is_last and not (self.deletes or self.again or self.copies)


def succeed(
    observation: Observation,
    rules: MergeRules,
    *,
    now: datetime,
    version: str,
    upto: str | None = None,
) -> Succession:
    """Return what may be done on an observation that is `observation_delay` seconds old.

    `observation` has home's net of the highest generation, read first, and then the view of each
    region of the contract in force, none left out. `rules` has home and generation of that
    contract, which every remaining region must have shown before the observation began. `version`
    is a new net's, random, used for nothing else. With `upto` the views hold all entries up to this
    sort key, and perhaps more; what lies beyond is left to a later visit. Items under foreign keys
    are never put again: nothing says when another tool writes them last.

    Correct for any table, also for one that has lost nothing; only there it costs more than
    `compactor.merge_plan.plan_merge`: an entry that replicates slowly is put again.

    Raises:
        AmountOverflow: the sum of the entries does not fit in 38 digits; nothing can be merged.
        DamagedItem: what an entry says of its grants cannot be read.
    """
    views = observation.views
    copies = to_copy(
        (view.sums for view in views.values()), views[rules.home].copies, rules.is_over
    )
    found = _succeed(observation, rules, now=now, version=version, upto=upto)
    return replace(found, copies=copies)


def _succeed(
    observation: Observation, rules: MergeRules, *, now: datetime, version: str, upto: str | None
) -> Succession:
    """Return what may be done with entries and nets."""
    newest = newest_net(observation)
    if newest is not None and newest.generation > rules.generation:
        return Succession(waits="the contract has a newer generation")
    if newest is not None and newest.generation < rules.generation:
        return Succession(take_over=_successor(newest, rules, version))
    plan = plan_merge(observation, rules, now=now, version=version)
    if not is_committed(observation):
        return Succession(plan=plan, waits=plan.waits)
    return Succession(
        plan=plan,
        deletes=dict(_deletes(observation, rules.home)),
        again=tuple(_again(observation, rules, now=now, upto=upto)),
        waits=plan.waits,
    )


def newest_net(observation: Observation) -> NetChange | None:
    """Return the net of the highest generation in any region, and of it the newest version.

    Newer means more entries, then a later fold, then fewer ids.
    """
    shown = [view.net for view in observation.views.values()]
    return max((net for net in (observation.net, *shown) if net), key=_age, default=None)


def _age(net: NetChange) -> tuple[int, int, str, int]:
    return net.generation, net.count, net.until, -len(net.merged)


def _successor(net: NetChange, rules: MergeRules, version: str) -> NetChange:
    return replace(net, generation=rules.generation, version=version, home=rules.home)


def _deletes(observation: Observation, home: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield by region the keys of entries that the net names, and of nets that do not count."""
    named, at_home = named_by(observation.net), observation.views[home].sort_keys
    for region, view in observation.views.items():
        there = view.sort_keys
        shown = [key for key in named if key in there]
        own = [key for key in shown if region == home or key not in at_home]
        outdated = map(keys.net_sort_key, sorted(view.outdated))
        if found := (*own, *outdated):
            yield region, found


def _again(
    observation: Observation, rules: MergeRules, *, now: datetime, upto: str | None
) -> Iterator[PutAgain]:
    """Yield the settled entries that the net does not name and not all regions show alike."""
    views = observation.views
    settled = older_than(rules.settle, now=now)
    shown = {key for view in views.values() for key in view.sort_keys if key < settled}
    alike = views[rules.home].alike(views.values())
    for key in ids.ours(sorted(shown.difference(alike, named_by(observation.net)))):
        if upto is not None and key > upto:
            return
        yield PutAgain(
            region=_shows(key, views, rules),
            key=key,
            net_key=keys.net_sort_key(rules.generation),
            stamp=stamp_of(observation.net),
        )


def _shows(key: str, views: Mapping[str, Collection], rules: MergeRules) -> str:
    """Return the region of those that show an entry through which it is put: home if it does."""
    shown = [region for region in (rules.home, *views) if key in views[region].sort_keys]
    items = {region: (views[region].items or {}).get(key, {}) for region in shown}
    resolved = [region for region in shown if RESOLVED in items[region]]
    opened = [region for region in shown if is_open(items[region])]
    spend = spend_of(items[opened[0]]) if opened else None
    own = {name.holder.region for name in spend.grants} if spend else set()
    return next(iter((*resolved, *(region for region in opened if region in own), shown[0])))
