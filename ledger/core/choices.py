"""Options that are yes or no.

Pure: no clock, no randomness, no I/O.
"""

from ledger.core.errors import InvalidInput


def checked_bool(name: str, value: object) -> bool:
    """Return `value` if it is True or False.

    Raises:
        InvalidInput: it is something else; any non-empty text would count as True.
    """
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be True or False, got {value!r:.80}")
    return value
