"""The production code for small cases of a book: an entry is a transfer between two accounts.

As in `explorer.production`, but entry number i moves 8**i from `a` to `b`, and how often a region
counts it is read from the balances. Those of an asset sum to 0 in every state, also where a part of
the entries was replaced by what they moved (`Collection.condense`); else the walk ends.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from ledger.core import books
from ledger.core.entry import Item
from ledger.core.fold import Collection, at_once
from ledger.core.values import Leg, NetChange
from proof.simulator.explorer.production import ProductionCode

ASSET, FROM, TO = "EUR", "a", "b"


class BookCode(ProductionCode):
    """Calls the production code for transfers in place of changes."""

    def _total(self, collection: Collection) -> int:
        shown = _balances(collection)
        at_once(collection.condense(collection.net))
        if _balances(collection) != shown:
            raise AssertionError(f"condensed, {shown} is {_balances(collection)}")
        return self._moved(shown)

    def _counted(self, net: NetChange) -> int:
        return self._moved(books.accounts_of(net))

    @staticmethod
    def _moved(accounts: books.Accounts) -> int:
        shown = accounts.get(ASSET, {})
        if sum(shown.values()) or accounts.keys() - {ASSET} or shown.keys() - {FROM, TO}:
            raise AssertionError(f"a book does not sum to 0, or moves what nobody did: {accounts}")
        return int(shown.get(TO, 0))

    def _collection(self, visible: Sequence[int], net: NetChange | None) -> Collection:
        found = Collection(None, net, with_legs=True)
        found.add([self._item(number) for number in visible])
        return found

    def _item(self, number: int) -> Item:
        return {
            "sk": {"S": self._keys[number]},
            "change": {"N": "0"},
            "legs": books.legs_attribute(_legs(self._amounts[number])),
        }

    def _net(self, triples: Sequence[int], version: str, home: int) -> NetChange:
        net, moved = super()._net(triples, version, home), books.AccountSums()
        moved.move(_legs(int(net.change)))
        return replace(net, change=Decimal(0), accounts=books.packed(moved.accounts()))


def _legs(amount: int) -> tuple[Leg, Leg]:
    return Leg(FROM, ASSET, Decimal(-amount)), Leg(TO, ASSET, Decimal(amount))


def _balances(collection: Collection) -> books.Accounts:
    """Return the balances that a region shows, as its readers add them up."""
    if collection.total():
        raise AssertionError(f"the total of a book is 0, not {collection.total()}")
    sums = books.AccountSums()
    sums.add(books.accounts_of(collection.net))
    sums.add(collection.unmerged().accounts or {})
    return sums.accounts()
