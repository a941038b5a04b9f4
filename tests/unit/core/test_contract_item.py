"""The contract as an item: what was written is read again, and what was edited is refused."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from support.contracts import make_terms
from support.ledgers import AWAY

from ledger.core import contract_item as module
from ledger.core.contract import NO_HOME
from ledger.core.contract_item import (
    FORMAT,
    Contract,
    contract_item,
    contract_key,
    contract_of,
    terms_of_values,
    terms_to_values,
)
from ledger.core.entry import AttributeValue
from ledger.core.errors import ContractDamaged, UpgradeNeeded

SINCE = datetime(2026, 11, 23, tzinfo=UTC)
TERMS = make_terms(shards={"visits-*": [{"count": 4}, {"count": 16, "since": SINCE}], "ö": 2})
COMING = replace(TERMS, settle=4000.5, home=AWAY)
IN_FORCE = Contract(terms=TERMS, revision=4)
PENDING = Contract(terms=TERMS, revision=5, coming=COMING)


def edited(contract: Contract, **attributes: AttributeValue) -> dict[str, AttributeValue]:
    """Return a contract's item with attributes changed and the digest made to fit again."""
    item = contract_item(contract) | attributes
    return {**item, "digest": {"S": module._digest(item)}}


METERED = Contract(terms=make_terms(periods={"usage/*": {"hours": 0, "zone": "Europe/Berlin"}}))
INDEXED = Contract(terms=make_terms(index=("usage/*", "*")))
COMBINED = Contract(terms=make_terms(combine=("usage/*", "votes")))
CREDITED = Contract(terms=make_terms(budgets={"stock/*": {"credits": True}}))
LIMITED = Contract(terms=make_terms(budgets={"key/*": {"window": "day", "late": "1h"}}))


@pytest.mark.parametrize(
    "contract",
    [
        IN_FORCE,
        PENDING,
        replace(IN_FORCE, generation=12),
        METERED,
        INDEXED,
        COMBINED,
        CREDITED,
        LIMITED,
    ],
)
def test_what_was_written_is_read_again(contract: Contract) -> None:
    """Every value comes back, dates of shards and the terms that are coming among them."""
    assert contract_of(contract_item(contract)) == contract


def test_a_release_that_knows_no_credits_reads_a_rule_without_them() -> None:
    """And refuses the table if there are any: it would close their grants too early."""
    assert "credits" not in contract_item(LIMITED)["terms"]["S"]
    assert "credits" in contract_item(CREDITED)["terms"]["S"]


def test_each_lost_region_begins_a_generation_of_nets() -> None:
    """Home or not, and once the loss is in force; a region that was lost twice counts twice."""
    once, twice = replace(TERMS, lost=("x",)), replace(TERMS, lost=("x", "x"))
    assert IN_FORCE.obeyed.generation == 1
    assert Contract(terms=once).obeyed.generation == 2
    assert Contract(terms=twice, generation=2).obeyed.generation == 3
    assert Contract(terms=TERMS, revision=1, coming=once).obeyed.generation == 1
    assert Contract(terms=TERMS, revision=1, generation=2, coming=once).obeyed.generation == 2


def test_items_of_generations_sort_by_their_number() -> None:
    """The highest generation has the last sort key."""
    keys = [contract_key(generation) for generation in (1, 2, 10, 9999)]
    assert keys == sorted(keys)
    assert keys[0] == ("~contract", "table#0001")


@pytest.mark.parametrize("name", ["terms", "next", "revision", "sk"])
def test_an_edited_item_is_damaged(name: str) -> None:
    """Any attribute that decides something, changed by hand, no longer fits the digest."""
    item = contract_item(PENDING)
    changes: dict[str, AttributeValue] = {
        "terms": {"S": item["terms"]["S"].replace("1320.0", "60.0")},
        "next": {"S": item["next"]["S"].replace("4000.5", "60.0")},
        "revision": {"N": "7"},
        "sk": {"S": "table#0002"},
    }
    assert changes[name] != item[name]
    with pytest.raises(ContractDamaged, match=r"table#000. is damaged|edited by hand"):
        contract_of({**item, name: changes[name]})


@pytest.mark.parametrize(
    ("attributes", "rule"),
    [
        ({"sk": {"S": "table#1"}}, "sk must be table#GENERATION"),
        ({"revision": {"S": "4"}}, "revision a whole number"),
        ({"revision": {"N": "-4"}}, "revision a whole number"),
        ({"revision": {"N": "5"}}, "an odd revision announces a change"),
        ({"terms": {"S": "[]"}}, "terms cannot be read"),
        ({"terms": {"S": "{"}}, "terms cannot be read"),
        ({"terms": {"S": '{"format":1}'}}, "terms cannot be read: KeyError"),
    ],
)
def test_an_item_out_of_form_is_damaged(attributes: dict[str, Any], rule: str) -> None:
    """A digest alone makes no contract: form, revision and values are looked at."""
    with pytest.raises(ContractDamaged, match=rule):
        contract_of(edited(IN_FORCE, **attributes))


def test_an_even_revision_announces_nothing() -> None:
    """Terms that are coming beside an even revision are no state of a change."""
    with pytest.raises(ContractDamaged, match="an even one is in force"):
        contract_of(edited(PENDING, revision={"N": "6"}))


@pytest.mark.parametrize("name", ["terms", "next"])
def test_a_newer_format_asks_for_an_upgrade(name: str) -> None:
    """A release that cannot know what newer items mean does not guess, pending or in force."""
    values = {**terms_to_values(TERMS), "format": FORMAT + 1, "settle": "in another form"}
    item = edited(PENDING, **{name: {"S": json.dumps(values)}})
    with pytest.raises(UpgradeNeeded, match=f"format {FORMAT + 1}, this release knows up to"):
        contract_of(item)


def test_terms_of_before_combine_are_read() -> None:
    """A table may have been made, or last changed, by a release that does not know the term."""
    values = terms_to_values(COMBINED.terms)
    del values["combine"]
    terms = contract_of(edited(COMBINED, terms={"S": json.dumps(values)})).terms
    assert terms == replace(COMBINED.terms, combine=())


def test_plain_values_are_json_and_come_back() -> None:
    """What commands print can be read as terms again; what only pending terms have is left out."""
    values = json.loads(json.dumps(terms_to_values(TERMS)))
    assert "closed" not in values
    assert "announced" not in values
    assert terms_of_values(values) == TERMS


def test_a_pending_contract_is_obeyed_by_its_stricter_side() -> None:
    """In force: its terms. Pending: the stricter; settings may repeat the old or the new."""
    assert (IN_FORCE.obeyed, IN_FORCE.accepted) == (TERMS, (TERMS,))
    assert (PENDING.obeyed.settle, PENDING.obeyed.home) == (4000.5, NO_HOME)
    assert PENDING.accepted == (TERMS, COMING)


def test_generation_comes_before_revision() -> None:
    """A higher generation supersedes any revision of a lower one."""
    later = replace(IN_FORCE, generation=2, revision=0)
    assert IN_FORCE.is_older_than(PENDING)
    assert PENDING.is_older_than(later)
    assert not IN_FORCE.is_older_than(IN_FORCE)


def test_since_when_a_change_is_pending_is_for_people_alone() -> None:
    """It is read again, and neither the digest nor equality has it."""
    dated = replace(PENDING, since=SINCE)
    assert contract_of(contract_item(dated)).since == SINCE
    assert dated == PENDING
    undated, item = contract_item(PENDING), contract_item(dated)
    assert item["digest"] == undated["digest"]
    for unreadable in ("yesterday", ""):
        assert contract_of({**item, "since": {"S": unreadable}}).since is None
