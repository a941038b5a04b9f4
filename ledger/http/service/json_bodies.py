"""Bodies of requests as JSON: their form is checked by counts first, then each member by a model.

Pure: no clock, no randomness, no I/O.
"""

import json
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from ledger.core.errors import InvalidInput
from ledger.settings.rules import rule_of

VALUES_MAX = 20_000
MEMBERS_MAX = 32
"""Values of a body, which may have 1,000 entries, and members of an object: more than any has, so
more are not looked at."""
SHOWN_MAX = 100
"""Characters of a value that an error shows."""
BodyModel = TypeVar("BodyModel", bound=BaseModel)
_WITHOUT_VALUE = frozenset({"missing", "json_invalid", "too_long"})
"""Kinds of errors whose message says all; a list that is too long is not shown."""


def shown(value: object) -> str:
    """Return a value of a body as JSON has it, text in quotes that end it; cut if it is long."""
    if isinstance(value, str):
        return f"{value[:SHOWN_MAX]!r:.{SHOWN_MAX}}"
    shown = ""
    for part in _AS_JSON.iterencode(value):
        shown += part
        if len(shown) >= SHOWN_MAX:
            break
    return shown[:SHOWN_MAX]


_AS_JSON = json.JSONEncoder(default=str)


def read_body(kind: TypeAdapter[BodyModel], body: bytes) -> BodyModel:
    """Return a body, checked.

    Raises:
        InvalidInput: it is not JSON, or a member breaks a rule or stands twice in an object; the
            message names it.
    """
    _check_form(body)
    try:
        return kind.validate_json(body)
    except ValidationError as error:
        _refuse(error)


def _check_form(body: bytes) -> None:
    """Refuse what no body is, before a member is looked at: each one could be an error of its own.

    Raises:
        InvalidInput: as `read_body`, or there are too many values, or members of an object.
    """
    # Texts are left out only where they may matter.
    if _marks(body) > VALUES_MAX and _has_too_many(body):
        raise InvalidInput(f"body: it may have up to {VALUES_MAX:,} values")
    try:
        _CHECKED.decode(body.decode())
    except InvalidInput:
        raise
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise InvalidInput(f"body: invalid JSON: {error.msg.lower()} at {where}") from None
    except (ValueError, RecursionError) as error:  # no UTF-8, a number of too many digits
        raise InvalidInput(f"body: invalid JSON: {error!s:.{SHOWN_MAX}}") from None


def _has_too_many(body: bytes) -> bool:
    """Return whether a body has too many values, whatever stands in its texts.

    Each step is one pass of a few milliseconds at most; a regular expression for texts takes 50 ms.
    """
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")  # a quote that is left bounds a text
    quotes_max = 4 * (VALUES_MAX + 1)  # of a value and its name
    return plain.count(b'"') > quotes_max or _marks(b"".join(plain.split(b'"')[::2])) > VALUES_MAX


def _marks(text: bytes) -> int:
    """Return how many signs begin a value, or follow one."""
    return sum(map(text.count, (b",", b"[", b"{")))


def _check_object(members: list[tuple[str, Any]]) -> None:
    if len(members) > MEMBERS_MAX:
        raise InvalidInput(
            f"body: an object may have up to {MEMBERS_MAX} members, got {len(members):,}"
        )
    names = [name for name, _ in members]
    if len(set(names)) < len(names):  # of members that stand twice pydantic takes the last
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"body: {shown(twice)} stands twice in one object")


_CHECKED = json.JSONDecoder(object_pairs_hook=_check_object)


def _refuse(error: ValidationError) -> NoReturn:
    """Raise the first error of a body as ours."""
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    # A name that means nothing is the caller's: cut, with what cannot be seen escaped.
    place = ".".join(repr(str(part)[:SHOWN_MAX])[1:-1] for part in first["loc"])
    if isinstance(cause, InvalidInput):
        if not any(isinstance(part, int) for part in first["loc"]):
            raise cause from None
        said = str(cause).removeprefix("body: ")  # of many it says which
        raise type(cause)(f"body: {place}: {said}") from None
    found = "" if first["type"] in _WITHOUT_VALUE else f", got {shown(first['input'])}"
    where = f"{place}: " if place else ""
    raise InvalidInput(f"body: {where}{rule_of(first)}{found}") from None
