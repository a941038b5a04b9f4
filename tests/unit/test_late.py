"""What a call is answered that comes after the retry horizon, in a table with an archive."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from support.archiving import ArchivedWorld, archived_settings
from support.combined import combined
from support.compacting import SETTLE, compactor_settings
from support.ledgers import HOME, SOUTH, WEST

from ledger.core import archive_pointers, ids
from ledger.core.contract import ShardRule
from ledger.core.entry import entry_item
from ledger.core.errors import InvalidEntry, KeyConflict, NeverApplied, RetryHorizonPassed
from ledger.core.ids import EPOCH, sort_key
from ledger.core.parts import changes_in, expanded, part_of, whole_of
from ledger.core.values import Entry
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.writes.past_horizon import NOT_SETTLED, unknown_because


async def test_applied_and_merged() -> None:
    """A key of long ago is found in the archive, from any region, as the entry that it made."""
    late = ArchivedWorld()
    at = late.world.clock.now()
    async with late.ledger() as ledger:
        entry = await ledger.record("counter", 3, key="k", at=at, note="n")
        await late.merge()
        assert not late.world.shown(HOME).entries
        for region in (HOME, WEST, SOUTH):
            async with late.ledger(region) as other:
                found = await other.record("counter", 3, key="k", at=at, note="n")
                assert found == entry
                assert (await other.total("counter", max_age=0)).value == 3
        assert await ledger.retry([entry, replace(entry, shard=None)]) == [entry, entry]


async def test_a_list_applied_and_merged() -> None:
    """Each change of a list with a key of long ago is found, as the entry that it made."""
    late = ArchivedWorld()
    at = late.world.clock.now()
    changes = [("counter", 3), ("counter", 4), ("other", 5)]
    async with late.ledger() as ledger:
        entries = await ledger.record_many(changes, key="k", at=at)
        await late.merge()
        assert not late.world.shown(HOME).entries
        assert await ledger.record_many(changes, key="k", at=at) == entries
        with pytest.raises(KeyConflict, match="of which 001 is 5"):
            await ledger.record_many([("counter", 3), ("counter", 5)], key="k", at=at)
        assert (await ledger.total("counter", max_age=0)).value == 7


async def test_another_change_under_the_key() -> None:
    """It is a conflict, however late."""
    late = ArchivedWorld()
    at = late.world.clock.now()
    async with late.ledger() as ledger:
        await ledger.record("counter", 3, key="k", at=at)
        await late.merge()
        with pytest.raises(KeyConflict) as conflict:
            await ledger.record("counter", 4, key="k", at=at)
        found = conflict.value.theirs
        assert found is not None
        assert found.change == 3
        assert (await ledger.total("counter", max_age=0)).value == 3


async def test_not_merged_yet() -> None:
    """An entry that is still in the table is found there."""
    late = ArchivedWorld()
    at = late.world.clock.now()
    async with late.ledger() as ledger:
        entry = await ledger.record("counter", 3, key="k", at=at)
        await late.world.clock.advance(5)
        assert await ledger.record("counter", 3, key="k", at=at) == entry


async def test_never_applied() -> None:
    """Once each change of that time has settled, a key without an entry was never applied."""
    late = ArchivedWorld()
    async with late.ledger() as ledger:
        await ledger.record("counter", 1)
        await late.merge()
        at = late.world.clock.now()
        await late.world.clock.advance(3)
        with pytest.raises(
            RetryHorizonPassed, match="some changes of that time are not merged"
        ) as refused:
            await ledger.record("counter", 3, key="k", at=at)
        assert not isinstance(refused.value, NeverApplied)
        # Its hint makes the compactor move the time on, by a fold of nothing.
        await late.world.clock.advance(SETTLE * 3)
        with pytest.raises(RetryHorizonPassed):
            await ledger.record("counter", 3, key="k", at=at)
        await late.world.clock.advance(1)
        await late.merge()
        with pytest.raises(NeverApplied, match="record the change under a new key"):
            await ledger.record("counter", 3, key="k", at=at)


async def never_applied(late: ArchivedWorld, counter: str, at: datetime) -> None:
    """Check that a key is told to ask again, and a pass later that it was never applied."""
    async with late.ledger() as ledger:
        with pytest.raises(RetryHorizonPassed, match="ask again in a few minutes") as refused:
            await ledger.record(counter, 3, key="k", at=at)
        assert not isinstance(refused.value, NeverApplied)
        await late.world.clock.advance(1)
        await late.merge()
        with pytest.raises(NeverApplied):
            await ledger.record(counter, 3, key="k", at=at)


@pytest.mark.parametrize("shards", [1, 4])
async def test_never_applied_to_a_counter_that_was_never_written(shards: int) -> None:
    """Its late call makes the compactor put a net of nothing, which says what has settled."""
    late = ArchivedWorld(shards={"counter": shards}, periods={"*": {}})
    at = late.world.clock.now()
    await late.world.clock.advance(SETTLE * 3)
    await never_applied(late, "counter", at)
    async with late.ledger() as ledger:
        entry = await ledger.record("counter", 5)
        await late.merge()
        assert (await ledger.total("counter", max_age=0)).value == 5
        assert [one async for one in ledger.history("counter")] == [entry]
        hours = (await ledger.periods("counter", by="hour")).periods
        assert sum(hour.value for hour in hours) == 5


async def test_never_applied_beside_few_entries() -> None:
    """They hold up the answer, so they are merged, though a fold is not worth its cost."""
    late = few_entries()
    async with late.ledger() as ledger:
        await ledger.record("counter", 1)
        at = late.world.clock.now() + timedelta(seconds=1)
        await late.world.clock.advance(2)
        await ledger.record("counter", 1)
        await late.merge()
        assert late.world.shown(HOME).net is None
    await never_applied(late, "counter", at)
    async with late.ledger() as ledger:
        assert (await ledger.total("counter", max_age=0)).merged == 2


async def test_an_answered_question_folds_no_more() -> None:
    """Once what was asked has settled, few entries wait as ever."""
    late = few_entries()
    at = late.world.clock.now()
    await late.world.clock.advance(SETTLE * 3)
    await never_applied(late, "counter", at)
    version = late.world.shown(HOME).net
    async with late.ledger() as ledger:
        await ledger.record("counter", 1)
        await late.merge()
        assert late.world.shown(HOME).net == version


async def test_what_waits_holds_up_a_question() -> None:
    """An entry that has not come home ends what has settled, however often it is asked."""
    late = few_entries()
    late.world.regions.pause(SOUTH, HOME)
    at = late.world.clock.now() + timedelta(seconds=1)
    async with late.ledger() as ledger, late.ledger(SOUTH) as south:
        await south.record("counter", 3, key="k", at=at - timedelta(microseconds=1))
        await late.world.clock.advance(SETTLE * 3)
        for _ in range(2):
            with pytest.raises(RetryHorizonPassed) as refused:
                await ledger.record("counter", 3, key="other", at=at)
            assert not isinstance(refused.value, NeverApplied)
            await late.merge()
        late.world.regions.heal()
        with pytest.raises(RetryHorizonPassed):
            await ledger.record("counter", 3, key="other", at=at)
        await late.merge()
        with pytest.raises(NeverApplied):
            await ledger.record("counter", 3, key="other", at=at)


def few_entries() -> ArchivedWorld:
    """Return a world in which fewer than three entries are not merged."""
    late = ArchivedWorld()
    late.settings = archived_settings(fold_min=3)
    late.one = late.world.instance("few", settings=late.settings, archive=[late.place])
    return late


async def test_what_waits_ends_what_has_settled() -> None:
    """While an entry of a region has not come home, nothing after it is known never to be."""
    late = ArchivedWorld()
    async with late.ledger() as ledger, late.ledger(SOUTH) as south:
        await ledger.record("counter", 1)
        await late.merge()
        late.world.regions.pause(SOUTH, HOME)
        at = late.world.clock.now() + timedelta(microseconds=1)
        await south.record("counter", 3, key="k", at=at)
        await late.world.clock.advance(SETTLE)
        await ledger.record("counter", 1)
        await late.merge()
        with pytest.raises(RetryHorizonPassed) as refused:
            await ledger.record("counter", 3, key="other", at=at)
        assert not isinstance(refused.value, NeverApplied)


async def test_older_than_the_archive() -> None:
    """What was merged before the archive began says nothing of single keys."""
    late = ArchivedWorld()
    at = late.world.clock.now()
    async with late.ledger() as ledger:
        await ledger.record("counter", 3, key="k", at=at)
        await late.merge(by=late.world.instance("before", settings=compactor_settings(fold_min=1)))
        await ledger.record("counter", 1)
        await late.merge()
        for key in ("k", "other"):
            with pytest.raises(RetryHorizonPassed, match="older than the archive") as refused:
                await ledger.record("counter", 3, key=key, at=at - timedelta(seconds=key != "k"))
            assert not isinstance(refused.value, NeverApplied)


async def test_without_an_archive() -> None:
    """It is refused, as ever."""
    late = ArchivedWorld()
    at = late.world.clock.now()
    ledger = Ledger(
        compactor_settings(),
        region=WEST,
        given=GivenConnections(store=late.world.regions.replicas[WEST]),
        services=Services.of(clock=late.world.clock),
    )
    async with ledger:
        await ledger.record("counter", 3, key="k", at=at)
        await late.world.clock.advance(5)
        with pytest.raises(RetryHorizonPassed, match="past the retry horizon of 1 s: it may have"):
            await ledger.record("counter", 3, key="k", at=at)


def id_at(microseconds: int, suffix: int = 7) -> str:
    """Return the id of an entry."""
    return sort_key(EPOCH + timedelta(microseconds=microseconds), suffix)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (id_at(10, 6), "it is older than the archive"),
        (id_at(10), "it is older than the archive"),
        (id_at(10, 8), "it may have been lost with a region"),
        (id_at(20), "it may have been lost with a region"),
        (id_at(21), ""),
        (id_at(25), "it is older than the archive"),
        (id_at(30, 2**64 - 1), ""),
        (id_at(31, 0), NOT_SETTLED),
    ],
)
def test_why_an_answer_is_not_known(asked: str, reason: str) -> None:
    """Up to the base, named by a net, up to a loss, after what has settled: each to the id."""
    head = replace(archive_pointers.BEGUN, since=id_at(10), settled=30)
    lost = EPOCH + timedelta(microseconds=20)
    assert unknown_because(asked, head, [id_at(25)], lost=lost) == reason


async def test_a_counter_that_is_not_merged() -> None:
    """Its entries may be on their way for ever, so none is said to have never been."""
    late = ArchivedWorld()
    async with late.ledger() as ledger:
        await ledger.record("counter", 1)
        at = late.world.clock.now()
        await late.world.clock.advance(1)
        await ledger.record("counter", 1)
        await late.merge()
        late.settings = late.settings.replace(unmerged=("counter",))
        async with late.ledger() as unmerged:
            with pytest.raises(RetryHorizonPassed, match="its counter is not merged") as refused:
                await unmerged.record("counter", 3, key="k", at=at)
        assert not isinstance(refused.value, NeverApplied)
        with pytest.raises(NeverApplied):
            await ledger.record("counter", 3, key="k", at=at)


async def test_what_a_lost_region_may_have_written_is_not_known() -> None:
    """Up to when it was given up, and as far beyond as its clock may have been ahead."""
    late = ArchivedWorld()
    lost = late.world.clock.now() + timedelta(seconds=5)
    async with late.ledger() as ledger:
        await ledger.record("counter", 1)
        await late.world.clock.advance(10)
        await ledger.record("counter", 1)
        await late.merge()
    terms = replace(late.settings.terms, given_up_at=lost)
    late.settings = late.settings.under(terms, home=HOME)
    skew = timedelta(seconds=late.settings.clock_skew)
    async with late.ledger() as ledger:
        with pytest.raises(RetryHorizonPassed, match="lost with a region") as refused:
            await ledger.record("counter", 3, key="k", at=lost + skew)
        assert not isinstance(refused.value, NeverApplied)
        at = lost + skew + timedelta(microseconds=1)
        with pytest.raises(NeverApplied):
            await ledger.record("counter", 3, key="k", at=at)


async def test_a_late_key_is_looked_for_in_the_shard_of_its_time() -> None:
    """Not in one that its counter has had only since."""
    late = ArchivedWorld()
    async with late.ledger() as ledger:
        made = [await ledger.record("counter", 1) for _ in range(6)]
        await late.merge()
    steps = (ShardRule(1), ShardRule(4, late.world.clock.now()))
    terms = replace(late.settings.terms, shards={"counter": steps})
    late.settings = late.settings.under(terms, home=HOME)
    async with late.ledger() as ledger:
        assert await ledger.retry([replace(entry, shard=None) for entry in made]) == made


def parts_of(whole: Entry) -> list[Entry]:
    """Return the changes of an item as those of an `OutcomeUnknown`: they may be written again."""
    changes = enumerate(changes_in(whole))
    return [part_of(whole, place, change, parts=whole.parts) for place, change in changes]


async def asked_late(late: ArchivedWorld, part: Entry) -> Entry:
    """Ask whether a change was applied that is refused as too late."""
    async with late.ledger(HOME) as ledger:
        past = ledger._open_parts.late
        return await past.applied(RetryHorizonPassed("late", entry=part))


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("shard", [0, 1])
async def test_each_change_of_an_item_is_answered_late(shard: int, *, merged: bool) -> None:
    """From table and archive, as the entry that its caller has; its shard need not be known."""
    late = ArchivedWorld(shards={"counter": 2})
    whole = combined(late.world.clock.now(), 5, -1, 8, region=WEST, suffix=6 + shard, shard=shard)
    late.world.regions.put(WEST, entry_item(whole))
    late.replicate()
    if merged:
        await late.merge()
    for part, shown in zip(parts_of(whole), expanded(whole), strict=True):
        for asked in (part, replace(part, shard=None)):
            found = await asked_late(late, asked)
            assert (found, found.repeated, found.parts) == (shown, True, "")


@pytest.mark.parametrize("merged", [False, True])
async def test_an_item_with_other_changes_is_another(*, merged: bool) -> None:
    """Also one with the same sum of as many, in another order."""
    late = ArchivedWorld()
    whole = combined(late.world.clock.now(), 5, -1, 8)
    late.world.regions.put(HOME, entry_item(whole))
    late.replicate()
    if merged:
        await late.merge()
    for other in ((8, -1, 5), (5, 7), (12,)):
        asked = parts_of(combined(ids.moment_of(whole.id), *other))
        with pytest.raises(KeyConflict) as conflict:
            await asked_late(late, asked[0])
        assert conflict.value.theirs == whole


async def test_a_change_of_an_item_was_never_applied() -> None:
    """The error names the change that was asked about; one that was acknowledged is not asked."""
    late = ArchivedWorld()
    async with late.ledger() as ledger:
        await ledger.record("counter", 1)
        await late.merge()
    part = parts_of(combined(late.world.clock.now(), 5, -1))[1]
    await late.world.clock.advance(SETTLE * 3)
    with pytest.raises(RetryHorizonPassed, match=f"entry {part.id} .* not merged yet") as refused:
        await asked_late(late, part)
    assert not isinstance(refused.value, NeverApplied)
    await late.world.clock.advance(1)
    await late.merge()
    with pytest.raises(NeverApplied, match=f"entry {part.id} of 'counter'") as never:
        await asked_late(late, replace(part, shard=None))
    assert never.value.entry == part
    assert never.value.entry is not None
    assert whole_of(never.value.entry).shard == 0
    with pytest.raises(InvalidEntry, match="never written again"):
        await asked_late(late, replace(part, parts=""))
