"""The form of an archive object: no byte of it is free."""

import tracemalloc
from dataclasses import replace

import pytest

from compactor.observation import PAGES_WHOLE_MAX
from ledger.core.errors import ArchiveDamaged
from ledger.reads.archive import objects
from ledger.reads.archive.objects import Indexed
from ledger.settings.groups import FOLD_MAX_LIMIT


def test_a_member_is_read_as_it_was_written_alone() -> None:
    """Its checksum, and the spaces by which it was filled up, included."""
    packed = objects.with_slack(b"lines")
    assert objects.lines_of(packed, "it") == b"lines"
    for at in (12, len(packed) - 8, len(packed) - 1):
        changed = bytearray(packed)
        changed[at] ^= 1
        with pytest.raises(ArchiveDamaged, match="it is damaged"):
            objects.lines_of(bytes(changed), "it")
    with pytest.raises(ArchiveDamaged, match="its checksum does not match"):
        objects.lines_of(packed + b"\0", "it")


def test_a_member_unpacks_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes could stand for gigabytes: no more than the bound is held."""
    monkeypatch.setattr(objects, "LINES_BYTES_MAX", 1_000)
    assert objects.lines_of(objects.member(b"x" * 1_000), "it") == b"x" * 1_000
    bomb = objects.member(b"x" * 50_000_000)
    tracemalloc.start()
    with pytest.raises(ArchiveDamaged, match="it is damaged: it unpacks to over 1,000 bytes"):
        objects.lines_of(bomb, "it")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_the_bound_has_room_for_the_longest_fold() -> None:
    """JSON makes six bytes of a control character; a line has some 200 of its own."""
    pages = (PAGES_WHOLE_MAX + 1) * 1024 * 1024
    assert 6 * pages + 200 * FOLD_MAX_LIMIT < objects.LINES_BYTES_MAX


def test_an_index_that_leaves_bytes_out_is_refused() -> None:
    """Segments lie one after the other, from the first byte to the index."""
    members = [objects.member(text) for text in (b"one", b"two", b"three")]
    index, at = list[Indexed](), 0
    for number, packed in enumerate(members, 1):
        index.append(Indexed("c", number, "", "", at, len(packed), objects.sha256_of(packed)))
        at += len(packed)

    def data(rows: list[Indexed]) -> bytes:
        packed = objects.index_member(rows)
        return b"".join(members) + packed + objects.trailer(at, packed)

    assert objects.whole_index(data(index), "it") == index
    for rows in (index[:2], index[1:], [index[0], index[2]], [index[1], index[0], index[2]], []):
        with pytest.raises(ArchiveDamaged, match="it is damaged"):
            objects.whole_index(data(rows), "it")
    packed = objects.index_member(index)
    more = b"".join(members) + packed + b"more" + objects.trailer(at, packed)
    with pytest.raises(ArchiveDamaged, match="is not its length"):
        objects.whole_index(more, "it")
    hidden = [index[0], replace(index[2], number=2), index[2]]
    with pytest.raises(ArchiveDamaged, match="is not as it was written"):
        objects.whole_index(data(hidden), "it")
