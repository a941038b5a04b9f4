"""What must be so before anything is merged, apart from what single collections show.

Reading and writing go on meanwhile; totals stay exact, only merging waits.
"""

from collections.abc import Mapping

from ledger.core.clock_offset import check_offset
from ledger.store.port import Store


def check_clock(stores: Mapping[str, Store], *, skew: float) -> None:
    """Refuse to merge with a clock that is off: it decides which entries have settled.

    A compactor whose clock is ahead would fold, delete and forget entries whose requests may still
    be repeated.

    Raises:
        ClockOff: by the answers of a region, by more than `skew` seconds.
    """
    for region, store in stores.items():
        check_offset(store.clock_offset, skew=skew, region=region)
