"""The state of the fleet as JSON.

Nothing is left out: what could not be read stands in its place as `{"failed": why}`.
"""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from compactor.status import CompactorStatus, status_fields
from ledger.administration.diagnosis import region_findings
from ledger.administration.diagnosis.all_findings import findings_of
from ledger.administration.diagnosis.diagnosis import CheckState, Diagnosis, DoctorCheck, in_order
from ledger.administration.diagnosis.hot_collection import HotSample
from ledger.administration.diagnosis.observations import (
    FailedLook,
    PassesObservation,
    RegionObservation,
)
from ledger.administration.diagnosis.observer import FleetObservation, with_notes
from ledger.core.contract_item import Contract, terms_to_values
from ledger.core.errors import LedgerError
from ledger.http.service.fleet.lanes import PipelineSeen
from ledger.http.service.fleet.observer import LOOK_SECONDS_MAX, FleetView
from ledger.http.wire.values import Fields

HOT_MAX = 10


def fleet_fields(found: FleetView, *, region: str) -> Fields:
    """Return a look at the fleet as JSON; `region` is that of this instance."""
    seen = found.seen
    return {
        "at": found.at.isoformat(),
        "region": region,
        "table": seen.settings.table,
        "home": seen.settings.home,
        "regions": [
            _region(with_notes(region, seen.notes[region.region]), seen) for region in seen.regions
        ],
        "contract": _contract(seen.contract),
        "lags": _lags(found),
        "lags_at": found.probed_at.isoformat() if found.probed_at else None,
        "compactor": _compactor(found.status, found.at),
        "merging": _failed_or(found.passes, _merging),
        "trend": [
            {
                "at": sample.at.isoformat(),
                "backlog": sample.backlog,
                "late_seconds": sample.late_seconds,
            }
            for sample in found.trend
        ],
        "hot": _failed_or(found.hot, _hot),
        "pipelines": _failed_or(found.pipelines, _pipelines),
        "findings": [asdict(finding) for finding in in_order(_findings(found))],
    }


def _findings(found: FleetView) -> list[Diagnosis]:
    # Whose the credentials are was not asked; that the table refuses them is still a finding.
    of_regions = (
        finding
        for finding in findings_of(found.seen)
        if finding.check is not DoctorCheck.CREDENTIALS or finding.state is not CheckState.OK
    )
    return [
        *of_regions,
        *region_findings.lag_findings(
            found.lags,
            found.passes,
            regions=found.seen.settings.regions,
            seconds_max=LOOK_SECONDS_MAX,
        ),
        *region_findings.compactor_findings(found.passes),
        *region_findings.hot_findings(found.hot, region=found.seen.settings.home),
    ]


def _failed_or(found: Any, render: Any) -> Any:
    return {"failed": found.text} if isinstance(found, FailedLook) else render(found)


def _region(one: RegionObservation, seen: FleetObservation) -> Fields:
    return {
        "region": one.region,
        "home": one.region == seen.settings.home,
        "table": _table(one),
        "contract": _contract(one.contract),
        "clock": one.offset
        and {
            "seconds": one.offset.middle,
            "least": one.offset.least,
            "most": one.offset.most,
            "skew_max": seen.settings.clock_skew,
        },
        "requests": one.requests,
        "throttled": dict(one.throttled),
    }


def _table(one: RegionObservation) -> Fields:
    if isinstance(one.table, FailedLook):
        return {"failed": one.table.text}
    view = one.table.view
    if view is None:
        return {"failed": "there is no table"}
    return {
        "status": view.status,
        "recovery": view.recovery,
        "protected": view.protected,
        "replicas": dict(view.replicas),
    }


def _contract(contract: Contract | LedgerError | FailedLook | None) -> Fields | None:
    match contract:
        case Contract():
            return {
                "revision": contract.revision,
                "generation": contract.generation,
                "pending": contract.coming is not None,
                "terms": terms_to_values(contract.terms),
            }
        case FailedLook():
            return {"failed": contract.text}
        case LedgerError():
            return {"failed": str(contract)}
    return None


def _lags(found: FleetView) -> list[Fields]:
    if found.lags is not None:
        return [asdict(lag) for lag in found.lags]
    if isinstance(found.passes, FailedLook):
        return []
    home = found.passes.home
    return [
        {"source": home, "target": region, "seconds": seconds, "failed": ""}
        for region, seconds in found.passes.lag_seconds.items()
        if region != home
    ]


def _compactor(status: CompactorStatus | FailedLook, now: datetime) -> Fields:
    return (
        {"failed": status.text}
        if isinstance(status, FailedLook)
        else status_fields(status, now=now)
    )


def _merging(passes: PassesObservation) -> Fields:
    return asdict(passes)


def _hot(found: HotSample) -> Fields:
    return {
        "looked_at": len(found.collections),
        "counters": [
            {
                "counter": collection.counter,
                "rate": collection.rate,
                "units": collection.units,
                "shards": collection.shards,
            }
            for collection in found.collections[:HOT_MAX]
            if collection.rate > 0
        ],
    }


def _pipelines(found: Sequence[PipelineSeen]) -> list[Fields]:
    return [asdict(pipeline) for pipeline in found]
