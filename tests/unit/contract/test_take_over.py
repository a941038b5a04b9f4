"""Taking a lost home over: a new generation of the contract, by one operator of two."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from support.contracts import ContractStore, make_terms
from support.ledgers import AWAY, HOME, SOUTH

from ledger.contract.contract_writer import ContractWriter
from ledger.contract.wait_report import Waiting
from ledger.core.clock_offset import ClockOffset
from ledger.core.contract_item import Contract, contract_item, contract_key, contract_of
from ledger.core.errors import ClockOff, ContractChangeRefused, ContractConflict, InvalidInput
from ledger.store.writes import Outcome, Write
from ledger.testing.clock import START, ManualClock

TERMS = make_terms(home=HOME)
BEFORE = Contract(terms=TERMS, revision=4)
OLD, NEW = contract_key(generation=1), contract_key(generation=2)


class Region(ContractStore):
    """A region in which something happens just before each write."""

    before_write: Callable[[], None] = staticmethod(lambda: None)

    async def write(self, write: Write) -> Outcome:
        """Write one item."""
        self.before_write()
        return await super().write(write)


class Remaining(ManualClock):
    """The two regions that are left, and an operator; what AWAY is shown arrives in SOUTH."""

    def __init__(self, before: Contract = BEFORE, left: Sequence[str] = (AWAY, SOUTH)) -> None:
        super().__init__(instant=True)
        self.stores = {region: Region(region) for region in left}
        self.wins: Contract | None = None
        for store in self.stores.values():
            store.table.set(OLD, contract_item(before))

    async def sleep(self, seconds: float) -> None:
        """Let replication end as the last writer wins, by default what AWAY shows."""
        first = next(iter(self.stores.values())).table
        for key in (OLD, NEW):
            item = contract_item(self.wins) if self.wins and key == NEW else first.get(key)
            for store in self.stores.values():
                if item is not None:
                    store.table.set(key, item)
        await super().sleep(seconds)

    def operator(self) -> ContractWriter:
        """Return one who has lost HOME."""
        return ContractWriter(self.stores, clock=self)

    def theirs(self) -> Contract:
        """Return what another operator writes who takes HOME over to SOUTH."""
        coming = replace(TERMS, home=SOUTH, regions=(AWAY, SOUTH), lost=(HOME,))
        return Contract(terms=TERMS, revision=5, generation=2, coming=coming, through=SOUTH)


async def test_a_home_that_never_got_what_the_one_before_wrote_last() -> None:
    """The lost region moved the home, and its last write reached another region alone."""
    moved = replace(TERMS, home=AWAY)
    world = Remaining(Contract(terms=TERMS, revision=5, coming=moved))
    last = Contract(terms=moved, revision=6)
    world.stores[SOUTH].table.set(OLD, contract_item(last))
    with pytest.raises(InvalidInput, match=f"the home is {AWAY}"):
        await world.operator().take_over(SOUTH, lost=[HOME])
    taken = await world.operator().take_over(AWAY, lost=[HOME])
    assert (taken.generation, taken.terms.home, taken.coming) == (2, AWAY, None)
    assert taken.terms.regions == (AWAY, SOUTH)
    for store in world.stores.values():
        item = store.table.get(NEW)
        assert item is not None
        assert contract_of(item) == taken


async def test_a_new_generation_leaves_the_old_one_alone() -> None:
    """A late write of the lost home could win over what is written in the place of its own."""
    world = Remaining()
    taken = await world.operator().take_over(AWAY, lost=[HOME])
    assert (taken.generation, taken.coming) == (2, None)
    assert (taken.terms.home, taken.terms.regions, taken.terms.lost) == (
        AWAY,
        (AWAY, SOUTH),
        (HOME,),
    )
    for store in world.stores.values():
        old, new = store.table.get(OLD), store.table.get(NEW)
        assert old is not None
        assert new is not None
        assert (contract_of(old), contract_of(new)) == (BEFORE, taken)
    assert await world.operator().take_over(AWAY, lost=[HOME]) == taken


async def test_what_another_operator_has_written_is_not_overwritten() -> None:
    """It arrives after the look and before the write: the condition sees it."""
    world = Remaining()
    away = world.stores[AWAY]
    away.before_write = lambda: away.table.set(NEW, contract_item(world.theirs()))
    with pytest.raises(ContractChangeRefused, match="another process changed"):
        await world.operator().take_over(AWAY, lost=[HOME])
    item = away.table.get(NEW)
    assert item is not None
    assert contract_of(item) == world.theirs()


async def test_of_two_operators_through_two_regions_one_gives_up() -> None:
    """Each has written the new generation in a region of its own: the last writer wins."""
    world = Remaining()
    away, south = world.stores[AWAY], world.stores[SOUTH]
    away.before_write = lambda: south.table.set(NEW, contract_item(world.theirs()))
    world.wins = world.theirs()
    with pytest.raises(ContractChangeRefused, match=f"moved the home: to {SOUTH}"):
        await world.operator().take_over(AWAY, lost=[HOME])
    assert away.writes == 1


async def test_a_take_over_that_another_began_names_its_home() -> None:
    """Who comes second under another home's name must not finish it as if it were his."""
    world = Remaining()
    for store in world.stores.values():
        store.table.set(NEW, contract_item(world.theirs()))
    with pytest.raises(InvalidInput, match=f"the home is {SOUTH}"):
        await world.operator().take_over(AWAY, lost=[HOME])


async def test_home_and_another_region_are_lost_together() -> None:
    """One new contract without either; with one of them alone it could never be in force."""
    world = Remaining(left=[AWAY])
    with pytest.raises(ContractConflict, match=f"region {SOUTH} must show the contract"):
        await world.operator().take_over(AWAY, lost=[HOME])
    assert world.stores[AWAY].writes == 0
    taken = await world.operator().take_over(AWAY, lost=[HOME, SOUTH])
    assert (taken.generation, taken.terms.regions, taken.terms.lost) == (2, (AWAY,), (HOME, SOUTH))


async def test_a_pending_change_is_taken_back_when_a_region_is_lost() -> None:
    """It could never be in force: the lost region will not show it."""
    pending = replace(BEFORE, revision=5, coming=replace(TERMS, settle=2 * TERMS.settle))
    world = Remaining(pending, left=[HOME, AWAY])
    taken = await world.operator().take_over(HOME, lost=[SOUTH])
    assert (taken.generation, taken.revision, taken.coming) == (1, 8, None)
    assert taken.terms == replace(TERMS, regions=(HOME, AWAY), lost=(SOUTH,), given_up_at=START)


async def test_a_home_that_is_lost_under_a_pending_change_is_taken_over() -> None:
    """The change is taken back, and the new generation's announcement is an odd revision, too."""
    world = Remaining(replace(BEFORE, revision=5, coming=replace(TERMS, settle=2 * TERMS.settle)))
    taken = await world.operator().take_over(AWAY, lost=[HOME])
    assert (taken.generation, taken.revision, taken.coming) == (2, 8, None)
    assert taken.terms == replace(
        TERMS, home=AWAY, regions=(AWAY, SOUTH), lost=(HOME,), given_up_at=START
    )


async def test_a_home_that_never_got_the_move_of_home_begins_a_generation() -> None:
    """The region that was home before brought it into force, and is lost: it is shown elsewhere."""
    moving = replace(BEFORE, revision=5, coming=replace(TERMS, home=AWAY))
    moved = Contract(terms=replace(TERMS, home=AWAY), revision=6)
    world = Remaining(moving)
    world.stores[SOUTH].table.set(OLD, contract_item(moved))
    taken = await world.operator().take_over(AWAY, lost=[HOME])
    assert (taken.generation, taken.coming) == (2, None)
    assert taken.terms == replace(
        TERMS, home=AWAY, regions=(AWAY, SOUTH), lost=(HOME,), given_up_at=START
    )


@pytest.mark.parametrize(
    ("target", "lost", "rule"),
    [
        (AWAY, [SOUTH], f"the home is {HOME}, which is not lost: name it in place of {AWAY}"),
        ("eu-north-1", [SOUTH], f"must be one of {HOME}, {AWAY}, got 'eu-north-1'"),
        (SOUTH, [SOUTH], f"must be one of {HOME}, {AWAY}, got '{SOUTH}'"),
    ],
)
async def test_another_target_is_refused_before_anything_is_written(
    target: str, lost: list[str], rule: str
) -> None:
    """The home that is there stays, and a region that the contract does not name cannot be it."""
    world = Remaining(left=[HOME, AWAY])
    with pytest.raises(InvalidInput, match=rule):
        await world.operator().take_over(target, lost=lost)
    assert sum(store.writes for store in world.stores.values()) == 0


async def test_a_second_target_is_refused_once_the_home_is_taken_over() -> None:
    """The operator hears which region it is."""
    world = Remaining()
    await world.operator().take_over(AWAY, lost=[HOME])
    with pytest.raises(InvalidInput, match=f"the home is {AWAY}"):
        await world.operator().take_over(SOUTH, lost=[HOME])


async def test_a_region_that_was_added_again_can_be_lost_again() -> None:
    """It is a region like any other meanwhile: it shows the contract, and may even be home."""
    terms = replace(TERMS, lost=(HOME, SOUTH))
    world = Remaining(Contract(terms=terms, revision=4), left=[HOME, AWAY])
    assert Contract(terms=terms).regions == (HOME, AWAY, SOUTH)
    taken = await world.operator().take_over(HOME, lost=[SOUTH])
    again = replace(terms, regions=(HOME, AWAY), lost=(HOME, SOUTH, SOUTH), given_up_at=START)
    assert (taken.revision, taken.terms) == (6, again)
    assert await world.operator().take_over(HOME, lost=[SOUTH]) == taken
    world = Remaining(Contract(terms=terms, revision=4))
    taken = await world.operator().take_over(AWAY, lost=[HOME])
    assert (taken.generation, taken.terms.regions) == (2, (AWAY, SOUTH))


@pytest.mark.parametrize("lost", [HOME, SOUTH])
async def test_what_was_given_up_is_not_taken_back(lost: str) -> None:
    """A contract that names it again could be shown by no region that is lost, so never by all."""
    world = Remaining(left=[region for region in (HOME, AWAY, SOUTH) if region != lost])
    target = AWAY if lost == HOME else HOME
    began = ContractWriter(world.stores, clock=world, report=_kill)
    with pytest.raises(KeyboardInterrupt):
        await began.take_over(target, lost=[lost])
    operator = world.operator()
    pending = await operator.newest()
    with pytest.raises(ContractChangeRefused, match=f"{lost}: given up for good"):
        await operator.withdraw(pending)
    assert await operator.newest() == pending
    assert (await operator.finish(pending)).terms.lost == (lost,)


def _kill(waiting: Waiting) -> None:
    if waiting.seconds_left:
        raise KeyboardInterrupt


async def test_an_operator_whose_clock_is_off_changes_nothing() -> None:
    """The date of a step of shards is judged by the operator's clock."""
    world = Remaining(left=[HOME, AWAY, SOUTH])
    world.stores[AWAY].clock_offset = ClockOffset(-200.0, -190.0)
    with pytest.raises(ClockOff, match=f"that of {AWAY}"):
        await world.operator().change(lambda found: replace(found.terms, settle=9_000.0))
    assert sum(store.writes for store in world.stores.values()) == 0


async def test_a_loss_is_not_dated_by_a_clock_that_is_off() -> None:
    """What the lost region may have written is told by the time of its id."""
    world = Remaining()
    world.stores[AWAY].clock_offset = ClockOffset(-200.0, -190.0)
    with pytest.raises(ClockOff, match=f"that of {AWAY}"):
        await world.operator().take_over(AWAY, lost=[HOME])
    assert sum(store.writes for store in world.stores.values()) == 0


async def test_the_date_of_a_loss_is_kept_through_later_changes() -> None:
    """It belongs to the table from then on, like the names of the lost regions."""
    world = Remaining()
    await world.operator().take_over(AWAY, lost=[HOME])
    await world.sleep(7 * 86_400)
    changed = await world.operator().change(lambda found: replace(found.terms, settle=9_000.0))
    assert (changed.terms.lost, changed.terms.given_up_at) == ((HOME,), START)
