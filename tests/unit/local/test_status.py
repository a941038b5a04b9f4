from typing import Any

import pytest

from ledger.local.replication.regions import Gone, Regions
from ledger.local.status import problems, regions_status

NOTHING: dict[str, Any] = {
    **regions_status(Regions(["us-east-1", "eu-west-1"])),
    "failing": 0,
    "failures": [],
    "stopped": {},
}
FAILURE = {
    "source": "us-east-1",
    "target": "eu-west-1",
    "key": "ledger 'a'",
    "error": "no",
    "since": "noon",
    "tries": 3,
}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, []),
        ({"outages": ["eu-west-1"]}, []),
        ({"stopped": {"expiry": "it broke"}}, ["expiry has stopped: it broke"]),
        (
            {"failing": 1, "failures": [FAILURE]},
            ["us-east-1 -> eu-west-1: ledger 'a' is not delivered since noon, after 3 tries: no"],
        ),
    ],
)
def test_what_is_wrong_is_said_in_sentences(change: dict[str, Any], found: list[str]) -> None:
    """What was asked for is not wrong; what was not is named with its error."""
    assert problems({**NOTHING, **change}) == found


def test_items_that_are_not_named_are_counted() -> None:
    """Of many items that fail a few are named."""
    assert problems({**NOTHING, "failing": 7, "failures": [FAILURE]})[1:] == [
        "6 more items are not delivered"
    ]


def test_a_region_that_is_gone_is_wrong_until_it_is_back() -> None:
    """The reason, the starts in vain, and what was lost are said; `reset` forgets the loss."""
    regions = Regions(["us-east-1", "eu-west-1"])
    regions.lose("eu-west-1", "it ended", now=0.0)
    (found,) = problems({**NOTHING, **regions_status(regions)})
    assert found == "eu-west-1 is unavailable since 1970-01-01T00:00:00Z: it ended"
    assert regions.failed("eu-west-1", "no disk") == 1
    assert regions.gone["eu-west-1"] == Gone("it ended", 0.0, 1, "no disk")
    (found,) = problems({**NOTHING, **regions_status(regions)})
    assert found.endswith("it ended; 1 starts failed, the last one: no disk")
    regions.back("eu-west-1", filled=5, lost=[f"ledger '{n}'" for n in range(9)], now=1.0)
    status = regions_status(regions)
    assert problems({**NOTHING, **status}) == ["eu-west-1 has lost 9 items that were nowhere else"]
    (restart,) = status["restarts"]["eu-west-1"]
    assert len(restart["lost_keys"]) == 5
    regions.restarts.clear()
    assert problems({**NOTHING, **regions_status(regions)}) == []
