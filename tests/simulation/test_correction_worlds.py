"""Worlds in which operators reverse and count again and again, and what judges them."""

from typing import Any

import pytest
from proof.simulator.correcting import is_correcting
from proof.simulator.correction_audit import COUNTED, REVERSED, CorrectionAudit
from proof.simulator.correctors import is_losing
from proof.simulator.losses import is_lossy
from proof.simulator.run import run_seed

ID = "2026-11-21T06:50:00.00000{}Z#000000000000000{}"


class Said:
    """What an audit finds wrong."""

    def __init__(self) -> None:
        self.rules: list[str] = []
        self.audit = CorrectionAudit(lambda rule, _text: self.rules.append(rule), frozenset())

    def shows(self, region: str, *items: dict[str, Any], counter: str = REVERSED) -> list[str]:
        """Let a region show these entries alone; return what is wrong by then."""
        self.audit.changed(region, counter, {item["sk"]["S"]: item for item in items})
        return self.rules


def entry(number: int, change: int, **said: str) -> dict[str, Any]:
    """Return the item of an entry."""
    texts = {name: {"S": text} for name, text in said.items()}
    return {"sk": {"S": ID.format(number, number)}, "change": {"N": str(change)}, **texts}


def test_two_entries_of_one_call_are_wrong() -> None:
    """In one region, though not at once; each in a region of its own is what a loss may leave."""
    for said, counter in ({"reverses": "a"}, REVERSED), ({"token": "a"}, COUNTED):
        seen = Said()
        assert not seen.shows("here", entry(1, -1, **said), counter=counter)
        assert not seen.shows("there", entry(2, -1, **said), counter=counter)
        assert "once" in seen.shows("here", entry(2, -1, **said), counter=counter)


def test_an_answer_that_no_region_has_is_wrong() -> None:
    """Whatever record says so."""
    seen = Said()
    seen.shows("here", entry(1, -1, reverses="a"))
    seen.audit.answered(REVERSED, ID.format(1, 1), repeated=True, who="x")
    assert not seen.rules
    seen.audit.answered(REVERSED, ID.format(2, 2), repeated=True, who="x")
    assert seen.rules == ["once"]


def test_at_rest_a_reversed_entry_comes_to_nothing() -> None:
    """In every region, and nothing of it is left unmerged."""
    for change, wrong in ((-5, []), (-4, ["once"])):
        seen = Said()
        seen.shows("here", entry(1, 5), entry(2, change, reverses=ID.format(1, 1)))
        seen.audit.check_rest({"here": {}})
        assert seen.rules == wrong
    seen.audit.check_rest({"here": {REVERSED: {"x": entry(1, 5)}}})
    assert "P4" in seen.rules


@pytest.mark.slow
def test_a_share_of_worlds_corrects() -> None:
    """Also of those that lose their home; each holds."""
    chosen = [seed for seed in range(1000) if is_correcting(seed)]
    assert 70 < len(chosen) < 110
    assert sum(map(is_lossy, chosen)) > 25
    for seed in (next(filter(is_losing, chosen)), chosen[0]):
        assert run_seed(seed).violation is None
