"""`compactor plan`: what a visit would do, and why not more."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.compacting import HOLD, SETTLE, World, compactor_settings
from support.ledgers import HOME, SOUTH, WEST

from compactor.observation import ReadExtent, observe
from compactor.pass_terms import rules_of
from compactor.preview import CollectionPreview, explain_preview, with_searches
from ledger.core.errors import DamagedItem
from ledger.core.hints import hint_for

REGIONS = (HOME, WEST, SOUTH)


async def previewed(world: World, **overrides: Any) -> CollectionPreview:
    """Return what a visit to "counter" would do now."""
    settings = compactor_settings(**overrides)
    rules = rules_of(settings)
    observed = await observe(
        world.regions.replicas,
        "counter",
        home=HOME,
        clock=world.clock,
        extent=ReadExtent.of(rules, "counter", now=world.clock.now()),
    )
    return explain_preview(observed, rules, settings, now=world.clock.now())


async def test_what_it_would_do_is_what_a_pass_does() -> None:
    """Fold, then delete, then forget: each foretold, until nothing is left to do."""
    world = World()
    await world.settled(entries=6)
    done: list[tuple[int, int, int]] = []
    for _ in range(6):
        found = await previewed(world)
        done.append((found.folds, found.deletes, found.forgets))
        before = world.shown(HOME).net
        report = await world.run_once(world.instance())
        after = world.shown(HOME).net
        forgotten = len(before.merged) if before and after and not after.merged else 0
        assert (report.merged, report.deleted) == (found.folds, found.deletes)
        assert forgotten == found.forgets
        world.regions.deliver()
    assert done[:3] == [(6, 0, 0), (0, 6, 0), (0, 0, 6)]
    assert set(done[3:]) == {(0, 0, 0)}
    assert (found.counted, found.named, found.reasons) == (6, 0, ())


async def test_what_no_hint_names_waits_for_the_search() -> None:
    """The next search is named with its time; a hint leads there at once, as `--search` does."""
    world = World()
    settings = compactor_settings(scan_every=300)
    await world.run_once(world.instance(settings=settings))
    await world.settled(entries=6)
    found = await previewed(world)
    home, now = world.regions.replicas[HOME], world.clock.now()
    (waits,) = await with_searches([found], home, settings, now=now)
    assert waits.reasons[-1].startswith("not before the next search at 20")
    assert "`compactor run --once --search` searches now" in waits.reasons[-1]
    hint = hint_for("counter", now, settle=SETTLE)
    assert hint is not None
    world.regions.put(HOME, hint.item)
    assert await with_searches([found], home, settings, now=now) == [found]
    later = now + timedelta(seconds=300)
    assert await with_searches([waits], home, settings, now=later) == [waits]
    idle = replace(found, folds=0)
    world.regions.replicas[HOME].table.set((hint.partition, hint.sort_key), None)
    assert await with_searches([idle], home, settings, now=now) == [idle]


async def test_too_few_wait_and_the_young_are_not_settled() -> None:
    """Each reason has the number, the rule and the moment."""
    world = World()
    made = await world.settled(entries=2)
    world.write(entries=3)
    world.regions.deliver()
    found = await previewed(world)
    assert (found.folds, found.settled, found.younger) == (0, 2, 3)
    assert found.entries == dict.fromkeys(REGIONS, 5)
    few, young = found.reasons
    alone = min(made).at + timedelta(seconds=10_000)
    assert few.startswith("2 settled entries are fewer than fold_min (3)")
    assert alone.isoformat(timespec="seconds").removesuffix("+00:00") in few
    assert young.startswith(f"3 entries are younger than settle ({SETTLE:g} s)")


async def test_a_net_on_its_way_is_named_with_the_region() -> None:
    """Nothing is done before every region shows it."""
    world = World()
    await world.settled(entries=6)
    world.regions.pause(HOME, SOUTH)
    await world.run_once(world.instance())
    found = await previewed(world)
    assert (found.folds, found.deletes, found.named) == (0, 0, 6)
    assert found.reasons == (f"the net that home shows has not arrived in {SOUTH}",)
    world.regions.heal()
    world.regions.deliver()
    found = await previewed(world)
    assert (found.deletes, found.reasons) == (6, ())


async def test_entries_that_replicate_are_said_to() -> None:
    """What not every region shows is not folded."""
    world = World()
    world.write(entries=6)
    await world.clock.advance(SETTLE + 1)
    found = await previewed(world, fold_min=1)
    shown = sum(found.entries.values())
    assert shown == 6  # each in the region that wrote it
    assert found.folds == 0
    assert "not shown alike by every region" in found.reasons[0]


async def test_more_than_one_fold_takes_is_left_to_the_next() -> None:
    """By `fold_max`."""
    world = World()
    await world.settled(entries=30)
    found = await previewed(world, fold_max=20)
    assert found.folds == 20
    assert "room for 20 of " in found.reasons[0]


async def test_a_damaged_collection_is_not_foretold() -> None:
    """As a visit, which leaves it as it is."""
    world = World()
    await world.settled(entries=3)
    world.regions.put(
        HOME, {"pk": {"S": "counter"}, "sk": {"S": "2026-x"}, "change": {"S": "much"}}
    )
    world.regions.deliver()
    await world.clock.advance(HOLD)
    with pytest.raises(DamagedItem):
        await previewed(world)


async def test_items_that_the_ledger_did_not_write_are_the_reason() -> None:
    """They count, and no pass merges them; nothing was cut, since all of it was read."""
    world = World()
    for place in range(2):
        item = {"pk": {"S": "counter"}, "sk": {"S": f"mine-{place}"}, "change": {"N": "1"}}
        world.regions.put(HOME, item)
    world.regions.deliver()
    found = await previewed(world)
    (reason,) = found.reasons
    assert reason.startswith("2 in us-east-1, 2 in eu-west-1, 2 in ap-southeast-2: items are not ")
    assert not found.is_cut


async def test_what_was_read_in_part_is_said_to_be_cut() -> None:
    """A long collection, of which a fold takes a part."""
    world = World(page_items_max=5)
    await world.settled(entries=40)
    assert (await previewed(world, fold_max=10)).is_cut
