from typing import Any

import pytest

from ledger.local.engines.port import ApiError
from ledger.local.front.request_limits import Tokens
from ledger.store.writes import TOKEN_SECONDS


def request(token: str | None, pk: str) -> dict[str, Any]:
    """Give a transaction that deletes one item."""
    action = {"Delete": {"TableName": "ledger", "Key": {"pk": {"S": pk}, "sk": {"S": "b"}}}}
    body: dict[str, Any] = {"TransactItems": [action]}
    return body if token is None else {**body, "ClientRequestToken": token}


def test_the_same_request_is_known_for_ten_minutes() -> None:
    """A repeat is recognized until the token expires, whatever else it asks to be returned."""
    tokens = Tokens()
    tokens.remember(request("t", "a"), now=100.0)
    again = {**request("t", "a"), "ReturnConsumedCapacity": "TOTAL"}
    assert tokens.seen(again, now=100.0 + TOKEN_SECONDS - 1)
    assert not tokens.seen(again, now=100.0 + TOKEN_SECONDS)


def test_another_request_with_the_token_is_an_error() -> None:
    """A token stands for one request only."""
    tokens = Tokens()
    tokens.remember(request("t", "a"), now=0.0)
    with pytest.raises(ApiError) as caught:
        tokens.seen(request("t", "z"), now=1.0)
    assert caught.value.kind == "IdempotentParameterMismatchException"


def test_requests_without_token_are_never_repeats() -> None:
    """Without a token nothing is remembered."""
    tokens = Tokens()
    tokens.remember(request(None, "a"), now=0.0)
    assert not tokens.seen(request(None, "a"), now=0.0)


def test_a_token_has_at_most_36_characters() -> None:
    """A longer token is refused."""
    with pytest.raises(ApiError, match="36"):
        Tokens().seen(request("t" * 37, "a"), now=0.0)
