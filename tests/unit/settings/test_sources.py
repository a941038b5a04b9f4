"""Where settings come from: arguments, variables, files, and what is said of a wrong one."""

import re
from pathlib import Path

import pytest
from support.setting_files import SMALL, settings, written

from ledger.core.errors import SettingsError
from ledger.settings import Settings
from ledger.settings.groups import (
    CacheSettings,
)


def test_arguments_come_before_variables_before_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each source overrides the next, setting by setting, nested ones too."""
    written(
        SMALL + "table: from-file\ncache: {max_age: 3, counters_max: 7}\nobservation_delay: 30\n"
    )
    monkeypatch.setenv("LEDGER_TABLE", "from-environment")
    monkeypatch.setenv("LEDGER_CACHE__MAX_AGE", "250ms")
    monkeypatch.setenv("LEDGER_OBSERVATION_DELAY", "40")
    loaded = Settings.load(observation_delay="50s")
    assert loaded.table == "from-environment"
    assert loaded.cache == CacheSettings(max_age=0.25, counters_max=7)
    assert loaded.observation_delay == 50.0


def test_a_variable_gives_one_region_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """A region's own fields can be set one by one, and the other regions stay."""
    written(SMALL)
    monkeypatch.setenv("LEDGER_REGIONS__eu-west-1__ENDPOINT", "http://127.0.0.1:8002")
    loaded = Settings.load()
    assert loaded.region("eu-west-1").endpoint == "http://127.0.0.1:8002"
    assert loaded.region("us-east-1").endpoint is None


def test_the_file_is_the_path_then_the_variable_then_the_current_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The three ways to name the file are tried in this order."""
    written(SMALL + "table: here\n")
    written(SMALL + "table: by-variable\n", "other.yaml")
    written(SMALL + "table: by-path\n", "third.yaml")
    assert Settings.load().table == "here"
    monkeypatch.setenv("LEDGER_CONFIG", "other.yaml")
    assert Settings.load().table == "by-variable"
    assert Settings.load("third.yaml").table == "by-path"


def test_without_any_file_variables_may_be_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container can be configured by variables alone."""
    with pytest.raises(SettingsError, match=r"there is no regions\.yaml in the current directory"):
        Settings.load()
    monkeypatch.setenv("LEDGER_HOME", "us-east-1")
    monkeypatch.setenv("LEDGER_REGIONS", '{"us-east-1": {}}')
    assert Settings.load().home == "us-east-1"


@pytest.mark.parametrize(
    ("text", "line", "named"),
    [
        (SMALL + "retry_horizon: -5\n", 5, "retry_horizon is -5: a duration"),
        (SMALL + "\nsettle: 5m\n", 6, "settle"),
        (SMALL + "settle: 22m\nretry_horizon: 1h\n", 5, "settle"),
        (SMALL + "cache:\n  max_age: 1s\n  size: 5\n", 7, "cache.size is not a setting"),
        ("home: eu-west-2\nregions:\n  us-east-1:\n", 1, "home 'eu-west-2'"),
        (SMALL + "compactor:\n  lease: 5s\n  heartbeat: 4s\n", 6, "compactor.lease"),
        (SMALL + "shards:\n  a:\n    - count: 0\n", 7, "shards.a.0.count"),
        (SMALL + "shards:\n  a: 101\n", 6, "shards.a.0.count"),
        (SMALL + "observation_delay: [1\nsettle: 5\n", 6, "not YAML"),
        (
            SMALL + "observation_delay: 30\nobservation_delay: 40\n",
            6,
            "'observation_delay' appears twice, first in line 5",
        ),
        (SMALL + "regions:\n  us-east-1:\n", 5, "'regions' appears twice"),
        ("- a\n", 1, "`name: value` pairs"),
    ],
)
def test_a_wrong_file_names_file_line_and_rule(text: str, line: int, named: str) -> None:
    """Whatever is wrong, the message begins with the file and the line to go to."""
    written(text)
    with pytest.raises(SettingsError) as raised:
        Settings.load()
    assert str(raised.value).startswith(f"regions.yaml, line {line}: ")
    assert named in str(raised.value)
    assert "\n" not in str(raised.value)


BOMB = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (name + 1, name + 1, b",".join([b"*%c" % name] * 9))
    for name in range(ord("a"), ord("i"))
)
"""300 bytes that stand for 43 million values."""


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"home: \xff\n", "not YAML"),
        (b"home: 2026-13-45\n", "not YAML"),
        (
            b"home: us-east-1\nregions: &a {us-east-1: *a}\n",
            "line 2: an alias inside the value that it repeats",
        ),
        (BOMB, "line 6: over 100,000 values, counting those of aliases"),
        (
            b"regions: {us-east-1: {endpoint: 'http://u:secret@h:1'}}\n",
            r"endpoint is 'http://\*\*\*@h:1': an endpoint has no user and password",
        ),
        (b"home: us-east-1\n", "regions.yaml: regions is missing"),
        (b"", "regions.yaml: regions is missing"),
        (b"#" * 1_000_001, "too large for a settings file"),
    ],
)
def test_a_file_that_is_no_settings_file_is_refused(content: bytes, named: str) -> None:
    """Other bytes, rings of aliases, an empty and a huge file each give one line."""
    Path("regions.yaml").write_bytes(content)
    with pytest.raises(SettingsError, match=named) as raised:
        Settings.load()
    assert str(raised.value).startswith("regions.yaml")
    assert "\n" not in str(raised.value)


def test_a_missing_file_and_a_directory_are_named() -> None:
    """A path that cannot be read is told as such."""
    with pytest.raises(SettingsError, match=r"nowhere\.yaml: no such settings file"):
        Settings.load("nowhere.yaml")
    with pytest.raises(SettingsError, match="Is a directory"):
        Settings.load(".")


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("LEDGER_RETRY_HORIZON", "-5", "retry_horizon is '-5'"),
        ("LEDGER_SETTLE", "10s", "settle (10 s) must exceed"),
        ("LEDGER_COMPACTOR__FOLD_MAX", "many", "compactor.fold_max is 'many'"),
        ("LEDGER_CACHE__SIZE", "5", "cache.size is not a setting"),
        ("LEDGER_SETTEL", "5m", "no setting has this variable; did you mean LEDGER_SETTLE?"),
        ("LEDGER_CACHE_MAX_AGE", "5", "did you mean LEDGER_CACHE__MAX_AGE?"),
        ("LEDGER_SETTLE__S", "5", "did you mean LEDGER_SETTLE?"),
        ("LEDGER_CONFIGS", "x.yaml", "did you mean LEDGER_CONFIG?"),
        ("ledger_xyzzy", "5", "no setting has this variable; see the settings in regions.yaml"),
        ("LEDGER_CACHE__MAXAGE", "5", "cache.maxage is not a setting; did you mean max_age?"),
        ("LEDGER_SHARDS", "{", "must be JSON"),
        ("LEDGER_SHARDS", '{"a": 101}', "shards.a.0.count"),
        ("LEDGER_SHARDS", '{"a": [{"count": 1}, {"count": 0}]}', "shards.a.1.count"),
    ],
)
def test_a_wrong_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, named: str
) -> None:
    """The message begins with the variable, not with the file that it overrides."""
    written(SMALL + "settle: 22m\nretry_horizon: 5m\nshards: {a: 3}\n")
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as raised:
        Settings.load()
    assert str(raised.value).startswith(f"{name}: ")
    assert named in str(raised.value)


@pytest.mark.parametrize(
    "name",
    [
        "LEDGER_DYNOXIDE",
        "LEDGER_REQUIRE",
        "LEDGER_SIM_FIRST_SEED",
        "LEDGER_TRIAL_SECONDS",
        "LEDGER_SERVICE_HOST",
        "LEDGER_SERVICE_PORT_HTTP",
        "LEDGER_API_SERVICE_PORT",
        "LEDGER_PORT",
        "LEDGER_PORT_80_TCP_ADDR",
    ],
)
def test_variables_of_others_are_left_alone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The engine's, the tests', and those that Kubernetes makes of a Service called ledger."""
    written(SMALL)
    monkeypatch.setenv(name, "tcp://10.0.0.11:80")
    assert Settings.load().home == "us-east-1"


def test_all_unknown_variables_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with other problems, the message has the first and `problems` all."""
    written(SMALL)
    for name in ("LEDGER_TABEL", "LEDGER_HOOM"):
        monkeypatch.setenv(name, "x")
    with pytest.raises(SettingsError, match=r"^LEDGER_HOOM: .* \(and 1 more\)$") as raised:
        Settings.load()
    assert len(raised.value.problems) == 2


def test_an_argument_of_load_is_not_blamed_on_the_file() -> None:
    """A value handed in by the caller has no line, whatever the file says."""
    written(SMALL + "settle: 20m\n")
    with pytest.raises(SettingsError, match=r"^settle is -1"):
        Settings.load(settle=-1)


def test_several_problems_are_counted_and_all_kept() -> None:
    """The message is the first problem and the number of the others; `problems` has them all."""
    written(SMALL + "observation_delay: -1\nwrite_deadline: soon\ntable: a b\n")
    with pytest.raises(SettingsError, match=r"\(and 2 more\)$") as raised:
        Settings.load()
    lines = [problem.split(":")[0] for problem in raised.value.problems]
    assert sorted(lines) == [f"regions.yaml, line {line}" for line in (5, 6, 7)]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("compactor:\n  prune_min: 3\n", "line 6: compactor.prune_min is a constant (50)"),
        ("read_keys_max: 3\n", "line 5: read_keys_max is a constant (50000)"),
        ("pipeline: {cache_max: 3}\n", "line 5: pipeline.cache_max is a constant (50000)"),
    ],
)
def test_a_constant_in_a_file_is_refused(text: str, named: str) -> None:
    """What only code may set is not overlooked in a file: the message says where and what."""
    written(SMALL + text)
    with pytest.raises(SettingsError, match=re.escape(named)):
        Settings.load()
    assert settings(compactor={"prune_min": 3}).compactor.prune_min == 3


def test_a_constant_in_a_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is named."""
    written(SMALL)
    monkeypatch.setenv("LEDGER_WRITER__IN_FLIGHT", "9")
    with pytest.raises(SettingsError, match=r"LEDGER_WRITER__IN_FLIGHT: writer.in_flight is a"):
        Settings.load()
