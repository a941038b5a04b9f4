"""The form of an archive object: no byte of it is free."""

from dataclasses import replace

import pytest

from ledger.archive import objects
from ledger.archive.objects import Indexed
from ledger.core.errors import ArchiveDamaged


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
