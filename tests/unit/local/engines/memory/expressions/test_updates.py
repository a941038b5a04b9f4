from typing import Any

import pytest
from support.documents import ITEM, KEY, placeholders

from ledger.local.engines.memory.expressions.updates import update
from ledger.local.engines.port import ApiError, Image, Unfit

# What AWS's DynamoDB Local 3.3.1 says of each; None for an attribute that is gone.
CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("SET zz = :n", {"zz": {"N": "5"}}),
    ("SET n = n + :one", {"n": {"N": "6"}}),
    ("SET n = n + n", {"n": {"N": "10"}}),
    ("SET zz = :one + :ten", {"zz": {"N": "11"}}),
    ("SET zz = :one - :ten", {"zz": {"N": "-9"}}),
    ("SET zz = (n + :one)", {"zz": {"N": "6"}}),
    ("SET zz = n", {"zz": {"N": "5"}}),
    ("SET zz = pk", {"zz": {"S": "a"}}),
    ("SET m.x = :n, m.y = :n", {"m": {"M": {"x": {"N": "5"}, "y": {"N": "5"}}}}),
    (
        "SET zz = :n REMOVE s ADD n :one DELETE ss :ss",
        {"n": {"N": "6"}, "s": None, "ss": {"SS": ["b"]}, "zz": {"N": "5"}},
    ),
    ("REMOVE s, n", {"n": None, "s": None}),
    ("REMOVE zz", {}),
    ("REMOVE m.q", {}),
    ("REMOVE m.x", {"m": {"M": {"y": {"M": {"z": {"S": "q"}}}}}}),
    ("REMOVE l[0]", {"l": {"L": [{"N": "2"}, {"S": "x"}]}}),
    ("REMOVE l[9]", {}),
    ("REMOVE l[0], l[1]", {"l": {"L": [{"S": "x"}]}}),
    ("REMOVE l[1] SET l[2] = :ten", {"l": {"L": [{"N": "1"}, {"N": "10"}]}}),
    ("SET l[2] = :ten REMOVE l[1]", {"l": {"L": [{"N": "1"}, {"N": "10"}]}}),
    ("REMOVE l[0] SET l[1] = l[2]", {"l": {"L": [{"S": "x"}, {"S": "x"}]}}),
    (
        "SET l[5] = :one, l[4] = :ten",
        {"l": {"L": [{"N": "1"}, {"N": "2"}, {"S": "x"}, {"N": "10"}, {"N": "1"}]}},
    ),
    (
        "SET l[5] = :one, l[3] = :ten, l[9]=:n",
        {"l": {"L": [{"N": "1"}, {"N": "2"}, {"S": "x"}, {"N": "10"}, {"N": "1"}, {"N": "5"}]}},
    ),
    ("SET l[9] = :ten REMOVE l[0]", {"l": {"L": [{"N": "2"}, {"S": "x"}, {"N": "10"}]}}),
    (
        "SET m.q = :n",
        {"m": {"M": {"q": {"N": "5"}, "x": {"N": "1"}, "y": {"M": {"z": {"S": "q"}}}}}},
    ),
    ("SET n = if_not_exists(n, :one)", {}),
    ("SET zz = if_not_exists(zz, :one)", {"zz": {"N": "1"}}),
    ("SET zz = if_not_exists(zz, n)", {"zz": {"N": "5"}}),
    ("SET zz = if_not_exists(zz, if_not_exists(yy, :one))", {"zz": {"N": "1"}}),
    ("SET zz = if_not_exists(zz, :one) + :ten", {"zz": {"N": "11"}}),
    ("SET zz = :ten - if_not_exists(zz, :one)", {"zz": {"N": "9"}}),
    ("SET zz = if_not_exists(m.q, :one)", {"zz": {"N": "1"}}),
    (
        "SET m.q = if_not_exists(m.q, :one)",
        {"m": {"M": {"q": {"N": "1"}, "x": {"N": "1"}, "y": {"M": {"z": {"S": "q"}}}}}},
    ),
    ("SET l = list_append(l, :l2)", {"l": {"L": [{"N": "1"}, {"N": "2"}, {"S": "x"}, {"N": "7"}]}}),
    ("SET l = list_append(:l2, l)", {"l": {"L": [{"N": "7"}, {"N": "1"}, {"N": "2"}, {"S": "x"}]}}),
    (
        "SET l = list_append(l, l)",
        {"l": {"L": [{"N": "1"}, {"N": "2"}, {"S": "x"}, {"N": "1"}, {"N": "2"}, {"S": "x"}]}},
    ),
    ("SET zz = list_append(if_not_exists(zz, :l), :l2)", {"zz": {"L": [{"N": "7"}]}}),
    ("ADD n :n", {"n": {"N": "10"}}),
    ("ADD zz :n", {"zz": {"N": "5"}}),
    ("ADD zz :ss", {"zz": {"SS": ["a"]}}),
    ("ADD ss :ss", {}),
    ("ADD m.x :n", {"m": {"M": {"x": {"N": "6"}, "y": {"M": {"z": {"S": "q"}}}}}}),
    ("ADD m.q :n", {"m": {"M": {"q": {"N": "5"}, "x": {"N": "1"}, "y": {"M": {"z": {"S": "q"}}}}}}),
    ("ADD l[0] :n", {"l": {"L": [{"N": "6"}, {"N": "2"}, {"S": "x"}]}}),
    ("ADD l[9] :n", {"l": {"L": [{"N": "1"}, {"N": "2"}, {"S": "x"}, {"N": "5"}]}}),
    ("ADD n :n, zz :n", {"n": {"N": "10"}, "zz": {"N": "5"}}),
    ("ADD zz :bs", {"zz": {"BS": [b"he"]}}),
    ("DELETE ss :ss", {"ss": {"SS": ["b"]}}),
    ("DELETE ss :ab", {"ss": None}),
    ("DELETE ns :ns", {"ns": {"NS": ["2"]}}),
    ("DELETE zz :ss", {}),
    ("DELETE m.q :ss", {}),
    ("set zz = :n", {"zz": {"N": "5"}}),
    ("Set zz = :n remove s", {"s": None, "zz": {"N": "5"}}),
    ("SET zz = l[0] + l[1]", {"zz": {"N": "3"}}),
    ("SET zz = m", {"zz": {"M": {"x": {"N": "1"}, "y": {"M": {"z": {"S": "q"}}}}}}),
    (
        "SET m.y.w = m.x",
        {"m": {"M": {"x": {"N": "1"}, "y": {"M": {"w": {"N": "1"}, "z": {"S": "q"}}}}}},
    ),
    ("SET m = m.y", {"m": {"M": {"z": {"S": "q"}}}}),
    ("SET l[0] = l[1], l[1] = l[0]", {"l": {"L": [{"N": "2"}, {"N": "1"}, {"S": "x"}]}}),
    ("SET s = :s, m.x = s", {"m": {"M": {"x": {"S": "hello"}, "y": {"M": {"z": {"S": "q"}}}}}}),
    ("ADD ss :e2", {"ss": {"SS": ["", "a", "b"]}}),
    ("SET zz = n+:one", {"zz": {"N": "6"}}),
    ("SET zz = n +:one", {"zz": {"N": "6"}}),
    ("SET zz = n-:one", {"zz": {"N": "4"}}),
    ("SET zz=:one+n", {"zz": {"N": "6"}}),
    ("SET zz = (n) + :one", {"zz": {"N": "6"}}),
    ("SET zz = (n + (:one))", {"zz": {"N": "6"}}),
    ("SET zz = (n)", {"zz": {"N": "5"}}),
    ("SET zz = (if_not_exists(zz,:n))", {"zz": {"N": "5"}}),
    ("SET zz = (list_append(l,:l))", {"zz": {"L": [{"N": "1"}, {"N": "2"}, {"S": "x"}]}}),
    ("SET zz = if_not_exists((zz),(:n))", {"zz": {"N": "5"}}),
    ("SET zz = list_append((l),:l)", {"zz": {"L": [{"N": "1"}, {"N": "2"}, {"S": "x"}]}}),
    ("SET zz = if_not_exists(n,:s) + :one", {"zz": {"N": "6"}}),
    (
        "SET zz = list_append(if_not_exists(l,:n),:l)",
        {"zz": {"L": [{"N": "1"}, {"N": "2"}, {"S": "x"}]}},
    ),
    (
        "SET zz = list_append(if_not_exists(l,s),:l)",
        {"zz": {"L": [{"N": "1"}, {"N": "2"}, {"S": "x"}]}},
    ),
    ("SET zz = if_not_exists(n,s) + :one", {"zz": {"N": "6"}}),
    ("SET zz = :one - n", {"zz": {"N": "-4"}}),
    ("SET zz = n - if_not_exists(zz, if_not_exists(yy, :n))", {"zz": {"N": "0"}}),
    ("SET m.#x = :n", {"m": {"M": {"x": {"N": "5"}, "y": {"M": {"z": {"S": "q"}}}}}}),
    ("SET zz = :n  remove  s", {"s": None, "zz": {"N": "5"}}),
    ("ADD ss :ss, n :n DELETE ns :ns", {"n": {"N": "10"}, "ns": {"NS": ["2"]}}),
    ("SET zz = if_not_exists(s.x, :n)", {"zz": {"N": "5"}}),
    ("SET zz = if_not_exists(q.x, :n)", {"zz": {"N": "5"}}),
    ("SET zz = if_not_exists(l[7], :n)", {"zz": {"N": "5"}}),
    ("DELETE l[9] :ss", {}),
]
# fmt: off
REFUSED = [
    "SET n = n + :s", "SET zz = n + :one + :ten", "SET zz = :n, zz = :one",
    "SET zz = :n REMOVE zz", "SET m.x = :n, m = :m", "SET l[0] = :n, l = :l",
    "SET l[0]=:n, l[0]=:one", "SET l[0].x = :n, l[0] = :n", "SET m.x = :n, m[0] = :n",
    "SET l[0] = :n, l.x = :n", "SET n = :n SET zz = :n", "REMOVE s REMOVE n",
    "SET zz = if_not_exists(:n, :one)", "SET zz = if_not_exists(zz, n + :one)",
    "SET zz = if_not_exists(zz, list_append(l, :l))", "SET zz = if_not_exists(n + :one, :one)",
    "SET zz = if_not_exists(zz)", "SET zz = if_not_exists(zz, zz)", "SET zz=if_not_exists(n, n)",
    "SET l = list_append(l, :n)", "SET l = list_append(list_append(l, :l2), :l2)",
    "SET l = list_append(l)", "SET l = list_append(l, :l) + :n", "SET zz = attribute_exists(s)",
    "SET zz = foo(s)", "ADD zz :s", "ADD n :s", "ADD n n", "ADD l :l", "ADD zz :l", "ADD m :m",
    "ADD b :b", "ADD n = :n", "ADD n :one n :one", "ADD nu :nu", "DELETE n :n", "DELETE zz :n",
    "DELETE ss", "DELETE ss ss", "SET", "", "   ", "SET zz", "SET zz = ", "SET zz = :n,",
    "SET = :n", "SET :n = :n", "REMOVE :n", "REMOVE", "FOO zz", "SET zz = :n, REMOVE s",
    "SET zz = :n AND s = :s", "SET zz = NULL", "SET zz = :n:one", "SETzz = :n", "REMOVE s,",
    "SET zz = :s - :one", "SET zz = -:n", "SET zz = - n", "SET n = n - :one - :one",
    "SET zz = ((n + :one))", "SET zz = ((n))", "SET zz = list_append(l, n + :one)", "ADD n (:n)",
    "ADD (n) :n", "SET (zz) = :n", "REMOVE (s)", "SET set = :n", "SET s = :n s2 = :n",
    "SET zz = begins_with(s, :s)",
]
UNFIT = [
    "SET zz = pk.x",
    "SET zz = zz2", "SET zz = n + zz2", "SET n = s + :one", "SET pk = :s", "SET pk = pk",
    "REMOVE pk", "ADD pk :n", "SET pk.x = :n", "REMOVE m.q.r", "REMOVE q.r", "REMOVE s.x",
    "REMOVE n[0]", "REMOVE m[0]", "REMOVE l.x", "SET zz.x = :n", "SET m.q.r = :n",
    "SET m.x.y = :n", "SET m[0] = :n", "SET l.x = :n", "SET l[0][0] = :n", "SET s.x = :n",
    "SET l[9].x = :n", "SET zz[0] = :n", "SET zz = if_not_exists(zz, zz2)",
    "SET zz = if_not_exists(n, zz2)", "SET l = list_append(l, n)", "SET l = list_append(n, :l)",
    "SET zz = list_append(zz, :l)", "ADD ss :ns", "ADD n :ss", "ADD s :n", "ADD zz.x :n",
    "DELETE ss :ns", "DELETE s :ss", "DELETE zz.q :ss", "DELETE l[0] :ss",
    "SET m.a = :n, m.b = m.a", "SET zz = if_not_exists(zz,:s) + :one", "SET zz = m.q",
    "SET zz = l[9]", "SET zz = s.x", "SET zz = if_not_exists", "DELETE n.x :ss",
    "DELETE l[9][0] :ss", "REMOVE l[9][0]", "REMOVE l[0].x", "REMOVE l[9].x",
]
# fmt: on


def updated(expression: str, item: Image = ITEM) -> Image:
    """Give the item after an update."""
    read = update(expression, placeholders(expression))
    read.check_keys(KEY)
    return read.apply(item)


@pytest.mark.parametrize(("expression", "changes"), CHANGES)
def test_changes(expression: str, changes: dict[str, Any]) -> None:
    """Every path refers to the item as it was before; what is not named stays."""
    before = repr(ITEM)
    expected = {**ITEM, **changes}
    assert _sorted(updated(expression)) == _sorted(
        {name: value for name, value in expected.items() if value is not None}
    )
    assert repr(ITEM) == before


@pytest.mark.parametrize("expression", REFUSED)
def test_refused(expression: str) -> None:
    """These are wrong whatever the item, and refused before it is looked at."""
    with pytest.raises(ApiError) as caught:
        update(expression, placeholders(expression))
    assert not isinstance(caught.value, Unfit)


@pytest.mark.parametrize("expression", UNFIT)
def test_unfit(expression: str) -> None:
    """These do not fit the item or its key."""
    with pytest.raises(Unfit):
        updated(expression)


def test_updates_of_200_attributes() -> None:
    """As many attributes may be named as fit into 4 KB."""
    after = updated("SET " + ", ".join(f"a{number} = :n" for number in range(200)))
    assert len(after) == len(ITEM) + 200
    assert updated("REMOVE " + ", ".join(f"a{number}" for number in range(200)), after) == ITEM


def test_a_set_that_loses_all_members_is_gone() -> None:
    """DELETE of all members removes the set, in a list its element, and no index moves before."""
    item = {"l": {"L": [{"SS": ["a"]}, {"N": "1"}]}}
    assert updated("DELETE l[0] :ss", item) == {"l": {"L": [{"N": "1"}]}}
    after = updated("DELETE l[0] :ss SET l[1] = :n, l[3] = :one", item)
    assert after == {"l": {"L": [{"N": "5"}, {"N": "1"}]}}


def test_the_item_may_not_be_deeper_than_32_levels() -> None:
    """A document that fits at the top may be too deep below."""
    deep: dict[str, Any] = {"S": "x"}
    for _ in range(31):
        deep = {"L": [deep]}
    item = {**ITEM, "d": deep}
    assert updated("SET zz = d", item)["zz"] == deep
    with pytest.raises(Unfit, match="Nesting"):
        updated("SET m.x = d", item)


def _sorted(item: Image) -> Image:
    """Put the members of sets in order, which has no meaning."""
    return {
        name: {kind: sorted(content) if kind in ("SS", "NS", "BS") else content}
        for name, value in item.items()
        for kind, content in value.items()
    }
