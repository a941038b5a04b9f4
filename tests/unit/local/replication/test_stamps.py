from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from ledger.local.engines.port import ItemChange
from ledger.local.replication.stamps import Shipment, Stamp, Versions

REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1")
TOKEN = ("a", "b")
KEY = {"pk": {"S": "a"}, "sk": {"S": "b"}}


def put(value: int) -> ItemChange:
    """Give the change that puts the item with this number."""
    return ItemChange("ledger", KEY, {**KEY, "n": {"N": str(value)}})


GONE = ItemChange("ledger", KEY, None)


def accept(versions: Versions, region: str, shipment: Shipment) -> bool:
    """Let a change arrive alone, and say whether it is taken over."""
    newest = versions.newest(region, [shipment])
    for item in newest:
        versions.hold(region, item)
    return bool(newest)


def test_a_later_write_beats_an_earlier_one_in_either_order() -> None:
    """Whichever of two concurrent writes arrives first, the later one stays."""
    versions = Versions()
    first = versions.commit("us-east-1", put(1), TOKEN, group=1, now_nanoseconds=10)
    second = versions.commit("eu-west-1", put(2), TOKEN, group=1, now_nanoseconds=12)
    assert not accept(versions, "eu-west-1", first)
    assert accept(versions, "us-east-1", second)


def test_a_tie_is_broken_by_the_name_of_the_region() -> None:
    """Of two writes at one nanosecond every region keeps the same one."""
    versions = Versions()
    east = versions.commit("us-east-1", put(1), TOKEN, group=1, now_nanoseconds=10)
    west = versions.commit("eu-west-1", put(2), TOKEN, group=1, now_nanoseconds=10)
    assert accept(versions, "eu-west-1", east)
    assert not accept(versions, "us-east-1", west)


def test_a_write_is_stamped_later_than_what_it_replaces() -> None:
    """A local write wins over a replicated one with a stamp from the future, as it came after."""
    versions = Versions()
    ahead = Shipment(put(1), TOKEN, Stamp(1_000, "us-east-1"), 1)
    assert accept(versions, "eu-west-1", ahead)
    local = versions.commit("eu-west-1", put(2), TOKEN, group=1, now_nanoseconds=10)
    assert local.stamp == Stamp(1_001, "eu-west-1")


def test_an_older_put_does_not_bring_a_deleted_item_back() -> None:
    """A tombstone keeps the stamp of a delete."""
    versions = Versions()
    old = versions.commit("us-east-1", put(1), TOKEN, group=1, now_nanoseconds=10)
    versions.commit("eu-west-1", GONE, TOKEN, group=1, now_nanoseconds=20)
    assert not accept(versions, "eu-west-1", old)
    assert [stamp for _, stamp in versions.deleted("eu-west-1", "ledger")] == [
        Stamp(20, "eu-west-1")
    ]


def test_tombstones_are_counted_and_forgotten_alone() -> None:
    """Forgetting tombstones leaves the stamps of items that are there."""
    versions = Versions()
    versions.commit("us-east-1", put(1), TOKEN, group=1, now_nanoseconds=10)
    versions.commit("us-east-1", GONE, ("a", "c"), group=1, now_nanoseconds=11)
    assert versions.tombstones == 1
    versions.forget_tombstones()
    assert versions.tombstones == 0
    assert versions.stamp("us-east-1", "ledger", TOKEN) == Stamp(10, "us-east-1")
    assert versions.stamp("us-east-1", "ledger", ("a", "c")) == Stamp(0, "")


def test_of_several_changes_of_one_item_the_newest_is_applied() -> None:
    """A batch for an engine names each item once, in whatever order its changes have come."""
    shipments = [Shipment(put(n), TOKEN, Stamp(n, "us-east-1"), 1) for n in (2, 3, 1)]
    assert Versions().newest("eu-west-1", shipments) == [shipments[1]]


def test_nothing_is_held_before_the_engine_has_it() -> None:
    """What could not be applied is as new when it comes again."""
    versions = Versions()
    shipment = Shipment(put(1), TOKEN, Stamp(1, "us-east-1"), 1)
    assert versions.newest("eu-west-1", [shipment]) == versions.newest("eu-west-1", [shipment])
    versions.hold("eu-west-1", shipment)
    assert versions.newest("eu-west-1", [shipment]) == []


@dataclass
class World:
    """Three regions holding one item, and everything that is on its way."""

    versions: Versions = field(default_factory=Versions)
    items: dict[str, ItemChange] = field(default_factory=dict)
    flying: list[tuple[str, Shipment]] = field(default_factory=list)

    def write(self, region: str, change: ItemChange, now: int) -> None:
        """Commit a write in a region and send it off."""
        shipment = self.versions.commit(region, change, TOKEN, group=1, now_nanoseconds=now)
        self.items[region] = change
        self.flying += [(other, shipment) for other in REGIONS if other != region]

    def arrive(self, index: int) -> None:
        """Let one of those on their way arrive."""
        region, shipment = self.flying.pop(index % len(self.flying))
        if accept(self.versions, region, shipment):
            self.items[region] = shipment.change


STEPS = st.lists(
    st.tuples(st.sampled_from((*REGIONS, "arrive")), st.booleans(), st.integers(0, 5)),
    max_size=40,
)


@given(STEPS)
def test_every_order_of_writes_and_arrivals_ends_alike_everywhere(
    steps: list[tuple[str, bool, int]],
) -> None:
    """Puts and deletes on clocks that jump about, delivered in any order, leave regions equal."""
    world = World()
    for number, (what, delete, drawn) in enumerate(steps):
        if what != "arrive":
            world.write(what, GONE if delete else put(number), now=drawn)
        elif world.flying:
            world.arrive(drawn)
    while world.flying:
        world.arrive(len(world.flying) // 2)
    shown = [world.items.get(region, GONE).image for region in REGIONS]
    assert shown.count(shown[0]) == len(REGIONS)
