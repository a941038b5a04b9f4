"""A pass under a contract that changes meanwhile, and what a pass looks at before it begins."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import anyio
import pytest
from prometheus_client import CollectorRegistry
from support.compacting import HEARTBEAT, HOLD, LEASE, World, compactor_settings
from support.ledgers import HOME, WEST, make_services
from support.live import Live

from compactor.context import MergeContext
from compactor.memory import MergeMemory
from compactor.merge_pass import MergePass
from compactor.metrics import CompactorMetrics
from compactor.report import CompactorReport
from ledger.core.contract import NO_HOME, Validity
from ledger.core.errors import ContractStale, LeaseLost
from ledger.core.hints import HINT_PARTITIONS
from ledger.primitives.leases.lease import Lease, LeaseOptions
from ledger.primitives.leases.lease_rules import LeaseGrant, LeaseTerms, lease_key
from ledger.runtime.validity import check_validity
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, NeverArrived
from ledger.testing.clock import START

SETTINGS = compactor_settings()
TERMS = SETTINGS.terms
MOVING = SETTINGS.under(replace(TERMS, home=NO_HOME), home=HOME)
MOVED = SETTINGS.under(replace(TERMS, home=WEST), home=WEST)
SMALLER = SETTINGS.under(replace(TERMS, regions=(HOME, WEST)), home=HOME)
SLOWER = SETTINGS.under(replace(TERMS, settle=10_000.0), home=HOME)


def stores_of(world: World, look: Callable[[FaultCall], Fault | None]) -> dict[str, Store]:
    """Return the stores of the regions, with something looked at before each call."""
    return {
        region: FaultyStore(store, look, clock=world.clock)
        for region, store in world.regions.replicas.items()
    }


async def run_pass(
    world: World,
    live: Live,
    *,
    look: Callable[[FaultCall], Fault | None] = lambda _call: None,
    lost: bool = False,
    memory: MergeMemory | None = None,
) -> CompactorReport:
    """Do one pass under the lease; with `lost` the lease is lost before it begins.

    `memory` is that of passes before.
    """
    stores = stores_of(world, look)
    lease = Lease(
        world.regions.replicas[HOME],
        "compactor",
        owner="one",
        terms=LeaseTerms(lease_seconds=LEASE, heartbeat_seconds=HEARTBEAT),
        services=make_services(world.clock, 1),
        options=LeaseOptions(key=lease_key(f"compactor@{HOME}")),
    )

    async def work() -> CompactorReport:
        async with lease.held(0) as grant:
            assert isinstance(grant, LeaseGrant)
            if lost:
                world.clock.pass_by(LEASE)
            metrics = CompactorMetrics.of(CollectorRegistry())
            context = MergeContext(stores, live, make_services(world.clock, 1), metrics)
            made = MergePass(context, memory or MergeMemory(), lease, stop=anyio.Event())
            return await made.run()

    (report,) = await world.drive(work)
    return report


def refusals(world: World) -> tuple[list[str], Callable[[FaultCall], Fault | None]]:
    """Return a list of the calls that the view of the contract refuses, and what fills it."""
    refused = list[str]()

    def look(call: FaultCall) -> Fault | None:
        try:
            check_validity(world.clock.now())
        except ContractStale:
            refused.append(call.operation)
            raise
        return None

    return refused, look


def has_net(world: World) -> bool:
    """Return whether a fold was written at home."""
    return world.shown(HOME).net is not None


@pytest.mark.parametrize("then", [MOVED, SMALLER], ids=["home", "regions"])
async def test_another_home_or_other_regions_end_the_pass(then: Settings) -> None:
    """Each look takes what the contract says now: either difference alone is enough."""
    world = World()
    await world.settled(entries=6)
    live = Live(SETTINGS, then)
    with pytest.raises(LeaseLost, match="names another home or other regions"):
        await run_pass(world, live)
    assert live.renewals == 1
    assert not has_net(world)


async def test_a_home_that_is_moved_meanwhile_is_waited_for() -> None:
    """From the announcement on nothing more is looked at."""
    world = World()
    await world.settled(entries=6)
    report = await run_pass(world, Live(SETTINGS, MOVING))
    assert "being moved" in report.waits
    assert not has_net(world)


async def test_the_rules_are_those_of_the_contract_now() -> None:
    """Entries that have not settled by the new terms are not folded, though the pass had begun."""
    world = World()
    await world.settled(entries=6)
    report = await run_pass(world, Live(SETTINGS, SLOWER))
    assert (report.folds, has_net(world)) == (0, False)
    assert (await run_pass(world, Live(SETTINGS))).folds == 1


async def test_nothing_is_read_or_written_past_the_view_of_the_contract() -> None:
    """A view that ends before the observation, or during the hold, leaves the collection alone."""
    for seconds in (-1.0, HOLD / 2, 10 * HOLD):
        world = World()
        await world.settled(entries=6)
        now = world.clock.now()
        elapsed = world.clock.monotonic()
        until = Validity(now + timedelta(seconds=seconds), elapsed + 1_000_000)
        calls, look = refusals(world)
        report = await run_pass(world, Live(SETTINGS, validity=until), look=look)
        assert has_net(world) is (seconds > HOLD)
        assert report.is_success is (seconds > HOLD)
        refused = {-1.0: {"get_each"}, HOLD / 2: {"transact"}}.get(seconds, set())
        assert set(calls) == refused


class Renewed(Live):
    """Settings whose view of the contract is read again while a decision is held."""

    def __init__(self, world: World, seconds: float) -> None:
        super().__init__(SETTINGS)
        self._world = world
        self._began = world.clock.monotonic()
        self._seconds = seconds

    @property
    def validity(self) -> Validity | None:
        """Short at first, and long once it was read again."""
        is_again = self._world.clock.monotonic() > self._began + self._seconds
        return Validity.of_read(
            START, self._began, contract_life=1_000_000 if is_again else self._seconds
        )

    @validity.setter
    def validity(self, value: Validity | None) -> None:
        assert value is None


@pytest.mark.parametrize(("seconds", "folds"), [(HOLD / 2, False), (2 * HOLD, True)])
async def test_a_decision_is_carried_out_under_the_view_that_it_rests_on(
    seconds: float, *, folds: bool
) -> None:
    """A later view may have other terms: what was decided by the one before is then void."""
    world = World()
    await world.settled(entries=6)

    def look(call: FaultCall) -> Fault | None:
        if call.operation == "transact":
            check_validity(START)
        return None

    await run_pass(world, Renewed(world, seconds), look=look)
    assert has_net(world) is folds


async def test_a_pass_without_its_lease_ends_at_once() -> None:
    """Even with nothing to merge: a leader that has lost it must hear so."""
    with pytest.raises(LeaseLost):
        await run_pass(World(), Live(SETTINGS), lost=True)


async def test_a_hint_stays_until_its_last_fold_is_known() -> None:
    """If the write that ends the work has no answer, the next pass must be led there again."""
    world = World()
    await world.settled(entries=6)
    one = world.instance(scan_every=100_000, lease=100, heartbeat=50)

    def hints() -> int:
        items = world.regions.replicas[HOME].table.items()
        return sum(item["pk"]["S"] in HINT_PARTITIONS for item in items)

    writes = iter((None, NeverArrived()))  # the lease's, the fold

    await world.run_once(one)
    await world.run_once(one)
    assert hints() == 1
    one.faults[HOME] = lambda call: next(writes, None) if call.operation == "write" else None
    report = await world.run_once(one)
    assert report.lost_races == 1
    assert hints() == 1
    one.faults.clear()
    assert (await world.run_once(one)).folds == 1
    assert hints() == 0
    assert world.is_right()


async def test_nets_of_own_folds_are_not_read_past_the_view_of_the_contract() -> None:
    """The look that the deletes of the last fold rest on is refused, as any observation is."""
    world, memory = World(), MergeMemory()
    await world.settled(entries=6)
    assert (await run_pass(world, Live(SETTINGS), memory=memory)).folds == 1
    over = Validity(world.clock.now() - timedelta(seconds=1), world.clock.monotonic() + 1_000_000)
    refused, look = refusals(world)
    report = await run_pass(world, Live(SETTINGS, validity=over), look=look, memory=memory)
    assert set(refused) == {"get_each"}
    assert (report.deleted, report.is_success) == (0, False)
