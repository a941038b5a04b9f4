"""Mutants: the ledger with one rule deliberately broken, each of which the auditor must catch.

A mutant patches production functions while its context is active. A simulation that finds nothing
wrong with a mutant cannot see what the rule prevents. `python -m proof.simulator --mutants`
prints the table of mutants.
"""

import re
from collections.abc import Mapping
from contextlib import nullcontext

from compactor import (
    merge_pass,
    merge_plan,
    observation,
)
from ledger.core import contract_item, keys
from ledger.settings import Settings
from ledger.writes import bulk_write
from ledger.writes.sender import Sender
from proof.simulator import mutations, run
from proof.simulator.archive_mutants import ARCHIVE_MUTANTS
from proof.simulator.book_mutants import BOOK_MUTANTS
from proof.simulator.budget_mutants import BUDGET_MUTANTS
from proof.simulator.clock_mutants import CLOCK_MUTANTS
from proof.simulator.correction_mutants import CORRECTION_MUTANTS
from proof.simulator.credit_mutants import CREDIT_MUTANTS
from proof.simulator.edit import Edit
from proof.simulator.forger_mutants import FORGER_MUTANTS
from proof.simulator.index_mutants import INDEX_MUTANTS
from proof.simulator.limit_mutants import LIMIT_MUTANTS
from proof.simulator.loss_mutants import LOSS_MUTANTS
from proof.simulator.mutant import Mutant
from proof.simulator.part_mutants import PART_MUTANTS
from proof.simulator.period_mutants import PERIOD_MUTANTS
from proof.simulator.run import Result, run_seed
from proof.simulator.store import SimStore
from proof.simulator.stranger import is_strange
from proof.simulator.terms import is_contracted

NO_HOLD = (
    Edit(
        "compactor.merge_pass:MergePass._look",
        "observed.at + self._terms.settings.observation_delay",
        "observed.at",
    ),
    Edit(
        "compactor.merge_pass:MergePass._look_at_nets",
        " + self._terms.settings.observation_delay",
        "",
    ),
)
PUT_ANY_TIME = Edit("ledger.writes.entry_plan:PlannedEntry.put", ", not_after=self.latest", "")
_MUTANTS = (
    Mutant(
        "one-transaction",
        "fold, delete and forget are three steps (not one transaction, as is usual)",
        "deletes and net reach other regions item by item: totals there are wrong meanwhile",
        8,
        (
            Edit(
                "compactor.merge_plan:plan_merge",
                "        deletes=deletes,\n        fold=fold,",
                "        deletes=candidates,\n        fold=fold,",
            ),
            Edit(
                "compactor.plan_execution:execute_plan",
                "    deleted = await _delete(",
                "    if plan.fold is not None:\n"
                "        from ledger.store.writes import Delete\n"
                "        put = Put(net_item(plan.fold, partition), condition=_still(net))\n"
                "        deletes = [Delete((partition, key)) for key in plan.deletes]\n"
                "        return PlanResult(0, await store.transact([*fence, put, *deletes]))\n"
                "    deleted = await _delete(",
            ),
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
        first=4,
    ),
    Mutant(
        "no-merged-ids",
        "the net names the entries that it counts, as long as they may be visible",
        "a region shows an entry beside the net that counts it: counted twice",
        8,
        (
            Edit(
                "compactor.merge_plan:plan_merge",
                "    if rule is not None:\n",
                "    fold = replace(fold, merged=())\n    if rule is not None:\n",
            ),
        ),
    ),
    Mutant(
        "net-first",
        "`~net` sorts after every entry (here without the hold too: with it either order is right)",
        "a reader sees a net and, pages later, no longer the entries merged since: not counted",
        120,
        (
            (keys, "NET_PREFIX", "!net#"),
            (keys, "_NET", re.compile(r"!net#([0-9]{4})")),
            *NO_HOLD,
        ),
    ),
    Mutant(
        "net-last",
        "the compactor reads `~net` before the entries",
        "a leader that stalls between two pages sees entries that others merge, delete and forget"
        " meanwhile, then the net that counts them, and merges them again",
        120,
        (
            (merge_pass, "observe", mutations.net_last),
            (observation, "observe", mutations.net_last),
        ),
        first=5,
    ),
    Mutant(
        "unseen-region",
        "every region is observed",
        "an id is forgotten while a region that was not observed still shows, or has yet to get,"
        " its entry: counted twice there",
        120,
        (
            Edit(
                "compactor.observation:observe",
                "    began = clock.now()\n",
                "    began = clock.now()\n"
                "    seen = [home, *[*stores][:-1]]\n"
                "    stores = {region: store for region, store in stores.items() if region "
                "in seen}\n",
            ),
        ),
        first=4,
    ),
    Mutant(
        "short-views",
        "a visit reads as far as the newest id that the net names",
        "an id is forgotten although its entry is visible further on: counted twice",
        120,
        (Edit("compactor.observation:_enough", "max(upto, str(net.merged[-1]))", 'upto and ""'),),
        first=3,
    ),
    Mutant(
        "no-hold",
        "an observation is held for `observation_delay` > `read_deadline` before it is acted on",
        "a reader between two pages, or of a replica that is behind, sees an entry and then a net"
        " that no longer names it",
        120,
        NO_HOLD,
        first=2,
    ),
    Mutant(
        "no-read-max",
        "a read that takes longer than `read_deadline` starts again",
        "the same, however long the hold",
        120,
        (
            Edit(
                "ledger.reads.collection:_read_once",
                "elapsed.seconds() - started > read_deadline",
                "elapsed.seconds() < started",
            ),
        ),
        first=42,
    ),
    Mutant(
        "suspended-clock",
        "the time of a read is the larger of monotonic and wall time",
        "a reader that is suspended between two pages takes no time by a monotonic clock that"
        " stops, and sees an entry and then a net that no longer names it",
        120,
        (
            Edit(
                "ledger.runtime.clock:ElapsedTime.seconds",
                "        monotonic, wall =",
                "        return self._clock.monotonic()\n        monotonic, wall =",
            ),
        ),
        first=45,
    ),
    Mutant(
        "one-look",
        "a steady total is that of two looks in a row that agree",
        "changes that come between the pages and shards of one look: a later one is counted, an"
        " earlier one is not",
        120,
        (
            Edit(
                "ledger.reads.reader:_agree",
                "(one.value, one.changes) == (other.value, other.changes)",
                "True",
            ),
        ),
        first=50,
    ),
    Mutant(
        "early-deletes",
        "entries are deleted once their net is committed",
        "an entry vanishes in a region that has not got the net yet",
        120,
        (
            Edit(
                "compactor.merge_plan:plan_merge",
                'return MergePlan(waits="not committed")',
                "at_home = observation.views[rules.home].sort_keys\n"
                "        return MergePlan(tuple(key for key in named_by(net) if key in at_home))",
            ),
        ),
        first=7,
    ),
    Mutant(
        "own-at-once",
        "the same of what a process folded last: once every region shows that very net",
        "the same",
        120,
        (
            Edit(
                "compactor.own_folds:OwnFold.is_committed",
                "all(stamp_of(net) == self.stamp for net in nets.values())",
                "True",
            ),
        ),
        first=13,
    ),
    Mutant(
        "slices-of-the-dead",
        "what a process led that is gone is taken by the others",
        "its collections are not merged any more",
        24,
        (
            Edit(
                "compactor.slices:is_free",
                " or (one.owner != HEAD and one.owner not in members)",
                "",
            ),
        ),
        first=4,
    ),
    Mutant(
        "candidates-at-home",
        "candidates are visible in all regions (not only at home)",
        "an entry that reaches a region after the net forgot its id counts twice there",
        120,
        (Edit("compactor.merge_plan:_agreed", ".alike(observation.views.values())", ".alike(())"),),
        first=22,
    ),
    Mutant(
        "any-region",
        "the same (not in any region: one broken line of the plan)",
        "the same",
        120,
        ((merge_plan, "_candidates", mutations.any_region_candidates),),
        first=4,
    ),
    Mutant(
        "gone-at-home",
        "an id is forgotten once its entry is gone in all regions (not only at home)",
        "where the delete is late the entry counts twice",
        120,
        (
            Edit(
                "compactor.merge_plan:plan_merge",
                "_visible(named, observation.views)",
                "_visible(named, {rules.home: home})",
            ),
        ),
    ),
    Mutant(
        "no-settle",
        "an entry is merged once older than `settle`",
        "a retry, or a request in flight, puts an entry back that was merged and forgotten",
        120,
        (Edit("compactor.pass_terms:rules_of", "settle=settings.settle", "settle=0.0"),),
        first=2,
    ),
    Mutant(
        "short-life",
        "`settle` counts on signatures that live as long as AWS lets them (15 minutes, not 5)",
        "a request that is held up puts an entry back that was merged and forgotten",
        120,
        ((run, "draw", mutations.believing_short_life),),
        first=6,
    ),
    Mutant(
        "clock-unmeasured",
        "a clock that is off by more than the skew neither writes nor merges",
        "a compactor that is ahead merges and forgets what may still be put again",
        120,
        (
            Edit(
                "compactor.checks:check_clock",
                "check_offset(store.clock_offset, skew=skew, region=region)",
                "del region, store",
            ),
            Edit(
                "ledger.writes.writer:Writer.check_clock",
                "check_offset(self._store.clock_offset, skew=skew, region=self._store.region)",
                "del skew",
            ),
        ),
        first=8,
    ),
    Mutant(
        "no-horizon",
        "an id older than the retry horizon is refused",
        "the same, however long `settle` is",
        120,
        (
            Edit(
                "ledger.writes.entry_plan:check_horizon",
                "if age > settings.retry_horizon",
                "if False",
            ),
            Edit(
                "ledger.writes.entry_plan:latest_repeat",
                "min(change.latest for change in planned)",
                "min(change.latest for change in planned) + timedelta(days=99)",
            ),
            PUT_ANY_TIME,
        ),
        first=2,
    ),
    Mutant(
        "signed-any-time",
        "no request is sent whose signature is later than the retry horizon",
        "the same, by a writer that freezes between its look at the clock and its request",
        120,
        (PUT_ANY_TIME,),
        first=6,
    ),
    Mutant(
        "one-for-all",
        "of several conditional puts in one request each has an outcome of its own",
        "a change that was throttled, or lost, is treated as written: not counted",
        120,
        (
            Edit(
                "ledger.writes.sender:EachSending.settled",
                "        taken = []\n",
                "        taken = []\n"
                "        answer = [Applied()] * len(sent) if Applied() in answer else answer\n",
            ),
        ),
        first=13,
    ),
    Mutant(
        "shards-of-today",
        "an entry's shard goes by the time in its id (not by the time of writing)",
        "a retry after the shards have grown puts its change into another shard: counted twice",
        120,
        (
            Edit(
                "ledger.writes.entry_plan:plan_entry",
                "_shards_keyed(counter, made.at, settings)",
                "settings.shards_now(counter, now)",
            ),
            Edit(
                "ledger.writes.entry_plan:replan",
                "    if shard is None:\n"
                "        shards = _shards_keyed(entry.counter, entry_id.at, settings)\n",
                "    if True:\n        shards = settings.shards_now(entry.counter, now)\n",
            ),
        ),
        first=76,
    ),
    Mutant(
        "no-version",
        "a net is put in place of the version observed, no other",
        "two leaders fold on the same net, and one fold is lost",
        120,
        (
            Edit(
                "compactor.plan_execution:execute_plan",
                "condition=_still(net), replaces_bytes=before)\n    if net is not None:\n",
                "replaces_bytes=before)\n    if False:\n",
            ),
        ),
        first=45,
    ),
    Mutant(
        "bad-stops",
        "a collection with an item that cannot be counted is left as it is, and a pass goes on",
        "one bad item stops all merging",
        8,
        (
            Edit(
                "compactor.merge_pass:MergePass._quarantine",
                "        self._metrics.error(error)\n",
                "        self._stop = anyio.Event()\n        self._stop.set()\n",
            ),
        ),
        worlds=is_strange,
    ),
    Mutant(
        "no-wait",
        "a change of terms is in force once nothing signed under the old ones can arrive (not once"
        " every region shows it)",
        "a request of the longer retry horizon lands after the shorter `settle`: counted twice",
        40,
        (
            Edit(
                "ledger.core.contract:is_waited",
                "now - looked_at > seconds_to_wait(old, new, contract_life=contract_life)",
                "True",
            ),
        ),
        first=22,
        worlds=is_contracted,
    ),
    Mutant(
        "newer-terms",
        "while a change is pending the stricter of old and new is obeyed (not the new)",
        "the same, and reads that take longer than those who know only the old terms hold",
        40,
        ((contract_item, "stricter", mutations.newer_terms),),
        first=8,
        worlds=is_contracted,
    ),
    Mutant(
        "stale-view",
        "nothing is signed under a view of the contract that is too old",
        "a process that froze repeats or reads by terms that no other obeys any more",
        90,
        (
            Edit(
                "ledger.core.contract:Validity.of_read",
                "at + timedelta(seconds=contract_life), elapsed + contract_life",
                "at + timedelta(days=99), elapsed + 1e7",
            ),
        ),
        first=4,
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
            Edit("ledger.settings.model:Settings.check_agrees", "in CONTRACTED", "in ()"),
        ),
        first=4,
        worlds=is_contracted,
    ),
)
MUTANTS: Mapping[str, Mutant] = {
    mutant.name: mutant
    for mutant in (
        *_MUTANTS,
        *PART_MUTANTS,
        *PERIOD_MUTANTS,
        *ARCHIVE_MUTANTS,
        *INDEX_MUTANTS,
        *BUDGET_MUTANTS,
        *CREDIT_MUTANTS,
        *LIMIT_MUTANTS,
        *CLOCK_MUTANTS,
        *LOSS_MUTANTS,
        *FORGER_MUTANTS,
        *CORRECTION_MUTANTS,
        *BOOK_MUTANTS,
    )
}


def run_mutant(seed: int, *, mutant: str = "", is_traced: bool = False) -> Result:
    """Run a seed with a mutant active; without a name, run the unmodified ledger."""
    with MUTANTS[mutant].active() if mutant else nullcontext():
        return run_seed(seed, is_traced=is_traced)
