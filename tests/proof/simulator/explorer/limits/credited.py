"""A credit, in every order of events: who takes it in, who spends it, and the loss of a region.

The credit is one entry of 1, put by one process, or under its key by one in each of two regions. It
names a grant of 0. Its process reads the regions one by one, takes it in, and closes its grant; or
it crashes, and the grant is closed by reading. Spenders take 1, spend 1, close or crash. Rights are
sent and taken up. Region 1 may be lost: what it sent arrives in part, then never; then what it had
is minted again.

Judged in every state: over the union of the regions that are there no more is spent than credited.
At rest: what is free, with what is under way, is what was credited less what was spent.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from ledger.budgets import credit_rules, lost_stake, rights_plan, spend_record
from ledger.budgets.rights import GrantName, Holder, Rights
from ledger.budgets.spend_record import SpendRecord
from proof.simulator.explorer.broken_rule import BrokenRule
from proof.simulator.explorer.limits.book import HOLDERS, Book
from proof.simulator.explorer.limits.rules import KEPT
from proof.simulator.explorer.limits.state import GIVEN_UP, LOST, REMOVED, THERE, replaced
from proof.simulator.explorer.stepping import Step

BEGINS, OPENED, PUT, KNOWN, DONE = range(5)
"""A process that credits: its grant is open, its entry is put, it is in the rights, it is done."""
TOOK, SPENT = 1, 2
_ONE, _ZERO = Decimal(1), Decimal(0)
_TERMS: Mapping[str, Any] = {"since": 0, "expires": 2, "token": "t"}
Event = tuple[str, "State"]


@dataclass(frozen=True, slots=True)
class Case:
    """In which regions processes credit, under one key if there are two, and spend.

    `sends` are from where to where rights are sent, 1 each, at most `sent_max` times.

    What breaks: `seen_by` says which regions must show a credit that is taken in. With
    `taken_up_where_shown` rights cross only to regions that show it. `taken_in_twice` lets its
    process forget that it has taken it in; `closes_early` close its grant before. `unconditional`
    puts the entry whatever there is; `closes_unagreed` closes by reading before regions agree;
    `folds_open` folds whatever all show. `while_arriving` goes by the regions that remain while a
    copy may arrive; `by_old_sights` by what was seen before. `mints_unagreed` mints again although
    the regions that remain show the credit differently.
    """

    credits: tuple[int, ...] = (0,)
    spenders: tuple[int, ...] = (0, 1)
    regions: int = 2
    sends: tuple[tuple[int, int], ...] = ()
    sent_max: int = 1
    loses: bool = False
    folds: bool = True
    seen_by: Literal["all", "own"] = "all"
    taken_up_where_shown: bool = False
    taken_in_twice: bool = False
    closes_early: bool = False
    unconditional: bool = False
    closes_unagreed: bool = False
    folds_open: bool = False
    while_arriving: bool = False
    by_old_sights: bool = False
    mints_unagreed: bool = False

    @property
    def is_keyed(self) -> bool:
        """Whether the credit has a key, by which another region may put it, too."""
        return len(self.credits) > 1


class Item(NamedTuple):
    """Versions of a rights item that a region may still get, and which one each region shows."""

    writes: tuple[int, ...]
    shown: tuple[int, ...]


class Crediting(NamedTuple):
    """A process that credits: its grant's version, the regions that it saw its entry in."""

    version: int = 0
    seen: frozenset[int] = frozenset()
    phase: int = BEGINS


class Copy(NamedTuple):
    """A copy of the credit that was put: its grant, and its stamp."""

    region: int
    version: int
    stamp: int


class Paid(NamedTuple):
    """A spend of 1: its grant, and the regions that show it."""

    region: int
    version: int
    shown: frozenset[int]


class State(NamedTuple):
    """All of a small case; `shown` is the copy of the credit that each region shows, by place.

    `unseen` is what the lost item charged for spends that no region will ever show.
    """

    items: tuple[Item, ...]
    shown: tuple[int | None, ...]
    credits: tuple[Crediting, ...]
    spenders: tuple[tuple[int, int], ...]
    copies: tuple[Copy, ...] = ()
    spent: tuple[Paid, ...] = ()
    over: frozenset[tuple[int, int]] = frozenset()
    key_is_over: bool = False
    folded: tuple[int, int] = (0, 0)
    sent: int = 0
    phase: int = THERE
    is_minted_again: bool = False
    unseen: int = 0


class Model:
    """One case, in every order of events."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._book = Book(KEPT)

    def initial(self) -> State:
        """Return the first state: each region has an item, with no rights."""
        case = self._case
        every = range(case.regions)
        items = tuple(Item((self._book.create(one, 0),), (0,) * case.regions) for one in every)
        credits_, spenders = (Crediting(),) * len(case.credits), ((0, 0),) * len(case.spenders)
        return State(items, (None,) * case.regions, credits_, spenders)

    def key(self, state: State) -> Hashable:
        """Return the state itself."""
        return state

    def state(self, key: Any) -> State:
        """Return the state of a key."""
        return key  # type: ignore[no-any-return]

    def described(self, step: Step[str, State]) -> str:
        """Return one line: what happens, and what there is after it."""
        state = step.state
        free = [int(self._current(state, region).available) for region in self._live(state)]
        return (
            f"{step.label:52} credited {self._credited(state)}, spent {self._spent(state)},"
            f" free {free}"
        )

    def steps(self, state: State) -> Iterator[Step[str, State]]:
        """Yield everything that may happen next."""
        for label, after in self._events(state):
            yield Step(label, after, self._wrong(after))

    # What is judged.

    def is_finished(self, state: State) -> bool:
        """Return whether nothing is open, nothing under way, and a lost region is reclaimed."""
        live = self._live(state)
        return (
            not any(self._current(state, region).grants for region in live)
            and (state.phase == THERE or state.is_minted_again)
            and all(one.phase in {BEGINS, DONE} for one in state.credits)
            and not any(phase in {TOOK, SPENT} for _, phase in state.spenders)
            and len({state.shown[region] for region in live}) == 1
        )

    def _wrong(self, state: State) -> str:
        credited, spent = self._credited(state), self._spent(state)
        if spent > credited:
            return f"OVERDRAWN: {spent} spent of {credited} credited"
        if not self.is_finished(state):
            return ""
        held = self._held(state) + state.unseen
        kind = "rights made" if held > credited - spent else "leak"
        balance = credited - spent
        return "" if held == balance else f"{kind}: {held} free of a balance of {balance}"

    def _credited(self, state: State) -> int:
        shown = [state.shown[region] for region in self._live(state)]
        return state.folded[0] + any(place is not None for place in shown)

    def _spent(self, state: State) -> int:
        live = self._live(state)
        return state.folded[1] + sum(not paid.shown.isdisjoint(live) for paid in state.spent)

    def _held(self, state: State) -> int:
        own = [(region, state.items[region]) for region in self._live(state)]
        return self._book.sums(tuple(item.writes[item.shown[at]] for at, item in own))[0]

    # What there is.

    def _live(self, state: State) -> tuple[int, ...]:
        every = range(self._case.regions)
        return tuple(one for one in every if state.phase == THERE or one != LOST)

    def _current(self, state: State, region: int) -> Rights:
        return self._shown_item(state, region, region)

    def _shown_item(self, state: State, holder: int, region: int) -> Rights:
        item = state.items[holder]
        return self._book[item.writes[item.shown[region]]]

    def _write(self, state: State, region: int, after: object) -> State | None:
        """Return the state after a region's item was written; None if that may not be."""
        if not isinstance(after, Rights):
            return None
        item = state.items[region]
        writes = (*item.writes, self._book.number(after))
        shown = replaced(item.shown, region, len(writes) - 1)
        return self._show(state, region, Item(writes, shown))

    def _show(self, state: State, holder: int, item: Item) -> State:
        """Return the state with this item, without versions that every region has passed."""
        first = min(item.shown[region] for region in self._live(state))
        shown = tuple(max(0, place - first) for place in item.shown)
        return state._replace(items=replaced(state.items, holder, Item(item.writes[first:], shown)))

    def _entries(self, state: State, region: int) -> list[SpendRecord]:
        """Return the entries that a region shows."""
        place = state.shown[region]
        found = [] if place is None else [_entry(state.copies[place])]
        return found + [_spend(n, one) for n, one in enumerate(state.spent) if region in one.shown]

    # What may happen.

    def _events(self, state: State) -> Iterator[Event]:
        live = self._live(state)
        for n, region in enumerate(self._case.credits):
            if region in live:
                yield from self._crediting(state, n, region)
        for n, region in enumerate(self._case.spenders):
            if region in live:
                yield from self._spending(state, n, region)
        yield from self._replication(state)
        yield from self._reading(state)
        yield from self._transfers(state)
        if self._case.folds:
            yield from self._folds(state)
        if not state.key_is_over:
            yield "no request of the credit can land", state._replace(key_is_over=True)
        if self._case.loses:
            yield from self._loss(state)

    def _crediting(self, state: State, n: int, region: int) -> Iterator[Event]:
        one, who = state.credits[n], f"the crediting process of {region}"
        if one.phase == BEGINS:
            taken = rights_plan.take(self._current(state, region), _ZERO, **_TERMS)
            version = taken.version if isinstance(taken, Rights) else 0
            after = self._write(_as(state, n, Crediting(version, phase=OPENED)), region, taken)
            if after is not None:
                yield f"{who} opens its grant", after
            yield f"{who} does nothing", _as(state, n, Crediting(phase=DONE))
        elif one.phase != DONE:
            yield f"{who} crashes", _as(state, n, Crediting(phase=DONE))
            if one.phase == OPENED:
                yield from self._puts(state, n, region)
            elif one.phase == PUT:
                yield from self._takes_in(state, n, region)
            yield from self._closes(state, n, region)

    def _puts(self, state: State, n: int, region: int) -> Iterator[Event]:
        one, who = state.credits[n], f"the crediting process of {region}"
        if state.key_is_over or (region, one.version) in state.over:
            return
        there = state.shown[region]
        if not self._case.unconditional and (there is not None or state.folded[0]):
            yield f"{who} is told: applied before", _as(state, n, one._replace(phase=KNOWN))
            return
        last = max((copy.stamp for copy in state.copies), default=0)
        for stamp in (last + 2, last - 1) if state.copies else (last + 2,):
            if there is None or state.copies[there].stamp <= stamp:
                copies = (*state.copies, Copy(region, one.version, stamp))
                after = _as(state, n, one._replace(phase=PUT))
                shown = replaced(state.shown, region, len(state.copies))
                yield (
                    f"{who} puts its entry, stamp {stamp}",
                    after._replace(copies=copies, shown=shown),
                )

    def _takes_in(self, state: State, n: int, region: int) -> Iterator[Event]:
        one, case, live = state.credits[n], self._case, self._live(state)
        who = f"the crediting process of {region}"
        if state.phase == REMOVED and case.is_keyed and not case.while_arriving:
            return
        mine = next(_entry(copy) for copy in state.copies if copy[:2] == (region, one.version))
        for there in live:
            if there not in one.seen and credit_rules.shows(mine, self._entries(state, there)):
                seen = one._replace(seen=one.seen | {there})
                yield f"{who} sees it in {there}", _as(state, n, seen)
        current = self._current(state, region)
        is_seen = one.seen.issuperset(live if case.seen_by == "all" else (region,))
        total = _ONE + (-current.adjusted.get(one.version, _ZERO) if case.taken_in_twice else 0)
        taken = credit_rules.take_in(current, one.version, total) if is_seen else None
        phases = (KNOWN, PUT) if case.taken_in_twice else (KNOWN,)
        for phase in phases:
            after = self._write(_as(state, n, one._replace(phase=phase)), region, taken)
            if after is not None:
                yield f"{who} takes it in", after

    def _closes(self, state: State, n: int, region: int) -> Iterator[Event]:
        """Close the grant by count, if what was put under it was taken in."""
        one = state.credits[n]
        if one.phase == PUT and not self._case.closes_early:
            return
        current = self._current(state, region)
        if self._case.closes_early and one.phase == PUT and one.version in current.grants:
            taken = credit_rules.take_in(current, one.version, _ONE)
            current = replace(taken, version=current.version) if taken else current
        closed = credit_rules.close_credits(current, one.version)
        after = self._write(_as(state, n, Crediting(phase=DONE)), region, closed)
        if after is not None:
            yield f"the crediting process of {region} closes its grant", after

    def _spending(self, state: State, n: int, region: int) -> Iterator[Event]:
        version, phase = state.spenders[n]
        current, who = self._current(state, region), f"spender {n} of {region}"

        def is_in(version: int, phase: int) -> State:
            return state._replace(spenders=replaced(state.spenders, n, (version, phase)))

        if phase == 0:
            taken = rights_plan.take(current, _ONE, **_TERMS)
            if isinstance(taken, Rights):
                after = self._write(is_in(taken.version, TOOK), region, taken)
                if after is not None:
                    yield f"{who} takes grant {taken.version}", after
        if phase == TOOK and (region, version) not in state.over:
            paid = Paid(region, version, frozenset({region}))
            spent = tuple(sorted((*state.spent, paid), key=_order))
            yield f"{who} spends", is_in(version, SPENT)._replace(spent=spent)
        if phase in {TOOK, SPENT}:
            yield f"{who} crashes", is_in(0, DONE)
            known = rights_plan.SpendPlan(_ONE if phase == SPENT else _ZERO, is_sure=True)
            closed = rights_plan.close(current, version, known)
            after = self._write(is_in(0, DONE), region, closed)
            if after is not None:
                yield f"{who} closes", after

    def _replication(self, state: State) -> Iterator[Event]:
        yield from self._items_arrive(state)
        live, is_over = self._live(state), state.phase == GIVEN_UP
        for place, copy in enumerate(state.copies) if not state.folded[0] else ():
            # A search brings what any region shows to all.
            if is_over and not any(state.shown[region] == place for region in live):
                continue
            for region in live:
                there = state.shown[region]
                if there is None or state.copies[there].stamp < copy.stamp:
                    after = state._replace(shown=replaced(state.shown, region, place))
                    yield f"the credit of {copy.region} reaches {region}", after
        for n, paid in enumerate(state.spent):
            if is_over and paid.shown.isdisjoint(live):
                continue
            for region in sorted({*live} - paid.shown):
                reached = paid._replace(shown=paid.shown | {region})
                spent = tuple(sorted(replaced(state.spent, n, reached), key=_order))
                yield f"a spend reaches {region}", state._replace(spent=spent)

    def _items_arrive(self, state: State) -> Iterator[Event]:
        for holder, item in enumerate(state.items):
            if state.phase == GIVEN_UP and holder == LOST:
                continue
            for region in self._live(state):
                for place in range(item.shown[region] + 1, len(item.writes)):
                    after = Item(item.writes, replaced(item.shown, region, place))
                    label = f"version {self._book[item.writes[place]].version} of {holder}"
                    yield f"{label} reaches {region}", self._show(state, holder, after)

    def _reading(self, state: State) -> Iterator[Event]:
        live = self._live(state)
        for holder in live:
            current = self._current(state, holder)
            for version in current.grants:
                if (holder, version) not in state.over:
                    yield f"grant {version} of {holder} is over", self._over(state, holder, version)
                else:
                    yield from self._reclaims(state, holder, current, version)

    def _over(self, state: State, holder: int, version: int) -> State:
        """Return the state once no request that names a grant can land: none was put by then."""
        credits_ = tuple(
            Crediting(phase=DONE)
            if region == holder and (one.version, one.phase) == (version, OPENED)
            else one
            for region, one in zip(self._case.credits, state.credits, strict=True)
        )
        return state._replace(over=state.over | {(holder, version)}, credits=credits_)

    def _reclaims(
        self, state: State, holder: int, current: Rights, version: int
    ) -> Iterator[Event]:
        case, name = self._case, GrantName(HOLDERS[holder], version)
        views = {str(region): self._entries(state, region) for region in self._live(state)}
        if not case.closes_unagreed and not spend_record.agree(name, views):
            return
        gives = any(credit_rules.is_credit(one) for one in _naming(name, views))
        if state.phase == REMOVED and gives and case.is_keyed and not case.while_arriving:
            return
        charged = spend_record.charge_of(views[str(holder)], name)
        after = self._write(state, holder, rights_plan.reclaim(current, version, charged))
        if after is not None:
            yield f"grant {version} of {holder} is closed by reading", after

    def _transfers(self, state: State) -> Iterator[Event]:
        live = self._live(state)
        for giver, taker in self._case.sends:
            if giver in live and taker in live and state.sent < self._case.sent_max:
                sent = rights_plan.send(self._current(state, giver), HOLDERS[taker], _ONE)
                after = self._write(state._replace(sent=state.sent + 1), giver, sent)
                if after is not None:
                    yield f"{giver} sends to {taker}", after
            shows = not self._case.taken_up_where_shown or state.folded[0]
            if taker in live and (shows or state.shown[taker] is not None):
                seen = self._shown_item(state, giver, taker)
                taken = rights_plan.take_up(self._current(state, taker), seen)
                after = self._write(state, taker, taken)
                if after is not None:
                    yield f"{taker} takes up from {giver}", after

    def _folds(self, state: State) -> Iterator[Event]:
        live = self._live(state)
        place = state.shown[live[0]]
        is_alike = len({state.shown[region] for region in live}) == 1
        is_quiet = state.key_is_over and place is not None and is_alike
        if is_quiet and self._may_fold(state, _entry(state.copies[place or 0])):
            after = state._replace(folded=(1, state.folded[1]))
            yield "the credit is folded", after._replace(shown=(None,) * self._case.regions)
        for n, paid in enumerate(state.spent):
            if paid.shown.issuperset(live) and self._may_fold(state, _spend(n, paid)):
                spent = (*state.spent[:n], *state.spent[n + 1 :])
                yield (
                    "a spend is folded",
                    state._replace(folded=(state.folded[0], state.folded[1] + 1), spent=spent),
                )

    def _may_fold(self, state: State, entry: SpendRecord) -> bool:
        if self._case.folds_open:
            return True
        views = {str(region): self._view(state, region) for region in self._live(state)}
        return spend_record.may_fold(entry, views)

    def _view(self, state: State, region: int) -> Mapping[tuple[str, Holder], Rights]:
        items = (self._shown_item(state, holder, region) for holder in range(self._case.regions))
        return {("", item.holder): item for item in items}

    # A region is lost.

    def _loss(self, state: State) -> Iterator[Event]:
        if state.phase == THERE:
            yield f"{LOST} is lost", self._without_processes(state)
        elif state.phase == REMOVED:
            yield "nothing more of it arrives", self._given_up(state)
        elif not state.is_minted_again:
            yield from self._again(state)

    def _without_processes(self, state: State) -> State:
        case = self._case
        credits_ = tuple(
            Crediting(phase=DONE) if region == LOST else one
            for region, one in zip(case.credits, state.credits, strict=True)
        )
        spenders = tuple(
            (0, DONE) if region == LOST else one
            for region, one in zip(case.spenders, state.spenders, strict=True)
        )
        after = state._replace(phase=REMOVED, credits=credits_, spenders=spenders)
        for holder in range(case.regions):
            if holder != LOST:
                after = self._show(after, holder, after.items[holder])
        return after

    def _given_up(self, state: State) -> State:
        live, item = self._live(state), state.items[LOST]
        last = max(item.shown[region] for region in live)
        base = self._book[item.writes[last]]
        gone = [paid for paid in state.spent if paid.shown.isdisjoint(live)]
        credits_ = state.credits
        if not self._case.by_old_sights:
            credits_ = tuple(one._replace(seen=frozenset()) for one in credits_)
        return state._replace(
            phase=GIVEN_UP,
            unseen=sum(base.shows_closed(paid.version) for paid in gone),
            items=replaced(state.items, LOST, Item(item.writes[: last + 1], item.shown)),
            spent=tuple(paid for paid in state.spent if paid not in gone),
            credits=credits_,
        )

    def _again(self, state: State) -> Iterator[Event]:
        live, lost = self._live(state), HOLDERS[LOST]
        for region in live:
            cut = lost_stake.cut_off(self._current(state, region), lost)
            after = self._write(state, region, cut)
            if after is not None:
                yield f"{region} cuts {LOST} off", after
        remaining = [self._current(state, region) for region in live]
        if not all(lost in one.cut for one in remaining):
            return
        shown = [self._shown_item(state, LOST, region) for region in live]
        base = max(shown, key=lambda item: item.version)
        views = [self._entries(state, region) for region in live]
        spends = [one for view in views for one in view]
        is_alike = not credit_rules.unagreed({lost: base}, spends, "", regions=len(live))
        if is_alike or self._case.mints_unagreed:
            stake = lost_stake.stake_of(base, remaining, spends)
            minted = lost_stake.mint_again(remaining[0], lost, stake.amount)
            after = self._write(state._replace(is_minted_again=True), live[0], minted)
            if after is not None:
                yield f"home mints {stake.amount} again", after


def _as(state: State, n: int, one: Crediting) -> State:
    return state._replace(credits=replaced(state.credits, n, one))


def _entry(copy: Copy) -> SpendRecord:
    return SpendRecord("credit", -_ONE, (GrantName(HOLDERS[copy.region], copy.version),))


def _spend(n: int, paid: Paid) -> SpendRecord:
    return SpendRecord(str(n), _ONE, (GrantName(HOLDERS[paid.region], paid.version),))


def _naming(name: GrantName, views: Mapping[str, list[SpendRecord]]) -> list[SpendRecord]:
    return [spend for view in views.values() for spend in view if name in spend.grants]


def _order(paid: Paid) -> tuple[int, int, list[int]]:
    return paid.region, paid.version, sorted(paid.shown)


_ANY = Case()
_LOST = Case(credits=(1,), sends=((1, 0),), loses=True)
_KEYED = Case(credits=(0, 1), spenders=(0,))
_KEYED_LOST = replace(_KEYED, spenders=(), loses=True)
_OF_THREE = replace(_KEYED_LOST, regions=3, folds=False)
CASES = {
    "credited": _ANY,
    "credited-and-sent": replace(_ANY, sends=((0, 1),)),
    "credited-in-the-lost": replace(_LOST, spenders=(0,)),
    "credited-keyed-lost": replace(_KEYED_LOST, folds=True),
}
LARGE = {
    "credited-spent-in-the-lost": _LOST,
    "credited-keyed": _KEYED,
    "credited-keyed-lost-of-three": _OF_THREE,
}
MUTANTS = {
    "credited-by-its-region": BrokenRule(
        "a credit is taken in once its own region shows it", replace(_LOST, seen_by="own")
    ),
    "credited-where-shown": BrokenRule(
        "the same, and rights cross only to regions that show the credit",
        replace(_LOST, seen_by="own", taken_up_where_shown=True),
    ),
    "credited-by-its-region-keyed": BrokenRule(
        "a credit with a key is taken in once its own region shows it",
        replace(_KEYED, seen_by="own", spenders=()),
    ),
    "credited-twice": BrokenRule(
        "a credit is taken in by a process that does not know that it was",
        replace(_ANY, taken_in_twice=True, spenders=()),
    ),
    "credited-unconditionally": BrokenRule(
        "a credit with a key is put without the condition of absence",
        replace(_KEYED, unconditional=True, spenders=()),
    ),
    "credits-closed-unagreed": BrokenRule(
        "the grant of a credit is closed by reading before regions agree",
        replace(_KEYED, closes_unagreed=True, spenders=()),
    ),
    "credit-closed-by-count": BrokenRule(
        "the grant of a credit is closed by its owner's count before it is taken in",
        replace(_KEYED, closes_early=True, spenders=()),
    ),
    "credit-folded-open": BrokenRule(
        "a credit is folded while its grant is open", replace(_ANY, folds_open=True, spenders=())
    ),
    "credited-while-arriving": BrokenRule(
        "a credit is taken in while a copy from a lost region may arrive",
        replace(_KEYED_LOST, while_arriving=True),
    ),
    "credited-by-old-sights": BrokenRule(
        "a credit is taken in by what was seen before the loss of a region",
        replace(_KEYED_LOST, by_old_sights=True),
    ),
    "reclaimed-with-credits-unagreed": BrokenRule(
        "a lost region is reclaimed while others show its credit differently",
        replace(_OF_THREE, mints_unagreed=True),
    ),
}
