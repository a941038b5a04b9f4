"""The dashboard and the alert rules as questions to Prometheus, and which of them had data.

An alert's expression gives nothing while all is well, so its sides are asked: what stands between
`and`, `or` and `unless`, without the bound that it is compared with. A rule whose sides all give
data would fire if they were beyond their bounds; a side that never gives any watches nothing.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
ALERTS_TEST = DEPLOY / "prometheus" / "alerts_test.yaml"
DASHBOARD = DEPLOY / "grafana" / "ledger.json"

_JOINED = re.compile(r"\s+(?:and|or|unless)\s+(?:(?:on|ignoring)\s*\([^)]*\)\s*)?")
_BOUND = re.compile(r"\s*(?:[<>]=?|[!=]=)\s*[\d.e+-]+$")
_ABSENT = re.compile(r"absent\((.+)\)$", re.DOTALL)
_HIDDEN = "\0"

Ask = Callable[[str], Sequence[float]]
"""Returns the values that an expression has now."""


@dataclass(frozen=True, slots=True)
class Question:
    """An expression as Prometheus gets it, and what shows it."""

    shown_by: str
    expression: str

    def __str__(self) -> str:
        return f"{self.shown_by}: {self.expression}"


def rules() -> list[dict[str, Any]]:
    """Give every alert rule."""
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    """Give the dashboard as Grafana imports it."""
    shown: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return shown


def filled(board: Mapping[str, Any], text: str, *, region: str, interval: str) -> str:
    """Return an expression of the dashboard with its variables filled in."""
    values = {"$__rate_interval": interval, "$region": region}
    for variable in board["templating"]["list"]:
        if variable["type"] == "textbox":
            values[f"${variable['name']}"] = variable["query"]
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def questions_of_panels(
    board: Mapping[str, Any], *, region: str = ".*", interval: str = "5m"
) -> Iterator[Question]:
    """Yield what the panels ask."""
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            expression = filled(board, target["expr"], region=region, interval=interval)
            yield Question(f"panel {panel['title']}", expression)


def questions_of_alerts(wanted: Iterable[Mapping[str, Any]]) -> Iterator[Question]:
    """Yield the sides of alert rules."""
    for rule in wanted:
        for side in sides(rule["expr"]):
            yield Question(f"alert {rule['alert']}", side)


def sides(expression: str) -> list[str]:
    """Return the sides of an alert's expression, without their bounds."""
    outer, found, begin = _outer(expression), [], 0
    for joint in [*_JOINED.finditer(outer), None]:
        end = joint.start() if joint else len(expression)
        side = expression[begin:end].strip()
        if bound := _BOUND.search(_outer(side)):
            side = side[: bound.start()]
        found.append(absent[1] if (absent := _ABSENT.match(side)) else side)
        begin = joint.end() if joint else end
    return found


def _outer(expression: str) -> str:
    """Return an expression as long as it is, with what stands in brackets hidden."""
    depth, outer = 0, []
    for character in expression:
        depth -= character in ")]}"
        outer.append(_HIDDEN if depth else character)
        depth += character in "([{"
    return "".join(outer)


class Unanswered:
    """The questions that have had no data yet, in order."""

    def __init__(self, questions: Iterable[Question]) -> None:
        self.left = list(dict.fromkeys(questions))

    def ask(self, ask: Ask) -> None:
        """Ask each once; a number is data, NaN is none: a panel draws nothing of it."""
        self.left = [
            question
            for question in self.left
            if all(math.isnan(value) for value in ask(question.expression))
        ]

    @property
    def shown_by(self) -> set[str]:
        """What has shown nothing, or not all of what it asks for."""
        return {question.shown_by for question in self.left}
