"""Mutants of changes that share an item."""

from proof.simulator.combining import calls_together, is_calm
from proof.simulator.edit import Edit
from proof.simulator.mutant import Mutant

PART_MUTANTS = (
    Mutant(
        "part-retried-alone",
        "a change that shares an item is repeated by writing the whole item again",
        "each caller's repeat is an entry of its own beside the item: counted twice",
        8,
        (
            Edit(
                "ledger.core.parts:whole_of",
                "    return replace(entry, id=item_id,",
                '    return replace(entry, id=f"{item_id[:-3]}{place or 0:03x}", parts="")\n'
                "    return replace(entry, id=item_id,",
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
)
