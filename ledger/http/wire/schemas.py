"""What each true answer of the service contains, as models.

OpenAPI shows them, tests hold the service to them, and the client takes nothing else for an answer.

Pure: no clock, no randomness, no I/O.
"""

from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from ledger.core.times import time_of

AMOUNT_PATTERN = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
"""How an amount is written, whatever it comes to."""


def _timed(text: str) -> str:
    if time_of(text).tzinfo is None:
        raise ValueError("a time needs a zone")
    return text


def _dated(text: str) -> str:
    date.fromisoformat(text)
    return text


Amount = Annotated[str, Field(pattern=AMOUNT_PATTERN)]
Time = Annotated[str, AfterValidator(_timed)]
Date = Annotated[str, AfterValidator(_dated)]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Spending(_Answer):
    """What an entry says of the budgets that it was spent from."""

    grants: list[str] = Field(
        description="Those that pay for it, one of each budget; version 0 is none."
    )
    hold: Time | None = Field(description="When it expires, if it is a hold.")
    resolved: Literal["settled", "void", "expired", "charged"] | None = Field(
        description="How a hold ended; of what was let through, that it was charged."
    )
    over: bool = Field(description="Whether it was let through while no grant could be had.")


class Entry(_Answer):
    """One change of one counter."""

    counter: str
    id: str = Field(description="Time and 64 bits that tell changes apart; entries sort by it.")
    change: Amount
    region: str | None
    note: str | None
    effective: Date | None = Field(description="A date.")
    count: int = Field(description="How many changes it stands for, if it is combined.")
    reverses: str | None = Field(description="The id of the entry that it takes back.")
    spending: Spending | None


class Problem(BaseModel):
    """What went wrong (RFC 9457); `type` is a path of this service with a page about it."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    outcome: Literal["not_applied", "unknown"]
    retryable: bool


class Result(_Answer):
    """What became of one of several changes: an entry, or a problem."""

    status: int
    entry: Entry | None = None
    problem: Problem | None = None

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if (self.entry is None) == (self.problem is None):
            raise ValueError("a result has an entry or a problem")
        return self


class Entries(_Answer):
    """What became of each change, in the order of the request."""

    results: list[Result]


class Total(_Answer):
    """The sum of a counter's changes that had reached `region` at `as_of`, each counted once."""

    counter: str
    value: Amount
    known: bool = Field(description="Whether the region has anything of the counter.")
    region: str
    as_of: Time
    ended: Time = Field(description="Of the changes between `as_of` and this time some count.")
    at: Time | None
    steady: bool
    cached: bool
    entries: int = Field(description="How many entries are not merged yet.")
    merged: int
    additions: int = Field(description="How many times pipelines added to it.")
    versions: list[str] = Field(description="Those of its net changes, one a shard that has one.")
    age: float = Field(description="Seconds since `as_of`.")


class Totals(_Answer):
    """Totals in the order asked, and by id the problem of each counter that cannot be read."""

    totals: list[Total]
    problems: dict[str, Problem]


class History(_Answer):
    """A page of entries; `next` is the `after` of the next one."""

    entries: list[Entry]
    next: str | None
    merged: int = Field(
        description="How many older entries are merged, and in no archive: once they are deleted,"
        " they are not listed."
    )
    until: Time | None = Field(description="When the newest of them was made.")


class Feed(_Answer):
    """Entries in the order in which they reached the region."""

    entries: list[Entry]
    next: str = Field(description="The `after` of the next page, entries or not.")
    more: bool = Field(description="Whether there may be more now: ask again at once.")


class Period(_Answer):
    """The sum of one hour, day or month."""

    start: Time
    end: Time
    value: Amount
    whole: bool


class Periods(_Answer):
    """Sums by period, each without a gap after the one before."""

    counter: str
    region: str
    as_of: Time
    by: Literal["hour", "day", "month"]
    zone: str
    effective: bool
    opening: Amount
    closing: Amount
    total: Amount
    periods: list[Period]


class Number(_Answer):
    """A number among the attributes of a counter, as text, so that no digit is lost."""

    number: Amount


class Description(_Answer):
    """The attributes that a counter was described by, as this region has them."""

    counter: str
    attributes: dict[str, str | bool | Number]


class Listed(_Answer):
    """A counter as the table's index lists it."""

    counter: str
    value: Amount
    count: int
    as_of: Time
    exact: bool
    description: dict[str, str | bool | Number] | None = None


class Counters(_Answer):
    """A page of counters; `next` is the `after` of the next one."""

    counters: list[Listed]
    next: str | None


class Top(_Answer):
    """Counters in the order of their values."""

    counters: list[Listed]


class Reconciled(_Answer):
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


class RegionRights(_Answer):
    """What one region has of a budget."""

    region: str
    free: Amount = Field(description="To be granted.")
    granted: Amount = Field(description="What open grants of processes may come to.")
    charged: Amount = Field(description="What closed grants came to.")
    in_flight: Amount = Field(description="Sent to it, and not taken up yet.")
    owed: Amount = Field(description="What it was charged more than it had.")
    lost: bool = Field(description="Whether it is out of reach until it is reclaimed.")


class OpenGrant(_Answer):
    """An amount that one process may spend."""

    region: str
    version: int
    amount: Amount
    since: Time
    expires: Time
    over: bool = Field(description="Whether it is past, and waits to be closed by its entries.")


class InFlight(_Answer):
    """Rights on their way from one region to another."""

    giver: str
    taker: str
    amount: Amount


class Budget(_Answer):
    """A budget, or one window of it, as the region shows it.

    What was spent lies between `charged`, and `charged` and `granted` together.
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
    regions: list[RegionRights]
    grants: list[OpenGrant]
    in_flight: list[InFlight]


class Budgets(_Answer):
    """Budgets in the order asked, and by id the problem of each counter that is none, or unread."""

    budgets: list[Budget]
    problems: dict[str, Problem]


class BudgetLimit(_Answer):
    """The limit that a counter has been given; by an `id` it may have been changed since."""

    budget: str
    limit: Amount


class Session(_Answer):
    """What the caller may do, which region answers, and what the table's contract keeps."""

    caller: str
    scopes: list[str]
    prefixes: list[str]
    region: str
    home: str
    regions: list[str] = Field(description="All of the table, the home region first.")
    index: list[str] = Field(description="Patterns of counters that can be listed.")
    periods: list[str] = Field(description="Patterns of counters with sums by period.")
    budgets: list[str] = Field(description="Patterns of counters that may have a limit.")


class RegionTotals(_Answer):
    """By region its `totals`, or why it shows none: `failed`."""

    regions: dict[str, dict[str, Any]]


class Fleet(_Answer):
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


class Health(_Answer):
    """Whether this instance goes on."""

    status: str
    region: str


ANSWERS: tuple[type[BaseModel], ...] = (
    Entry, Entries, Total, Totals, History, Feed, Periods, Counters, Top, Description, Reconciled,
    Budget, Budgets, BudgetLimit, Session, Fleet, RegionTotals, Health, Problem,
)  # fmt: skip
