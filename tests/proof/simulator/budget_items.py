"""Items of budgets as the auditor reads them: a decoding of its own, apart from production's."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from ledger.core import keys
from ledger.core.entry import Item
from ledger.testing.replicas import Stamp

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Copy:
    """An entry as one write left it; `grants` are budget, holder and version of each.

    `through` are the budgets that it was let through from, by which holder: no grant pays for it.
    """

    stamp: Stamp
    amount: Decimal
    note: str
    grants: tuple[tuple[str, str, int], ...]
    hold: bool
    resolved: str
    through: tuple[tuple[str, str], ...] = ()
    adjusted: tuple[tuple[str, str, int], ...] = ()

    @property
    def paid_by(self) -> tuple[object, ...]:
        """The grants, or holders, that it is charged to."""
        return self.grants, self.through

    @property
    def state(self) -> tuple[Decimal, str]:
        """What it came to, and how."""
        return self.amount, self.resolved


@dataclass(frozen=True, slots=True)
class HolderItem:
    """A rights item as its own region has it; of grants what they have, with what was adjusted."""

    version: int = 0
    minted: Decimal = _ZERO
    retired: Decimal = _ZERO
    charged: Decimal = _ZERO
    sent: Mapping[str, Decimal] = field(default_factory=dict)
    taken: Mapping[str, Decimal] = field(default_factory=dict)
    grants: Mapping[int, Decimal] = field(default_factory=dict)
    raises: Mapping[str, Decimal] = field(default_factory=dict)
    reclaimed: Mapping[str, Decimal] = field(default_factory=dict)
    returned: Decimal = _ZERO

    @property
    def granted(self) -> Decimal:
        """The sum of what is granted, with what was adjusted."""
        return sum(self.grants.values(), _ZERO)

    @property
    def available(self) -> Decimal:
        """What may still be granted or sent."""
        income = self.minted + sum(self.taken.values(), _ZERO)
        spent = self.charged - self.returned
        return income - self.retired - sum(self.sent.values(), _ZERO) - self.granted - spent


def whole(partitions: Mapping[str, Mapping[str, Item]], counter: str) -> Decimal:
    """Return a counter's total in a table, by partition."""
    shown = _ZERO
    for partition, items in partitions.items():
        place = keys.counter_of(partition)
        if place is not None and place[0] == counter:
            shown += shown_in(items)
    return shown


def copy_of(item: Item, counter: str, stamp: Stamp) -> Copy:
    """Return an entry of a counter."""
    named = grants_of(item, counter)
    return Copy(
        stamp,
        -Decimal(item["change"]["N"]),
        item.get("note", {"S": ""})["S"],
        tuple(grant for grant in named if grant[2]),
        "hold" in item,
        item.get("resolved", {"S": ""})["S"],
        tuple((budget, holder) for budget, holder, version in named if not version),
        grants_of(item, counter, "adjusted"),
    )


def grants_of(
    item: Item, counter: str, attribute: str = "grant"
) -> tuple[tuple[str, str, int], ...]:
    """Return the grants that an entry names: budget, holder and version of each."""
    named = item.get(attribute, {"L": []})
    names = [part["S"] for part in ([named] if "S" in named else named["L"])]
    return tuple(_grant(name, counter) for name in names)


def _grant(name: str, counter: str) -> tuple[str, str, int]:
    rest, _, budget = name.partition("@")
    holder, _, version = rest.rpartition("/")
    return budget or counter, holder, int(version)


def holder_of(item: Item) -> HolderItem:
    """Return what a rights item says."""
    adjusted = _sums(item, "adjusted")
    grants = {
        int(version): Decimal(part["L"][0]["N"]) + adjusted.get(version, _ZERO)
        for version, part in item.get("grants", {"M": {}})["M"].items()
    }
    return HolderItem(
        int(item["version"]["N"]),
        _number(item, "minted"),
        _number(item, "retired"),
        _number(item, "charged"),
        _sums(item, "sent"),
        _sums(item, "taken"),
        grants,
        _sums(item, "raises"),
        _sums(item, "reclaimed"),
        _number(item, "returned"),
    )


def _number(item: Item, name: str) -> Decimal:
    return Decimal(item[name]["N"]) if name in item else _ZERO


def _sums(item: Item, name: str) -> dict[str, Decimal]:
    return {key: Decimal(one["N"]) for key, one in item.get(name, {"M": {}})["M"].items()}


def shrinks(before: object, now: object) -> str:
    """Return which sums are less than before; empty if none is."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        less: Iterable[str] = (
            str(key) for key, amount in before.items() if now.get(key, _ZERO) < amount
        )
        return ", ".join(less)
    return "" if now >= before else f"{before} to {now}"  # type: ignore[operator]


def shown_in(items: Mapping[str, Item]) -> Decimal:
    """Return a collection's total: of the nets the last counts, and what it does not name."""
    nets = [sort_key for sort_key, item in items.items() if "merged" in item]
    total, merged = _ZERO, frozenset[bytes]()
    if nets:
        net = items[max(nets)]
        packed = net["merged"]["B"]
        merged = frozenset(packed[at : at + 16] for at in range(0, len(packed), 16))
        total = Decimal(net["change"]["N"])
    for sort_key, item in items.items():
        if "merged" not in item and _pack(sort_key) not in merged:
            total += Decimal(item["change"]["N"])
    return total


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def _pack(sort_key: str) -> bytes:
    """Return the 16 bytes that stand for an entry in `merged`."""
    since = datetime.fromisoformat(f"{sort_key[:26]}+00:00") - _EPOCH
    microseconds = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return microseconds.to_bytes(8, "big") + bytes.fromhex(sort_key[28:])
