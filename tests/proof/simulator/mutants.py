"""Mutants: the ledger with one rule deliberately broken, each of which the auditor must catch.

A mutant patches production functions while its context is active. A simulation that finds nothing
wrong with a mutant cannot see what the rule prevents. `python -m proof.simulator --mutants`
prints the table of mutants.
"""

import re
from collections.abc import Mapping
from contextlib import nullcontext

from compactor import (
    checks,
    decider,
    executor,
    merge_pass,
    merge_plan,
    observation,
    pass_terms,
    slices,
)
from compactor.own_folds import OwnFold
from ledger.contract import contract_writer, view
from ledger.core import contract_item, keys
from ledger.reads import collection, reader
from ledger.runtime.clock import ElapsedTime
from ledger.settings import Settings
from ledger.writes import bulk_write, planner, sender, writer
from ledger.writes import entry_plan as planning
from ledger.writes.entry_plan import PlannedEntry
from ledger.writes.sender import EachSending, Sender
from proof.simulator import mutations, run
from proof.simulator.archive_mutants import ARCHIVE_MUTANTS
from proof.simulator.budget_mutants import BUDGET_MUTANTS
from proof.simulator.clock_mutants import CLOCK_MUTANTS
from proof.simulator.correction_mutants import CORRECTION_MUTANTS
from proof.simulator.forger_mutants import FORGER_MUTANTS
from proof.simulator.index_mutants import INDEX_MUTANTS
from proof.simulator.limit_mutants import LIMIT_MUTANTS
from proof.simulator.loss_mutants import LOSS_MUTANTS
from proof.simulator.mutant import Mutant
from proof.simulator.period_mutants import PERIOD_MUTANTS
from proof.simulator.run import Result, run_seed
from proof.simulator.store import SimStore
from proof.simulator.stranger import is_strange
from proof.simulator.terms import is_contracted

_MUTANTS = (
    Mutant(
        "one-transaction",
        "fold, delete and forget are three steps (not one transaction, as is usual)",
        "deletes and net reach other regions item by item: totals there are wrong meanwhile",
        8,
        (
            (decider, "plan_merge", mutations.one_transaction_decide),
            (executor, "execute_plan", mutations.one_transaction_apply),
        ),
    ),
    Mutant(
        "single-item",
        "a change is an item of its own (not an update of one item per counter)",
        "the last writer wins: updates of other regions are lost",
        8,
        (
            (Sender, "put", mutations.add_to_one_item),
            (Sender, "each", mutations.add_and_report),
            (bulk_write, "send_all", mutations.add_each),
        ),
    ),
    Mutant(
        "answered-by-a-gateway",
        "a write is applied if its answer has what DynamoDB's has (not by status 200 and `{}`)",
        "a gateway answers a write that it keeps from DynamoDB: acknowledged, and nowhere",
        8,
        ((SimStore, "_unanswered", mutations.answered_by_a_gateway),),
    ),
    Mutant(
        "no-merged-ids",
        "the net names the entries that it counts, as long as they may be visible",
        "a region shows an entry beside the net that counts it: counted twice",
        8,
        ((decider, "plan_merge", mutations.no_ids_decide),),
    ),
    Mutant(
        "net-first",
        "`~net` sorts after every entry (here without the hold too: with it either order is right)",
        "a reader sees a net and, pages later, no longer the entries merged since: not counted",
        120,
        (
            (keys, "NET_PREFIX", "!net#"),
            (keys, "_NET", re.compile(r"!net#([0-9]{4})")),
            (merge_pass.MergePass, "__init__", mutations.no_hold(merge_pass.MergePass.__init__)),
        ),
    ),
    Mutant(
        "net-last",
        "the compactor reads `~net` before the entries",
        "a leader that stalls between two pages sees entries that others merge, delete and forget"
        " meanwhile, then the net that counts them, and merges them again",
        120,
        ((merge_pass, "observe", mutations.net_last),),
    ),
    Mutant(
        "unseen-region",
        "every region is observed",
        "an id is forgotten while a region that was not observed still shows, or has yet to get,"
        " its entry: counted twice there",
        120,
        ((merge_pass, "observe", mutations.unseen_region),),
    ),
    Mutant(
        "short-views",
        "a visit reads as far as the newest id that the net names",
        "an id is forgotten although its entry is visible further on: counted twice",
        120,
        ((observation, "_enough", mutations.short_view),),
    ),
    Mutant(
        "no-hold",
        "an observation is held for `observation_delay` > `read_deadline` before it is acted on",
        "a reader between two pages, or of a replica that is behind, sees an entry and then a net"
        " that no longer names it",
        120,
        ((merge_pass.MergePass, "__init__", mutations.no_hold(merge_pass.MergePass.__init__)),),
    ),
    Mutant(
        "no-read-max",
        "a read that takes longer than `read_deadline` starts again",
        "the same, however long the hold",
        120,
        ((collection, "_read_once", mutations.read_on),),
    ),
    Mutant(
        "suspended-clock",
        "the time of a read is the larger of monotonic and wall time",
        "a reader that is suspended between two pages takes no time by a monotonic clock that"
        " stops, and sees an entry and then a net that no longer names it",
        120,
        ((ElapsedTime, "seconds", mutations.trusting_monotonic),),
    ),
    Mutant(
        "one-look",
        "a steady total is that of two looks in a row that agree",
        "changes that come between the pages and shards of one look: a later one is counted, an"
        " earlier one is not",
        120,
        ((reader, "_agree", mutations.agree_always),),
    ),
    Mutant(
        "early-deletes",
        "entries are deleted once their net is committed",
        "an entry vanishes in a region that has not got the net yet",
        120,
        ((decider, "plan_merge", mutations.early_deletes_decide),),
    ),
    Mutant(
        "own-at-once",
        "the same of what a process folded last: once every region shows that very net",
        "the same",
        120,
        ((OwnFold, "is_committed", mutations.committed_at_once),),
    ),
    Mutant(
        "slices-of-the-dead",
        "what a process led that is gone is taken by the others",
        "its collections are not merged any more",
        24,
        ((slices, "is_free", mutations.is_given_up),),
    ),
    Mutant(
        "candidates-at-home",
        "candidates are visible in all regions (not only at home)",
        "an entry that reaches a region after the net forgot its id counts twice there",
        120,
        ((decider, "plan_merge", mutations.home_candidates_decide),),
    ),
    Mutant(
        "any-region",
        "the same (not in any region: one broken line of the plan)",
        "the same",
        120,
        ((merge_plan, "_candidates", mutations.any_region_candidates),),
    ),
    Mutant(
        "gone-at-home",
        "an id is forgotten once its entry is gone in all regions (not only at home)",
        "where the delete is late the entry counts twice",
        120,
        ((decider, "plan_merge", mutations.home_gone_decide),),
    ),
    Mutant(
        "no-settle",
        "an entry is merged once older than `settle`",
        "a retry, or a request in flight, puts an entry back that was merged and forgotten",
        120,
        ((pass_terms, "rules_of", mutations.unsettled_rules),),
    ),
    Mutant(
        "short-life",
        "`settle` counts on signatures that live as long as AWS lets them (15 minutes, not 5)",
        "a request that is held up puts an entry back that was merged and forgotten",
        120,
        ((run, "draw", mutations.believing_short_life),),
    ),
    Mutant(
        "clock-unmeasured",
        "a clock that is off by more than the skew neither writes nor merges",
        "a compactor that is ahead merges and forgets what may still be put again",
        120,
        (
            (checks, "check_offset", mutations.unmeasured),
            (writer, "check_offset", mutations.unmeasured),
        ),
    ),
    Mutant(
        "no-horizon",
        "an id older than the retry horizon is refused",
        "the same, however long `settle` is",
        120,
        (
            (planning, "check_horizon", mutations.no_horizon),
            (sender, "latest_repeat", mutations.never),
            (PlannedEntry, "put", property(mutations.put_any_time)),
        ),
    ),
    Mutant(
        "signed-any-time",
        "no request is sent whose signature is later than the retry horizon",
        "the same, by a writer that freezes between its look at the clock and its request",
        120,
        ((PlannedEntry, "put", property(mutations.put_any_time)),),
    ),
    Mutant(
        "one-for-all",
        "of several conditional puts in one request each has an outcome of its own",
        "a change that was throttled, or lost, is taken for written: not counted",
        120,
        ((EachSending, "settled", mutations.settled_together),),
    ),
    Mutant(
        "shards-of-today",
        "an entry's shard goes by the time in its id (not by the time of writing)",
        "a retry after the shards have grown puts its change into another shard: counted twice",
        120,
        (
            (planner, "plan_entry", mutations.plan_by_today),
            (planner, "replan", mutations.replan_by_today),
        ),
    ),
    Mutant(
        "no-version",
        "a net is put in place of the version observed, no other",
        "two leaders fold on the same net, and one fold is lost",
        120,
        ((executor, "execute_plan", mutations.unconditional_apply),),
    ),
    Mutant(
        "bad-stops",
        "a collection with an item that cannot be counted is left as it is, and a pass goes on",
        "one bad item stops all merging",
        8,
        ((merge_pass.MergePass, "_quarantine", mutations.quarantine_all),),
        worlds=is_strange,
    ),
    Mutant(
        "no-wait",
        "a change of terms is in force once nothing signed under the old ones can arrive (not once"
        " every region shows it)",
        "a request of the longer retry horizon lands after the shorter `settle`: counted twice",
        40,
        ((contract_writer, "is_waited", mutations.no_wait),),
        worlds=is_contracted,
    ),
    Mutant(
        "newer-terms",
        "while a change is pending the stricter of old and new is obeyed (not the new)",
        "the same, and reads that take longer than those who know only the old terms hold",
        40,
        ((contract_item, "stricter", mutations.newer_terms),),
        worlds=is_contracted,
    ),
    Mutant(
        "stale-view",
        "nothing is signed under a view of the contract that is too old",
        "a process that froze repeats or reads by terms that no other obeys any more",
        90,
        ((view, "Validity", mutations.EndlessValidity),),
        worlds=is_contracted,
    ),
    Mutant(
        "own-terms",
        "the contract's values count, and a settings file that says otherwise is refused",
        "a reader knows of fewer shards than a writer, a compactor of a shorter retry horizon, or"
        " of fewer regions: changes are not counted, or counted twice",
        40,
        (
            (Settings, "under", mutations.own_terms),
            (Settings, "check_agrees", mutations.agree_with_any),
        ),
        worlds=is_contracted,
    ),
)
MUTANTS: Mapping[str, Mutant] = {
    mutant.name: mutant
    for mutant in (
        *_MUTANTS,
        *PERIOD_MUTANTS,
        *ARCHIVE_MUTANTS,
        *INDEX_MUTANTS,
        *BUDGET_MUTANTS,
        *LIMIT_MUTANTS,
        *CLOCK_MUTANTS,
        *LOSS_MUTANTS,
        *FORGER_MUTANTS,
        *CORRECTION_MUTANTS,
    )
}


def run_mutant(seed: int, *, mutant: str = "", is_traced: bool = False) -> Result:
    """Run a seed with a mutant active; without a name, run the unmodified ledger."""
    with MUTANTS[mutant].active() if mutant else nullcontext():
        return run_seed(seed, is_traced=is_traced)
