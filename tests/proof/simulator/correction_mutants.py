"""Mutants of the rules by which reversals and corrections are made once."""

from collections.abc import Sequence
from datetime import datetime

from compactor import merge_plan
from compactor.merge_plan import MergeRules, Observation
from ledger.core import once
from ledger.core.entry import Item
from ledger.writes.earlier_calls import EarlierCalls, Made
from ledger.writes.reversal import Reverser
from proof.simulator.correctors import is_correcting, is_losing
from proof.simulator.mutant import Mutant, worlds_from


async def believe(_earlier: EarlierCalls, record: Item) -> Made | None:
    """Take a record for its entry, as if the two were never apart."""
    item = once.entry_in(record)
    return None if item is None else Made(item)


async def look_nowhere(
    _earlier: EarlierCalls, _partitions: Sequence[str], *, first: str | None = None
) -> list[Item]:
    """Look for entries in no region: the record at home is all that there is."""
    del first
    return []


async def agree(_reverser: Reverser, _item: Item) -> None:
    """Let an entry be reversed as home shows it."""


def wait_for_none(
    _sort_keys: Sequence[str], _observation: Observation, _rules: MergeRules
) -> frozenset[str]:
    """Let entries be merged whichever region shows their records."""
    return frozenset()


def take_for_arrived(_earlier: EarlierCalls, _since: datetime | None, *, what: str) -> None:
    """Take for arrived what a region that is gone may have sent."""
    del what


async def take_for_unmerged(_earlier: EarlierCalls, _record: Item) -> None:
    """Take an entry that is nowhere for one that never was."""


CORRECTION_MUTANTS = (
    Mutant(
        "record-believed",
        "a reversal or a correction was made before only if its entry is found",
        "of a lost home the record arrived, and the entry never does: done is said of nothing",
        10,
        ((EarlierCalls, "made_by", believe),),
        worlds=is_losing,
    ),
    Mutant(
        "record-at-home",
        "an entry of the call is looked for in every region (not its record at home)",
        "the record is late, or lost with the former home: the call is made twice",
        40,
        ((EarlierCalls, "shown", look_nowhere),),
        worlds=is_correcting,
    ),
    Mutant(
        "merged-unrecorded",
        "an entry that a call makes once is merged once every region shows its record",
        "the record is lost, and the entry in no table any more: the call is made twice",
        10,
        ((merge_plan, "_unrecorded", wait_for_none),),
        worlds=worlds_from(1560, is_losing),
    ),
    Mutant(
        "made-while-arriving",
        "for a day after a loss nothing is made again that the lost region may have made",
        "its entry arrives late, beside the second one",
        30,
        ((EarlierCalls, "check_arrived", take_for_arrived),),
        worlds=worlds_from(5660, is_losing),
    ),
    Mutant(
        "forgotten-is-unmade",
        "what may have been merged without an archive is not made again",
        "the record is there, and net and table name the entry no more: the call is made twice",
        40,
        ((EarlierCalls, "check_never_merged", take_for_unmerged),),
        worlds=is_correcting,
    ),
    Mutant(
        "reversed-unagreed",
        "an entry is reversed once every region shows it alike",
        "of one key with two changes the loser is reversed: the winner does not come to nothing",
        40,
        ((Reverser, "_check_agreed", agree),),
        worlds=is_correcting,
    ),
)
