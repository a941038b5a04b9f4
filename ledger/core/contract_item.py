"""The contract of a table and its form as a DynamoDB item, `~contract` / `table#GENERATION`.

The item's `revision` grows by one at each write, and every write is conditional on it.
`terms` holds the terms in force and `next`, while a change is pending, the coming ones: JSON with
all durations in seconds. A `digest` reveals an item that was edited by hand; it leaves out `since`,
which is informational.

Pure: no clock, no randomness, no I/O.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import Any

from ledger.core.budget_rules import BudgetRule
from ledger.core.contract import DURATIONS, ShardRule, Terms, is_pending, stricter, taken_out
from ledger.core.entry import AttributeValue, Item, Key
from ledger.core.errors import ContractDamaged, UpgradeNeeded
from ledger.core.periods import PeriodRule

CONTRACT_PARTITION = "~contract"
TABLE_PREFIX = "table#"
FORMAT = 2
"""The newest format of a table's items that this release reads."""
DIGEST_BYTES = 8
GENERATION_DIGITS = 4

_SORT_KEY = re.compile(r"table#([0-9]{4})", flags=re.ASCII)
_NEVER_STORED = {"closed", "announced", "budgets_coming", "either", "generation"}
"""Terms that only `stricter` creates, and the generation, which the sort key holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The contract as one region showed it; `coming` are the terms of a pending change.

    `through` is the region that takes over the home from a lost one, while that is pending.
    `since` is when the pending change was announced, by the clock of the process that announced it;
    None if none is pending.
    """

    terms: Terms
    revision: int = 0
    generation: int = 1
    coming: Terms | None = None
    through: str = ""
    since: datetime | None = field(default=None, compare=False, repr=False)

    @property
    def obeyed(self) -> Terms:
        """The terms to obey now: those in force, or the stricter of them and the coming ones.

        Their `generation` is that of net changes: one more for each region that is gone. Any of
        them may have been home before, and have left a net that did not reach every region.
        """
        terms = self.terms if self.coming is None else stricter(self.terms, self.coming)
        return replace(terms, generation=max(self.generation, 1 + len(self.terms.lost)))

    @property
    def is_founding(self) -> bool:
        """Whether it is a table's first, not yet shown by every region: not to be obeyed."""
        return self.coming == self.terms

    @property
    def written_through(self) -> str:
        """The region through which this contract is written: home, or the one that takes over."""
        return self.through or self.terms.home

    @property
    def accepted(self) -> tuple[Terms, ...]:
        """The terms that settings may repeat: those in force, then the coming ones, if any."""
        return (self.terms,) if self.coming is None else (self.terms, self.coming)

    @property
    def regions(self) -> tuple[str, ...]:
        """Every region that must show the contract: in force or to come, and not given up."""
        coming = self.terms if self.coming is None else self.coming
        either = dict.fromkeys((*self.terms.regions, *coming.regions))
        return tuple(region for region in either if region not in self.giving_up)

    @property
    def giving_up(self) -> tuple[str, ...]:
        """The regions that a pending change gives up because they are lost for good."""
        return () if self.coming is None else self.coming.lost[len(self.terms.lost) :]

    @property
    def leaving(self) -> tuple[str, ...]:
        """The regions that a pending change takes out while they work."""
        return () if self.coming is None else taken_out(self.terms, self.coming)

    def is_older_than(self, other: "Contract") -> bool:
        """Return whether `other` supersedes this: a higher generation, then a higher revision."""
        return (self.generation, self.revision) < (other.generation, other.revision)


def format_of(*, has_books: bool, has_credits: bool) -> int:
    """Return the lowest format that a table can have: releases that know a lower one refuse it.

    They would fold the transfers of a book, and lose the legs; and close grants of credits early.
    """
    return FORMAT if has_books or has_credits else 1


def newest_of(shown: Iterable[object]) -> Contract | None:
    """Return the newest contract of those that regions show; None for a region is ignored."""
    found = (contract for contract in shown if isinstance(contract, Contract))
    return max(found, key=lambda each: (each.generation, each.revision), default=None)


def contract_key(generation: int) -> Key:
    """Return the key of the contract's item in a generation, 1 to 9,999."""
    return CONTRACT_PARTITION, f"{TABLE_PREFIX}{generation:0{GENERATION_DIGITS}d}"


def contract_item(contract: Contract) -> dict[str, AttributeValue]:
    """Return the item of a contract."""
    partition, sort_key = contract_key(contract.generation)
    item: dict[str, AttributeValue] = {
        "pk": {"S": partition},
        "sk": {"S": sort_key},
        "revision": {"N": str(contract.revision)},
        "terms": {"S": _to_json(contract.terms)},
    }
    if contract.coming is not None:
        item["next"] = {"S": _to_json(contract.coming)}
    if contract.through:
        item["through"] = {"S": contract.through}
    if contract.since is not None:
        item["since"] = {"S": contract.since.isoformat()}
    return {**item, "digest": {"S": _digest(item)}}


def contract_of(item: Item) -> Contract:
    """Return the contract that an item holds.

    Raises:
        ContractDamaged: an attribute is missing or was changed by hand.
        UpgradeNeeded: it is of a newer format than this release knows.
    """
    found = _SORT_KEY.fullmatch(item["sk"]["S"])
    revision = item.get("revision", {}).get("N")
    if found is None or not isinstance(revision, str) or not revision.isdecimal():
        raise _damaged(item, "sk must be table#GENERATION and revision a whole number")
    if item.get("digest", {}).get("S") != _digest(item):
        raise _damaged(item, "the digest does not match: it was edited by hand")
    coming = item.get("next")
    contract = Contract(
        terms=_of_json(item, "terms"),
        revision=int(revision),
        generation=int(found[1]),
        coming=None if coming is None else _of_json(item, "next"),
        through=item.get("through", {}).get("S", ""),
        since=_since(item),
    )
    if is_pending(contract.revision) != (coming is not None):
        raise _damaged(item, "an odd revision announces a change, an even one is in force")
    return contract


def terms_to_values(terms: Terms) -> dict[str, Any]:
    """Return terms as plain values for JSON and for people; durations in seconds."""
    values = {
        field.name: getattr(terms, field.name)
        for field in fields(terms)
        if field.name not in _NEVER_STORED
    }
    values["regions"] = list(terms.regions)
    values["unmerged"] = list(terms.unmerged)
    values["combine"] = list(terms.combine)
    values["lost"] = list(terms.lost)
    values["archive"] = list(terms.archive)
    values["index"] = list(terms.index)
    values["periods"] = {pattern: asdict(rule) for pattern, rule in terms.periods.items()}
    values["books"] = list(terms.books)
    values["budgets"] = {pattern: _budget(rule) for pattern, rule in terms.budgets.items()}
    values["given_up_at"] = terms.given_up_at.isoformat() if terms.given_up_at else None
    values["shards"] = {
        pattern: [
            {"count": step.count, "since": step.since.isoformat() if step.since else None}
            for step in steps
        ]
        for pattern, steps in terms.shards.items()
    }
    return values


def _budget(rule: BudgetRule) -> dict[str, Any]:
    """Return the values of a rule; without `credits` those that older releases know, too.

    One that does not know it refuses the table: it would close a grant of credits too early.
    """
    return {name: value for name, value in asdict(rule).items() if name != "credits" or value}


def _to_json(terms: Terms) -> str:
    return json.dumps(terms_to_values(terms), ensure_ascii=False, separators=(",", ":"))


def _of_json(item: Item, name: str) -> Terms:
    try:
        values: Mapping[str, Any] = json.loads(item[name]["S"])
        if int(values["format"]) > FORMAT:
            raise UpgradeNeeded(
                f"the table's items are of format {values['format']}, this release knows up to"
                f" {FORMAT}: upgrade it"
            )
        return terms_of_values(values)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(item, f"{name} cannot be read: {error!r}") from None


def terms_of_values(values: Mapping[str, Any]) -> Terms:
    """Return the terms in values of `terms_to_values`.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: a value is missing or of another kind.
    """
    durations: dict[str, Any] = {name: float(values[name]) for name in DURATIONS}
    return Terms(
        format=int(values["format"]),
        home=str(values["home"]),
        regions=tuple(str(region) for region in values["regions"]),
        unmerged=tuple(str(pattern) for pattern in values["unmerged"]),
        combine=tuple(str(pattern) for pattern in values.get("combine", ())),
        lost=tuple(str(region) for region in values["lost"]),
        periods={str(pattern): PeriodRule(**rule) for pattern, rule in values["periods"].items()},
        archive=tuple(str(url) for url in values["archive"]),
        index=tuple(str(pattern) for pattern in values["index"]),
        books=tuple(str(pattern) for pattern in values.get("books", ())),
        budgets={str(pattern): BudgetRule(**rule) for pattern, rule in values["budgets"].items()},
        given_up_at=_time(values["given_up_at"]),
        shards={
            str(pattern): tuple(_step(step) for step in steps)
            for pattern, steps in values["shards"].items()
        },
        **durations,
    )


def _step(values: Mapping[str, Any]) -> ShardRule:
    return ShardRule(int(values["count"]), _time(values["since"]))


def _since(item: Item) -> datetime | None:
    try:
        return _time(item.get("since", {}).get("S"))
    except ValueError:  # informational only
        return None


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _digest(item: Item) -> str:
    parts = [item["sk"]["S"], item.get("revision", {}).get("N", "")]
    parts += [item.get(name, {}).get("S", "") for name in ("terms", "next", "through")]
    lengths = b"".join(len(part.encode()).to_bytes(4, "big") + part.encode() for part in parts)
    return hashlib.sha256(lengths).hexdigest()[: 2 * DIGEST_BYTES]


def _damaged(item: Item, reason: str) -> ContractDamaged:
    return ContractDamaged(f"the table's contract, item {item['sk']['S']!r}, is damaged: {reason}")
