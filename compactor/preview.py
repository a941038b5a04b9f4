"""What a pass would do with one counter if it visited it now, and why it would do no more.

It reads what a visit reads, in every region, and decides by the same rules; it writes nothing and
needs no lease. A concurrent pass may be ahead of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from compactor.discovery.hints import HintBook, read_hints
from compactor.discovery.scan import load_cursor, next_search
from compactor.merge_plan import (
    BOOK_FULL,
    TOO_FEW,
    MergePlan,
    MergeRules,
    Observation,
    accounts_size,
    fold_least,
    is_committed,
    older_than,
    plan_merge,
)
from compactor.observation import CollectionViews, ReadExtent, observe
from compactor.pass_terms import rules_of
from compactor.succession import succeed
from ledger.contract.open_regions import OpenTable, open_table
from ledger.core import ids, keys
from ledger.core.contract import NO_HOME
from ledger.core.errors import AmountOverflow, DamagedItem, HomeMoving
from ledger.core.fold import named_by, stamp_of
from ledger.core.hints import last_sort_key
from ledger.runtime.clock import Clock
from ledger.runtime.output import utc_text
from ledger.settings import Settings
from ledger.store.port import Store

_VERSION = "0" * 32
"""The version of a net that is never put."""


@dataclass(frozen=True, slots=True)
class CollectionPreview:
    """What a visit to one collection would find and do.

    `entries` has how many entries each region shows, `settled` of those at home are older than
    `settle` and not merged, `younger` are not; `named` ids are in the net. It would write a net
    that counts `folds` more entries, delete `deletes` that a net already counts, and forget
    `forgets` ids. `reasons` say why not more. With `damage` nothing is done at all. A long
    collection is read only as far as a visit reads it: `is_cut`.
    """

    collection: str
    entries: Mapping[str, int]
    counted: int = 0
    named: int = 0
    settled: int = 0
    younger: int = 0
    folds: int = 0
    deletes: int = 0
    forgets: int = 0
    reasons: tuple[str, ...] = ()
    damage: str = ""
    is_cut: bool = False

    @property
    def is_due(self) -> bool:
        """Whether a visit would write anything."""
        return bool(self.folds or self.deletes or self.forgets)


async def preview(settings: Settings, counter: str, *, clock: Clock) -> Sequence[CollectionPreview]:
    """Return what a pass would do with each shard of a counter that holds anything.

    Raises:
        InvalidCounter: `counter` is not a counter id.
        HomeMoving: nothing is merged until the home region is in force.
        RegionUnreadable: a region cannot be read, and so nothing would be merged.
        ContractMissing, ContractDamaged, UpgradeNeeded, ContractConflict: as when a pass begins.
        StoreError: the home region cannot be read.
    """
    keys.checked_counter(counter)
    async with open_table(settings, clock=clock) as table:
        live = table.view.current
        if live.terms.home == NO_HOME:
            raise HomeMoving(
                "nothing is merged: the table's home region is being moved (`ledger table show`)"
            )
        shards = range(live.shards_max(counter))
        found = [
            await _preview(table, keys.partition_key(counter, shard), clock=clock)
            for shard in shards
        ]
        if any(previewed.is_due for previewed in found):
            found = await with_searches(found, table.stores[live.home], live, now=clock.now())
    return [
        previewed
        for previewed in found
        if previewed.damage or previewed.counted or any(previewed.entries.values())
    ]


async def with_searches(
    found: Sequence[CollectionPreview], home: Store, settings: Settings, *, now: datetime
) -> list[CollectionPreview]:
    """Add to a collection without a hint that no pass visits it before the next search.

    Raises:
        StoreError: hints, or where the last search stopped, cannot be read.
    """
    compactor = settings.compactor
    cursor = await load_cursor(home, compactor.name)
    due_at = next_search(cursor, compactor.scan_every, now=now)
    if due_at is None:
        return list(found)
    # Hints that are not ripe lead there earlier than the search, too.
    hints, _ = await read_hints(home, last=last_sort_key(now, settle=-settings.settle))
    book = HintBook(settings.shards_max)
    for hint in hints:
        book.add(hint)
    hinted = set(book.partitions())
    reason = (
        f"not before the next search at {utc_text(due_at)}, since no hint names it; `compactor run"
        " --once --search` searches now"
    )
    return [
        replace(one, reasons=(*one.reasons, reason))
        if one.is_due and one.collection not in hinted
        else one
        for one in found
    ]


async def _preview(table: OpenTable, partition: str, *, clock: Clock) -> CollectionPreview:
    settings = table.view.current
    rules = rules_of(settings)
    try:
        observed = await observe(
            table.stores,
            partition,
            home=settings.home,
            clock=clock,
            extent=ReadExtent.of(rules, partition, now=clock.now()),
        )
        return explain_preview(observed, rules, settings, now=clock.now())
    except (DamagedItem, AmountOverflow) as error:
        return CollectionPreview(partition, {}, damage=str(error))


def explain_preview(
    observed: CollectionViews, rules: MergeRules, settings: Settings, *, now: datetime
) -> CollectionPreview:
    """Return what a visit that observed this would do at `now`.

    Raises:
        AmountOverflow: the sum of the entries does not fit in 38 digits.
        DamagedItem: what an entry says of its grants cannot be read.
    """
    observation = observed.observation
    net, partition = observation.net, observation.partition
    if settings.terms.lost:
        plan = succeed(observation, rules, now=now, version=_VERSION, upto=observed.upto).plan
    else:
        plan = plan_merge(observation, rules, now=now, version=_VERSION)
    shown = ids.ours(sorted(observation.views[rules.home].sort_keys))
    named = frozenset(named_by(net))
    settled_below = older_than(rules.settle, now=now)
    unmerged = [key for key in shown if key not in named]
    settled = [key for key in unmerged if key < settled_below]
    younger = unmerged[len(settled) :]  # they are in order
    kept = len(plan.fold.merged) - plan.folded if plan.fold else len(named)
    return CollectionPreview(
        partition,
        {region: len(view.sort_keys) for region, view in observation.views.items()},
        counted=net.count if net else 0,
        named=len(named),
        settled=len(settled),
        younger=len(younger),
        folds=plan.folded,
        deletes=len(plan.deletes),
        forgets=0 if plan.fold is None else len(named) - kept,
        reasons=tuple(_reasons(observation, rules, plan, settled=settled, younger=younger)),
        is_cut=observed.is_cut,
    )


def _foreign(observation: Observation) -> Iterator[str]:
    """Yield how many items a region shows whose keys the ledger did not make."""
    counts = {
        region: len(view.sort_keys) - len(ids.ours(view.sort_keys))
        for region, view in observation.views.items()
    }
    if most := max(counts.values()):
        where = ", ".join(f"{count:,} in {region}" for region, count in counts.items() if count)
        are = "items are" if most > 1 else "item is"
        yield (
            f"{where}: {are} not written by the ledger (sort key is not an id): counted in every"
            " total, and never merged"
        )


def _reasons(
    observation: Observation,
    rules: MergeRules,
    plan: MergePlan,
    *,
    settled: Sequence[str],
    younger: Sequence[str],
) -> list[str]:
    if not rules.merges(observation.partition):
        return ["the contract's `unmerged` excludes this counter"]
    if not is_committed(observation):
        expected = stamp_of(observation.net)
        behind = [
            region for region, view in observation.views.items() if stamp_of(view.net) != expected
        ]
        return [f"the net that home shows has not arrived in {', '.join(behind)}"]
    found = list(_foreign(observation))
    if plan.unclosed:
        found.append(
            f"{plan.unclosed:,} settled entries wait for the grants that paid for them, which some"
            " region does not show as closed yet, or are holds that are open"
        )
    free = len(settled) - plan.unclosed
    different = free - plan.backlog
    if different > 0:
        found.append(
            f"{different:,} settled entries are not shown alike by every region, or their records"
            " are not shown:"
            " they replicate"
        )
    if plan.waits == BOOK_FULL:
        found.append(
            f"the accounts of the book have no room for those of {plan.backlog:,} settled"
            " transfers: bring accounts to 0, and open others in another book"
        )
    elif plan.is_cut:
        found.append(
            f"there is room for {plan.folded:,} of {plan.backlog:,} entries in one fold: the next"
            " visits take the rest"
        )
    elif plan.waits == TOO_FEW and free:
        alone = ids.moment_of(settled[0]) + timedelta(seconds=rules.fold_age)
        least = fold_least(rules, accounts_size(observation.net))
        of_book = ", for accounts of this size" if least > rules.fold_min else ""
        found.append(
            f"{free:,} settled entries are fewer than fold_min ({least:,}{of_book}): they"
            f" are folded together with later ones, or from {utc_text(alone)} on"
        )
    if younger:
        first = ids.moment_of(younger[0]) + timedelta(seconds=rules.settle)
        found.append(
            f"{len(younger):,} entries are younger than settle ({rules.settle:g} s), the first of"
            f" them until {utc_text(first)}"
        )
    return found
