"""Which records of a stream bring an entry."""

from decimal import Decimal
from typing import Any

import pytest

from ledger.core.errors import DamagedItem
from ledger.core.parts import expanded
from ledger.reads.feed.reader import entry_in, readable_entry_in

ID = "2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887"


def item(pk: str = "stock", sk: str = ID, **more: Any) -> dict[str, Any]:
    """Return an item, an entry of 2 unless it is said otherwise."""
    return {"pk": {"S": pk}, "sk": {"S": sk}, "change": {"N": "2"}, **more}


def test_a_new_entry_is_one_whatever_its_shard() -> None:
    """With its counter, and all that it says."""
    found = entry_in(None, item("~3~stock", note={"S": "n"}))
    assert found is not None
    assert (found.counter, found.id, found.change, found.note) == ("stock", ID, Decimal(2), "n")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(item(), None, id="deleted"),
        pytest.param(None, item(sk="~net#0001"), id="net"),
        pytest.param(None, item(pk="~lease"), id="of-the-ledger"),
        pytest.param(None, item(pk="~index-0"), id="of-the-index"),
        pytest.param(None, {"pk": {"S": "a"}, "sk": {"S": "b"}}, id="of-another-program"),
        pytest.param(item(), item(), id="put-again"),
        pytest.param(
            item(region={"S": "us-east-1"}), item(region={"S": "eu-west-1"}), id="in-two-regions"
        ),
    ],
)
def test_anything_else_brings_none(old: Any, new: Any) -> None:
    """Merging changes no total, so it is not in the feed."""
    assert entry_in(old, new) is None


def test_another_change_under_the_id_comes_again() -> None:
    """As where one key was used for two changes in two regions: the later one counts."""
    found = entry_in(item(), item(change={"N": "5"}))
    assert found is not None
    assert found.change == 5


def test_what_cannot_be_read_is_an_error() -> None:
    """Which the stream logs."""
    with pytest.raises(DamagedItem):
        entry_in(None, item(change={"S": "two"}))


def test_what_replaces_an_item_that_cannot_be_read_is_new() -> None:
    """Its entry came never before."""
    found = entry_in(item(change={"S": "two"}), item())
    assert found is not None
    assert found.change == 2


def test_what_cannot_be_read_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The feed goes on without it."""
    assert readable_entry_in(None, item(change={"S": "two"})) is None
    assert "left out of the feed" in caplog.text


def shared(parts: str = "5 -1", *, change: str = "4", count: str = "2") -> dict[str, Any]:
    """Return an item that two changes share."""
    return item(change={"N": change}, count={"N": count}, parts={"S": parts})


def test_other_changes_of_one_sum_are_new() -> None:
    """The item that is put in place of another brings all of its changes; the same brings none."""
    assert entry_in(shared(), shared()) is None
    found = entry_in(shared(), shared("6 -2"))
    assert found is not None
    assert [part.change for part in expanded(found)] == [6, -2]


def test_changes_that_do_not_add_up_are_left_out_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """None of them comes; what is put in their place does."""
    wrong = shared(change="5")
    assert readable_entry_in(None, wrong) is None
    assert f"left out of the feed: item '{ID}' of counter 'stock'" in caplog.text
    found = readable_entry_in(wrong, shared())
    assert found is not None
    assert found.change == 4
