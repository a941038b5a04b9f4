"""Fingerprints of forms, and what a person is told of two that differ."""

import json

from ledger.pipeline.core.form_fingerprints import canonical, differences

PARTS = {"categories": ("a/{X}",), "homes": {"field": ("Row", "Id")}, "limits": [1, 2]}


def test_only_what_differs_is_named() -> None:
    """Parts that were kept as JSON are compared as JSON: a tuple is the list that it became."""
    kept = json.loads(canonical(PARTS))
    assert differences(kept, PARTS) == ""
    said = differences(kept, {**PARTS, "categories": ("a/{X}", "b/{Y}")})
    assert said == 'categories was ["a/{X}"], is ["a/{X}", "b/{Y}"]'
    assert differences({}, PARTS) == "which parts differ is unknown"
