"""A holding handed on to another program by environment variables, as `ledger lease run` does.

The program fences its own transactions with it::

    grant = grant_from(os.environ)
    await store.transact([grant.fence(), *actions])

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping

from ledger.core.errors import InvalidInput
from ledger.primitives.leases.lease_rules import LeaseGrant, own_key

NAME, OWNER, EPOCH = "LEDGER_LEASE_NAME", "LEDGER_LEASE_OWNER", "LEDGER_LEASE_EPOCH"


def environment_of(name: str, grant: LeaseGrant) -> dict[str, str]:
    """Return the variables for a holding of the lease of this name."""
    return {NAME: name, OWNER: grant.owner, EPOCH: str(grant.epoch)}


def grant_from(environment: Mapping[str, str]) -> LeaseGrant:
    """Return the holding that a program was handed; its `data` is not handed on.

    Raises:
        InvalidInput: a variable is missing, or the epoch is not a whole number.
    """
    missing = [name for name in (NAME, OWNER, EPOCH) if not environment.get(name)]
    if missing:
        raise InvalidInput(f"not under `ledger lease run`: {', '.join(missing)} is not set")
    epoch = environment[EPOCH]
    if not (epoch.isascii() and epoch.isdigit()):
        raise InvalidInput(f"{EPOCH} must be a whole number, got {epoch!r}")
    return LeaseGrant(own_key(environment[NAME]), environment[OWNER], int(epoch))
