"""A store signs the nets that it writes, and marks those that nobody with a key has written."""

import base64

import pytest
from support.ledgers import HOME, net

from ledger.core.entry import FAULT, Item
from ledger.core.errors import TokenReused
from ledger.core.fold import ATTRIBUTES
from ledger.core.signatures import SIGNATURE, NetKeys
from ledger.store.conditions import Absent
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get, Query, Scan
from ledger.store.wrappers.net_signatures import NetSigningStore
from ledger.store.writes import Action, Applied, Check, Delete, InTable, Put, Update

KEYS = NetKeys.parse(f"one {base64.b64encode(b'k' * 32).decode()}", required=True)
KEY = ("c", "~net#0001")
NET = net("c", 5, [])
ENTRY: Item = {"pk": {"S": "c"}, "sk": {"S": "1"}, "change": {"N": "1"}}
OTHER: Item = {"pk": {"S": "c"}, "sk": {"S": "~sum#r.1#0"}, "value": {"N": "1"}}


def stores() -> tuple[MemoryStore, NetSigningStore]:
    """Return a store, and the one over it that signs."""
    inner = MemoryStore(HOME)
    return inner, NetSigningStore(inner, KEYS)


@pytest.mark.parametrize("way", ["write", "batch", "each", "transact"])
async def test_each_way_of_writing_signs_a_net_and_nothing_else(way: str) -> None:
    """An entry beside it is as it was, and so is a delete."""
    inner, store = stores()
    both = [Put(ENTRY), Put(NET)]
    match way:
        case "write":
            for put in both:
                assert await store.write(put) == Applied()
        case "batch":
            await store.write_batch([*both, Delete(("c", "0"))])
        case "each":
            await store.write_each([Put(each.item, Absent()) for each in both])
        case _:
            actions: list[Action] = [*both, Check(("c", "0"), Absent())]
            await store.transact(actions)
    assert inner.table.get(KEY) == KEYS.signed(NET)
    assert inner.table.get(("c", "1")) == ENTRY
    await store.write(Update(("c", "1"), set={"note": {"S": "x"}}))
    await store.write_batch([Delete(("c", "1"))])
    await store.write(InTable("other", Put(ENTRY)))
    assert inner.table.get(("c", "1")) is None


async def test_a_transaction_keeps_its_token() -> None:
    """By which a repeat is told from another transaction."""
    _, store = stores()
    for _ in range(2):
        assert await store.transact([Put(NET, Absent())], token="one") == Applied()
    with pytest.raises(TokenReused):
        await store.transact([Put(ENTRY)], token="one")


async def shown(store: NetSigningStore, *, whole: bool = True) -> list[Item]:
    """Return a net as each way of reading shows it."""
    attributes = () if whole else ATTRIBUTES
    scan = Scan() if whole else Scan(attributes=("pk", *ATTRIBUTES))
    found = [
        await store.get(Get(KEY)),
        (await store.get_each([Get(("c", "0")), Get(KEY)])).items[1],
        (await store.query(Query("c", attributes=attributes))).items[1],
        (await store.query(Query("c", attributes=attributes, descending=True))).items[1],
        next(item for item in (await store.scan(scan)).items if item["sk"]["S"] == KEY[1]),
    ]
    return [item for item in found if item is not None]


@pytest.mark.parametrize("whole", [True, False])
async def test_each_way_of_reading_marks_a_net_of_a_stranger(whole: bool) -> None:  # noqa: FBT001
    """Whole, or without its partition key; what was signed is handed on as it is stored."""
    inner, store = stores()
    for item in (ENTRY, OTHER):
        inner.table.set((item["pk"]["S"], item["sk"]["S"]), item)
    inner.table.set(KEY, NET)
    marked = await shown(store, whole=whole)
    assert len(marked) == 5
    assert {one[FAULT]["S"] for one in marked} == {"it has no signature"}
    inner.table.set(KEY, KEYS.signed(NET))
    assert not any(FAULT in one for one in await shown(store, whole=whole))
    assert await store.get(Get(("c", "0"))) is None


async def test_what_shows_no_whole_net_is_handed_on() -> None:
    """Of some attributes a signature cannot be told; pages of entries are not looked through."""
    inner, store = stores()
    inner.table.set(KEY, NET)
    for read in (Query("c", attributes=("sk",)), Query("c", attributes=("sk", SIGNATURE))):
        assert not any(FAULT in item for item in (await store.query(read)).items)
    for some in (("pk", "sk"), ATTRIBUTES):
        assert not any(FAULT in item for item in (await store.scan(Scan(attributes=some))).items)
    assert not (await store.query(Query("d"))).items
    inner.table.set(KEY, None)
    inner.table.set(("c", "1"), ENTRY)
    assert (await store.query(Query("c"))).items == [ENTRY]
