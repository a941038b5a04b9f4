from decimal import Decimal

import pytest
from support.counting import known_counter

from ledger.core.errors import Throttled
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import FaultyStore, InOrder, Late, Lost, NeverArrived, Raises
from ledger.store.writes import Applied, Rejected, Unknown
from ledger.testing.clock import ManualClock


def faulty(*faults: object) -> tuple[FaultyStore, MemoryStore]:
    """Return a store whose calls meet these faults, and the one behind."""
    inner = MemoryStore("us-east-1")
    return FaultyStore(inner, InOrder(*faults), clock=ManualClock(instant=True)), inner  # type: ignore[arg-type]


async def test_a_blind_repeat_counts_too_often() -> None:
    """After three lost answers a change of 7 is there four times: 28, and told as applied."""
    store, inner = faulty(Lost(), Lost(), Lost())
    outcome = await known_counter("atomic", store).add(7)
    assert outcome == Applied(value=Decimal(28))
    assert await known_counter("atomic", inner).value() == 28


async def test_without_a_repeat_it_may_count_too_seldom() -> None:
    """The other policy: once sent, a change is there once or not at all, and no one knows."""
    for fault, value in ((Lost(), 7), (NeverArrived(), 0)):
        store, inner = faulty(fault)
        outcome = await known_counter("atomic-once", store).add(7)
        assert outcome == Unknown(f"injected: {fault}")
        assert store.calls == 1
        assert await known_counter("atomic", inner).value() == value


async def test_a_threshold_met_by_a_repeat_is_no_rejection() -> None:
    """Whether the try before took the last of it, or is still under way, no one can tell."""
    store, inner = faulty(Lost())
    await known_counter("atomic", inner).add(5)
    outcome = await known_counter("atomic", store, minimum=0).add(-5)
    assert isinstance(outcome, Unknown)
    assert "threshold" in outcome.cause
    assert await known_counter("atomic", inner).value() == 0


async def test_a_late_first_try_is_counted_beside_its_repeat() -> None:
    """What lands after the repeat counts as well."""
    store, inner = faulty(Late())
    assert await known_counter("atomic", store).add(1) == Applied(value=Decimal(1))
    await store.land()
    assert await known_counter("atomic", inner).value() == 2


async def test_no_answer_at_all_is_unknown() -> None:
    """After so many tries it is given up; an error after a lost answer makes nothing certain."""
    store, _ = faulty(*[NeverArrived()] * 50)
    assert isinstance(await known_counter("atomic", store).add(1), Unknown)
    assert store.calls == known_counter("atomic", store).backoff.tries_max
    store, _ = faulty(NeverArrived(), *[Raises(Throttled("slow down"))] * 50)
    causes = ["injected: NeverArrived()", *["slow down"] * 4]
    assert await known_counter("atomic", store).add(1) == Unknown("; then ".join(causes))


async def test_an_error_of_the_first_try_is_raised() -> None:
    """What was surely not written is an error, and may be tried again without harm."""
    store, inner = faulty(Raises(Throttled("slow down")))
    with pytest.raises(Throttled):
        await known_counter("atomic", store).add(1)
    assert await known_counter("atomic", inner).value() == 0


async def test_a_rejection_names_the_threshold() -> None:
    """The reason is a value, the bound is in the detail."""
    counter = known_counter("atomic", MemoryStore("us-east-1"), minimum=0, maximum=5)
    assert await counter.add(6) == Rejected("threshold", "minimum 0 and maximum 5")
