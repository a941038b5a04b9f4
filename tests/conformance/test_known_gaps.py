"""What is written down about engines is what their tests expect of them."""

import re
from pathlib import Path

from conformance.known_gaps import GAPS, SILENT

HERE = Path(__file__).parent
ROW = re.compile(
    r"^\| (?P<engine>[^|]+) \| `(?P<test>test_\w+)` \| (?P<does>[^|]+) \|$", re.MULTILINE
)


def test_the_readme_tells_of_every_gap() -> None:
    """The table of the README has the gaps that tests expect, no more and no less."""
    told = [row.group("engine", "test", "does") for row in ROW.finditer(_text("README.md"))]
    expected = [(engine, *gap) for engine, gaps in GAPS.items() for gap in gaps.items()]
    assert sorted(told) == sorted(expected)


def test_the_readme_tells_of_every_kind_that_dynoxide_does_silently() -> None:
    """By the same words."""
    told = _text("README.md")
    assert [kind for kind, does in SILENT.items() if f"| {kind} | {does} |" not in told] == []


def test_each_gap_is_shown_by_a_test() -> None:
    """No gap is of a test that does not exist, which nothing would ever hold against it."""
    source = "".join(_text(path.name) for path in HERE.glob("*.py"))
    missing = {test for gaps in GAPS.values() for test in gaps if f"def {test}(" not in source}
    assert missing == set()


def _text(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
