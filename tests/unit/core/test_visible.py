"""Characters that cannot be seen are in no name that a caller makes."""

import unicodedata
from collections.abc import Callable

import pytest

from ledger.core.descriptions import checked
from ledger.core.errors import InvalidInput
from ledger.core.keys import checked_new_counter
from ledger.core.visible import is_invisible, is_visible, unclear_in
from ledger.primitives.leases.lease_rules import own_key
from ledger.primitives.sequences.numbers import partition_of
from ledger.primitives.tokens import checked_token
from ledger.writes.entry_plan import checked_key

IGNORABLE = [
    *(0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180F, 0x200B, 0x200F),
    *(0x202A, 0x2060, 0x2065, 0x206F, 0x3164, 0xFE00, 0xFE0F, 0xFEFF, 0xFFA0, 0xFFF0, 0xFFF8),
    *(0x1BCA0, 0x1D173, 0xE0000, 0xE0001, 0xE0041, 0xE0100, 0xE01EF, 0xE0FFF),
]
BLANK = [0x2800, 0xFFFC, 0x13441, 0x16FE4, 0x1D159]
NO_CHARACTER = [0x0378, 0xD800, 0xE000, 0xF8FF, 0xFDD0, 0xFFFE, 0xFFFF, 0x3FFFE, 0x10FFFF]
"""Not assigned, half of one, for private use, or never one."""


@pytest.mark.parametrize("code", [*IGNORABLE, *BLANK, *NO_CHARACTER, 0x00, 0x1B, 0x85, 0x2028])
def test_what_cannot_be_seen_is_known(code: int) -> None:
    """Ignored by displays, blank, of control, or the end of a line; with this Python or a later."""
    assert is_invisible(chr(code))
    assert not is_visible(f"a{chr(code)}")
    assert unclear_in(f"a{chr(code)}b") == chr(code)


def test_letters_and_signs_can_be_seen() -> None:
    """All of the kinds that texts are made of, but the blank ones."""
    unseen = {
        code
        for code in range(0x20000)
        if unicodedata.category(chr(code)) in {"Ll", "Lu", "Nd", "Sm", "Sc", "Po", "Pd"}
        and not is_visible(chr(code))
    }
    assert unseen == set()
    assert is_visible("नमस्ते 金額 مرحبا 😀")


def test_a_space_is_the_plain_one_in_a_name() -> None:
    """Others look like it."""
    assert unclear_in("a b") is None
    assert unclear_in("a\u00a0b") == "\u00a0"
    assert unclear_in("a\u3000b") == "\u3000"
    assert not is_invisible("\u3000")


@pytest.mark.parametrize(
    "sign",
    ["\u3164", "\u2800", "\ufe0f", "\u200b", "\u202e", "\u0378", "\ue000", "\uffff", "\U0003fffe"],
)
@pytest.mark.parametrize(
    "make",
    [
        checked_new_counter,
        checked_key,
        checked_token,
        own_key,
        partition_of,
        lambda name: checked({name: 1}),
    ],
)
def test_no_name_has_one(make: Callable[[str], object], sign: str) -> None:
    """Of counters, changes, tokens, leases, sequences and attributes."""
    make("plain name")
    with pytest.raises(InvalidInput):
        make(f"a{sign}b")
