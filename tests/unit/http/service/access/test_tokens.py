"""Tokens: who they are recognized as, and what they allow."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.errors import InvalidInput
from ledger.http.service.access.tokens import (
    TokenRecord,
    bearer_in,
    checked_grant,
    grant_of,
    hash_of,
    token_text,
)

NOW = datetime(2026, 11, 21, 6, 50, tzinfo=UTC)
GRANT = checked_grant("shop", ["write", "read"], ["shop/", "stock"])
TOKEN, SECRET = token_text("0123456789ab", bytes(range(32)))
RECORD = TokenRecord("0123456789ab", hash_of(SECRET), GRANT, NOW, NOW + timedelta(days=1))
RECORDS = {RECORD.id: RECORD}


def test_a_token_is_recognized_until_it_expires() -> None:
    """At its end it is not valid any more."""
    assert grant_of(TOKEN, RECORDS, NOW) == GRANT
    assert grant_of(TOKEN, RECORDS, NOW + timedelta(days=1)) is None


@pytest.mark.parametrize(
    "token",
    [
        "",
        "ldg_",
        TOKEN[:-1],
        TOKEN + "x",
        TOKEN[:-1] + "A",
        TOKEN.replace("0123", "3210"),
        "ü" * 60,
    ],
)
def test_another_text_is_no_token(token: str) -> None:
    """One character more, less or other is enough."""
    assert grant_of(token, RECORDS, NOW) is None


@given(st.text(max_size=80))
def test_no_text_is_taken_for_a_token(text: str) -> None:
    """And none ends in an error."""
    assert grant_of(text, RECORDS, NOW) is None


def test_the_secret_is_not_in_the_record() -> None:
    """Only its hash is."""
    assert SECRET not in repr(RECORD)


@pytest.mark.parametrize(
    ("header", "token"),
    [
        (None, None),
        ("", None),
        ("Bearer", None),
        ("Bearer  ", None),
        ("Basic abc", None),
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        ("Bearer abc\xa0", "abc\xa0"),
        ("Bearer abc\x85", "abc\x85"),
    ],
)
def test_the_token_of_a_header(header: str | None, token: str | None) -> None:
    """The scheme is of either case."""
    assert bearer_in(header) == token


def test_a_grant_lacks_what_it_does_not_name() -> None:
    """The scope first, then each counter."""
    assert GRANT.lacks("read", ["shop/a", "stock-7"]) == ""
    assert GRANT.lacks("reverse", ["shop/a"]) == "token 'shop' has not the scope 'reverse'"
    allowed = "token 'shop' is for counters and prefixes that begin with 'shop/', 'stock'"
    assert GRANT.lacks("read", ["shop/a", "other"]) == f"{allowed}, not for 'other'"
    assert GRANT.lacks("read", [""]) == f"{allowed}, not for ''"
    many = checked_grant("many", ["read"], [f"{number}/" for number in range(9)])
    assert "'3/', '4/' and 4 more, not for 'x'" in many.lacks("read", ["x"])
    assert checked_grant("all", ["read"]).lacks("read", ["anything"]) == ""


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"name": ""}, "name must be"),
        ({"name": "Shop"}, "got 'Shop'"),
        ({"name": "a\n"}, "name must be"),
        ({"scopes": []}, "at least one scope"),
        ({"scopes": ["reed"]}, "scope must be one of .* got 'reed'"),
        ({"prefixes": map(str, range(101))}, "up to 100 prefixes"),
        ({"rate": 0}, "rate must be above 0"),
        ({"rate": float("nan")}, "rate must be above 0"),
        ({"at_once": 0}, "at_once must be 1 or more"),
    ],
)
def test_a_grant_that_breaks_a_rule_is_refused(given_: dict[str, Any], message: str) -> None:
    """The message names the value and the rule."""
    asked = {"name": "shop", "scopes": ["read"]} | given_
    with pytest.raises(InvalidInput, match=message):
        checked_grant(**asked)
