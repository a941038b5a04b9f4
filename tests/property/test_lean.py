"""The lean transport says and reads exactly what botocore does, whatever is sent."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any
from unittest import mock

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from botocore.model import OperationModel, ServiceModel
from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from botocore.session import get_session
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import any_amounts

from ledger.core import amounts
from ledger.core.entry import Item
from ledger.store.transports.lean import OPERATIONS, read_error
from ledger.store.transports.lean_connection import HttpAnswer
from ledger.store.transports.lean_json import decode, encode
from ledger.store.transports.lean_signing import CONTENT_TYPE, TARGET_PREFIX, Signer

URLS = [
    "https://dynamodb.eu-west-1.amazonaws.com",
    "https://vpce-1.dynamodb.us-east-1.vpce.amazonaws.com:443/",
    "http://127.0.0.1:8000",
    "http://[::1]:8000/",
    "http://localhost/a%20path/é/../to it",
]
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
PRINTABLE = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)
TIMES = st.integers(946_684_800, 4_070_908_800).map(
    lambda seconds: datetime.fromtimestamp(seconds, UTC)
)


@st.composite
def credentials(draw: st.DrawFn) -> ReadOnlyCredentials:
    """Any credentials, with a session's token or without."""
    token = draw(st.none() | PRINTABLE)
    return ReadOnlyCredentials(draw(PRINTABLE), draw(PRINTABLE), token)


def values() -> st.SearchStrategy[dict[str, Any]]:
    """Any attribute value, nested ones too, under names that look like kinds."""
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    names = st.sampled_from(["B", "BS", "L", "M", "S"]) | NAMES
    plain = st.one_of(
        texts.map(lambda text: {"S": text}),
        any_amounts().map(lambda amount: {"N": amounts.to_text(amount)}),
        st.binary(max_size=12).map(lambda data: {"B": data}),
        st.lists(st.binary(max_size=5), max_size=3).map(lambda parts: {"BS": parts}),
        st.lists(texts, max_size=3).map(lambda parts: {"SS": parts}),
        st.booleans().map(lambda truth: {"BOOL": truth}),
        st.just({"NULL": True}),
    )
    return st.recursive(
        plain,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda parts: {"L": parts}),
            st.dictionaries(names, inner, max_size=3).map(lambda parts: {"M": parts}),
        ),
        max_leaves=6,
    )


def items() -> st.SearchStrategy[Item]:
    """Any item, its attributes named as kinds of values too."""
    return st.dictionaries(st.sampled_from(["B", "BS", "pk"]) | NAMES, values(), max_size=4)


@cache
def service() -> ServiceModel:
    """Return botocore's description of DynamoDB."""
    return ServiceModel(get_session().get_service_data("dynamodb"))


def operation(name: str) -> OperationModel:
    """Return botocore's description of one operation."""
    return service().operation_model(name)


# Signatures


@given(st.data())
def test_signature_is_botocores_to_the_byte(data: st.DataObject) -> None:
    """Whatever is sent, wherever, with whatever credentials: the headers are SigV4Auth's.

    The key of the day is kept between requests, so each example signs several in turn.
    """
    url, region = data.draw(st.sampled_from(URLS)), data.draw(st.sampled_from(["eu-west-1", "x"]))
    signer = Signer(url=url, region=region)
    known = data.draw(st.lists(credentials(), min_size=1, max_size=2))
    days = data.draw(st.lists(TIMES, min_size=1, max_size=2))
    for _ in range(4):
        frozen, at = data.draw(st.sampled_from(known)), data.draw(st.sampled_from(days))
        name = data.draw(st.sampled_from(sorted(OPERATIONS.values())))
        body = encode({"TableName": data.draw(NAMES), "Item": data.draw(items())})

        ours = signer.headers(name, body, credentials=frozen, at=at)

        assert ours.pop("Host") == signer.host
        assert ours == reference(url, region, name, body, frozen, at)


def reference(
    url: str, region: str, name: str, body: bytes, frozen: ReadOnlyCredentials, at: datetime
) -> dict[str, str]:
    """Return the headers of a request that botocore signed."""
    headers = {"X-Amz-Target": TARGET_PREFIX + name, "Content-Type": CONTENT_TYPE}
    request = AWSRequest("POST", url, data=body, headers=headers)
    with mock.patch("botocore.auth.get_current_datetime", return_value=at):
        SigV4Auth(frozen, "dynamodb", region).add_auth(request)
    return dict(request.headers.items())


def test_another_secret_signs_another_way() -> None:
    """The comparison above is no matter of course: one changed letter changes the signature."""
    at = datetime(2026, 11, 21, tzinfo=UTC)
    signer = Signer(url=URLS[0], region="eu-west-1")
    signatures = {
        signer.headers("Query", body, credentials=ReadOnlyCredentials("k", secret, None), at=at)[
            "Authorization"
        ]
        for secret in ("s", "t")
        for body in (b"{}", b"[]")
    }
    assert len(signatures) == 4


# Bodies


@given(NAMES, items())
def test_body_is_what_botocore_sends(table: str, item: Item) -> None:
    """A request's JSON is the one that botocore makes of it."""
    request = {"TableName": table, "Item": item}
    theirs = create_serializer("json").serialize_to_request(request, operation("PutItem"))

    assert json.loads(encode(request)) == json.loads(theirs["body"])
    assert theirs["headers"] == {
        "X-Amz-Target": f"{TARGET_PREFIX}PutItem",
        "Content-Type": CONTENT_TYPE,
    }


@given(st.lists(items(), max_size=3), items())
def test_answer_is_read_as_botocore_reads_it(found: list[Item], last: Item) -> None:
    """Items come back as botocore gives them, bytes as bytes, wherever in the page they are."""
    body = encode({"LastEvaluatedKey": last, "Items": found, "Count": len(found)})

    theirs = parsed("Query", body, 200)
    theirs.pop("ResponseMetadata")
    assert decode(body) == theirs
    assert decode(body)["Items"] == found
    assert decode(body)["LastEvaluatedKey"] == last


def parsed(name: str, body: bytes, status: int) -> dict[str, Any]:
    """Return what botocore makes of an answer."""
    answer = {"body": body, "status_code": status, "headers": {}, "context": {}}
    shape = operation(name).output_shape
    assert shape is not None
    read: dict[str, Any] = create_parser("json").parse(answer, shape)
    return read


def kinds() -> Iterator[str]:
    """Yield ways in which DynamoDB, or what stands before it, names an error."""
    for code in ("ConditionalCheckFailedException", "ThrottlingException", "500", ""):
        yield code
        yield f"com.amazonaws.dynamodb.v20120810#{code}"
        yield f"{code}:http://internal.amazon.com/coral/com.amazon.coral.validate/"


@pytest.mark.parametrize("status", [400, 413, 500, 503])
@pytest.mark.parametrize("message", ["message", "Message", None])
@pytest.mark.parametrize("kind", [*kinds(), None])
def test_error_is_read_as_botocore_reads_it(
    status: int, message: str | None, kind: str | None
) -> None:
    """Code and message of an error are those that botocore finds."""
    body = {"__type": kind} if kind is not None else {}
    body |= {message: "what is wrong"} if message else {}

    ours = read_error(HttpAnswer(status, {}, encode(body)))
    theirs = parsed("PutItem", encode(body), status)

    assert ours["Error"] == theirs["Error"]
    assert ours["ResponseMetadata"]["HTTPStatusCode"] == status
