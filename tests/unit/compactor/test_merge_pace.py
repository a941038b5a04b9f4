"""Whether merging keeps up: what a pass leaves, how late that is, and who comes first next time."""

from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from math import inf
from typing import Any

import pytest
from proof.simulator.clocks import START
from support.compacting import World, compactor_settings
from support.ledgers import HOME, SOUTH, WEST

from compactor import merge_pass
from compactor.agenda import Agenda
from compactor.merge_pace import KEEPS_UP_SECONDS, MergePace
from compactor.merge_plan import MergeRules, Observation, plan_merge
from ledger.core.entry import entry_id
from ledger.core.fold import Collection

LATE = KEEPS_UP_SECONDS * 2


@pytest.mark.parametrize(
    ("passes", "drain"),
    [
        ([(0, 10)], 0.0),
        ([(0, KEEPS_UP_SECONDS)], 0.0),
        ([(0, LATE)], inf),
        ([(0, LATE), (60, LATE)], inf),
        ([(0, LATE), (60, LATE + 60)], inf),
        ([(0, LATE + 100), (50, LATE)], LATE / 2),
        ([(0, LATE + 100), (50, LATE), (100, LATE - 10)], (LATE - 10) * 5),
        ([(0, LATE), (60, 10)], 0.0),
    ],
)
def test_the_time_to_catch_up(passes: list[tuple[float, float]], drain: float) -> None:
    """Of how late the last two passes left merging; 0 while it keeps up."""
    pace = MergePace()
    found = [pace.observe(late, at=at) for at, late in passes]
    assert found[-1] == drain


def test_a_plan_names_the_oldest_that_has_no_room() -> None:
    """Of 12 settled entries 10 are folded: the eleventh waits."""
    now = START + timedelta(hours=1)
    rules = MergeRules(home=HOME, settle=900, fold_max=10, fold_min=1, fold_age=86_400, prune_min=3)
    moments = [now - timedelta(seconds=2_000 - place) for place in range(12)]
    shown = {str(entry_id(at, 1)): Decimal(1) for at in moments}
    views = {region: Collection(dict(shown), None) for region in (HOME, WEST, SOUTH)}
    plan = plan_merge(Observation("counter", None, views), rules, now=now, version="v")
    assert (plan.folded, plan.is_cut, plan.left) == (10, True, moments[10])
    roomy = plan_merge(
        Observation("counter", None, views),
        MergeRules(home=HOME, settle=900, fold_max=12, fold_min=1, fold_age=86_400, prune_min=3),
        now=now,
        version="v",
    )
    assert (roomy.folded, roomy.is_cut, roomy.left) == (12, False, None)


@pytest.mark.slow
async def test_what_a_pass_leaves_is_late_and_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A counter with more than a pass takes is late until a later pass has merged the rest."""
    world = World()
    for number in range(5):
        world.write(entries=4, counter=f"cool-{number}")
    await world.settled(entries=60, counter="hot")
    await world.clock.advance(60)
    settings = compactor_settings(fold_max=5, visits_max=2)
    one = world.instance(settings=settings)
    orders = list[list[str]]()

    class Noting(Agenda):
        def __init__(self, partitions: Iterable[str], **given: Any) -> None:
            orders.append(list(partitions))
            super().__init__(orders[-1], **given)

    monkeypatch.setattr(merge_pass, "Agenda", Noting)
    reports = [await world.run_once(one) for _ in range(20)]
    assert reports[0].late > reports[0].seconds
    assert orders[0].index("hot") > 0
    assert orders[1].index("hot") == 0
    assert sum(report.merged for report in reports) == 60 + 5 * 4
    assert reports[-1].late == reports[-1].seconds
    assert one.metric("compactor_late_seconds") == reports[-1].late
    assert one.metric("compactor_drain_seconds") == 0
    assert world.is_right()
