"""How a process of the service listens, shuts down, and bounds what it takes."""

from dataclasses import dataclass
from pathlib import Path

BODY_BYTES_MAX = 1024 * 1024
BODY_OF_ONE_MAX = 64 * 1024
"""How long a body of many entries may be, and any other."""
CONNECTIONS_MAX = 4_096
CONNECTIONS_OF_ADDRESS_MAX = 256
"""Connections of one process, and of one address, which a proxy's callers share."""


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate with its key, and which authority's certificates clients must show, if any."""

    certificate: Path
    key: Path
    client_authority: Path | None = None


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """How one process listens and shuts down; `loopback_only` where callers need no token."""

    host: str = "127.0.0.1"
    port: int = 8080
    drain_seconds: float = 5.0
    body_max: int = BODY_BYTES_MAX
    connections: int = CONNECTIONS_MAX
    of_address: int = CONNECTIONS_OF_ADDRESS_MAX
    tls: Tls | None = None
    loopback_only: bool = False
