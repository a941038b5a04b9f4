"""The head of a request: what stands twice, or can be read in two ways, is refused by its name."""

import re
from contextlib import suppress
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.serving import served

from ledger.core.errors import InvalidInput
from ledger.http.service.heads import check_headers, check_query, check_target
from ledger.http.service.query_models import LISTS

HOST = (b"host", b"ledger.test")
ONCE = (
    "Authorization", "Content-Encoding", "Content-Length", "Content-Type", "Date", "Expect", "Host",
    "Idempotency-Key", "Idempotency-Time", "If-Match", "If-Modified-Since", "If-None-Match",
    "If-Range", "If-Unmodified-Since", "Last-Event-ID", "Origin", "Range", "Referer", "Traceparent",
    "Transfer-Encoding", "User-Agent", "Of-A-Later-Time",
)  # fmt: skip
LISTED = (
    "Accept", "Accept-Encoding", "Cache-Control", "Connection", "Forwarded", "Prefer", "Tracestate",
    "Via", "X-Amzn-Trace-Id", "X-Forwarded-For",
)  # fmt: skip


@pytest.mark.parametrize("name", ONCE)
@pytest.mark.parametrize("second", [b"a", b"b", b""])
def test_a_header_that_is_no_list_is_there_once(name: str, second: bytes) -> None:
    """The same or another value, in any case of its letters, known or not."""
    headers = [(name.lower().encode(), b"a"), (name.encode(), second)]
    with pytest.raises(InvalidInput, match=f"(?i)^{name} must be there once, got 2 of them"):
        check_headers([HOST, *headers] if name != "Host" else headers, "1.1")


@pytest.mark.parametrize("name", LISTED)
def test_a_header_that_is_a_list_may_be_there_again(name: str) -> None:
    """So may one that proxies add."""
    check_headers([HOST, (name.lower().encode(), b"a"), (name.encode(), b"b")], "1.1")


def test_a_request_names_its_host() -> None:
    """But for one of HTTP/1.0, whose time had none; with or without a port."""
    with pytest.raises(InvalidInput, match=r"Host is missing: a request of HTTP/1\.1 has it"):
        check_headers([], "1.1")
    check_headers([], "1.0")
    for host in ("a.test", "a.test:8080", "127.0.0.1", "[::1]:80"):
        check_headers([(b"host", host.encode())], "1.1")
    for host in ("", "a b", "a/b", "a@b", "a:b", "[::1", "a:1:2", "\xe4.test", "a\\b", "http://a"):
        with pytest.raises(InvalidInput, match=f"Host must be .*got {re.escape(repr(host))}"):
            check_headers([(b"host", host.encode("latin-1"))], "1.1")


@pytest.mark.parametrize("version", ["0.9", "1.2", "2.0"])
def test_another_version_of_http_is_refused(version: str) -> None:
    """It has other rules."""
    with pytest.raises(InvalidInput, match=f"HTTP must be 1.0 or 1.1, got '{version}'"):
        check_headers([HOST], version)


@pytest.mark.parametrize("coding", ["", "gzip", "gzip, chunked", "identity", "xchunked"])
def test_a_body_is_chunked_or_has_a_length(coding: str) -> None:
    """Any other coding could be read in another way by a proxy; HTTP/1.0 has none."""
    name = b"transfer-encoding"
    check_headers([HOST, (name, b"Chunked")], "1.1")
    with pytest.raises(InvalidInput, match="Transfer-Encoding must be chunked"):
        check_headers([HOST, (name, coding.encode())], "1.1")
    with pytest.raises(InvalidInput, match=r"got 'chunked' in HTTP/1\.0"):
        check_headers([HOST, (name, b"chunked")], "1.0")


def test_a_target_is_of_the_host() -> None:
    """A path, or all of a URL of the Host."""
    for target in ("/v1/x", "//v1", "*", "http://a.test/v1", "HTTPS://A.test?x"):
        check_target(target, "a.test")
    for target in ("http://b.test/v1", "http://u@a.test/", "foo://a.test/", "http:///v1", "v1", ""):
        with pytest.raises(InvalidInput, match="a target must be a path"):
            check_target(target, "a.test")
    for target in ("/v1#b", "/v1?a#", "http://a.test/#"):
        with pytest.raises(InvalidInput, match="a target has no fragment"):
            check_target(target, "a.test")


@pytest.mark.parametrize(
    "query", [b"max_age=0&max_age=9", b"max_age=0&max%5Fage=0", b"x&x=", b"=&="]
)
def test_a_name_of_a_query_is_there_once(query: bytes) -> None:
    """However it is written."""
    with pytest.raises(InvalidInput, match=r"query: '.*' must be there once, got 2 of them"):
        check_query(query)


@pytest.mark.parametrize("query", [b"id=a&id=b&id=a", b"counter=a&counter=b&limit=1", b"", b"a&&b"])
def test_a_list_of_a_query_names_each_of_its_values(query: bytes) -> None:
    """Ids of counters."""
    check_query(query)


@pytest.mark.parametrize("query", [b"id=%FF", b"id=%zz", b"id=100%", b"%80=1", b"id=\xc3\xa9"])
def test_a_query_is_percent_encoded_utf8(query: bytes) -> None:
    """As a path is: other bytes would be read as other names."""
    with pytest.raises(InvalidInput, match=r"query '.*' is not percent-encoded UTF-8"):
        check_query(query)


@given(
    st.lists(
        st.sampled_from(["%", "4", "1", "C3", "A9", "%C3%A9", "%26", "&", "=", "+", "\\", "x"])
    )
)
def test_a_query_is_read_as_endpoints_read_it(parts: list[str]) -> None:
    """What passes has no name twice, by Python's own parser, and no code that this refuses."""
    query = "".join(parts)
    with suppress(InvalidInput):
        check_query(query.encode())
        names = [name for name, _ in parse_qsl(query, keep_blank_values=True, errors="strict")]
        assert len(names) == len(set(names))
        assert not re.search("%(?![0-9A-F]{2})", query)


async def test_the_lists_of_queries_are_those_of_the_document() -> None:
    """Every parameter of a query that is an array there, and no other."""
    async with served() as service:
        paths = (await service.http.get("/openapi.json")).json()["paths"]
    parameters = [
        parameter
        for operations in paths.values()
        for operation in operations.values()
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query"
    ]
    arrays = {one["name"] for one in parameters if one["schema"].get("type") == "array"}
    assert arrays == LISTS
    assert not arrays & {one["name"] for one in parameters if one["schema"].get("type") != "array"}
