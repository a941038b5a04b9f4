"""Whether spans are made, by the setting `tracing`: decided once, when something is opened."""

from typing import TYPE_CHECKING

from ledger.runtime.output import needing

if TYPE_CHECKING:
    from ledger.runtime.tracing.spans import Tracing


def tracing_of(setting: str) -> "Tracing | None":
    """Return the tracer; None if tracing is off.

    Raises:
        PackageMissing: it is on, and the required extra is not installed.
    """
    if setting == "off":
        return None
    with needing(f"tracing: {setting}"):
        from ledger.runtime.tracing.spans import Tracing  # noqa: PLC0415 (an extra)
    return Tracing(names_counters=setting == "counters")
