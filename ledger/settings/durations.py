"""Durations given as text outside of a settings file, such as options of commands."""

from pydantic import TypeAdapter, ValidationError

from ledger.core.errors import InvalidInput
from ledger.settings.groups import PositiveSeconds, Seconds

_SECONDS: TypeAdapter[float] = TypeAdapter(Seconds)
_POSITIVE_SECONDS: TypeAdapter[float] = TypeAdapter(PositiveSeconds)


def seconds_of(text: object, *, is_positive: bool = False) -> float:
    """Return a duration in seconds, given as a number or as text such as "250ms" or "15m".

    Raises:
        InvalidInput: it is not a duration, above 100 years, or 0 where it must be positive.
    """
    try:
        return (_POSITIVE_SECONDS if is_positive else _SECONDS).validate_python(text)
    except ValidationError:
        kind = "a duration above 0" if is_positive else "a duration"
        raise InvalidInput(
            f"must be {kind}, such as 250ms, 20s or 15m, and at most 36525d, got {text!r:.100}"
        ) from None
