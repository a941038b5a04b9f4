"""Several pipelines in one file of settings: each by its name."""

import re
from typing import Any

import pytest
from support.ledgers import HOME, make_settings
from support.setting_files import SMALL, written

from ledger.core.errors import SettingsError
from ledger.settings import Settings
from ledger.settings.live import PipelineSettingsView

ONE = {"fields": {"id": "Id", "version": "Version", "value": "Value"}, "categories": ["one/{K}"]}
TWO = {**ONE, "categories": ["two/{K}"]}


def chosen(name: str | None = None, **given: Any) -> tuple[str, tuple[str, ...]]:
    """Return name and categories of the pipeline that settings have under a name."""
    found = make_settings(**given).of_pipeline(name).pipeline
    return found.name, found.categories


def test_a_pipeline_is_chosen_by_its_name() -> None:
    """Without a name it is the one under `pipeline`, or the only one there is."""
    both: dict[str, Any] = {"pipeline": ONE, "pipelines": {"two": TWO}}
    assert chosen(pipeline=ONE) == ("", ("one/{K}",))
    assert chosen(**both) == ("", ("one/{K}",))
    assert chosen("two", **both) == ("two", ("two/{K}",))
    assert chosen(pipelines={"two": TWO}) == ("two", ("two/{K}",))
    assert chosen("one", pipeline={**ONE, "name": "one"}) == ("one", ("one/{K}",))
    several = {"one": ONE, "two": TWO}
    assert chosen(pipelines=several, pipeline={"name": "two"}) == ("two", ("two/{K}",))


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        (None, {"pipelines": {"one": ONE, "two": TWO}}, "several pipelines, and none named: "),
        ("tow", {"pipeline": ONE, "pipelines": {"two": TWO}}, "no pipeline 'tow': those of the"),
        ("two", {"pipeline": ONE}, "no pipeline 'two': those of the settings are ''"),
        ("two", {}, "no pipeline 'two': those of the settings are none"),
        (None, {"pipeline": {"name": "two"}}, "no pipeline 'two'"),
    ],
)
def test_a_pipeline_that_is_not_there_is_refused(
    name: str | None, given: dict[str, Any], message: str
) -> None:
    """The message names those that there are."""
    with pytest.raises(SettingsError, match=re.escape(message)):
        make_settings(**given).of_pipeline(name)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pipeline": {"name": "A~b"}}, "up to 32 of the characters a-z 0-9 -"),
        ({"pipeline": {"name": "-a"}}, "up to 32 of the characters a-z 0-9 -"),
        ({"pipeline": {"name": "a" * 33}}, "up to 32 of the characters a-z 0-9 -"),
        ({"pipelines": {"a.b": ONE}}, "up to 32 of the characters a-z 0-9 -"),
        ({"pipelines": {"": ONE}}, "up to 32 of the characters a-z 0-9 -"),
        ({"pipelines": {"a": {**ONE, "name": "b"}}}, "under 'a' has name 'b'"),
        ({"pipelines": {"a": 7}}, "pipelines.a is 7"),
        ({"pipelines": [ONE]}, "pipelines is"),
        ({"pipeline": {**ONE, "name": "a"}, "pipelines": {"a": TWO}}, "two pipelines are called"),
        (
            {"pipelines": {"a": {**ONE, "home": {"regions": {"*": "mars-1"}}}}},
            "pipelines.a.home.regions sends '*' to 'mars-1'",
        ),
    ],
)
def test_a_wrong_name_is_refused(given: dict[str, Any], message: str) -> None:
    """A name is part of keys, and belongs to one pipeline."""
    with pytest.raises(SettingsError, match=re.escape(message)):
        make_settings(**given)


def test_a_chosen_pipeline_stays_chosen_under_a_contract() -> None:
    """What a contract replaces leaves the pipeline as it is; the one chosen is not there twice."""
    made = make_settings(pipelines={"one": ONE, "two": TWO}).of_pipeline("two")
    under = made.under(made.terms, home=HOME)
    assert (under.pipeline.name, list(under.pipelines)) == ("two", ["one"])
    assert PipelineSettingsView(under, "one").current.pipeline.categories == ("one/{K}",)


def test_a_constant_of_a_named_pipeline_is_refused_in_a_file() -> None:
    """As of the one under `pipeline`."""
    written(SMALL + "pipelines:\n  one: {cache_max: 3}\n")
    with pytest.raises(SettingsError, match=r"line 6: pipelines\.one\.cache_max is a constant"):
        Settings.load()
