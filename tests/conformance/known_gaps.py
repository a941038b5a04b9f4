"""What each engine is known to do otherwise than the port promises, test by test.

A test named here must fail on that engine, so that a gap that was closed is noticed. The README
beside this file shows the same to readers; `test_known_gaps.py` compares the two.
"""

from collections.abc import Mapping
from importlib.metadata import version

import pytest

MOTO = "moto 5.2.5"
DYNOXIDE = "dynoxide 1.2.1"
DYNAMODB_LOCAL = "DynamoDB Local 3.3.1"

GAPS: Mapping[str, Mapping[str, str]] = {
    MOTO: {
        "test_a_token_makes_a_repeat_harmless": "applies a repeated transaction again",
        "test_a_token_stands_for_one_transaction": "takes a token for another transaction",
        "test_an_update_can_bring_a_number_to_zero": "answers 0.0 for 0.5 - 0.5, not trimmed to 0",
        "test_a_sum_of_39_digits_is_refused": "stores 39 digits",
        "test_a_transaction_adds_within_a_bound": "rounds a sum of 38 digits",
        "test_a_condition_on_what_has_no_such_kind_is_false": "answers 500",
        "test_each_write_has_an_outcome_of_its_own": "takes no condition beside a statement's key",
        "test_each_keeps_conditions": "takes no condition beside a statement's key",
        "test_each_stores_what_it_was_given": "takes no map as the parameter of a statement",
        "test_a_write_that_is_refused_leaves_the_others": "answers 500",
        "test_writes_of_one_request_go_to_two_tables": "answers 500",
        "test_an_insert_writes_once": "answers 500 where an item is there",
        "test_each_insert_has_an_outcome_of_its_own": "answers 500 where an item is there",
        "test_inserts_of_a_transaction_are_all_or_none": "answers 500 where an item is there",
    },
    DYNOXIDE: {
        "test_a_segment_goes_on_behind_an_item_that_was_deleted": "ends the segment there",
    },
    DYNAMODB_LOCAL: {
        "test_an_update_can_bring_a_number_to_zero": "answers 0.0 for 0.5 - 0.5, not trimmed to 0",
        "test_transactions": "of the actions of a transaction that cost the same, reports one",
        "test_transactions_that_delete_nothing": "reports 1 unit, not 2 for each action",
        "test_pages_of_nothing": "reports 0 units for a page without items, not the least unit",
    },
}
"""Engine, test, what the engine does."""

SILENT: Mapping[str, str] = {
    "an operand compared with itself": "compares it",
    "IN with over 100 operands": "takes any number",
    "attribute_type of no type": "is a condition that is false",
    "begins_with of a value that is no text": "is a condition that is false",
    "a name that begins with _, as it is": "takes it",
    "an empty name within a map": "takes it",
    "a path below a key attribute": "finds nothing there",
    "paths of which one takes a list and one a map": "takes both",
    "SET beyond a list's end": "fills the places between with NULL, in place of appending",
    "REMOVE of two places of a list": "counts the second place after the first removal",
    "REMOVE below a map that is not there": "does nothing",
    "a page after a key of another partition": "answers an empty page",
    "an action of a transaction that is two": "does the first, and leaves the second out",
    "a statement with fewer parameters than marks": "answers no items",
}
"""What dynoxide does without an error, and otherwise than DynamoDB, by kind of request."""


def expect_gap(request: pytest.FixtureRequest, engine: str) -> None:
    """Let the test fail, and fail where it does not, if this engine has the gap it shows.

    Of moto any version can be installed, one without the gap too; the others are pinned.
    """
    reason = GAPS[engine].get(request.node.originalname)
    if reason is None:
        return
    strict = engine != MOTO or version("moto") in MOTO
    wrong = (AssertionError, pytest.fail.Exception)
    request.applymarker(pytest.mark.xfail(reason=reason, strict=strict, raises=wrong))
