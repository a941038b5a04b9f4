import re
import subprocess
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest
import yaml
from support.dashboards import (
    ALERTS,
    ALERTS_TEST,
    DEPLOY,
    dashboard,
    questions_of_panels,
    rules,
)
from support.exported import exported_names, names_in

from compactor.metrics import WAIT_REASONS
from ledger.core import errors
from ledger.http.wire.problems import TOO_MANY_REQUESTS, UNAUTHORIZED
from ledger.pipeline.aws.invocations import SHOWN
from ledger.reads.archive.metrics import DAMAGED, DONE
from ledger.store.dynamodb.failures import Failure
from ledger.store.dynamodb.throttling import HOT_KEY
from ledger.store.wrappers.meter import outcome_name
from ledger.store.writes import Unknown


def shown_expressions() -> list[str]:
    """Give each expression of the dashboard as Prometheus gets it."""
    asked = questions_of_panels(dashboard(), region="eu-west-1")
    return [question.expression for question in asked]


def promtool(*arguments: str, folder: Path) -> None:
    """Run promtool in a folder and fail with what it says."""
    result = subprocess.run(
        ["promtool", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.tools("promtool")
def test_prometheus_accepts_the_rules() -> None:
    """Every alert rule is one that Prometheus loads."""
    promtool("check", "rules", ALERTS.name, folder=ALERTS.parent)


@pytest.mark.tools("promtool")
def test_alerts_fire_when_they_should_and_only_then() -> None:
    """On made-up series each alert fires in its case, and none while the ledger is well."""
    promtool("test", "rules", ALERTS_TEST.name, folder=ALERTS.parent)


def test_every_alert_is_shown_to_fire_and_to_stay_silent() -> None:
    """Each alert has a case that expects it and a case that expects nothing of it."""
    cases = [
        case
        for test in yaml.safe_load(ALERTS_TEST.read_text(encoding="utf-8"))["tests"]
        for case in test.get("alert_rule_test", [])
    ]
    fires = {case["alertname"] for case in cases if case.get("exp_alerts")}
    silent = {case["alertname"] for case in cases if not case.get("exp_alerts")}
    assert fires == silent == {rule["alert"] for rule in rules()}


def test_alerts_watch_metrics_that_exist() -> None:
    """Every metric in an alert rule is one that the ledger or the compactor exports."""
    watched = names_in([rule["expr"] for rule in rules()])
    assert len(watched) >= 10
    assert watched <= exported_names()


def test_pages_name_metrics_that_exist() -> None:
    """Every metric that a page of the repository names is one that is exported."""
    root = DEPLOY.parent
    pages = [
        path for part in ("ledger", "compactor", "deploy") for path in (root / part).rglob("*.md")
    ]
    texts = [path.read_text(encoding="utf-8") for path in [*root.glob("*.md"), *pages]]
    named = {name for name in names_in(texts) if name.endswith(("_total", "_seconds", "_bytes"))}
    assert len(named) >= 15
    assert named <= {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported_names()}


def test_the_dashboard_shows_metrics_that_exist() -> None:
    """Every metric on the dashboard is one that the ledger or the compactor exports."""
    shown = names_in(shown_expressions())
    assert len(shown) >= 20
    assert shown <= exported_names()


def test_every_exported_metric_can_be_seen() -> None:
    """No metric is exported that neither the dashboard nor an alert uses."""
    used = names_in(shown_expressions() + [rule["expr"] for rule in rules()])
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported_names()}
    assert families == {re.sub(r"_(bucket|sum|count)$", "", name) for name in used}


def test_alerts_match_labels_as_the_code_writes_them() -> None:
    """The kinds, causes and outcomes that alerts look for are those that the code gives."""
    text = " ".join(rule["expr"] for rule in rules())
    kinds = set(re.findall(r'kind="(\w+)"', text))
    causes = {
        name for names in re.findall(r'cause=~?"([\w|]+)"', text) for name in names.split("|")
    }
    assert kinds == {errors.OutcomeUnknown.__name__}
    plain, hot = errors.Throttled("slow down"), errors.Throttled("slow down")
    hot.limits = (HOT_KEY,)
    assert causes == {Failure(error).cause for error in (plain, hot)}
    assert set(re.findall(r'outcome="(\w+)"', text)) == {outcome_name(Unknown("no answer"))}
    assert set(re.findall(r'outcome!="(\w+)"', text)) == {DONE}
    assert set(re.findall(r'source="(\w+)"', text)) == {DAMAGED}
    problems = re.findall(r'problem=~"([\w|-]+)"', text)
    assert problems == [f"{UNAUTHORIZED.name}|{TOO_MANY_REQUESTS.name}"]
    assert set(re.findall(r'reason!?="(\w+)"', text)) < {*SHOWN, *WAIT_REASONS}


@pytest.mark.tools("promtool")
def test_prometheus_understands_the_dashboard(tmp_path: Path) -> None:
    """Every expression on the dashboard parses, tried as a recording rule."""
    recorded = [
        {"record": f"shown:expression:{number}", "expr": expression}
        for number, expression in enumerate(shown_expressions())
    ]
    text = yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]})
    (tmp_path / "dashboard.yaml").write_text(text, encoding="utf-8")
    promtool("check", "rules", "dashboard.yaml", folder=tmp_path)


def test_panels_have_their_own_ids_and_places() -> None:
    """No two panels share an id, and none covers another."""
    panels = dashboard()["panels"]
    assert max(Counter(panel["id"] for panel in panels).values()) == 1
    places = [panel["gridPos"] for panel in panels]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        apart_across = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart_down = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart_across or apart_down


def test_panels_ask_the_chosen_data_source() -> None:
    """Every panel with data asks the data source of the dashboard's variable."""
    panels = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]
    assert {panel["datasource"]["uid"] for panel in panels} == {"${datasource}"}
    names = {variable["name"] for variable in dashboard()["templating"]["list"]}
    assert {"datasource", "region"} <= names
