"""From the observations of every region to the findings that need nothing else."""

from collections.abc import Iterator

from ledger.administration.diagnosis import judging, table_judging
from ledger.administration.diagnosis.finding import Finding
from ledger.administration.diagnosis.observing import Seen, with_notes


def seen_findings(seen: Seen) -> Iterator[Finding]:
    """Yield the findings, good and bad, in each region and between them."""
    skew = seen.settings.clock_skew
    for region in seen.regions:
        one = with_notes(region, seen.notes[region.region])
        yield from judging.credentials_findings(one)
        yield from judging.clock_findings(one, skew=skew)
        yield from judging.permission_findings(one)
        yield from judging.throttling_findings(one)
    yield from table_judging.table_findings(seen.regions, seen.settings)
    yield from table_judging.replica_findings(seen.regions, contract=seen.contract)
    yield from table_judging.contract_findings(seen.regions, seen.settings)
