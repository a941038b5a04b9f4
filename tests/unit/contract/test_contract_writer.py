"""Changes of the contract: announced, waited for, in force; interrupted, raced, lost, withdrawn."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from support.contracts import REGIONS, ContractWorld, all_show, established, make_terms, to
from support.ledgers import AWAY, HOME, SOUTH

from ledger.contract.contract_writer import POLL_SECONDS
from ledger.contract.wait_report import Waiting
from ledger.core.clock_offset import ClockOffset
from ledger.core.contract import Terms, is_pending, seconds_to_wait
from ledger.core.contract_item import Contract, contract_item, contract_key
from ledger.core.errors import (
    ClockOff,
    ContractChangeRefused,
    ContractConflict,
    ContractMissing,
    StoreError,
    TableMissing,
    Unreachable,
)

TERMS = make_terms()
SLOWER = replace(TERMS, settle=4000.0)
PENDING = Contract(terms=TERMS, revision=1, coming=SLOWER)
WAIT = seconds_to_wait(TERMS, SLOWER)


class Interrupted(Exception):
    """Stands for an operator whose program ends."""


async def test_announce_wait_in_force() -> None:
    """Pending until every region has shown it and for the whole wait; then in force everywhere."""
    world = await established()
    begun, at_home = world.elapsed, list[Contract | None]()
    world.on_sleep = lambda: at_home.append(world.at(HOME))
    done = await world.operator().change(to(SLOWER))
    assert done == Contract(terms=SLOWER, revision=2)
    assert all_show(world, done)
    assert world.elapsed - begun >= WAIT
    *waiting, _arriving = at_home
    assert set(map(str, waiting)) == {str(PENDING)}
    assert world.waits[0] == Waiting(1, (AWAY, SOUTH))
    assert "comes into force in" in str(world.waits[1])


async def test_a_change_to_what_is_in_force_is_none() -> None:
    """Nothing is announced."""
    world = await established()
    assert await world.operator().change(to(TERMS)) == Contract(terms=TERMS)
    assert world.waits == []


async def test_a_region_that_does_not_show_it_stops_the_change() -> None:
    """However long: the wait is counted only from when the last region has shown it."""
    world = await established()
    world.cut = {SOUTH}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.operator().change, to(SLOWER))
        while world.elapsed < 3 * WAIT:
            await anyio.lowlevel.checkpoint()
        assert world.at(HOME) == PENDING
        assert world.waits[-1] == Waiting(1, (SOUTH,))
        healed = world.elapsed
        world.cut.clear()
    assert world.elapsed - healed >= WAIT
    assert all_show(world, Contract(terms=SLOWER, revision=2))


async def test_a_region_that_cannot_be_read_ends_the_run() -> None:
    """The operator hears which one; the change stays pending, and all obey the stricter terms."""
    world = await established()
    world.stores[SOUTH].fails = True
    with pytest.raises(Unreachable, match=SOUTH):
        await world.operator().change(to(SLOWER))
    world.stores[SOUTH].fails = False
    assert all_show(world, Contract(terms=TERMS))


async def test_a_region_is_announced_before_it_is_made() -> None:
    """Compactors observe it from then on, and the change waits for its replica to show it."""
    world = ContractWorld()
    world.stores[SOUTH].is_missing = True
    world.cut = {SOUTH}
    two = make_terms(regions=(HOME, AWAY))
    world.show(Contract(terms=two))
    world.stores[SOUTH].table.set(contract_key(generation=1), None)
    begun: list[float] = []

    def make() -> None:
        if world.slept == 100:
            begun.append(world.elapsed)
            world.stores[SOUTH].is_missing = False
            world.cut.clear()

    world.on_sleep = make
    done = await world.operator().change(to(TERMS))
    assert done == Contract(terms=TERMS, revision=2)
    assert world.elapsed - begun[0] >= WAIT
    assert world.waits[0].regions == (AWAY, SOUTH)
    assert world.waits[98] == Waiting(1, (SOUTH,))


async def test_without_any_table_there_is_nothing_to_change() -> None:
    """It is the table that is missing, not its contract."""
    world = ContractWorld()
    for store in world.stores.values():
        store.is_missing = True
    with pytest.raises(TableMissing):
        await world.operator().change(to(TERMS))


async def test_what_another_operator_announces_meanwhile_is_waited_for_everywhere() -> None:
    """A later change is not finished by a wait that began before every region had shown it."""
    world = await established()
    world.show(PENDING)
    world.stores[AWAY].table.set(contract_key(generation=1), contract_item(Contract(terms=TERMS)))
    world.cut = {AWAY, SOUTH}
    begun = world.slept
    healed: list[float] = []

    def meanwhile() -> None:
        if world.slept == begun + 10:  # the change is in force, and the next one announced
            world.show(Contract(terms=SLOWER, revision=2))
            third = Contract(terms=SLOWER, revision=3, coming=replace(SLOWER, settle=5000.0))
            world.stores[HOME].table.set(contract_key(generation=1), contract_item(third))
        if world.slept == begun + 50:
            healed.append(world.elapsed)
            world.cut.clear()

    world.on_sleep = meanwhile
    done = await world.operator().finish(PENDING)
    assert (done.revision, done.terms.settle) == (4, 5000.0)
    assert world.elapsed - healed[0] >= WAIT


@pytest.mark.parametrize("ends", [1, 2, 3, 300, 632, 633])
async def test_interrupted_anywhere_another_finishes_it(ends: int) -> None:
    """The same call by anyone goes on from there, with a wait of its own from its own look."""
    world = await established()
    begun = world.slept

    def interrupt() -> None:
        if world.slept == begun + ends:
            raise Interrupted

    world.on_sleep = interrupt
    with pytest.raises(Interrupted):
        await world.operator().change(to(SLOWER))
    was_pending, resumed = world.at(HOME) == PENDING, world.elapsed
    assert was_pending == (ends < 633)
    done = await world.operator().change(to(SLOWER))
    assert done == Contract(terms=SLOWER, revision=2)
    assert all_show(world, done)
    if was_pending:
        assert world.elapsed - resumed >= WAIT


async def test_a_finisher_waits_from_its_own_look() -> None:
    """That the change was announced long ago is nothing that its clock has seen."""
    world = await established()
    world.show(PENDING)
    world.pass_by(10 * WAIT)
    begun = world.elapsed
    assert await world.operator().finish(await world.operator().newest())
    assert world.elapsed - begun >= WAIT


class Leaving:
    """A table of which SOUTH is taken out; its replica is removed once that is waited for."""

    def __init__(self, world: ContractWorld) -> None:
        self.world = world
        self.seen: list[tuple[str, ...]] = []
        self.removed_at: datetime | None = None
        world.stores[HOME].described = dict.fromkeys((AWAY, SOUTH), "ACTIVE")
        world.on_sleep = self.remove

    def remove(self) -> None:
        """Take away the replica that is waited for, in two steps."""
        shown = self.world.at(HOME)
        assert shown is not None
        if self.world.waits[-1].replicas:
            assert is_pending(shown.revision)
            self.seen.append(self.world.waits[-1].replicas)
            states = {AWAY: "ACTIVE", SOUTH: "DELETING"}
            if len(self.seen) > 1:
                states = {AWAY: "ACTIVE"}
                self.world.stores[SOUTH].is_missing = True
                self.removed_at = self.world.now()
            self.world.stores[HOME].described = states


async def test_a_region_leaves_in_force_once_its_replica_is_removed() -> None:
    """Before, merging would go on without what it shows; it is asked for after the wait."""
    world = await established()
    leaving = Leaving(world)
    smaller = make_terms(regions=(HOME, AWAY))
    done = await world.operator().change(to(smaller))
    gone_at = done.terms.given_up_at
    assert gone_at is not None
    assert leaving.removed_at is not None
    assert leaving.removed_at <= gone_at <= world.now()
    assert (done.terms, done.coming) == (replace(smaller, lost=(SOUTH,), given_up_at=gone_at), None)
    assert leaving.seen == [(SOUTH,), (SOUTH,)]
    assert world.elapsed >= WAIT
    assert "once the replica in ap-southeast-2 is removed" in str(
        next(wait for wait in world.waits if wait.replicas)
    )


async def test_each_region_that_leaves_is_waited_for_anew() -> None:
    """The contract has the time of the latest."""
    world = await established()
    Leaving(world)
    before = make_terms()
    first = (await world.operator().change(to(replace(before, regions=(HOME, AWAY))))).terms
    world.pass_by(86_400)
    del world.stores[SOUTH]

    def removed() -> None:
        if world.waits[-1].replicas:
            world.stores[HOME].described = {}
            world.stores[AWAY].is_missing = True

    world.on_sleep = removed
    second = (await world.operator().change(to(replace(before, regions=(HOME,))))).terms
    assert second.lost == (SOUTH, AWAY)
    assert first.given_up_at is not None
    assert second.given_up_at is not None
    assert second.given_up_at > first.given_up_at + timedelta(days=1)


async def test_when_a_region_left_stays_known_after_later_changes() -> None:
    """What it had is reclaimed a day after that, not after the last change."""
    world = await established()
    Leaving(world)
    smaller = make_terms(regions=(HOME, AWAY))
    left = (await world.operator().change(to(smaller))).terms
    later = (await world.operator().change(to(replace(smaller, settle=5000.0)))).terms
    assert later == replace(left, settle=5000.0)
    assert left.given_up_at is not None


async def test_a_run_that_ended_after_the_removal_is_finished_by_another() -> None:
    """A region that is gone shows nothing any more, also not that it leaves."""
    world = await established()
    smaller = make_terms(regions=(HOME, AWAY))
    world.show(replace(PENDING, coming=smaller))
    world.stores[SOUTH].is_missing = True
    world.stores[HOME].described = {AWAY: "ACTIVE"}
    done = await world.operator().finish(await world.operator().newest())
    assert done.terms == replace(smaller, lost=(SOUTH,), given_up_at=done.terms.given_up_at)
    assert done.obeyed.generation == 2


async def test_a_region_that_leaves_must_show_it_while_it_is_a_replica() -> None:
    """What works there has to know that it may write no more."""
    world = await established()
    Leaving(world)
    world.cut = {SOUTH}
    with anyio.move_on_after(0.1):
        await world.operator().change(to(make_terms(regions=(HOME, AWAY))))
    assert not any(wait.replicas for wait in world.waits)
    assert world.waits[-1].regions == (SOUTH,)


async def test_a_clock_that_goes_wrong_during_the_wait_ends_no_change() -> None:
    """The wait, and the date of a step of shards, were judged by it: it stays pending."""
    world = await established()
    world.show(PENDING)

    def measured() -> None:
        world.stores[AWAY].clock_offset = ClockOffset(190.0, 200.0)

    world.on_sleep = measured
    with pytest.raises(ClockOff, match=f"that of {AWAY}"):
        await world.operator().finish(PENDING)
    assert all_show(world, PENDING)


async def test_only_one_change_at_a_time() -> None:
    """A second operator with another wish is refused while the first one's change is pending."""
    world = await established()
    world.show(PENDING)
    with pytest.raises(ContractChangeRefused, match=r"another change .* is pending.*--resume"):
        await world.operator().change(to(replace(TERMS, settle=5000.0)))


async def test_of_two_operators_one_announces() -> None:
    """The condition on the revision decides; the other hears that somebody was faster."""
    world = await established()
    faster = Contract(terms=TERMS, revision=1, coming=replace(TERMS, settle=5000.0))

    def meanwhile(_contract: Contract) -> Terms:
        world.on_sleep = lambda: world.show(faster)
        world.stores[SOUTH].table.set(contract_key(generation=1), None)  # so that it waits
        return SLOWER

    with pytest.raises(ContractChangeRefused, match="changed the contract meanwhile"):
        await world.operator().change(meanwhile)
    assert all_show(world, faster)


async def test_two_operators_with_one_wish_finish_once() -> None:
    """Both report the same contract in force; it is written once."""
    world = await established()
    done: list[Contract] = []

    async def one() -> None:
        try:
            done.append(await world.operator().change(to(SLOWER)))
        except ContractChangeRefused:
            done.append(await world.operator().change(to(SLOWER)))

    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(one)
    assert world.stores[HOME].applied == 2
    assert done == [Contract(terms=SLOWER, revision=2)] * 2


@pytest.mark.parametrize("lost", [[True], [False], [False, True], [True, True]])
async def test_lost_answers_change_nothing(lost: list[bool]) -> None:
    """Of a write without an answer it is read whether it was applied, then repeated if not."""
    world = await established()
    world.stores[HOME].lost = list(lost)
    done = await world.operator().change(to(SLOWER))
    assert done == Contract(terms=SLOWER, revision=2)
    assert world.stores[HOME].lost == []


async def test_without_any_answer_it_gives_up() -> None:
    """The run ends with what to do, and what it announced can be finished."""
    world = await established()
    world.stores[HOME].lost = [False] * 100
    with pytest.raises(StoreError, match="did not confirm the write of the contract: run it again"):
        await world.operator().change(to(SLOWER))


@pytest.mark.parametrize("regions", [(HOME, AWAY), REGIONS])
async def test_a_region_that_was_lost_stays_so(regions: tuple[str, ...]) -> None:
    """What it wrote last arrived in part: later compactors must know, also once it is added again.

    Settings, of which new terms are made, know of no loss.
    """
    at = datetime(2026, 11, 1, tzinfo=UTC)
    terms = replace(make_terms(regions=(HOME, AWAY)), lost=(SOUTH,), given_up_at=at)
    world = await established(terms)
    done = await world.operator().change(to(make_terms(regions=regions, settle=4000.0)))
    assert done.terms.given_up_at == at
    assert (done.terms.settle, done.terms.regions, done.terms.lost) == (4000.0, regions, (SOUTH,))
    assert done.regions == regions


async def test_a_region_that_is_added_again_has_another_epoch() -> None:
    """What it writes from then on is told from what it wrote before, taken out or lost."""
    world = await established(replace(make_terms(regions=(HOME, AWAY)), lost=(SOUTH,)))
    before = (await world.operator().newest()).terms
    done = await world.operator().change(to(make_terms(regions=REGIONS)))
    assert (done.terms.lost, done.terms.epoch_of(SOUTH), done.terms.epoch_of(AWAY)) == (
        (SOUTH,),
        2,
        1,
    )
    assert (before.is_over(SOUTH, 1), done.terms.is_over(SOUTH, 1)) == (True, True)
    assert not done.terms.is_over(SOUTH, 2)
    assert replace(done.terms, lost=(SOUTH, SOUTH)).epoch_of(SOUTH) == 3


async def test_a_change_is_withdrawn_without_a_wait() -> None:
    """Those who know the change obey the old terms too, so these can be in force at once."""
    world = await established()
    world.show(PENDING)
    begun = world.elapsed
    done = await world.operator().withdraw(PENDING)
    assert done == Contract(terms=TERMS, revision=2)
    assert all_show(world, done)
    assert world.elapsed - begun < WAIT
    assert await world.operator().withdraw(done) == done


async def test_a_move_that_is_taken_back_is_not_finished_by_another() -> None:
    """Both write through the old home, on condition of the revision: the second one is refused."""
    world = await established()
    pending = Contract(terms=TERMS, revision=1, coming=replace(TERMS, home=AWAY))
    world.show(pending)
    back = replace(pending, revision=2, coming=None)

    def take_back() -> None:
        if 0 < world.waits[-1].seconds_left <= POLL_SECONDS:
            world.stores[HOME].table.set(contract_key(generation=1), contract_item(back))

    world.on_sleep = take_back
    with pytest.raises(ContractChangeRefused, match="another process changed the contract"):
        await world.operator().finish(pending)
    world.replicate()
    assert all_show(world, back)


async def test_a_move_of_home_is_confirmed_through_the_old_home() -> None:
    """The old home wrote all before; the next change goes through the new one."""
    world = await established()
    moved = replace(TERMS, home=AWAY)
    await world.operator().change(to(moved))
    assert [world.stores[region].writes for region in (HOME, AWAY)] == [2, 0]
    done = await world.operator().change(to(replace(moved, settle=4000.0)))
    assert [world.stores[region].writes for region in (HOME, AWAY)] == [2, 2]
    assert done.revision == 4
    assert all_show(world, done)


@pytest.mark.parametrize("region", [HOME, SOUTH])
async def test_a_region_that_is_not_among_the_stores_stops_the_change(region: str) -> None:
    """What is not asked cannot show the announcement: nothing is announced, or goes on."""
    world = await established()
    del world.stores[region]
    with pytest.raises(ContractConflict, match=f"region {region} must show the contract"):
        await world.operator().change(to(SLOWER))
    assert world.shown() == [Contract(terms=TERMS)] * 2


async def test_a_region_to_come_must_be_reached_before_it_is_announced() -> None:
    """It has to show the announcement like all others."""
    world = ContractWorld((HOME, AWAY))
    await world.operator().establish(make_terms(regions=(HOME, AWAY)))
    with pytest.raises(ContractConflict, match=f"region {SOUTH} must show the contract"):
        await world.operator().change(to(TERMS))
    assert all(contract and contract.coming is None for contract in world.shown())


async def test_a_table_without_a_contract_has_nothing_to_change() -> None:
    """The message says how to write one."""
    with pytest.raises(ContractMissing, match="ledger table adopt"):
        await ContractWorld().operator().change(to(SLOWER))


def test_what_is_waited_for_is_said() -> None:
    """Regions, or seconds."""
    assert str(Waiting(3, (AWAY, SOUTH))) == f"revision 3 has not arrived in {AWAY}, {SOUTH}"
    assert str(Waiting(3, seconds_left=1261.4)) == "revision 3 comes into force in 21 min 1 s"
