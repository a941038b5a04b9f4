"""The fields that a state keeps of its record, so that another form can be computed from it.

It is JSON: the fields that templates name, in their places in the record, and those of
`pipeline.keep_fields`; or all of the record. What cannot be written so, or is too long, is left
out, as if the record did not have it.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import orjson

from ledger.core import amounts
from ledger.settings.templates import Path, look_up

KEPT_BYTES_MAX = 65_536
"""Bytes that one state keeps: a record of the usual limit fits whole."""
REMEMBERED_CHARACTERS_MAX = 512
"""Bytes of kept fields in the cache of a worker, which needs none of them."""
NOT_REMEMBERED = "{}"
"""Replaces more than that: a state that keeps something, which the next one may not."""


def kept_of(record: Mapping[str, Any], paths: Iterable[Path]) -> str:
    """Return a record's fields at these paths, as JSON; empty if there are none."""
    found: dict[str, Any] = {}
    for path in paths:
        try:
            text = _dumped(look_up(record, path))
        except (KeyError, TypeError):
            continue
        place = found
        for name in path[:-1]:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                break  # a shorter path has kept all of it
        else:
            place[path[-1]] = text
    return bounded(_dumped(found).decode()) if found else ""


def dumped(record: Mapping[str, Any]) -> str:
    """Return a whole record as JSON; empty if it cannot be written so."""
    try:
        return _dumped(record).decode()
    except TypeError:
        return ""


def bounded(text: str) -> str:
    """Return a text if a state may keep it, else an empty one."""
    return text if len(text.encode()) <= KEPT_BYTES_MAX else ""


def _dumped(value: object) -> bytes:
    """Return a value as JSON, each number with the digits it was read with.

    Raises:
        TypeError: it cannot be written: an unpaired surrogate, a number in it over 64 bits.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value).encode()
    return orjson.dumps(value, default=_number)


def _number(value: object) -> object:
    if isinstance(value, bytes):
        return orjson.Fragment(value)
    if isinstance(value, Decimal):
        return orjson.Fragment(amounts.as_written(value).encode())
    raise TypeError(f"{value!r:.80} is not JSON")
