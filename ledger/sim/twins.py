"""Negative twins: the ledger with one rule broken, each of which the auditor must catch.

A twin patches production functions for as long as its context lasts. A world that finds nothing
wrong with a twin is blind to what the rule prevents.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

from compactor import apply as applying
from compactor import job, passes, plan, views
from compactor.apply import Done
from compactor.plan import Observation, Plan, Rules
from compactor.views import Observed
from ledger import planning, reading, writer
from ledger.clock import Clock
from ledger.core import amounts, ids, keys
from ledger.core.entry import Entry, NetChange, net_item
from ledger.core.fold import Collection
from ledger.core.ids import EntryId
from ledger.planning import Planned
from ledger.reading import CollectionRead, Progress, read_net
from ledger.settings import Settings
from ledger.sim.run import Result, run_seed
from ledger.store.port import Absent, Action, Applied, Check, Delete, Put, Store, Unknown, Update
from ledger.tasks import run_all
from ledger.writer import Writer

Patch = tuple[Any, str, Any]
_decide, _apply, _rules_of = plan.decide, applying.apply, passes.rules_of
_candidates, _read_once = plan._candidates, reading._read_once  # noqa: SLF001
_SINGLE_TRIES_MAX = 8


@dataclass(frozen=True, slots=True)
class Twin:
    """One rule broken: what is put in place of what, and within how many seeds it is caught."""

    name: str
    patches: tuple[Patch, ...]
    seeds: int

    @contextmanager
    def active(self) -> Iterator[None]:
        """Break the rule inside the block."""
        with ExitStack() as stack:
            for owner, name, value in self.patches:
                stack.callback(setattr, owner, name, getattr(owner, name))
                setattr(owner, name, value)
            yield


def _one_transaction_decide(
    observation: Observation, rules: Rules, *, now: datetime, version: str
) -> Plan:
    """Plan the merge as usually described: settled entries of the home region, no ids."""
    home, net = observation.views[rules.home], observation.net
    if net is not None and net.home != rules.home:
        return Plan(waits="another home")
    found = [one for key in home.entries if (one := ids.parse(key)) is not None]
    old = sorted(one for one in found if plan.is_older(one, rules.settle, now=now))
    settled = tuple(str(one) for one in old[: rules.fold_max])
    if len(settled) < rules.fold_min:
        return Plan(waits="too few entries")
    before = net.change if net else Decimal(0)
    fold = NetChange(
        change=amounts.total([before, *(home.entries[key] for key in settled)]),
        count=(net.count if net else 0) + len(settled),
        merged=(),
        version=version,
        until=settled[-1],
        home=rules.home,
    )
    return Plan(deletes=settled, fold=fold, folded=len(settled))


async def _one_transaction_apply(
    store: Store,
    partition: str,
    net: NetChange | None,
    plan: Plan,
    *,
    fence: Check,
    sizes: Mapping[str, int],
) -> Done:
    """Delete the entries and put their net, all or nothing in the home region."""
    del sizes
    if plan.fold is None:
        return Done()
    put = Put(net_item(plan.fold, partition), condition=applying._still(net))  # noqa: SLF001
    deletes: list[Action] = [Delete((partition, key)) for key in plan.deletes]
    outcome = await store.transact([fence, put, *deletes])
    return Done(len(deletes) if isinstance(outcome, Applied) else 0, outcome)


def _no_ids_decide(observation: Observation, rules: Rules, *, now: datetime, version: str) -> Plan:
    """Put a net that does not name the entries that it counts, and delete them by its plan."""
    made = _decide(observation, rules, now=now, version=version)
    if made.fold is None:
        return made
    return replace(made, fold=replace(made.fold, merged=()))


def _home_candidates_decide(
    observation: Observation, rules: Rules, *, now: datetime, version: str
) -> Plan:
    """Take entries that home shows as if every region showed them."""
    home = observation.views[rules.home].entries
    shown = {
        region: Collection({**view.entries, **home}, view.net)
        for region, view in observation.views.items()
    }
    return _decide(replace(observation, views=shown), rules, now=now, version=version)


def _early_deletes_decide(
    observation: Observation, rules: Rules, *, now: datetime, version: str
) -> Plan:
    """Delete merged entries although the net is not committed."""
    made = _decide(observation, rules, now=now, version=version)
    if made.waits != "not committed" or observation.net is None:
        return made
    home = observation.views[rules.home].entries
    return Plan(deletes=tuple(key for key in map(str, observation.net.merged) if key in home))


def _home_gone_decide(
    observation: Observation, rules: Rules, *, now: datetime, version: str
) -> Plan:
    """Drop ids of entries that home no longer shows, whatever other regions show."""
    net, home = observation.net, observation.views[rules.home].entries
    dropped = {key for key in map(str, net.merged if net else ()) if key not in home}
    shown = {
        region: Collection(
            {key: change for key, change in view.entries.items() if key not in dropped}, view.net
        )
        for region, view in observation.views.items()
    }
    return _decide(replace(observation, views=shown), rules, now=now, version=version)


async def _net_last(
    stores: Mapping[str, Store], partition: str, *, home: str, clock: Clock, **_reach: Any
) -> Observed:
    """Read the net after the entries."""
    reads = [partial(views._read_view, store, partition) for store in stores.values()]  # noqa: SLF001
    seen = dict(zip(stores, await run_all(reads, at_once=len(reads)), strict=True))
    net = await views._readable(home, read_net(stores[home], partition))  # noqa: SLF001
    shown = {region: view.collection for region, view in seen.items()}
    return Observed(Observation(partition, net, shown), clock.monotonic(), seen[home].sizes)


async def _unconditional_apply(
    store: Store,
    partition: str,
    net: NetChange | None,
    plan: Plan,
    *,
    fence: Check,
    sizes: Mapping[str, int],
) -> Done:
    """Put the net whatever version is there by now."""
    done = await _apply(store, partition, net, replace(plan, fold=None), fence=fence, sizes=sizes)
    if plan.fold is None:
        return done
    outcome = await store.transact([fence, Put(net_item(plan.fold, partition))])
    return Done(done.deleted, outcome)


def _short(net: NetChange | None, upto: str | None) -> str | None:
    """Let a visit of a long collection end before it has come to the ids that the net names."""
    del net
    return upto and ""


def _no_hold(init: Callable[..., None]) -> Callable[..., None]:
    """Let a pass act at once; the settings themselves refuse to be set so."""

    def without(self: passes.Pass, *args: Any, **options: Any) -> None:
        settings = options["settings"].model_copy(update={"hold": 0.0})
        init(self, *args, **{**options, "settings": settings})

    return without


def _unsettled_rules(*args: Any, **options: Any) -> Rules:
    return replace(_rules_of(*args, **options), settle=0.0)


async def _add_to_one_item(self: Writer, planned: Planned) -> Entry:
    """Count in a single item per counter, as is usual without regions."""
    entry = planned.entry
    update = Update((entry.counter, "sum"), add={"change": {"N": amounts.to_text(entry.change)}})
    for _ in range(_SINGLE_TRIES_MAX):
        if not isinstance(await self._store.write(update), Unknown):
            break
    return entry


async def _add_each(self: Writer, planned: list[Planned]) -> None:
    for one in planned:
        await _add_to_one_item(self, one)


def _any_region_candidates(
    observation: Observation, rules: Rules, *, now: datetime, room: int
) -> tuple[EntryId, ...]:
    """Take entries that any region shows: one broken line in the plan."""
    everything: dict[str, Decimal] = {}
    for view in observation.views.values():
        everything |= view.entries
    shown = {region: Collection(everything, view.net) for region, view in observation.views.items()}
    observation.views[rules.home].entries.update(everything)
    return _candidates(replace(observation, views=shown), rules, now=now, room=room)


async def _read_on(
    store: Store, progress: Progress, clock: Clock, read_max: float, *, consistent: bool
) -> CollectionRead | None:
    """Read every page, however long it takes."""
    del read_max
    return await _read_once(store, progress, clock, math.inf, consistent=consistent)


def _no_horizon(entry_id: EntryId, *, settings: Settings, now: datetime) -> None:
    """Repeat an id however old it is."""


def _put_any_time(planned: Planned) -> Put:
    """Let a writer that was frozen sign its request whenever it wakes up."""
    return Put(planned.item, condition=Absent())


def _never(planned: Sequence[Planned]) -> datetime:
    """Return when it is too late to repeat these."""
    del planned
    return datetime.max.replace(tzinfo=UTC)


TWINS: Mapping[str, Twin] = {
    twin.name: twin
    for twin in (
        Twin(
            "one-transaction",
            (
                (passes, "decide", _one_transaction_decide),
                (passes, "apply", _one_transaction_apply),
            ),
            4,
        ),
        Twin(
            "net-first",
            (
                (keys, "NET_PREFIX", "!net#"),
                (keys, "_NET", re.compile(r"!net#([0-9]{4})")),
                # With the hold in place either order is right: no read lasts as long as it.
                (passes.Pass, "__init__", _no_hold(passes.Pass.__init__)),
            ),
            60,
        ),
        Twin("no-merged-ids", ((passes, "decide", _no_ids_decide),), 4),
        Twin("candidates-at-home", ((passes, "decide", _home_candidates_decide),), 60),
        Twin("early-deletes", ((passes, "decide", _early_deletes_decide),), 20),
        Twin("gone-at-home", ((passes, "decide", _home_gone_decide),), 20),
        Twin("net-last", ((passes, "observe", _net_last),), 120),
        Twin("short-views", ((views, "_enough", _short),), 80),
        Twin("no-version", ((passes, "apply", _unconditional_apply),), 80),
        Twin("no-hold", ((passes.Pass, "__init__", _no_hold(passes.Pass.__init__)),), 20),
        Twin("any-region", ((plan, "_candidates", _any_region_candidates),), 60),
        Twin("no-read-max", ((reading, "_read_once", _read_on),), 24),
        Twin(
            "no-horizon",
            (
                (planning, "check_horizon", _no_horizon),
                (writer, "latest_repeat", _never),
                (Planned, "put", property(_put_any_time)),
            ),
            10,
        ),
        Twin("signed-any-time", ((Planned, "put", property(_put_any_time)),), 200),
        Twin("no-settle", ((job, "rules_of", _unsettled_rules),), 20),
        Twin(
            "single-item",
            ((Writer, "_put", _add_to_one_item), (Writer, "_write_all", _add_each)),
            4,
        ),
    )
}


def run_broken(seed: int, *, twin: str = "", is_traced: bool = False) -> Result:
    """Run a seed with the rule of a twin broken; without a twin it is `run_seed`."""
    with TWINS[twin].active() if twin else nullcontext():
        return run_seed(seed, is_traced=is_traced)
