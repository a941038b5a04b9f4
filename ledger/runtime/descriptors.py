"""How many files and connections this process may have open."""

import logging

from ledger.runtime.connections import PLACES_KEPT

DESCRIPTORS_KEPT = 512
"""Descriptors that are not for callers: connections to AWS, files, listeners."""

log = logging.getLogger(__name__)


def connections_allowed(wanted: int, *, listeners: int = 1) -> int:
    """Return how many connections each listener may have: fewer than wanted if the limit is low.

    The process's own limit is raised as far as it may raise it itself.
    """
    descriptors = _descriptors((wanted + PLACES_KEPT) * listeners + DESCRIPTORS_KEPT)
    allowed = (descriptors - DESCRIPTORS_KEPT) // listeners - PLACES_KEPT
    if allowed >= wanted:
        return wanted
    allowed = max(PLACES_KEPT, allowed)
    log.warning(
        "up to %d connections in place of %d: this process may open %d files (LimitNOFILE of"
        " systemd, `--ulimit nofile` of a container)",
        allowed,
        wanted,
        descriptors,
    )
    return allowed


def _descriptors(wanted: int) -> int:
    """Return the limit of open files, raised to what is wanted if that is allowed."""
    try:
        import resource  # noqa: PLC0415 (not on Windows)
    except ModuleNotFoundError:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    except (OSError, ValueError):  # macOS has a bound that it does not name
        return soft
    return raised
