"""What the production code says, of a small case; and each rule broken.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from compactor.slices import (
    HEAD,
    Slice,
    Turn,
    fence_of,
    giving,
    is_free,
    share_of,
    taking,
    turn_of,
)
from ledger.store.writes import Action, Check
from proof.simulator.explorer.broken_rule import BrokenRule

LEASE = "compactor@home"

Turning = Callable[[Sequence[Slice], Collection[str], str], Turn]
Taking = Callable[[Check, Mapping[int, Slice], str, int], list[Action]]
Giving = Callable[[Check, Mapping[int, Slice], int], list[Action]]
Fencing = Callable[[Check, Slice, int], Sequence[Check]]


def _turn(slices: Sequence[Slice], members: Collection[str], me: str) -> Turn:
    return turn_of(slices, members=members, me=me)


def _taking(own: Check, before: Mapping[int, Slice], me: str, slices: int) -> list[Action]:
    return taking(own, before, me=me, lease=LEASE, slices=slices)


def _giving(own: Check, before: Mapping[int, Slice], slices: int) -> list[Action]:
    return giving(own, before, lease=LEASE, slices=slices)


def _fence(own: Check, led: Slice, slices: int) -> Sequence[Check]:
    return fence_of(own, slices - 1, led, lease=LEASE, slices=slices)


@dataclass(frozen=True, slots=True)
class Case:
    """A small case: so many processes, slices, and misfortunes (a stop, crash or lapse of time).

    With `nets` the leader of the last slice may send a first net. `remembers` is whether what was
    given up without an answer is remembered; `buries_late` whether a lapse of time is waited for.
    """

    processes: int
    slices: int
    misfortunes: int
    nets: bool = False
    turn: Turning = _turn
    taking: Taking = _taking
    giving: Giving = _giving
    fence: Fencing = _fence
    remembers: bool = True
    buries_late: bool = True


CASES = {
    "two-processes": Case(processes=2, slices=2, misfortunes=1),
    "first-nets": Case(processes=2, slices=1, misfortunes=2, nets=True),
    "first-nets-of-two": Case(processes=2, slices=2, misfortunes=1, nets=True),
    "first-nets-of-three": Case(processes=3, slices=1, misfortunes=1, nets=True),
}
LARGE = {
    "two-processes-often": Case(processes=2, slices=2, misfortunes=2),
    "three-processes": Case(processes=3, slices=2, misfortunes=1),
}


def _unchecked_taking(
    own: Check, before: Mapping[int, Slice], me: str, slices: int
) -> list[Action]:
    """Take slices whatever has become of their owners."""
    actions = _taking(own, before, me, slices)
    return [own, *(action for action in actions if not isinstance(action, Check))]


def _unfenced_giving(own: Check, before: Mapping[int, Slice], slices: int) -> list[Action]:
    """Give up slices although the lease was lost since."""
    return [place for place in _giving(own, before, slices) if place != own]


def _rounded_down(slices: Sequence[Slice], members: Collection[str], me: str) -> Turn:
    """Let each member have its part, rounded down."""
    found = _turn(slices, members, me)
    share = len(slices) // len({HEAD, me, *members})
    mine = [number for number, one in enumerate(slices) if one.owner == me]
    return Turn(found.take[: max(0, share - len(mine))], found.give or tuple(mine[share:]))


def _greedy(slices: Sequence[Slice], members: Collection[str], me: str) -> Turn:
    """Take whatever is not one's own, up to the share."""
    mine = [number for number, one in enumerate(slices) if one.owner == me]
    missing = share_of(me, members, len(slices)) - len(mine)
    others = [number for number, one in enumerate(slices) if one.owner not in {me, HEAD}]
    return (
        Turn(take=tuple(others[: max(0, missing)])) if missing > 0 else _turn(slices, members, me)
    )


def _head_is_free(slices: Sequence[Slice], members: Collection[str], me: str) -> Turn:
    """Take what the head leads as if it were gone: the lease has no item of a member's kind."""
    found = _turn(slices, members, me)
    free = [n for n, one in enumerate(slices) if one.owner == HEAD or is_free(one, members)]
    mine = [number for number, one in enumerate(slices) if one.owner == me]
    missing = share_of(me, members, len(slices)) - len(mine)
    return found if me == HEAD else replace(found, take=tuple(free[: max(0, missing)]))


def _no_fence(own: Check, led: Slice, slices: int) -> Sequence[Check]:
    """Put a first net without a check."""
    del own, led, slices
    return ()


def _own_fence(own: Check, led: Slice, slices: int) -> Sequence[Check]:
    """Check the member's own lease alone."""
    del led, slices
    return (own,)


def _slice_fence(own: Check, led: Slice, slices: int) -> Sequence[Check]:
    """Check the slice alone."""
    return _fence(own, led, slices)[1:]


_TWO = LARGE["two-processes-often"]
_NETS = CASES["first-nets"]

MUTANTS = {
    "taken-unchecked": BrokenRule(
        "slices are taken without a check of their owners", replace(_TWO, taking=_unchecked_taking)
    ),
    "given-unfenced": BrokenRule(
        "slices are given up though the lease was lost since",
        replace(_TWO, giving=_unfenced_giving),
    ),
    "given-and-led": BrokenRule(
        "a slice given up without an answer is led on", replace(_TWO, remembers=False)
    ),
    "buried-alive": BrokenRule(
        "heartbeat items are deleted before a lapse of time is over",
        replace(_TWO, buries_late=False),
    ),
    "rounded-down": BrokenRule(
        "each member's share is rounded down",
        replace(_TWO, processes=2, slices=3, turn=_rounded_down),
    ),
    "taken-from-the-living": BrokenRule(
        "slices are taken from members that are alive, without a check",
        replace(_TWO, turn=_greedy, taking=_unchecked_taking),
    ),
    "taken-from-the-head": BrokenRule(
        "the head's slices are taken as free",
        replace(_TWO, turn=_head_is_free, taking=_unchecked_taking),
    ),
    "first-net-unfenced": BrokenRule(
        "first nets are put without a check", replace(_NETS, fence=_no_fence)
    ),
    "first-net-by-the-lease": BrokenRule(
        "first nets are put with a check of the lease alone, not of the slice",
        replace(CASES["first-nets-of-two"], fence=_own_fence),
    ),
    "first-net-by-the-slice": BrokenRule(
        "first nets are put with a check of the slice alone, not of the lease",
        replace(_NETS, fence=_slice_fence),
    ),
}
