"""The simulated day of budgets: what it counts, and that it is the same for a seed."""

import logging
from dataclasses import replace
from decimal import Decimal

import pytest
from lab.budget_day import budget_day_command as command
from lab.budget_day.day import DAY_SECONDS, Day, DayRun, Figures
from typer.testing import CliRunner

SHORT = Day(name="short", part=Decimal("0.5"), rate=5, seconds=40)


@pytest.mark.slow
async def test_what_is_spent_of_a_limit_is_the_limit() -> None:
    """All of it, though it runs out; whoever was refused is counted."""
    found = await DayRun(SHORT).run()
    assert found.most == found.granted == SHORT.limit == 100
    assert found.refused == found.spends - found.granted > 0
    assert found.elsewhere <= found.refused
    assert found.fetched > 0
    assert 0 < found.here < found.spends
    assert found.writes > found.transfers > 0


@pytest.mark.slow
async def test_a_day_is_the_same_for_its_seed() -> None:
    """Figures are exact; those of another seed differ."""
    few = replace(SHORT, seconds=15)
    first, again = [await DayRun(few).run() for _ in range(2)]
    assert first == again
    assert await DayRun(replace(few, seed=8)).run() != first


@pytest.mark.slow
async def test_a_region_that_is_cut_off_spends_what_it_has() -> None:
    """And no more: what is free in others is refused, and told apart."""
    cut = replace(SHORT, cut=True, weights=(1, 8, 1, 1), seconds=60, part=Decimal(1))
    assert [cut.is_cut(1, second) for second in (19, 20, 59)] == [False, True, True]
    assert not any(cut.is_cut(place, 30) for place in (0, 2, 3))
    found = await DayRun(cut).run()
    assert found.most <= cut.limit
    assert found.elsewhere > 0


@pytest.mark.parametrize("hourly", [False, True])
def test_a_limit_is_a_part_of_the_demand(*, hourly: bool) -> None:
    """Of the day or of an hour; demand moves through the regions, and comes to the rate."""
    day = Day(name="day", part=Decimal("1.5"), hourly=hourly, rate=2)
    assert day.limit == (10_800 if hourly else 259_200)
    whole = [sum(day.demand(place, second) for place in range(4)) for second in (0, 40_000)]
    assert whole == [pytest.approx(2), pytest.approx(2)]
    of_one = [day.demand(0, second) for second in range(0, DAY_SECONDS, 600)]
    assert max(of_one) > 10 * min(of_one)


@pytest.mark.parametrize(("most", "status"), [(1, 0), (10**9, 1)])
def test_the_command_fails_if_more_was_spent_than_a_limit(
    monkeypatch: pytest.MonkeyPatch, most: int, status: int
) -> None:
    """Else it prints a row a day."""

    async def run(_: DayRun) -> Figures:
        return Figures(spends=2_000, granted=1_000, refused=1_000, transfers=1, most=most)

    monkeypatch.setattr(DayRun, "run", run)
    done = CliRunner().invoke(command.app, ["--only", "each hour"])
    assert done.exit_code == status, done.output
    assert done.output.count("2,000") == 2
    assert logging.getLogger("ledger").level == logging.NOTSET
    assert ("more was spent than a limit" in done.output) == bool(status)
