"""A step in words: what happens, and what every region shows after it.

Pure: no clock, no randomness, no I/O.
"""

from proof.simulator.explorer.loss.state import Label, Step
from proof.simulator.explorer.loss.world import World
from proof.simulator.explorer.production import NET_BITS, REGIONS
from proof.simulator.explorer.state import entry_name, names

_COUNT, _NAMED = 0b11, 0b100

_TEMPLATES = {
    "write": "{entry} is written in {region}",
    "entry": "{entry} arrives in {region}",
    "delete": "the delete of {entry} arrives in {region}",
    "net": "net {number} or its delete arrives in {region}",
    "claim": "a contract arrives in {region}",
    "lose": "us-east-1 is lost",
    "back": "us-east-1 is back, with what {region} shows",
    "heartbeat": "the home in us-east-1 writes its own item",
    "claim by": "operator {number} puts a contract",
    "act": "operator {number} finds it in every region",
    "crash": "a leader crashes",
    "read net": "a leader reads the net in {region}",
    "read": "a leader reads {region}",
    "put net": "a leader puts net {number} in {region}",
    "refused put": "a net is refused in {region}",
    "delete net": "a leader deletes net {number} in {region}",
    "delete entry": "a leader deletes {entry} in {region}",
    "again": "a leader puts {entry} again in {region}",
    "refused again": "an entry is refused in {region}",
    "page 1": "a reader in {region} reads {first}",
    "page 2": "the reader in {region} reads the rest",
    "rest": "nothing is left to happen",
}
_OF_ENTRY = frozenset({"write", "entry", "delete", "delete entry", "again"})
_OF_NUMBER = frozenset({"net", "put net", "delete net", "claim by", "act"})
_OF_READER = frozenset({"page 1", "page 2"})


def described(world: World, step: Step) -> str:
    """Return one line: what happens, and what every region shows after it."""
    state = step.state
    shown = [_region_shown(world, step, region) for region in world.live(state)]
    return f"{_event(step.label):46} {'   '.join(shown)}"


def _event(label: Label) -> str:
    what, *numbers = str(label[0]), *(int(number) for number in label[1:])
    first, last = (numbers[0], numbers[-1]) if numbers else (0, 0)
    return _TEMPLATES[what].format(
        entry=entry_name(first),
        number=first,
        region=REGIONS[(first if what in _OF_READER else last) % len(REGIONS)],
        first="the nets" if last else "the entries",
    )


def _region_shown(world: World, step: Step, region: int) -> str:
    visible, nets = world.view(step.state, region)
    places = range(world.case.entries)
    text = names([place for place in places if visible >> place & 1]) or "-"
    for generation, content in nets:
        parts = [(place, content >> (NET_BITS * place)) for place in places]
        counted = "+".join(entry_name(place) for place, one in parts for _ in range(one & _COUNT))
        named = names([place for place, one in parts if one & _NAMED])
        text += f" net {generation}: {counted or 0} ids {named or '-'}"
    return f"{text:26}"
