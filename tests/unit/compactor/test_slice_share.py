"""Processes that share the slices, on a virtual clock: joining, leaving, dying, moving up."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from prometheus_client import CollectorRegistry
from support.compacting import HEARTBEAT, LEASE, Instance, World, compactor_settings
from support.ledgers import HOME, WEST

from compactor import executor, slice_share
from compactor.context import MergeContext
from compactor.merge_plan import MergePlan
from compactor.metrics import CompactorMetrics
from compactor.observation import lease_name
from compactor.plan_execution import PlanResult, execute_plan
from compactor.report import CompactorReport
from compactor.slice_share import HeartbeatWatches, SliceShare
from compactor.slices import (
    HEAD,
    Directory,
    Slice,
    bounds,
    directory_of,
    giving,
    slice_item,
    slice_key,
    slice_of,
)
from ledger.core import keys
from ledger.core.entry import Item
from ledger.core.errors import Unreachable
from ledger.core.hints import HINT_PARTITIONS, ripe_hint
from ledger.core.values import NetChange
from ledger.primitives.leases.lease_rules import LeaseRecord, lease_key, record_item
from ledger.runtime.services import Services
from ledger.store.conditions import Absent
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.wrappers.faults import Fault, FaultCall, NeverArrived, Raises
from ledger.store.writes import Action, Check, Delete, Outcome, Write
from ledger.testing.clock import ManualClock

SLICES = 8
EVERY = 4.0
TURNS = 2 * HEARTBEAT
"""How long all take to come to their shares: one gives up, another takes."""
SHARED = compactor_settings(slices=2)
NAME = lease_name(SHARED)
DEAD = Raises(Unreachable("killed"))
COUNTERS = [f"counter-{number}" for number in range(12)]


class Group:
    """Processes of one world, each with what it reported."""

    def __init__(self, **overrides: float) -> None:
        self.world = World()
        self.overrides: dict[str, Any] = {
            "slices": SLICES,
            "lease": LEASE,
            "heartbeat": HEARTBEAT,
            **overrides,
        }
        self.reports: dict[str, list[CompactorReport]] = {}
        self.stops: dict[str, anyio.Event] = {}
        self.instances: dict[str, Instance] = {}
        self.errors: list[Exception] = []

    def serve(self, owner: str) -> Callable[[], Awaitable[None]]:
        """Return the work of a new process: pass after pass until it is stopped or killed."""
        one = self.instances[owner] = self.world.instance(owner, **self.overrides)
        stop = self.stops[owner] = anyio.Event()
        reports = self.reports[owner] = []

        async def run() -> None:
            await one.live(
                lambda: one.compactor.run_every(
                    EVERY, stop=stop, on_report=reports.append, on_error=self.errors.append
                )
            )

        return run

    def stop_all(self) -> None:
        """Stop every process."""
        for stop in self.stops.values():
            stop.set()

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        await self.world.clock.sleep(seconds)

    def directory(self) -> Directory:
        """Return what the home region shows of slices and members."""
        items = self.world.regions.replicas[HOME].table.items()
        lease = lease_name(compactor_settings())
        first, last = bounds(lease)
        here = [
            item
            for item in items
            if item["pk"]["S"] == keys.LEASE_PARTITION and first <= item["sk"]["S"] <= last
        ]
        return directory_of(here, lease, SLICES)

    def led(self) -> dict[str, int]:
        """Return how many slices each process leads, by the processes' own metrics."""
        found = {
            owner: int(one.metric("compactor_slices") or 0)
            for owner, one in self.instances.items()
            if not one.is_dead
        }
        return {owner: count for owner, count in found.items() if count}

    def heads(self) -> list[str]:
        """Return the processes that lead as the head."""
        return [
            owner
            for owner, one in self.instances.items()
            if not one.is_dead and one.metric("compactor_leader", region=HOME)
        ]


async def test_two_processes_share_and_one_goes_on_alone() -> None:
    """The second takes half; once it stops, the first leads all again."""
    group = Group()

    async def plan() -> None:
        await group.sleep(TURNS + 1)
        assert group.led() == {"one": 4, "two": 4}
        assert len(group.heads()) == 1
        owners = Counter(one.owner.split("/")[0] for one in group.directory().slices)
        assert owners == {HEAD: 4, "process": 4}
        (other,) = {"one", "two"} - set(group.heads())
        group.stops[other].set()
        await group.sleep(TURNS + 1)
        assert group.led() == {group.heads()[0]: 8}
        assert not group.directory().members
        group.stop_all()

    await group.world.drive(group.serve("one"), group.serve("two"), plan)
    assert not group.errors


async def test_the_head_stops_and_a_member_moves_up() -> None:
    """A stopped head releases its lease: a member takes it, with all that the head led."""
    group = Group()

    async def plan() -> None:
        await group.sleep(TURNS + 1)
        (head,) = group.heads()
        group.stops[head].set()
        await group.sleep(2 * TURNS)
        (other,) = {"one", "two"} - {head}
        assert group.heads() == [other]
        assert group.led() == {other: 8}
        group.stop_all()

    await group.world.drive(group.serve("one"), group.serve("two"), plan)
    assert not group.errors


@pytest.mark.parametrize("victim", ["head", "member"])
async def test_what_a_killed_process_led_is_taken_within_a_lease(victim: str) -> None:
    """Its heartbeat stands still for a lease; then the others lead its slices."""
    group = Group()

    async def plan() -> None:
        await group.sleep(TURNS + 5)
        assert group.led() == {"one": 3, "two": 3, "three": 2} or sum(group.led().values()) == 8
        (head,) = group.heads()
        members = sorted(set(group.instances) - {head})
        killed = head if victim == "head" else members[0]
        group.instances[killed].kill(DEAD)
        # A lease, the look that ends it, and the turns in which the others come to new shares.
        await group.sleep(LEASE + 2 * HEARTBEAT + TURNS)
        assert killed not in group.led()
        assert sorted(group.led().values()) == [4, 4]
        assert len(group.heads()) == 1
        group.stop_all()

    works = [group.serve(owner) for owner in ("one", "two", "three")]
    await group.world.drive(*works, plan)


@pytest.mark.slow
async def test_each_merges_its_own_slices_and_all_is_merged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every collection is folded once, by the process that leads its slice; totals stay right.

    Each fold, and what prunes a net, checks the slice beside the lease.
    """
    checks, applied = list[int](), execute_plan

    async def apply(
        home: Store, partition: str, net: NetChange, plan: MergePlan, *, fence: Sequence[Check]
    ) -> PlanResult:
        if plan.fold is not None:
            checks.append(len(fence))
        return await applied(home, partition, net, plan, fence=fence)

    monkeypatch.setattr(executor, "execute_plan", apply)
    group = Group(scan_every=100_000)
    world = group.world
    for counter in COUNTERS:
        world.write(entries=6, counter=counter)
    await world.settled(entries=0)

    async def plan() -> None:
        await group.sleep(90)
        group.stop_all()

    await world.drive(group.serve("one"), group.serve("two"), plan)
    assert world.is_right()
    assert not any(world.shown(HOME, counter).entries for counter in COUNTERS)
    merged = {
        owner: sum(report.merged for report in found) for owner, found in group.reports.items()
    }
    assert sum(merged.values()) == 6 * len(COUNTERS)
    assert min(merged.values()) > 0
    assert set(checks) == {2}
    assert not sum(report.lost_races for found in group.reports.values() for report in found)
    assert _hints(world) == []


@pytest.mark.slow
async def test_a_hint_of_a_counter_leads_to_all_of_its_shards() -> None:
    """Also to those in slices that another process leads: it gets a hint of its own."""
    group = Group(scan_every=100_000)
    group.overrides["hint_every"] = 0
    world = group.world
    shards = 6
    settings = compactor_settings(**group.overrides).replace(shards={"wide": shards})
    partitions = [keys.partition_key("wide", shard) for shard in range(shards)]
    assert len({slice_of(partition, SLICES) for partition in partitions}) > 1
    for partition in partitions:
        world.write(entries=6, counter=partition)
    world.regions.deliver()

    async def plan() -> None:
        await group.sleep(12)
        hint = ripe_hint("wide", world.clock.now(), settle=10.0)
        assert hint is not None
        world.regions.put(HOME, hint.item)
        await group.sleep(60)
        group.stop_all()

    works = []
    for owner in ("one", "two"):
        works.append(group.serve(owner))
        group.instances[owner].compactor.settings = settings
    world.regions.replicas[HOME].table.set(
        (keys.SCAN_PARTITION, "compactor"), _searched_just_now(world)
    )
    await world.drive(*works, plan)
    assert not any(world.shown(HOME, partition).entries for partition in partitions)
    assert _hints(world) == []


def _searched_just_now(world: World) -> Item:
    """Return a cursor that says that nothing is to be searched for a while."""
    return {
        "pk": {"S": keys.SCAN_PARTITION},
        "sk": {"S": "compactor"},
        "segments": {"N": "1"},
        "places": {"M": {"0": {"NULL": True}}},
        "began": {"S": world.clock.now().isoformat()},
    }


def _hints(world: World) -> list[str]:
    items = world.regions.replicas[HOME].table.items()
    return [item["sk"]["S"] for item in items if item["pk"]["S"] in HINT_PARTITIONS]


async def test_one_process_writes_nothing_of_slices() -> None:
    """As before there were slices, an idle process writes its lease and no more."""
    group = Group()

    async def plan() -> None:
        await group.sleep(60)
        found = group.directory()
        assert not found.members
        assert {one.epoch for one in found.slices} == {0}
        assert group.led() == {"one": SLICES}
        group.stop_all()

    await group.world.drive(group.serve("one"), plan)


async def test_beside_a_holder_without_slices_all_wait() -> None:
    """It leads every collection: until its lease is free no member joins and nothing is merged."""
    group = Group()
    world = group.world
    await world.settled(entries=6)
    one = world.instance("old", slices=SLICES)
    await world.run_once(one)
    record = world.lease()
    old = record_item(record) | {"owner": {"S": "earlier"}, "lease_seconds": {"N": "20"}}

    async def plan() -> None:
        world.regions.put(HOME, old | {"rvn": {"S": "r1"}})
        await group.sleep(15)
        assert not group.led()
        assert not group.directory().members
        world.regions.put(HOME, old | {"rvn": {"S": "r2"}})
        await group.sleep(15)
        assert not group.led()
        await group.sleep(10 + TURNS)
        assert sorted(group.led().values()) == [4, 4]
        group.stop_all()

    world.regions.put(HOME, old | {"rvn": {"S": "r0"}})
    await world.drive(group.serve("one"), group.serve("two"), plan)


async def test_members_leave_when_a_holder_without_slices_takes_the_lease() -> None:
    """Data that the head left with the lease does not speak for who took it."""
    group = Group()
    world = group.world

    async def plan() -> None:
        await group.sleep(TURNS + 1)
        record = record_item(world.lease())
        taken = {"owner": {"S": "earlier"}, "rvn": {"S": "r"}, "epoch": {"N": "9999999999999"}}
        world.regions.put(HOME, {**record, **taken, "lease_seconds": {"N": "1000"}})
        await group.sleep(TURNS + EVERY)
        assert not group.led()
        assert not group.directory().members
        group.stop_all()

    await world.drive(group.serve("one"), group.serve("two"), plan)


async def test_a_single_pass_takes_what_the_dead_have_led() -> None:
    """It waits until their heartbeats have stood still for a lease; the next one need not."""
    group = Group()
    world = group.world

    async def plan() -> None:
        await group.sleep(TURNS + 1)
        for instance in group.instances.values():
            instance.kill(DEAD)

    await world.drive(group.serve("one"), group.serve("two"), plan)
    for counter in COUNTERS:
        await world.settled(entries=6, counter=counter)
    last = world.instance("last", **group.overrides)
    began = world.clock.monotonic()
    await world.run_once(last, wait_seconds=60)
    assert world.clock.monotonic() - began > LEASE
    assert {one.owner for one in group.directory().slices} == {HEAD}
    await world.run_once(last)
    assert world.is_right()
    assert not any(world.shown(HOME, counter).entries for counter in COUNTERS)


async def test_what_is_given_up_is_not_led_from_before_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those slices and no others: another member may lead them once the request lands."""
    group = Group()
    shares: list[set[int]] = [set()]
    given_up: list[tuple[set[int], set[int], set[int]]] = []
    lead = SliceShare._lead

    def noted(self: SliceShare, led: dict[int, Slice]) -> None:
        shares.append({*self.led})
        lead(self, led)
        shares.append({*self.led})

    def giving_noted(own: Check, given: dict[int, Slice], **names: Any) -> list[Action]:
        given_up.append((shares[-2], {*given}, shares[-1]))
        return giving(own, given, **names)

    monkeypatch.setattr(SliceShare, "_lead", noted)
    monkeypatch.setattr(slice_share, "giving", giving_noted)

    async def later() -> None:
        await group.sleep(2)
        await group.serve("two")()

    async def plan() -> None:
        await group.sleep(3 * TURNS)
        assert group.led() == {"one": 4, "two": 4}
        group.stop_all()

    await group.world.drive(group.serve("one"), later, plan)
    assert sum(len(given) for _, given, _ in given_up) >= 4
    assert all(after == before - given for before, given, after in given_up)


async def test_slices_given_up_without_an_answer_are_not_led() -> None:
    """The write may still land: so it is sent again, and nothing is done meanwhile."""
    group = Group()
    lost = 0

    def silent(call: FaultCall) -> Fault | None:
        nonlocal lost
        if call.operation == "transact" and lost < 2:
            lost += 1
            return NeverArrived()
        return None

    async def plan() -> None:
        await group.sleep(1)
        group.instances["one"].faults[HOME] = silent
        await group.sleep(3 * TURNS)
        assert lost == 2
        assert group.led() == {"one": 4, "two": 4}
        group.stop_all()

    async def later() -> None:
        await group.sleep(2)
        await group.serve("two")()

    await group.world.drive(group.serve("one"), later, plan)


async def test_unreadable_slices_do_not_stop_a_process() -> None:
    """What it led before it still leads, as long as its heartbeats are applied."""
    group = Group()

    def gone(call: FaultCall) -> Fault | None:
        return Raises(Unreachable("no connection")) if call.operation == "query" else None

    async def plan() -> None:
        await group.sleep(EVERY)
        one = group.instances["one"]
        one.faults[HOME] = gone
        await group.sleep(TURNS)
        one.faults.clear()
        assert group.led() == {"one": SLICES}
        assert one.metric("compactor_errors_total", kind="Unreachable")
        group.stop_all()

    await group.world.drive(group.serve("one"), plan)


async def test_each_home_has_slices_of_its_own() -> None:
    """As it has a lease of its own: two homes never write one item of slices."""
    home, west = (lease_name(compactor_settings(home=name)) for name in (HOME, WEST))
    first, last = bounds(home)
    assert not first <= bounds(west)[0] <= last
    assert lease_key(home)[1] not in (first, last)


class Shared(MemoryStore):
    """Home's items of two slices, the second of which a member leads; `on_bury` comes before it."""

    def __init__(self) -> None:
        super().__init__(HOME)
        self.clock = ManualClock()
        self.member = LeaseRecord(
            f"{NAME}/process/two/00000001", "two", "beat-1", LEASE, epoch=1, home=HOME
        )
        self.show(self.member)
        item = slice_item(slice_key(NAME, 1, 2), Slice("process/two/00000001", 1))
        self.table.set((keys.LEASE_PARTITION, item["sk"]["S"]), item)
        self.on_bury: Callable[[], None] = lambda: None

    def show(self, record: LeaseRecord) -> None:
        """Let a heartbeat arrive."""
        self.table.set(record.key, record_item(record))

    async def write(self, write: Write) -> Outcome:
        """Write; what is deleted is a heartbeat."""
        if isinstance(write, Delete):
            self.on_bury()
        return await super().write(write)

    def head(self) -> SliceShare:
        """Return the share of the head."""
        own: Any = SimpleNamespace(fence=lambda: Check(("~leases", NAME), Absent()))
        context = MergeContext(
            {HOME: self},
            SHARED,
            Services.of(clock=self.clock),
            CompactorMetrics(CollectorRegistry()),
        )
        return SliceShare(context, own, me=HEAD, settings=SHARED, watches=HeartbeatWatches())


async def test_the_head_leads_its_own_slices_alone() -> None:
    """And what no hint can name; what others lead they merge, and it leaves them hints."""
    head = Shared().head()
    assert not any(map(head.leads, COUNTERS)), "nothing is led before the first turn"
    await head.turn()
    assert {*head.led} == {0}
    for counter in COUNTERS:
        assert head.leads(counter) == (slice_of(counter, 2) == 0)
        assert len(head.fence(counter)) == (2 if head.leads(counter) else 1)
    assert {slice_of(counter, 2) for counter in COUNTERS} == {0, 1}
    assert head.leads("x" * 2_000)


@pytest.mark.parametrize("beats", [True, False])
async def test_a_heartbeat_is_buried_only_while_it_stands_still(*, beats: bool) -> None:
    """One that is written between the look and the delete is a living member's: it keeps all."""
    store = Shared()
    head = store.head()
    await head.turn()
    store.clock.pass_by(LEASE + 1)
    if beats:
        store.on_bury = lambda: store.show(replace(store.member, rvn="beat-2"))
    await head.turn()
    assert (store.table.get(store.member.key) is not None) == beats
    assert {*head.led} == ({0} if beats else {0, 1})
