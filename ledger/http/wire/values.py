"""The library's values as JSON objects, and back: amounts and times are text, so nothing is lost.

`*_fields` renders a value, `*_of` reads what `*_fields` rendered. Commands print these objects,
the service sends them, and the client makes the library's own values of them again.

Budgets as JSON objects, and back: what is left of each, and a refusal, which is a problem.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from ledger.budgets.budget_state import BudgetState, InFlight, OpenGrant, RegionRights
from ledger.budgets.spend_request import CROWDED, Refused
from ledger.core import amounts
from ledger.core.descriptions import Value
from ledger.core.errors import BudgetExceeded
from ledger.core.ids import EPOCH
from ledger.core.index import Listed
from ledger.core.reconciliation import Reconciled
from ledger.core.times import time_of
from ledger.core.values import Entry, Spending
from ledger.reads.feed.page import FeedPage
from ledger.reads.period_totals import Period, PeriodTotals
from ledger.reads.total import Total

Fields = dict[str, Any]


def entry_fields(entry: Entry) -> Fields:
    """Return an entry as JSON shows it."""
    return {
        "counter": entry.counter,
        "id": entry.id,
        "change": amounts.to_text(entry.change),
        "region": entry.region,
        "note": entry.note,
        "effective": entry.effective.isoformat() if entry.effective else None,
        "count": entry.count,
        "reverses": entry.reverses,
        "spending": None if entry.spending is None else _spending_fields(entry.spending),
    }


def proved_fields(entry: Entry) -> Fields:
    """Return an entry with the key that proves who wrote it: for its writer alone, to repeat it."""
    return {**entry_fields(entry), "key": entry.key}


def _spending_fields(spending: Spending) -> Fields:
    return {
        "grants": list(spending.grants),
        "hold": None if spending.hold is None else time_text(spending.hold),
        "resolved": spending.resolved,
        "over": spending.is_over,
    }


def _spending_of(fields: Fields) -> Spending:
    hold = fields["hold"]
    return Spending(
        tuple(fields["grants"]),
        None if hold is None else seconds_of(hold),
        fields["resolved"],
    )


def time_text(seconds: int) -> str:
    """Return a time in whole seconds since 1970 as text."""
    return (EPOCH + timedelta(seconds=seconds)).isoformat()


def seconds_of(text: str) -> int:
    """Return the time that `time_text` rendered."""
    return (time_of(text) - EPOCH) // timedelta(seconds=1)


def feed_fields(page: FeedPage) -> Fields:
    """Return a page of the feed as JSON shows it."""
    entries = [entry_fields(entry) for entry in page.entries]
    return {"entries": entries, "next": page.cursor, "more": page.more}


def feed_page_of(fields: Fields) -> FeedPage:
    """Return the page of the feed that was rendered."""
    return FeedPage(tuple(map(entry_of, fields["entries"])), fields["next"], fields["more"])


def entry_of(fields: Fields, *, repeated: bool = False) -> Entry:
    """Return the entry that was rendered; its shard is not known."""
    effective, spending = fields.get("effective"), fields.get("spending")
    return Entry(
        fields["counter"],
        fields["id"],
        amounts.of_text(fields["change"]),
        fields.get("region"),
        fields.get("note"),
        date.fromisoformat(effective) if effective else None,
        fields.get("count", 1),
        reverses=fields.get("reverses"),
        repeated=repeated,
        spending=None if spending is None else _spending_of(spending),
        key=fields.get("key"),
    )


def is_known(total: Total) -> bool:
    """Return whether a region has anything of a counter: a change, or a net that stands for some.

    A counter whose changes come to 0 is known.
    """
    return total.changes > 0 or bool(total.versions)


def total_fields(total: Total) -> Fields:
    """Return a total as JSON shows it."""
    return {
        "counter": total.counter,
        "value": amounts.to_text(total.value),
        "known": is_known(total),
        "region": total.region,
        "as_of": total.as_of.isoformat(),
        "ended": total.ended.isoformat(),
        "at": total.at.isoformat() if total.at else None,
        "steady": total.steady,
        "cached": total.cached,
        "entries": total.entries,
        "merged": total.merged,
        "additions": total.additions,
        "versions": list(total.versions),
    }


def total_of(fields: Fields) -> Total:
    """Return the total that was rendered."""
    return Total(
        fields["counter"],
        amounts.of_text(fields["value"]),
        time_of(fields["as_of"]),
        fields["region"],
        fields["entries"],
        fields["merged"],
        tuple(fields["versions"]),
        fields["cached"],
        fields["steady"],
        ended=time_of(fields["ended"]),
        additions=fields["additions"],
        at=time_of(fields["at"]) if fields["at"] else None,
    )


def periods_fields(found: PeriodTotals) -> Fields:
    """Return a counter's sums by period as JSON shows them."""
    return {
        "counter": found.counter,
        "region": found.region,
        "as_of": found.as_of.isoformat(),
        "by": found.by,
        "zone": found.zone,
        "effective": found.effective,
        "opening": amounts.to_text(found.opening),
        "closing": amounts.to_text(found.closing),
        "total": amounts.to_text(found.total),
        "periods": [
            {
                "start": period.start.isoformat(),
                "end": period.end.isoformat(),
                "value": amounts.to_text(period.value),
                "whole": period.is_whole,
            }
            for period in found.periods
        ],
    }


def periods_of(fields: Fields) -> PeriodTotals:
    """Return the sums that were rendered."""
    return PeriodTotals(
        fields["counter"],
        fields["by"],
        fields["zone"],
        tuple(
            Period(
                time_of(each["start"]),
                time_of(each["end"]),
                amounts.of_text(each["value"]),
                each["whole"],
            )
            for each in fields["periods"]
        ),
        amounts.of_text(fields["opening"]),
        amounts.of_text(fields["total"]),
        fields["region"],
        time_of(fields["as_of"]),
        fields["effective"],
    )


def listed_fields(one: Listed) -> Fields:
    """Return a listed counter as JSON shows it; its description only if it was asked for."""
    described = {} if one.description is None else {"description": shown(one.description)}
    return {
        "counter": one.counter,
        "value": amounts.to_text(one.value),
        "count": one.count,
        "as_of": one.as_of.isoformat(),
        "exact": one.is_exact,
        **described,
    }


def listed_typed_fields(one: Listed) -> Fields:
    """Return a listed counter so that `listed_of` reads it as it was, its description too."""
    described = {} if one.description is None else {"description": typed(one.description)}
    return listed_fields(one) | described


def listed_of(fields: Fields) -> Listed:
    """Return the counter that `listed_typed_fields` rendered."""
    described = fields.get("description")
    return Listed(
        fields["counter"],
        amounts.of_text(fields["value"]),
        fields["count"],
        time_of(fields["as_of"]),
        fields["exact"],
        None if described is None else description_of(described),
    )


def reconciled_fields(done: Reconciled) -> Fields:
    """Return a correction as JSON shows it."""
    return {
        "counter": done.counter,
        "change": amounts.to_text(done.change),
        "counted": amounts.to_text(done.counted),
        "total": amounts.to_text(done.total),
        "at": done.at.isoformat(),
        "region": done.region,
        "token": done.token,
        "reason": done.reason,
        "entry": done.entry,
        "repeated": done.repeated,
    }


def reconciled_of(fields: Fields) -> Reconciled:
    """Return the correction that was rendered."""
    amounts_in = {name: amounts.of_text(fields[name]) for name in ("change", "counted", "total")}
    return Reconciled(
        counter=fields["counter"],
        **amounts_in,
        at=time_of(fields["at"]),
        region=fields["region"],
        token=fields["token"],
        reason=fields["reason"],
        entry=fields["entry"],
        repeated=fields["repeated"],
    )


def typed(description: Mapping[str, Value | None]) -> Fields:
    """Return attributes as JSON keeps them with their types: a number is `{"number": "12.50"}`.

    Text, true, false and null are JSON's own. A JSON number would be rounded by many programs, and
    as plain text it could not be told from text.
    """
    return {name: _typed(value) for name, value in description.items()}


def description_of(fields: Fields) -> dict[str, Value]:
    """Return the attributes that `typed` rendered: of numbers the whole ones as int."""
    return {name: _untyped(value) for name, value in fields.items()}


def _typed(value: Value | None) -> object:
    if value is None or isinstance(value, bool | str):
        return value
    return {"number": amounts.to_text(amounts.exact(value))}


def _untyped(value: Any) -> Value:
    if isinstance(value, bool | str):
        return value
    number = amounts.parse(value["number"])
    return int(number) if amounts.is_whole(number) else number


def shown(description: Mapping[str, Value]) -> dict[str, str | bool]:
    """Return attributes as JSON shows them: numbers as text, so that no digit is lost."""
    return {name: text_of(value) for name, value in description.items()}


def text_of(value: Value) -> str | bool:
    """Return a value of an attribute: a number as text."""
    if isinstance(value, bool | str):
        return value
    return amounts.to_text(Decimal(value))


def exceeded(refused: Refused) -> BudgetExceeded:
    """Return a refusal as the error that a service answers with."""
    left = f"{amounts.to_text(refused.here)} left here, {amounts.to_text(refused.elsewhere)}"
    wanted = amounts.to_text(refused.wanted)
    why = f"waits: {CROWDED}" if refused.crowded else "is more than may be spent"
    error = BudgetExceeded(f"budget {refused.budget!r} has {left} elsewhere: {wanted} {why}")
    error.members = {
        "budget": refused.budget,
        "wanted": wanted,
        "here": amounts.to_text(refused.here),
        "elsewhere": amounts.to_text(refused.elsewhere),
        "crowded": refused.crowded,
    }
    return error


def refused_of(error: BudgetExceeded) -> Refused:
    """Return the refusal that a service answered with."""
    said = error.members
    wanted, here, elsewhere = (
        amounts.of_text(str(said[name])) for name in ("wanted", "here", "elsewhere")
    )
    return Refused(str(said["budget"]), wanted, here, elsewhere, bool(said["crowded"]))


def budget_fields(state: BudgetState) -> Fields:
    """Return a budget as JSON shows it."""
    return {
        "budget": state.budget,
        "counter": state.counter,
        **{name: amounts.to_text(getattr(state, name)) for name in _AMOUNTS},
        "free": amounts.to_text(state.free),
        "owed": amounts.to_text(state.owed),
        "stranded": amounts.to_text(state.stranded),
        "regions": [_region_fields(region) for region in state.regions],
        "grants": [_grant_fields(grant) for grant in state.grants],
        "in_flight": [
            {"giver": sent.giver, "taker": sent.taker, "amount": amounts.to_text(sent.amount)}
            for sent in state.in_flight
        ],
    }


def budget_of(fields: Fields) -> BudgetState:
    """Return the budget that was rendered."""
    return BudgetState(
        fields["budget"],
        fields["counter"],
        **{name: amounts.of_text(fields[name]) for name in _AMOUNTS},
        regions=tuple(
            RegionRights(
                each["region"],
                **{name: amounts.of_text(each[name]) for name in _OF_REGION},
                is_lost=each["lost"],
            )
            for each in fields["regions"]
        ),
        grants=tuple(map(_grant_of, fields["grants"])),
        in_flight=tuple(
            InFlight(each["giver"], each["taker"], amounts.of_text(each["amount"]))
            for each in fields["in_flight"]
        ),
    )


_AMOUNTS = ("limit", "target", "charged", "granted")
_OF_REGION = ("free", "granted", "charged", "in_flight", "owed")


def _region_fields(rights: RegionRights) -> Fields:
    said = {name: amounts.to_text(getattr(rights, name)) for name in _OF_REGION}
    return {"region": rights.region, **said, "lost": rights.is_lost}


def _grant_fields(grant: OpenGrant) -> Fields:
    return {
        "region": grant.region,
        "version": grant.version,
        "amount": amounts.to_text(grant.amount),
        "since": time_text(grant.since),
        "expires": time_text(grant.expires),
        "over": grant.is_over,
    }


def _grant_of(fields: Fields) -> OpenGrant:
    return OpenGrant(
        fields["region"],
        fields["version"],
        amounts.of_text(fields["amount"]),
        seconds_of(fields["since"]),
        seconds_of(fields["expires"]),
        fields["over"],
    )
