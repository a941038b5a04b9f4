"""The status report of a local global table: the content of `LocalGlobalTable.status`."""

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from ledger.local.engines.port import shown_key
from ledger.local.replication.links import Link, LinkFailure, LinkHold
from ledger.local.replication.regions import Gone, Regions, Restart
from ledger.local.replication.replicator import Replicator
from ledger.runtime.output import utc_text

FAILURES_SHOWN_MAX = 10
"""Items of one link that are named; all are counted."""


def replication_status(replicator: Replicator) -> dict[str, Any]:
    """Return delays, what each link does and carries, which items fail, and counts so far."""
    links = replicator.links
    return {
        "lag": replicator.delays.lag,
        "jitter": replicator.delays.jitter,
        "queued": {_pair(link): link.waiting for link in links},
        "states": {_pair(link): _state(link) for link in links},
        "paused": [[link.source, link.target] for link in links if LinkHold.PAUSED in link.holds],
        "failing": sum(len(link.failures) for link in links),
        "failures": [
            _failure(link, failure)
            for link in links
            for failure in islice(link.failures, FAILURES_SHOWN_MAX)
        ],
        "applied": replicator.applied,
        "dropped": replicator.dropped,
    }


def regions_status(regions: Regions) -> dict[str, Any]:
    """Return which regions do not answer, why, and which were started again with what loss."""
    return {
        "outages": sorted(regions.outages),
        "lost": sorted(regions.lost),
        "unavailable": {region: _gone(gone) for region, gone in regions.gone.items()},
        "restarts": {
            region: [_restart(restart) for restart in restarts]
            for region, restarts in regions.restarts.items()
        },
    }


def problems(status: Mapping[str, Any]) -> list[str]:
    """Return the unrequested problems of a table of this status, in sentences."""
    found = [
        f"{region} is unavailable since {gone['since']}: {gone['reason']}"
        + (f"; {gone['tries']} starts failed, the last one: {gone['error']}" * bool(gone["tries"]))
        for region, gone in status["unavailable"].items()
    ]
    found += [
        f"{failure['source']} -> {failure['target']}: {failure['key']} is not delivered since "
        f"{failure['since']}, after {failure['tries']} tries: {failure['error']}"
        for failure in status["failures"]
    ]
    unnamed = status["failing"] - len(status["failures"])
    if unnamed:
        found.append(f"{unnamed} more items are not delivered")
    for region, restarts in status["restarts"].items():
        lost = sum(restart["lost"] for restart in restarts)
        if lost:
            found.append(f"{region} has lost {lost} items that were nowhere else")
    found += [f"{part} has stopped: {error}" for part, error in status["stopped"].items()]
    return found


def _pair(link: Link) -> str:
    return f"{link.source} {link.target}"


def _state(link: Link) -> str:
    if link.holds:
        return str(max(link.holds, key=list(LinkHold).index))
    return "failing" if link.failures else "up"


def _failure(link: Link, failure: LinkFailure) -> dict[str, Any]:
    shipment = failure.shipment
    return {
        "source": link.source,
        "target": link.target,
        "key": shown_key(shipment.change.table, shipment.token),
        "error": failure.error,
        "since": _moment(failure.since),
        "tries": failure.tries,
    }


def _gone(gone: Gone) -> dict[str, Any]:
    since = _moment(gone.since)
    return {"reason": gone.reason, "since": since, "tries": gone.tries, "error": gone.error}


def _restart(restart: Restart) -> dict[str, Any]:
    return {
        "reason": restart.reason,
        "gone_at": _moment(restart.gone_at),
        "back_at": _moment(restart.back_at),
        "filled": restart.filled,
        "lost": restart.lost,
        "lost_keys": list(restart.lost_keys),
    }


def _moment(seconds: float) -> str:
    return utc_text(datetime.fromtimestamp(seconds, UTC))
