"""Numbers of sequences: the outcomes of a call, their keys, and the form of their sort keys.

A sequence is in its own partition, `~sequence~` and its name, so that many in one table
share no load. There the counter item has the sort key `counter`, and a numbered item its number in
38 digits, zeros first: in this form the order of the texts is the order of the numbers. 38 digits
are what a DynamoDB number holds, so both ways end at the same number. A sort key of type Number
would do as well, and be shorter; the table has one type of sort key for all that lies in it, text.

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ledger.core import amounts, keys
from ledger.core.amounts import DIGITS_MAX
from ledger.core.entry import AttributeValue, Item, Key, damaged, number_of
from ledger.core.errors import InvalidInput

NUMBER_MAX = 10**DIGITS_MAX - 1
FIRST_SORT_KEY, LAST_SORT_KEY = "0" * DIGITS_MAX, "9" * DIGITS_MAX
COUNTER_SORT_KEY = "counter"
TOKEN = "~token"  # noqa: S105 (the name of an attribute)
"""The attribute of a numbered item that identifies the call that put it."""

_NUMBER = re.compile(rf"[0-9]{{{DIGITS_MAX}}}", flags=re.ASCII)


@dataclass(frozen=True, slots=True)
class Numbered:
    """The number belongs only to this caller; of several in a row, `number` is the first."""

    number: int
    count: int = 1

    @property
    def numbers(self) -> range:
        """All of them."""
        return range(self.number, self.number + self.count)


@dataclass(frozen=True, slots=True)
class NotNumbered:
    """No number was given, and none will be: nothing of this call can land later.

    `contention`: every try lost a race; call again. `exhausted`: the sequence is at its end.
    `token conflict`: the token stands for other content. `occupied`: something else is where
    `put_next` was to put the item. `detail` says more.
    """

    reason: Literal["contention", "exhausted", "token conflict", "occupied"]
    detail: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class MaybeNumbered:
    """No answer in time: the items may be there from this number on, or may still arrive.

    The same call with `resume` settles it, with no danger of a second item; where the token is the
    caller's (`is_callers`), the same call with that token does, also in another process.
    """

    number: int
    token: str
    cause: str
    count: int = 1
    is_callers: bool = False


def partition_of(name: str) -> str:
    """Return the partition of a sequence; names follow the rules of counter ids.

    Raises:
        InvalidCounter: the name breaks one.
    """
    return f"{keys.SEQUENCE_PREFIX}{keys.checked_new_counter(name, 'name of a sequence')}"


def sort_key_of(number: int) -> str:
    """Return the sort key of a number, from 0 to 10^38 - 1; its order is that of the numbers.

    Raises:
        InvalidInput: the number is not an int, or outside that range.
    """
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= NUMBER_MAX:
        raise InvalidInput(f"number must be an int from 0 to 10^{DIGITS_MAX} - 1, got {number!r}")
    return f"{number:0{DIGITS_MAX}d}"


def number_of_key(key: Key) -> int:
    """Return the number of a numbered item's key.

    Raises:
        DamagedItem: its sort key is not of our form.
    """
    if not _NUMBER.fullmatch(key[1]):
        item = {"pk": {"S": key[0]}, "sk": {"S": key[1]}}
        raise damaged(item, f"its sort key is not a number of {DIGITS_MAX} digits")
    return int(key[1])


def last_of(counter: Item) -> int:
    """Return the last number that the counter item has given out.

    Raises:
        DamagedItem: it has no whole number from 0.
    """
    number = number_of(counter, "number")
    if not amounts.is_whole(number) or not 0 <= number <= NUMBER_MAX:
        raise damaged(counter, f"number {number} is not a whole number from 0")
    return int(number)


def counter_limit(block: int) -> AttributeValue:
    """Return the most that the counter may show before `block` more numbers are taken."""
    return {"N": str(NUMBER_MAX - block)}


def numbered_item(
    partition: str, number: int, content: Mapping[str, AttributeValue], *, token: str
) -> Item:
    """Return the item that keeps this content under this number."""
    place: Item = {"pk": {"S": partition}, "sk": {"S": sort_key_of(number)}, TOKEN: {"S": token}}
    return {**place, **content}


def content_of(item: Item) -> Item:
    """Return the content of a numbered item: all that is not ours."""
    return {name: value for name, value in item.items() if name not in {"pk", "sk", TOKEN}}


def fate_of(shown: Item | None, token: str) -> Literal["ours", "taken", "open"]:
    """Return what an item under a number means for the call that tried to put its own there."""
    if shown is None:
        return "open"
    return "ours" if shown.get(TOKEN) == {"S": token} else "taken"
