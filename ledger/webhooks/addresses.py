"""Which addresses a webhook may reach: none of this machine, its networks or its cloud.

A name is looked up once for a request, and the request goes to the address that was checked: one
that answers differently the next time (DNS rebinding) gains nothing.
"""

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence

import anyio

from ledger.core.errors import InvalidInput

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
_V4_IN_V6 = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "2002::/16")))


async def resolved(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a name.

    Raises:
        OSError: it has none.
    """
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[4][0]) for address in found]


def is_public(address: str) -> bool:
    """Return whether an address is anybody's: not private, of this machine, shared or reserved."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return is_public(str(found.ipv4_mapped))
        if any(found in network for network in _V4_IN_V6):
            return False
    return found.is_global and not found.is_multicast


async def checked_address(host: str, port: int, *, private: bool, resolve: Resolve) -> str:
    """Return the address to send to.

    Raises:
        InvalidInput: one of the name's addresses is not public, and the webhook is not `private`.
        OSError: it has none.
    """
    addresses = await resolve(host, port)
    if not addresses:
        raise OSError(f"{host} has no address")
    if not private and (inner := [one for one in addresses if not is_public(one)]):
        raise InvalidInput(
            f"{host} is at {inner[0]}, which is not public: `private: true` allows it, if it is a"
            " receiver of yours"
        )
    return addresses[0]
