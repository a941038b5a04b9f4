"""One entry that may be put under two grants: by a key in two regions, or by a retry under another.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

from ledger.budgets import rights_plan, spend_record
from ledger.budgets.rights import Grant, GrantName, Rights
from ledger.budgets.spend_record import SpendRecord
from proof.simulator.explorer.broken_rule import BrokenRule
from proof.simulator.explorer.limits.book import HOLDERS
from proof.simulator.explorer.limits.state import replaced
from proof.simulator.explorer.stepping import Step

REGIONS = (0, 1)
WAITS, SENT, LANDED, REFUSED, DEAD = range(5)
"""What became of the request under each grant."""
BY_READING, BY_ITS_REGION, BY_COUNT = "by reading", "by its region", "by count"
"""How a grant is closed: once all regions agree; by its own region; by what its owner knows."""
_OPEN = 99
_GRANTED = Decimal(3)
_NAMES = tuple(str(holder) for holder in HOLDERS)


Charging = Callable[[Iterable[SpendRecord], GrantName], Decimal]


@dataclass(frozen=True, slots=True)
class Case:
    """Where each of two grants is, how each is closed, and what the entry comes to.

    `conditional` is whether the entry is put on condition of its absence, as one with a key is.
    With `may_leak` what is charged twice is not wrong; only what is charged too little is.
    `charge` is what a grant is charged that its own region closes.
    """

    regions: tuple[int, int] = (0, 1)
    closes: tuple[str, str] = (BY_READING, BY_READING)
    amount: int = 1
    conditional: bool = True
    may_leak: bool = False
    charge: Charging = spend_record.charge_unagreed


class Copy(NamedTuple):
    """What a region shows of the entry: the grant that it names, and its stamp."""

    grant: int
    stamp: int


class State(NamedTuple):
    """All of a small case; `puts` are all that was written, `closed` what each grant came to."""

    requests: tuple[int, int] = (WAITS, WAITS)
    puts: tuple[Copy, ...] = ()
    shown: tuple[Copy | None, Copy | None] = (None, None)
    over: frozenset[int] = frozenset()
    looks: tuple[tuple[Any, Any], tuple[Any, Any]] = ((_OPEN, _OPEN), (_OPEN, _OPEN))
    closed: tuple[int, int] = (_OPEN, _OPEN)
    knows: frozenset[int] = frozenset()
    folded: bool = False


def _rights(holder: int) -> Rights:
    return Rights(HOLDERS[holder], 2, _GRANTED, grants={2: Grant(_GRANTED, 0, 1, "t")})


class Model:
    """One case, in every order of events."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._charge = cache(self._charge_of)

    def initial(self) -> State:
        """Return the first state: both grants are open, and nothing is put."""
        return State()

    def key(self, state: State) -> Hashable:
        """Return the state itself."""
        return state

    def state(self, key: Any) -> State:
        """Return the state of a key."""
        return key  # type: ignore[no-any-return]

    def is_finished(self, state: State) -> bool:
        """Return whether both grants are closed, and nothing is under way."""
        is_quiet = not any(request in {WAITS, SENT} for request in state.requests)
        is_shown = state.folded or state.shown[0] == state.shown[1]
        return is_quiet and is_shown and _OPEN not in state.closed

    def described(self, step: Step[str, State]) -> str:
        """Return one line: what happens, and what there is after it."""
        shown = [None if copy is None else f"grant {copy.grant}" for copy in step.state.shown]
        charged = ["open" if one == _OPEN else one for one in step.state.closed]
        return f"{step.label:45} shown {shown}, charged {charged}"

    def steps(self, state: State) -> Iterator[Step[str, State]]:
        """Yield everything that may happen next."""
        for label, after in self._events(state):
            yield Step(label, after, self._wrong(after))

    def _wrong(self, state: State) -> str:
        if not self.is_finished(state):
            return ""
        is_applied = state.folded or state.shown[0] is not None
        applied, charged = self._case.amount * is_applied, sum(state.closed)
        if charged < applied:
            kind = "charged too little" if applied > 0 else "rights made"
            return f"{kind}: {charged}, {applied} applied"
        return (
            ""
            if self._case.may_leak or charged == applied
            else f"leak: {charged}, {applied} applied"
        )

    def _events(self, state: State) -> Iterator[tuple[str, State]]:
        for grant in (0, 1):
            yield from self._request(state, grant)
            if grant not in state.over:
                dead = state.requests[grant]
                dead = DEAD if dead in {WAITS, SENT} else dead
                after = state._replace(requests=replaced(state.requests, grant, dead))
                yield f"grant {grant} is over", after._replace(over=state.over | {grant})
            if state.closed[grant] == _OPEN:
                yield from self._closes(state, grant)
        for put in state.puts:
            for region in REGIONS:
                there = state.shown[region]
                if not state.folded and (there is None or there.stamp < put.stamp):
                    shown = replaced(state.shown, region, put)
                    yield f"grant {put.grant}'s entry reaches {region}", state._replace(shown=shown)
        yield from self._folds(state)

    def _request(self, state: State, grant: int) -> Iterator[tuple[str, State]]:
        request = state.requests[grant]
        if request == WAITS:
            sent = replaced(state.requests, grant, SENT)
            yield f"it is sent under grant {grant}", state._replace(requests=sent)
            never = replaced(state.requests, grant, DEAD)
            yield f"it is never sent under grant {grant}", state._replace(requests=never)
        elif request == SENT:
            yield from self._lands(state, grant)
        elif request == LANDED and grant not in state.knows:
            yield f"grant {grant}'s owner is answered", state._replace(knows=state.knows | {grant})

    def _lands(self, state: State, grant: int) -> Iterator[tuple[str, State]]:
        region = self._case.regions[grant]
        if self._case.conditional and (state.shown[region] is not None or state.folded):
            refused = replaced(state.requests, grant, REFUSED)
            yield f"refused under grant {grant}: applied before", state._replace(requests=refused)
            return
        landed = state._replace(requests=replaced(state.requests, grant, LANDED))
        there = state.shown[region]
        for stamp in (1, 3) if not state.puts else (2, 4):
            put = Copy(grant, stamp)
            if there is None or stamp > there.stamp:  # a local write beats what its region shows
                after = landed._replace(
                    puts=(*state.puts, put), shown=replaced(state.shown, region, put)
                )
                yield f"it lands under grant {grant}, stamp {stamp}", after

    # Closing.

    def _closes(self, state: State, grant: int) -> Iterator[tuple[str, State]]:
        how = self._case.closes[grant]
        if how == BY_COUNT:
            if grant in state.knows or state.requests[grant] in {REFUSED, DEAD}:
                spent = self._case.amount if grant in state.knows else 0
                yield f"grant {grant}'s owner closes", self._closed(state, grant, spent)
            return
        if grant not in state.over:
            return
        look = state.looks[grant]
        for region in REGIONS if how == BY_READING else (self._case.regions[grant],):
            shown = state.shown[region].grant if state.shown[region] else None  # type: ignore[union-attr]
            if look[region] == _OPEN or look[region] != shown:
                looks = replaced(state.looks, grant, replaced(look, region, shown))
                yield f"the reclaimer of grant {grant} reads {region}", state._replace(looks=looks)
        charge = self._charge(grant, look)
        if charge is not None:
            yield f"grant {grant} is closed at {charge}", self._closed(state, grant, charge)

    def _closed(self, state: State, grant: int, charged: int) -> State:
        return state._replace(
            closed=replaced(state.closed, grant, charged),
            looks=replaced(state.looks, grant, (_OPEN, _OPEN)),
        )

    def _charge_of(self, grant: int, look: tuple[Any, Any]) -> int | None:
        """Return what production charges by these views, None while it waits."""
        own = self._case.regions[grant]
        read = [region for region in REGIONS if look[region] != _OPEN]
        if own not in read or (self._case.closes[grant] == BY_READING and len(read) < len(REGIONS)):
            return None
        views = {_NAMES[region]: self._spends(look[region]) for region in read}
        name, rights = self._name(grant), _rights(own)
        if not spend_record.agree(name, views):
            return None
        by_region = self._case.closes[grant] == BY_ITS_REGION
        charge = self._case.charge if by_region else spend_record.charge_of
        after = rights_plan.reclaim(rights, 2, charge(views[_NAMES[own]], name))
        return int(after.charged) if isinstance(after, Rights) else None

    def _name(self, grant: int) -> GrantName:
        # Two of one region differ by their versions: the item of each is its own here.
        return GrantName(HOLDERS[self._case.regions[grant]], 2 + grant)

    def _spends(self, grant: int | None) -> list[SpendRecord]:
        if grant is None:
            return []
        return [SpendRecord("id", Decimal(self._case.amount), (self._name(grant),))]

    def _folds(self, state: State) -> Iterator[tuple[str, State]]:
        """Fold what all show, once its grant is closed, and nothing of its id can land any more."""
        shown = state.shown[0]
        is_alike = shown is not None and shown == state.shown[1]
        if (
            not is_alike
            or state.folded
            or any(request in {WAITS, SENT} for request in state.requests)
        ):
            return
        if shown is not None and state.closed[shown.grant] != _OPEN:
            yield "it is folded", state._replace(folded=True, shown=(None, None))


CASES = {
    "keyed": Case(),
    "keyed-by-its-region": Case(closes=(BY_ITS_REGION, BY_ITS_REGION), may_leak=True),
    "keyed-by-its-region-unconditional": Case(
        closes=(BY_ITS_REGION, BY_ITS_REGION), may_leak=True, conditional=False
    ),
    "keyed-refund": Case(amount=-1),
    "refund-by-its-region": Case(closes=(BY_ITS_REGION, BY_ITS_REGION), amount=-1, may_leak=True),
}
MUTANTS = {
    "keyed-by-count": BrokenRule(
        "grants of spends with keys are closed by the count of their owners",
        Case(closes=(BY_COUNT, BY_COUNT)),
    ),
    "refund-by-count": BrokenRule(
        "grants of refunds with keys are closed by the count of their owners",
        Case(closes=(BY_COUNT, BY_COUNT), amount=-1),
    ),
    "refund-credited-by-its-region": BrokenRule(
        "a refund is credited by its own region, before the regions agree",
        Case(
            closes=(BY_ITS_REGION, BY_ITS_REGION),
            amount=-1,
            may_leak=True,
            charge=spend_record.charge_of,
        ),
    ),
    "retried-under-another": BrokenRule(
        "a spend is repeated under another grant",
        Case(regions=(0, 0), closes=(BY_READING, BY_COUNT), conditional=False),
    ),
}
