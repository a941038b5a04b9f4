"""The lean transport: the hot operations without the SDK's machinery.

One JSON body, one signature, one POST: a batch of 25 costs a fraction of what aiobotocore takes for
it. Credentials, the endpoint, certificates and proxies come from botocore's public interfaces;
operations that are not in `OPERATIONS` go through aiobotocore as before.
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import localcontext
from functools import partial
from typing import Any, Protocol
from urllib.parse import quote

from aiobotocore.credentials import AioCredentials
from aiobotocore.session import AioSession
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
from botocore.useragent import sanitize_user_agent_string_component

from ledger.core.amounts import GIVEN
from ledger.runtime.aws_answers import OK_STATUS, LargeAnswers, NoAnswer, check_answer
from ledger.store.dynamodb import answers, signature_age
from ledger.store.dynamodb.connect import ClientOptions
from ledger.store.dynamodb.requests import Request
from ledger.store.dynamodb.transport import PLAIN, Response, Transport, no_credentials
from ledger.store.transports.lean_connection import HttpAnswer
from ledger.store.transports.lean_json import decode, encode
from ledger.store.transports.lean_pool import open_http
from ledger.store.transports.lean_routes import Route, Routes, open_routes
from ledger.store.transports.lean_signing import Seal

OPERATIONS: Mapping[str, str] = {
    "batch_execute_statement": "BatchExecuteStatement",
    "batch_get_item": "BatchGetItem",
    "batch_write_item": "BatchWriteItem",
    "delete_item": "DeleteItem",
    "describe_table": "DescribeTable",
    "execute_transaction": "ExecuteTransaction",
    "get_item": "GetItem",
    "put_item": "PutItem",
    "query": "Query",
    "scan": "Scan",
    "transact_write_items": "TransactWriteItems",
    "update_item": "UpdateItem",
}
"""The operations sent this way, by DynamoDB's own names."""
IN_FUNCTION = "AWS_LAMBDA_FUNCTION_NAME"
"""Set in the environment of every Lambda function, from its start."""


class CredentialsSource(Protocol):
    """Credentials that may be refreshed, as an aiobotocore session returns them."""

    async def get_frozen_credentials(self) -> ReadOnlyCredentials:
        """Return credentials that are valid now, refreshed if need be."""


@dataclass(frozen=True, slots=True)
class _Head:
    """The heads of one operation's requests in a second, up to the signature, and their inputs."""

    text: bytes
    seal: Seal
    route: Route
    more: Mapping[str, str]


class LeanTransport:
    """A `Transport` that sends `OPERATIONS` itself, and the rest through another one."""

    def __init__(
        self,
        routes: Routes,
        *,
        credentials: CredentialsSource | None,
        user_agent: str,
        now: Callable[[], datetime],
        otherwise: Transport,
    ) -> None:
        self._routes = routes
        self._credentials = credentials
        self._more = {"Accept-Encoding": "identity", "User-Agent": user_agent}
        self._is_function = IN_FUNCTION in os.environ
        self._now = now
        self._otherwise = otherwise
        self._heads: dict[str, _Head] = {}
        self._large = LargeAnswers()

    async def send(self, operation: str, request: Request) -> Response:
        """Send one request, once."""
        name = OPERATIONS.get(operation)
        if name is None:
            return await self._otherwise.send(operation, request)
        if self._credentials is None:
            raise NoCredentialsError
        body = encode(request)
        with localcontext(GIVEN):  # the SDK calculates with a date when it renews them
            try:
                credentials = await self._credentials.get_frozen_credentials()
            except BotoCoreError:  # some are an OSError, too
                raise
            except PLAIN as error:
                raise no_credentials(error) from error
            account = credentials.account_id
            route = self._routes.known(account) or await self._routes.of(account)
        signed = self._now()  # after every wait: a late signature must be seen
        signature_age.check(signed)
        head = self._head(name, route, credentials, signed)
        signature = head.seal.signature(body)
        answer = await route.http.post(head.text + signature.encode(), body)
        await self._large.turn(answer.body)
        response = read_answer(answer, name)
        answers.check(operation, request, response)
        return response

    def _head(
        self, name: str, route: Route, credentials: ReadOnlyCredentials, signed: datetime
    ) -> _Head:
        """Return the head of a request up to its signature, nearly always the previous one."""
        more = {**self._more, **trace_headers()} if self._is_function else self._more
        last = self._heads.get(name)
        if (
            last is not None
            and last.route is route
            and last.more == more
            and last.seal.fits(credentials, signed)
        ):
            return last
        seal = route.signer.seal(name, credentials=credentials, at=signed)
        text = route.http.head({**seal.headers, **more, "Authorization": seal.authorization})
        head = self._heads[name] = _Head(text, seal, route, more)
        return head

    async def close(self) -> None:
        """Close every connection, also those of the other transport."""
        await self._routes.close()
        await self._otherwise.close()


def trace_headers() -> Mapping[str, str]:
    """Return the headers by which AWS Lambda detects recursive calls, as the SDKs send them.

    Source: AWS Lambda Developer Guide, "Use Lambda recursive loop detection"; botocore,
    `handlers.add_recursion_detection_header`.
    """
    trace = os.environ.get("_X_AMZN_TRACE_ID")
    if not trace or IN_FUNCTION not in os.environ:
        return {}
    return {"X-Amzn-Trace-Id": quote(trace, safe="-=;:+&[]{}\"',")}


def read_answer(answer: HttpAnswer, operation: str) -> Response:
    """Read an answer as botocore does.

    Raises:
        ClientError: DynamoDB's error.
        NoAnswer: it is not an answer of DynamoDB.
    """
    check_answer(answer.status, answer.headers, answer.body)
    if answer.status != OK_STATUS:
        raise ClientError(read_error(answer), operation)  # type: ignore[arg-type]
    try:
        response = decode(answer.body)
    except ValueError as error:
        raise NoAnswer(reason=f"a body that cannot be read ({error})") from error
    response["ResponseMetadata"] = _metadata(answer)
    return response


def read_error(answer: HttpAnswer) -> dict[str, Any]:
    """Read the error of DynamoDB, or of a server in front of it, as botocore does."""
    try:
        body = decode(answer.body)
    except ValueError:
        body = {}
    code = str(body.get("__type", answer.status)).partition(":")[0].rpartition("#")[2]
    message = body.get("message", body.get("Message", ""))
    error = {"Code": code, "Message": message}
    return {**body, "Error": error, "ResponseMetadata": _metadata(answer)}


def _metadata(answer: HttpAnswer) -> dict[str, Any]:
    return {"HTTPStatusCode": answer.status, "HTTPHeaders": answer.headers}


@asynccontextmanager
async def open_lean(
    session: AioSession,
    client: Any,
    options: ClientOptions,
    *,
    request_timeout: float,
    connections_max: int,
    now: Callable[[], datetime],
    otherwise: Transport,
) -> AsyncIterator[LeanTransport]:
    """Open the lean transport beside a client, to the same endpoints as the client."""
    opening = partial(
        open_http,
        ca_bundle=session.get_config_variable("ca_bundle"),
        request_timeout=request_timeout,
        connections_max=connections_max,
    )
    async with open_routes(client, opening) as routes:
        yield LeanTransport(
            routes,
            credentials=await _credentials(session, options),
            user_agent=_user_agent(session, client),
            now=now,
            otherwise=otherwise,
        )


def _user_agent(session: AioSession, client: Any) -> str:
    """Return the session's name, with the application's own (`sdk_ua_app_id`), as botocore does."""
    name: str = session.user_agent()
    app = client.meta.config.user_agent_appid
    if not app:
        return name
    return f"{name} app/{sanitize_user_agent_string_component(app, allow_hash=True)}"


async def _credentials(session: AioSession, options: ClientOptions) -> CredentialsSource | None:
    if "aws_access_key_id" in options:
        key, secret = options["aws_access_key_id"], options["aws_secret_access_key"]
        given: CredentialsSource = AioCredentials(key, secret)
        return given
    found: CredentialsSource | None = await session.get_credentials()
    return found
