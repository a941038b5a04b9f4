"""The optimistic counter with history: the item remembers its latest writers."""

from decimal import Decimal

from ledger.core.errors import InvalidInput
from ledger.primitives.counters.counter import (
    EXACT_LIMITS,
    FIRST_USE,
    SINGLE_ITEM_REGIONS,
    Guarantees,
)
from ledger.primitives.counters.optimistic import OptimisticCounter
from ledger.runtime.services import Services
from ledger.store.port import Store

TAGS_LIMIT = 100
TAGS_MAX = 12
"""With tokens of `new_token` the item is then still within the first KB."""


class HistoryCounter(OptimisticCounter):
    """An optimistic counter whose item keeps the tags of its latest `tags_max` writers (12).

    All processes of a counter should keep as many: each keeps only its own number.

    Raises:
        InvalidInput: `tags_max` is not a whole number from 2 to 100.
    """

    kind = "history"
    guarantees = Guarantees(
        unknown="Never counts twice. Stays Unknown only if that many others have written before the"
        f" item is read again that its tag was pushed out: {TAGS_MAX} or more.",
        tokens=f"Recognized while its write is among the latest {TAGS_MAX}; then counts again.",
        thresholds=EXACT_LIMITS,
        regions=SINGLE_ITEM_REGIONS,
        cost="As optimistic; with long tokens the item is over 1 KB, and each write costs more."
        + FIRST_USE,
        write_units=1,
        read_units=1,
        value_units=1,
    )

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        services: Services,
        minimum: int | Decimal | None = None,
        maximum: int | Decimal | None = None,
        shards: int | None = None,
        tags_max: int = TAGS_MAX,
    ) -> None:
        super().__init__(
            store,
            name,
            services=services,
            minimum=minimum,
            maximum=maximum,
            shards=shards,
        )
        self.tags_max = _checked_tags(tags_max)


def _checked_tags(tags_max: int) -> int:
    whole = isinstance(tags_max, int) and not isinstance(tags_max, bool)
    if not (whole and 2 <= tags_max <= TAGS_LIMIT):  # noqa: PLR2004 (one is the optimistic counter)
        raise InvalidInput(
            f"tags_max must be a whole number from 2 to {TAGS_LIMIT}, got {tags_max!r}"
        )
    return tags_max
