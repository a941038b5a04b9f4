"""States as single integers, equal for states that differ only in what may be exchanged.

Entries are exchanged by sorting them; leaders of one home, and two regions that are not home, by
comparing what distinguishes them. Where that is equal the two orders stay two states: they are
then explored twice, which costs time and never hides anything.

Pure: no clock, no randomness, no I/O.
"""

from proof.simulator.explorer.state import LEADERS_MAX, READING, Doing, State
from proof.simulator.explorer.world import World

_REGIONS_TO_EXCHANGE = 3


class Keys:
    """The key of each state of a model, and the state of each key."""

    def __init__(self, model: World) -> None:
        case = model.case
        self._model = model
        self._bits = model.entry_bits
        self._entries = case.entries
        self._leader_fields = model.leader_fields()
        self._mask = model.leader_mask(0)
        self._numbers: dict[tuple[object, ...], int] = {}
        self._rest: list[tuple[object, ...]] = []
        self._exchanges_regions = case.regions == _REGIONS_TO_EXCHANGE and not case.move
        self._exchanges_leaders = case.leaders == LEADERS_MAX and not case.move

    def key(self, state: State) -> int:
        """Return the key of a state."""
        if self._exchanges_regions:
            state = self._regions_in_order(state)
        if self._exchanges_leaders:
            state = self._leaders_in_order(state)
        rest = state[:-1]
        number = self._numbers.get(rest)
        if number is None:
            number = self._numbers[rest] = len(self._rest)
            self._rest.append(rest)
        entries = sorted(state.entries) if self._model.is_symmetric else state.entries
        for entry in entries:
            number = number << self._bits | entry
        return number

    def state(self, key: int) -> State:
        """Return the state of a key."""
        mask = (1 << self._bits) - 1
        entries = []
        for _ in range(self._entries):
            entries.append(key & mask)
            key >>= self._bits
        return State._make((*self._rest[key], tuple(reversed(entries))))

    def _regions_in_order(self, state: State) -> State:
        """Put the second and the third region in order by what they show."""
        block = self._model.region_bits
        mask = (1 << block) - 1
        one, two = block, 2 * block
        first = (state.shown[1], sorted(entry >> one & mask for entry in state.entries))
        second = (state.shown[2], sorted(entry >> two & mask for entry in state.entries))
        if first <= second:
            return state
        shown, reader = state.shown, state.reader
        if reader and reader[0]:
            reader = (3 - reader[0], *reader[1:])
        leaders = tuple(
            (*doing[:2], _exchanged(doing[2])) if doing[:1] == (READING,) else doing
            for doing in state.leaders
        )
        entries = tuple(
            entry ^ (differs << one | differs << two)
            for entry in state.entries
            for differs in (((entry >> one) ^ (entry >> two)) & mask,)
        )
        return state._replace(
            shown=(shown[0], shown[2], shown[1]), leaders=leaders, reader=reader, entries=entries
        )

    def _leaders_in_order(self, state: State) -> State:
        """Put two leaders in order by what they do, have seen and have planned."""
        one, two = state.leaders
        if one < two or (one == two == ()):
            return state
        exchanged = tuple(map(self._exchanged_leaders, state.entries))
        if one == two:
            first = sorted(entry & self._mask for entry in state.entries)
            second = sorted(entry & self._mask for entry in exchanged)
            if first <= second:
                return state
        return state._replace(leaders=(two, one), entries=exchanged)

    def _exchanged_leaders(self, entry: int) -> int:
        for one, two, mask in self._leader_fields:
            differs = ((entry >> one) ^ (entry >> two)) & mask
            entry ^= differs << one | differs << two
        return entry


def _exchanged(views: Doing) -> Doing:
    home, one, two = views
    return home, two, one
