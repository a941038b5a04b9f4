"""Budgets as JSON objects, and back: what is left of each, and a refusal, which is a problem.

Pure: no clock, no randomness, no I/O.
"""

from ledger.budgets.budget_state import BudgetState, InFlight, OpenGrant, RegionRights
from ledger.budgets.spend_request import CROWDED, Refused
from ledger.core import amounts
from ledger.core.errors import BudgetExceeded
from ledger.wire.values import Fields, seconds_of, time_text


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
