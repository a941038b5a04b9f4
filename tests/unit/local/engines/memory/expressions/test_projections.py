import pytest
from support.documents import ITEM, KEY, NAMES

from ledger.local.engines.memory.expressions.documents import projection
from ledger.local.engines.memory.expressions.placeholders import Placeholders
from ledger.local.engines.port import ApiError, Image

INNER = {"M": {"z": {"S": "q"}}}


def shown(expression: str) -> Image:
    """Give what a projection shows of the item."""
    read = projection(expression, Placeholders(NAMES, {}), KEY)
    assert read is not None
    return read.of(ITEM)


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("s", {"s": {"S": "hello"}}),
        ("#and", {"s": {"S": "hello"}}),
        ("m.#x", {"m": {"M": {"x": {"N": "1"}}}}),
        ("m.x, m.y.z", {"m": {"M": {"x": {"N": "1"}, "y": INNER}}}),
        ("m.y", {"m": {"M": {"y": INNER}}}),
        ("l[0]", {"l": {"L": [{"N": "1"}]}}),
        ("l[2],l[0]", {"l": {"L": [{"N": "1"}, {"S": "x"}]}}),
        ("l[1], n", {"l": {"L": [{"N": "2"}]}, "n": {"N": "5"}}),
        ("pk", {"pk": {"S": "a"}}),
    ],
)
def test_parts(expression: str, parts: Image) -> None:
    """The named parts, with the maps and lists on the way; elements in the list's own order."""
    assert shown(expression) == parts


@pytest.mark.parametrize(
    "expression", ["zz", "m.q", "m.q.r", "q.r", "l[9]", "l[0].x", "s.x", "m[0]", "l.x"]
)
def test_missing_parts(expression: str) -> None:
    """Of what is not there nothing is shown, not even the map that it is not in."""
    assert shown(expression) == {}


@pytest.mark.parametrize(
    "expression",
    [
        *("m.x,m", "m,m.x", "m.x,m.x", "l[0],l[0]", "m.x, m[0]", "s, #and"),
        *("", "s,", ":s", "s n", "size(s)", "#a", "s,,n", "s AND n", "status", "pk.x", "l[0"),
    ],
)
def test_refused(expression: str) -> None:
    """Paths that overlap or conflict, reserved and undefined names, and what is no path."""
    with pytest.raises(ApiError) as caught:
        shown(expression)
    assert caught.value.kind == "ValidationException"
