"""Log lines for people and for collectors."""

import json
import logging
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ledger.runtime.logs import TEXT_FORMAT, JsonFormatter, TextFormatter


def record(message: str, *arguments: object, **extra: Any) -> logging.LogRecord:
    """Return a record as a logger makes it."""
    logger = logging.getLogger("ledger.x")
    return logger.makeRecord(
        "ledger.x", logging.WARNING, "f", 1, message, arguments, None, extra=extra
    )


def test_json_has_time_level_logger_message_and_extras() -> None:
    """One object a line, amounts as text."""
    line = JsonFormatter().format(record("read %d", 3, counter="a", sum=Decimal("1.50")))
    shown = json.loads(line)
    assert shown.pop("at").endswith("+00:00")
    assert shown == {
        "level": "warning",
        "logger": "ledger.x",
        "message": "read 3",
        "counter": "a",
        "sum": "1.5",
    }


def test_text_has_level_logger_message_and_extras() -> None:
    """On the first line, before a traceback."""
    made = record("read %d", 3, counter="a", status=201)
    made.exc_text = "ValueError: no"
    first, second = TextFormatter(TEXT_FORMAT).format(made).split("\n")
    assert first.endswith("WARNING ledger.x read 3 counter=a status=201")
    assert second == "ValueError: no"


@dataclass(frozen=True)
class Report:
    """A report with more that is usual than not."""

    folds: int = 0
    merged: Decimal = Decimal(0)
    waits: str = ""
    problems: list[str] = field(default_factory=list)


def test_a_report_in_text_is_short_json() -> None:
    """With what is not as usual."""
    made = record("a pass", report=Report(folds=2, merged=Decimal("1.50")))
    assert (
        TextFormatter(TEXT_FORMAT).format(made).endswith('a pass report={"folds":2,"merged":"1.5"}')
    )


def test_a_traceback_stays_in_its_object() -> None:
    """As text, with its lines."""
    try:
        int("no")
    except ValueError as error:
        made = record("failed")
        made.exc_info = (ValueError, error, error.__traceback__)
    shown = json.loads(JsonFormatter().format(made))
    assert shown["exception"].splitlines()[-1].startswith("ValueError: invalid literal")


def test_no_line_acts_on_a_terminal() -> None:
    r"""A counter of another tool with an escape or a line end in its name is shown as \x1b."""
    made = record("%s", "a\x1b[2Kb\u202ec")
    assert json.loads(JsonFormatter().format(made))["message"] == "a\x1b[2Kb\u202ec"
    assert JsonFormatter().format(made).isprintable()
    text = TextFormatter(TEXT_FORMAT).format(made)
    assert text.endswith(r"a\x1b[2Kb\u202ec")
    assert text.isprintable()
