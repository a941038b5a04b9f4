"""Properties of the pipeline's pure parts."""

import json
from collections.abc import Sequence
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st
from support.ledgers import HOME
from support.pipelines import pipeline_settings

from ledger.pipeline.core.category_sums import (
    PART_CATEGORIES_MAX,
    CategorySums,
    Changes,
    difference,
    divided,
    total,
)
from ledger.pipeline.core.items import map_item, map_item_of, state_item, state_of
from ledger.pipeline.core.records import Poison, Record, RecordForm
from ledger.pipeline.core.transitions import State, advanced, between, is_newer
from ledger.pipeline.sources.dead_letters import DeadRecord, letter_of, line_of

FORM = RecordForm(pipeline_settings())
VALUES = st.decimals(-(10**14), 10**14, places=3)
CATEGORIES = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True)
COUNTED = st.lists(st.sampled_from("xyz"), max_size=2, unique=True)
IMAGES = st.builds(
    CategorySums,
    VALUES,
    CATEGORIES.map(lambda found: tuple(sorted(found))),
    COUNTED.map(lambda found: tuple(sorted(found))),
)
ARRIVALS = st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 8), IMAGES), max_size=20)
LABELS = st.text(min_size=1).filter(lambda text: text < "\ud800" or text > "\udfff")
CHANGES = st.dictionaries(LABELS, VALUES.filter(bool), max_size=300)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "TradeID": JSON,
        "Version": JSON,
        "Value": JSON,
        "Hierarchy": st.fixed_dictionaries(
            {}, optional={"RiskType": JSON, "Region": JSON, "Desk": JSON}
        ),
    },
)


def image_changes(image: CategorySums | None) -> dict[str, Decimal]:
    """Return what an image adds, zeroes left out."""
    if image is None:
        return {}
    values = dict.fromkeys(image.categories, image.value) if image.value else {}
    return values | dict.fromkeys(image.counted, Decimal(1))


@given(st.lists(IMAGES, max_size=8))
def test_differences_telescope(images: Sequence[CategorySums]) -> None:
    """Whatever the versions before, all differences add up to the last image alone."""
    before = [None, *images[:-1]]
    changes = [difference(one, other) for one, other in zip(before, images, strict=False)]
    assert total(changes) == image_changes(images[-1] if images else None)


@given(ARRIVALS, st.data())
def test_committed_and_open_transitions_add_up(
    arrivals: Sequence[tuple[str, int, CategorySums]], data: st.DataObject
) -> None:
    """Versions in any order through two lanes that commit at times: each counts once."""
    state: State | None = None
    committed = {"A": "", "B": ""}
    taken: list[Changes] = []
    for number, (lane, version, image) in enumerate(arrivals):
        record = Record("T", version, image.value, image.categories, HOME, image.counted)
        if is_newer(record, state):
            known = {name: data.draw(st.sampled_from(["", at])) for name, at in committed.items()}
            position = f"{number:03d}"
            state = advanced(state, record, lane=lane, position=position, committed=known)
        if state is not None and data.draw(st.booleans()):
            upto = f"{data.draw(st.integers(0, number)):03d}"
            after = committed[lane]
            taken += [one for _, one in between(state, lane, after, upto)]
            committed[lane] = max(after, upto)
    if state is None:
        return
    rest = [one for lane, at in committed.items() for _, one in between(state, lane, at, "999")]
    assert total([*taken, *rest]) == image_changes(state.image)
    newest = [version for _, version, _ in arrivals]
    assert state.version == max(newest)


@given(CHANGES)
def test_parts_hold_everything_once(changes: Changes) -> None:
    """Divided changes are the same changes, in parts of a bounded size."""
    parts = divided(changes)
    assert parts is not None
    assert all(0 < len(part) <= PART_CATEGORIES_MAX for part in parts)
    assert sum(map(len, parts)) == len(changes)
    assert {name: one for part in parts for name, one in part.items()} == changes
    for number, part in enumerate(parts):
        assert map_item_of(map_item("lane", "0" * 64, number, part)).changes == part


@given(
    IMAGES, st.integers(0, 10**38 - 1), st.dictionaries(LABELS, CHANGES.filter(bool), max_size=3)
)
def test_states_come_back_as_they_were(
    image: CategorySums, version: int, own: dict[str, Changes]
) -> None:
    """A state's item holds all of it, exactly."""
    state = State(version, image, HOME, {"lane": own} if own else {})
    assert state_of(state_item("T", state)) == state


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_poison(raw: bytes) -> None:
    """Nothing that arrives raises."""
    assert isinstance(FORM.read(raw), Record | Poison)


@given(RECORDS)
def test_any_object_is_a_record_or_poison(told: dict[str, object]) -> None:
    """Fields of any kind, or none, make a record or poison, and a record only of good ones."""
    found = FORM.read(json.dumps(told).encode())
    if isinstance(found, Record):
        assert isinstance(told["Version"], int)
        assert found.categories == tuple(sorted(set(found.categories)))
        assert found.value == Decimal(json.dumps(told["Value"]).strip('"'))
    else:
        assert found.reason


@given(st.text(), st.binary(max_size=100))
def test_a_dead_letter_comes_back_as_it_was(reason: str, raw: bytes) -> None:
    """Any bytes survive the file of dead letters, in one line."""
    letter = DeadRecord("lane", "01", reason, raw)
    line = line_of(letter)
    assert letter_of(line) == letter
    assert line.count("\n") == 1
