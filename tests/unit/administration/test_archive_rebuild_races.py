"""What a rebuild does with a net that it did not put itself."""

from random import Random

import pytest
from support.archiving import ArchivedWorld
from support.compacting import World
from support.ledgers import HOME

from ledger.administration.archive.rebuild import Rebuild, RebuildResult
from ledger.core.entry import Item
from ledger.core.errors import InvalidInput, OutcomeUnknown
from ledger.core.keys import net_sort_key
from ledger.reads.archive.places.opening import ReplicatedPlace
from ledger.store.port import Store
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import Outcome, Put, Unknown, Write

NET = ("one", net_sort_key(1))


class RivalStore(ForwardingStore):
    """A store in which another process puts a net just before ours, or ours gets no answer."""

    def __init__(self, inner: Store, rival: Item | None) -> None:
        super().__init__(inner)
        self._rival = rival

    async def write(self, write: Write) -> Outcome:
        """Write, after the rival."""
        if write.key == NET:
            if self._rival is None:
                return Unknown("silent")
            await super().write(Put(self._rival))
        return await super().write(write)


async def archived_world(*changes: int) -> tuple[ArchivedWorld, Item]:
    """Return a world whose counter has these changes, each in a segment of its own, and its net."""
    world = ArchivedWorld()
    for change in changes:
        async with world.ledger() as ledger:
            await ledger.record("one", change)
        await world.merge()
    net = world.world.regions.replicas[HOME].table.get(NET)
    assert net is not None
    return world, net


async def rebuild(world: ArchivedWorld, store: Store) -> RebuildResult:
    """Rebuild the archive of a world in a store."""
    random = Random(1)  # noqa: S311 (repeatable)
    now, places = world.world.clock.now(), ReplicatedPlace([world.place])
    return await Rebuild(store, places, world.settings, now, random).run()


async def test_a_net_that_another_run_puts_first() -> None:
    """It is of the same chain, so the collection is there."""
    world, net = await archived_world(1, 2)
    home = World().regions.replicas[HOME]
    done = await rebuild(world, RivalStore(home, net))
    assert (done.collections, done.there, done.entries) == (0, 1, 0)
    assert home.table.get(NET) == net


async def test_a_net_that_a_compactor_puts_first() -> None:
    """It is of another chain, and counts less: the message says what to do."""
    world, _ = await archived_world(1, 2)
    _, other = await archived_world(7)
    home = World().regions.replicas[HOME]
    with pytest.raises(InvalidInput, match=r"stop it, delete the items .* repeat the rebuild"):
        await rebuild(world, RivalStore(home, other))


async def test_a_rerun_after_a_compactor_merged_what_was_put() -> None:
    """It is refused in the same words, and done once the collection's items are deleted."""
    world, _ = await archived_world(1, 2)
    _, other = await archived_world(7)
    home = World().regions.replicas[HOME]
    home.table.set(NET, other)
    with pytest.raises(InvalidInput, match=r"stop it, delete the items .* repeat the rebuild"):
        await rebuild(world, home)
    home.table.set(NET, None)
    assert (await rebuild(world, home)).collections == 1


async def test_a_net_without_an_answer() -> None:
    """It may be there: the rebuild is to be repeated."""
    world, _ = await archived_world(1, 2)
    home = World().regions.replicas[HOME]
    with pytest.raises(OutcomeUnknown, match="repeat the rebuild"):
        await rebuild(world, RivalStore(home, None))
    assert (await rebuild(world, home)).collections == 1
