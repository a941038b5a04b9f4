"""The doctor's looks at every region: concurrent, each within its own time limit.

::

    first     credentials | table | time to live | recovery | contract      of every region
    then      permissions, under the contract that was found                 of every region

Nothing is written: see `ledger.administration.diagnosis.permission_trials`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

from ledger.administration.diagnosis import permission_trials
from ledger.administration.diagnosis.identity import identify
from ledger.administration.diagnosis.observations import (
    RECOVERY,
    TIME_TO_LIVE,
    Cause,
    FailedLook,
    RegionObservation,
    TableObservation,
)
from ledger.administration.diagnosis.permission_trials import Trial, TrialResult
from ledger.administration.diagnosis.region_client import (
    Looks,
    Notes,
    NotingTransport,
    ask_region,
    failed,
    look_within,
)
from ledger.administration.table import expiring_by, is_recoverable, table_view
from ledger.administration.table_plan import TableView
from ledger.administration.templates.roles import Role
from ledger.contract.view import NEWEST
from ledger.core.contract_item import Contract, contract_of, newest_of
from ledger.core.errors import LedgerError
from ledger.runtime.foreign import FOREIGN, error_code
from ledger.runtime.tasks import run_all
from ledger.settings import Settings
from ledger.store.dynamodb.clock_watch import ClockWatch
from ledger.store.dynamodb.errors import MISSING_CODES, cancellation_reasons
from ledger.store.dynamodb.requests import query_request

TRIALS_AT_ONCE = 4
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class FleetObservation:
    """All regions, home first, the newest contract, and the settings under it as far as they go.

    Further looks at a region continue with its `notes`.
    """

    settings: Settings
    regions: Sequence[RegionObservation]
    contract: Contract | None
    notes: Mapping[str, Notes]


async def look_at_all(
    settings: Settings, looks: Looks, *, roles: Sequence[Role], only: str | None = None
) -> FleetObservation:
    """Look at every region of the settings and of the contract, or at one only."""
    notes: dict[str, Notes] = {}
    seen: dict[str, RegionObservation] = {}
    regions = settings.home_first if only is None else [only]
    while True:
        waiting = [region for region in regions if region not in seen]
        notes |= {region: Notes(ClockWatch(looks.clock)) for region in waiting}
        jobs = [partial(_first, settings, region, notes[region], looks) for region in waiting]
        seen |= {
            region_seen.region: region_seen
            for region_seen in await run_all(jobs, at_once=len(jobs))
        }
        newest = newest_of(region_seen.contract for region_seen in seen.values())
        settings = _under(settings, newest)
        regions = settings.home_first if only is None else [only]
        if set(regions) <= {*seen}:
            break
    jobs = [partial(_then, settings, seen[region], notes[region], looks, roles) for region in seen]
    shown = {
        region_seen.region: region_seen for region_seen in await run_all(jobs, at_once=len(jobs))
    }
    ordered = dict.fromkeys((*regions, *shown))
    return FleetObservation(settings, [shown[region] for region in ordered], newest, notes)


def _under(settings: Settings, contract: Contract | None) -> Settings:
    """Return the settings under the contract; unchanged if they conflict with it."""
    if contract is None:
        return settings
    try:
        return settings.under(contract.obeyed, home=contract.terms.home)
    except LedgerError:  # a region of the contract that cannot be reached from here
        return settings


async def _first(settings: Settings, region: str, notes: Notes, looks: Looks) -> RegionObservation:
    """Look at credentials, table and contract of one region."""
    whose = look_within(
        partial(looks.identify or identify, settings, region),
        region=region,
        table=settings.table,
        seconds_max=looks.seconds_max,
    )
    found: dict[str, Any] = {}

    async def credentials() -> None:
        found["credentials"] = await whose

    async def rest() -> None:
        found["table"], found["contract"] = await _described(settings, region, notes, looks)

    await run_all([credentials, rest], at_once=2)
    seen = RegionObservation(
        region=region,
        credentials=found["credentials"],
        table=found["table"],
        contract=found["contract"],
    )
    return with_notes(seen, notes)


async def _described(
    settings: Settings, region: str, notes: Notes, looks: Looks
) -> tuple[TableObservation | FailedLook, Contract | LedgerError | FailedLook | None]:
    try:
        async with ask_region(settings, region, notes, looks) as transport:
            look = _Look(settings, region, transport, looks)
            table, contract = await run_all([look.table, look.contract], at_once=2)
            return cast("TableObservation | FailedLook", table), cast(
                "Contract | FailedLook | None", contract
            )
    except (*FOREIGN, LedgerError) as error:
        why = failed(error, region=region, table=settings.table)
        return why, why


async def _then(
    settings: Settings, seen: RegionObservation, notes: Notes, looks: Looks, roles: Sequence[Role]
) -> RegionObservation:
    """Try the permissions of roles in one region, if any are asked for."""
    if not roles:
        return seen
    made = {
        role: list(permission_trials.trials_of(role, settings, seen.region, number=looks.number))
        for role in roles
    }
    try:
        async with ask_region(settings, seen.region, notes, looks) as transport:
            look = _Look(settings, seen.region, transport, looks)
            tried = {role.value: await look.all_tried(each) for role, each in made.items()}
    except (*FOREIGN, LedgerError) as error:
        why = failed(error, region=seen.region, table=settings.table).text
        tried = {
            role.value: [_untried(trial, why) for trial in each] for role, each in made.items()
        }
    tried = {role: each for role, each in tried.items() if each}
    return with_notes(replace(seen, tried=tried), notes)


def _untried(trial: Trial, why: str) -> TrialResult:
    return TrialResult(trial, "unknown", why)


def with_notes(seen: RegionObservation, notes: Notes) -> RegionObservation:
    """Return the observations of a region with what its answers have shown since."""
    return replace(
        seen,
        offset=notes.watch.offset,
        requests=notes.requests,
        throttled=dict(notes.throttled),
        hot=tuple(notes.hot),
    )


async def _sent_to_s3(trial: Trial, client: Any) -> TrialResult:
    try:
        await getattr(client, trial.operation)(**(trial.request or {}))
    except FOREIGN as error:
        if not (code := error_code(error)):
            raise
        return permission_trials.refused_by_s3(trial, code, str(error))
    return TrialResult(trial, "allowed")


@dataclass(frozen=True, slots=True)
class _Look:
    settings: Settings
    region: str
    transport: NotingTransport
    looks: Looks

    async def _within(self, look: Callable[[], Awaitable[Found]]) -> Found | FailedLook:
        return await look_within(
            look,
            region=self.region,
            table=self.settings.table,
            seconds_max=self.looks.seconds_max,
        )

    async def _describe(self, operation: str, name: str) -> Any:
        answer = await self.transport.send(operation, {"TableName": self.settings.table})
        return answer[name]

    async def table(self) -> TableObservation | FailedLook:
        """Describe the table; time to live and recovery separately, as each may be denied."""
        parts = {
            "describe_table": "Table",
            "describe_time_to_live": "TimeToLiveDescription",
            "describe_continuous_backups": "ContinuousBackupsDescription",
        }
        jobs = [partial(self._within, partial(self._describe, *part)) for part in parts.items()]
        described, expiry, backups = await run_all(jobs, at_once=len(jobs))
        if isinstance(described, FailedLook):
            return TableObservation(None) if described.cause is Cause.MISSING else described
        view: TableView = table_view(self.region, described)
        unseen: dict[str, FailedLook] = {}
        if isinstance(expiry, FailedLook):
            unseen[TIME_TO_LIVE] = expiry
        else:
            view = replace(view, expires=expiring_by(expiry))
        if isinstance(backups, FailedLook):
            unseen[RECOVERY] = backups
        else:
            view = replace(view, recovery=is_recoverable(backups))
        return TableObservation(view, unseen)

    async def contract(self) -> Contract | LedgerError | FailedLook | None:
        """Read the contract; a damaged or too new one is returned as the error."""
        return await self._within(self._contract)

    async def _contract(self) -> Contract | LedgerError | None:
        request = query_request(NEWEST, self.settings.table)
        items = (await self.transport.send("query", request))["Items"]
        try:
            return contract_of(items[0]) if items else None
        except LedgerError as error:
            return error

    async def all_tried(self, made: Sequence[Trial]) -> list[TrialResult]:
        """Try permissions, a few at a time."""
        silence: list[str] = []
        sent = [trial for trial in made if trial.request is not None]
        jobs = [partial(self._tried, trial, silence) for trial in sent if trial.service != "s3"]
        tried = await run_all(jobs, at_once=TRIALS_AT_ONCE) if jobs else []
        of_s3 = await self._tried_of_s3([trial for trial in sent if trial.service == "s3"])
        return [*tried, *of_s3, *permission_trials.not_tried(made)]

    async def _tried_of_s3(self, made: Sequence[Trial]) -> list[TrialResult]:
        """Try permissions on the archive's objects, with the credentials that archives use."""
        if not made:
            return []
        try:
            async with self.looks.objects() as client:
                return [await self._tried(trial, [], client) for trial in made]
        except FOREIGN as error:
            return [_untried(trial, str(error)) for trial in made]

    async def _tried(self, trial: Trial, silence: list[str], client: Any = None) -> TrialResult:
        """Try one permission; after a trial without an answer, no more are tried in that region."""
        if silence:
            return _untried(trial, silence[0])
        send = partial(self._sent, trial) if client is None else partial(_sent_to_s3, trial, client)
        found = await self._within(send)
        if not isinstance(found, FailedLook):
            return found
        if found.cause is Cause.UNANSWERED:
            silence.append(found.text)
        return _untried(trial, found.text)

    async def _sent(self, trial: Trial) -> TrialResult:
        try:
            answer = await self.transport.send(trial.operation, dict(trial.request or {}))
        except FOREIGN as error:
            if not (code := error_code(error)):
                raise
            if code in MISSING_CODES:
                return _untried(trial, f"there is no table {trial.table!r}")
            text = failed(error, region=self.region, table=trial.table).text
            return permission_trials.refused(trial, code, cancellation_reasons(error), text)
        return permission_trials.answered(trial, answer)
