"""What must hold of changes that share items, judged by a decoding of its own.

Each change is known by its id: that of its item, or with a point and its place in the item. An item
has as many parts as it counts, they add up to its change, and it never changes. A caller is given
the id under which its own change is there. A history shows each change once, under its id, with its
own amount, in the order of ids.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from random import Random

from ledger.core.entry import Item
from ledger.core.values import Entry
from ledger.demo.harness.digit_tags import digits


class PartAudit:
    """The id of each change of one world, and checks of items and answers against them."""

    def __init__(self) -> None:
        self._asked: set[tuple[str, int]] = set()
        self._ids: dict[tuple[str, int], str] = {}
        self._items: dict[tuple[str, str], tuple[str, str]] = {}

    def asked(self, changes: Iterable[tuple[str, int]]) -> None:
        """Note the changes of a call that is made; where none is noted, any may be there."""
        self._asked.update(changes)

    def id_of(self, counter: str, number: int) -> str:
        """Return the id of a change that arrived somewhere; empty before that."""
        return self._ids.get((counter, number), "")

    def drawn_id(self, counter: str, chance: Random) -> str:
        """Return the id of one of a counter's changes that arrived; empty if there is none."""
        return chance.choice(
            [id_ for (name, _), id_ in self._ids.items() if name == counter] or [""]
        )

    def arrived(self, counter: str, item: Item, *, is_ours: bool) -> str:
        """Note an entry's item that reached a region; return what is wrong with it, if anything.

        Of an item in another form than ours the changes alone.
        """
        sort_key, change = item["sk"]["S"], item["change"]["N"]
        text = item["parts"]["S"] if "parts" in item else ""
        content = change, text
        if is_ours and (before := self._items.setdefault((counter, sort_key), content)) != content:
            return f"item {sort_key} of {counter} was {before}, and is {content}"
        amounts = [Decimal(amount) for amount in text.split(" ")] if text else [Decimal(change)]
        count = int(item["count"]["N"]) if "count" in item else 1
        if sum(amounts) != Decimal(change) or len(amounts) != count:
            return f"item {sort_key} of {counter} is {change} of {count} changes, and has {text!r}"
        for place, amount in enumerate(amounts):
            for number in digits(amount):
                if self._asked and (counter, number) not in self._asked:
                    return f"change {number} of {counter} was never asked for, and is there"
                name = f"{sort_key}.{place:03d}" if text else sort_key
                self._ids.setdefault((counter, number), name)
        return ""

    def wrong_answer(self, entries: Sequence[Entry]) -> str:
        """Return what is wrong with the entries that callers are given; empty if nothing is."""
        for entry in entries:
            [(number, often)] = digits(entry.change).items()
            name = self.id_of(entry.counter, number)
            if often != 1 or name != entry.id or entry.count != 1 or entry.parts:
                return f"change {number} of {entry.counter} is {name}, and is answered by {entry!r}"
        return ""

    def wrong_history(self, counter: str, entries: Sequence[Entry], after: str) -> str:
        """Return what is wrong with the order, ids and amounts of a history."""
        for entry in entries:
            for number, often in digits(entry.change).items():
                if often != 1 or self.id_of(counter, number) != entry.id:
                    return f"{entry.id} as {entry.change}: {self.id_of(counter, number)} is meant"
            if entry.id <= after:
                return f"{entry.id} is not after {after}, or after the one before"
            after = entry.id
        return ""
