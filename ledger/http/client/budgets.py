"""`Budget` and `Budgets` over HTTP: limits that hold across regions, spent from by a service."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from http import HTTPStatus
from typing import Any

from ledger.budgets.budget import HOLDS_AT_ONCE, Expires
from ledger.budgets.budget_state import BudgetState, explain_budget
from ledger.budgets.spend_request import (
    Credited,
    Granted,
    Refused,
    SpendOutcome,
    checked_budgets,
    checked_hold,
)
from ledger.core import amounts, keys
from ledger.core.amounts import check_bool
from ledger.core.errors import BudgetExceeded, InvalidInput, LedgerError, OutcomeUnknown
from ledger.core.values import Entry
from ledger.http.client.requests import NamedChange, Request, query, segment, time_text
from ledger.http.wire.schemas import BudgetLimitModel, BudgetModel, CreditedModel, EntryModel
from ledger.http.wire.values import refused_of
from ledger.runtime.tasks import run_all
from ledger.writes.change_list import check_list
from ledger.writes.entry_plan import Change

WAIT_SECONDS_MAX = 60.0
"""The longest wait for rights that the service takes."""
Lost = Callable[[str], LedgerError]


@dataclass(frozen=True, slots=True)
class Calls:
    """What a budget asks of its ledger; the numbers are timeouts in seconds, None for its own."""

    write: Callable[[Request[Any], float | None, Lost], Awaitable[tuple[int, Any]]]
    read: Callable[[str, Iterable[tuple[str, str]], float | None], Awaitable[BudgetModel]]
    named: Callable[[Change], NamedChange]

    async def spend(
        self, request: Request[EntryModel], timeout: float | None, lost: Lost
    ) -> SpendOutcome:
        """Send a request that is answered with an entry, or refused."""
        try:
            status, entry = await self.write(request, timeout, lost)
        except BudgetExceeded as error:
            return refused_of(error)
        return Granted(entry.to_value(repeated=status == HTTPStatus.OK))


@dataclass(frozen=True, slots=True)
class Hold:
    """An amount that is kept aside until it is settled, voided, or expires; `entry` is its entry.

    It is true, as a refusal is false: `if hold := await budget.hold(5, expires=600)`.
    """

    entry: Entry
    _calls: Calls

    async def settle(
        self, actual: int | Decimal, *, over: bool = False, timeout: float | None = None
    ) -> Granted | Refused:
        """Settle it for what it came to, 0 or more, once; repeated it returns the same.

        Raises:
            As `ledger.budgets.budget.Hold.settle`.
        """
        text = amounts.to_text(amounts.addend(actual))
        body = {"actual": text, "over": check_bool("over", over)}
        request = self._request("settle", body)
        return await self._calls.spend(request, timeout, self._lost)

    async def void(self, *, timeout: float | None = None) -> Granted | Refused:
        """Give back all that is held, once; repeated it returns the same.

        Raises:
            As `settle`.
        """
        return await self._calls.spend(self._request("void", {}), timeout, self._lost)

    async def extend(self, expires: Expires, *, timeout: float | None = None) -> "Hold":
        """Let it expire later: at an aware time, or so long from now; return it as it is then.

        Raises:
            As `settle`.
        """
        request = self._request("extend", {"expires": _expires(expires)})
        _, entry = await self._calls.write(request, timeout, self._lost)
        return Hold(entry.to_value(), self._calls)

    def _request(self, verb: str, body: Mapping[str, Any]) -> Request[EntryModel]:
        entry = self.entry
        named = {"counter": keys.checked_counter(entry.counter), **body}
        if entry.region is not None:
            named["region"] = entry.region
        path = f"/v1/holds/{segment(entry.id)}/{verb}"
        return Request("POST", path, EntryModel, body=named)

    def _lost(self, cause: str) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"no answer for hold {self.entry.id} of {self.entry.counter!r} ({cause}): the same call"
            " is harmless",
            entries=[self.entry],
            retryable=True,
        )


class Budgets:
    """Several budgets that one spend takes from, all or none; the narrowest comes first.

    The methods are those of `ledger.budgets.budget.Budgets`; what differs is listed in
    `ledger/docs/howto/call-from-a-client.md`.
    """

    def __init__(self, names: Sequence[str], calls: Calls) -> None:
        self.names: tuple[str, ...] = checked_budgets(names)
        self._calls = calls

    async def spend(
        self,
        amount: int | Decimal,
        *,
        note: str | None = None,
        key: str | None = None,
        at: datetime | None = None,
        wait: float = 0.0,
        timeout: float | None = None,
    ) -> SpendOutcome:
        """Spend an amount above 0, if each budget has as much; durable in the service's region.

        Without a `key` it is sent under one that is made here, so that lost requests and answers
        are repeated within the call.

        Raises:
            OutcomeUnknown: no answer by the end of the call; with a `key` the same call is
                harmless, without one it would be another spend.
            And as `ledger.budgets.budget.Budgets.spend`.
        """
        change = Change(self.names[0], amount, note, None, key, at)
        return await self._spent("spends", change, {"wait": _waited(wait)}, timeout)

    async def hold(
        self,
        amount: int | Decimal,
        *,
        expires: Expires,
        note: str | None = None,
        key: str | None = None,
        at: datetime | None = None,
        wait: float = 0.0,
        timeout: float | None = None,
    ) -> Hold | Refused:
        """Keep an amount aside, which counts at once, until an aware time, or so long from now.

        Raises:
            As `spend`.
        """
        change = Change(self.names[0], amount, note, None, key, at)
        body = {"wait": _waited(wait), "expires": _expires(expires)}
        outcome = await self._spent("holds", change, body, timeout)
        return Hold(outcome.entry, self._calls) if isinstance(outcome, Granted) else outcome

    async def settle_many(
        self,
        settled: Sequence[tuple[Hold, int | Decimal]],
        *,
        over: bool = False,
        timeout: float | None = None,
    ) -> list[Granted | Refused | LedgerError]:
        """Settle holds for what each came to; return what became of each, in their order.

        Raises:
            InvalidInput: it is not a list of holds and amounts.
        """
        for outcome in check_list("settled", settled):
            if not (isinstance(outcome, tuple) and len(outcome) == len(("hold", "amount"))):
                raise InvalidInput(
                    f"settled must have pairs of a hold and an amount, got {outcome!r}"
                )
        return await _each(
            [
                partial(_checked(hold).settle, actual, over=over, timeout=timeout)
                for hold, actual in settled
            ]
        )

    async def void_many(
        self, held: Sequence[Hold], *, timeout: float | None = None
    ) -> list[Granted | Refused | LedgerError]:
        """Void holds; return what became of each, in their order, as `settle_many`.

        Raises:
            InvalidInput: it is not a list of holds.
        """
        holds = [_checked(hold) for hold in check_list("held", held)]
        return await _each([partial(hold.void, timeout=timeout) for hold in holds])

    def held(self, entry: Entry) -> Hold:
        """Return the hold of an entry, which any process may settle or void.

        Raises:
            InvalidInput: it is not an entry, or has no id that one can have.
        """
        return Hold(checked_hold(entry), self._calls)

    async def _spent(
        self, what: str, change: Change, body: Mapping[str, Any], timeout: float | None
    ) -> SpendOutcome:
        named = self._calls.named(change)
        fields = {**named.fields, **body, "also": list(self.names[1:])}
        fields["amount"] = fields.pop("change")
        del fields["counter"]  # it is in the path
        request = Request("POST", f"{_path(self.names[0])}/{what}", EntryModel, body=fields)
        return await self._calls.spend(request, timeout, partial(self._lost, is_own=named.is_own))

    def _lost(self, cause: str, *, is_own: bool, what: str = "spend from") -> OutcomeUnknown:
        safe, another = "the same call is harmless", what.partition(" ")[0]
        advice = f"without a key the same call is another {another}" if is_own else safe
        return OutcomeUnknown(
            f"no answer for a {what} {self.names[0]!r}, which may be made or not ({cause}):"
            f" {advice}",
            entries=[],
            retryable=not is_own,
        )


class Budget(Budgets):
    """The limit of one counter, or of each window of it."""

    def __init__(self, name: str, calls: Calls) -> None:
        super().__init__([name], calls)

    @property
    def name(self) -> str:
        """The budget's counter."""
        return self.names[0]

    async def create(
        self,
        limit: int | Decimal,
        *,
        id: str | None = None,  # noqa: A002 (the word for it)
        weights: Mapping[str, int] | None = None,
        timeout: float | None = None,
    ) -> bool:
        """Give the counter its limit, through home; return False if it had it already.

        Also if an earlier try of this call made it, whose answer was lost. With an `id` it counts
        as the raise of that id.

        Raises:
            As `ledger.budgets.budget.Budget.create`.
        """
        body: dict[str, Any] = {"limit": amounts.to_text(amounts.addend(limit))}
        if id is not None:
            body["id"] = id
        if weights is not None:
            body["weights"] = dict(weights)
        request = Request("PUT", _path(self.name), BudgetLimitModel, body=body)
        status, _ = await self._calls.write(request, timeout, self._lost_limit)
        return status == HTTPStatus.CREATED

    async def credit(
        self,
        amount: int | Decimal,
        *,
        key: str | None = None,
        at: datetime | None = None,
        note: str | None = None,
        wait: float = 0.0,
        timeout: float | None = None,
    ) -> Credited:
        """Give the budget an amount above 0; durable in the service's region.

        Without a `key` it is sent under one that is made here, as a spend is.

        Raises:
            OutcomeUnknown: as `spend`.
            And as `ledger.budgets.budget.Budget.credit`.
        """
        named = self._calls.named(Change(self.name, amount, note, None, key, at))
        fields = {**named.fields, "wait": _waited(wait)}
        fields["amount"] = fields.pop("change")
        del fields["counter"]  # it is in the path
        request = Request("POST", f"{_path(self.name)}/credits", CreditedModel, body=fields)
        lost = partial(self._lost, is_own=named.is_own, what="credit of")
        status, found = await self._calls.write(request, timeout, lost)
        return Credited(found.to_value(repeated=status == HTTPStatus.OK), found.spendable)

    async def state(
        self, *, at: datetime | None = None, timeout: float | None = None
    ) -> BudgetState:
        """Return limit, rights, grants and transfers of the budget, or its window, as shown there.

        Raises:
            As `ledger.budgets.budget.Budget.state`.
        """
        if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
            raise InvalidInput(f"at must be an aware time, got {at!r:.80}")
        found = await self._calls.read(_path(self.name), query(at=at), timeout)
        return found.to_value()

    async def explain(self, *, at: datetime | None = None, timeout: float | None = None) -> str:
        """Return the `state` in lines that people read, with what a reclaim would put at stake.

        Raises:
            As `state`.
        """
        return "\n".join(explain_budget(await self.state(at=at, timeout=timeout)))

    def _lost_limit(self, cause: str) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"budget {self.name!r} may be made, or not ({cause}): repeat the call",
            entries=[],
            retryable=True,
        )


async def _each(
    jobs: Sequence[Callable[[], Awaitable[Granted | Refused]]],
) -> list[Granted | Refused | LedgerError]:
    async def one(job: Callable[[], Awaitable[Granted | Refused]]) -> Any:
        try:
            return await job()
        except LedgerError as error:
            return error

    return await run_all([partial(one, job) for job in jobs], at_once=HOLDS_AT_ONCE)


def _checked(hold: object) -> Hold:
    if not isinstance(hold, Hold):
        raise InvalidInput(f"a hold must be what `hold` or `held` returned, got {hold!r:.80}")
    return hold


def _path(counter: str) -> str:
    return f"/v1/budgets/{segment(counter)}"


def _expires(expires: Expires) -> float | str:
    """Return an expiry as the service reads it, which checks the rest.

    Raises:
        InvalidInput: it is neither an aware time, nor a duration or seconds.
    """
    match expires:
        case datetime() if expires.tzinfo is not None:
            return time_text(expires)
        case timedelta():
            return expires.total_seconds()
        case int() | float() if not isinstance(expires, bool):
            return expires
        case _:
            raise InvalidInput(
                f"expires must be an aware time, or seconds from now, got {expires!r:.80}"
            )


def _waited(seconds: float) -> float:
    """Return for how long the service is to wait for rights.

    Raises:
        InvalidInput: it is not 0 or more seconds.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise InvalidInput(f"wait must be 0 or more seconds, got {seconds!r}")
    return min(seconds, WAIT_SECONDS_MAX)
