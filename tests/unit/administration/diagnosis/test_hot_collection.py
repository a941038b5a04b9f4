"""How often a collection is written to, by the times in its sort keys."""

from datetime import timedelta

import pytest

from ledger.administration.diagnosis.hot_collection import HotCollection, rate_of
from ledger.core.ids import sort_key
from ledger.testing.clock import START

RECENT = 1_320.0


def keys(count: int, seconds: float, *, until: float = 0.0) -> list[str]:
    """Return sort keys of entries spread over so many seconds that ended `until` seconds ago."""
    step = timedelta(seconds=seconds) / (count - 1)
    first = START - timedelta(seconds=until + seconds)
    return [sort_key(first + place * step, place) for place in range(count)]


@pytest.mark.parametrize(
    ("count", "seconds", "until", "rate"),
    [
        (5_001, 10.0, 0.0, 500.0),
        (201, 100.0, 60.0, 2.0),
        (201, 0.1, 0.0, 20.0),  # a batch: over ten seconds, not over a tenth of one
        (201, 100.0, RECENT + 1, 0.0),  # it rests
    ],
)
def test_rate(count: int, seconds: float, until: float, rate: float) -> None:
    """Entries by the time between the first and the last of them."""
    found = rate_of(keys(count, seconds, until=until), now=START, recent_seconds=RECENT)
    assert found == pytest.approx(rate, rel=1e-3)


def test_a_batch_is_suspect_over_a_shorter_time() -> None:
    """What looks hot in a tenth of a second deserves a closer look."""
    found = rate_of(keys(201, 0.1), now=START, recent_seconds=RECENT, span_seconds_min=0.1)
    assert found == pytest.approx(2_000.0, rel=1e-3)


def test_foreign_items_do_not_count() -> None:
    """Nets, sums and items of others have no time of ours; nothing at all has no rate."""
    foreign = ["~net#0001", "~sum#us-east-1", "mine"]
    mixed = [*keys(101, 10.0), *foreign]
    assert rate_of(mixed, now=START, recent_seconds=RECENT) == pytest.approx(10.0, rel=1e-3)
    assert rate_of(foreign, now=START, recent_seconds=RECENT) == 0.0


def test_an_entry_is_put_and_deleted() -> None:
    """Each costs its partition key two write units."""
    assert HotCollection("c", "c", 350.0).units == 700.0
