"""The merge with one rule broken at a time: negative twins, each of which must be caught."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from functools import partial

from support.merging import PARTITION, Method, act
from support.regions import HOME

from compactor import observe
from compactor.apply import Done
from compactor.observe import Observed
from compactor.plan import Observation, Plan, Rules, decide
from ledger.core import ids
from ledger.core.entry import net_item
from ledger.core.fold import Collection
from ledger.core.values import NetChange
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import run_all
from ledger.store.port import Absent, Action, Applied, Check, Delete, Equals, Put, Store
from ledger.totals.collection import read_net

NO_NET = NetChange(Decimal(0), 0, (), "", "", HOME)


def _one_transaction_plan(seen: Observed, rules: Rules, clock: Clock, version: str) -> Plan:
    """Plan the merge as usually described: settled entries at home, and a net without ids."""
    observation = seen.observation
    home = observation.views[HOME]
    found = [one for key in home.entries if (one := ids.parse(key)) is not None]
    old = sorted(one for one in found if (clock.now() - one.at).total_seconds() > rules.settle)
    settled = [str(one) for one in old[: rules.fold_max]]
    if len(settled) < rules.fold_min:
        return Plan(waits="too few entries")
    net = observation.net or NO_NET
    change = net.change + sum(home.entries[key] for key in settled)
    fold = replace(net, change=change, count=net.count + len(settled), version=version)
    return Plan(deletes=(), fold=replace(fold, until=",".join(settled)), folded=len(settled))


async def _one_transaction_act(store: Store, seen: Observed, plan: Plan, fence: Check) -> Done:
    """Delete the entries and put their net, all or nothing in the home region."""
    if plan.fold is None:
        return Done()
    net, settled = seen.observation.net, plan.fold.until.split(",")
    condition = Absent() if net is None else Equals("version", {"S": net.version})
    put = Put(net_item(replace(plan.fold, until=settled[-1]), PARTITION), condition)
    deletes: list[Action] = [Delete((PARTITION, key)) for key in settled]
    outcome = await store.transact([fence, put, *deletes])
    return Done(len(settled) if isinstance(outcome, Applied) else 0, outcome)


def _seen_as(seen: Observed, shown: Mapping[str, Collection]) -> Observation:
    return replace(seen.observation, views=shown)


def _home_candidates(seen: Observed, rules: Rules, clock: Clock, version: str) -> Plan:
    """Take entries that home shows as if every region showed them."""
    home = seen.observation.views[HOME].entries
    shown = {
        region: Collection({**home, **view.entries}, view.net)
        for region, view in seen.observation.views.items()
    }
    return decide(_seen_as(seen, shown), rules, now=clock.now(), version=version)


def _home_gone(seen: Observed, rules: Rules, clock: Clock, version: str) -> Plan:
    """Take merged entries that home no longer shows as if no region showed them."""
    observation = seen.observation
    merged = {str(one) for one in observation.net.merged} if observation.net else set()
    dropped = merged - observation.views[HOME].entries.keys()
    shown = {
        region: Collection(
            {key: change for key, change in view.entries.items() if key not in dropped}, view.net
        )
        for region, view in observation.views.items()
    }
    return decide(_seen_as(seen, shown), rules, now=clock.now(), version=version)


def _early_deletes(seen: Observed, rules: Rules, clock: Clock, version: str) -> Plan:
    """Delete merged entries although the net is not committed."""
    observation = seen.observation
    plan = decide(observation, rules, now=clock.now(), version=version)
    if plan.waits != "not committed" or observation.net is None:
        return plan
    home = observation.views[HOME].entries
    return Plan(deletes=tuple(key for key in map(str, observation.net.merged) if key in home))


def _no_ids(seen: Observed, rules: Rules, clock: Clock, version: str) -> Plan:
    """Put a net that does not name the entries that it counts."""
    plan = decide(seen.observation, rules, now=clock.now(), version=version)
    return replace(plan, fold=replace(plan.fold, merged=()) if plan.fold else None)


def _unsettled(seen: Observed, rules: Rules, clock: Clock, version: str) -> Plan:
    """Fold entries of which a retry can still arrive."""
    hasty = replace(rules, settle=0.0)
    return decide(seen.observation, hasty, now=clock.now(), version=version)


async def _net_last(stores: Mapping[str, Store], clock: Clock) -> Observed:
    """Read the net after the entries."""
    reads = [partial(observe._read_view, store, PARTITION) for store in stores.values()]
    seen = dict(zip(stores, await run_all(reads, at_once=len(reads)), strict=True))
    net = await read_net(stores[HOME], PARTITION)
    shown = {region: view.collection for region, view in seen.items()}
    return Observed(Observation(PARTITION, net, shown), clock.monotonic(), seen[HOME].sizes)


async def _unconditional(store: Store, seen: Observed, plan: Plan, fence: Check) -> Done:
    """Put the net whatever version is there by now."""
    done = await act(store, seen, replace(plan, fold=None), fence)
    if plan.fold is None:
        return done
    return Done(done.deleted, await store.transact([fence, Put(net_item(plan.fold, PARTITION))]))


HOME_CANDIDATES = Method(decide=_home_candidates)
BROKEN: Mapping[str, Method] = {
    "one transaction": Method(decide=_one_transaction_plan, act=_one_transaction_act),
    "candidates visible at home only": HOME_CANDIDATES,
    "ids dropped when gone at home only": Method(decide=_home_gone),
    "deletes before the net is committed": Method(decide=_early_deletes),
    "no merged ids": Method(decide=_no_ids),
    "net read after the entries": Method(observe=_net_last),
    "no version condition": Method(act=_unconditional),
    "not settled": Method(decide=_unsettled),
}
