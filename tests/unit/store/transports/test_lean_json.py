"""DynamoDB's JSON, with its binary values."""

import json

import pytest

from ledger.store.transports.lean_json import decode, encode


def test_binary_values_come_and_go_wherever_they_are() -> None:
    """Bytes are base64 inside JSON: alone, in sets, lists and maps."""
    item = {
        "pk": {"S": "B"},
        "one": {"B": b"\x00\xff"},
        "many": {"BS": [b"a", b""]},
        "deep": {"L": [{"M": {"B": {"B": b"x"}, "BS": {"L": [{"B": b"y"}]}}}]},
    }
    sent = json.loads(encode({"Item": item}))

    assert sent["Item"]["one"] == {"B": "AP8="}
    assert sent["Item"]["many"] == {"BS": ["YQ==", ""]}
    assert decode(encode({"Item": item})) == {"Item": item}


def test_attribute_named_as_a_kind_is_left_alone() -> None:
    """An attribute whose name is B or BS is no binary value."""
    item = {"B": {"S": "YQ=="}, "BS": {"L": [{"S": "YQ=="}]}, "pk": {"SS": ["B", "BS"]}}

    assert decode(encode({"Items": [item]})) == {"Items": [item]}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[]", "a list is not an answer"),
        (b"{", "unexpected end"),
        (b'{"Item":{"a":{"B":"*"}}}', "base64"),
        (b'{"Item":{"a":{"BS":[1]}}}', "int"),
        (b'{"Item":' + b'{"L":[' * 900 + b'"B"' + b"]}" * 900 + b"}", "recursion|depth"),
    ],
)
def test_what_is_no_answer_is_an_error(body: bytes, reason: str) -> None:
    """Neither half an object nor broken base64 passes for an answer."""
    with pytest.raises(ValueError, match=reason):
        decode(body)
