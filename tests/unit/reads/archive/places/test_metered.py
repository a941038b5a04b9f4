"""What a process asks of a place is counted, with its time, its bytes and how it ended."""

import pytest
from prometheus_client import CollectorRegistry

from ledger.core.errors import ArchiveDamaged, ArchiveError, ArchiveMissing
from ledger.reads.archive.metrics import ArchiveMetrics
from ledger.reads.archive.places.memory import MemoryPlace
from ledger.reads.archive.places.opening import metered_places
from ledger.testing.clock import ManualClock

URL = "file:///kept"
HERE = {"region": "eu-west-1", "place": URL}


class FullPlace(MemoryPlace):
    """A place that takes no other object."""

    async def replace(self, name: str, data: bytes) -> None:
        """Refuse it."""
        raise ArchiveError(f"no room for {len(data)} bytes of {name}", reason="ENOSPC")


async def test_each_request_is_counted() -> None:
    """By place, operation and outcome; bytes where they were put or read."""
    registry, clock = CollectorRegistry(), ManualClock()
    metrics = ArchiveMetrics.of(registry)
    (place,) = metered_places(
        [FullPlace(URL, region="eu-west-1")], region="eu-west-1", metrics=metrics, clock=clock
    )
    await place.put("a", b"12345")
    with pytest.raises(ArchiveDamaged):
        await place.put("a", b"other")
    assert await place.get("a", start=1, length=2) == b"23"
    with pytest.raises(ArchiveMissing):
        await place.get("none")
    with pytest.raises(ArchiveError):
        await place.replace("a", b"")
    assert [name async for name in place.names()] == ["a"]
    assert await place.region() == "eu-west-1"
    await place.delete("a")
    expected = {
        ("put", "done"): 1,
        ("put", "damaged"): 1,
        ("get", "done"): 1,
        ("get", "missing"): 1,
        ("replace", "ENOSPC"): 1,
        ("region", "done"): 1,
        ("delete", "done"): 1,
    }
    for (operation, outcome), count in expected.items():
        labels = {**HERE, "operation": operation, "outcome": outcome}
        assert registry.get_sample_value("ledger_archive_requests_total", labels) == count
    for operation, size, requests in (("put", 5, 2), ("get", 2, 2)):
        labels = {**HERE, "operation": operation}
        assert registry.get_sample_value("ledger_archive_bytes_total", labels) == size
        name = "ledger_archive_duration_seconds_count"
        assert registry.get_sample_value(name, labels) == requests
