"""What a form says is taken by the service: every value that the patterns of the document allow."""

import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from support.serving import served
from support.tiers import with_slow

from ledger.budgets.amount_rules import checked_amount
from ledger.core.books import checked_account, checked_legs
from ledger.core.errors import InvalidEntry, InvalidInput
from ledger.core.keys import checked_counter
from ledger.core.tokens import time_of_key
from ledger.core.visible import unclear_in
from ledger.http.service import query_models
from ledger.http.service.body_values import (
    _above_0,
    _addend,
    _amount,
    _date,
    _not_negative,
    legs_of,
    moment,
)
from ledger.http.service.budget_request_models import SECONDS_MIN, _expires
from ledger.http.service.request_models import (
    TransferBody,
    bound,
    counter_in,
    edge,
    entry_in,
    key_of,
    wait_of,
)
from ledger.writes.entry_plan import checked_key

_prefix = TypeAdapter(query_models.Prefix)
_transfer = TypeAdapter(TransferBody)
TIME = "2026-11-21T06:50:00Z"
ENTRY_ID = "2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887"


def _key(text: str) -> object:
    bare = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
    return key_of(text, None if time_of_key(bare) else TIME)


def _named(text: str) -> object:
    return text if unclear_in(text) else checked_key(text)  # the rest is a `format`


def _budget(text: str) -> object:
    return checked_amount(_addend(text), _addend(text))


def _id(text: str) -> object:
    assert entry_in(quote(text)) == text
    return edge("after", text)


def _counter(text: str) -> str:
    return counter_in(quote(text))


def _of_leg(account: str, asset: str, amount: str) -> object:
    """Return what a transfer of this leg, and of its opposite, is read as."""
    opposite = amount[1:] if amount.startswith("-") else f"-{amount}"
    legs = [
        {"account": account, "asset": asset, "amount": amount},
        {
            "account": f"{account[:-1]}{'a' if account[-1] != 'a' else 'b'}",
            "asset": asset,
            "amount": opposite,
        },
    ]
    return checked_legs(legs_of(_transfer.validate_python({"legs": legs}).legs))


def _account(text: str) -> object:
    try:
        checked_account(text)
    except InvalidEntry:
        return text  # the rest is a `format`
    return _of_leg(text, "EUR", "1")


def _asset(text: str) -> object:
    return _of_leg("a", text, "1")


def _moved(text: str) -> object:
    return _of_leg("a", "EUR", text)


def _wait(text: str) -> object:
    assert wait_of([text]) is None or "wait" in text.lower()
    return text


TAKEN: dict[str, tuple[query_models.Schema, Callable[[str], object]]] = {
    "time": (query_models.TIME_SCHEMA, lambda text: moment("at", text)),
    "entry": (query_models.ENTRY_ID_SCHEMA, _id),
    "counter": (query_models.COUNTER_SCHEMA, checked_counter),
    "prefix": (query_models.PREFIX_SCHEMA, lambda text: checked_counter(text or "a")),
    "amount": (query_models.AMOUNT_SCHEMA, _amount),
    "addend": (query_models.ADDEND_SCHEMA, _addend),
    "0 or more": (query_models.NOT_NEGATIVE_SCHEMA, _addend),
    "above 0": (query_models.ABOVE_0_SCHEMA, _budget),
    "moved": (query_models.MOVED_SCHEMA, _moved),
    "account": (query_models.ACCOUNT_SCHEMA, _account),
    "asset": (query_models.ASSET_SCHEMA, _asset),
    "key in a body": (query_models.NAMED_SCHEMA, _named),
    "Idempotency-Key": (query_models.KEY_SCHEMA, _key),
    "Prefer": (query_models.PREFER_SCHEMA, _wait),
}
NUMEROUS = {"Prefer", "moved", "amount", "addend", "0 or more", "above 0"}
"""Those whose patterns take long to draw from."""


@pytest.mark.parametrize("name", with_slow(TAKEN, slow=NUMEROUS))
@given(data=st.data())
def test_what_a_pattern_allows_is_taken(name: str, data: st.DataObject) -> None:
    """By the function that reads it; none is refused for its form."""
    schema, read = TAKEN[name]
    pattern = re.compile(str(schema["pattern"]), re.ASCII)
    most = int(str(schema.get("maxLength", 10_000)))
    read(data.draw(st.from_regex(pattern, fullmatch=True).filter(lambda text: len(text) <= most)))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *[("amount", text) for text in ("1E+100", "-2.5E-130", "0", "12.50", "1e37")],
        *[("addend", text) for text in ("0", "-1", "12.50", "1e3", "-1.5e3", "1e37", "1e-38")],
        *[("addend", text) for text in ("9" * 38, f"-{'9' * 19}.{'9' * 19}", "0.001", "0.00")],
        *[("above 0", text) for text in ("10", "0.01", "1e9", "9" * 31)],
        *[("time", text) for text in (TIME, "2028-02-29T23:59:59.123456+14:00")],
        ("entry", ENTRY_ID),
        ("entry", f"{ENTRY_ID}.007"),
        *[
            ("counter", text)
            for text in ("a", "shop/größe 42", "a" * 1024, "日" * 256, "\U0001f600" * 256)
        ],
        *[("prefix", text) for text in ("", "shop/", "日" * 256)],
        *[("account", text) for text in ("cash", "kunde/größe 42", "a" * 255, "é" * 127)],
        *[("asset", text) for text in ("EUR", "USD/2", "~", "x" * 32)],
        *[("moved", text) for text in ("1", "-0.01", "9" * 38, "-1.5e3")],
        *[("key in a body", text) for text in ("a" * 1024, "日" * 256, "größe")],
        *[("Idempotency-Key", text) for text in ("order-17", '"order-17"', "a b", '"', "a" * 1024)],
        *[("Prefer", text) for text in ("wait=60", "respond-async", "wait=5, respond-async")],
        *[("Prefer", text) for text in ("return=minimal;x=1, handling=lenient", "wonder=1")],
        *[("Prefer", text) for text in ("", "w", "wa", "waiwawar, x", ' ,"', "x, wait=5,")],
    ],
)
def test_what_is_usual_and_what_is_longest_has_its_form(name: str, text: str) -> None:
    """And is taken."""
    schema, read = TAKEN[name]
    assert re.search(str(schema["pattern"]), text)
    assert len(text) <= int(str(schema.get("maxLength", 10_000)))
    read(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *[
            ("addend", text)
            for text in ("1e38", "1e-39", "9" * 39, "+1", " 1", "1.", ".5", "NaN", "")
        ],
        *[("amount", text) for text in ("1e126", "1e-131", "1e500", "1,5")],
        *[("above 0", text) for text in ("0", "0.0", "-1", "9" * 38)],
        *[("0 or more", text) for text in ("-1", "-0")],
        *[("time", text) for text in ("2026-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "soon")],
        *[("time", text) for text in ("2026-11-21T06:50:00", "2026-11-21T06:50:60Z", "2026-11-21")],
        *[("time", text) for text in ("0001-01-01T00:00:00+14:00", "2100-02-29T00:00:00Z")],
        *[("counter", text) for text in ("", "~a", "a\nb", "é" * 257)],
        *[("account", text) for text in ("", "~a", "a\nb")],
        *[("asset", text) for text in ("", "E R", "\u20ac", "x" * 33)],
        *[("moved", text) for text in ("0", "-0.00", "+1")],
        *[("Idempotency-Key", text) for text in ("", '""', "é", "a\tb")],
        *[
            ("Prefer", text)
            for text in ("wait=0", "wait=61", "wait=5, wait=6", "x, wait=99", "WAIT")
        ],
    ],
)
def test_what_the_service_refuses_has_not_the_form(name: str, text: str) -> None:
    """A client that checks is told before it asks."""
    assert not re.search(str(TAKEN[name][0]["pattern"]), text)


@given(st.dates(min_value=moment("at", "1971-01-01T00:00:00Z").date()))
def test_every_day_is_one(day: Any) -> None:
    """Leap days are those of the calendar."""
    if day.year < 9900:
        assert re.search(query_models.TIME_PATTERN, f"{day.isoformat()}T00:00:00Z")


@pytest.mark.parametrize(
    "key",
    [
        *("0193a1b2-7c00-7a31-8b1c-5f2d9e4a6b70", "01JD6Q7V4N8Z4Y3T5W9X2R1P0K"),
        ENTRY_ID,
    ],
)
def test_a_key_that_carries_its_time_is_told_by_its_form(key: str) -> None:
    """As the schemas of bodies have it, where another needs `at`."""
    pattern = query_models.TIMED_KEY["else"]["properties"]["key"]["anyOf"][1]["pattern"]  # type: ignore[index,call-overload]
    assert re.search(str(pattern), key)
    assert time_of_key(key) is not None
    for other in ("order-17", f"{ENTRY_ID}.007"):
        assert not re.search(str(pattern), other)
        assert time_of_key(other) is None


async def test_patterns_are_such_as_every_language_reads() -> None:
    """Go has no looking ahead, and no count above 1,000; each escape is the same in all."""
    async with served() as service:
        document = (await service.http.get("/openapi.json")).json()
    found: set[str] = set()

    def note(part: Any) -> None:
        match part:
            case {"pattern": str(pattern), **more}:
                found.add(pattern)
                note(more)
            case dict():
                for member in part.values():
                    note(member)
            case list():
                for member in part:
                    note(member)

    note(document)
    assert len(found) > 10
    for pattern in found:
        assert not re.search(r"\(\?[^:]|\\[^.xsS+]", pattern), pattern
        assert all(int(most) <= 1000 for most in re.findall(r"\{[0-9]+,([0-9]+)\}", pattern))


def test_amounts_of_the_longest_form_are_exact() -> None:
    """All 38 digits are kept."""
    assert _addend("9" * 38) == Decimal("9" * 38)


NOT_OF_THE_FORM: dict[str, tuple[str, ...]] = {
    "time": (
        *("20261128T210000Z", "2026-11-28T21:00:00,5Z", "2026-11-28T21:00:00+2359"),
        *("2026-11-28 21:00:00Z", "2026-W48-6T21:00:00Z", "1970-12-31T23:59:59Z"),
    ),
    "amount": ("1e00", "0.1e1", "10e1", "00", "1.", "0e5"),
    "addend": ("1e00", "0.1e1", "10e1", "01.5"),
    "0 or more": ("-0", "1e00", "0.0000000000000000001111111111111111111"),
    "above 0": ("1e00", "0.0000000000000000001111111111111111111", "9" * 32),
    "Idempotency-Key": ('"' + "x" * 1_023 + '"',),
    "Prefer": (
        "a," * 250 + "wait=5,bbbbbbb",
        "wait=05",
        "wait",
        "WAIT=61",
        'wait="05"',
        "wait=5, x, Wait=6",
    ),
    "counter": ("é" * 257,),
    "prefix": ("é" * 257,),
    "account": ("~a", "\x84"),
    "asset": ("E R", "x" * 33),
    "moved": ("0", "1e00"),
    "entry": tuple(f"{ENTRY_ID}{end}" for end in (".", ".7", ".0007", ".00a", "#000")),
}


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in NOT_OF_THE_FORM.items() for text in texts]
)
async def test_nothing_is_taken_but_what_the_document_says(name: str, text: str) -> None:
    """By the same functions: each value has one form."""
    schema = TAKEN[name][0]
    has_form = re.search(str(schema["pattern"]), text)
    assert not has_form or len(text) > int(str(schema.get("maxLength", 10_000)))
    reads: dict[str, Callable[[str], object]] = {
        "0 or more": _not_negative,
        "above 0": _above_0,
        "counter": _counter,
        "prefix": _prefix.validate_python,
        "account": partial(_of_leg, asset="EUR", amount="1"),
    }
    with pytest.raises(ValueError, match="must"):
        reads.get(name, TAKEN[name][1])(text)


@pytest.mark.parametrize(
    "text",
    [
        *("await=4", 'wait="5"', "WAIT=5;x=1", "swait=5, wait = 7", 'x="wait=9", wait=5;y'),
        *("x;wait=3", ",, wait=5 ,", 'wait=60,respond-async;foo="bar,baz"'),
    ],
)
def test_preferences_that_are_ignored_and_one_that_is_not(text: str) -> None:
    """Have the form, and are taken."""
    assert re.search(str(query_models.PREFER_SCHEMA["pattern"]), text)
    wait_of([text])


@pytest.mark.parametrize(
    "text", ["2026-W48-6", "20261128", "2026-11-28 ", "2026-02-29", "0000-01-01"]
)
def test_a_date_has_one_form(text: str) -> None:
    """Of a change, and of a bound."""
    with pytest.raises(InvalidInput):
        _date(text)
    with pytest.raises(InvalidInput):
        bound("since", text)


@pytest.mark.parametrize("text", ["2026-11-28t21:00:00z", "2026-11-28T21:00:00.5Z"])
def test_a_time_may_have_small_letters(text: str) -> None:
    """As RFC 3339 has it."""
    assert re.search(query_models.TIME_PATTERN, text)
    assert moment("at", text).tzinfo is not None


@pytest.mark.parametrize(
    "query",
    [
        *("max_age=1_0", "max_age=%201", "max_age=%2B1", "max_age=inf", "max_age=.5"),
        *("steady=t", "steady=yes", "steady=on", "steady=1", "steady=True"),
        "at=20261128",
    ],
)
async def test_a_query_has_numbers_and_truths_as_json_does(query: str) -> None:
    """Nothing else is taken for one."""
    async with served() as service:
        answer = await service.http.get(f"/v1/counters/a?{query}")
        assert answer.status_code == 400
        assert "must be" in answer.json()["detail"]
        for limit in ("1.0", "+1", "01", "1e1"):
            answer = await service.http.get("/v1/counters/a/entries", params={"limit": limit})
            assert answer.status_code == 400
        taken = "/v1/counters/a?max_age=1e0&effective=false"
        assert (await service.http.get(taken)).status_code == 200


def test_seconds_that_no_clock_tells_from_now_are_taken() -> None:
    """The document allows any above 0; they are as the least that it can tell."""
    assert _expires(1e-9) == _expires(5e-324) == SECONDS_MIN
    assert _expires(0.5) == 0.5
