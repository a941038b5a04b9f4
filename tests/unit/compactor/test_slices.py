"""Who leads which slice: shares add up, are fair, and turns end with every slice led by one."""

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ledgers import HOME

from compactor.slices import (
    DEAD_MAX,
    HEAD,
    NO_MEMBER,
    Directory,
    Slice,
    Turn,
    bounds,
    directory_of,
    hint_partitions,
    is_free,
    is_marked,
    mark,
    member_name,
    share_of,
    slice_item,
    slice_key,
    slice_of,
    turn_of,
)
from ledger.core import keys
from ledger.core.entry import Item
from ledger.core.errors import DamagedItem
from ledger.core.hints import HINT_PARTITIONS, Hint, hint_for
from ledger.primitives.leases.lease_rules import LeaseRecord, lease_key, record_item
from ledger.primitives.leases.queries import list_leases
from ledger.settings.groups import SLICES_MAX
from ledger.store.conditions import holds
from ledger.store.memory import MemoryStore
from ledger.testing.clock import START

MEMBERS = st.sets(st.sampled_from([member_name(name, 1) for name in "abcdefghijkl"]))
ACTIONS_MAX = 100
"""Source: Amazon DynamoDB API Reference, TransactWriteItems."""


def owned(*owners: str) -> list[Slice]:
    """Return slices with these owners."""
    return [Slice(owner, 1) for owner in owners]


def after(slices: list[Slice], turn: Turn, me: str) -> list[Slice]:
    """Return the slices once a turn is carried out."""
    changed = dict(enumerate(slices))
    changed |= {number: Slice(me, slices[number].epoch + 1) for number in turn.take}
    changed |= {number: Slice(NO_MEMBER, slices[number].epoch + 1) for number in turn.give}
    return list(changed.values())


@given(MEMBERS, st.integers(1, SLICES_MAX))
def test_shares_add_up_and_differ_by_one_at_most(members: set[str], slices: int) -> None:
    """So no slice is left over, and no member leads more than its part rounded up."""
    shares = [share_of(me, members, slices) for me in {HEAD, *members}]
    assert sum(shares) == slices
    assert max(shares) - min(shares) <= 1


@pytest.mark.slow
@settings(max_examples=200)
@given(MEMBERS, MEMBERS, st.data())
def test_turns_end_with_every_slice_led_once(
    gone: set[str], members: set[str], data: st.DataObject
) -> None:
    """From any slices, in any order of turns, each member comes to its share and then rests."""
    owners = st.sampled_from([HEAD, NO_MEMBER, *sorted(gone | members)])
    slices = [Slice(data.draw(owners), 1) for _ in range(16)]
    everyone = [HEAD, *sorted(members)]
    for _ in range(16 + len(gone)):
        for me in data.draw(st.permutations(everyone)):
            turn = turn_of(slices, members=members, me=me)
            assert all(is_free(slices[number], members) for number in turn.take)
            assert all(slices[number].owner == me for number in turn.give)
            slices = after(slices, turn, me)
    led = Counter(one.owner for one in slices)
    assert led == {me: share for me in everyone if (share := share_of(me, members, 16))}
    assert all(turn_of(slices, members=members, me=me) == Turn() for me in everyone)


def test_the_head_alone_leads_all_without_an_item() -> None:
    """A lone process writes nothing beside its lease."""
    assert turn_of([Slice()] * 64, members=(), me=HEAD) == Turn()
    assert Directory([Slice()] * 64).led_by(HEAD).keys() == set(range(64))


def test_what_the_head_leads_is_not_free() -> None:
    """Whoever takes the lease next leads it: nothing has to be written."""
    me = member_name("a", 1)
    assert turn_of([Slice()] * 4, members={me}, me=me) == Turn()
    assert turn_of([Slice()] * 4, members={me}, me=HEAD).give


def test_a_turn_fits_into_one_transaction() -> None:
    """However many members are gone at once: a check of each, one of its own, and all slices."""
    slices = [Slice(member_name("gone", number), 1) for number in range(SLICES_MAX)]
    turn = turn_of(slices, members=(), me=HEAD)
    assert len(turn.take) == DEAD_MAX
    assert 1 + DEAD_MAX + SLICES_MAX <= ACTIONS_MAX


def test_members_that_begin_together_take_different_slices() -> None:
    """Each begins elsewhere, so transactions seldom meet, and hints are read in few partitions."""
    members = {member_name(name, 1) for name in "abc"}
    free = owned(*[NO_MEMBER] * 64)
    taken = [turn_of(free, members=members, me=me).take for me in (HEAD, *sorted(members))]
    assert sorted(number for one in taken for number in one) == list(range(64))
    assert [len(hint_partitions(one, 64)) for one in taken] == [1, 1, 1, 1]


@given(st.text(min_size=1, max_size=20).filter(lambda text: not text.startswith("~")))
def test_hints_lie_where_the_leader_of_their_slice_reads(name: str) -> None:
    """Whatever leaves them."""
    hint = hint_for(name, START, settle=60.0)
    number = slice_of(name, 64)
    assert hint.partition in hint_partitions({number}, 64)
    assert set(hint_partitions(range(64), 64)) == set(HINT_PARTITIONS)
    assert hint_partitions({1}, 6) == HINT_PARTITIONS


def test_collections_spread_over_all_slices() -> None:
    """Shards of one counter, and counters with similar names, have many leaders."""
    for partitions in (
        [keys.partition_key("hot", shard) for shard in range(6400)],
        [f"customer{number}-balance" for number in range(6400)],
    ):
        counts = Counter(slice_of(partition, 64) for partition in partitions)
        assert len(counts) == 64
        assert max(counts.values()) < 200


def items(slices: Iterable[Slice], lease: str = "compactor@a", count: int = 4) -> list[Item]:
    """Return the items of slices."""
    return [slice_item(slice_key(lease, number, count), one) for number, one in enumerate(slices)]


def test_a_directory_is_read_from_its_items() -> None:
    """Slices without an item are the head's; those of another number of slices do not count."""
    me = member_name("a", 1)
    member: Item = {"pk": {"S": "~lease"}, "sk": {"S": f"compactor@a/{me}"}}
    found = directory_of(
        [member, *items(owned(me, NO_MEMBER)), *items(owned("other"), count=8)], "compactor@a", 4
    )
    assert list(found.slices) == [Slice(me, 1), Slice(NO_MEMBER, 1), Slice(), Slice()]
    assert dict(found.members) == {me: member}


async def test_slices_are_no_leases_in_a_list_of_them() -> None:
    """The head's lease and members' heartbeats are; an item of neither kind is still an error."""
    store, name = MemoryStore(HOME), f"compactor@{HOME}"
    for number in (0, 63):
        key = slice_key(name, number, 64)
        store.table.set(key, slice_item(key, Slice("process/one/00000001", 3)))
    for lease in (name, f"{name}/{member_name('one', 1)}"):
        record = LeaseRecord(lease, "one", "1", 30.0, 1, HOME, partition=keys.LEASE_PARTITION)
        store.table.set(lease_key(lease), record_item(record))
    found = [record.name async for record in list_leases(store)]
    assert sorted(found) == [name, f"{name}/process/one/00000001"]
    store.table.set((keys.LEASE_PARTITION, "other"), {"pk": {"S": "~lease"}, "sk": {"S": "other"}})
    with pytest.raises(DamagedItem, match="other"):
        _ = [record async for record in list_leases(store)]


def test_bounds_hold_this_leases_items_alone() -> None:
    """Those of another home or generation, whose names may begin alike, lie elsewhere."""
    first, last = bounds("compactor@us-east-1")
    keys_of = [
        slice_key(name, 3, 64)[1] for name in ("compactor@us-east-1", "compactor@us-east-1#2")
    ]
    assert first < keys_of[0] < last
    assert not first < keys_of[1] < last
    assert not first <= "compactor@us-east-1" <= last


@pytest.mark.parametrize("broken", [{"owner": {"N": "1"}}, {"epoch": {"N": "0"}}, {"epoch": {}}])
def test_a_broken_slice_is_named(broken: Item) -> None:
    """An item that somebody else wrote is not guessed at."""
    (item,) = items(owned("a"))
    with pytest.raises(DamagedItem, match="slice/4/0000"):
        directory_of([{**item, **broken}], "compactor@a", 4)


def test_conditions_say_that_nothing_has_changed() -> None:
    """No item is the head's slice; every change of owner is a new epoch."""
    (item,) = items(owned("a"))
    assert holds(Slice("a", 1).condition, item)
    assert not holds(Slice("a", 2).condition, item)
    assert not holds(Slice("b", 1).condition, item)
    assert holds(Slice().condition, None)
    assert not holds(Slice().condition, item)


def test_a_mark_is_of_its_owner() -> None:
    """Who takes the lease by other means keeps the data of the holder before."""
    assert is_marked(mark("a", 64), "a", 64)
    assert not is_marked(mark("a", 64), "b", 64)
    assert not is_marked(mark("a", 32), "a", 64)
    assert not is_marked({}, "a", 64)
    assert not is_marked(mark("", 64), "", 64)


def test_a_hint_of_a_shard_is_a_hint() -> None:
    """The collection of a shard has hints as any other."""
    shard = Hint("~3~wide", START)
    assert shard.partition in HINT_PARTITIONS
