"""A trace in words: what happens in each step, and what every region shows after it.

Pure: no clock, no randomness, no I/O.
"""

from proof.simulator.explorer.model import Model
from proof.simulator.explorer.production import REGIONS
from proof.simulator.explorer.state import Label, State, Step, entry_name, names


def described(model: Model, step: Step) -> str:
    """Return one line: what happens, and what every region shows after it."""
    return f"{_event(step.label):42} {_shown(model, step.state)}"


def _shown(model: Model, state: State) -> str:
    """Return what every region shows: its entries, what its net counts, and which it names."""
    return "   ".join(f"{_region_shown(model, state, region):22}" for region in model.regions)


def _region_shown(model: Model, state: State, region: int) -> str:
    slot = state.shown[region]
    entries = list(enumerate(state.entries))
    visible = names([place for place, entry in entries if model.is_visible(entry, region)])
    known = [(place, model.known_to_net(entry, slot)) for place, entry in entries]
    counted = [name for place, count in known for name in [entry_name(place)] * (count & 0b11)]
    merged = names([place for place, count in known if count & 0b100])
    net = f" net {'+'.join(counted) or 0} ids {merged or '-'}" if slot else ""
    return f"{visible or '-'}{net}"


_TEMPLATES = {
    "write": "{entry} is written in {region}",
    "entry": "{entry} arrives in {region}",
    "delete": "the delete of {entry} arrives in {region}",
    "net": "a net arrives in {region}",
    "read net": "{leader} reads the net at home",
    "read": "{leader} reads {region}",
    "read page 1": "{leader} reads page 1 of {region}",
    "read page 2": "{leader} reads page 2 of {region}",
    "crash": "{leader} crashes",
    "leave": "{leader} leaves its plan in flight",
    "lose": "what is in flight is lost",
    "move": "the new home is in force",
    "page 1": "a reader in {region} reads {first}",
    "page 2": "the reader in {region} reads the rest",
}


def _event(label: Label) -> str:
    """Return the event of a step in words."""
    what, *numbers = label
    who, _, act = str(what).partition(": ")
    if act:
        region = REGIONS[int(numbers[-1])]
        entry = entry_name(int(numbers[0]))
        return f"{who} puts a new net" if act == "fold" else f"{who} deletes {entry} in {region}"
    values = _values(str(what), [int(number) for number in numbers])
    return _TEMPLATES[str(what)].format(**values)


def _values(what: str, numbers: list[int]) -> dict[str, str]:
    if what in {"write", "entry", "delete"}:
        return {"entry": entry_name(numbers[0]), "region": REGIONS[numbers[1]]}
    if what in {"net", "page 1", "page 2"}:
        return {"region": REGIONS[numbers[0]], "first": ("entries", "the net")[numbers[1] == 1]}
    if what in {"read", "read page 1", "read page 2"}:
        return {"leader": f"leader {numbers[0] + 1}", "region": REGIONS[numbers[1]]}
    return {"leader": f"leader {numbers[0] + 1}"} if numbers else {}
