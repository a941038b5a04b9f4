"""What pydantic says of a broken rule, as our messages say it.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from typing import Any

_PREFIXES = ("Value error, ", "Assertion failed, ")


def rule_of(details: Mapping[str, Any]) -> str:
    """Return the rule that an error of pydantic names, without what pydantic puts before ours.

    It begins with a small letter, as what follows the name and the value of a setting.
    """
    said = str(details["msg"])
    for prefix in _PREFIXES:
        said = said.removeprefix(prefix)
    return said[:1].lower() + said[1:]
