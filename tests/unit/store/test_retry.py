"""The rules of repeating: waits, bounds, and the budget."""

import pytest

from ledger.store.retry import (
    BUDGET_TOKENS,
    RETRY_TOKENS,
    THROTTLED_RETRY_TOKENS,
    Backoff,
    RetryBudget,
    retry_after_seconds,
)


@pytest.mark.parametrize(
    ("base", "waits"),
    [("any", [0.025, 0.05, 0.1, 0.2]), ("throttled", [1.0, 2.0, 4.0, 8.0])],
)
def test_waits_double_from_their_base(base: str, waits: list[float]) -> None:
    """25 ms, or 1 s after throttling, doubled by each try."""
    backoff = Backoff()
    assert [
        backoff.wait_seconds(tries, 1.0, throttled=base == "throttled") for tries in (1, 2, 3, 4)
    ] == waits


def test_no_wait_is_over_the_longest() -> None:
    """However often it was tried."""
    assert Backoff().wait_seconds(1_000, 1.0) == 20.0


@pytest.mark.parametrize("jitter", [0.0, 0.25, 1.0])
def test_jitter_is_full(jitter: float) -> None:
    """Waits lie anywhere between nothing and the bound."""
    assert Backoff().wait_seconds(1, jitter, throttled=True) == jitter


@pytest.mark.parametrize(("asked", "waited"), [(0.5, 1.0), (3.0, 3.0), (60.0, 6.0)])
def test_the_wait_asked_for_is_granted_up_to_five_seconds_more(asked: float, waited: float) -> None:
    """A header lengthens the wait computed, by 5 s at most, and shortens none."""
    wait = Backoff().wait_seconds(
        1,
        1.0,
        throttled=True,
        retry_after_seconds=asked,
    )
    assert wait == waited


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, 0), ("1500", 1.5), ("0", 0), ("-5", 0), ("soon", 0), ("1.5", 0), ("", 0), ("٣", 0)],
)
def test_the_header_is_whole_milliseconds(header: str | None, seconds: float) -> None:
    """Anything else asks for nothing."""
    assert retry_after_seconds(header) == seconds


def test_a_throttled_call_has_four_requests_any_other_eight() -> None:
    """As many as the AWS SDKs send to a DynamoDB that throttles."""
    backoff = Backoff()
    assert [tries for tries in range(1, 10) if backoff.allows(tries, throttled=True)] == [1, 2, 3]
    assert [tries for tries in range(1, 10) if backoff.allows(tries)] == [1, 2, 3, 4, 5, 6, 7]
    assert not Backoff(tries_max=1).allows(1, throttled=True)


def test_the_budget_pays_for_so_many_repeats_and_no_more() -> None:
    """500 tokens: 35 repeats, or 100 after throttling; what a success gives back pays again."""
    for throttled, cost in ((False, RETRY_TOKENS), (True, THROTTLED_RETRY_TOKENS)):
        budget = RetryBudget()
        for _ in range(BUDGET_TOKENS // cost):
            assert budget.take(throttled=throttled) == cost
        assert budget.take(throttled=throttled) == 0
        budget.give(cost)
        assert budget.take(throttled=throttled) == cost


def test_the_budget_never_grows_beyond_what_it_began_with() -> None:
    """Successes fill it up, and then change nothing."""
    budget = RetryBudget()
    budget.take()
    for _ in range(1_000):
        budget.give(1)
    assert budget.tokens == BUDGET_TOKENS


def test_a_gift_beyond_what_was_taken_is_cut() -> None:
    """The last tokens given back may be fewer than those offered."""
    budget = RetryBudget()
    budget.take(throttled=True)
    assert budget.tokens == 495
    budget.give(10)
    assert budget.tokens == 500
