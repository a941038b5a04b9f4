"""Reading each of several names apart: one that cannot be read takes nothing from the others."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from ledger.core.errors import LedgerError
from ledger.runtime.tasks import run_all
from ledger.service.answers import problem_in_http
from ledger.totals.cache import READS_AT_ONCE
from ledger.wire.values import Fields

Read = TypeVar("Read")


async def read_apart(
    names: Iterable[str],
    read: Callable[[str], Awaitable[Read]],
    *,
    of_one: tuple[type[LedgerError], ...],
) -> tuple[dict[str, Read], dict[str, LedgerError]]:
    """Return what was read by name, each once, in the order asked, and why others cannot be.

    Raises:
        LedgerError: as `read`, but for errors `of_one` name.
    """
    errors: dict[str, LedgerError] = {}

    async def one(name: str) -> tuple[Read, ...]:
        try:
            return (await read(name),)
        except of_one as error:
            errors[name] = error
            return ()

    asked = list(dict.fromkeys(names))
    found = await run_all([partial(one, name) for name in asked], at_once=READS_AT_ONCE)
    values = {name: value[0] for name, value in zip(asked, found, strict=True) if value}
    return values, {name: errors[name] for name in asked if name in errors}


def problems(errors: Mapping[str, LedgerError]) -> dict[str, Fields]:
    """Return errors by name as the problems beside an answer."""
    return {name: problem_in_http(error).fields() for name, error in errors.items()}
