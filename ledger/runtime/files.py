"""Files that are read whole, within bounds."""

from pathlib import Path

from ledger.core.errors import LedgerError


def read_bounded(
    path: Path, bytes_max: int, *, what: str, too_large: type[LedgerError] = LedgerError
) -> bytes:
    """Return the content of a file of at most `bytes_max` bytes; `what` names it in errors.

    Raises:
        LedgerError: it cannot be read, or is larger; the latter of the type `too_large`.
    """
    try:
        with path.open("rb") as file:
            content = file.read(bytes_max + 1)
    except OSError as error:
        raise LedgerError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(content) > bytes_max:
        raise too_large(f"{path} is not a {what}: over {bytes_max:,} bytes")
    return content
