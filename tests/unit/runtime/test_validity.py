"""A last moment for the requests of a block, by two clocks."""

from datetime import timedelta

import anyio
import pytest

from ledger.core.contract import Validity
from ledger.core.errors import ContractStale
from ledger.runtime.validity import check_validity, has_validity, signed_within
from ledger.testing.clock import START, ManualClock

VALIDITY = Validity(START + timedelta(seconds=300), 300.0)


def test_within_it_a_request_may_be_signed() -> None:
    """To the moment, by both clocks."""
    clock = ManualClock()
    clock.pass_by(300)
    with signed_within(VALIDITY, clock):
        assert has_validity()
        check_validity(clock.now())


@pytest.mark.parametrize(("seconds", "set_back"), [(300.001, 0), (300.001, 3600), (0, -301)])
def test_after_it_none_is_sent(seconds: float, set_back: float) -> None:
    """Either clock may end it: one that is set back does not lengthen it, a suspension counts."""
    clock = ManualClock()
    clock.pass_by(seconds)
    clock.wall -= timedelta(seconds=set_back)
    with (
        signed_within(VALIDITY, clock),
        pytest.raises(
            ContractStale, match=r"until 2026-11-21T06:55:00.* not sent: repeat the call"
        ),
    ):
        check_validity(clock.now())


def test_outside_a_block_any_may() -> None:
    """So may those in a block without a validity, and after one that has ended."""
    clock = ManualClock()
    clock.pass_by(3600)
    with signed_within(VALIDITY, clock):
        with signed_within(None, clock):
            assert not has_validity()
            check_validity(clock.now())
        assert has_validity()
    assert not has_validity()
    check_validity(clock.now())


async def test_tasks_begun_in_a_block_keep_it() -> None:
    """What a block starts rests on the same view; a neighbour's block is no concern of it."""
    clock = ManualClock()
    found: dict[str, bool] = {}

    async def look(name: str) -> None:
        found[name] = has_validity()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look, "outside")
        with signed_within(VALIDITY, clock):
            tasks.start_soon(look, "inside")
    assert found == {"outside": False, "inside": True}
