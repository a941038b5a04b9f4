"""Negative twins: the ledger with one rule broken, each of which the auditor must catch.

A twin patches production functions for as long as its context lasts. A world that finds nothing
wrong with a twin is blind to what the rule prevents. `python -m ledger.lab.simulator --twins`
prints the table of them.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from compactor import job, observe, passes, plan
from ledger.core import keys
from ledger.lab.simulator import broken
from ledger.lab.simulator.run import Result, run_seed
from ledger.totals import collection
from ledger.writing import plan as planning
from ledger.writing import writer
from ledger.writing.plan import Planned
from ledger.writing.writer import Writer

Patch = tuple[Any, str, Any]


@dataclass(frozen=True, slots=True)
class Twin:
    """One rule broken.

    `rule` is what it breaks, `breaks` what then goes wrong, `patches` what is put in place of
    what, and `seeds` within how many seeds from 0 it must be caught.
    """

    name: str
    rule: str
    breaks: str
    seeds: int
    patches: tuple[Patch, ...]

    @contextmanager
    def active(self) -> Iterator[None]:
        """Break the rule inside the block."""
        with ExitStack() as stack:
            for owner, name, value in self.patches:
                stack.callback(setattr, owner, name, getattr(owner, name))
                setattr(owner, name, value)
            yield


_TWINS = (
    Twin(
        "one-transaction",
        "fold, delete and forget are three steps (not one transaction, as is usual)",
        "deletes and net reach other regions item by item: totals there are wrong meanwhile",
        8,
        (
            (passes, "decide", broken.one_transaction_decide),
            (passes, "apply", broken.one_transaction_apply),
        ),
    ),
    Twin(
        "single-item",
        "a change is an item of its own (not an update of one item per counter)",
        "the last writer wins: updates of other regions are lost",
        8,
        ((Writer, "_put", broken.add_to_one_item), (Writer, "_write_all", broken.add_each)),
    ),
    Twin(
        "no-merged-ids",
        "the net names the entries that it counts, as long as they may be visible",
        "a region shows an entry beside the net that counts it: counted twice",
        8,
        ((passes, "decide", broken.no_ids_decide),),
    ),
    Twin(
        "net-first",
        "`~net` sorts after every entry (here without the hold too: with it either order is right)",
        "a reader sees a net and, pages later, no longer the entries merged since: not counted",
        120,
        (
            (keys, "NET_PREFIX", "!net#"),
            (keys, "_NET", re.compile(r"!net#([0-9]{4})")),
            (passes.Pass, "__init__", broken.no_hold(passes.Pass.__init__)),
        ),
    ),
    Twin(
        "net-last",
        "the compactor reads `~net` before the entries",
        "a leader that stalls between two pages sees entries that others merge, delete and forget"
        " meanwhile, then the net that counts them, and merges them again",
        120,
        ((passes, "observe", broken.net_last),),
    ),
    Twin(
        "unseen-region",
        "every region is observed",
        "an id is forgotten while a region nobody looked at still shows, or has yet to get, its"
        " entry: counted twice there",
        120,
        ((passes, "observe", broken.unseen_region),),
    ),
    Twin(
        "short-views",
        "a visit reads as far as the newest id that the net names",
        "an id is forgotten although its entry is visible further on: counted twice",
        120,
        ((observe, "_enough", broken.short_view),),
    ),
    Twin(
        "no-hold",
        "an observation is held for `observation_delay` > `read_deadline` before it is acted on",
        "a reader between two pages, or of a replica that is behind, sees an entry and then a net"
        " that no longer names it",
        120,
        ((passes.Pass, "__init__", broken.no_hold(passes.Pass.__init__)),),
    ),
    Twin(
        "no-read-max",
        "a read that takes longer than `read_deadline` starts again",
        "the same, however long the hold",
        120,
        ((collection, "_read_once", broken.read_on),),
    ),
    Twin(
        "early-deletes",
        "entries are deleted once their net is committed",
        "an entry vanishes in a region that has not got the net yet",
        120,
        ((passes, "decide", broken.early_deletes_decide),),
    ),
    Twin(
        "candidates-at-home",
        "candidates are visible in all regions (not only at home)",
        "an entry that reaches a region after the net forgot its id counts twice there",
        120,
        ((passes, "decide", broken.home_candidates_decide),),
    ),
    Twin(
        "any-region",
        "the same (not in any region: one broken line of the plan)",
        "the same",
        120,
        ((plan, "_candidates", broken.any_region_candidates),),
    ),
    Twin(
        "gone-at-home",
        "an id is forgotten once its entry is gone in all regions (not only at home)",
        "where the delete is late the entry counts twice",
        120,
        ((passes, "decide", broken.home_gone_decide),),
    ),
    Twin(
        "no-settle",
        "an entry is merged once older than `settle`",
        "a retry, or a request in flight, puts an entry back that was merged and forgotten",
        120,
        ((job, "rules_of", broken.unsettled_rules),),
    ),
    Twin(
        "no-horizon",
        "an id older than the retry horizon is refused",
        "the same, however long `settle` is",
        120,
        (
            (planning, "check_horizon", broken.no_horizon),
            (writer, "latest_repeat", broken.never),
            (Planned, "put", property(broken.put_any_time)),
        ),
    ),
    Twin(
        "signed-any-time",
        "no request is sent whose signature is later than the retry horizon",
        "the same, by a writer that freezes between its look at the clock and its request",
        120,
        ((Planned, "put", property(broken.put_any_time)),),
    ),
    Twin(
        "shards-of-today",
        "an entry's shard goes by the time in its id (not by the time of writing)",
        "a retry after the shards have grown puts its change into another shard: counted twice",
        120,
        ((writer, "plan", broken.plan_by_today), (writer, "replan", broken.replan_by_today)),
    ),
    Twin(
        "no-version",
        "a net is put in place of the version observed, no other",
        "two leaders fold on the same net, and one fold is lost",
        120,
        ((passes, "apply", broken.unconditional_apply),),
    ),
)
TWINS: Mapping[str, Twin] = {twin.name: twin for twin in _TWINS}


def run_broken(seed: int, *, twin: str = "", is_traced: bool = False) -> Result:
    """Run a seed with the rule of a twin broken; without a twin it is `run_seed`."""
    with TWINS[twin].active() if twin else nullcontext():
        return run_seed(seed, is_traced=is_traced)
