"""Whether spans are made, by the setting `tracing`: decided once, when something is opened."""

from typing import TYPE_CHECKING

from ledger.core.errors import SettingsError
from ledger.runtime.extras import install

if TYPE_CHECKING:
    from ledger.runtime.tracing.spans import Tracing


def tracing_of(setting: str) -> "Tracing | None":
    """Return the tracer; None if tracing is off.

    Raises:
        SettingsError: it is on, and the required extra is not installed.
    """
    if setting == "off":
        return None
    try:
        from ledger.runtime.tracing.spans import Tracing  # noqa: PLC0415 (an extra)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise SettingsError(
            f"tracing: {setting} needs opentelemetry-api:"
            f" {install('opentelemetry-api', extra='otel')}"
        ) from None
    return Tracing(names_counters=setting == "counters")
