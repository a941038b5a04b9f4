"""Which process leads which slice of the collections.

Collections are divided by a hash of their partition key into a fixed number of slices. Every
process is a member with its own heartbeat item; one member is the *head*, which holds the
compactor's lease. An item per slice names the member that leads it; without an item the head does::

    the head alone      no slice has an item              it leads all, as a single leader does
    a member joins      the head gives its share up       an item each, without an owner
                        the member takes them             its name, the next epoch
    a member dies       its heartbeat item is deleted     its slices are free, the others take them
    the head dies       a member takes its lease          and leads what the head led

So each member may lead what the items show under its name, for as long as its own lease lasts. A
member takes only what is free, and gives up what exceeds its share: shares differ by at most one
slice, and add up to all slices, so in the end none is free.

Two members that lead one slice at once do needless work and no harm: see `compactor.merge_plan`.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

from ledger.core import amounts, keys
from ledger.core.entry import AttributeValue, Item, Key, damaged, number_of
from ledger.core.hints import HINT_PARTITIONS
from ledger.store.conditions import Absent, AllOf, Condition, Equals
from ledger.store.writes import Action, Check, Put

HEAD = "head"
"""The member that holds the compactor's lease; the others are named by `member_name`."""
NO_MEMBER = ""
DEAD_MAX = 32
"""Dead members whose slices one turn takes: a transaction has a check for each."""
_OF = "slices"


@dataclass(frozen=True, slots=True)
class Slice:
    """Who leads a slice, and the number of that leadership; also for a missing item."""

    owner: str = HEAD
    epoch: int = 0

    @property
    def condition(self) -> Condition:
        """The condition that the item is unchanged."""
        if self == Slice():
            return Absent()
        owner: AttributeValue = {"S": self.owner}
        return AllOf((Equals("owner", owner), Equals("epoch", {"N": str(self.epoch)})))


@dataclass(frozen=True, slots=True)
class Turn:
    """A member's next step: slices to take, and to give up."""

    take: tuple[int, ...] = ()
    give: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Directory:
    """What the table shows of slices and members: every slice, and the items of `members`."""

    slices: Sequence[Slice]
    members: Mapping[str, Item] = field(default_factory=dict, hash=False)

    def led_by(self, member: str) -> dict[int, Slice]:
        """Return the slices that a member leads."""
        return {number: one for number, one in enumerate(self.slices) if one.owner == member}


def slice_of(partition: str, slices: int) -> int:
    """Return the slice of a collection."""
    return crc32(partition.encode()) % slices


def hint_partitions(led: Collection[int], slices: int) -> tuple[str, ...]:
    """Return the partitions in which hints of these slices are stored."""
    count = len(HINT_PARTITIONS)
    if slices % count:
        return HINT_PARTITIONS
    places = {number % count for number in led}
    return tuple(name for place, name in enumerate(HINT_PARTITIONS) if place in places)


def member_name(owner: str, number: int) -> str:
    """Return the name of a member that is not the head; `number` is new at each joining."""
    return f"process/{owner}/{number:08x}"


def mark(owner: str, slices: int) -> dict[str, AttributeValue]:
    """Return the data that a member stores with its lease: that it leads slices, and of how many.

    Who takes the lease by other means keeps its data unchanged, so the owner is part of it.
    """
    return {_OF: {"N": str(slices)}, "owner": {"S": owner}}


def is_marked(data: Item, owner: str, slices: int) -> bool:
    """Return whether the owner of a lease divides the collections into `slices` slices."""
    return bool(owner) and data == mark(owner, slices)


def slice_key(lease: str, number: int, slices: int) -> Key:
    """Return the key of the item that says who leads a slice."""
    return keys.LEASE_PARTITION, keys.slice_sort_key(lease, number, slices)


def bounds(lease: str) -> tuple[str, str]:
    """Return the sort keys between which the items of slices and members are."""
    return f"{lease}/", f"{lease}0"


def slice_item(key: Key, wanted: Slice) -> dict[str, AttributeValue]:
    """Return the item of a slice."""
    partition, sort_key = key
    return {
        "pk": {"S": partition},
        "sk": {"S": sort_key},
        "owner": {"S": wanted.owner},
        "epoch": {"N": str(wanted.epoch)},
    }


def directory_of(items: Collection[Item], lease: str, slices: int) -> Directory:
    """Read the items between `bounds`; those of another number of slices are left out.

    Raises:
        DamagedItem: owner or epoch of a slice is missing, or of another kind.
    """
    by_key = {item["sk"]["S"]: item for item in items}
    names = [slice_key(lease, number, slices)[1] for number in range(slices)]
    found = [_slice(by_key[name]) if name in by_key else Slice() for name in names]
    prefix = f"{lease}/"
    members = {
        name.removeprefix(prefix): item
        for name, item in by_key.items()
        if name.startswith(f"{prefix}process/")
    }
    return Directory(found, members)


def _slice(item: Item) -> Slice:
    owner = item.get("owner", {}).get("S")
    epoch = number_of(item, "epoch")
    if not isinstance(owner, str) or not amounts.is_whole(epoch) or epoch < 1:
        raise damaged(item, "a slice needs an owner (S) and an epoch from 1 (N)")
    return Slice(owner, int(epoch))


def is_free(one: Slice, members: Collection[str]) -> bool:
    """Return whether a slice has no leader: given up, or its owner's heartbeat item is gone.

    What the head leads is never free: the next holder of the lease leads it.
    """
    return one.owner == NO_MEMBER or (one.owner != HEAD and one.owner not in members)


def share_of(me: str, members: Collection[str], slices: int) -> int:
    """Return how many slices a member leads; the shares of all members add up to all slices."""
    everyone = _everyone(members, me)
    base, more = divmod(slices, len(everyone))
    return base + (everyone.index(me) < more)


def turn_of(slices: Sequence[Slice], *, members: Collection[str], me: str) -> Turn:
    """Return a member's next step; `members` have a heartbeat item, the head need not."""
    share = share_of(me, members, len(slices))
    order = list(_order(me, members, len(slices)))
    mine = [number for number in order if slices[number].owner == me]
    if len(mine) > share:
        return Turn(give=tuple(mine[share:]))
    taken: list[int] = []
    owners: set[str] = set()
    for number in order:
        one = slices[number]
        if len(mine) + len(taken) == share:
            break
        if is_free(one, members) and len(owners | {one.owner}) <= DEAD_MAX:
            owners.add(one.owner)
            taken.append(number)
    return Turn(take=tuple(taken))


def taking(
    own: Check, before: Mapping[int, Slice], *, me: str, lease: str, slices: int
) -> list[Action]:
    """Return the transaction by which a member takes free slices, if they are unchanged.

    It holds only while the member's `own` check does, and no earlier owner has come back.
    """
    owners = {owned.owner for owned in before.values()} - {NO_MEMBER}
    gone = [Check((keys.LEASE_PARTITION, f"{lease}/{name}"), Absent()) for name in sorted(owners)]
    return [own, *gone, *_changes(before, me, lease=lease, slices=slices)]


def giving(own: Check, before: Mapping[int, Slice], *, lease: str, slices: int) -> list[Action]:
    """Return the transaction by which a member gives slices up, while its `own` check holds.

    Otherwise what a head sent before it lost the lease would free what its successor leads.
    """
    return [own, *_changes(before, NO_MEMBER, lease=lease, slices=slices)]


def fence_of(own: Check, number: int, led: Slice, *, lease: str, slices: int) -> tuple[Check, ...]:
    """Return the checks that a member still leads a slice: as a member, and the slice at all."""
    return own, Check(slice_key(lease, number, slices), led.condition)


def _changes(
    before: Mapping[int, Slice], owner: str, *, lease: str, slices: int
) -> Iterator[Action]:
    for number, one in before.items():
        key = slice_key(lease, number, slices)
        yield Put(slice_item(key, Slice(owner, one.epoch + 1)), one.condition)


def _everyone(members: Collection[str], me: str) -> list[str]:
    """Return all members in their order, the head first."""
    return [HEAD, *sorted({*members, me} - {HEAD})]


def _order(me: str, members: Collection[str], slices: int) -> Iterator[int]:
    """Yield all slices, first those that would be this member's if all began now.

    So two members seldom try to take the same ones, and each reads hints in few partitions.
    """
    count = len(HINT_PARTITIONS)
    everyone = _everyone(members, me)
    numbers = sorted(range(slices), key=lambda number: (number % count, number))
    first = everyone.index(me) * slices // len(everyone)
    yield from numbers[first:]
    yield from numbers[:first]
