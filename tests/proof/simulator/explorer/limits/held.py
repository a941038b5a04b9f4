"""A durable hold, in every order of events: who resolves it, and what is charged.

The hold's grant is in the first region, whose process holds it; the second is another replica, from
which alone the compactor knows whether all show an entry alike. What is planned comes from what was
read, and lands at any time later, or never.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

from ledger.budgets import hold_rules
from ledger.budgets.hold_rules import HoldResolution, SeparateCharge
from ledger.budgets.rights import GrantName, Rights
from ledger.budgets.rights_plan import TooFewRights
from ledger.budgets.spend_record import SpendRecord, spend_attributes
from ledger.core.entry import Item
from ledger.store.conditions import holds as is_true
from ledger.store.writes import Update
from proof.simulator.explorer.limits.book import HOLDERS, LIVE, NONE, OVER, Book
from proof.simulator.explorer.limits.rules import KEPT, Rules
from proof.simulator.explorer.stepping import Step

HOME, OTHER = 0, 1
LIMIT, GRANTED, HELD, LESS, MORE = 4, 3, 2, 1, 3
VERSION = 2
"""Of the grant: the item's first version mints."""
EXPIRY, LATER = 1, 9
GONE = -2
"""The entry was folded and deleted."""
KEY = ("c", "id")
_NAME = GrantName(HOLDERS[HOME], VERSION)
_HOLD = SpendRecord("id", Decimal(HELD), (_NAME,), hold=EXPIRY)
OWNER, ANOTHER = 0, 1
THERE, REMOVED, GIVEN_UP = 0, 1, 2
"""The region of the hold: a replica, none any more, and nothing that it sent is under way."""

Charging = Callable[[HoldResolution, Mapping[str, Rights]], SeparateCharge | TooFewRights]
Updating = Callable[[HoldResolution], Update]


def _update(resolved: HoldResolution) -> Update:
    return hold_rules.update_of(KEY, resolved)


def charge_apart(
    resolved: HoldResolution, items: Mapping[str, Rights]
) -> SeparateCharge | TooFewRights:
    """Return what resolves a hold by another, as production has it."""
    gone = {holder for item in items.values() for holder in item.reclaimed}
    return hold_rules.charge_apart(resolved, items, now=0.0, gone=gone)


@dataclass(frozen=True, slots=True)
class Case:
    """What is settled, by whom: `owner` and `another` are amounts, or "expired"; empty: nobody.

    `charged` is what resolves beside the entry by another; None: nothing is. `update` is how the
    entry is resolved. `owner_is_late` lets the owner send after its grant's expiry.
    """

    owner: tuple[int, ...] = ()
    another: tuple[Any, ...] = ()
    extends: bool = False
    folds: bool = True
    rules: Rules = KEPT
    charged: Charging = charge_apart
    update: Updating = _update
    owner_is_late: bool = False
    closes_in_place: bool = False
    loses: bool = False


class Request(NamedTuple):
    """An update on its way: by whom, of the content that was read, to which; `read` rights."""

    by: int
    before: int
    after: int
    read: int = NONE


class Owner(NamedTuple):
    """The process of the grant: what it took, whether it does not know, what it waits for."""

    spent: int = HELD
    is_unsure: bool = False
    waits: str = ""
    reserved: int = 0
    held: int = HELD


class State(NamedTuple):
    """All of a small case; `writes` are the entry's contents, `entry_shown` the other region's."""

    entry: int
    items: tuple[int, ...]
    writes: tuple[int, ...]
    entry_shown: int = 0
    item_shown: int = 0
    owner: Owner | None = Owner()
    requests: frozenset[Request] = frozenset()
    tried: frozenset[Any] = frozenset()
    phase: int = LIVE
    look: tuple[int, tuple[int, int] | None] | None = None
    folded: int = 0
    phase_of_loss: int = 0
    other: int = NONE
    has_arrived: bool = True


class Model:
    """One case, in every order of events."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._book = Book(case.rules)
        self._contents: list[SpendRecord] = []
        self._resolves = cache(self._resolved)
        self._lands_on = cache(self._is_landed)

    def initial(self) -> State:
        """Return the first state: the hold is applied, and counts, and all show it."""
        minted = self._book.create(HOME, LIMIT)
        item = self._book.take(minted, GRANTED)
        hold = self._content(_HOLD)
        return State(hold, (item,), (hold,))

    def key(self, state: State) -> Hashable:
        """Return the state itself."""
        return state

    def state(self, key: Any) -> State:
        """Return the state of a key."""
        return key  # type: ignore[no-any-return]

    def is_finished(self, state: State) -> bool:
        """Return whether the grant is closed and nothing is under way."""
        if state.phase_of_loss:
            return state.other != NONE
        grants = self._book[state.items[-1]].grants
        return not grants and not state.requests

    def described(self, step: Step[str, State]) -> str:
        """Return one line: what happens, and what there is after it."""
        state = step.state
        rights = self._book[state.items[-1] if state.other == NONE else state.other]
        entry = "gone" if state.entry == GONE else self._contents[state.entry]
        said = entry if isinstance(entry, str) else f"{entry.amount} {entry.resolved or 'open'}"
        return f"{step.label:45} entry {said}; charged {rights.charged}, granted {rights.granted}"

    def steps(self, state: State) -> Iterator[Step[str, State]]:
        """Yield everything that may happen next."""
        for label, after in self._events(state):
            yield Step(label, after, self._wrong(state, after))

    def _content(self, spend: SpendRecord) -> int:
        if spend not in self._contents:
            self._contents.append(spend)
        return self._contents.index(spend)

    def _applied(self, state: State) -> int:
        shown = 0 if state.entry == GONE else int(self._contents[state.entry].amount)
        return shown + state.folded

    # What is right.

    def _wrong(self, before: State, state: State) -> str:
        applied = self._applied(state)
        if state.folded and state.entry != GONE:
            return f"counted twice: {applied}"
        if applied > LIMIT:
            return f"OVERSOLD: {applied} of {LIMIT}"
        return self._wrong_hold(before, state) or self._wrong_charge(state, applied)

    def _wrong_hold(self, before: State, state: State) -> str:
        """Return what is wrong with what just became of the entry."""
        if before.entry in {state.entry, GONE}:
            return ""
        was = self._contents[before.entry]
        if state.entry == GONE:
            return "folded before it was resolved: never settled" if was.is_open_hold else ""
        is_late = self._contents[state.entry].resolved == "expired" and was.hold == LATER
        return "voided though it was extended" if is_late else ""

    def _wrong_charge(self, state: State, applied: int) -> str:
        if state.other != NONE:
            total = applied + max(0, int(self._book[state.other].available))
            if total > LIMIT:
                return f"rights made: {total} of {LIMIT}"
            is_open = state.entry != GONE and self._contents[state.entry].is_open_hold
            is_lost = total < LIMIT and state.has_arrived and not is_open
            return (
                f"rights lost for good: {total} of {LIMIT}, and all had arrived" if is_lost else ""
            )
        if not self.is_finished(state):
            return ""
        charged = int(self._book[state.items[-1]].charged)
        if charged != applied:
            kind = "leak" if charged > applied else "charged too little"
            return f"{kind}: {charged} charged, {applied} applied"
        return ""

    # Steps.

    def _events(self, state: State) -> Iterator[tuple[str, State]]:
        if self._case.loses:
            yield from self._loss(state)
        if state.phase_of_loss:
            return
        if state.owner is not None:
            yield from self._owner(state, state.owner)
        yield from self._another(state)
        for request in state.requests:
            yield from self._request(state, request)
        yield from self._time(state)
        yield from self._reclaimer(state)
        yield from self._compactor(state)

    def _owner(self, state: State, owner: Owner) -> Iterator[tuple[str, State]]:
        if not owner.waits:
            yield from self._settles(state, owner)
            rights = state.items[-1]
            is_unsure = int(owner.is_unsure)
            after = self._book.close(rights, VERSION, owner.spent, is_unsure, owner.held)
            gone = state._replace(owner=None)
            if after != NONE:
                gone = gone._replace(items=(*state.items, after))
            yield "the owner closes its grant", gone
        else:
            if owner.waits == "applied":
                spent = owner.spent + min(0, owner.reserved)
                answered = Owner(spent, owner.is_unsure, held=0)
                yield "the owner is answered", state._replace(owner=answered)
            elif owner.waits == "rejected":
                spent = owner.spent - max(0, owner.reserved)
                refused = Owner(spent, owner.is_unsure, held=owner.held)
                yield "the owner is refused", state._replace(owner=refused)
            unsure = Owner(owner.spent, is_unsure=True, held=owner.held)
            yield "the owner gives up waiting", state._replace(owner=unsure)
        yield "the owner crashes", state._replace(owner=None)

    def _settles(self, state: State, owner: Owner) -> Iterator[tuple[str, State]]:
        may_send = self._case.owner_is_late or self._book.may_sign(
            state.items[-1], VERSION, state.phase
        )
        if not may_send or state.entry == GONE or not self._contents[state.entry].is_open_hold:
            return
        for actual in self._case.owner:
            if (OWNER, actual) in state.tried:
                continue
            more = actual - HELD
            if owner.spent + max(0, more) > GRANTED:
                continue
            request = Request(OWNER, state.entry, self._resolves(state.entry, actual))
            spent = owner.spent + max(0, more)
            waits = Owner(spent, owner.is_unsure, "sent", more, owner.held)
            after = state._replace(owner=waits, requests=state.requests | {request})
            yield (
                f"the owner settles for {actual}",
                after._replace(tried=state.tried | {(OWNER, actual)}),
            )

    def _another(self, state: State) -> Iterator[tuple[str, State]]:
        """Plan to resolve by what is read now: the entry, then the rights item."""
        if state.entry == GONE or not self._contents[state.entry].is_open_hold:
            return
        for how in self._case.another:
            if (ANOTHER, how) not in state.tried:
                after = self._resolves(state.entry, how)
                request = Request(ANOTHER, state.entry, after, state.items[-1])
                yield (
                    f"another reads, to settle for {how}",
                    state._replace(
                        requests=state.requests | {request}, tried=state.tried | {(ANOTHER, how)}
                    ),
                )
        if self._case.extends and self._contents[state.entry].hold == EXPIRY:
            hold = self._contents[state.entry]
            condition = hold_rules.extension_of(KEY, hold, LATER).condition
            if is_true(condition, self._item(state.entry)):
                entry = self._content(hold_rules.extend(hold, LATER))
                yield "it is extended", state._replace(entry=entry, writes=(*state.writes, entry))

    def _resolved(self, entry: int, how: Any) -> int:
        hold = self._contents[entry]
        if how == "expired":
            resolved = hold_rules.expire(hold, EXPIRY + 1)
            return NONE if resolved is None else self._content(resolved.after)
        return self._content(
            (hold_rules.settle(hold, Decimal(how)) if how else hold_rules.void(hold)).after
        )

    def _request(self, state: State, request: Request) -> Iterator[tuple[str, State]]:
        rest = state._replace(requests=state.requests - {request})
        by = ("the owner's", "another's")[request.by]
        if request.after == NONE:
            yield "it has not expired", rest
            return
        if request.by == ANOTHER or state.owner is None:
            yield f"{by} request vanishes", rest
        if request.by == ANOTHER and request.read != state.items[-1]:
            again = request._replace(read=state.items[-1])
            yield (
                "another reads the rights item again",
                rest._replace(requests=rest.requests | {again}),
            )
        is_landed, entry, item = self._lands_on(state.entry, state.items[-1], request)
        if request.by == OWNER and state.owner is not None and state.owner.waits == "sent":
            waits = "applied" if is_landed else "rejected"
            rest = rest._replace(owner=state.owner._replace(waits=waits))
        if not is_landed:
            yield f"{by} request is refused", rest
            return
        items = state.items if item == NONE else (*state.items, item)
        landed = rest._replace(entry=entry, items=items, writes=(*state.writes, entry))
        if state.entry == GONE:
            landed = landed._replace(entry_shown=0, writes=(entry,))
        yield f"{by} request lands", landed

    def _is_landed(self, entry: int, item: int, request: Request) -> tuple[bool, int, int]:
        """Return whether a request is applied, and the entry and rights item after it."""
        resolved = HoldResolution(self._contents[request.before], self._contents[request.after])
        if not is_true(self._case.update(resolved).condition, self._item(entry)):
            return False, NONE, NONE
        if request.by == OWNER:
            return True, request.after, NONE
        apart = self._case.charged(resolved, {"": self._book[request.read]})
        if isinstance(apart, TooFewRights):
            return False, NONE, NONE
        after = self._content(apart.resolved.after)
        if not apart.items:
            return True, after, NONE
        if not self._book.is_written(request.read, item):
            return False, NONE, NONE
        return True, after, self._book.number(apart.items[0])

    def _item(self, entry: int) -> Item | None:
        if entry == GONE:
            return None
        spend = self._contents[entry]
        return {"change": {"N": str(-spend.amount)}, **spend_attributes(spend)}

    # A loss of the hold's region.

    def _loss(self, state: State) -> Iterator[tuple[str, State]]:
        if state.phase_of_loss == THERE:
            lost = state._replace(phase_of_loss=REMOVED, owner=None, look=None, phase=LIVE)
            yield "the region is lost", lost._replace(requests=frozenset(), tried=frozenset())
        elif state.phase_of_loss == REMOVED:
            yield from self._arrivals(state)
            entry = state.entry if state.entry == GONE else state.writes[state.entry_shown]
            is_all = (entry, state.item_shown) == (state.entry, len(state.items) - 1)
            yield (
                "nothing more arrives",
                state._replace(
                    phase_of_loss=GIVEN_UP,
                    has_arrived=is_all,
                    entry=entry,
                    writes=(entry,),
                    entry_shown=0,
                    items=state.items[: state.item_shown + 1],
                ),
            )
        elif state.other == NONE:
            cut = self._book.cut_off(self._book.create(OTHER, 0), HOME)
            entries = [] if state.entry == GONE else [self._contents[state.entry]]
            base = self._book[state.items[-1]]
            stake = self._case.rules.stake(base, [self._book[cut]], entries)
            other = self._book.mint_again(cut, HOME, int(stake.amount))
            yield f"{stake.amount} is minted again", state._replace(other=other)
        else:
            yield from self._resolves_lost(state)
            yield from self._folds(state)

    def _resolves_lost(self, state: State) -> Iterator[tuple[str, State]]:
        """Resolve a hold that the lost region left, with the item that minted its rights again."""
        if state.entry == GONE or not self._contents[state.entry].is_open_hold:
            return
        for actual in (0, LESS, MORE):
            request = Request(
                ANOTHER, state.entry, self._resolves(state.entry, actual), state.other
            )
            is_landed, entry, other = self._is_landed(state.entry, state.other, request)
            if is_landed:
                yield f"home settles for {actual}", state._replace(entry=entry, other=other)

    # Time, the reclaimer and the compactor.

    def _time(self, state: State) -> Iterator[tuple[str, State]]:
        if state.phase < OVER:
            after = state._replace(phase=state.phase + 1)
            if after.phase == OVER and not self._case.owner_is_late:
                requests = frozenset(request for request in state.requests if request.by != OWNER)
                after = after._replace(requests=requests)
            yield ("the grant expires", "signatures end")[state.phase], after

    def _reclaimer(self, state: State) -> Iterator[tuple[str, State]]:
        item = state.items[-1]
        is_open = VERSION in self._book[item].grants
        is_new = state.look is None or state.look[0] != item
        if is_new and is_open and self._book.is_over(item, VERSION, state.phase):
            yield "the reclaimer reads the rights item", state._replace(look=(item, None))
        if state.look is None:
            return
        read, shown = state.look
        if shown is None:
            seen = (0, 0)
            if state.entry != GONE:
                entry = self._contents[state.entry]
                seen = int(entry.amount), int(entry.amount) * entry.is_open_hold
            yield "the reclaimer reads the entries", state._replace(look=(read, seen))
            return
        rest = state._replace(look=None)
        if not self._book.is_written(read, item):
            yield "the reclaimer is refused", rest
            return
        read = item if self._case.closes_in_place else read
        after = self._book.reclaim(read, VERSION, *shown)
        if after != NONE:
            yield f"the reclaimer closes at {shown[0]}", rest._replace(items=(*state.items, after))

    def _compactor(self, state: State) -> Iterator[tuple[str, State]]:
        yield from self._arrivals(state)
        yield from self._folds(state)

    def _arrivals(self, state: State) -> Iterator[tuple[str, State]]:
        for place in range(state.entry_shown + 1, len(state.writes)):
            yield "the entry reaches the other", state._replace(entry_shown=place)
        for place in range(state.item_shown + 1, len(state.items)):
            yield "the item reaches the other", state._replace(item_shown=place)

    def _folds(self, state: State) -> Iterator[tuple[str, State]]:
        is_alike = state.writes[state.entry_shown] == state.entry
        if not self._case.folds or state.entry == GONE or not is_alike or state.folded:
            return
        other = {("", HOLDERS[HOME]): self._book[state.items[state.item_shown]]}
        if state.other != NONE:
            other["", HOLDERS[OTHER]] = self._book[state.other]
        views = {"other": other}
        if not state.phase_of_loss:
            views["home"] = {("", HOLDERS[HOME]): self._book[state.items[-1]]}
        spend = self._contents[state.entry]
        if self._case.rules.may_fold(spend, views):
            yield "it is folded", state._replace(entry=GONE, folded=int(spend.amount))
