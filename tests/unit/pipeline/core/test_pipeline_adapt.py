"""A function of the user's between a record and the form that reads it."""

import json
import sys
from collections.abc import Iterator
from decimal import ROUND_UP, Context, Decimal, localcontext
from pathlib import Path
from typing import Any

import pytest
from support.decimals import STRICT
from support.ledgers import HOME
from support.pipelines import pipeline_settings

from ledger.core import amounts
from ledger.core.errors import InvalidInput, SettingsError
from ledger.pipeline.core.form_fingerprints import differences
from ledger.pipeline.core.record_adapter import form_of, import_adapter
from ledger.pipeline.core.records import Delivery, Lacking, Poison, Record, RecordForm
from ledger.settings import Settings

MODULE = '''
def signed(record):
    """Sales count below zero."""
    record["Value"] *= -1 if record.pop("Side") == "sell" else 1
    return record

def broken(record):
    return record["Side"] / 2

def none(record):
    return None

def fraction(record):
    return {**record, "Value": 0.5}

def third(record):
    return {**record, "Value": round(record["Value"] / 3, 4)}

CONSTANT = 1
'''
SOLD = {"TradeID": "T1", "Version": 1, "Value": Decimal("2.50"), "Side": "sell", "Desk": "A"}


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Put a module of functions into the current directory; returns its name."""
    name = f"adapts_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield name
    import_adapter.cache_clear()
    sys.modules.pop(name, None)


def settings(adapt: str | None, **changed: Any) -> Settings:
    """Return settings of a pipeline whose records go through a function."""
    return pipeline_settings(categories=["desk/{Desk}"], adapt=adapt, **changed)


def raw(**changed: Any) -> bytes:
    """Return the sale as bytes, some fields changed."""
    return json.dumps({**SOLD, **changed}, default=str).replace('"2.50"', "2.50").encode()


def test_a_record_is_read_as_the_function_returns_it(module: str) -> None:
    """It gets the record as JSON gave it, fractions exact, and what it returns is counted."""
    form = form_of(settings(f"{module}:signed"))
    assert form.read(raw()) == Record("T1", 1, Decimal("-2.50"), ("desk/A",), HOME)
    assert form.read(raw(Side="buy")) == Record("T1", 1, Decimal("2.50"), ("desk/A",), HOME)


@pytest.mark.parametrize(
    "context",
    [STRICT, Context(prec=3), Context(rounding=ROUND_UP, capitals=0, traps=[])],
    ids=["strict", "few digits", "no traps"],
)
def test_a_function_calculates_in_a_context_of_the_pipeline(module: str, context: Context) -> None:
    """The same in each process, whatever the program that runs it has set, which stays as it is."""
    form = form_of(settings(f"{module}:signed"))
    with localcontext(context) as own:
        record = form.read(raw().replace(b"2.50", b"1234567890.123456"))
        assert isinstance(record, Record)
        assert amounts.to_text(record.value) == "-1234567890.123456"
        assert own.prec == context.prec
    thirds = form_of(settings(f"{module}:third"))
    with localcontext(context):
        found = thirds.read(raw())
    assert isinstance(found, Record)
    assert found.value == Decimal("0.8333")


@pytest.mark.parametrize("keep", [(), ("Value",), "all"])
def test_a_state_keeps_what_was_returned(module: str, keep: Any) -> None:
    """A rebuild reads that, and does not call the function again, which has been at it already."""
    form = form_of(settings(f"{module}:signed", keep_fields=keep))
    record = form.read(raw())
    assert isinstance(record, Record)
    image = form.image_of(record.kept, None if keep else record.value)
    assert (image.value, image.categories) == (Decimal("-2.50"), ("desk/A",))  # type: ignore[union-attr]
    assert "Side" not in record.kept


@pytest.mark.parametrize("keep", [(), "all"])
def test_what_another_function_returned_lacks_what_a_rebuild_needs(module: str, keep: Any) -> None:
    """A state from before the function, after it, or of another version of it, is none of its."""
    names = (None, f"{module}:signed", f"{module}:signed@2")
    forms = [form_of(settings(name, keep_fields=keep)) for name in names]
    for form in forms:
        record = form.read(raw())
        assert isinstance(record, Record)
        for other in forms:
            image = other.image_of(record.kept, record.value)
            assert isinstance(image, Lacking) == (form is not other)
            if isinstance(image, Lacking):
                assert "it keeps" in image.reason


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("broken", "pipeline.adapt: TypeError: unsupported operand"),
        ("none", "pipeline.adapt returned None: a dict is needed"),
        ("fraction", "Value: amount must be an int or a Decimal, got 0.5"),
    ],
)
def test_what_a_function_cannot_take_is_a_dead_letter(
    module: str, function: str, reason: str
) -> None:
    """An error, no dict, or a float for a value: the record is refused with the reason."""
    found = form_of(settings(f"{module}:{function}")).take(Delivery("1", raw()))
    assert isinstance(found, Poison)
    assert reason in found.reason


def test_name_and_version_decide_the_result(module: str) -> None:
    """They are in the fingerprint; without a function that is as before."""
    plain, one, two = (
        form_of(settings(name)) for name in (None, f"{module}:signed", f"{module}:signed@2")
    )
    assert len({form.fingerprint for form in (plain, one, two)}) == 3
    assert "adapt" not in plain.parts
    assert f'adapt was "{module}:signed", is "{module}:signed@2"' in differences(
        one.parts, two.parts
    )


@pytest.mark.parametrize("name", ["signed", "a:b:c", "a b:c", "a:b@", "a:1b", "../a:b", "a:b@x y"])
def test_a_name_of_another_form_is_refused(name: str) -> None:
    """MODULE:FUNCTION or MODULE:FUNCTION@VERSION."""
    with pytest.raises((SettingsError, InvalidInput), match="MODULE:FUNCTION"):
        settings(name)


def test_what_cannot_be_imported_is_refused(module: str, tmp_path: Path) -> None:
    """No such module or function, something that is none, a module that fails."""
    (tmp_path / "fails.py").write_text("1 / 0")
    for name, reason in {
        "no_such_module:f": "no_such_module cannot be imported: ModuleNotFoundError",
        "fails:f": "fails cannot be imported: ZeroDivisionError",
        f"{module}:g": f"module {module} has no function g",
        f"{module}:CONSTANT": f"module {module} has no function CONSTANT",
    }.items():
        with pytest.raises(SettingsError, match=reason):
            form_of(settings(name))


def test_a_form_without_its_function_is_refused(module: str) -> None:
    """Records would be read as they are, against what the settings say."""
    with pytest.raises(SettingsError, match=r"pipeline\.adapt"):
        RecordForm(settings(f"{module}:signed"))
