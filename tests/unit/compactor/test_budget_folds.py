"""Entries that grants paid for: they are folded once every region shows the grants as closed."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from support.budgets import AT_HOME, AT_WEST, granted, put_rights, spend_item
from support.compacting import SETTLE, World
from support.ledgers import HOME, SOUTH, WEST

from compactor.merge_plan import MergeRules, Observation, plan_merge
from compactor.observation import ReadExtent, observe
from compactor.succession import succeed
from ledger.budgets.rights import GrantName, Rights
from ledger.budgets.rights_plan import SpendPlan, close
from ledger.budgets.spend_record import View
from ledger.core.budget_rules import BudgetRule
from ledger.core.contract import Terms, stricter
from ledger.core.contract_item import FORMAT
from ledger.core.entry import RESOLVED, Item
from ledger.core.errors import DamagedItem
from ledger.core.fold import Collection
from ledger.testing.clock import START, ManualClock

REGIONS = (HOME, WEST, SOUTH)
NOW = START + timedelta(hours=1)
RULES = MergeRules(home=HOME, settle=900, fold_max=10, fold_min=1, fold_age=86_400, prune_min=3)
LIMITED = replace(RULES, budgets=("counter",))
AT = NOW - timedelta(seconds=1000)
GRANT = GrantName(AT_HOME, 2)
OPEN = granted(AT_HOME, 10, at=AT)
_CLOSED = close(OPEN, 2, SpendPlan(Decimal(3), is_sure=True))
assert isinstance(_CLOSED, Rights)
CLOSED: Rights = _CLOSED


def view(*items: Item) -> Collection:
    """Return what a region shows, entries whole."""
    collection = Collection(partition="counter", with_items=True)
    collection.add(items)
    return collection


def seen(items: tuple[Item, ...], shown: Mapping[str, Rights | None]) -> Observation:
    """Return an observation in which every region shows these entries, and its own rights."""
    views = {region: view(*items) for region in REGIONS}
    rights: dict[str, View] = {
        region: {} if one is None else {("", one.holder): one} for region, one in shown.items()
    }
    return Observation("counter", None, views, rights)


def folded(items: tuple[Item, ...], shown: Mapping[str, Rights | None]) -> tuple[int, int]:
    """Return how many entries are folded, and how many wait for grants."""
    plan = plan_merge(seen(items, shown), LIMITED, now=NOW, version="v")
    return plan.folded, plan.unclosed


def everywhere(rights: Rights | None) -> Mapping[str, Rights | None]:
    """Return the same rights, shown by every region."""
    return dict.fromkeys(REGIONS, rights)


SPENT = spend_item(3, GRANT, at=AT)
PLAIN = {"pk": SPENT["pk"], "sk": {"S": SPENT["sk"]["S"][:-1] + "f"}, "change": {"N": "7"}}


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (everywhere(CLOSED), (2, 0)),
        (everywhere(OPEN), (1, 1)),
        (everywhere(None), (1, 1)),
        ({**everywhere(OPEN), HOME: CLOSED}, (1, 1)),
        ({**everywhere(CLOSED), SOUTH: OPEN}, (1, 1)),
        ({HOME: CLOSED, WEST: CLOSED}, (1, 1)),
        ({}, (1, 1)),
    ],
    ids=["closed", "open", "unknown", "at home only", "but one", "one not read", "none read"],
)
def test_an_entry_waits_until_every_region_shows_its_grant_closed(
    shown: Mapping[str, Rights | None], expected: tuple[int, int]
) -> None:
    """Closed in its own region alone is not enough; an entry without a grant does not wait."""
    assert folded((SPENT, PLAIN), shown) == expected


def test_a_grant_that_has_not_arrived_is_not_closed() -> None:
    """A region that shows an item from before the grant does not show it as closed."""
    early = granted(AT_HOME, at=AT)
    assert folded((SPENT,), {**everywhere(CLOSED), WEST: early}) == (0, 1)


def test_entries_wait_only_in_counters_with_a_budget() -> None:
    """Elsewhere an attribute of that name says nothing."""
    found = plan_merge(seen((SPENT,), {}), RULES, now=NOW, version="v")
    assert (found.folded, found.unclosed) == (1, 0)


def test_what_was_not_read_whole_is_not_folded() -> None:
    """Whether it names a grant is not known."""
    views = {region: Collection({SPENT["sk"]["S"]: Decimal(-3)}) for region in REGIONS}
    found = plan_merge(Observation("counter", None, views), LIMITED, now=NOW, version="v")
    assert (found.folded, found.unclosed) == (0, 1)


def test_an_open_hold_is_not_folded() -> None:
    """Even if its grant is closed everywhere: it is still to be settled."""
    hold = spend_item(3, GRANT, at=AT, hold=1)
    assert folded((hold,), everywhere(CLOSED)) == (0, 1)
    assert folded(({**hold, RESOLVED: {"S": "void"}},), everywhere(CLOSED)) == (1, 0)


def test_entries_that_differ_in_their_grant_are_not_alike() -> None:
    """One key was spent in two regions at once: whose grant is charged is not settled yet."""
    other = spend_item(3, GrantName(AT_WEST, 2), at=AT)
    observation = seen((SPENT,), everywhere(CLOSED))
    views = {**observation.views, WEST: view(other)}
    found = plan_merge(replace(observation, views=views), LIMITED, now=NOW, version="v")
    assert (found.folded, found.unclosed) == (0, 0)


def test_a_grant_that_is_not_readable_damages_the_collection() -> None:
    """Nothing of it is merged by a guess."""
    with pytest.raises(DamagedItem, match="must name its grants"):
        folded(({**SPENT, "grant": {"S": "nobody"}},), everywhere(CLOSED))


def test_after_a_loss_entries_wait_as_well() -> None:
    """The lost region's grants count as closed where its rights were minted again."""
    lost = GrantName(replace(AT_HOME, region="sa-east-1"), 9)
    item = spend_item(3, lost, at=AT)
    assert succeed(seen((item,), everywhere(OPEN)), LIMITED, now=NOW, version="v").plan.folded == 0
    again = replace(OPEN, reclaimed={lost.holder: Decimal(1)})
    found = succeed(seen((item,), everywhere(again)), LIMITED, now=NOW, version="v")
    assert found.plan.folded == 1
    found = succeed(seen((item,), {**everywhere(again), WEST: OPEN}), LIMITED, now=NOW, version="v")
    assert found.plan.folded == 0


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ({HOME: False, WEST: True}, WEST),
        ({HOME: False, SOUTH: True}, SOUTH),
        ({HOME: False, WEST: False}, WEST),
        ({HOME: False, SOUTH: False}, HOME),
    ],
    ids=["resolved", "resolved elsewhere", "open: its grant's region", "open"],
)
def test_a_hold_is_put_again_as_it_was_resolved(shown: Mapping[str, bool], expected: str) -> None:
    """Put again as another region shows it open it could be settled twice."""
    hold = spend_item(3, GrantName(AT_WEST, 2), at=AT, hold=1)
    resolved = {**hold, "change": {"N": "-1"}, RESOLVED: {"S": "settled"}}
    items = {region: resolved if is_resolved else hold for region, is_resolved in shown.items()}
    views = {region: view(*([items[region]] if region in items else [])) for region in REGIONS}
    found = succeed(Observation("counter", None, views), LIMITED, now=NOW, version="v")
    assert [each.region for each in found.again] == [expected]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [({HOME: False, SOUTH: True}, SOUTH), ({HOME: False, WEST: False}, WEST)],
    ids=["charged", "in its region"],
)
def test_what_was_let_through_is_put_again_as_it_was_charged(
    shown: Mapping[str, bool], expected: str
) -> None:
    """Put again as another region shows it, unmarked, it would be charged twice."""
    through = spend_item(3, GrantName(AT_WEST, 0), at=AT)
    charged = {**through, RESOLVED: {"S": "charged"}}
    items = {region: charged if is_charged else through for region, is_charged in shown.items()}
    views = {region: view(*([items[region]] if region in items else [])) for region in REGIONS}
    found = succeed(Observation("counter", None, views), LIMITED, now=NOW, version="v")
    assert [each.region for each in found.again] == [expected]


def terms_of(*patterns: str) -> Terms:
    """Return terms with budgets of these patterns."""
    return Terms(
        format=FORMAT,
        home=HOME,
        regions=REGIONS,
        settle=SETTLE,
        retry_horizon=1,
        signature_lifetime=1,
        clock_skew=1,
        observation_delay=5,
        read_deadline=1,
        budgets=dict.fromkeys(patterns, BudgetRule()),
    )


def test_a_budget_that_is_announced_counts_for_folds_already() -> None:
    """Somebody may know it to be in force while this process knows the announcement alone."""
    pending = stricter(terms_of("a"), terms_of("a", "b"))
    assert (tuple(pending.budgets), pending.budgets_coming) == (("a",), ("b",))
    assert stricter(terms_of("a"), terms_of("a")).budgets_coming == ()


async def test_rights_are_read_after_the_entries_in_every_region() -> None:
    """Those of the counter's own budget and of each that a bundle names."""
    world = World()
    wide = GrantName(AT_WEST, 2, "team")
    for rights, counter in ((OPEN, "counter"), (granted(AT_WEST, 5, at=AT), "team")):
        put_rights(world.regions, rights, counter)
    world.regions.put(HOME, spend_item(3, GRANT, wide, at=START))
    world.regions.deliver()
    found = await observe(
        world.regions.replicas,
        "counter",
        home=HOME,
        clock=ManualClock(instant=True),
        extent=ReadExtent(with_items=True, with_rights=True),
    )
    for region in REGIONS:
        shown = found.observation.rights[region]
        assert {key: one.version for key, one in shown.items()} == {
            ("", AT_HOME): 2,
            ("team", AT_WEST): 2,
        }
