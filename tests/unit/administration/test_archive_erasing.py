"""Notes that a table keeps for repeats of calls are erased with the archive's."""

import pytest
from support.archiving import ArchivedWorld
from support.compacting import World
from support.ledgers import HOME

from ledger.administration.archive.cleanup import erase_notes
from ledger.administration.archive.rebuild import Rebuild
from ledger.core.errors import InvalidInput, OutcomeUnknown
from ledger.core.values import Entry
from ledger.reads.archive.places.opening import ReplicatedPlace
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import Outcome, Unknown, Write

SECRET = "of Ms Smith, Main Street"


async def erase(world: ArchivedWorld, entry: str) -> int:
    """Erase a note; return how many there were."""
    home = world.world.regions.replicas[HOME]
    count = await erase_notes(home, ReplicatedPlace([world.place]), "one", [entry], shards=1)
    world.world.regions.deliver()
    return count


def shown(world: World) -> str:
    """Return all that the table has in any region."""
    return str([[*store.table.items()] for store in world.regions.replicas.values()])


async def reversed_entry(world: ArchivedWorld) -> tuple[Entry, Entry]:
    """Return a merged entry and its reversal, whose note is the secret."""
    async with world.ledger(HOME) as ledger:
        entry = await ledger.record("one", 7)
        world.replicate()
        reversal = await ledger.reverse(entry, note=SECRET)
    await world.merge()
    return entry, reversal


async def test_the_note_of_a_reversal_is_erased_in_its_record() -> None:
    """A repeat returns the same entry without the note, whichever note it has itself."""
    world = ArchivedWorld()
    entry, reversal = await reversed_entry(world)
    assert SECRET in shown(world.world)
    assert await erase(world, reversal.id) == 1
    assert SECRET not in shown(world.world)
    async with world.ledger(HOME) as ledger:
        for note in (None, SECRET):
            found = await ledger.reverse(entry, note=note)
            assert (found.id, found.note) == (reversal.id, None)
        assert (await ledger.total("one", max_age=0)).value == 0


async def test_the_reason_of_a_count_is_erased_in_its_record() -> None:
    """A repeat of the count corrects nothing, and says so without the reason."""
    world = ArchivedWorld()
    async with world.ledger(HOME) as ledger:
        done = await ledger.reconcile("one", counted=5, reason=SECRET, token="t")
        other = await ledger.reconcile("one", counted=6, reason="other", token="u")
    await world.merge()
    assert done.entry is not None
    assert await erase(world, done.entry) == 1
    assert SECRET not in shown(world.world)
    async with world.ledger(HOME) as ledger:
        again = await ledger.reconcile("one", counted=5, reason=SECRET, token="t")
        assert (again.entry, again.repeated, again.reason) == (done.entry, True, None)
        assert (await ledger.reconcile("one", counted=6, token="u")) == other


async def test_a_rebuild_after_an_erasure_knows_the_reversal() -> None:
    """Its record has no note, and a repeat with the former one is answered."""
    world, target = ArchivedWorld(), World()
    entry, reversal = await reversed_entry(world)
    await erase(world, reversal.id)
    home = target.regions.replicas[HOME]
    now, random = target.clock.now(), target.random
    await Rebuild(home, ReplicatedPlace([world.place]), world.settings, now, random).run()
    assert SECRET not in shown(target)
    async with Ledger(
        world.settings,
        region=HOME,
        given=GivenConnections(store=home, archive=[world.place]),
        services=Services.of(clock=world.world.clock),
    ) as after:
        assert (await after.reverse(entry, note=SECRET)).id == reversal.id


async def test_another_note_is_refused_where_none_was_erased() -> None:
    """A reversal that was made without a note is not taken for one whose note is gone."""
    world = ArchivedWorld()
    async with world.ledger(HOME) as ledger:
        entry = await ledger.record("one", 7)
        world.replicate()
        reversal = await ledger.reverse(entry)
        await world.merge()
        await erase(world, reversal.id)
        with pytest.raises(InvalidInput, match="was reversed before"):
            await ledger.reverse(entry, note=SECRET)


class SilentStore(ForwardingStore):
    """A store whose writes get no answer."""

    async def write(self, write: Write) -> Outcome:
        """Write nothing."""
        del write
        return Unknown("silent")


async def test_an_erasure_without_an_answer_is_to_be_repeated() -> None:
    """It ends with an error, and a repeat erases the rest."""
    world = ArchivedWorld()
    _, reversal = await reversed_entry(world)
    home = world.world.regions.replicas[HOME]
    with pytest.raises(OutcomeUnknown, match="repeat the call"):
        await erase_notes(
            SilentStore(home), ReplicatedPlace([world.place]), "one", [reversal.id], shards=1
        )
    await erase(world, reversal.id)
    assert SECRET not in shown(world.world)
