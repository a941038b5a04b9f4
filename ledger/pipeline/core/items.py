"""The pipeline's items in the table and their codec: states, lanes' positions, map items.

Of a pipeline with a name, `~state~` is `~state.NAME~` and `~pipeline~` is `~pipeline.NAME~`.

- state: pk `~state~` + record, sk `state`: `version` N, `value` N, `categories` SS, `counted` SS,
  `home` S (the only region that may write it), `open` M (lane, position, category, change), `rev`
  N, raised by each write, `fields` S, JSON of those that another form may need;
- lane: pk `~pipeline~` + lane, sk `position`: see `ledger.pipeline.core.lane_state`;
- map item: pk `~pipeline~` + lane, sk `map#`, SHA-256, `#`, part: `sums` M (category, change),
  `audit` N of one that was made while an audit ran.

A lane is named by its region, `/` and its name: the same name in another region is another lane,
which no stale replica of this one's position can mislead.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from ledger.core import amounts
from ledger.core.capacity import item_size
from ledger.core.entry import AttributeValue, Item, Key, damaged, key_of, number_of
from ledger.core.errors import InvalidAmount, InvalidInput
from ledger.core.keys import RESERVED
from ledger.pipeline.core.category_sums import CategorySums, Changes
from ledger.pipeline.core.record_times import seconds_of, time_of
from ledger.pipeline.core.transitions import Open, State
from ledger.primitives.versions.version_rules import version_of

STATE_PREFIX = f"{RESERVED}state"
"""Prefix of the partitions of every pipeline's states, and of no others."""
PIPELINE_PREFIX = f"{RESERVED}pipeline"
"""Prefix of the partitions of every pipeline's lanes, and of no others."""
STATE_SORT_KEY = "state"
POSITION_SORT_KEY = "position"
MAP_PREFIX = "map#"
MAP_LAST = "map$"
"""Sorts after every map item of a lane."""
LANE_BYTES_MAX = 512
PART_DIGITS = 2


@dataclass(frozen=True, slots=True)
class MapItem:
    """A part of what one batch changes, to be added to the totals once and then deleted."""

    key: Key
    changes: Changes
    audit: int = 0
    size_bytes: int = field(default=0, compare=False)


def lane_id(region: str, name: str) -> str:
    """Return a lane's name in the table.

    Raises:
        InvalidInput: the name is empty, too long, or not UTF-8.
    """
    if not isinstance(name, str):
        raise InvalidInput(f"lane must be a string, got {name!r:.80}")
    lane = f"{region}/{name}"
    try:
        size_bytes = len(lane.encode())
    except UnicodeEncodeError:
        raise InvalidInput(f"lane {name[:40]!r}: a name must be UTF-8") from None
    if not name or size_bytes > LANE_BYTES_MAX:
        raise InvalidInput(f"lane {name[:40]!r}: a name must have at most {LANE_BYTES_MAX} bytes")
    return lane


def state_key(record_id: str, pipeline: str = "") -> Key:
    """Return the key of a record's state in a pipeline."""
    return f"{_of(STATE_PREFIX, pipeline)}{RESERVED}{record_id}", STATE_SORT_KEY


def position_key(lane: str, pipeline: str = "") -> Key:
    """Return the key of a lane's committed position in a pipeline."""
    return f"{_of(PIPELINE_PREFIX, pipeline)}{RESERVED}{lane}", POSITION_SORT_KEY


def _of(prefix: str, pipeline: str) -> str:
    return f"{prefix}.{pipeline}" if pipeline else prefix


def state_item(record_id: str, state: State, pipeline: str = "") -> Item:
    """Return the item of a record's state."""
    partition, sort_key = state_key(record_id, pipeline)
    item: dict[str, AttributeValue] = {
        "pk": {"S": partition},
        "sk": {"S": sort_key},
        "version": {"N": str(state.version)},
        "value": {"N": amounts.to_text(state.image.value)},
        "categories": {"SS": list(state.image.categories)},
        "home": {"S": state.home},
    }
    if state.image.counted:
        item["counted"] = {"SS": list(state.image.counted)}
    if state.rev:
        item["rev"] = {"N": str(state.rev)}
    if state.at is not None:
        item["time"] = {"N": amounts.to_text(seconds_of(state.at))}
    if state.kept:
        item["fields"] = {"S": state.kept}
    if state.open:
        item["open"] = {"M": {lane: _transitions(open_) for lane, open_ in state.open.items()}}
    return item


def state_of(item: Item) -> State:
    """Read a record's state.

    Raises:
        DamagedItem: an attribute is missing or of another kind.
    """
    version = version_of(item)
    categories = item.get("categories", {}).get("SS")
    home = item.get("home", {}).get("S")
    if version is None or not categories or not isinstance(home, str):
        raise damaged(item, "a state needs version, categories and home")
    counted = item.get("counted", {"SS": ()}).get("SS")
    if counted is None:
        raise damaged(item, "counted must be a set of strings (SS)")
    kept = item.get("fields", {"S": ""}).get("S")
    if not isinstance(kept, str):
        raise damaged(item, "fields must be a string (S)")
    image = CategorySums(
        number_of(item, "value"), tuple(sorted(categories)), tuple(sorted(counted))
    )
    return State(version, image, home, _open_of(item), _whole(item, "rev"), kept, _time_of(item))


def map_item(
    lane: str, digest: str, part: int, changes: Changes, pipeline: str = "", *, audit: int = 0
) -> Item:
    """Return the item of one part of a batch."""
    return {
        **({"audit": {"N": str(audit)}} if audit else {}),
        "pk": {"S": position_key(lane, pipeline)[0]},
        "sk": {"S": f"{MAP_PREFIX}{digest}#{part:0{PART_DIGITS}d}"},
        "sums": {"M": _numbers(changes)},
    }


def map_item_of(item: Item) -> MapItem:
    """Read a part of a batch.

    Raises:
        DamagedItem: its sums cannot be read.
    """
    changes = _changes_of(item, item.get("sums", {}))
    return MapItem(key_of(item), changes, _whole(item, "audit"), item_size(item))


def _time_of(item: Item) -> datetime | None:
    try:
        return time_of(number_of(item, "time")) if "time" in item else None
    except ValueError as error:
        raise damaged(item, f"time cannot be read: {error}") from None


def _whole(item: Item, name: str) -> int:
    """Read a number that is 0 if it is missing."""
    try:
        return int(item.get(name, {"N": "0"})["N"])
    except (KeyError, TypeError, ValueError):
        raise damaged(item, f"{name} must be a whole number (N)") from None


def _transitions(by_position: Mapping[str, Changes]) -> AttributeValue:
    return {"M": {at: {"M": _numbers(changes)} for at, changes in by_position.items()}}


def _numbers(changes: Changes) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {}
    last, text = None, ""
    for category, change in changes.items():
        if change is not last:  # most often a record's categories have one change
            last, text = change, amounts.to_text(change)
        found[category] = {"N": text}
    return found


def _open_of(item: Item) -> Open:
    lanes = item.get("open", {"M": {}}).get("M")
    if not isinstance(lanes, dict):
        raise damaged(item, "open must be a map (M)")
    return {
        lane: {
            at: _changes_of(item, content) for at, content in _content(item, by_position).items()
        }
        for lane, by_position in lanes.items()
    }


def _content(item: Item, value: AttributeValue) -> Mapping[str, Any]:
    content = value.get("M")
    if not isinstance(content, dict):
        raise damaged(item, "each of its values must be a map (M)")
    return content


def _changes_of(item: Item, value: AttributeValue) -> dict[str, Decimal]:
    try:
        return {
            category: amounts.parse(number["N"])
            for category, number in _content(item, value).items()
        }
    except (InvalidAmount, KeyError, TypeError, ValueError) as error:
        raise damaged(item, f"a change in it is not a number: {error}") from None
