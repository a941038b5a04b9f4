"""The head of a chain of segments: its pointers, what they say they leap over, and its bytes."""

from dataclasses import replace

import pytest

from ledger.core import archive_pointers
from ledger.core.archive_pointers import ArchiveState, PointerPlace
from ledger.core.ids import EntryId

STEP = 1_000


def chain(numbers: int) -> ArchiveState:
    """Return the head of so many segments, of the microseconds `number * STEP` and one more."""
    head = archive_pointers.BEGUN
    for number in range(1, numbers + 1):
        place = PointerPlace(EntryId(number, 7), 10 * number, 100)
        first = number * STEP
        stamp = number.to_bytes(archive_pointers.CHAIN_BYTES, "big")
        head = archive_pointers.followed(
            head, place, stamp, first=first, last=first + 1, settled=number
        )
    return head


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (0, []),
        (1, [1]),
        (4, [4]),
        (7, [7, 4]),
        (21, [21, 20, 16]),
        (64, [64]),
        (67, [67, 64]),
        (86, [86, 84, 80, 64]),
    ],
)
def test_pointers_go_back_by_powers_of_four(numbers: int, expected: list[int]) -> None:
    """To the newest segment, and the newest whose number is a multiple of each power."""
    assert [pointer.number for pointer in chain(numbers).pointers] == expected


def test_a_pointer_says_what_it_leaps_over() -> None:
    """The earliest time after its target, and the latest up to it."""
    pointers = chain(21).pointers
    assert [pointer.least for pointer in pointers] == [
        archive_pointers.NOTHING_BETWEEN,
        21 * STEP,
        17 * STEP,
    ]
    assert [pointer.until for pointer in pointers] == [21 * STEP + 1, 20 * STEP + 1, 16 * STEP + 1]


def test_a_late_entry_moves_what_is_leapt_over_and_no_end_back() -> None:
    """A segment of an earlier time: nothing that is as late is forgotten."""
    head = archive_pointers.followed(
        chain(21), PointerPlace(EntryId(22, 7), 0, 1), bytes(32), first=5, last=6, settled=0
    )
    assert [pointer.number for pointer in head.pointers] == [22, 20, 16]
    assert [pointer.least for pointer in head.pointers] == [archive_pointers.NOTHING_BETWEEN, 5, 5]
    assert head.pointers[0].until == 21 * STEP + 1
    again = archive_pointers.followed(
        head, PointerPlace(EntryId(23, 7), 0, 1), bytes(32), first=10**6, last=10**6, settled=0
    )
    assert [pointer.least for pointer in again.pointers][1:] == [5, 5]


def test_what_has_settled_only_grows() -> None:
    """A fold that knows less takes nothing back."""
    head = chain(3)
    followed = archive_pointers.followed(
        head, PointerPlace(EntryId(4, 7), 0, 1), bytes(32), first=1, last=1, settled=2
    )
    assert head.settled == followed.settled == 3


def test_bytes_that_are_not_of_a_head() -> None:
    """Pointers out of order, or not from the newest segment, are refused."""
    head = replace(chain(7), since="2026-11-24T08:00:00.000000Z#0123456789abcdef", base_count=2)
    assert archive_pointers.of_bytes(archive_pointers.to_bytes(head)) == head
    turned = replace(head, pointers=head.pointers[::-1], number=4)
    with pytest.raises(ValueError, match="in descending order"):
        archive_pointers.of_bytes(archive_pointers.to_bytes(turned))
    twice = replace(head, pointers=(head.pointers[0],) * 2)
    with pytest.raises(ValueError, match="in descending order"):
        archive_pointers.of_bytes(archive_pointers.to_bytes(twice))
    with pytest.raises(ValueError, match="the first pointer must be to segment 8"):
        archive_pointers.of_bytes(archive_pointers.to_bytes(replace(head, number=8)))
    with pytest.raises(ValueError, match="52 bytes each"):
        archive_pointers.of_bytes(archive_pointers.to_bytes(head)[:-1])
