"""Books under any pages, folds and deletes, in any order of attributes; and what is refused."""

import json
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import any_amounts
from support.tiers import few_fast

from compactor.merge_plan import MergeRules, Observation, plan_merge
from ledger.core import books, signatures, transfers
from ledger.core.entry import AttributeValue, Item, entry_id, entry_of, legs_of, net_item, net_of
from ledger.core.errors import DamagedItem
from ledger.core.fold import Collection, at_once
from ledger.core.ids import EntryId
from ledger.core.parts import parts_text
from ledger.core.signatures import NetKey, NetKeys
from ledger.core.transfers import Legs
from ledger.core.values import Leg, NetChange

NOW = datetime(2026, 11, 28, tzinfo=UTC)
HOME, AWAY = "us-east-1", "eu-west-1"
ASSETS = ("EUR", "USD/2", "T")
ACCOUNTS = (*(f"a/{number}" for number in range(6)), "世界", 'q"uote\\', "tökens", "a b")
RULES = MergeRules(home=HOME, settle=1320, fold_max=12, fold_min=1, fold_age=1.0, prune_min=1)
BOUNDS = (books.ACCOUNTS_BYTES_MAX, books.ACCOUNTS_BYTES_MAX, 150, 90)


def drawn_legs(chance: Random) -> tuple[Leg, ...]:
    """Draw what a transfer moves, in one or two assets."""
    legs = list[Leg]()
    for asset in chance.sample(ASSETS, k=chance.randint(1, 2)):
        names = chance.sample(ACCOUNTS, k=chance.randint(2, 5))
        some = [Decimal(chance.randint(-99, 99)) / 4 for _ in names[1:]]
        pairs = zip(names, (*some, -sum(some)), strict=True)
        legs += [Leg(name, asset, Decimal(amount)) for name, amount in pairs if amount]
    return books.ordered(legs) or drawn_legs(chance)


def drawn_items(chance: Random, partition: str, most: int) -> dict[str, Item]:
    """Draw transfers of up to two hours ago."""
    found = dict[str, Item]()
    for _ in range(chance.randint(0, most)):
        made = NOW - timedelta(seconds=chance.randint(0, 7200))
        sort_key = str(entry_id(made, chance.getrandbits(64)))
        shared = [drawn_legs(chance) for _ in range(chance.choice((1, 1, 1, 2, 5)))]
        found[sort_key] = an_item(sort_key, shared, partition)
    return found


def an_item(sort_key: str, shared: list[Legs], partition: str = "book/1") -> Item:
    """Return the item of a transfer, or of several."""
    key = {"pk": {"S": partition}, "sk": {"S": sort_key}, "change": {"N": "0"}}
    if len(shared) > 1:
        legs = {"B": books.compressed(parts_text(shared))}
        return {**key, "count": {"N": str(len(shared))}, "legs": legs}
    return {**key, "legs": books.legs_attribute(shared[0])}


def moved_by(items: Iterator[Item] | list[Item]) -> dict[tuple[str, str], Decimal]:
    """Return what transfers come to: a plain sum, which knows nothing of nets."""
    sums = dict[tuple[str, str], Decimal]()
    for item in items:
        for place, amount in _moved(item["legs"]):
            sums[place] = sums.get(place, Decimal(0)) + amount
    return {place: amount for place, amount in sums.items() if amount}


def _moved(legs: AttributeValue) -> Iterator[tuple[tuple[str, str], Decimal]]:
    if "B" in legs:
        for one in json.loads(zlib.decompress(legs["B"]), parse_int=Decimal, parse_float=Decimal):
            for asset, by_account in one.items():
                yield from (((asset, account), amount) for account, amount in by_account.items())
        return
    for asset, by_account in legs["M"].items():
        for account, amount in by_account["M"].items():
            yield (asset, account), Decimal(amount["N"])


class Shard:
    """One collection of a book, at home and in another region that gets deletes and nets late."""

    def __init__(self, chance: Random, number: int) -> None:
        self.partition = f"~{number}~book/1" if number else "book/1"
        self._random = chance
        self.made = drawn_items(chance, self.partition, 60)
        self.shown = {region: dict(self.made) for region in (HOME, AWAY)}
        self.nets: dict[str, NetChange | None] = {HOME: None, AWAY: None}
        self._deletes = list[str]()
        self.folds = 0

    def view(self, region: str, *, condensing: float = 0.3) -> Collection:
        """Read a region in pages of any size; some are condensed for the net that is to come."""
        found, net = Collection(partition=self.partition, with_legs=True), self.nets[region]
        rows = sorted(self.shown[region].values(), key=lambda item: item["sk"]["S"])
        while rows:
            size = self._random.randint(1, 20)
            found.add(rows[:size])
            rows = rows[size:]
            if rows and self._random.random() < condensing:
                last = rows[0]["sk"]["S"] if self._random.random() < condensing else None
                at_once(found.condense(net, upto=last))
        if net is not None:
            found.add([net_item(net, self.partition)])
        return found

    def step(self, number: int) -> None:
        """Fold and forget, or let what was done at home come to the other region."""
        kind = self._random.choice(("merge", "merge", "net", "delete"))
        if kind == "net":
            self.nets[AWAY] = self.nets[HOME]
        elif kind == "delete" and self._deletes:
            self.shown[AWAY].pop(self._deletes.pop(), None)
        elif kind == "merge":
            views = {region: self.view(region, condensing=0.0) for region in (HOME, AWAY)}
            seen = Observation(self.partition, self.nets[HOME], views)
            plan = plan_merge(seen, RULES, now=NOW, version=f"v{number}")
            for key in plan.deletes:
                del self.shown[HOME][key]
                self._deletes.append(key)
            if plan.fold is not None:
                self.folds += plan.folded > 0
                self.nets[HOME] = net_of(net_item(plan.fold, self.partition))


def balances_of(views: list[Collection]) -> books.Accounts:
    """Return what the readers of a region add up."""
    sums = books.AccountSums()
    for view in views:
        sums.add(books.accounts_of(view.net))
        sums.add(view.unmerged().accounts or {})
        assert view.total() == 0
    return sums.accounts()


@pytest.mark.parametrize("seed", few_fast(range(400), fast=40))
def test_a_drawn_book_is_read_right(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each region after each step, whole and in shards, with and without room for its net."""
    chance = Random(seed)  # noqa: S311 (repeatable)
    monkeypatch.setattr(books, "ACCOUNTS_BYTES_MAX", chance.choice(BOUNDS))
    shards = [Shard(chance, number) for number in range(chance.randint(1, 3))]
    right = moved_by([item for shard in shards for item in shard.made.values()])
    for number in range(chance.randint(4, 24)):
        for region in (HOME, AWAY):
            found = balances_of([shard.view(region) for shard in shards])
            for asset, by_account in found.items():
                assert sum(by_account.values()) == 0, asset
            shown = {(a, name): n for a, by in found.items() for name, n in by.items()}
            assert shown == right
        for shard in shards:
            shard.step(number)
            if (net := shard.nets[HOME]) is not None and net.accounts is not None:
                assert len(net.accounts) <= books.ACCOUNTS_BYTES_MAX


def test_drawn_books_are_merged() -> None:
    """What is read above is mostly merged, some of it by several folds."""
    shards = [Shard(Random(seed), 0) for seed in range(40)]  # noqa: S311 (repeatable)
    for shard in shards:
        for number in range(20):
            shard.step(number)
    assert sum(shard.folds for shard in shards) > 60


def account_names() -> st.SearchStrategy[str]:
    """Any text, quotes, controls and all: what is in an item was checked by whoever wrote it."""
    return st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def any_accounts() -> st.SearchStrategy[books.Accounts]:
    """Any balances, in the order in which they are kept."""
    balances = any_amounts().filter(bool)
    by_account = st.dictionaries(account_names(), balances, min_size=1, max_size=8)
    return st.dictionaries(account_names(), by_account, max_size=3).map(
        lambda found: {asset: dict(sorted(by.items())) for asset, by in sorted(found.items())}
    )


@given(listed=st.lists(any_accounts().filter(bool), min_size=1, max_size=3))
def test_transfers_that_share_an_item_are_read_again(listed: list[books.Accounts]) -> None:
    """Names and amounts as they were, whatever they are."""
    shared = [
        books.ordered(
            Leg(f"{side}{account}", asset, amount if side == "+" else amount.copy_negate())
            for asset, by_account in accounts.items()
            for account, amount in by_account.items()
            for side in "+-"
        )
        for accounts in listed
    ]
    assert transfers.transfers_in(parts_text(shared)) == shared


@given(accounts=any_accounts())
def test_what_is_packed_is_unpacked(accounts: books.Accounts) -> None:
    """Names and amounts as they were; packed again it has the same bytes."""
    packed = books.packed(accounts)
    assert books.unpacked(packed) == accounts
    assert books.packed(books.unpacked(packed)) == packed


@given(accounts=any_accounts(), data=st.data())
def test_a_net_with_other_balances_is_refused(
    accounts: books.Accounts, data: st.DataObject
) -> None:
    """Its digest is of them: whichever byte is another, or if they are cut, or gone."""
    item = net_item(a_net(books.packed(accounts)), "book/1")
    packed = item["accounts"]["B"]
    place = data.draw(st.integers(0, len(packed) - 1))
    flipped = bytes([packed[place] ^ data.draw(st.integers(1, 255))])
    without = {name: each for name, each in item.items() if name != "accounts"}
    other = packed[:place] + flipped + packed[place + 1 :]
    for wrong in ({**item, "accounts": {"B": other}}, without):
        with pytest.raises(DamagedItem, match="~net"):
            net_of(wrong)
    assert net_of(item).accounts == packed


def a_net(accounts: bytes | None) -> NetChange:
    """Return a net of one transfer."""
    until = str(EntryId(1, 1))
    return NetChange(Decimal(0), 1, (), "v", until, HOME, accounts=accounts)


KEYS = NetKeys((NetKey("k", b"k" * 32),), required=True)


def test_a_signature_is_of_balances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a forger hits the digest, of 8 bytes; without that it would be taken."""
    one, other = (books.packed({"EUR": {"a": Decimal(-n), "b": Decimal(n)}}) for n in (1, 10**6))
    item = KEYS.signed(net_item(a_net(one), "book/1"))
    forged = {**item, "accounts": {"B": other}}
    assert KEYS.fault(item) is None
    assert KEYS.fault(forged) is not None
    signed = tuple(name for name in signatures.SIGNED if name != "accounts")
    monkeypatch.setattr(signatures, "SIGNED", signed)
    assert KEYS.fault({**forged, "signature": KEYS.signed(item)["signature"]}) is None


@given(seed=st.integers(0, 2**32))
def test_legs_are_the_same_in_any_order(seed: int) -> None:
    """Of attributes: DynamoDB keeps none. Two regions show them alike, and a fold takes them."""
    chance = Random(seed)  # noqa: S311 (repeatable)
    legs, sort_key = drawn_legs(chance), str(entry_id(NOW - timedelta(hours=1), 7))
    item = an_item(sort_key, [legs])
    other = {**item, "legs": shuffled(chance, item["legs"])}
    assert legs_of(other) == legs_of(item) == entry_of(other).legs == books.ordered(legs)
    views = dict[str, Collection]()
    for region, shown in ((HOME, item), (AWAY, other)):
        views[region] = Collection(partition="book/1", with_legs=True)
        views[region].add([shown])
    plan = plan_merge(Observation("book/1", None, views), RULES, now=NOW, version="v")
    assert plan.folded == 1
    sums = books.AccountSums()
    sums.move(legs)
    assert books.accounts_of(plan.fold) == sums.accounts()


def shuffled(chance: Random, attribute: Any) -> Any:
    """Return an attribute whose maps are in another order."""
    if "M" not in attribute:
        return attribute
    names = list(attribute["M"])
    chance.shuffle(names)
    return {"M": {name: shuffled(chance, attribute["M"][name]) for name in names}}


def test_legs_that_differ_are_not_merged() -> None:
    """By an amount, an account, an asset, or a leg more."""
    sort_key = str(entry_id(NOW - timedelta(hours=1), 7))
    one = (Leg("a", "EUR", Decimal(-1)), Leg("b", "EUR", Decimal(1)))
    others = (
        (Leg("a", "EUR", Decimal(-2)), Leg("b", "EUR", Decimal(2))),
        (Leg("a", "EUR", Decimal(-1)), Leg("c", "EUR", Decimal(1))),
        (Leg("a", "USD", Decimal(-1)), Leg("b", "USD", Decimal(1))),
        (*one, Leg("a", "USD", Decimal(-1)), Leg("b", "USD", Decimal(1))),
    )
    for other in others:
        views = dict[str, Collection]()
        for region, legs in ((HOME, one), (AWAY, other)):
            views[region] = Collection(partition="book/1", with_legs=True)
            views[region].add([an_item(sort_key, [legs])])
        plan = plan_merge(Observation("book/1", None, views), RULES, now=NOW, version="v")
        assert plan.is_idle, other


DAMAGED: dict[str, Any] = {
    "no map": {"S": "oops"},
    "an asset that is no map": {"M": {"EUR": {"N": "0"}}},
    "an amount that is a text": {"M": {"EUR": {"M": {"a": {"S": "1"}, "b": {"S": "-1"}}}}},
    "an amount that is none": {"M": {"EUR": {"M": {"a": {"N": "x"}}}}},
    "no balance": {"M": {"EUR": {"M": {"a": {"N": "1"}, "b": {"N": "-2"}}}}},
    "a balance of another asset": {
        "M": {"EUR": {"M": {"a": {"N": "1"}}}, "USD": {"M": {"b": {"N": "-1"}}}}
    },
    "a list": {"L": []},
    "nothing": {},
    "no legs": {"M": {}},
    "legs that move nothing": {"M": {"EUR": {"M": {"a": {"N": "0"}, "b": {"N": "0"}}}}},
}
READERS: tuple[Callable[[Item], object], ...] = (
    legs_of,
    entry_of,
    lambda item: Collection(partition="book/1", with_legs=True).add([item]),
)


@pytest.mark.parametrize("read", READERS, ids=["legs", "entry", "collection"])
@pytest.mark.parametrize("legs", DAMAGED.values(), ids=DAMAGED)
def test_damaged_legs_are_refused_by_name(legs: Any, read: Callable[[Item], object]) -> None:
    """The message names the item and says that its legs are wrong; nothing is taken for 0."""
    sort_key = str(entry_id(NOW, 7))
    item = {**an_item(sort_key, [()]), "legs": legs}
    with pytest.raises(DamagedItem, match=rf"item '{sort_key}' of counter 'book/1'.*legs"):
        read(item)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"oops",
        books.packed({})[:-1],
        books.packed({}) + b"x",
        *(
            zlib.compress(text.encode())
            for text in ("", "[]", "{", '{"EUR":1}', '{"EUR":{"a":"1"}}', '{"EUR":{"a":NaN}}')
        ),
        *(
            zlib.compress(text.encode())
            for text in ('{"EUR":{"a":null}}', '{"EUR":{"a":true}}', '{"EUR":{"a":1e200}}')
        ),
        zlib.compress(b"[" * 100_000),
        zlib.compress(b" " * (books.TEXT_BYTES_MAX + 1)),
    ],
    ids=repr,
)
def test_damaged_balances_are_refused(data: bytes) -> None:
    """Whatever the digest says: the error names the net."""
    with pytest.raises(DamagedItem, match="accounts of net v"):
        books.accounts_of(a_net(data))
