from support.ledgers import seeded

from ledger.core import ids
from ledger.core.tokens import REQUEST_TOKEN_CHARACTERS, request_token
from ledger.primitives.counters import new_token
from ledger.primitives.counters.new_tokens import draw_token
from ledger.testing.clock import START


def test_a_new_token_tells_its_time() -> None:
    """Its time can be read from it, and no two are the same."""
    chance = seeded()
    tokens = [new_token(START, chance) for _ in range(100)]
    assert len(set(tokens)) == 100
    found = ids.parse(tokens[0])
    assert found is not None
    assert found.at == START


def test_request_tokens_keep_names_apart() -> None:
    """Where a name ends and a token begins matters; DynamoDB takes 36 characters."""
    assert request_token("a", "bc") != request_token("ab", "c")
    assert request_token("a", "bc") == request_token("a", "bc")
    assert len(request_token("a" * 1024, "né" * 500)) == REQUEST_TOKEN_CHARACTERS == 36


def test_a_token_draws_the_same_place_each_time() -> None:
    """Places are spread, and depend on nothing but the token."""
    places = [draw_token(f"t{number}", 4) for number in range(100)]
    assert places == [draw_token(f"t{number}", 4) for number in range(100)]
    assert set(places) == {0, 1, 2, 3}
