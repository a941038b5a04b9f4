"""What one process knows of the credits that it put: their grants, and what waits to be taken in.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial

from ledger.budgets import credit_rules, rights_plan
from ledger.budgets.rights import Grant, GrantName, Holder, Rights
from ledger.budgets.rights_plan import Step
from ledger.budgets.spend_record import SpendRecord
from ledger.core import amounts
from ledger.core.entry import Key

KEYED_MAX = 10_000
"""How many entries with keys are put under a grant: each is kept in mind, so that a repeat of the
call is not taken in once more."""
WAITING_MAX = 10_000
"""How many credits of a budget a process keeps in mind; further ones are found by reading."""
_ZERO = Decimal(0)


@dataclass(slots=True, eq=False)
class WaitingCredit:
    """A credit that is not taken in yet, since when (monotonic), and which regions showed it.

    `is_over` once it can be spent.
    """

    key: Key
    record: SpendRecord
    since: float
    seen: frozenset[str] = frozenset()
    is_over: bool = False


@dataclass(slots=True)
class CreditGrant:
    """A grant of 0 that this process credits under; `taken` of it can be spent.

    `in_flight` entries have no outcome yet. `is_doubtful` if entries of it are not kept in mind:
    then it is closed by reading. So it is if a credit is never shown by all: it may never have
    landed, or a copy of another region won under its key.
    """

    name: GrantName
    grant: Grant
    in_flight: int = 0
    is_doubtful: bool = False
    taken: Decimal = _ZERO
    waiting: dict[str, WaitingCredit] = field(default_factory=dict)
    keyed: set[str] = field(default_factory=set)

    def put(self, credit: WaitingCredit, *, keyed: bool) -> WaitingCredit | None:
        """Note that an entry is durable, or may be: it is taken in once every region shows it.

        Returns what waits for that; None if a call before this one with its key has put it, and it
        was taken in.
        """
        entry = credit.record.id
        if entry in self.keyed:
            return self.waiting.get(entry)
        if keyed:
            self.keyed.add(entry)
        self.waiting[entry] = credit
        return credit

    def took(self, entry: str) -> bool:
        """Return whether an entry that names the grant was taken in."""
        return entry not in self.waiting and not self.is_doubtful

    def took_in(self, credits_: Iterable[WaitingCredit], total: Decimal) -> None:
        """Note that these can be spent: so much in all was taken in of the grant."""
        self.taken = total
        for credit in credits_:
            credit.is_over = True
            self.waiting.pop(credit.record.id, None)

    def total_with(self, credits_: Iterable[WaitingCredit]) -> Decimal:
        """Return what is taken in of the grant once these are."""
        more = (credit.record.amount.copy_negate() for credit in credits_)
        return amounts.total((self.taken, *more))

    def has_no_more_than(self, credits_: Iterable[WaitingCredit]) -> bool:
        """Return whether each of its credits was taken in, once these are."""
        taken = {credit.record.id for credit in credits_}
        return not (self.in_flight or self.is_doubtful or self.waiting.keys() - taken)


class CreditGrants:
    """The credit grants of one budget that this process has open: one at hand, and those before.

    While credits of an earlier one wait the one at hand goes on, however old: else an outage of a
    region would leave grants without end in the item, each of them open until it is over.
    """

    def __init__(self) -> None:
        self.at_hand: CreditGrant | None = None
        self._retired: list[CreditGrant] = []

    def __len__(self) -> int:
        return len(self.all)

    @property
    def all(self) -> list[CreditGrant]:
        """Every grant, the one at hand last."""
        return [*self._retired, *([self.at_hand] if self.at_hand else [])]

    @property
    def waiting(self) -> list[WaitingCredit]:
        """What waits, the oldest first."""
        found = [credit for grant in self.all for credit in grant.waiting.values()]
        return sorted(found, key=lambda credit: credit.since)

    def keep_of(self, holder: Holder) -> None:
        """Forget the grants of other holders: of an epoch of this region that is over.

        They are counted by a reclaim. Their versions say nothing of this holder's item.
        """
        self._retired = [grant for grant in self._retired if grant.name.holder == holder]
        if self.at_hand is not None and self.at_hand.name.holder != holder:
            self.at_hand = None

    def named(self, name: GrantName) -> CreditGrant | None:
        """Return the open grant of this name, if it is this process's."""
        return next((grant for grant in self.all if grant.name == name), None)

    @property
    def is_full(self) -> bool:
        """Whether no more credits are kept in mind."""
        return sum(len(grant.waiting) for grant in self.all) >= WAITING_MAX

    @property
    def has_earlier(self) -> bool:
        """Whether there is a grant before the one at hand."""
        return bool(self._retired)

    @property
    def can_close(self) -> bool:
        """Whether a grant before the one at hand has nothing to wait for any more."""
        return any(grant.has_no_more_than(()) for grant in self._retired)

    def retire(self) -> None:
        """Put nothing more under the grant at hand."""
        if self.at_hand is not None:
            self._retired.append(self.at_hand)
            self.at_hand = None

    def steps(self, shown: Mapping[GrantName, list[WaitingCredit]]) -> list[Step]:
        """Return what takes in these credits, by their grant, and closes what is done.

        A grant is closed by its owner only once each of its credits was taken in.
        """
        found: list[Step] = []
        for grant in self.all:
            version, credits_ = grant.name.version, shown.get(grant.name, [])
            total = grant.total_with(credits_)
            found.append(partial(credit_rules.take_in, version=version, total=total))
            if grant is not self.at_hand and grant.has_no_more_than(credits_):
                found.append(partial(credit_rules.close_credits, version=version))
        return found

    def written(self, rights: Rights, shown: Mapping[GrantName, list[WaitingCredit]]) -> None:
        """Take in that an item was written by `steps`, or shows that they are done.

        What a grant has that was closed by reading was taken in by that; one that is doubtful is
        left to it.
        """
        for grant in self.all:
            credits_ = shown.get(grant.name, [])
            grant.took_in(credits_, grant.total_with(credits_))
            if grant.name.version not in rights.grants:
                grant.took_in([*grant.waiting.values()], grant.taken)
        kept = [grant for grant in self.all if grant.name.version in rights.grants]
        self.at_hand = self.at_hand if self.at_hand in kept else None
        self._retired = [
            grant
            for grant in kept
            if grant is not self.at_hand
            and not (grant.is_doubtful and not grant.waiting and not grant.in_flight)
        ]

    def opened(self, rights: Rights, token: str, budget: str) -> None:
        """Take in that an item has a grant of this token, or that the one at hand goes on."""
        version = rights_plan.granted_to(rights, token)
        if version is not None:
            self.retire()
            name = GrantName(rights.holder, version, budget)
            self.at_hand = CreditGrant(name, rights.grants[version])
        elif self.at_hand is not None and self.at_hand.name.version in rights.grants:
            self.at_hand.grant = rights.grants[self.at_hand.name.version]
