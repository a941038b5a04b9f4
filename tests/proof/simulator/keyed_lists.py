"""Lists of changes that have one key together: in one world of five.

A list has changes of a combined counter, of a plain one, or of both; of a counter often more than
share an item. It is repeated in any region, by any process: within the retry horizon and after it,
before its first call is answered and after its process has crashed. Another list under its key must
be refused where the first is there, and an acknowledged change of it is never written again. The
contract, where there is one that changes, comes to combine the counters, or combines none of them
any more. The counters' changes are also made by other calls.
"""

from dataclasses import replace
from random import Random

from proof.simulator.activity import draw_at, draw_repeats
from proof.simulator.combining import CALLS_MAX, draw_left, taken
from proof.simulator.planned import BusyPeriod, Operation
from proof.simulator.profiles import Kind, Profile
from proof.simulator.randomness import stream
from proof.simulator.terms import TermsChange

SHARE = 0.2
LISTED = ("counter-5", "counter-6")
COMBINED = ((), (), LISTED[:1], LISTED)
"""Which of them are combined, at first."""
KINDS: dict[Kind, int] = {"keyed_list": 8, "shared": 1, "listed": 1, "one": 1, "keyed": 1}
ITEMS_MAX = (2, 3, 4, 100)
"""Changes of a counter in a list that share an item. 100 is the product's: no list here has so many
changes, as a total shows of 36 whether it counts them."""
COMBINE_SHARE = 0.8
"""Of changes of a contract, those of what it combines."""
ALONE_SHARE = 0.5
"""Of changes of a contract, those of nothing else: then repeats go on as before."""
OTHERS_MAX = 2
OTHERS_SECONDS = 300.0
"""Within which others use the key of a list for another."""
SWAPPED_SHARE = 0.5
"""Of other lists, those that have the same changes of a counter in another order."""


def has_lists(seed: int) -> bool:
    """Return whether the world of a seed has lists with a key."""
    return stream(seed, "keyed lists").random() < SHARE


def draw_lists(
    chance: Random, profile: Profile, regions: tuple[str, ...], busy: tuple[BusyPeriod, ...]
) -> tuple[Operation, ...]:
    """Draw the calls of the counters of lists, until each has all of its changes."""
    left, operations = draw_left(chance, LISTED[: chance.choice((1, 2, 2))]), list[Operation]()
    while any(left.values()):
        kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
        count = 1 if kind in {"one", "keyed"} else chance.randint(2, CALLS_MAX)
        is_keyed = kind in {"keyed", "keyed_list"}
        others = range(chance.randint(0, OTHERS_MAX) if kind == "keyed_list" else 0)
        operations.append(
            Operation(
                draw_at(chance, busy),
                chance.choice(regions),
                kind,
                taken(chance, left, count),
                draw_repeats(chance, profile, regions) if is_keyed else (),
                tuple((chance.random() * OTHERS_SECONDS, chance.choice(regions)) for _ in others),
            )
        )
    return tuple(operations)


def combining(
    chance: Random, first: tuple[str, ...], changes: tuple[TermsChange, ...]
) -> tuple[TermsChange, ...]:
    """Let some changes of a contract combine the counters, or combine none of them any more.

    `first` is what the contract combines at the beginning.
    """
    combine, drawn = first, list[TermsChange]()
    for change in changes:
        if chance.random() < COMBINE_SHARE:
            rest = tuple(pattern for pattern in combine if pattern not in LISTED)
            combine = rest if rest != combine else (*rest, *LISTED)
        others = {} if chance.random() < ALONE_SHARE else change.values
        drawn.append(replace(change, values={**others, "combine": combine}))
    return tuple(drawn)


def other_list(chance: Random, changes: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return another list than this one: two changes swapped that share an item, or one doubled."""
    (counter, amount), *_ = changes
    places = [place for place, (name, _) in enumerate(changes) if name == counter]
    other = list(changes)
    if len(places) > 1 and chance.random() < SWAPPED_SHARE:
        other[places[0]], other[places[1]] = changes[places[1]], changes[places[0]]
    else:
        other[0] = counter, 2 * amount
    return other
