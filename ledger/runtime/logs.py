"""The log of a long-running command: lines for people, or one JSON object a line."""

import json
import logging
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any

import typer

from ledger.runtime.output import json_line, plain, printable

TEXT_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""Attributes of every record; all others were given as `extra`."""


class LogFormat(Enum):
    """How a log is written."""

    TEXT = "text"
    JSON = "json"


LogFormatOption = Annotated[
    LogFormat,
    typer.Option(
        "--log-format", envvar="LEDGER_LOG_FORMAT", help="Log lines for people, or JSON objects."
    ),
]


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `at` (ISO 8601, UTC), `level`, `logger`, `message`, and extras."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without a line end."""
        made: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        made |= _extras_of(record)
        if record.exc_info:
            made["exception"] = self.formatException(record.exc_info)
        return json_line(json.dumps(made, default=plain)).rstrip("\n")


class TextFormatter(logging.Formatter):
    """A line for people, its extras last; text from users cannot control the terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's own name)
        """Return the line without a traceback."""
        extras = [f" {name}={_in_text(value)}" for name, value in _extras_of(record).items()]
        return super().formatMessage(record) + "".join(extras)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback keeps its lines."""
        return "\n".join(map(printable, super().format(record).split("\n")))


def _extras_of(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _in_text(value: object) -> object:
    """Return a report as JSON, of what is not as it is by default; any other value as it is."""
    if not is_dataclass(value):
        return value
    told = {
        field.name: found
        for field in fields(value)
        if (found := getattr(value, field.name)) != _default_of(field)
    }
    return json.dumps(told, default=plain, separators=(",", ":"))


def _default_of(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def begin_logging(log_format: LogFormat) -> None:
    """Log from level INFO on to standard error."""
    handler = logging.StreamHandler()
    is_json = log_format is LogFormat.JSON
    handler.setFormatter(JsonFormatter() if is_json else TextFormatter(TEXT_FORMAT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # It logs each URL at INFO, including everything in it.
    logging.getLogger("httpx").setLevel(logging.WARNING)
