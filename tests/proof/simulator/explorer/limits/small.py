"""Rules that take few states: shares of a window, a raise, a bundle of two limits, a cached total.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

from ledger.budgets import limit_windows, rights_plan, spend_record
from ledger.budgets.limit_windows import BudgetLimit, LimitStep, LimitUndecided
from ledger.budgets.rights import Grant, GrantName, Rights
from ledger.budgets.spend_record import SpendRecord
from proof.simulator.explorer.broken_rule import BrokenRule
from proof.simulator.explorer.limits.book import HOLDERS
from proof.simulator.explorer.limits.state import replaced
from proof.simulator.explorer.stepping import Step

HOME, OTHER = 0, 1
ONE = Decimal(1)
Events = Iterator[tuple[str, Any]]


class Model:
    """A small model: its first state, what may happen, and what is wrong with a state."""

    def __init__(self, case: "Case") -> None:
        self._case = case

    def initial(self) -> Any:
        """Return the first state."""
        return self._case.first

    def key(self, state: Any) -> Hashable:
        """Return the state itself."""
        return state  # type: ignore[no-any-return]

    def state(self, key: Any) -> Any:
        """Return the state of a key."""
        return key

    def steps(self, state: Any) -> Iterator[Step[str, Any]]:
        """Yield everything that may happen next."""
        for label, after in self._case.events(state):
            yield Step(label, after, self._case.wrong(after))

    def is_finished(self, state: Any) -> bool:
        """Return whether nothing more can happen."""
        return next(iter(self._case.events(state)), None) is None

    def described(self, step: Step[str, Any]) -> str:
        """Return one line: what happens, and the state after it."""
        return f"{step.label:45} {step.state}"


@dataclass(frozen=True, slots=True)
class Case:
    """The parts of a small model."""

    first: Any
    events: Callable[[Any], Events]
    wrong: Callable[[Any], str]


# Shares of a window, while steps of the limit are announced that give all to another region.

VIEW_LIFE = 1
WAIT = VIEW_LIFE + 1
BEGINS = 7
"""When the window begins, which is when each new step does."""
BEFORE = BEGINS - 1
"""When the one before it began, of which a region may still make its item."""
_STEPS = (
    LimitStep(Decimal(2), {HOLDERS[OTHER]: Decimal(2)}),
    LimitStep(Decimal(2), {HOLDERS[HOME]: Decimal(2)}, since=BEGINS),
    LimitStep(Decimal(2), {HOLDERS[OTHER]: Decimal(2)}, since=BEGINS),
)
_NONE = -1

Sharing = Callable[[BudgetLimit, int], LimitStep | LimitUndecided | None]
LimitKey = tuple[int, tuple[int, ...], int]
"""The revision of a limit, its steps in force, and the one that is announced."""


class Shares(NamedTuple):
    """The limit at home, in the other region, and as each process read it; that read's age."""

    home: LimitKey
    other: LimitKey
    views: tuple[tuple[LimitKey, int], ...]
    now: int = 0
    looked: int = -1
    minted: tuple[int, int] = (-1, -1)


@dataclass(frozen=True, slots=True)
class Sharings:
    """How a window that begins at this time is shared, and whether a step waits."""

    sharing: Sharing
    window: int = BEGINS
    waits: bool = True
    forgets: bool = False
    """Whether only the newest step of two is kept."""


def _shares_events(rules: Sharings) -> Callable[[Shares], Events]:
    def events(state: Shares) -> Events:
        if state.now < BEGINS + VIEW_LIFE + 1:
            views = tuple((limit, min(age + 1, VIEW_LIFE + 1)) for limit, age in state.views)
            yield "time passes", state._replace(now=state.now + 1, views=views)
        yield from _limit_events(state, rules)
        for process, shown in enumerate((state.home, state.other)):
            limit, age = state.views[process]
            if limit != shown or age:
                fresh = replaced(state.views, process, (shown, 0))
                yield f"process {process} reads the limit", state._replace(views=fresh)
            if age <= VIEW_LIFE and state.now >= rules.window and state.minted[process] < 0:
                step = rules.sharing(_limit(limit), rules.window)
                if not isinstance(step, LimitUndecided):
                    minted = int(step.share_of(HOLDERS[process])) if step else 0
                    after = replaced(state.minted, process, minted)
                    yield f"process {process} mints {minted}", state._replace(minted=after)

    return events


def _limit_events(state: Shares, rules: Sharings) -> Events:
    if state.other != state.home:
        yield "the limit reaches the other", state._replace(other=state.home)
    revision, steps, announced = state.home
    limit = _limit(state.home)
    step = max(*steps, announced) + 1
    if step < len(_STEPS) and state.now + WAIT < BEGINS:
        after = limit_windows.announce(limit, _STEPS[step], now=state.now, wait=WAIT)
        home = _key(after) if rules.waits else (revision + 1, (0, step), _NONE)
        yield f"home announces step {step}", state._replace(home=home, looked=-1)
    if limit.announced is not None:
        if state.other == state.home and state.looked < 0:
            yield "home looks at all regions", state._replace(looked=state.now)
        if state.looked >= 0 or state.now >= BEGINS:
            looked = max(state.looked, 0)
            confirmed = limit_windows.confirm(
                limit, now=state.now, looked=looked, wait=WAIT, oldest=BEFORE - 1
            )
            if confirmed is not None:
                home = _key(confirmed)
                if rules.forgets:
                    home = (home[0], (*steps, *home[1][-1:])[-2:], _NONE)
                label = "in force" if confirmed.steps != limit.steps else "withdrawn"
                yield f"step {announced} is {label}", state._replace(home=home)


def _key(limit: BudgetLimit) -> LimitKey:
    announced = _NONE if limit.announced is None else _STEPS.index(limit.announced)
    return limit.revision, tuple(_STEPS.index(step) for step in limit.steps), announced


def _limit(key: LimitKey) -> BudgetLimit:
    revision, steps, announced = key
    in_force = tuple(_STEPS[step] for step in steps)
    return BudgetLimit(revision, in_force, None if announced < 0 else _STEPS[announced])


def _shares_wrong(state: Shares) -> str:
    limit = _STEPS[0].limit
    minted = sum(max(0, share) for share in state.minted)
    is_short = min(state.minted) >= 0 and minted < limit
    return f"stranded: {minted} of {limit}" if is_short else _made(state)


def _made(state: Shares) -> str:
    limit = _STEPS[0].limit
    minted = sum(max(0, share) for share in state.minted)
    return f"rights made: {minted} of {limit}" if minted > limit else ""


def _newest_seen(limit: BudgetLimit, begins: int) -> LimitStep:
    """Share by the newest step that the process knows."""
    del begins
    return limit.announced or limit.steps[-1]


_FIRST: LimitKey = (0, (0,), _NONE)
_SHARES = Shares(_FIRST, _FIRST, ((_FIRST, 0),) * 2)


# A raise, repeated after its answer was lost, through another home.


class Raise(NamedTuple):
    """What each holder has minted by its raises, and how often it was tried."""

    minted: tuple[int, int] = (1, 0)
    ids: tuple[str, str] = ("", "")
    tries: int = 0


def _raise_events(*, has_id: bool) -> Callable[[Raise], Events]:
    def events(state: Raise) -> Events:
        if state.tries == 2:  # noqa: PLR2004 (one of each home)
            return
        items = [_raised(state, holder) for holder in (HOME, OTHER)]
        raise_id = "id" if has_id else str(state.tries)
        home = items[state.tries]
        after = rights_plan.raise_limit(home, ONE, raise_id, now=0)
        state = state._replace(tries=state.tries + 1)
        if after is None or any(raise_id in item.raises for item in items):
            yield "it was raised before", state
            return
        place = items.index(home)
        yield (
            "the limit is raised",
            state._replace(
                minted=replaced(state.minted, place, int(after.minted)),
                ids=replaced(state.ids, place, raise_id),
            ),
        )

    return events


def _raised(state: Raise, holder: int) -> Rights:
    raises = {state.ids[holder]: ONE} if state.ids[holder] else {}
    return Rights(HOLDERS[holder], 1, Decimal(state.minted[holder]), raises=raises)


def _raise_wrong(state: Raise) -> str:
    return f"limit too high: {sum(state.minted)}" if sum(state.minted) > 2 else ""  # noqa: PLR2004 (1 and 1)


# A bundle: one entry names a grant of its own counter, and one of its organization's.

_KEY, _ORG = GrantName(HOLDERS[HOME], 2), GrantName(HOLDERS[HOME], 2, "org")
_SPEND = SpendRecord("id", ONE, (_KEY, _ORG))
_GRANTED = Rights(HOLDERS[HOME], 2, ONE, grants={2: Grant(ONE, 0, 1, "t")})
_OPEN = -1


class Bundle(NamedTuple):
    """Where the entry is, and what each grant was closed at; a look has not been acted on yet."""

    landed: bool = False
    dead: bool = False
    folded: bool = False
    charged: tuple[int, int] = (_OPEN, _OPEN)
    looks: tuple[int, int] = (_OPEN, _OPEN)


Folding = Callable[[SpendRecord, Any], bool]


def _bundle_events(may_fold: Folding, *, at_once: bool) -> Callable[[Bundle], Events]:
    def events(state: Bundle) -> Events:
        if not state.landed and not state.dead:
            yield "the entry lands", state._replace(landed=True)
            yield "its signature ends", state._replace(dead=True)
        is_quiet = state.landed or state.dead
        for place in (0,) if at_once else (0, 1):
            if state.charged[place] != _OPEN or not is_quiet:
                continue
            shown = [_SPEND] if state.landed and not state.folded else []
            if state.looks[place] == _OPEN:
                seen = int(spend_record.charge_of(shown, _SPEND.grants[place]))
                looks = (seen, seen) if at_once else replaced(state.looks, place, seen)
                yield f"the reclaimer reads for grant {place}", state._replace(looks=looks)
            else:
                charged = (
                    state.looks if at_once else replaced(state.charged, place, state.looks[place])
                )
                yield f"grant {place} is closed", state._replace(charged=charged)
        if state.landed and not state.folded and may_fold(_SPEND, _bundle_views(state)):
            yield "the entry is folded", state._replace(folded=True)

    return events


def _bundle_views(state: Bundle) -> dict[str, spend_record.View]:
    view: dict[tuple[str, Any], Rights] = {}
    for name, charged in zip(_SPEND.grants, state.charged, strict=True):
        closed = rights_plan.reclaim(_GRANTED, name.version, Decimal(charged))
        item = _GRANTED if charged == _OPEN else closed
        assert isinstance(item, Rights)  # noqa: S101 (the grant is open in what is closed)
        view[name.budget, name.holder] = item
    return {"home": view}


def _bundle_wrong(state: Bundle) -> str:
    applied = int(state.landed)
    for charged, name in zip(state.charged, ("key", "org"), strict=True):
        if _OPEN < charged < applied:
            return f"{name} charged too little: {charged}, {applied} applied"
    return ""


def _fold_by_key(spend: SpendRecord, views: Any) -> bool:
    """Fold once the key's own grant is closed."""
    return spend_record.may_fold(replace(spend, grants=spend.grants[:1]), views)


# A limit that is checked against what each process believes.


class Cached(NamedTuple):
    """What is applied, and what each process last read of it."""

    applied: int = 0
    known: tuple[int, int] = (0, 0)


def _cached_events(state: Cached) -> Events:
    for process in (0, 1):
        if state.known[process] < 1:
            known = replaced(state.known, process, state.applied + 1)
            yield f"process {process} spends", Cached(state.applied + 1, known)


def _cached_wrong(state: Cached) -> str:
    return f"OVERSOLD: {state.applied} of 1" if state.applied > 1 else ""


CASES = {
    "shares": Case(_SHARES, _shares_events(Sharings(limit_windows.step_of)), _shares_wrong),
    "shares-before": Case(
        _SHARES, _shares_events(Sharings(limit_windows.step_of, BEFORE)), _shares_wrong
    ),
    "raise": Case(Raise(), _raise_events(has_id=True), _raise_wrong),
    "bundle-at-once": Case(
        Bundle(), _bundle_events(spend_record.may_fold, at_once=True), _bundle_wrong
    ),
    "bundle": Case(Bundle(), _bundle_events(spend_record.may_fold, at_once=False), _bundle_wrong),
}
MUTANTS = {
    "shares-by-view": BrokenRule(
        "a window is shared by each process's own view of the limit",
        Case(_SHARES, _shares_events(Sharings(_newest_seen)), _made),
    ),
    "shares-at-once": BrokenRule(
        "a step of the limit is in force without its wait",
        Case(_SHARES, _shares_events(Sharings(limit_windows.step_of, waits=False)), _made),
    ),
    "steps-forgotten": BrokenRule(
        "only the newest two steps are kept, while an older step decides a window",
        Case(
            _SHARES,
            _shares_events(Sharings(limit_windows.step_of, BEFORE, forgets=True)),
            _shares_wrong,
        ),
    ),
    "raised-without-id": BrokenRule(
        "a raise is repeated without an id",
        Case(Raise(), _raise_events(has_id=False), _raise_wrong),
    ),
    "bundle-by-key": BrokenRule(
        "grants of a bundle are closed one by one, and folded when the key's is closed",
        Case(Bundle(), _bundle_events(_fold_by_key, at_once=False), _bundle_wrong),
    ),
    "cached-total": BrokenRule(
        "spends go by a cached total", Case(Cached(), _cached_events, _cached_wrong)
    ),
}
