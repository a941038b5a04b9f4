"""An item with a value of each kind, and expression values to compare and change it with."""

import re
from typing import Any

from ledger.local.engines.memory.expressions.placeholders import Placeholders
from ledger.local.engines.port import TableKey

KEY = TableKey(("pk", "sk"), ("S", "S"))
ITEM: dict[str, Any] = {
    "pk": {"S": "a"},
    "sk": {"S": "b"},
    "s": {"S": "hello"},
    "n": {"N": "5"},
    "b": {"B": b"hello"},
    "l": {"L": [{"N": "1"}, {"N": "2"}, {"S": "x"}]},
    "m": {"M": {"x": {"N": "1"}, "y": {"M": {"z": {"S": "q"}}}}},
    "ss": {"SS": ["a", "b"]},
    "ns": {"NS": ["1", "2"]},
    "t": {"BOOL": True},
    "nu": {"NULL": True},
}
NAMES = {"#and": "s", "#x": "x"}
VALUES: dict[str, Any] = {
    ":s": {"S": "hello"},
    ":h": {"S": "he"},
    ":e": {"S": ""},
    ":ty": {"S": "S"},
    ":1": {"S": "hello"},
    ":_a": {"S": "hello"},
    ":n": {"N": "5"},
    ":one": {"N": "1"},
    ":ten": {"N": "10"},
    ":b": {"B": b"he"},
    ":bs": {"BS": [b"he"]},
    ":ss": {"SS": ["a"]},
    ":ab": {"SS": ["a", "b", "c"]},
    ":e2": {"SS": [""]},
    ":ns": {"NS": ["1"]},
    ":l": {"L": []},
    ":l2": {"L": [{"N": "7"}]},
    ":m": {"M": {}},
    ":t": {"BOOL": True},
    ":nu": {"NULL": True},
}


def placeholders(expression: str) -> Placeholders:
    """Return the placeholders of a request that defines what its expression uses, and no more."""
    used = set(re.findall(r"[#:][A-Za-z0-9_]+", expression))
    names = {key: NAMES[key] for key in used & NAMES.keys()}
    return Placeholders(names, {key: VALUES[key] for key in used & VALUES.keys()})
