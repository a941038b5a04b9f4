"""States and steps: who holds what, what the table shows, and what is on its way to it.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Hashable, Iterator
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

from compactor.slices import HEAD, Slice, Turn, member_name, slice_item, slice_key
from ledger.core.entry import Item, Key
from ledger.core.keys import LEASE_PARTITION
from ledger.primitives.leases.lease_rules import LeaseGrant
from ledger.store.conditions import holds
from ledger.store.writes import Action, Check, Put
from proof.simulator.explorer.slices.rules import LEASE, Case
from proof.simulator.explorer.stepping import Step

NONE = -1
MEMBERSHIPS_MAX = 2
"""How often one process joins: a name of a member is never used again."""

Seat = tuple[str, int]
"""`HEAD` with the epoch of the lease, or `MEMBER` with the number of the membership."""
MEMBER = "member"
NO_SEAT: Seat = ("", 0)
Held = tuple[tuple[int, Slice], ...]


class Process(NamedTuple):
    """One process: `upcoming` is the epoch of a lease that it has taken as a member.

    `is_safe` until its time is over. `seen` are the members that its turn has read, None before;
    `waits` for the answer to a transaction.
    """

    seat: Seat = NO_SEAT
    upcoming: int = 0
    is_safe: bool = True
    led: Held = ()
    giving: Held = ()
    seen: frozenset[str] | None = None
    waits: bool = False
    joined: int = 0


class Flight(NamedTuple):
    """A transaction that was sent: what it takes, gives up, or the first net of the last slice."""

    process: int
    seat: Seat
    kind: str
    before: Held


class State(NamedTuple):
    """The table, the processes, and what is in flight; `lease` is its owner and epoch."""

    processes: tuple[Process, ...]
    slices: tuple[Slice, ...]
    lease: tuple[int, int] = (NONE, 0)
    members: frozenset[str] = frozenset()
    flights: frozenset[Flight] = frozenset()
    left: int = 0
    has_net: bool = False


class Model:
    """One case, in every order of events."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._turn = cache(case.turn)
        self._actions = cache(self._actions_of)

    def initial(self) -> State:
        """Return the first state: no process leads, and no item is there."""
        case = self._case
        return State((Process(),) * case.processes, (Slice(),) * case.slices, left=case.misfortunes)

    def key(self, state: State) -> Hashable:
        """Return the state itself."""
        return state

    def state(self, key: Any) -> State:
        """Return the state of a key."""
        return key  # type: ignore[no-any-return]

    def steps(self, state: State) -> Iterator[Step[str, State]]:
        """Yield everything that may happen next."""
        for label, after, wrong in self._events(state):
            yield Step(label, after, wrong or self._wrong(after))

    def is_finished(self, state: State) -> bool:
        """Return whether all have come to rest: nothing is in flight, no turn changes anything."""
        if state.flights or any(
            process.seat == NO_SEAT or process.upcoming for process in state.processes
        ):
            return False
        here = frozenset(_name(n, one.seat) for n, one in enumerate(state.processes))
        if state.members != here - {HEAD} or not all(
            process.is_safe for process in state.processes
        ):
            return False
        return all(
            self._turn(state.slices, state.members, _name(number, one.seat)) == Turn()
            and one.led == _owned(state.slices, _name(number, one.seat))
            for number, one in enumerate(state.processes)
        )

    def described(self, step: Step[str, State]) -> str:
        """Return one line: what happens, and who leads what after it."""
        led = ", ".join(
            f"{number + 1}: {[place for place, _ in one.led] if one.is_safe else 'over'}"
            for number, one in enumerate(step.state.processes)
        )
        owners = ", ".join(owned.owner or "free" for owned in step.state.slices)
        return f"{step.label:58} led by {led}; shown: {owners}"

    def _wrong(self, state: State) -> str:
        leaders: dict[int, int] = {}
        for number, one in enumerate(state.processes):
            for place, _ in one.led if one.is_safe else ():
                if place in leaders:
                    return f"processes {leaders[place] + 1} and {number + 1} lead slice {place}"
                leaders[place] = number
        if self.is_finished(state) and len(leaders) < self._case.slices:
            return f"all rest, and {self._case.slices - len(leaders)} slices have no leader"
        return ""

    def _events(self, state: State) -> Iterator[tuple[str, State, str]]:
        for number, one in enumerate(state.processes):
            who = f"process {number + 1}"
            for what, after in self._contends(state, number, one):
                yield f"{who} {what}", after, ""
            for what, after in self._takes_its_turn(state, number, one):
                yield f"{who} {what}", after, ""
            for what, after in self._fails(state, number, one):
                yield f"{who} {what}", after, ""
        for name in state.members:
            if self._may_bury(state, name):
                yield f"{name} is buried", state._replace(members=state.members - {name}), ""
        for flight in state.flights:
            yield from self._lands(state, flight)

    def _contends(self, state: State, number: int, one: Process) -> Iterator[tuple[str, State]]:
        """Take the lease, join as a member, or move up to the head."""
        owner, epoch = state.lease
        is_free = owner in {NONE, number} or self._is_over(state, owner)
        is_idle = one.seat == NO_SEAT
        if is_free and (is_idle or (one.is_safe and one.seat[0] == MEMBER and not one.upcoming)):
            taken = state._replace(lease=(number, epoch + 1))
            new = Process((HEAD, epoch + 1), joined=one.joined) if is_idle else None
            yield "takes the lease", _with(taken, number, new or one._replace(upcoming=epoch + 1))
        if is_idle and owner not in {NONE, number} and one.joined < MEMBERSHIPS_MAX:
            seat = (MEMBER, one.joined + 1)
            joined = state._replace(members=state.members | {_name(number, seat)})
            yield "joins", _with(joined, number, Process(seat, joined=one.joined + 1))
        if one.upcoming and not one.waits:
            left = state._replace(members=state.members - {_name(number, one.seat)})
            is_head = state.lease == (number, one.upcoming)
            seat = (HEAD, one.upcoming) if is_head else NO_SEAT
            yield "moves up", _with(left, number, Process(seat, joined=one.joined))

    def _takes_its_turn(
        self, state: State, number: int, one: Process
    ) -> Iterator[tuple[str, State]]:
        if one.seat == NO_SEAT or not one.is_safe or one.waits:
            return
        if one.seen is None:
            yield "reads the members", _with(state, number, one._replace(seen=state.members))
        else:
            yield "reads the slices", self._decided(state, number, one)
        led, last = dict(one.led), self._case.slices - 1
        if self._case.nets and last in led and not any(f.kind == "net" for f in state.flights):
            flight = Flight(number, one.seat, "net", ((last, led[last]),))
            yield "sends a first net", state._replace(flights=state.flights | {flight})

    def _decided(self, state: State, number: int, one: Process) -> State:
        """Lead what the slices show, and send what is to be taken or given up."""
        me = _name(number, one.seat)
        owned = dict(_owned(state.slices, me))
        giving = tuple(held for held in one.giving if owned.get(held[0]) == held[1])
        kept = giving if self._case.remembers else ()
        led = tuple(held for held in owned.items() if held not in kept)
        turn = self._turn(state.slices, (one.seen or frozenset()) - {me}, me)
        given = _sorted({*kept, *((number, owned[number]) for number in turn.give)})
        after = one._replace(seen=None, led=led, giving=kept)
        if given:
            rest = tuple(held for held in led if held not in given)
            after = after._replace(led=rest, giving=given, waits=True)
            return self._sent(_with(state, number, after), number, "give", given)
        if turn.take:
            before = tuple((place, state.slices[place]) for place in turn.take)
            return self._sent(
                _with(state, number, after._replace(waits=True)), number, "take", before
            )
        return _with(state, number, after)

    def _sent(self, state: State, number: int, kind: str, before: Held) -> State:
        flight = Flight(number, state.processes[number].seat, kind, before)
        return state._replace(flights=state.flights | {flight})

    def _fails(self, state: State, number: int, one: Process) -> Iterator[tuple[str, State]]:
        """Stop, crash, lose time, come back, notice; an answer that is lost comes at no cost."""
        if one.waits:
            yield "goes on without an answer", _with(state, number, one._replace(waits=False))
        if one.seat == NO_SEAT:
            return
        name, gone = _name(number, one.seat), Process(joined=one.joined)
        if not one.is_safe:
            yield "notices that its time is over", _with(state, number, gone)
            if self._is_still_there(state, number, one):
                yield "beats late", _with(state, number, one._replace(is_safe=True))
        if not state.left:
            return
        poorer = state._replace(left=state.left - 1)
        yield "crashes", _with(poorer, number, gone)
        if one.is_safe:
            yield "loses time", _with(poorer, number, one._replace(is_safe=False))
        if not one.waits and not one.upcoming:
            lease = (NONE, state.lease[1]) if state.lease == (number, one.seat[1]) else state.lease
            released = lease if one.seat[0] == HEAD else state.lease
            stopped = poorer._replace(members=state.members - {name}, lease=released)
            yield "stops", _with(stopped, number, gone)

    def _is_still_there(self, state: State, number: int, one: Process) -> bool:
        if one.seat[0] == HEAD:
            return state.lease == (number, one.seat[1])
        return _name(number, one.seat) in state.members

    def _is_over(self, state: State, owner: int) -> bool:
        """Return whether the lease may be taken from its owner."""
        one, epoch = state.processes[owner], state.lease[1]
        holds_it = one.seat == (HEAD, epoch) or one.upcoming == epoch
        return not (holds_it and one.is_safe)

    def _may_bury(self, state: State, name: str) -> bool:
        for number, one in enumerate(state.processes):
            if _name(number, one.seat) == name and self._case.buries_late:
                return not one.is_safe
        return True

    def _lands(self, state: State, flight: Flight) -> Iterator[tuple[str, State, str]]:
        number, one = flight.process, state.processes[flight.process]
        who = f"what process {number + 1} sent ({flight.kind})"
        rest = state._replace(flights=state.flights - {flight})
        yield f"{who} is lost", rest, ""
        is_true = self._is_true(state, flight)
        wrong = ""
        after = rest
        if is_true and flight.kind == "net":
            after = rest._replace(has_net=True)
            wrong = self._followed(state, number)
        elif is_true:
            after = rest._replace(slices=self._changed(state, flight))
        if flight.kind == "net" or not (one.waits and one.seat == flight.seat):
            yield f"{who} lands{'' if is_true else ', refused'}", after, wrong
            return
        yield f"{who} lands{'' if is_true else ', refused'}, without an answer", after, ""
        answered = one._replace(waits=False)
        if is_true and flight.kind == "take":
            me = _name(number, one.seat)
            new = tuple((place, Slice(me, was.epoch + 1)) for place, was in flight.before)
            answered = answered._replace(led=_sorted({*one.led, *new}))
        yield f"{who} lands{'' if is_true else ', refused'}", _with(after, number, answered), ""

    def _followed(self, state: State, number: int) -> str:
        for other, one in enumerate(state.processes):
            if other != number and one.is_safe and self._case.slices - 1 in dict(one.led):
                return (
                    f"the first net of process {number + 1} lands, although process {other + 1}"
                    " leads the slice"
                )
        return ""

    def _actions_of(self, flight: Flight, owner: str) -> tuple[Action, ...]:
        """Return the transaction as the production code makes it."""
        kind, epoch = flight.seat
        me = _name(flight.process, flight.seat)
        key = (LEASE_PARTITION, LEASE if kind == HEAD else f"{LEASE}/{me}")
        own = LeaseGrant(key, owner, epoch).fence()
        before, count = dict(flight.before), self._case.slices
        if flight.kind == "net":
            return tuple(self._case.fence(own, before[count - 1], count))
        if flight.kind == "give":
            return tuple(self._case.giving(own, before, count))
        return tuple(self._case.taking(own, before, me, count))

    def _is_true(self, state: State, flight: Flight) -> bool:
        if flight.kind == "net" and state.has_net:
            return False
        return all(
            holds(action.condition, self._shown(state, _key(action)))
            for action in self._actions(flight, _owner(flight.process))
            if isinstance(action, Check | Put)
        )

    def _shown(self, state: State, key: Key) -> Item | None:
        name = key[1]
        owner, epoch = state.lease
        if name == LEASE:
            return _lease_item(_owner(owner), epoch) if owner != NONE else None
        member = name.removeprefix(f"{LEASE}/")
        if member.startswith("process/"):
            who, joined = member.split("/")[1:]
            return _lease_item(who, int(joined, 16)) if member in state.members else None
        for number, one in enumerate(state.slices):
            if slice_key(LEASE, number, self._case.slices) == key:
                return None if one == Slice() else slice_item(key, one)
        raise AssertionError(f"unreachable: {key} is none of the model's")

    def _changed(self, state: State, flight: Flight) -> tuple[Slice, ...]:
        owner = _name(flight.process, flight.seat) if flight.kind == "take" else ""
        before = dict(flight.before)
        return tuple(
            Slice(owner, one.epoch + 1) if number in before else one
            for number, one in enumerate(state.slices)
        )


def _key(action: Check | Put) -> Key:
    return action.key if isinstance(action, Check) else (LEASE_PARTITION, action.item["sk"]["S"])


def _lease_item(owner: str, epoch: int) -> Item:
    return {"owner": {"S": owner}, "epoch": {"N": str(epoch)}}


def _owner(number: int) -> str:
    return f"p{number}"


def _name(number: int, seat: Seat) -> str:
    kind, which = seat
    if kind == MEMBER:
        return member_name(_owner(number), which)
    return kind


def _owned(slices: tuple[Slice, ...], me: str) -> Held:
    return tuple((number, one) for number, one in enumerate(slices) if one.owner == me)


def _sorted(held: set[tuple[int, Slice]]) -> Held:
    return tuple(sorted(held, key=itemgetter(0)))


def _with(state: State, number: int, one: Process) -> State:
    processes = (*state.processes[:number], one, *state.processes[number + 1 :])
    return state._replace(processes=processes)
