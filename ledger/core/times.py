"""Times as text, as users and other programs write them.

ISO 8601 as Python reads it, with the `t` and `z` of RFC 3339, 5.6, in either case.

Pure: no clock, no randomness, no I/O.
"""

from datetime import datetime


def time_of(text: str) -> datetime:
    """Return the time of a text, aware if it has a zone.

    Raises:
        ValueError: it is none.
    """
    return datetime.fromisoformat(f"{text[:-1]}Z" if text.endswith("z") else text)


def is_time(text: str) -> bool:
    """Return whether a text is a time, with a zone or without."""
    try:
        time_of(text)
    except ValueError:
        return False
    return True
