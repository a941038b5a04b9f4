"""One set of outcome classes, in the store and in all that is built on it."""

import pytest

import ledger
from ledger.primitives import counters
from ledger.store import writes


@pytest.mark.parametrize("name", ["Applied", "Rejected", "Unknown"])
def test_an_outcome_is_one_class_everywhere(name: str) -> None:
    """What a counter answers can be matched with the names of the package, or of the store."""
    assert getattr(ledger, name) is getattr(counters, name) is getattr(writes, name)
