"""What the policies of a writer, and of a strict one, let their holder do to a total."""

import pytest
from support.ledgers import make_ledger, net
from support.permissions import (
    HOME,
    OTHER,
    SETTINGS,
    Call,
    Recorder,
    assert_just_enough,
    granted,
)

from ledger.administration.templates import Role, policy
from ledger.core.entry import ENTRY_ATTRIBUTES, Item
from ledger.core.errors import DamagedItem, KeyConflict
from ledger.core.fold import COPIES
from ledger.core.keys import net_sort_key
from ledger.core.sums import SUM_PREFIX
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.store.memory import MemoryStore
from ledger.testing.clock import START
from ledger.writes.entry_plan import Change

KEY_NAMES = {"pk", "sk"}
STRICT = SETTINGS.replace(writer={"strict": True})
COUNTER = ("customer1-balance",)
NET = net("c", 1, [])
SUM: Item = {name: {} for name in ("pk", "sk", "value", "version")}
RECORD: Item = {name: {} for name in ("pk", "sk", "change", "entry")}


def insert(item: Item, partition: str = "c") -> Call:
    """Return the question whether an item may be inserted under a counter."""
    return Call("PartiQLInsert", HOME, (partition,), attributes=tuple(item))


async def test_the_strict_writer_has_just_enough() -> None:
    """Every call of a strict writer is allowed, in any region, and nothing beyond them is."""
    recorder = Recorder()
    await recorder.read_contract(HOME, OTHER)
    keyed = [Change("customer1-balance", 1, key=f"order-{number}", at=START) for number in (1, 2)]
    for region in (HOME, OTHER):
        store = recorder.store(region)
        async with Ledger(STRICT, region=region, given=GivenConnections(store=store)) as ledger:
            await ledger.record("customer1-balance", 3, note="refund")
            await ledger.record_many([(f"counter-{number}", number) for number in range(1, 60)])
            await ledger.record_together([("customer1-balance", -5), ("customer2-balance", 5)])
            await ledger.describe("customer1-balance", {"owner": region})
        writer = make_ledger(store, region=region, writer={"strict": True})
        async with writer as ledger:
            await ledger.record_many(keyed)
            with pytest.raises(KeyConflict):
                await ledger.record("customer1-balance", 2, key="order-1", at=START)
    assert_just_enough(Role.STRICT_WRITER, recorder.calls, [HOME, OTHER])


@pytest.mark.parametrize(
    "call",
    [
        *(
            Call(action, HOME, COUNTER)
            for action in ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem")
        ),
        *(
            Call(action, HOME, COUNTER, attributes=("pk", "sk", "change"))
            for action in ("PutItem", "PartiQLUpdate", "PartiQLDelete", "PartiQLSelect")
        ),
        Call("BatchWriteItem", HOME, ("~hint-0", *COUNTER)),
        Call("Scan", HOME),
        Call("Query", HOME, COUNTER),
        insert(NET),
        insert(SUM),
        insert(RECORD),
        insert({"pk": {}, "sk": {}, "change": {}, COPIES: {}}),
        insert({}),
        *(
            insert({"pk": {}, "sk": {}, "change": {}}, partition)
            for partition in (
                *("~contract", "~lease", "~import", "~scan", "~pass", "~hint-0", "~state~T1"),
                *("~reverse~c", "~reconcile~c", "~reconcile-latest~c", "~watch~low", "~index-0"),
                *("~count~0~c", "~version~v", "~sequence~s", "~pipeline~r/l", "~description~c"),
            )
        ),
    ],
    ids=str,
)
def test_a_strict_writer_cannot(call: Call) -> None:
    """It replaces, changes and deletes nothing, and inserts no net, sum, record, lease or state."""
    assert not call.is_allowed(policy(STRICT, Role.STRICT_WRITER))


@pytest.mark.parametrize("action", ["PutItem", "BatchWriteItem"])
def test_a_plain_writer_can_replace_what_is_there(action: str) -> None:
    """A put names the partition key alone, so of one that may put entries IAM keeps no net.

    What it puts in place of one has the attributes of an entry, so it is damaged, and not believed.
    """
    document = policy(SETTINGS, Role.WRITER)
    entry = ("pk", "sk", "change")
    assert Call(action, HOME, COUNTER, attributes=entry).is_allowed(document)
    assert not Call(action, HOME, COUNTER, attributes=tuple(NET)).is_allowed(document)


def test_the_attributes_of_a_strict_writer_are_those_of_entries() -> None:
    """A net and a sum need others: without them an item counts as neither."""
    [granting] = [
        each
        for each in policy(STRICT, Role.STRICT_WRITER)["Statement"]
        if each["Sid"] == "InsertEntries"
    ]
    names = granting["Condition"]["ForAllValues:StringEquals"]["dynamodb:Attributes"]
    assert set(names) == {*ENTRY_ATTRIBUTES, *KEY_NAMES} - {"reverses"}
    assert granting["Condition"]["Null"]["dynamodb:Attributes"] == "false"
    assert {"version", "merged", "digest"} <= set(NET) - set(names)
    assert granted(Role.STRICT_WRITER, HOME) >= {"PartiQLInsert"}


@pytest.mark.parametrize("sort_key", [net_sort_key(1), net_sort_key(9999), f"{SUM_PREFIX}x.1#0"])
async def test_what_a_strict_writer_puts_in_place_of_a_net_or_sum_is_an_error(
    sort_key: str,
) -> None:
    """It makes no total wrong: a reader refuses the counter, and names the item."""
    store = MemoryStore(HOME)
    forged: Item = {"pk": {"S": "c"}, "sk": {"S": sort_key}, "change": {"N": "1000000"}}
    assert insert(forged).is_allowed(policy(STRICT, Role.STRICT_WRITER))
    async with make_ledger(store) as ledger:
        await ledger.record("c", 11)
        store.table.set(("c", sort_key), forged)
        with pytest.raises(DamagedItem, match=sort_key):
            await ledger.total("c", max_age=0)
