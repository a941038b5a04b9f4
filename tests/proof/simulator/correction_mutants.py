"""Mutants of the rules by which reversals and corrections are made once."""

from proof.simulator.correcting import is_correcting
from proof.simulator.correctors import is_losing
from proof.simulator.edit import Edit
from proof.simulator.mutant import Mutant, worlds_from

CORRECTION_MUTANTS = (
    Mutant(
        "record-believed",
        "a reversal or a correction was made before only if its entry is found",
        "of a lost home the record arrived, and the entry never does: done is said of nothing",
        50,
        (
            Edit(
                "ledger.writes.earlier_calls:EarlierCalls.made_by",
                "        partition, entry_id =",
                "        return Made(item)\n        partition, entry_id =",
            ),
        ),
        first=45,
        worlds=is_losing,
    ),
    Mutant(
        "record-at-home",
        "an entry of the call is looked for in every region (not its record at home)",
        "the record is late, or lost with the former home: the call is made twice",
        40,
        (
            Edit(
                "ledger.writes.earlier_calls:EarlierCalls.shown",
                "        stores =",
                "        return []\n        stores =",
            ),
        ),
        first=4,
        worlds=is_correcting,
    ),
    Mutant(
        "merged-unrecorded",
        "an entry that a call makes once is merged once every region shows its record",
        "the record is lost, and the entry in no table any more: the call is made twice",
        10,
        (Edit("compactor.merge_plan:_unrecorded", "if not records", "if True"),),
        worlds=worlds_from(1560, is_losing),
    ),
    Mutant(
        "made-while-arriving",
        "for a day after a loss nothing is made again that the lost region may have made",
        "its entry arrives late, beside the second one",
        30,
        (
            Edit(
                "ledger.writes.earlier_calls:EarlierCalls.check_arrived",
                "if gone_at is None",
                "if True",
            ),
        ),
        worlds=worlds_from(7343, is_losing),
    ),
    Mutant(
        "forgotten-is-unmade",
        "what may have been merged without an archive is not made again",
        "the record is there, and net and table name the entry no more: the call is made twice",
        40,
        (
            Edit(
                "ledger.writes.earlier_calls:EarlierCalls.check_never_merged",
                "if item is None",
                "if True",
            ),
        ),
        worlds=is_correcting,
    ),
    Mutant(
        "reversed-unagreed",
        "an entry is reversed once every region shows it alike",
        "of one key with two changes the loser is reversed: the winner does not come to nothing",
        40,
        (
            Edit(
                "ledger.writes.reversal:Reverser._check_agreed",
                "        stores =",
                "        return\n        stores =",
            ),
        ),
        first=8,
        worlds=is_correcting,
    ),
)
