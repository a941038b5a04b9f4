"""Keys that prove who wrote an entry: its id follows from one that only its writer knows.

The id of an entry is seen by whoever reads its counter, so an id proves nothing. The suffix of the
id is a hash of a key: of the caller's, where the caller names the change, or else of one that was
made for this entry. Who repeats an entry shows the key. Of a key that was made the suffix is a hash
of the amounts, too: several callers, whose changes share an item, know the key, and none of them
can write other amounts under it.

Pure: no clock, no randomness, no I/O.
"""

from decimal import Decimal

from ledger.core import amounts, ids
from ledger.core.tokens import one_spelling
from ledger.core.values import Entry

KEY_BITS = 128
LISTS_PROVED = 266
"""Items of a counter in a list with a key that are proved: as many as a request may have, ten by
the number of its changes, and 256 by the length of its transfers.
"""


def own_keys(bits: int, count: int) -> list[str]:
    """Return keys for so many entries; `bits` has 128 bits for each."""
    digits = f"{bits:0{KEY_BITS // 4 * count}x}"
    return [digits[start : start + KEY_BITS // 4] for start in range(0, len(digits), KEY_BITS // 4)]


def own_suffix(counter: str, key: str, change: Decimal, count: int = 1, parts: str = "") -> int:
    """Return the suffix of the id of the one entry that a key was made for.

    No key of a caller holds control characters, so none has this suffix.
    """
    amount = parts or amounts.to_text(change)
    return ids.suffix_of(counter, f"{key}\0{amount}\0{count}")


def list_suffix(counter: str, key: str, number: int) -> int:
    """Return the suffix of the id of an item of a list with a key: the counter's of this number.

    No key of a caller holds control characters, so no single change has this suffix.
    """
    return ids.suffix_of(counter, f"{key}\0{number}")


def is_proved(entry: Entry) -> bool:
    """Return whether the id of an item follows from its key, so that its writer repeats it."""
    found, key = ids.parse(entry.id), entry.key
    if found is None or key is None:
        return False
    counter, spelled = entry.counter, one_spelling(key)
    if entry.parts and found.suffix in (
        list_suffix(counter, spelled, number) for number in range(LISTS_PROVED)
    ):
        return True
    own = own_suffix(counter, key, entry.change, entry.count, entry.parts)
    return found.suffix in {ids.suffix_of(counter, spelled), own}
