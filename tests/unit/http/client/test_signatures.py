"""The client has the library's methods: the same parameters, in name, order, kind and default."""

import inspect
from typing import Any

import pytest

import ledger
from ledger import sync as library_sync
from ledger.http import client
from ledger.http.client import books as client_books
from ledger.http.client import sync as client_sync

DIFFERENT = {
    "open": "is given a URL, and what a caller shows, in place of settings and a region",
    "watch": "calls a function of the process that reads; the service has webhooks",
    "store": "is the table's, which a client does not reach",
    "close": "is the same, and no coroutine in the plain classes",
    "budget": "is a method of the table in the library; see `test_budget_recovery.py`",
    "budgets": "as `budget`",
    "book": "as `budget`; `Book` itself has the same signatures",
    "live_totals": "is the service's stream of events; the library has `watch`",
}
"""Public names that the client has otherwise than the library, or only one of them; and why."""


def public(kind: type) -> set[str]:
    """Return the public names of a class."""
    return {name for name in dir(kind) if not name.startswith("_")}


def shape(method: Any) -> Any:
    """Return what a caller writes and gets."""
    signature = inspect.signature(method)
    parameters = [
        (parameter.name, parameter.kind, parameter.default)
        for parameter in signature.parameters.values()
    ]
    return parameters, signature.return_annotation


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [(ledger.Ledger, client.Ledger), (library_sync.Ledger, client_sync.Ledger)],
)
def test_the_same_names_have_the_same_signatures(theirs: type, ours: type) -> None:
    """But for those that are listed, each with its reason."""
    same = (public(theirs) & public(ours)) - set(DIFFERENT)
    assert {"record", "record_many", "total", "history", "counters", "describe"} <= same
    for name in sorted(same):
        assert shape(getattr(ours, name)) == shape(getattr(theirs, name)), name


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [(ledger.Ledger, client.Ledger), (library_sync.Ledger, client_sync.Ledger)],
)
def test_what_only_one_has_is_listed(theirs: type, ours: type) -> None:
    """So a method that the library gets is not forgotten here."""
    assert (public(theirs) ^ public(ours)) - {"settings", "region", "metrics", "url"} <= set(
        DIFFERENT
    )


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [(ledger.Book, client_books.Book), (library_sync.Book, client_sync.Book)],
)
def test_a_book_is_that_of_the_library(theirs: type, ours: type) -> None:
    """All that one has, the other has, too."""
    assert public(theirs) == public(ours) >= {"transfer", "transfer_many", "balances", "history"}
    for name in sorted(public(theirs) - {"name"}):
        assert shape(getattr(ours, name)) == shape(getattr(theirs, name)), name


@pytest.mark.parametrize("name", sorted(public(client.Ledger) & public(ledger.Ledger)))
def test_each_method_says_what_it_guarantees(name: str) -> None:
    """In its docstring, with what it raises."""
    text = getattr(client.Ledger, name).__doc__
    assert text
    assert "Raises:" in text
