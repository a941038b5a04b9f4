"""How much a caller may do at a time."""

from ledger.http.service.access.call_allowance import CallAllowance


def test_a_rate_allows_a_burst_of_a_second_and_then_its_pace() -> None:
    """A refused request says when the next one passes."""
    allowance = CallAllowance(rate=10.0, at_once=None)
    assert [allowance.enter(100.0) for _ in range(10)] == [0.0] * 10
    wait = allowance.enter(100.0)
    assert wait == 0.1
    assert allowance.enter(100.0 + wait / 2) > 0
    assert allowance.enter(100.0 + wait * 1.01) == 0.0


def test_a_quiet_caller_gets_no_more_than_a_burst() -> None:
    """However long it was quiet."""
    allowance = CallAllowance(rate=2.0, at_once=None)
    allowance.enter(0.0)
    passed = [allowance.enter(1_000.0) == 0.0 for _ in range(5)]
    assert passed == [True, True, False, False, False]


def test_a_rate_below_one_lets_one_pass_first() -> None:
    """One request in ten seconds is one now."""
    allowance = CallAllowance(rate=0.1, at_once=None)
    assert allowance.enter(5.0) == 0.0
    assert allowance.enter(6.0) > 8.0


def test_so_many_at_once() -> None:
    """One that ends makes room; a refused one took none."""
    allowance = CallAllowance(rate=None, at_once=2)
    assert [allowance.enter(0.0) for _ in range(3)] == [0.0, 0.0, 1.0]
    allowance.leave()
    assert allowance.enter(0.0) == 0.0
    assert allowance.enter(0.0) > 0


def test_a_full_house_takes_nothing_from_the_rate() -> None:
    """What is refused for its number is not counted."""
    allowance = CallAllowance(rate=2.0, at_once=1)
    assert allowance.enter(0.0) == 0.0
    for _ in range(10):
        assert allowance.enter(0.0) > 0
    allowance.leave()
    assert allowance.enter(0.0) == 0.0


def test_a_look_takes_from_the_rate_as_a_request_does() -> None:
    """Of a request that goes on; it takes no place of the number at once."""
    allowance = CallAllowance(rate=2.0, at_once=1)
    assert [allowance.enter(0.0), allowance.look(0.0), allowance.look(0.0)] == [0.0, 0.0, 0.5]
    allowance.leave()
    assert allowance.enter(0.0) == 0.5
    assert CallAllowance(rate=None, at_once=1).look(0.0) == 0.0
