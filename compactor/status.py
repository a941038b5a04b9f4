"""The compactor's lease as each region shows it, who leads how many slices, and the last passes.

The state of merging by the recorded passes, as `ledger doctor` judges it.

Read at home, or in another region if home cannot be read; nothing waits for the other regions.

The output of `compactor status` and `compactor plan`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from compactor.observation import lease_name
from compactor.pass_history import SEARCHED, SUCCEEDED, PassHistory, PassRecord, recorded_passes
from compactor.preview import CollectionPreview
from compactor.slice_share import read_directory
from compactor.slices import HEAD, NO_MEMBER, is_marked
from ledger.administration.contract_changes import show
from ledger.administration.diagnosis.observations import PassesObservation
from ledger.core.durations import spoken
from ledger.core.errors import StoreError
from ledger.core.signatures import signed_text
from ledger.primitives.leases.lease_rules import LeaseRecord, lease_key, record_of
from ledger.runtime.clock import Clock
from ledger.runtime.console_tables import Column, Grid, number, print_grid, prose
from ledger.runtime.output import say, utc_text
from ledger.runtime.tasks import run_all
from ledger.settings import Settings
from ledger.store.connections import open_store
from ledger.store.port import Store
from ledger.store.reads import Get


@dataclass(frozen=True, slots=True)
class CompactorStatus:
    """The lease as each region shows it: None for no lease yet, an error if it cannot be read.

    `led` is how many slices each process leads by what home shows; slices without a leader are
    under the empty name. It is empty if no process divides the collections, or home cannot be read.
    `passes` are those recorded, the newest first, by home or else a region that can be read.
    `hidden_by` is home if it cannot be read and no other region shows a pass.
    """

    table: str
    lease: str
    regions: Mapping[str, LeaseRecord | StoreError | None]
    led: Mapping[str, int]
    passes: Sequence[PassHistory] = ()
    hidden_by: str = ""

    @property
    def newest(self) -> Sequence[PassHistory]:
        """The last pass of each member."""
        found: dict[str, PassHistory] = {}
        for recorded in self.passes:
            found.setdefault(recorded.member, recorded)
        return list(found.values())

    @property
    def last_success(self) -> PassRecord | None:
        """The last pass that succeeded."""
        return self._last(SUCCEEDED)

    @property
    def last_search(self) -> PassRecord | None:
        """The last pass that searched the whole table, or a part of it."""
        return self._last(SEARCHED)

    @property
    def lag_seconds(self) -> Mapping[str, float]:
        """The replication lag of each region, as the last pass measured it."""
        shown = (recorded.record.lag_seconds for recorded in self.passes if recorded.record)
        return next((lag for lag in shown if lag), {})

    def _last(self, kind: str) -> PassRecord | None:
        return next(
            (
                recorded.record
                for recorded in self.passes
                if recorded.kind == kind and recorded.record
            ),
            None,
        )


async def status_of(settings: Settings) -> CompactorStatus:
    """Read the lease in every region that the table's contract names, or else the settings."""
    newest = (await show(settings)).newest
    if newest is not None:
        settings = settings.under(newest.obeyed, home=newest.terms.home)
    async with AsyncExitStack() as stack:
        stores = {
            region: await stack.enter_async_context(open_store(settings, region))
            for region in settings.regions
        }
        return await status_in(stores, settings)


async def status_in(stores: Mapping[str, Store], settings: Settings) -> CompactorStatus:
    """Read the lease in every region, through its open store; settings are under the contract."""
    name = lease_name(settings)
    # Concurrently: a region that hangs delays the answer once, not for each in turn.
    jobs = [partial(_lease, store, name) for store in stores.values()]
    shown = dict(zip(stores, await run_all(jobs, at_once=len(jobs)), strict=True))
    home = stores[settings.home]
    led = await _led(home, name, shown[settings.home], settings.compactor.slices)
    # A pass recorded at home may not have arrived elsewhere yet.
    passes: Sequence[PassHistory] = ()
    for region in settings.home_first:
        if not passes and not isinstance(shown[region], StoreError):
            passes = await recorded_passes(stores[region], name)
    is_hidden = not passes and isinstance(shown[settings.home], StoreError)
    hidden_by = settings.home if is_hidden else ""
    return CompactorStatus(settings.table, name, shown, led, passes, hidden_by)


async def _lease(store: Store, name: str) -> LeaseRecord | StoreError | None:
    try:
        item = await store.get(Get(lease_key(name)))
    except StoreError as error:
        return error
    return None if item is None else record_of(item)


async def _led(
    store: Store, name: str, shown: LeaseRecord | StoreError | None, slices: int
) -> Mapping[str, int]:
    if not isinstance(shown, LeaseRecord) or not is_marked(shown.data, shown.owner, slices):
        return {}
    directory = await read_directory(store, name, slices)
    names = {HEAD: shown.owner, NO_MEMBER: ""}
    for member, item in directory.members.items():
        names[member] = record_of(item).owner
    return Counter(names.get(owned.owner, "") for owned in directory.slices)


async def passes_seen(settings: Settings, *, clock: Clock) -> PassesObservation:
    """Read the recorded passes, at home if it can be read.

    Raises:
        StoreError: no region can be read; the error of home.
    """
    name = lease_name(settings)
    failures: list[StoreError] = []
    for region in settings.home_first:
        try:
            async with open_store(settings, region, clock=clock) as store:
                passes = await recorded_passes(store, name)
        except StoreError as error:
            failures.append(error)
        else:
            return passes_of(passes, settings, name, now=clock.now())
    raise failures[0]


def passes_of(
    passes: Sequence[PassHistory], settings: Settings, name: str, *, now: datetime
) -> PassesObservation:
    """Return what records, newest first, show of merging."""
    status = CompactorStatus(settings.table, name, {}, {}, passes)
    newest = [recorded.record for recorded in status.newest if recorded.record is not None]
    success, search = status.last_success, status.last_search
    damaged = next((record.report for record in newest if record.report.damaged), None)
    undeleted = next((record.report for record in newest if record.report.undeleted), None)
    last = newest[0].report if newest else None
    return PassesObservation(
        home=settings.home,
        success_age=None if success is None else success.age_seconds(now),
        search_age=None if search is None else search.age_seconds(now),
        search_backlog=0 if search is None else search.report.backlog,
        search_oldest="" if search is None else search.report.oldest,
        nets_signed={} if search is None else search.report.nets_signed,
        late_seconds=max((record.report.late for record in newest), default=0.0),
        damage="" if damaged is None else damaged.damage(),
        undeleted="" if undeleted is None else undeleted.deletes_missing(),
        waits="" if last is None else next(iter(last.hindrances), ""),
        falls_behind=any(record.drain_seconds is None for record in newest),
        has_passes=bool(passes),
        lag_seconds=status.lag_seconds,
        ahead_seconds=max((record.ahead_seconds(now) for record in newest), default=0.0),
    )


def status_fields(shown: CompactorStatus, *, now: datetime) -> dict[str, Any]:
    """Return a status as it is printed in JSON; ages and lags are seconds."""
    return {
        "table": shown.table,
        "lease": shown.lease,
        "regions": {region: _region_fields(shown, region) for region in shown.regions},
        "led": shown.led,
        "last_success": _age_fields(shown.last_success, now),
        "last_search": _search_fields(shown.last_search, now),
        "passes": [_pass_fields(recorded, now) for recorded in shown.newest],
    }


def _region_fields(shown: CompactorStatus, region: str) -> dict[str, Any] | None:
    view = shown.regions[region]
    if isinstance(view, StoreError):
        return {"error": str(view)}
    if view is None:
        return None
    return {
        "leader": view.owner or None,
        "epoch": view.epoch,
        "home": view.home,
        "lag_seconds": shown.lag_seconds.get(region),
    }


def _age_fields(record: PassRecord | None, now: datetime) -> dict[str, Any] | None:
    if record is None:
        return None
    return {
        "owner": record.owner,
        "ended": record.ended,
        "age_seconds": record.age_seconds(now),
        "ahead_seconds": record.ahead_seconds(now),
    }


def _search_fields(record: PassRecord | None, now: datetime) -> dict[str, Any] | None:
    fields = _age_fields(record, now)
    if record is None or fields is None:
        return None
    report = record.report
    oldest = report.oldest or None
    return fields | {
        "backlog": report.backlog,
        "oldest": oldest,
        "nets_signed": report.nets_signed,
        "is_whole": report.is_whole,
    }


def _pass_fields(one: PassHistory, now: datetime) -> dict[str, Any]:
    if one.record is None:
        return {"member": one.member, "error": "of another release"}
    return {
        "member": one.member,
        **(_age_fields(one.record, now) or {}),
        "outcome": one.record.report.outcome,
        "drain_seconds": one.record.drain_seconds,
        "report": one.record.report,
    }


def print_status(shown: CompactorStatus, *, now: datetime) -> None:
    """Print a status: the lease by region, who leads slices, the last passes and what they left."""
    print_grid(_regions(shown))
    for owner, count in sorted(shown.led.items()):
        say(f"{count} slices are led by {owner}" if owner else f"{count} have no leader")
    if shown.newest:
        print_grid(_passes(shown, now))
    for line in _sentences(shown, now):
        say(line)


def _regions(shown: CompactorStatus) -> Grid:
    columns = (
        Column("region"), Column("leader"), number("epoch"), Column("home"), number("lag s")
    )  # fmt: skip
    rows = []
    for region, view in shown.regions.items():
        if isinstance(view, StoreError):
            rows.append((region, "cannot be read", "", "", ""))
        elif view is None:
            rows.append((region, "no compactor has run yet", "", "", ""))
        else:
            owner = view.owner or "none (released)"
            lag = shown.lag_seconds.get(region)
            seconds = "" if lag is None else f"{lag:.2f}"
            rows.append((region, owner, str(view.epoch), view.home, seconds))
    return Grid(columns, rows, title=f"table {shown.table}, lease {shown.lease}")


def _passes(shown: CompactorStatus, now: datetime) -> Grid:
    columns = (
        Column("last pass of"), Column("ended"), Column("outcome"), number("took s"),
        number("folds"), number("merged"), number("deleted"), prose("because"),
    )  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for recorded in shown.newest:
        if recorded.record is None:
            rows.append((recorded.member, "", "of another release", "", "", "", "", ""))
            continue
        report = recorded.record.report
        counts = (f"{count:,}" for count in (report.folds, report.merged, report.deleted))
        seconds = f"{report.seconds:.1f}"
        ended = f"{utc_text(recorded.record.ended)}, {_ago(recorded.record, now)}"
        rows.append(
            (recorded.member, ended, report.outcome, seconds, *counts, _because(recorded.record))
        )
    return Grid(columns, rows)


def _because(record: PassRecord) -> str:
    report = record.report
    said = [report.damage()] * bool(report.damaged) + [report.full()] * bool(report.books_full)
    return "; ".join([*report.hindrances, *said])


def _sentences(shown: CompactorStatus, now: datetime) -> Iterator[str]:
    if shown.hidden_by:
        yield (
            f"passes cannot be read: {shown.hidden_by}, where they are recorded, does not answer,"
            " and no other region shows one"
        )
        return
    if not shown.passes:
        yield (
            "no pass is recorded: none has run, or without the right to put items of the partition"
            " ~pass"
        )
        return
    success, search = shown.last_success, shown.last_search
    if success is None:
        yield "no pass has succeeded yet"
    else:
        ended = f"{utc_text(success.ended)}, {_ago(success, now)}"
        yield f"the last pass that succeeded ended at {ended}"
    if search is not None:
        report = search.report
        part = "" if report.is_whole else " in the part that it reached"
        oldest = f", the oldest made at {report.oldest}" if report.oldest else ""
        yield (
            f"the last search, at {utc_text(search.ended)}, found {report.backlog:,} entries to be"
            f" merged{part}{oldest}"
        )
        if report.nets_signed:
            yield f"of the net changes{part} {signed_text(report.nets_signed)}"
    if any(recorded.record and recorded.record.drain_seconds is None for recorded in shown.newest):
        yield "merging falls behind: more processes share the work (`compactor run --every`)"


def _ago(record: PassRecord, now: datetime) -> str:
    ahead = record.ahead_seconds(now)
    if not ahead:
        return f"{spoken(record.age_seconds(now))} ago"
    return f"{spoken(ahead)} in the future: the clock of {record.owner} is ahead of this one's"


def print_preview(found: CollectionPreview) -> None:
    """Print what a visit to one collection would do, and why not more."""
    if found.damage:
        say(f"{found.collection}: left as it is: {found.damage}")
        return
    shown = ", ".join(f"{count:,} in {region}" for region, count in found.entries.items())
    part = " (as far as a visit reads)" if found.is_cut else ""
    say(f"{found.collection}: the net counts {found.counted:,} entries and names {found.named:,}")
    say(f"  entries{part}: {shown}; at home {found.settled:,} settled, {found.younger:,} younger")
    done = [
        f"fold {found.folds:,} entries" if found.folds else "",
        f"delete {found.deletes:,}" if found.deletes else "",
        f"forget {found.forgets:,} ids" if found.forgets else "",
    ]
    say(f"  a pass would {', '.join(filter(None, done)) or 'do nothing'}")
    for reason in found.reasons:
        say(f"  {reason}")
