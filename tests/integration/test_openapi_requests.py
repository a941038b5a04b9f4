"""No request that the OpenAPI document allows is refused for its form."""

import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import httpx
import pytest
from anyio import from_thread, to_thread
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from support.serving import AWAY, HOME, Served, served
from support.strategies import any_amounts

from ledger.core import amounts
from ledger.core.books import checked_account
from ledger.core.errors import InvalidCounter, InvalidEntry
from ledger.core.keys import checked_new_counter
from ledger.core.visible import unclear_in
from ledger.reads.feed.cursors import Cursor, to_text
from ledger.testing import MemoryGlobalTable

EXAMPLES = 25
"""Requests of each operation."""
PREFERENCES = 150
"""Texts of `Prefer` for all operations: 262 requests of one run have the header."""
_GENERATE = settings(
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
BETWEEN_PARAMETERS = (
    "belongs to an Idempotency-Key: send both",
    "carries no time: send Idempotency-Time",
    "is not the time that the Idempotency-Key carries",
    "the key is in the header Idempotency-Key, or in the body: send one",
    "a total at a moment can be neither steady nor cached",
    "a steady total is never cached",
    "effective=True needs a date",
    "changes are effective from a date",
    "the feed goes on after a cursor, or begins at a time",
    "after is a cursor of the feed of",  # other counters
    "after must begin with the prefix",
    "since must not be after until",
    "at most 1,000 periods are returned",
    "budgets must be a list of different counters",  # that of the path, and those of the body
    "was acknowledged, or read",  # the id has a place, and there are no parts
    "of its parts",  # the change, or the id, is not one of them
    "in a list with a key each change is an amount alone",  # the key may be a header
    "of a list with a key are not written together",
    "the legs of a transfer must sum to 0 in each asset",
    "a transfer must name an account once in an asset",
)
"""Rules between two headers, two parameters, or one and the body: OpenAPI has no words for them."""
OF_CLOCK_OR_TABLE = (
    "ahead of the clock",
    "must be in the future",
    "must not be in the future",
    "is not later",  # than the count before
    "stands for a count of",
    "no sums by effective date are kept",
    "422 amount must be a multiple of",  # as the budget's limit has it
    "422 amount must have at most 38 digits",  # what a count corrects the total by
    "its history shows the change that is wrong",  # of a total that 38 digits do not hold
    "the attributes of a counter may have",
    "a counter may have 16 attributes",
    "is no book: it matches no pattern of `books`",
    "is a book, by a pattern of `books`",
    "takes no credits: its pattern must have `credits:on`",
)
"""What another request, or the same at another time, is not refused for."""


def _is_counter(text: str) -> bool:
    try:
        checked_new_counter(text)
    except InvalidCounter:
        return False
    return True


def _is_account(text: str) -> bool:
    try:
        checked_account(text)
    except InvalidEntry:
        return False
    return True


def _formats() -> Mapping[str, st.SearchStrategy[str]]:
    """Return all that the service takes of each format that the document has words for alone."""
    return {
        "counter-id": st.text(min_size=1, max_size=60).filter(_is_counter),
        "account": st.text(min_size=1, max_size=60).filter(_is_account),
        "region": st.sampled_from([HOME, AWAY]),
        "attribute": st.text(min_size=1, max_size=16).filter(str.isprintable),
        "visible": st.text(min_size=1, max_size=60).filter(lambda text: unclear_in(text) is None),
        "raise-id": st.text(min_size=1, max_size=16).filter(str.isprintable),
        "parts": st.lists(any_amounts().map(amounts.to_text), min_size=1, max_size=3).map(" ".join),
        "feed-cursor": st.just(to_text(Cursor(f"{HOME}/memory", 10**10))),
    }


def _preferences(document: dict[str, Any]) -> list[str]:
    """Draw texts of `Prefer` by its pattern, and let each operation take its header from them.

    The pattern takes long to draw from, and each operation would draw the same texts again.
    """
    named = [
        parameter
        for operations in document["paths"].values()
        for operation in operations.values()
        for parameter in operation.get("parameters", ())
        if parameter["name"] == "Prefer"
    ]
    schema = named[0]["schema"]
    assert all(parameter["schema"] == schema for parameter in named)
    of_headers = st.characters(max_codepoint=255, exclude_categories=["Cc"])
    texts = st.from_regex(schema["pattern"], fullmatch=True, alphabet=of_headers)
    drawn = set[str]()

    @seed(1)
    @settings(_GENERATE, max_examples=PREFERENCES)
    @given(text=texts.map(str.strip).filter(lambda text: len(text) <= schema["maxLength"]))
    def draw(text: str) -> None:
        drawn.add(text)

    draw()
    for parameter in named:
        parameter["schema"] = {"type": "string", "format": "preference"}
    return sorted(drawn)


def _refusals(answer: httpx.Response) -> list[str]:
    """Return what is refused for its form: the request, or one of its entries."""
    found = answer.json() if answer.headers["content-type"].endswith("json") else {}
    results = found.get("results", ()) if answer.is_success else [{"problem": found, **found}]
    problems = [one["problem"] for one in results if one["status"] in {400, 413, 415, 422}]
    said = [f"{problem['status']} {problem['detail']}" for problem in problems]
    others = BETWEEN_PARAMETERS + OF_CLOCK_OR_TABLE
    return [text for text in said if not any(other in text for other in others)]


def _request_of(case: Any) -> dict[str, Any]:
    """Return what httpx sends; no request waits for what does not come."""
    if (case.query or {}).get("wait"):
        case.query = {**case.query, "wait": 0}
    made = case.as_transport_kwargs(base_url="http://ledger.test")
    headers = [(name, str(value).encode()) for name, value in made["headers"].items()]
    named = {name: made[name] for name in ("method", "url", "params") if name in made}
    return {**named, "headers": headers, "json": made.get("json")}


async def _asked(service: Served, request: dict[str, Any]) -> list[str]:
    if request["json"] is None:
        del request["json"]
    return _refusals(await service.http.request(**request))


def _draw(service: Served, document: dict[str, Any], refused: dict[str, list[str]]) -> None:
    """Draw requests of every operation, send each, and note what was refused."""
    schemathesis: Any = import_module("schemathesis")  # a tool, which not every tier has

    drawn = {"preference": st.sampled_from(_preferences(document))}
    for name, strategy in {**_formats(), **drawn}.items():
        schemathesis.openapi.format(name, strategy)
    for found in schemathesis.openapi.from_dict(document).get_all_operations():
        refused[found.ok().label] = _refused_of(service, found.ok())


def _refused_of(service: Served, operation: Any) -> list[str]:
    refused = list[str]()

    @seed(1)
    @settings(_GENERATE, max_examples=EXAMPLES)
    @given(case=operation.as_strategy())
    def sent(case: Any) -> None:
        refused.extend(from_thread.run(_asked, service, _request_of(case)))

    sent()
    return refused


@pytest.mark.tools("schemathesis")
@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_no_request_of_the_document_is_refused_for_its_form() -> None:
    """Drawn from the schemas alone, of every operation; what else refuses one is said above."""
    table = MemoryGlobalTable(
        index=("*",),
        periods={"*": {"hours": 72, "days": 62}},
        budgets={"*": {}},
        books=("book/*",),
    )
    refused = dict[str, list[str]]()
    async with served(table, body_max=10_000_000) as service:
        service.context.is_brief = True
        document = (await service.http.get("/openapi.json")).json()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the tool's own
            await to_thread.run_sync(_draw, service, document, refused)
    assert len(refused) > len(document["paths"])
    assert {label: found for label, found in refused.items() if found} == {}
