"""The total of a counter, as a plain value.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from decimal import Decimal

from ledger.core.books import Accounts


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of a counter's changes, as one region showed it while it was read.

    It counts each change once: all that had reached `region` when the read began (`as_of`), and
    some of those that arrived before it `ended`. So for several shards, or pages, it need not have
    been the sum at any one moment; a `steady` one was, at every moment from `as_of` to `ended`.
    Both are times of this machine's clock. It consists of `entries` entries that are not merged
    yet, the net changes named in `versions` (one per shard that has one), which contain `merged`
    entries, and the `additions` of pipelines (one per reduce). `cached` is whether an earlier call
    read it; `at` the moment before which changes count, if one was asked for. Of a book `accounts`
    are its balances, by asset and account, without those of 0; their sums, and `value`, are 0.
    """

    counter: str
    value: Decimal
    as_of: datetime
    region: str
    entries: int
    merged: int = 0
    versions: tuple[str, ...] = ()
    cached: bool = False
    steady: bool = False
    _: KW_ONLY
    ended: datetime
    additions: int = 0
    at: datetime | None = None
    accounts: Accounts | None = None

    @property
    def changes(self) -> int:
        """The number of entries, merged or not, and additions of pipelines that are counted."""
        return self.entries + self.merged + self.additions

    @property
    def is_known(self) -> bool:
        """Whether the region has anything of the counter: a change, or a net that stands for some.

        A counter whose changes come to 0 is known.
        """
        return self.changes > 0 or bool(self.versions)
