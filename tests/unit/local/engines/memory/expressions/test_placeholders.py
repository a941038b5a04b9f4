from typing import Any

import pytest

from ledger.local.engines.memory.expressions.placeholders import Placeholders
from ledger.local.engines.port import ApiError


def given(names: dict[str, Any] | None = None, contents: dict[str, Any] | None = None) -> Any:
    """Take the placeholders of a request."""
    body = {"ExpressionAttributeNames": names, "ExpressionAttributeValues": contents}
    return Placeholders.of({key: value for key, value in body.items() if value is not None})


@pytest.mark.parametrize("key", ["#", "#a b", "#é", "#a-b", "#a.b", "a", "##", ":a"])
def test_names_of_names(key: str) -> None:
    """A placeholder of a name is a # with letters, digits and underscores."""
    with pytest.raises(ApiError, match="contains invalid key"):
        given({key: "s"})


@pytest.mark.parametrize("key", [":", "a", ":a b", "#a", "::"])
def test_names_of_values(key: str) -> None:
    """A placeholder of a value is a colon with letters, digits and underscores."""
    with pytest.raises(ApiError, match="contains invalid key"):
        given(contents={key: {"S": "a"}})


@pytest.mark.parametrize(
    "content", [{"SS": []}, {"S": "a", "N": "1"}, {}, {"N": "x"}, {"M": {"": {"S": "a"}}}]
)
def test_values_are_checked(content: dict[str, Any]) -> None:
    """A value that no item may hold is refused, and its placeholder named."""
    with pytest.raises(ApiError, match="for key :a"):
        given(contents={":a": content})


def test_nothing_may_be_empty() -> None:
    """Neither the maps of placeholders, nor the name that one stands for."""
    for names, contents in (({}, None), (None, {}), ({"#a": ""}, None)):
        with pytest.raises(ApiError, match=r"empty|Empty"):
            given(names, contents)


def test_what_is_not_used_is_refused() -> None:
    """A name or value that no expression uses is most likely a mistake."""
    with pytest.raises(ApiError, match=r"ExpressionAttributeValues unused .* \{:a\}"):
        given(contents={":a": {"S": "a"}}).check_all_used()
    with pytest.raises(ApiError, match=r"ExpressionAttributeNames unused .* \{#a\}"):
        given({"#a": "a"}).check_all_used()
