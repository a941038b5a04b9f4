"""Changes and counters as they are handed out in a run of chaos."""

from lab.faults.counters import COMBINED, OPEN_COUNTERS, RECENT_COUNTERS, SHARDS, Counters
from support.ledgers import make_settings, seeded

from ledger.demo.harness.digit_tags import CHANGES_MAX


def test_no_change_is_handed_out_twice_and_none_is_left_out() -> None:
    """Each counter's changes are taken from the first to the last, then another begins."""
    counters = Counters(seeded())
    taken = list(counters.take(CHANGES_MAX * OPEN_COUNTERS * 3))
    assert len(set(taken)) == len(taken)
    for name in counters.names:
        numbers = [number for counter, number in taken if counter == name]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) <= CHANGES_MAX


def test_changes_of_one_counter_end_with_it() -> None:
    """A burst stays within its counter, however little is left of it."""
    counters = Counters(seeded())
    for _ in range(CHANGES_MAX * OPEN_COUNTERS):
        burst = counters.take_of_one(5)
        assert 1 <= len(burst) <= 5
        assert len({counter for counter, _ in burst}) == 1


def test_the_kinds_of_counters_are_those_of_the_settings() -> None:
    """Some counters lie in two shards, some are combined, the others are neither."""
    settings = make_settings(shards=SHARDS, combine=COMBINED)
    counters = Counters(seeded())
    counters.take(1)
    kinds = {(settings.shards_max(name), settings.combines(name)) for name in counters.names}
    assert kinds == {(2, False), (1, True), (1, False)}


def test_reads_go_to_counters_that_were_handed_out_most_often_the_latest() -> None:
    """There is something to read from the start, and old counters are not forgotten."""
    counters = Counters(seeded())
    assert counters.to_read() in counters.names
    counters.take(CHANGES_MAX * RECENT_COUNTERS * 3)
    read = [counters.to_read() for _ in range(2000)]
    old = [name for name in read if name not in counters.names[-RECENT_COUNTERS:]]
    assert set(read) <= set(counters.names)
    assert 0 < len(old) < len(read) / 4
