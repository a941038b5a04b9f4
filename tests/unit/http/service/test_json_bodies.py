"""Bodies of requests as JSON: refused by counts, before anything is looked at for itself."""

import json
from contextlib import suppress
from time import process_time
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from support.tiers import few_fast

from ledger.core.errors import InvalidInput
from ledger.http.service import json_bodies
from ledger.http.service.body_values import Body
from ledger.http.service.budget_request_models import BudgetBody, HoldBody, SpendBody
from ledger.http.service.json_bodies import _has_too_many, read_body
from ledger.http.service.request_models import (
    DescriptionBody,
    EntriesBody,
    EntryBody,
    RetryBody,
)

ENTRY = TypeAdapter(EntryBody)


@given(st.binary(max_size=200))
def test_no_bytes_end_in_another_error(body: bytes) -> None:
    """Whatever comes is read or refused."""
    kinds: tuple[TypeAdapter[Any], ...] = (ENTRY, TypeAdapter(EntriesBody), TypeAdapter(RetryBody))
    for kind in kinds:
        with suppress(InvalidInput):
            read_body(kind, body)


LENGTH = 1_000_000


def filled(begin: str, part: str, end: str) -> bytes:
    """Return a body as long as one may be, of one part again and again."""
    return (begin + part * (LENGTH // len(part)) + end).encode()


MANY = ",".join(f'"a{number}":[]' for number in range(80_000))
HOSTILE: dict[str, tuple[type[Body], bytes]] = {
    "attributes": (DescriptionBody, f'{{"attributes":{{{MANY}}}}}'.encode()),
    "members": (EntryBody, f"{{{MANY}}}".encode()),
    "the same member": (EntryBody, filled("{", '"a":0,', '"a":0}')),
    "members of entries": (
        EntriesBody,
        filled('{"entries":[', "{" + ",".join(f'"{n}":0' for n in range(30)) + "},", "{}]}"),
    ),
    "objects": (EntriesBody, filled('{"entries":[', "{},", "{}]}")),
    "numbers": (EntriesBody, filled('{"entries":[', "0,", "0]}")),
    "lists": (EntryBody, filled('{"change":[', "[],", "0]}")),
    "names": (SpendBody, filled('{"amount":"1","also":[', '"",', '""]}')),
    "depth": (EntryBody, filled("", "[", "")),
    "depth of objects": (EntryBody, filled("", '{"a":', "")),
    "digits": (EntryBody, filled('{"change":', "9", "}")),
    "digits of an amount": (EntryBody, filled('{"change":"', "9", '"}')),
    "quotes": (EntryBody, filled('"', '\\",,', "\\")),
    "texts in lists": (EntryBody, filled("", '["",', "")),
    "texts in objects": (EntryBody, filled("", '{"":', "")),
    "brackets in texts": (EntryBody, filled("[", '"{",', '""]')),
    "backslashes": (EntryBody, filled('["', "\\\\,", '"]')),
    "many digits": (EntryBody, filled("[", "1" * 4_000 + ",", "1]")),
}


def cost(kind: type[Body], body: bytes) -> float:
    """Return the processor time that a body takes, in the best of some tries."""
    adapter, costs = TypeAdapter[Body](kind), list[float]()
    for _ in range(5):
        began = process_time()
        with suppress(InvalidInput):
            read_body(adapter, body)
        costs.append(process_time() - began)
    return min(costs)


@pytest.mark.parametrize("name", few_fast(HOSTILE, fast=3))
def test_no_body_costs_much_more_than_one_of_as_many_entries_as_may_be(name: str) -> None:
    """It is refused by counts, before anything of it is looked at for itself."""
    entry = {"counter": "c" * 20, "change": "12.50", "note": "n" * 900, "effective": "2026-11-24"}
    most = cost(EntriesBody, json.dumps({"entries": [entry] * 1_000}).encode())
    kind, body = HOSTILE[name]
    with pytest.raises(InvalidInput) as caught:
        read_body(TypeAdapter[Body](kind), body)
    assert len(str(caught.value)) < 400
    assert cost(kind, body) < 5 * most


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        (EntryBody, b'{"change": ' + b"9" * 5_000 + b"}", "invalid JSON"),
        (EntryBody, b'{"change": "\xff"}', "invalid JSON: 'utf-8'"),
        (EntryBody, b"[" * 900, "invalid JSON"),
        (HoldBody, b'{"amount": "1", "expires": ' + b"9" * 4_000 + b"}", "expires must be seconds"),
        (HoldBody, b'{"amount": "1", "expires": 1e999}', "expires must be seconds"),
        (SpendBody, b'{"amount": "1", "wait": ' + b"9" * 4_000 + b"}", "wait"),
        (SpendBody, b'{"amount": "1", "wait": 1e999}', "wait"),
        (BudgetBody, b'{"limit": "1", "weights": {"a": 1e999}}', "weights.a"),
        (EntryBody, b'{"change": "1", "note": "\\ud800"}', "invalid JSON"),
    ],
)
def test_what_no_number_or_text_can_be_is_refused(
    kind: type[Body], body: bytes, message: str
) -> None:
    """As any value that breaks a rule: by its place, and never by a defect."""
    with pytest.raises(InvalidInput, match=message):
        read_body(TypeAdapter[Body](kind), body)


def test_signs_in_texts_are_no_values() -> None:
    """A note of commas and brackets is one value."""
    body = json.dumps({"change": "1", "note": ',[{"' * 10_000}).encode()
    assert read_body(TypeAdapter(EntryBody), body).note == ',[{"' * 10_000


@given(st.recursive(st.text(',[{"\\\\a'), lambda part: st.lists(part, max_size=4), max_leaves=40))
def test_values_are_counted_outside_of_texts(value: object) -> None:
    """However quotes and backslashes follow each other in these."""
    marks = sum(json.dumps(_without_texts(value)).count(mark) for mark in ",[{")
    text = json.dumps(value).encode()
    with patch.object(json_bodies, "VALUES_MAX", marks):
        assert not _has_too_many(text)
    with patch.object(json_bodies, "VALUES_MAX", marks - 1):
        assert _has_too_many(text)


def _without_texts(value: object) -> object:
    return [_without_texts(part) for part in value] if isinstance(value, list) else 0


def test_a_name_that_means_nothing_is_shown_cut_and_escaped() -> None:
    """It is as long as a body may be, and may hold what a terminal obeys."""
    body = json.dumps({"change": "1", "\u202e\x1b" + "x" * 500_000: 1}).encode()
    with pytest.raises(InvalidInput, match=r"body: \\u202e\\x1bxxx") as caught:
        read_body(ENTRY, body)
    assert len(str(caught.value)) < 300
