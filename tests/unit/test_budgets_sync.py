"""Budgets without async: the same calls, from plain code."""

from decimal import Decimal

from ledger import Credited, Granted, Refused, sync
from ledger.testing import MemoryGlobalTable


def test_a_budget_is_spent_held_and_settled_from_plain_code() -> None:
    """Holds come back as holds of `ledger.sync`, one by one and many at once."""
    world = MemoryGlobalTable(["us-east-1"], budgets={"key/*": {"credits": "on"}})
    with sync.Table(world.table()) as table:
        budget = table.budget("key/42")
        assert budget.create(100)
        assert isinstance(budget.spend(10), Granted)
        assert isinstance(budget.spend(1_000), Refused)
        assert isinstance(budget.hold(1_000, expires=60), Refused)
        hold = budget.hold(20, expires=60)
        assert isinstance(hold, sync.Hold)
        longer = hold.extend(90)
        assert isinstance(longer, sync.Hold)
        assert isinstance(budget.held(longer.entry).settle(15), Granted)
        light = budget.hold(5, expires=60, light=True)
        assert isinstance(light, sync.LightHold)
        assert light.extend(90) is light
        assert light.expires > world.clock.now()
        [settled] = budget.settle_many([(light, light.amount)])
        assert isinstance(settled, Granted)
        other = budget.hold(5, expires=60)
        assert isinstance(other, sync.Hold)
        [voided] = budget.void_many([other])
        assert isinstance(voided, Granted)
        assert (budget.name, budget.names) == ("key/42", ("key/42",))
        assert budget.raise_limit(10, id="x").limit == 110
        assert budget.lower_limit(to=90).target == 90
        assert budget.go_on().target == 90
        assert budget.state().counter == "key/42"
        assert budget.explain().startswith("budget key/42: limit ")
        assert [state.counter for state in table.all_budgets()] == ["key/42"]
        assert isinstance(table.budgets(["key/42"]).spend(1), Granted)
        credited = budget.credit(5, key="delivery-1", at=world.clock.now())
        assert isinstance(credited, Credited)
        assert table.ledger.total("key/42", max_age=0).value == Decimal(-26)
