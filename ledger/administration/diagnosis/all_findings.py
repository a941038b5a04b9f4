"""From the observations of every region to the findings that need nothing else."""

from collections.abc import Iterator

from ledger.administration.diagnosis import region_findings, table_findings
from ledger.administration.diagnosis.diagnosis import Diagnosis
from ledger.administration.diagnosis.observer import FleetObservation, with_notes


def findings_of(seen: FleetObservation) -> Iterator[Diagnosis]:
    """Yield the findings, good and bad, in each region and between them."""
    skew = seen.settings.clock_skew
    for region in seen.regions:
        one = with_notes(region, seen.notes[region.region])
        yield from region_findings.credentials_findings(one)
        yield from region_findings.clock_findings(one, skew=skew)
        yield from region_findings.permission_findings(one)
        yield from region_findings.throttling_findings(one)
    yield from table_findings.table_findings(seen.regions, seen.settings)
    yield from table_findings.replica_findings(seen.regions, contract=seen.contract)
    yield from table_findings.contract_findings(seen.regions, seen.settings)
