"""Versions judged: what an event is, what is newer, what is damage."""

import pytest

from ledger.core import keys
from ledger.core.entry import Item
from ledger.core.errors import DamagedItem, InvalidCounter, InvalidInput
from ledger.primitives.versions import VERSION_MAX, Event, version_of
from ledger.primitives.versions.version_rules import VersionRules
from ledger.store.conditions import holds
from ledger.testing.clock import START

PLACE: Item = {"pk": {"S": "~version~c"}, "sk": {"S": "record"}}


@pytest.mark.parametrize("version", [0, 1, 2**63, VERSION_MAX])
def test_versions_are_whole_numbers(version: int) -> None:
    """Any int from 0 to 10^38 - 1 is a version, and is read back as it was written."""
    event = Event("c", version)
    assert version_of(VersionRules().version_put(event, now=START).item) == version


@pytest.mark.parametrize("version", [-1, VERSION_MAX + 1, 1.0, "1", True, None])
def test_other_kinds_are_refused(version: object) -> None:
    """Texts, floats and bools have other orders, and 39 digits do not fit: all are refused."""
    with pytest.raises(InvalidInput, match="version"):
        Event("c", version)  # type: ignore[arg-type]


def test_subjects_and_kinds_have_rules() -> None:
    """A subject follows the rules of counter ids; a kind has 1 to 1,024 bytes."""
    with pytest.raises(InvalidCounter, match="subject must not begin with '~'"):
        Event("~c", 1)
    with pytest.raises(InvalidCounter, match="subject must have 1 to 1,024 bytes, got ''"):
        Event("", 1)
    for kind in ("", "k" * 1025):
        with pytest.raises(InvalidInput, match="kind"):
            Event("c", 1, kind)


def test_an_event_deletes_or_does_not() -> None:
    """A text would count as True, and end the record."""
    with pytest.raises(InvalidInput, match="deletes must be True or False, got 'no'"):
        Event("c", 1, deletes="no")  # type: ignore[arg-type]


def test_the_ledger_takes_no_version_for_a_counter() -> None:
    """The partition of versions is the ledger's own."""
    assert Event("c", 1, "address").key == ("~version~c", "address")
    assert keys.counter_of("~version~c") is None


@pytest.mark.parametrize(
    ("there", "is_newer"),
    [(None, True), ("9", True), ("10", False), ("11", False), ("100", False), ("0", True)],
)
def test_newer_compares_numbers(there: str | None, *, is_newer: bool) -> None:
    """Version 10 is newer than nothing, 0 and 9, not than 10, 11 and 100."""
    item = None if there is None else {**PLACE, "version": {"N": there}}
    assert holds(VersionRules().newer(10), item) is is_newer
    assert VersionRules().is_old(10, version_of(item)) is not is_newer


@pytest.mark.parametrize("version", [None, {"S": "7"}, {"N": "7.5"}, {"N": "-1"}])
def test_what_is_no_version_is_damage(version: dict[str, str] | None) -> None:
    """An item without a whole number as its version is neither old nor new."""
    with pytest.raises(DamagedItem):
        version_of(PLACE if version is None else {**PLACE, "version": version})
