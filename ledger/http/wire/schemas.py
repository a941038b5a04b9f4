"""The library's values as JSON objects: the answers of the service, and their parts.

The service writes its answers by these models, commands print them, OpenAPI shows their schemas,
and the client takes nothing else for an answer, and makes the library's own values of them again.
`EntryModel` is the schema `Entry` of the OpenAPI document.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, ModelWrapValidatorHandler, PrivateAttr, model_validator

from ledger.budgets.budget_state import BudgetState, InFlight, OpenGrant, RegionRights
from ledger.core import amounts
from ledger.core.books import Accounts
from ledger.core.descriptions import Value
from ledger.core.index import Listed
from ledger.core.reconciliation import Reconciled
from ledger.core.values import Entry, Leg, Spending
from ledger.http.wire.models import (
    Amount,
    AnswerModel,
    Called,
    Date,
    Seconds,
    Time,
    ValueModel,
    Ways,
)
from ledger.http.wire.values import Fields, typed
from ledger.reads.balances import Balances
from ledger.reads.feed.page import FeedPage
from ledger.reads.period_totals import By, Period, PeriodTotals
from ledger.reads.total import Total


class SpendingModel(ValueModel[Spending]):
    """What an entry says of the budgets that it was spent from."""

    grants: tuple[str, ...] = Field(
        description="Those that pay for it, one of each budget; version 0 is none."
    )
    hold: Seconds | None = Field(description="When it expires, if it is a hold.")
    resolved: Literal["settled", "void", "expired", "charged"] | None = Field(
        description="How a hold ended; of what was let through, that it was charged."
    )
    over: Annotated[bool, Called("is_over")] = Field(
        description="Whether it was let through while no grant could be had."
    )


class LegModel(ValueModel[Leg]):
    """What a transfer moves into an account of a book; out of it if negative."""

    account: str
    asset: str
    amount: Amount


class EntryModel(ValueModel[Entry]):
    """One change of one counter; in a book a transfer, whose `change` is 0."""

    counter: str
    id: str = Field(
        description="Time and 64 bits that tell changes apart, with `.` and three digits where"
        " several share an item; entries sort by it."
    )
    change: Amount
    region: str | None
    note: str | None
    effective: Date | None = Field(description="A date.")
    count: int = Field(
        description="How many changes it stands for, if another tool, or an earlier release, made"
        " one of several."
    )
    reverses: str | None = Field(description="The id of the entry that it takes back.")
    spending: SpendingModel | None
    parts: str = Field(
        "",
        description="All changes that share its item, amounts with spaces between, or transfers as"
        " JSON: where the item may be written again, by `POST /v1/retries`.",
    )
    legs: tuple[LegModel, ...] = Field(
        default_factory=tuple,
        description="Of a transfer, by asset and account; those of each asset sum to 0.",
    )
    metadata: dict[str, str] | None = Field(None, description="What its caller named.")

    @classmethod
    def fields_of(cls, value: Entry) -> Fields:
        """Return an entry's members, with `parts`, `legs` and `metadata` if it has any."""
        members = super().fields_of(value)
        if not value.parts:
            del members["parts"]
        if not value.legs:
            del members["legs"]
        if value.metadata is None:
            del members["metadata"]
        return members


class CreditedModel(EntryModel):
    """The entry of a credit, which counts at once."""

    spendable: bool = Field(
        description="Whether it can be spent: every region shows it, as far as this one knows."
    )


class ProvedEntryModel(EntryModel):
    """An entry with the key that proves who wrote it: for its writer alone, to repeat it."""

    key: str | None


class ProblemModel(AnswerModel):
    """What went wrong (RFC 9457); `type` is a path of this service with a page about it."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    outcome: Literal["not_applied", "unknown"]
    retryable: bool
    _members: Fields = PrivateAttr(default_factory=dict)

    @property
    def members(self) -> Fields:
        """All members, those of its kind as they came."""
        return self._members

    @model_validator(mode="wrap")
    @classmethod
    def _keep(cls, members: Any, check: ModelWrapValidatorHandler[Self]) -> Self:
        problem = check(members)
        problem._members = members  # noqa: SLF001 (its own)
        return problem


class ResultModel(AnswerModel):
    """What became of one of several changes: an entry, or a problem."""

    status: int
    entry: EntryModel | None = None
    problem: ProblemModel | None = None

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if (self.entry is None) == (self.problem is None):
            raise ValueError("a result has an entry or a problem")
        return self


class EntriesModel(AnswerModel):
    """What became of each change, in the order of the request."""

    results: list[ResultModel]


class RegionTotalModel(ValueModel[Total]):
    """A total as a region shows it."""

    counter: str
    value: Amount
    known: Annotated[bool, Called("is_known")] = Field(
        description="Whether the region has anything of the counter."
    )
    region: str
    as_of: Time
    ended: Time = Field(description="Of the changes between `as_of` and this time some count.")
    at: Time | None
    steady: bool
    cached: bool
    entries: int = Field(description="How many entries are not merged yet.")
    merged: int
    additions: int = Field(description="How many times pipelines added to it.")
    versions: tuple[str, ...] = Field(
        description="Those of its net changes, one a shard that has one."
    )


class TotalModel(RegionTotalModel):
    """The sum of a counter's changes that had reached `region` at `as_of`, each counted once."""

    age: float = Field(description="Seconds since `as_of`.")


class TotalsModel(AnswerModel):
    """Totals in the order asked, and by id the problem of each counter that cannot be read."""

    totals: list[TotalModel]
    problems: dict[str, ProblemModel]


class HistoryModel(AnswerModel):
    """A page of entries; `next` is the `after` of the next one."""

    entries: list[EntryModel]
    next: str | None
    merged: int = Field(
        description="How many older entries are merged, and in no archive: once they are deleted,"
        " they are not listed."
    )
    until: Time | None = Field(description="When the newest of them was made.")


class FeedModel(ValueModel[FeedPage]):
    """Entries in the order in which they reached the region."""

    entries: tuple[EntryModel, ...]
    next: Annotated[str, Called("cursor")] = Field(
        description="The `after` of the next page, entries or not."
    )
    more: bool = Field(description="Whether there may be more now: ask again at once.")


class PeriodModel(ValueModel[Period]):
    """The sum of one hour, day or month."""

    start: Time
    end: Time
    value: Amount
    whole: Annotated[bool, Called("is_whole")]


class PeriodsModel(ValueModel[PeriodTotals]):
    """Sums by period, each without a gap after the one before."""

    counter: str
    region: str
    as_of: Time
    by: By
    zone: str
    effective: bool
    opening: Amount
    closing: Amount
    total: Amount
    periods: tuple[PeriodModel, ...]


class NumberModel(AnswerModel):
    """A number among the attributes of a counter, as text, so that no digit is lost."""

    number: Amount


_Attribute = str | bool | NumberModel


def description_of(attributes: Mapping[str, _Attribute]) -> dict[str, Value]:
    """Return attributes as the library has them: of numbers the whole ones as int."""
    return {name: _value_of(attribute) for name, attribute in attributes.items()}


def _value_of(attribute: _Attribute) -> Value:
    if not isinstance(attribute, NumberModel):
        return attribute
    return int(attribute.number) if amounts.is_whole(attribute.number) else attribute.number


Attributes = Annotated[dict[str, _Attribute], Ways(typed, description_of)]


class DescriptionModel(AnswerModel):
    """The attributes that a counter was described by, as this region has them."""

    counter: str
    attributes: Attributes


class ListedModel(ValueModel[Listed]):
    """A counter as the table's index lists it."""

    counter: str
    value: Amount
    count: int
    as_of: Time
    exact: Annotated[bool, Called("is_exact")]
    description: Attributes | None = None

    @classmethod
    def fields_of(cls, value: Listed) -> Fields:
        """Return a listed counter's members, with its description if it was asked for."""
        members = super().fields_of(value)
        if value.description is None:
            del members["description"]
        return members


class CountersModel(AnswerModel):
    """A page of counters; `next` is the `after` of the next one."""

    counters: list[ListedModel]
    next: str | None


class TopModel(AnswerModel):
    """Counters in the order of their values."""

    counters: list[ListedModel]


def _balances_text(assets: Accounts) -> dict[str, dict[str, str]]:
    return {
        asset: {account: amounts.to_text(balance) for account, balance in balances.items()}
        for asset, balances in assets.items()
    }


class BalancesModel(ValueModel[Balances]):
    """The balances of a book's accounts, of transfers that are counted whole, each once."""

    book: str
    assets: Annotated[dict[str, dict[str, Amount]], Ways(_balances_text)] = Field(
        description="By asset and account, without those of 0, of the accounts that were asked"
        " for; of all accounts they sum to 0 in each asset."
    )
    region: str
    as_of: Time
    ended: Time = Field(description="Of the transfers between `as_of` and this time some count.")
    at: Time | None
    steady: bool
    cached: bool
    transfers: int = Field(description="How many are counted, merged or not.")


class ReconciledModel(ValueModel[Reconciled]):
    """What a correction by a physical count did."""

    counter: str
    change: Amount
    counted: Amount
    total: Amount
    at: Time
    region: str
    token: str
    reason: str | None
    entry: str | None
    repeated: bool


class RegionRightsModel(ValueModel[RegionRights]):
    """What one region has of a budget."""

    region: str
    free: Amount = Field(description="To be granted.")
    granted: Amount = Field(description="What open grants of processes may come to.")
    charged: Amount = Field(description="What closed grants came to, less what was credited.")
    in_flight: Amount = Field(description="Sent to it, and not taken up yet.")
    owed: Amount = Field(description="What it was charged more than it had.")
    lost: Annotated[bool, Called("is_lost")] = Field(
        description="Whether it is out of reach until it is reclaimed."
    )


class OpenGrantModel(ValueModel[OpenGrant]):
    """An amount that one process may spend."""

    region: str
    version: int
    amount: Amount
    since: Seconds
    expires: Seconds
    over: Annotated[bool, Called("is_over")] = Field(
        description="Whether it is past, and waits to be closed by its entries."
    )


class InFlightModel(ValueModel[InFlight]):
    """Rights on their way from one region to another."""

    giver: str
    taker: str
    amount: Amount


class BudgetModel(ValueModel[BudgetState]):
    """A budget, or one window of it, as the region shows it.

    What was spent, less what was credited, lies between `charged`, and `charged` and `granted`
    together.
    """

    budget: str
    counter: str = Field(description="Of the spends: that of the window, if the budget has them.")
    limit: Amount
    target: Amount = Field(description="Where the limit is going, while it is lowered.")
    charged: Amount
    granted: Amount
    free: Amount = Field(description="To be granted anywhere, with what is on its way.")
    owed: Amount = Field(description="What regions were charged more than they had.")
    stranded: Amount = Field(description="What cannot be spent now.")
    waiting: Amount = Field(
        description="What the instance that answers credited, and not every region shows yet."
    )
    takes_credits: bool = Field(description="Whether its pattern has credits.")
    regions: tuple[RegionRightsModel, ...]
    grants: tuple[OpenGrantModel, ...]
    in_flight: tuple[InFlightModel, ...]


class BudgetsModel(AnswerModel):
    """Budgets in the order asked, and by id the problem of each counter that is none, or unread."""

    budgets: list[BudgetModel]
    problems: dict[str, ProblemModel]


class BudgetLimitModel(AnswerModel):
    """The limit that a counter has been given; by an `id` it may have been changed since."""

    budget: str
    limit: Amount


class SessionModel(AnswerModel):
    """What the caller may do, which region answers, and what the table's contract keeps."""

    caller: str
    scopes: list[str]
    prefixes: list[str]
    region: str
    home: str
    regions: list[str] = Field(description="All of the table, the home region first.")
    index: list[str] = Field(description="Patterns of counters that can be listed.")
    periods: list[str] = Field(description="Patterns of counters with sums by period.")
    budgets: list[str] = Field(
        description="Patterns of counters that may have a limit; the first that matches counts."
    )
    credits: list[str] = Field(description="Those of them whose budgets take credits.")
    books: list[str] = Field(description="Patterns of counters that are books.")


class RegionTotalsModel(AnswerModel):
    """By region its `totals`, or why it shows none: `failed`."""

    regions: dict[str, dict[str, Any]]


class FleetModel(AnswerModel):
    """The state of all regions; what could not be read is `{"failed": why}` in its place."""

    at: Time
    region: str
    table: str
    home: str
    regions: list[dict[str, Any]]
    contract: dict[str, Any] | None
    lags: list[dict[str, Any]]
    lags_at: str | None = Field(description="When they were probed; null: by the last pass.")
    compactor: dict[str, Any]
    merging: dict[str, Any]
    trend: list[dict[str, Any]]
    hot: dict[str, Any]
    pipelines: list[dict[str, Any]] | dict[str, Any]
    requests: dict[str, int] = Field(description="Answered by this instance, by status.")
    findings: list[dict[str, Any]] = Field(description="As `ledger doctor` puts them.")


class HealthModel(AnswerModel):
    """Whether this instance goes on."""

    status: str
    region: str


ANSWERS: tuple[type[AnswerModel], ...] = (
    EntryModel, CreditedModel, EntriesModel, TotalModel, TotalsModel, HistoryModel, FeedModel,
    PeriodsModel, CountersModel, TopModel, DescriptionModel, ReconciledModel, BudgetModel,
    BudgetsModel, BudgetLimitModel, BalancesModel, SessionModel, FleetModel, RegionTotalsModel,
    HealthModel,
    ProblemModel,
)  # fmt: skip
