"""Checks of fields that several operations have.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ledger.local.engines.port import invalid


def refuse_legacy(body: Mapping[str, Any], fields: Iterable[str]) -> None:
    """Refuse the parameters that expressions replaced in 2014.

    Raises:
        ApiError: ValidationException.
    """
    for name in fields:
        if name in body:
            raise invalid(
                f"{name} is not supported by the local global table: use an expression instead"
            )


def check_choice(body: Mapping[str, Any], name: str, allowed: Sequence[str]) -> None:
    """Refuse a field whose value is not one of those allowed.

    Raises:
        ApiError: ValidationException.
    """
    if body.get(name) is not None and body[name] not in allowed:
        raise invalid(
            f"1 validation error detected: Value '{body[name]}' at '{name[0].lower()}{name[1:]}' "
            f"failed to satisfy constraint: Member must satisfy enum value set: "
            f"[{', '.join(allowed)}]"
        )
