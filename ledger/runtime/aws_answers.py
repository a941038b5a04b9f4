"""Whether an answer comes from AWS at all: asked of every answer, before anything is read from it.

A gateway, a login page or another local service may answer with status 200 and `{}`, which has the
form of many true answers. A write that such a server answered would be reported as applied.

DynamoDB and DynamoDB Streams answer with JSON objects, a request id and, on success, a checksum of
the body; DynamoDB Local, moto and dynoxide do the same. The other services answer with a request
id: `x-amzn-RequestId`, or `x-amz-request-id` of S3. An error with a status of 500 or more says
nothing about the request, whoever sent it.

Source: Amazon DynamoDB Developer Guide, "DynamoDB low-level API", the format of responses
(https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.LowLevelAPI.html);
AWS re:Post and service references on request ids
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/get-request-ids.html).
"""

import zlib
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from inspect import isawaitable
from typing import Any

from botocore.exceptions import HTTPClientError

from ledger.runtime.tasks import Turns, call_soon

LARGE_BYTES = 64 * 1024
"""The size from which an answer may hold a thousand objects and more."""
LARGE_AT_ONCE = 1
"""Answers of such a size that are read in one round of the event loop."""
OK_STATUS = 200
CHECKSUM_HEADER = "x-amz-crc32"
REQUEST_ID_HEADER = "x-amzn-requestid"
_REQUEST_ID_HEADERS = (REQUEST_ID_HEADER, "x-amz-request-id", "x-amzn-request-id")
_DYNAMODB = frozenset({"dynamodb", "dynamodbstreams"})
_PARSERS = "response_parser_factory"
_ERROR_STATUS_MIN = 400
_SERVER_STATUS_MIN = 500


class NoAnswer(HTTPClientError):
    """The response does not come from AWS, so it says nothing about the request."""

    fmt = "{reason} is not an answer of AWS"


def check_answers_of(session: Any) -> None:
    """Make every client of a session, botocore's or aiobotocore's, check its answers.

    What cannot be read is `NoAnswer`, too: the SDK raises whatever its parsers happen to.
    """
    session.register("before-parse", _check)
    parsers = session.get_component(_PARSERS)
    session.register_component(_PARSERS, _Parsers(parsers))


class LargeAnswers:
    """Lets answers that take long to read wait for their turn, of which few are in a round.

    A megabyte takes 5 ms, in the SDK 25, and dozens may come together.
    """

    def __init__(self) -> None:
        self._turns = Turns(call_soon, LARGE_AT_ONCE)

    async def turn(self, body: object) -> None:
        """Wait until an answer may be read."""
        if isinstance(body, bytes) and len(body) >= LARGE_BYTES:
            await self._turns.turn("")

    async def before_parse(self, *, response_dict: Mapping[str, Any], **_event: object) -> None:
        """Handle aiobotocore's event of that name."""
        await self.turn(response_dict["body"])


class _Parsers:
    """The SDK's factory of parsers, which are checked."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def create_parser(self, protocol_name: str) -> "_Parser":
        return _Parser(self._inner.create_parser(protocol_name))


class _Parser:
    """A parser of the SDK's, of the one kind or the other, whose every error is `NoAnswer`."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def parse(self, response: Mapping[str, Any], shape: Any) -> Any:
        with _reading():
            parsed = self._inner.parse(response, shape)
        return _read(parsed) if isawaitable(parsed) else parsed


async def _read(parsed: Awaitable[Any]) -> Any:
    with _reading():
        return await parsed


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    # Parsers raise whatever comes of an unexpected form.
    except Exception as error:
        raise NoAnswer(reason=f"a body that cannot be read ({type(error).__name__})") from error


def _check(*, operation_model: Any, response_dict: Mapping[str, Any], **_event: object) -> None:
    """Handle botocore's `before-parse` event.

    Raises:
        NoAnswer: the answer is not AWS's.
    """
    status, headers = response_dict["status_code"], response_dict["headers"]
    if operation_model.service_model.service_name in _DYNAMODB:
        check_answer(status, headers, response_dict["body"])
    elif status < _ERROR_STATUS_MIN and not any(map(headers.get, _REQUEST_ID_HEADERS)):
        raise NoAnswer(reason=f"{_kind(status, headers)} without a request id")


def check_answer(status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Make sure that an answer is DynamoDB's, and complete; its errors are answers too.

    Raises:
        NoAnswer: another server sent it, or it was damaged on its way.
    """
    expected = headers.get(CHECKSUM_HEADER)
    if expected is not None and expected != str(zlib.crc32(body)):
        raise NoAnswer(reason=f"a body whose {CHECKSUM_HEADER} is not {expected}")
    is_object = body.startswith(b"{") and body.endswith(b"}")
    if status >= _SERVER_STATUS_MIN and (is_object or not body):
        return
    if (status != OK_STATUS and status < _ERROR_STATUS_MIN) or "json" not in _type(headers):
        raise NoAnswer(reason=_kind(status, headers))
    if not is_object:
        raise NoAnswer(reason=f"a body that is not a JSON object ({len(body)} bytes)")
    if not headers.get(REQUEST_ID_HEADER):
        raise NoAnswer(reason=f"{_kind(status, headers)} without x-amzn-RequestId")
    if status == OK_STATUS and expected is None:
        raise NoAnswer(reason=f"{_kind(status, headers)} without {CHECKSUM_HEADER}")


def _kind(status: int, headers: Mapping[str, str]) -> str:
    return f"a {_type(headers)} page with status {status}"


def _type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type") or "no content type"
