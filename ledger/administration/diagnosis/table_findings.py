"""From the doctor's observations to findings: settings, table, replicas and contract.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches

from ledger.administration.diagnosis.diagnosis import CheckState, Diagnosis, DoctorCheck
from ledger.administration.diagnosis.observations import (
    OF_CREDENTIALS,
    RECOVERY,
    TIME_TO_LIVE,
    Cause,
    FailedLook,
    RegionObservation,
    TableObservation,
)
from ledger.administration.table_plan import (
    PASSING,
    StepKind,
    TableView,
    Views,
    base_of,
    check_view,
    replica_problems,
    steps_to_create,
)
from ledger.core.contract_item import Contract, newest_of, terms_to_values
from ledger.core.errors import ContractConflict, LedgerError, RequestRefused
from ledger.settings import Settings

CREATE = "run `ledger table create`, which completes what is missing and can be repeated"
LOOK_AGAIN = "run this again with credentials that may look (`ledger deploy policy administrator`)"
NETWORK = "check network, endpoint and AWS Health; other regions go on, merging waits"
CORRECT = "correct it in the settings or the environment of each process, then run this again"
OPEN_MODE = 0o027
"""Permission bits that a file of secrets must not have; group read is allowed for services."""
SEE_TABLE = "see the line of the table"
PARTS = {TIME_TO_LIVE: StepKind.EXPIRY, RECOVERY: StepKind.RECOVERY}
"""What is assumed missing if a part of a table's description is not seen."""


def settings_findings(
    settings: Settings,
    *,
    source: str,
    known: Collection[str] | None,
    contract: Contract | None,
) -> Iterator[Diagnosis]:
    """Yield where the settings come from, and where they differ from AWS or the contract.

    `known` are AWS's regions by name, None if they could not be listed.
    """
    strange = [
        name
        for name, region in settings.regions.items()
        if known is not None and region.endpoint is None and name not in known
    ]
    if strange:
        named = (_with_near(name, known or ()) for name in strange)
        what = f"unknown to this release of the AWS SDK: {', '.join(named)}"
        do = "correct `regions`, or upgrade botocore if the region is new"
        yield Diagnosis(DoctorCheck.SETTINGS, "", CheckState.WARNING, what, do)
    wrong = "" if contract is None else _disagreement(settings, contract)
    if wrong:
        do = "remove it from the settings, since the contract counts: `ledger table show`"
        yield Diagnosis(DoctorCheck.SETTINGS, "", CheckState.PROBLEM, wrong, do)
    if not (strange or wrong):
        more = "" if contract is None else "; they agree with the contract"
        what = f"from {source}: table {settings.table} in {', '.join(settings.regions)}{more}"
        yield Diagnosis(DoctorCheck.SETTINGS, "", CheckState.OK, what)


def _with_near(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, sorted(known), n=1)
    return f"{name} (did you mean {near[0]}?)" if near else name


def key_file_findings(path: str, mode: int) -> Iterator[Diagnosis]:
    """Yield a finding if the file of signature keys, with these permissions, is open to others."""
    if mode & OPEN_MODE:
        what = f"signatures.keys {path} has mode {mode & 0o777:o}: others may read or change it"
        do = f"`chmod 600 {path}`, owned by the user that runs the process; then change the keys"
        yield Diagnosis(DoctorCheck.SETTINGS, "", CheckState.WARNING, what, do)


def _disagreement(settings: Settings, contract: Contract) -> str:
    try:
        settings.check_agrees(*contract.accepted)
        for region in contract.regions:
            settings.reach(region)
    except ContractConflict as error:
        return str(error)
    strange = [name for name in settings.regions if name not in contract.regions]
    if strange:
        return f"the contract does not name {', '.join(strange)}, which the settings do"
    return ""


def table_findings(seen: Sequence[RegionObservation], settings: Settings) -> Iterator[Diagnosis]:
    """Yield each region's table: whether it exists, its shape, and what it lacks."""
    views = views_of(seen)
    left: dict[str, list[StepKind]] = {}
    for step in steps_to_create(views, expiry=settings.time_to_live) if views else ():
        left.setdefault(step.region, []).append(step.kind)
    for region in seen:
        table = region.table
        if isinstance(table, FailedLook):
            yield _unseen(region.region, table)
        elif table.view is None:
            what = f"table {settings.table} is not in this region"
            do = CREATE if base_of(views) is None else f"{CREATE}; {_lost(region.region)}"
            yield Diagnosis(DoctorCheck.TABLE, region.region, CheckState.PROBLEM, what, do)
        else:
            yield from _table(table.view, table, left.get(region.region, []), settings)


def _lost(region: str) -> str:
    return f"if the region is lost for good, `compactor take-home HOME --lost {region}`"


def views_of(seen: Sequence[RegionObservation]) -> Views:
    """Return the tables of the regions that were observed; None for a missing one."""
    return {
        region.region: region.table.view
        for region in seen
        if isinstance(region.table, TableObservation)
    }


def _unseen(region: str, failed: FailedLook) -> Diagnosis:
    what = f"{failed.cause}: {failed.text}"
    if failed.cause is Cause.DENIED:
        return Diagnosis(DoctorCheck.TABLE, region, CheckState.UNKNOWN, what, LOOK_AGAIN)
    if failed.cause in OF_CREDENTIALS:
        return Diagnosis(
            DoctorCheck.TABLE, region, CheckState.UNKNOWN, what, "see the line of the credentials"
        )
    if failed.cause is Cause.THROTTLED:
        return Diagnosis(DoctorCheck.TABLE, region, CheckState.UNKNOWN, what, "run this again")
    do = CORRECT if failed.cause is Cause.SETTINGS else NETWORK
    return Diagnosis(DoctorCheck.TABLE, region, CheckState.PROBLEM, what, do)


def _table(
    view: TableView, table: TableObservation, left: Sequence[StepKind], settings: Settings
) -> Iterator[Diagnosis]:
    region = view.region
    wrong = list(_what_is_wrong(view, table, left, settings))
    for state, what, do in wrong:
        yield Diagnosis(DoctorCheck.TABLE, region, state, what, do)
    for part, failed in table.unseen.items():
        what = f"{part}: {failed.cause}: {failed.text}"
        yield Diagnosis(DoctorCheck.TABLE, region, CheckState.UNKNOWN, what, LOOK_AGAIN)
    if not wrong:
        yield Diagnosis(DoctorCheck.TABLE, region, CheckState.OK, _described(view, table))


def _what_is_wrong(
    view: TableView, table: TableObservation, left: Sequence[StepKind], settings: Settings
) -> Iterator[tuple[CheckState, str, str]]:
    try:
        check_view(settings.table, view)
    except RequestRefused as error:
        text = str(error).removeprefix(f"{view.region}, table {settings.table}: ")
        what, _, do = text.rpartition(": ")
        yield CheckState.PROBLEM, what, do
        return
    if view.status in PASSING:
        yield CheckState.WARNING, f"its state is {view.status}", "wait until it is ACTIVE"
    if view.billing != "PAY_PER_REQUEST":
        what = f"billed as {view.billing.lower()}: more than its capacity is throttled"
        yield CheckState.WARNING, what, "bill it on demand, or let capacity follow the load"
    missing = {
        StepKind.STREAM: (CheckState.PROBLEM, "its stream is off, which replicas need"),
        StepKind.EXPIRY: (CheckState.WARNING, "time to live is off, which the settings want"),
        StepKind.RECOVERY: (CheckState.WARNING, "point-in-time recovery is off"),
        StepKind.PROTECT: (CheckState.WARNING, "deletion protection is off"),
    }
    unseen = {PARTS[part] for part in table.unseen}
    for kind, (state, what) in missing.items():
        if kind in left and kind not in unseen:
            yield state, what, CREATE


def _described(view: TableView, table: TableObservation) -> str:
    parts = [
        view.status,
        "on demand" if view.billing == "PAY_PER_REQUEST" else view.billing.lower(),
        f"stream {view.stream or 'off'}",
        "protected from deletion",
    ]
    if RECOVERY not in table.unseen:
        parts.append("recoverable")
    if TIME_TO_LIVE not in table.unseen:
        parts.append(f"time to live by {view.expires}" if view.expires else "time to live off")
    if view.warm is not None:
        parts.append(f"warm throughput {view.warm} a second")
    return ", ".join(parts)


def replica_findings(
    seen: Sequence[RegionObservation], *, contract: Contract | None
) -> Iterator[Diagnosis]:
    """Yield what keeps replicas from replicating, and where contract and table differ."""
    views = views_of(seen)
    base = base_of(views)
    if base is None:
        what = "no region described the table"
        yield Diagnosis(DoctorCheck.REPLICAS, "", CheckState.UNKNOWN, what, SEE_TABLE)
        return
    wrong = False
    for text in replica_problems(views):
        what, _, do = text.partition(": ")
        wrong = True
        yield Diagnosis(
            DoctorCheck.REPLICAS, _region_in(text, views, base), CheckState.PROBLEM, what, do
        )
    there = {base.region, *base.replicas}
    named = set() if contract is None else set(contract.regions)
    for region in sorted(named - there):
        wrong = True
        if region in views and views[region] is None:
            continue  # the line of its table reports it
        what = "the contract names it, and the table has no replica in it: merging waits"
        yield Diagnosis(
            DoctorCheck.REPLICAS, region, CheckState.PROBLEM, what, f"{CREATE}; {_lost(region)}"
        )
    for region in sorted(there - named) if named else ():
        what = "the table has a replica in it, and the contract does not name it: merging waits"
        regions = ",".join((*(contract.regions if contract else ()), region))
        do = f"`ledger table set regions {regions}`, or remove the replica"
        wrong = True
        yield Diagnosis(DoctorCheck.REPLICAS, region, CheckState.PROBLEM, what, do)
    if not wrong:
        states = [f"{base.region} {base.status}"]
        states += [f"{region} {state}" for region, state in base.replicas.items()]
        kind = "MREC" if base.consistency == "EVENTUAL" else base.consistency
        same = ", those of the contract" if named else ""
        what = f"{', '.join(states)} ({kind}){same}"
        yield Diagnosis(DoctorCheck.REPLICAS, "", CheckState.OK, what)


def _region_in(text: str, views: Views, base: TableView) -> str:
    """Return the region that a problem of the replicas (`table_plan`) is about."""
    said = text.replace(",", " ").replace(":", " ").split()
    place = next((said.index(word) for word in ("in", "count") if word in said), -1)
    region = said[place + 1] if 0 <= place < len(said) - 1 else ""
    return region if region in {*views, *base.replicas} else ""


def contract_findings(seen: Sequence[RegionObservation], settings: Settings) -> Iterator[Diagnosis]:
    """Yield whether every region shows the same contract, and what is pending in it."""
    newest = newest_of(region.contract for region in seen)
    read = [region for region in seen if not isinstance(region.contract, FailedLook)]
    if read and newest is None and all(region.contract is None for region in read):
        what = f"table {settings.table} has no contract: ledgers and compactors do not start"
        do = "`ledger table adopt` writes it from the settings"
        yield Diagnosis(DoctorCheck.CONTRACT, "", CheckState.PROBLEM, what, do)
        return
    wrong = False
    for one in seen:
        found = _unread(one, newest)
        if found is not None:
            wrong = True
            yield found
    if newest is None:
        return
    if newest.coming is not None:
        since = "" if newest.since is None else f" since {newest.since:%Y-%m-%dT%H:%M:%SZ}"
        what = f"revision {newest.revision} is pending{since}, {_change(newest)}"
        do = (
            "it takes 21 minutes by default; if it is abandoned, `ledger table set --resume`"
            " finishes it, and `--withdraw` withdraws it"
        )
        yield Diagnosis(DoctorCheck.CONTRACT, "", CheckState.WARNING, what, do)
    elif not wrong:
        where = ", ".join(region.region for region in seen if region.contract == newest)
        what = f"revision {newest.revision} is in force, and shown by {where}"
        yield Diagnosis(DoctorCheck.CONTRACT, "", CheckState.OK, what)
    if not newest.terms.has_journals:
        what = (
            f"books ({', '.join(newest.terms.books)}) without an archive: they keep balances,"
            " and no journal of merged transfers"
        )
        do = "`ledger table set archive URLS` keeps each transfer from then on"
        yield Diagnosis(DoctorCheck.CONTRACT, "", CheckState.WARNING, what, do)


def _unread(seen: RegionObservation, newest: Contract | None) -> Diagnosis | None:
    """Return what is wrong with the contract as one region shows it; None for nothing."""
    shown = seen.contract
    if isinstance(shown, FailedLook):
        what = f"{shown.cause}: {shown.text}"
        if isinstance(seen.table, FailedLook) or shown.cause in OF_CREDENTIALS:
            return Diagnosis(DoctorCheck.CONTRACT, seen.region, CheckState.UNKNOWN, what, SEE_TABLE)
        if shown.cause is Cause.MISSING:
            return Diagnosis(DoctorCheck.CONTRACT, seen.region, CheckState.UNKNOWN, what, SEE_TABLE)
        do = NETWORK
        if shown.cause is Cause.DENIED:
            do = (
                "every process reads it: allow Query on `~contract` (`ledger deploy policy writer`)"
            )
        return Diagnosis(DoctorCheck.CONTRACT, seen.region, CheckState.PROBLEM, what, do)
    if isinstance(shown, LedgerError):
        do = "restore its item under ~contract, or upgrade this release"
        return Diagnosis(DoctorCheck.CONTRACT, seen.region, CheckState.PROBLEM, str(shown), do)
    if newest is None or seen.region not in newest.regions or shown == newest:
        return None
    has = "no contract" if shown is None else f"revision {shown.revision}"
    what = f"shows {has}, another region revision {newest.revision}"
    do = "wait for replication; if it stays so, see the lines of replicas and lag"
    return Diagnosis(DoctorCheck.CONTRACT, seen.region, CheckState.WARNING, what, do)


def _change(contract: Contract) -> str:
    if contract.coming is None or contract.is_founding:
        return "the table's first"
    old, new = terms_to_values(contract.terms), terms_to_values(contract.coming)
    changed = [name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name)]
    return ", ".join(
        f"{name}: {_text(old.get(name))} to {_text(new.get(name))}" for name in changed
    )


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g} s"
    if isinstance(value, Mapping | list | tuple):
        return str(value)
    return "none" if value is None else str(value)
