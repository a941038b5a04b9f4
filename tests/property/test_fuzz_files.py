"""Files and texts that people hand in, damaged anywhere: one clear error, or what they say."""

import json
import os
from collections.abc import Iterator
from contextlib import chdir
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from support.damage import mutated, short_texts
from support.importing import source_of

from ledger.core import amounts, keys
from ledger.core.errors import ImportRefused, InvalidInput, SettingsError
from ledger.local.engines import values
from ledger.local.engines.memory.expressions.conditions import condition
from ledger.local.engines.memory.expressions.placeholders import Placeholders
from ledger.local.engines.port import ApiError, TableKey
from ledger.settings import Settings
from ledger.settings.groups import CompactorSettings
from ledger.writes.imports.file_format import ColumnChoice, Form, Format
from ledger.writes.imports.rows import RULE_CHARACTERS_MAX, BadRow, Row, read_rows

EXAMPLE = (Path(__file__).parents[2] / "regions.yaml").read_bytes()
SMALL = "home: us-east-1\nregions:\n  us-east-1:\n  eu-west-1:\n"


# Settings.


@pytest.fixture(autouse=True, scope="module")
def bare_environment() -> Iterator[None]:
    """No variable of the machine, and no file of the checkout, reaches a test."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("LEDGER_")}
    with TemporaryDirectory() as place, chdir(place), mock.patch.dict(os.environ, bare, clear=True):
        yield


def loaded(content: bytes | str) -> Settings | None:
    """Load settings from a file of this content; None where they are refused as they should be."""
    path = Path("regions.yaml")
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return _checked(path)


def _checked(path: Path) -> Settings | None:
    try:
        found = Settings.load(path)
    except SettingsError as error:
        assert "\n" not in str(error)  # noqa: PT017 (only where it is refused)
        str(error).encode()
        return None
    assert found.home in found.regions
    assert found.settle > found.retry_horizon + found.signature_lifetime + found.clock_skew
    assert found.observation_delay > found.read_deadline
    assert 1 <= found.compactor.fold_min <= found.compactor.fold_max
    return found


@given(mutated(EXAMPLE))
def test_the_shipped_settings_damaged_anywhere_are_refused_or_sound(content: bytes) -> None:
    """The example with a few bytes changed gives settings that keep every rule, or one error."""
    loaded(content)


@given(st.one_of(st.binary(max_size=80), short_texts().map(str.encode), mutated(SMALL.encode())))
def test_any_bytes_are_settings_or_an_error(content: bytes) -> None:
    """A data file named by mistake is one clear error."""
    loaded(content)


@pytest.mark.parametrize(
    "text",
    [
        SMALL + "1: 2\n",
        SMALL + "on: 2\n",
        SMALL + "~: 2\n",
        SMALL + "<<: {1: 2}\n",
        SMALL + "shards: {1: 2}\n",
        SMALL + "? [table]\n: x\n",
        "!!set {home, regions}\n",
        SMALL + 'settle: !!int ""\n',
        SMALL + "settle: !!bool maybe\n",
        SMALL + "settle: !!timestamp x\n",
        SMALL + f"settle: {'9' * 400}\n",
        SMALL + f"settle: {'9' * 5_000}\n",
        pytest.param(SMALL + f"shards: {'[' * 1_100}{']' * 1_100}\n", marks=pytest.mark.slow),
        pytest.param("[" * 1_100, marks=pytest.mark.slow),
        SMALL + "cache: &again {max_age: *again}\n",
        SMALL + "shards: {x: &again [*again]}\n",
        'home: us-east-1\nregions: {us-east-1: {endpoint: "http://\\ud800"}}\n',
        'home: "{x}"\nregions: {"{x}": {}}\n',
    ],
    ids=lambda text: text.removeprefix(SMALL).strip()[:24],
)
def test_what_yaml_allows_and_settings_do_not_is_refused(text: str) -> None:
    """Names that are no text, values their tag does not fit, endless nesting: one clear error."""
    assert loaded(text) is None


NAMES = [
    *[name for name in Settings.model_fields if name not in {"home", "regions"}],
    *[f"compactor.{name}" for name in CompactorSettings.model_fields],
    *["cache.max_age", "cache.counters_max", "shards.x", "shards.x.0.since", "compactor.none"],
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 2_000),
    st.integers(-(10**400), 10**400),
    st.floats(),
    st.dates(),
    st.datetimes(),
    short_texts(),
    st.from_regex(r"-?[0-9]{1,4}(\.[0-9])? ?(ms|s|m|h|d|w)?", fullmatch=True),
)
VALUES = st.one_of(
    SCALARS,
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.dictionaries(st.sampled_from(["count", "since", "max_age", "x"]), SCALARS, max_size=3),
    st.lists(
        st.fixed_dictionaries({"count": SCALARS}, optional={"since": SCALARS}),
        min_size=1,
        max_size=3,
    ),
)


def _put(values_there: dict[str, Any], name: str, value: Any) -> None:
    first, _, rest = name.partition(".")
    if rest and isinstance(values_there.setdefault(first, {}), dict):
        _put(values_there[first], rest, value)
    else:
        values_there[first] = value


@given(st.dictionaries(st.sampled_from(NAMES), VALUES, min_size=1, max_size=3))
def test_any_value_of_a_setting_is_kept_or_refused(values_given: dict[str, Any]) -> None:
    """Whatever stands where a setting is known, all rules hold or one error says which does not."""
    there: dict[str, Any] = {"home": "us-east-1", "regions": {"us-east-1": None}}
    for name, value in values_given.items():
        _put(there, name, value)
    loaded(yaml.safe_dump(there, allow_unicode=True))


@given(st.sampled_from([*NAMES, "regions", "home", "regions.us-east-1.endpoint"]), st.data())
def test_any_variable_is_kept_or_refused(name: str, data: st.DataObject) -> None:
    """Whatever a `LEDGER_*` variable says, all rules hold or one error says which does not."""
    texts = st.one_of(short_texts(), SCALARS.map(str), VALUES.map(lambda one: json.dumps(str(one))))
    json_texts = st.builds(json.dumps, st.dictionaries(short_texts(), st.integers(), max_size=2))
    text = data.draw(st.one_of(texts, json_texts)).replace("\0", "")
    path = Path("regions.yaml")
    path.write_text(SMALL)
    with mock.patch.dict(os.environ, {f"LEDGER_{name.upper().replace('.', '__')}": text}):
        _checked(path)


# Files to import.

CSV = (
    b"counter,change,note,effective\r\n"
    b'a,1.50,"a ""quoted"" note",2026-11-21\r\n'
    b"b,-3,,\r\n"
    b'c,1E+3,"over\r\ntwo lines",1993-01-31\r\n'
)
JSONL = (
    b'{"counter": "a", "change": 1.50, "note": "x", "effective": "2026-11-21"}\n'
    b'{"counter": 7, "change": "-3"}\n'
    b'{"counter": "c", "change": 12345678901234567890123456789012345678}\n'
)
JSON_VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), short_texts(), st.just("2026-11-21")
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(short_texts(), inner, max_size=3)
    ),
    max_leaves=5,
)


def read(content: bytes, form: Form) -> list[Row | BadRow] | None:
    """Read a file's rows, each checked; None if the file is refused."""
    source = source_of(content)
    try:
        rows = list(read_rows(source.lines(source.hashed(), encoding=form.encoding), form))
    except ImportRefused as error:
        assert "\n" not in str(error)  # noqa: PT017 (only where it is refused)
        return None
    for row in rows:
        _check_row(row)
    return rows


def _check_row(row: Row | BadRow) -> None:
    if isinstance(row, BadRow):
        assert row.rule
        assert len(row.rule) <= RULE_CHARACTERS_MAX + len("...")
        return
    assert type(row.change) is Decimal
    assert amounts.exact(row.change) == row.change
    assert keys.checked_counter(row.counter) == row.counter
    assert row.note is None or (row.note and row.note.encode())


@given(mutated(CSV), st.sampled_from(["utf-8-sig", "utf-8", "latin-1", "utf-16", "cp1250"]))
def test_a_csv_file_damaged_anywhere_is_rows_or_refused(content: bytes, encoding: str) -> None:
    """Each row is exact or bad, with a rule; the file is read or refused, and nothing else."""
    read(content, Form(encoding=encoding))


@given(mutated(JSONL))
def test_a_jsonl_file_damaged_anywhere_is_rows_or_refused(content: bytes) -> None:
    """Each line is an exact row or a bad one; no number of it passes through a float."""
    read(content, Form(format=Format.JSONL))


@given(st.dictionaries(st.sampled_from(["counter", "change", "note", "effective"]), JSON_VALUES))
@example({"counter": "a", "change": 0.1})
@example({"counter": "a", "change": True})
@example({"counter": "a", "change": float("nan")})
def test_any_json_object_is_a_row_or_a_bad_one(found: dict[str, Any]) -> None:
    """Whatever stands under the names of columns, a row has just the amount that is written."""
    line = json.dumps(found)
    rows = read(line.encode(), Form(format=Format.JSONL, encoding="utf-8"))
    assert rows is not None
    (row,) = rows
    if isinstance(row, Row):
        change = found["change"]
        written = change if isinstance(change, str) else json.dumps(change)
        assert row.change == Decimal(written.strip())


@pytest.mark.parametrize("depth", [10, 200, 900, 990, 995, 1_000, 50_000])
@pytest.mark.parametrize("column", ["counter", "change", "note", "effective", "metadata"])
def test_a_deeply_nested_value_is_a_bad_row(column: str, depth: int) -> None:
    """However deep a value is nested, its row is bad and the next one is read."""
    values_there = {"counter": '"a"', "change": "1", column: "[" * depth + "]" * depth}
    line = "{" + ",".join(f'"{name}":{value}' for name, value in values_there.items()) + "}"
    rows = read(f"{line}\n".encode() + JSONL, Form(format=Format.JSONL))
    assert rows is not None
    assert isinstance(rows[0], BadRow)
    assert isinstance(rows[1], Row)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "delimiter": st.one_of(short_texts(), st.characters()),
            "counter_format": st.one_of(short_texts(), st.just("x-{}")),
            "encoding": st.one_of(short_texts(), st.sampled_from(["utf-7", "idna", "rot13"])),
            "columns": st.builds(ColumnChoice, counter=short_texts(), note=short_texts()),
        },
    )
)
def test_any_form_is_refused_or_reads(form: dict[str, Any]) -> None:
    """Whatever is said of a file's form, it is refused or gives rows."""
    try:
        made = Form(**form)
    except InvalidInput:
        return
    read(CSV, made)


# What the local global table is sent.

EXPRESSIONS = [
    b"attribute_not_exists(#0) OR version < :0",
    b"size(merged) <= :0 AND NOT contains(note, :0)",
    b"((#0 = :0))",
    b"change BETWEEN :0 AND :0",
]


@given(st.one_of([mutated(text) for text in EXPRESSIONS]))
@example(b"(" * 4_000)
@example(b"NOT " * 1_000)
def test_any_condition_is_parsed_or_refused(expression: bytes) -> None:
    """A damaged condition is a ValidationException, or one that can be evaluated."""
    names = Placeholders({"#0": "pk"}, {":0": {"N": "1"}})
    text = expression.decode(errors="replace")
    try:
        parsed = condition("ConditionExpression", text, names, TableKey(("pk",), ("S",)))
        assert parsed is not None
        assert parsed.holds({"pk": {"S": "a"}, "note": {"S": "x"}}) in {True, False}
    except ApiError as error:
        assert error.kind == "ValidationException"  # noqa: PT017 (only where it is refused)


@given(st.dictionaries(short_texts(), JSON_VALUES, max_size=3))
def test_any_json_is_an_item_or_refused(wire: dict[str, Any]) -> None:
    """What is no attribute value is refused as DynamoDB does; what is one is kept as it is."""
    try:
        image = values.item(wire)
    except ApiError as error:
        assert error.kind in {"ValidationException", "SerializationException"}  # noqa: PT017 (only where it is refused)
        return
    assert values.item(image) == image
