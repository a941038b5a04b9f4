import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ledger.core.errors import LocalTableError
from ledger.local.engines.port import ApiError, ItemChange
from ledger.local.replication.journal import FILE, FORMAT, Journal, Kept, KeptToken
from ledger.local.replication.stamps import Shipment, Stamp

EAST, WEST, TABLE = "us-east-1", "eu-west-1", "ledger"
STAMP = Stamp(5, EAST)


def shipment(pk: str, image: dict[str, Any] | None = None, *, table: str = TABLE) -> Shipment:
    """Give a change of one item; without an image its delete."""
    key = {"pk": {"S": pk}}
    whole = None if image is None else {**key, **image}
    return Shipment(ItemChange(table, key, whole), (pk,), STAMP, 1)


def keys(journal: Journal, region: str = EAST) -> list[str]:
    """Give the keys that were kept of a region's table."""
    return sorted(kept.key["pk"]["S"] for kept in journal.items(region, TABLE))


def test_what_was_kept_is_there_after_the_next_start(tmp_path: Path) -> None:
    """Items come back in the form of the wire, with their stamps; a delete as a tombstone."""
    journal = Journal.open(tmp_path / "made" / "here")
    journal.keep(
        EAST, [shipment("a", {"b": {"B": b"\x00\xff"}, "s": {"SS": ["x"]}}), shipment("d")]
    )
    journal.keep(EAST, [shipment("a", {"b": {"B": b"\x01"}})])
    journal.state("fact", {"n": [1]})
    journal.close()
    again = Journal.open(tmp_path / "made" / "here")
    assert sorted(again.items(EAST, TABLE), key=str) == [
        Kept({"pk": {"S": "a"}}, {"pk": {"S": "a"}, "b": {"B": "AQ=="}}, STAMP),
        Kept({"pk": {"S": "d"}}, None, STAMP),
    ]
    assert list(again.items(WEST, TABLE)) == []
    assert again.fact("fact") == {"n": [1]}
    assert again.fact("other") is None
    again.close()


def test_all_of_a_request_or_nothing(tmp_path: Path) -> None:
    """What fails in between leaves nothing of the request behind."""
    journal = Journal.open(tmp_path)

    def write(pk: str) -> None:
        with journal.together():
            journal.keep(EAST, [shipment(pk, {})])
            journal.remember(KeptToken(EAST, pk, 1.0, b"x"))
            if pk == "bad":
                raise ValueError(pk)

    write("good")
    with pytest.raises(ValueError, match="bad"):
        write("bad")
    assert keys(journal) == ["good"]
    assert [token.token for token in journal.tokens(since=0.0)] == ["good"]
    journal.close()


def test_tokens_are_forgotten_in_time(tmp_path: Path) -> None:
    """Only tokens that still count are given, the oldest first."""
    journal = Journal.open(tmp_path)
    tokens = [KeptToken(EAST, name, at, b"x") for name, at in (("c", 3.0), ("a", 1.0), ("b", 2.0))]
    for token in tokens:
        journal.remember(token)
    assert [token.token for token in journal.tokens(since=2.0)] == ["b", "c"]
    assert [token.token for token in journal.tokens(since=0.0)] == ["b", "c"]
    journal.close()


def test_tables_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    """So are tombstones, once nothing can arrive that they would have to refuse."""
    journal = Journal.open(tmp_path)
    journal.keep(EAST, [shipment("a", {}), shipment("b"), shipment("a", {}, table="other")])
    journal.keep(WEST, [shipment("a", {})])
    journal.forget_others([(EAST, TABLE)])
    assert (keys(journal), keys(journal, WEST)) == (["a", "b"], [])
    assert list(journal.items(EAST, "other")) == []
    journal.forget_tombstones()
    assert keys(journal) == ["a"]
    journal.close()


@pytest.mark.slow
def test_one_folder_is_for_one_table_at_a_time(tmp_path: Path) -> None:
    """Two that write to one state would lose each other's writes."""
    journal = Journal.open(tmp_path)
    with pytest.raises(LocalTableError, match="another local global table uses it"):
        Journal.open(tmp_path)
    journal.close()
    Journal.open(tmp_path).close()


def test_another_file_is_refused(tmp_path: Path) -> None:
    """Neither a file that is no state, nor one of a later release, is written over."""
    (tmp_path / FILE).write_bytes(b"not a database, but longer than its header would be" * 20)
    with pytest.raises(LocalTableError, match="not a database"):
        Journal.open(tmp_path)
    (tmp_path / "later").mkdir()
    journal = Journal.open(tmp_path / "later")
    journal.state("format", FORMAT + 1)
    journal.close()
    with pytest.raises(LocalTableError, match=f"format {FORMAT + 1}"):
        Journal.open(tmp_path / "later")


def test_what_cannot_be_kept_is_an_error(tmp_path: Path) -> None:
    """A write that did not reach the disk is not answered as one that did."""
    journal = Journal.open(tmp_path)
    journal.close()
    with pytest.raises(ApiError, match="cannot be kept") as caught:
        journal.keep(EAST, [shipment("a", {})])
    assert caught.value.status == 500
    assert isinstance(caught.value.__cause__, sqlite3.Error)


def test_without_a_folder_nothing_is_kept() -> None:
    """A table that keeps nothing goes through the same calls."""
    journal = Journal()
    with journal.together():
        journal.keep(EAST, [shipment("a", {})])
        journal.state("fact", 1)
    assert (list(journal.items(EAST, TABLE)), journal.fact("fact")) == ([], None)
