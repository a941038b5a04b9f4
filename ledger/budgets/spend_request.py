"""What a caller asks to spend, or to hold, and what becomes of that.

Both are values, since a refusal is an answer and not an error.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from ledger.budgets.rights import GRANTS_MAX
from ledger.core import amounts, ids
from ledger.core.errors import InvalidEntry, InvalidInput
from ledger.core.keys import checked_new_counter
from ledger.core.values import Entry
from ledger.writes.change_list import check_list
from ledger.writes.entry_plan import Change, at_without_key, checked_note

BUDGETS_MAX = 20
"""Budgets that one entry is paid by: resolved apart it takes an action of a transaction of each."""
NOTE_BYTES_MAX = 350 * 1024
"""Of a spend's note: an item has up to 400 KB, and names each grant, of a hold maybe twice."""


def always() -> bool:
    """Return that a call goes on."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendRequest:
    """What is to be spent: from these budgets, the narrowest first.

    `hold` is when it expires as a hold, in whole seconds since 1970. `wait` is for how many seconds
    rights that are elsewhere are waited for, while `goes_on` says so. `noted` is told the entry
    before it is sent.
    """

    budgets: tuple[str, ...]
    amount: int | Decimal
    note: str | None = None
    key: str | None = None
    at: datetime | None = None
    hold: int | None = None
    wait: float = 0.0
    noted: Callable[[Entry], None] | None = None
    goes_on: Callable[[], bool] = always

    def __post_init__(self) -> None:
        """Check what would else be found out once rights were asked for.

        Raises:
            InvalidEntry: the note cannot be stored, or there is a time without a key.
        """
        if self.at is not None and self.key is None:
            raise at_without_key(self.budgets[0])
        size = 0 if self.note is None else len(checked_note(self.note).encode())
        if size > NOTE_BYTES_MAX:
            raise InvalidEntry(
                f"note of a spend from {self.budgets[0]!r} must have at most {NOTE_BYTES_MAX:,}"
                f" bytes, got {size:,} bytes"
            )

    def change(self, counter: str) -> Change:
        """Return the change that is recorded: what is spent is taken away."""
        change = amounts.exact(self.amount).copy_negate()
        return Change(counter, change, self.note, None, self.key, self.at)


def checked_hold(entry: Entry) -> Entry:
    """Return the entry of a hold, of which counter and id may be all that is known.

    Raises:
        InvalidInput: it is not an entry, or has no id that one can have.
    """
    if not isinstance(entry, Entry):
        raise InvalidInput(f"a hold is that of an Entry, got {entry!r:.80}")
    if not isinstance(entry.id, str) or ids.parse(entry.id) is None:
        raise InvalidInput(
            "a hold has the id of its entry, such as 2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887,"
            f" got {entry.id!r:.80}"
        )
    return entry


def checked_budgets(names: Sequence[str]) -> tuple[str, ...]:
    """Return the counters of the budgets of one spend, in their order: entries are of the first.

    Raises:
        InvalidInput: it is not a list of 1 to `BUDGETS_MAX` different counters.
    """
    # A set has another order in each process: under one key each would make an entry of its own.
    is_ordered = not isinstance(names, str | AbstractSet | Mapping)
    listed = check_list("budgets", names) if is_ordered else []
    checked = tuple(checked_new_counter(name) for name in listed)
    if not checked or len({*checked}) < len(checked):
        raise InvalidInput(f"budgets must be a list of different counters, got {names!r:.80}")
    if len(checked) > BUDGETS_MAX:
        raise InvalidInput(
            f"one spend takes from up to {BUDGETS_MAX} budgets, got {len(checked)}: spend from some"
            " of them by another call"
        )
    return checked


def checked_wait(seconds: float) -> float:
    """Return for how many seconds a spend waits for rights that lie elsewhere.

    Raises:
        InvalidInput: it is not 0 or more seconds.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise InvalidInput(f"wait must be 0 or more seconds, got {seconds!r}")
    return float(seconds)


@dataclass(frozen=True, slots=True)
class Granted:
    """The spend is durable here; `entry.repeated` if an earlier call had made it."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Credited:
    """The credit is durable here; `entry.repeated` if an earlier call had made it.

    It counts in the total at once. `is_spendable` once every region shows it, and the region that
    it was made in has taken it into its rights; as far as this process knows.
    """

    entry: Entry
    is_spendable: bool


CROWDED = f"{GRANTS_MAX} grants of this region are open, and one has to be closed first"


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was spent. A refusal is false, so that it can be asked `if await budget.spend(1)`.

    `budget` is the counter of the limit that refused. It has `here` left in this region, in all
    processes, and `elsewhere`, as this region shows the others: on its way here, or out of reach.
    If it is `crowded`, `GRANTS_MAX` (400) processes of this region have grants of it, or had some
    that are to be closed by reading: of what is here no more is granted until one is closed. The
    same call may be granted later.
    """

    budget: str
    wanted: Decimal
    here: Decimal
    elsewhere: Decimal
    crowded: bool = False

    def __bool__(self) -> bool:
        return False


SpendOutcome = Granted | Refused
