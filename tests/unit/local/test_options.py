from typing import Any

import pytest

from ledger.core.errors import LocalTableError, SettingsError
from ledger.local import Fault, LocalGlobalTable
from ledger.local.options import LocalOptions

STATUS = {
    "regions": ["us-east-1", "eu-west-1"],
    "endpoints": {"us-east-1": "http://127.0.0.1:1", "eu-west-1": "http://127.0.0.1:2"},
    "control_url": "http://127.0.0.1:3",
    "table": "ledger",
}


def world() -> LocalGlobalTable:
    """Return a local global table that keeps the contract that it is given, and nothing else."""

    def control(name: str, body: object) -> dict[str, Any]:
        assert name == "contract", f"settings write the contract, but {name} {body} was asked for"
        return {}

    return LocalGlobalTable(control, STATUS)


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"settle": 1.0, "observation_delay": 0.2, "retry_horizon": 0.5},
        {"settle": 0.05},
        {"settle": "2s", "observation_delay": "100ms"},
        {"retry_horizon": 0.5},
        {"observation_delay": 0.001},
        {"write_deadline": 0.1, "settle": 3},
    ],
)
def test_short_durations_bring_the_others_down_with_them(overrides: dict[str, Any]) -> None:
    """Whatever durations are given, the rest follows so that every relation holds."""
    settings = world().settings(**overrides)
    assert (
        settings.settle > settings.retry_horizon + settings.signature_lifetime + settings.clock_skew
    )
    assert settings.observation_delay > settings.read_deadline
    assert settings.home == "us-east-1"
    assert settings.regions["eu-west-1"].endpoint == "http://127.0.0.1:2"


def test_given_values_are_taken_as_they_are() -> None:
    """Overrides, nested ones too, reach the settings unchanged."""
    settings = world().settings(settle=1.0, retry_horizon=0.25, compactor={"fold_min": 1})
    assert (settings.settle, settings.retry_horizon, settings.compactor.fold_min) == (1.0, 0.25, 1)


def test_given_values_that_contradict_each_other_are_refused() -> None:
    """Nothing that was asked for is changed to make a contradiction fit."""
    with pytest.raises(SettingsError, match="settle"):
        world().settings(settle=1.0, retry_horizon=2.0)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"regions": ()}, "regions must name at least one region, each once"),
        ({"regions": ("a", "a")}, "each once, got"),
        (
            {"regions": ("a",), "engine": "oracle"},
            "engine must be one of memory, dynoxide, got 'oracle'",
        ),
        (
            {"regions": ("a", "b"), "ports": (1,)},
            r"must be 2, one for each region \(a, b\), got 1; the",
        ),
        ({"regions": ("a",), "ports": (70_000,)}, "port must be between 0 and 65535, got 70000"),
        ({"regions": ("a",), "lag": -1.0}, "lag must be between 0 and 600 seconds, got -1.0"),
        ({"regions": ("a",), "jitter": float("nan")}, "jitter must be .*, got nan"),
    ],
)
def test_wrong_options_name_value_and_rule(options: dict[str, Any], rule: str) -> None:
    """Each wrong option is one clear error."""
    with pytest.raises(LocalTableError, match=rule):
        LocalOptions(**options).check()


@pytest.mark.parametrize("name", ["operations", "regions"])
def test_one_text_is_no_list_of_names(name: str) -> None:
    """One operation or region is given in a list: a str is not taken letter by letter."""
    covered: dict[str, Any] = {name: "PutItem"}
    with pytest.raises(LocalTableError, match=f"{name} must be a list of names, got 'PutItem'"):
        world().faults(Fault.THROTTLE, **covered)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"settle": 1, "retry_horizon": 1}, r"settle \(1 s\) must exceed retry_horizon \(1 s\): "),
        ({"settle": 0}, r"settle \(0 s\) must exceed 0 s: "),
        ({"settle": 1, "retry_horizon": 2, "clock_skew": 0}, r"must exceed retry_horizon \(2 s\)"),
    ],
)
def test_a_settle_without_room_is_refused(given: dict[str, float], message: str) -> None:
    """The durations that would follow are not shown: they cannot be."""
    with pytest.raises(SettingsError, match=message):
        world().settings(**given)
