"""What Prometheus is asked for panels and alerts, and that a name nobody exports is found."""

import copy
import math
from collections.abc import Sequence

import pytest
from support.dashboards import (
    Question,
    Unanswered,
    dashboard,
    questions_of_alerts,
    questions_of_panels,
    rules,
    sides,
)
from support.exported import exported_names, names_in


def ask(expression: str) -> Sequence[float]:
    """Answer as a Prometheus that has a sample of each exported metric, and no other."""
    return [1.0] if names_in([expression]) <= exported_names() else []


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("up == 0", ["up"]),
        ('absent(up{a=~"b|c"})', ['up{a=~"b|c"}']),
        ("max by (job) (a > 0) > 1e-2", ["max by (job) (a > 0)"]),
        ("a > 10\nand max by (job) (deriv(b[1h])) > 0", ["a", "max by (job) (deriv(b[1h]))"]),
        ('a{b="x or y"} == 0 unless on (job) c > 0', ['a{b="x or y"}', "c"]),
        ("sum(a unless a offset 15m) > 0 or b", ["sum(a unless a offset 15m)", "b"]),
        ("rate(a[5m]) / on (job) group_left b > 0.5", ["rate(a[5m]) / on (job) group_left b"]),
    ],
)
def test_sides_of_an_alert_have_no_bounds(expression: str, expected: Sequence[str]) -> None:
    """What stands in brackets is left as it is."""
    assert sides(expression) == expected


def test_every_panel_and_alert_is_asked() -> None:
    """With all variables filled in."""
    panels, alerts = list(questions_of_panels(dashboard())), list(questions_of_alerts(rules()))
    titles = {one["title"] for one in dashboard()["panels"] if one["type"] != "row"}
    assert {panel.shown_by.removeprefix("panel ") for panel in panels} == titles
    assert {alert.shown_by for alert in alerts} == {f"alert {rule['alert']}" for rule in rules()}
    assert not any("$" in panel.expression for panel in panels)
    unanswered = Unanswered([*panels, *alerts])
    unanswered.ask(ask)
    assert unanswered.left == []


def test_a_metric_that_nobody_exports_is_found() -> None:
    """In a copy of the dashboard one is renamed, and in one of the rules."""
    board, changed = dashboard(), copy.deepcopy(rules())
    (panel,) = (one for one in board["panels"] if one["title"] == "Backlog")
    panel["targets"][0]["expr"] = "max(compactor_backlog_items)"
    (rule,) = (one for one in changed if one["alert"] == "ServiceFails")
    rule["expr"] = rule["expr"].replace("ledger_service_requests", "ledger_service_answers")
    unanswered = Unanswered([*questions_of_panels(board), *questions_of_alerts(changed)])
    unanswered.ask(ask)
    assert unanswered.shown_by == {"panel Backlog", "alert ServiceFails"}


def test_no_number_is_no_data() -> None:
    """A ratio of nothing to nothing draws nothing; 0 does, and one number of several is enough."""
    unanswered = Unanswered([Question("panel", text) for text in ("a", "b", "c", "d")])
    answers = {"a": [], "b": [math.nan], "c": [0.0], "d": [math.nan, math.inf]}
    unanswered.ask(answers.__getitem__)
    assert [question.expression for question in unanswered.left] == ["a", "b"]
