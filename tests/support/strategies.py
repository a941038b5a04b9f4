"""Any legal value of the core, for property tests."""

from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import strategies as st

from ledger.core import amounts, ids, keys
from ledger.core.ids import EntryId
from ledger.core.values import Entry, NetChange

MICROSECONDS_MAX = 253_402_300_799_999_999


def _amount(digits: int, *, last_place: int, negative: bool) -> Decimal:
    number = Decimal(digits).scaleb(last_place, amounts.EXACT)
    return number.copy_negate() if negative else number


def decimals(least: int, most: int, *, places: int) -> st.SearchStrategy[Decimal]:
    """Decimals of up to so many places; hypothesis's own calculate in the context of the caller."""
    unit = 10**places
    whole = st.integers(least * unit, most * unit)
    return whole.map(lambda number: amounts.scaled(Decimal(number), -places))


@st.composite
def any_amounts(draw: st.DrawFn) -> Decimal:
    """Any amount that DynamoDB can hold: up to 38 digits anywhere between 1E-130 and 9.99E+125."""
    size = draw(st.integers(1, amounts.DIGITS_MAX))
    digits = draw(st.integers(10 ** (size - 1), 10**size - 1))
    first_place = draw(st.integers(amounts.EXPONENT_MIN, amounts.EXPONENT_MAX))
    negative = draw(st.booleans())
    if draw(st.integers(0, 20)) == 0:
        return Decimal(0)
    return _amount(digits, last_place=first_place - size + 1, negative=negative)


def money() -> st.SearchStrategy[Decimal]:
    """Amounts as accounts have them: any number of which has a sum within 38 digits."""
    return st.integers(-(10**20), 10**20).map(lambda cents: amounts.scaled(Decimal(cents), -2))


def entry_ids() -> st.SearchStrategy[EntryId]:
    """Any id of ours, near ones too: the same moment with several suffixes, and the other way."""
    near = 1_700_000_000_000_000
    return st.builds(
        EntryId,
        st.one_of(st.integers(0, MICROSECONDS_MAX), st.integers(near, near + 3)),
        st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 3)),
    )


def moments() -> st.SearchStrategy[datetime]:
    """Any aware time from 1970 to 9999, in any zone."""
    return st.datetimes(
        min_value=datetime(1970, 1, 3),  # noqa: DTZ001 (the zone is drawn beside it)
        max_value=datetime(9999, 12, 29),  # noqa: DTZ001
        timezones=st.one_of(st.just(UTC), st.timezones()),
    )


def counters() -> st.SearchStrategy[str]:
    """Any counter id."""
    letters = st.characters(exclude_categories=["Cc", "Cs"])
    return st.text(letters, min_size=1, max_size=200).filter(
        lambda text: not text.startswith(keys.RESERVED)
    )


def texts() -> st.SearchStrategy[str]:
    """Any text that UTF-8 can hold."""
    return st.text(st.characters(exclude_categories=["Cs"]))


def entries() -> st.SearchStrategy[Entry]:
    """Any entry, ours or a foreign writer's."""
    return st.builds(
        Entry,
        counter=counters(),
        id=st.one_of(entry_ids().map(str), foreign_keys()),
        change=any_amounts(),
        region=st.none() | texts(),
        note=st.none() | texts(),
        effective=st.none() | st.dates(),
    )


def foreign_keys() -> st.SearchStrategy[str]:
    """Sort keys of other tools: not in our form, and not of a net change."""
    return texts().filter(
        lambda text: text != "" and not text.startswith(keys.RESERVED) and ids.parse(text) is None
    )


@st.composite
def nets(draw: st.DrawFn) -> NetChange:
    """Any net change."""
    merged = tuple(sorted(draw(st.sets(entry_ids(), max_size=20))))
    return NetChange(
        change=draw(any_amounts()),
        count=len(merged) + draw(st.integers(0, 10**30)),
        merged=merged,
        version=draw(texts()),
        until=draw(texts()),
        home=draw(texts()),
        generation=draw(st.integers(1, keys.GENERATION_MAX)),
    )
