"""From the doctor's observations to findings: credentials, clock, permissions, lag, passes, rates.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from math import ceil

from ledger.administration.diagnosis.diagnosis import CheckState, Diagnosis, DoctorCheck
from ledger.administration.diagnosis.hot_collection import HotSample
from ledger.administration.diagnosis.observations import (
    OF_CREDENTIALS,
    Cause,
    CredentialsObservation,
    FailedLook,
    LagObservation,
    PassesObservation,
    RegionObservation,
)
from ledger.administration.diagnosis.permission_trials import TrialResult
from ledger.administration.estimate import PARTITION_WRITES, SHARD_SHARE
from ledger.administration.templates.alarms import LATE_SECONDS
from ledger.core.durations import spoken
from ledger.core.signatures import signed_text
from ledger.settings.groups import SHARDS_MAX
from ledger.store.dynamodb.throttling import ADVICE

LAG_SECONDS_USUAL = 5.0
"""AWS replicates most items within a second or two; more deserves a look."""
SKEW_SHARE = 0.5
"""Share of `clock_skew` from which a clock deserves a look: it keeps drifting."""
SILENT_SECONDS = 900.0
"""Seconds without a successful pass: the same as for the alarm on a silent compactor."""
NAMED_MAX = 4
"""The most permissions, or counters, that one line names."""

CREDENTIALS_ADVICE: Mapping[Cause, str] = {
    Cause.NO_CREDENTIALS: "set AWS_PROFILE, or `profile` of the region, or log in",
    Cause.EXPIRED: "log in again (`aws sso login`), or renew the session's credentials",
    Cause.BAD_CREDENTIALS: (
        "check key, secret and session token of the profile in use, the line of the clock, and that"
        " the region is enabled for the account"
    ),
}


def credentials_findings(seen: RegionObservation) -> Iterator[Diagnosis]:
    """Yield what a region's credentials are; DynamoDB's own answers count as evidence, too."""
    one = seen.credentials
    if isinstance(one, FailedLook):
        yield _failed(DoctorCheck.CREDENTIALS, seen.region, one)
        return
    refused = _refused_by_table(seen)
    if refused is not None:
        yield _failed(DoctorCheck.CREDENTIALS, seen.region, refused)
    elif one.is_local:
        what = "an endpoint on this machine, which needs no credentials"
        yield Diagnosis(DoctorCheck.CREDENTIALS, seen.region, CheckState.OK, what)
    elif isinstance(one.identity, FailedLook) and one.identity.cause in OF_CREDENTIALS:
        yield _failed(DoctorCheck.CREDENTIALS, seen.region, one.identity)
    elif isinstance(one.identity, FailedLook):
        what = f"found ({one.source}), identity unknown: STS: {one.identity.text}"
        do = "none needed: DynamoDB takes them" if _is_answered(seen) else "let the role ask STS"
        yield Diagnosis(DoctorCheck.CREDENTIALS, seen.region, CheckState.UNKNOWN, what, do)
    else:
        whose = f"{one.identity} ({one.source})" if one.identity else one.source
        yield Diagnosis(DoctorCheck.CREDENTIALS, seen.region, CheckState.OK, whose)


def _failed(check: DoctorCheck, region: str, failed: FailedLook) -> Diagnosis:
    is_wrong = failed.cause in OF_CREDENTIALS
    what = f"{failed.cause}: {failed.text}"
    do = CREDENTIALS_ADVICE.get(failed.cause, "see the line of the table")
    return Diagnosis(
        check, region, CheckState.PROBLEM if is_wrong else CheckState.UNKNOWN, what, do
    )


def _refused_by_table(seen: RegionObservation) -> FailedLook | None:
    table = seen.table
    return table if isinstance(table, FailedLook) and table.cause in OF_CREDENTIALS else None


def _is_answered(seen: RegionObservation) -> bool:
    return not isinstance(seen.table, FailedLook)


def clock_findings(seen: RegionObservation, *, skew: float) -> Iterator[Diagnosis]:
    """Yield how far this machine's clock is off that of a region; `skew` in seconds."""
    offset = seen.offset
    if offset is None:
        what = "no answer of the region showed its clock"
        yield Diagnosis(
            DoctorCheck.CLOCK, seen.region, CheckState.UNKNOWN, what, "see the line of the table"
        )
        return
    bound = f"clock_skew is {spoken(skew)}"
    what = f"this machine's clock is {offset} that of the region; {bound}"
    if offset.is_beyond(skew):
        do = "set this machine's clock right (NTP, chrony): until then nothing is written or merged"
        yield Diagnosis(DoctorCheck.CLOCK, seen.region, CheckState.PROBLEM, what, do)
    elif offset.is_beyond(SKEW_SHARE * skew):
        do = "let NTP or chrony keep this machine's clock, before it is off by clock_skew"
        yield Diagnosis(DoctorCheck.CLOCK, seen.region, CheckState.WARNING, what, do)
    else:
        yield Diagnosis(DoctorCheck.CLOCK, seen.region, CheckState.OK, what)


def permission_findings(seen: RegionObservation) -> Iterator[Diagnosis]:
    """Yield, for each role that was tried in a region, what is denied and what is not known."""
    for role, tried in seen.tried.items():
        yield from _permissions(seen.region, role, tried)


def _permissions(region: str, role: str, tried: Sequence[TrialResult]) -> Iterator[Diagnosis]:
    allowed, denied, unknown, left = (
        [result for result in tried if result.outcome == outcome]
        for outcome in ("allowed", "denied", "unknown", "not tried")
    )
    if denied:
        what = f"{role}: denied: {_named([result.trial.name for result in denied])}"
        do = f"attach the policy of `ledger deploy policy {role}` to the credentials in use"
        yield Diagnosis(DoctorCheck.PERMISSIONS, region, CheckState.PROBLEM, what, do)
    if unknown:
        names = _named([result.trial.name for result in unknown])
        what = f"{role}: no answer to the trial of {names} ({unknown[0].text})"
        do = "run this again once the region answers and the table is there"
        yield Diagnosis(DoctorCheck.PERMISSIONS, region, CheckState.UNKNOWN, what, do)
    if allowed and not denied:
        what = f"{role}: {len(allowed)} tried, all allowed"
        yield Diagnosis(DoctorCheck.PERMISSIONS, region, CheckState.OK, what)
    for reason in dict.fromkeys(result.text for result in left):
        names = _named([result.trial.action for result in left if result.text == reason])
        what = f"{role}: not tried: {names}: {reason}"
        do = f"compare the policy in use with `ledger deploy policy {role}`"
        yield Diagnosis(DoctorCheck.PERMISSIONS, region, CheckState.UNKNOWN, what, do)


def _named(names: Sequence[str]) -> str:
    named = list(dict.fromkeys(names))
    more = len(named) - NAMED_MAX
    return ", ".join(named[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def throttling_findings(seen: RegionObservation) -> Iterator[Diagnosis]:
    """Yield what throttled the doctor's own requests in a region."""
    if not seen.requests:
        what, do = "nothing was sent", "see the line of the table"
        yield Diagnosis(DoctorCheck.THROTTLING, seen.region, CheckState.UNKNOWN, what, do)
        return
    if not seen.throttled:
        what = f"none of {seen.requests} requests of this run"
        yield Diagnosis(DoctorCheck.THROTTLING, seen.region, CheckState.OK, what)
    for limit, times in seen.throttled.items():
        at = f", at {_named(seen.hot)}" if seen.hot and limit in ADVICE else ""
        what = f"{limit}: {times} of {seen.requests} requests of this run{at}"
        do = ADVICE.get(limit, "send less, or ask for more: `ledger table create --warm`")
        yield Diagnosis(DoctorCheck.THROTTLING, seen.region, CheckState.WARNING, what, do)


def lag_findings(
    probed: Sequence[LagObservation] | None,
    passes: PassesObservation | FailedLook,
    *,
    regions: Collection[str],
    seconds_max: float,
) -> Iterator[Diagnosis]:
    """Yield the lag of each ordered pair of regions: as probed, or as the last pass measured it."""
    if len(regions) == 1:
        yield Diagnosis(DoctorCheck.LAG, "", CheckState.OK, "one region: nothing to replicate")
        return
    if probed is not None:
        for lag in probed:
            if lag.failed:
                what = f"from {lag.source}: not measured: {lag.failed}"
                do = "see the lines of table and permissions"
                yield Diagnosis(DoctorCheck.LAG, lag.target, CheckState.UNKNOWN, what, do)
            else:
                yield _lag(lag.source, lag.target, lag.seconds, seconds_max, "just now")
        return
    measured = {} if isinstance(passes, FailedLook) else passes.lag_seconds
    home = "" if isinstance(passes, FailedLook) else passes.home
    for region, seconds in measured.items():
        if region != home:
            yield _lag(home, region, seconds, seconds_max, "by the compactor's last pass")
    what = "not measured of any pair" if not measured else "not measured of the other pairs"
    do = "run this with --probe, which writes an item in each region and deletes it"
    yield Diagnosis(DoctorCheck.LAG, "", CheckState.UNKNOWN, what, do)


def _lag(
    source: str, target: str, seconds: float | None, seconds_max: float, when: str
) -> Diagnosis:
    do = (
        "see `ledger table status`, the alarms of replication and AWS Health: merging waits for"
        " the slowest region"
    )
    if seconds is None:
        what = f"from {source}: not shown within {seconds_max:g} s"
        return Diagnosis(DoctorCheck.LAG, target, CheckState.PROBLEM, what, do)
    what = f"from {source}: {seconds:.2f} s, {when}"
    if seconds > LAG_SECONDS_USUAL:
        return Diagnosis(DoctorCheck.LAG, target, CheckState.WARNING, what, do)
    return Diagnosis(DoctorCheck.LAG, target, CheckState.OK, what)


def compactor_findings(passes: PassesObservation | FailedLook) -> Iterator[Diagnosis]:
    """Yield the state of merging, by what passes have left in the table."""
    if isinstance(passes, FailedLook):
        do = "see `compactor status`"
        yield Diagnosis(DoctorCheck.COMPACTOR, "", CheckState.UNKNOWN, passes.text, do)
        return
    if not passes.has_passes:
        what = "no pass is recorded: entries are not merged, and reads cost more and more"
        do = "run one: `compactor run --every 60s`, or from a scheduler (deploy/README.md)"
        yield Diagnosis(DoctorCheck.COMPACTOR, "", CheckState.WARNING, what, do)
        return
    wrong = list(_what_is_wrong(passes))
    for state, what, do in wrong:
        yield Diagnosis(DoctorCheck.COMPACTOR, passes.home, state, what, do)
    if not wrong:
        left = "" if passes.search_age is None else _left(passes)
        what = f"last success {spoken(passes.success_age or 0)} ago{left}"
        yield Diagnosis(DoctorCheck.COMPACTOR, passes.home, CheckState.OK, what)
    if passes.nets_signed:
        yield _signed(passes.nets_signed, home=passes.home)


def _signed(nets: Mapping[str, int], *, home: str) -> Diagnosis:
    """Return how far the table's nets are signed, by what the last search saw."""
    what = f"of the net changes that the last search saw {signed_text(nets)}"
    if nets.get(""):
        do = "`ledger table sign`, and `signatures.required: true` once all are"
        return Diagnosis(DoctorCheck.COMPACTOR, home, CheckState.WARNING, what, do)
    if len(nets) > 1:
        do = "`ledger table sign` before the former key is taken out of any key file"
        return Diagnosis(DoctorCheck.COMPACTOR, home, CheckState.WARNING, what, do)
    return Diagnosis(DoctorCheck.COMPACTOR, home, CheckState.OK, what)


def _left(passes: PassesObservation) -> str:
    oldest = f", the oldest of {passes.search_oldest}" if passes.search_oldest else ""
    return f"; {passes.search_backlog:,} entries wait{oldest}"


def _what_is_wrong(passes: PassesObservation) -> Iterator[tuple[CheckState, str, str]]:
    if passes.success_age is None or passes.success_age > SILENT_SECONDS:
        since = "ever" if passes.success_age is None else f"for {spoken(passes.success_age)}"
        why = f": {passes.waits}" if passes.waits else ""
        do = "see that it runs, and `compactor status` for what it waits for"
        yield CheckState.PROBLEM, f"no pass has succeeded {since}{why}", do
    elif passes.waits:
        yield (
            CheckState.WARNING,
            f"the last pass merged nothing: {passes.waits}",
            "fix what it names",
        )
    if passes.ahead_seconds:
        what = f"a pass is dated {spoken(passes.ahead_seconds)} in the future: a clock is off"
        do = (
            "compare the clock of its machine (`compactor status` names it) and this one's with NTP"
        )
        yield CheckState.WARNING, what, do
    if passes.damage:
        do = "see `ledger verify COUNTER`, and restore or remove the item"
        yield CheckState.PROBLEM, passes.damage, do
    if passes.undeleted:
        do = "delete each in the region that shows it: deploy/runbooks/lag-high.md"
        yield CheckState.WARNING, passes.undeleted, do
    if passes.falls_behind or passes.late_seconds > LATE_SECONDS:
        what = f"merging falls behind: {spoken(passes.late_seconds)} late{_left(passes)}"
        do = "run more processes: each `compactor run --every 60s` takes a share"
        yield CheckState.WARNING, what, do


def unmerged_findings(
    found: HotSample | FailedLook, *, region: str, now: datetime
) -> Iterator[Diagnosis]:
    """Yield how many entries of the sample are due to be merged, and since when."""
    if isinstance(found, FailedLook) or not found.unmerged.sampled:
        return  # the line of the hot counters says why
    seen = found.unmerged
    among = f"of {seen.sampled:,} collections in {found.pages} MB of the table at most"
    if seen.since is None:
        what = f"{among} none has settled entries that are due to be merged"
        yield Diagnosis(DoctorCheck.COMPACTOR, region, CheckState.OK, what)
        return
    what = (
        f"{among} {seen.due:,} have {seen.entries:,} settled entries that are not merged, the"
        f" first of them due since {seen.since:%Y-%m-%dT%H:%M:%SZ}"
    )
    if (now - seen.since).total_seconds() > LATE_SECONDS:
        do = "merge them now: `compactor run --once --search`; see `compactor status`"
        yield Diagnosis(DoctorCheck.COMPACTOR, region, CheckState.WARNING, what, do)
    else:
        yield Diagnosis(DoctorCheck.COMPACTOR, region, CheckState.OK, what)


def hot_findings(found: HotSample | FailedLook, *, region: str) -> Iterator[Diagnosis]:
    """Yield the collections that take a large share of a partition key's capacity."""
    if isinstance(found, FailedLook):
        do = "run this with the reader's permissions, once the table answers"
        yield Diagnosis(DoctorCheck.HOT_COUNTERS, region, CheckState.UNKNOWN, found.text, do)
        return
    hot = [
        collection
        for collection in found.collections
        if collection.units >= SHARD_SHARE * PARTITION_WRITES
    ]
    for collection in hot[:NAMED_MAX]:
        shards = min(
            SHARDS_MAX,
            collection.shards * ceil(collection.units / (SHARD_SHARE * PARTITION_WRITES)),
        )
        what = (
            f"{collection.counter!r} took about {collection.rate:,.0f} changes a second in one"
            f" collection, so {collection.units:,.0f} of the {PARTITION_WRITES:,} write units of a"
            " partition key"
        )
        do = f"give it shards: `ledger table set shards '{collection.counter}={shards}'`"
        if collection.shards >= SHARDS_MAX:
            do = "combine its changes (`ledger table set combine`): it has the most shards already"
        yield Diagnosis(DoctorCheck.HOT_COUNTERS, region, CheckState.WARNING, what, do)
    if not hot:
        among = f"the newest hints, and {found.pages} MB of the table at most"
        what = f"none among {len(found.collections)} collections ({among})"
        yield Diagnosis(DoctorCheck.HOT_COUNTERS, region, CheckState.OK, what)
    if found.unseen:
        do = "run this with a role that may (`archivist`), or with --sample 0"
        yield Diagnosis(DoctorCheck.HOT_COUNTERS, region, CheckState.UNKNOWN, found.unseen, do)


def local_credentials() -> CredentialsObservation:
    """Return the credentials of an endpoint that needs none."""
    return CredentialsObservation("none asked for", None, is_local=True)
