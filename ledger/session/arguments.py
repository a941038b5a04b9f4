"""Checks of the arguments of calls."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ledger.core import keys
from ledger.core.amounts import check_bool
from ledger.core.errors import InvalidInput
from ledger.writes.change_list import check_list


def counters_named(given: Mapping[str, Any]) -> Iterable[str]:
    """Return the counters, or the prefix, that the arguments of a call name."""
    if "counter" in given or "prefix" in given:
        return [given.get("counter", given.get("prefix"))]
    if "entry" in given:
        return [given["entry"].counter]
    several = given.get("counters", given.get("entries", given.get("changes", ())))
    if not isinstance(several, Sequence) or isinstance(several, str):
        return ()  # an iterator can be consumed only by the call
    return dict.fromkeys(_counter_of(each) for each in several)


def _counter_of(named: Any) -> str:
    if isinstance(named, str):
        return named
    return str(named[0] if isinstance(named, tuple) else named.counter)


def check_counters(asked: Iterable[str]) -> list[str]:
    """Return the counters that are asked for, checked.

    Raises:
        InvalidInput: not a list of counters.
        InvalidCounter: one is not a counter id.
    """
    if isinstance(asked, str):
        raise InvalidInput(f"counters must be a list of counter ids, got the str {asked!r}")
    return [keys.checked_counter(counter) for counter in check_list("counters", asked)]


def check_age(max_age: object, *, steady: bool, at: object = None, effective: bool = False) -> None:
    """Refuse an invalid `max_age`, and one that is combined with `steady` or `at`.

    Raises:
        InvalidInput: it is not 0 or more seconds; a steady total, or one at a moment, is asked for
            from the cache; or `effective` is given without `at`.
    """
    check_bool("steady", steady)
    if check_bool("effective", effective) and at is None:
        raise InvalidInput("effective=True needs a date: give it as `at`")
    if at is not None and (steady or max_age not in {None, 0}):
        raise InvalidInput(
            f"a total at a moment can be neither steady nor cached: got steady {steady},"
            f" max_age {max_age!r}"
        )
    if steady and max_age not in {None, 0}:
        raise InvalidInput(f"a steady total is never cached: leave out max_age, got {max_age!r}")
    if max_age is not None and not (isinstance(max_age, int | float) and max_age >= 0):
        raise InvalidInput(f"max_age must be 0 or more seconds, got {max_age!r}")
