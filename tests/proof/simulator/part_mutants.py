"""Mutants of changes that share an item."""

from ledger.core.values import Entry
from ledger.session.ledger import Ledger
from ledger.writes import asked_parts
from ledger.writes.asked_parts import ListedChanges
from ledger.writes.entry_plan import Change
from proof.simulator.combining import calls_together, is_calm
from proof.simulator.edit import Edit
from proof.simulator.keyed_lists import has_lists
from proof.simulator.mutant import Mutant
from proof.simulator.scenario import draw
from proof.simulator.terms import is_contracted

_record_listed = Ledger._record_listed  # noqa: SLF001


async def cut_by_terms(self: Ledger, listed: ListedChanges, end: float) -> list[Entry]:
    """Let changes of a list share items only where the contract combines all their counters."""
    settings = self._open_parts.writer._live.current  # noqa: SLF001
    changes = [Change(entry.counter, entry.change) for entry in listed.entries()]
    most, first = asked_parts.LISTED_MAX, listed.items[0]
    if not all(settings.combines(change.counter) for change in changes):
        asked_parts.LISTED_MAX = 1
    cut, asked_parts.LISTED_MAX = ListedChanges.of(changes, first.key, first.at), most
    return await _record_listed(self, cut, end)


def combines_otherwise(seed: int) -> bool:
    """Return whether a world has lists with a key, and comes to combine other counters."""
    plan = draw(seed).contract if has_lists(seed) and is_contracted(seed) else None
    if plan is None:
        return False
    first = plan.first.combine
    return any(change.values.get("combine", first) != first for change in plan.changes)


PART_MUTANTS = (
    Mutant(
        "part-retried-alone",
        "a change that shares an item is repeated by writing the whole item again",
        "each caller's repeat is an entry of its own beside the item: counted twice",
        8,
        (
            Edit(
                "ledger.core.parts:whole_of",
                "    amounts.within_range(change)\n",
                '    return replace(entry, id=f"{item_id[:-3]}{place or 0:03x}", parts="")\n',
            ),
        ),
        worlds=calls_together,
    ),
    Mutant(
        "parts-anew",
        "the item is written again under the id that it has",
        "a repeat whose first try had landed makes a second item: all of it counted twice",
        8,
        (
            Edit(
                "ledger.writes.asked_parts:plan_again",
                "    planned = planner.replan(wholes)\n",
                "    planned = planner.replan(wholes)\n"
                "    if all(one.parts for one in wholes):\n"
                "        grouped = [(o.counter, o.change, o.count, o.parts) for o in wholes]\n"
                "        planned = planner.plan_group(grouped)\n",
            ),
        ),
        worlds=calls_together,
    ),
    Mutant(
        "gone-callers-packed",
        "a change whose caller gave up before its item was sent is in no sum and in no parts",
        "it is in the parts, and not in the sum: a history shows what no total counts",
        8,
        (
            Edit(
                "ledger.writes.pending_entries:PendingParts.without_gone",
                "        if len(waiting) == len(pairs):\n",
                "        for change, waiter in pairs:\n"
                "            if waiter.done() and waiting:\n"
                "                self._gathered.change -= change\n"
                "        if waiting:\n",
            ),
        ),
        first=2,
        worlds=calls_together,
    ),
    Mutant(
        "after-a-part",
        "a history after a change begins within the item that it shares",
        "it begins behind that item: the changes after it in the item are missing",
        8,
        (
            Edit(
                "ledger.reads.history:history",
                "after, before = _id_in(asked.after),",
                'after = _id_in(asked.after) and f"{ids.split(str(asked.after))[0]}.999"\n'
                "    before =",
            ),
        ),
        worlds=calls_together,
    ),
    Mutant(
        "retry-of-a-part",
        "a change that was acknowledged, or read, with others in its item is never written again",
        "written under the id of its item it takes the place of all of them in another region",
        24,
        (
            Edit(
                "ledger.core.parts:whole_of",
                "    if not entry.parts:\n",
                "    if not entry.parts:\n"
                "        return replace(entry, id=item_id)\n"
                "    if False:\n",
            ),
        ),
        first=8,
        worlds=calls_together,
    ),
    Mutant(
        "hint-of-a-part",
        "a change that shares an item leaves a hint by the id of that item (not by its own)",
        "its own is the id of no item, and leaves none: it is not merged before a search",
        4,
        (
            Edit(
                "ledger.writes.hint_writer:HintWriter.wrote_all",
                "            if entry.id[_LAST_DIGITS] < below:\n",
                "            if len(entry.id) == _LAST_DIGITS.stop and entry.id[-4:] < below:\n",
            ),
        ),
        worlds=is_calm,
    ),
    Mutant(
        "list-cut-by-size",
        "where a list with a key is cut into items follows from the list alone",
        "cut by whether its counters are combined: a repeat after a change of the contract has"
        " other items, and counts twice",
        24,
        (
            (
                Ledger,
                "_record_listed",
                cut_by_terms,
            ),
        ),
        first=2,
        worlds=combines_otherwise,
    ),
    Mutant(
        "lists-of-one-sum",
        "a list is the same as one under its key if it has the same amounts in the same order",
        "with the same sum another is acknowledged, and never written",
        8,
        (
            Edit(
                "ledger.core.values:_said",
                "entry.reverses, entry.parts)",
                "entry.reverses, entry.count)",
            ),
        ),
        first=5,
        worlds=has_lists,
    ),
)
