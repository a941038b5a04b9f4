"""The output of `compactor status` and `compactor plan`."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from compactor.pass_record import PassRecord, Recorded
from compactor.preview import CollectionPreview
from compactor.status import CompactorStatus
from ledger.core.durations import spoken
from ledger.core.errors import StoreError
from ledger.core.signatures import signed_text
from ledger.runtime.console_tables import Column, Grid, number, print_grid, prose
from ledger.runtime.output import say, utc_text


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


def _pass_fields(one: Recorded, now: datetime) -> dict[str, Any]:
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
    return "; ".join([*report.hindrances, *([report.damage()] if report.damaged else [])])


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
