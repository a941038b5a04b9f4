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
_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        (
            # Those with an IPv4 address in them: mapped, compatible, translated, 6to4, Teredo.
            *("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48"),
            *("2002::/16", "2001::/32"),
            "fec0::/10",  # site-local, before fc00::/7
            "168.63.129.16/32",  # of Azure's machines, answered by their host
        ),
    )
)


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
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return is_public(str(found.ipv4_mapped))
    is_inner = any(found in network for network in _NOT_PUBLIC)
    return found.is_global and not found.is_multicast and not is_inner


async def checked_address(host: str, port: int, *, private: bool, resolve: Resolve) -> str:
    """Return the address to send to.

    Raises:
        InvalidInput: one of the name's addresses is not public, and the webhook is not `private`.
        OSError: it has none.
    """
    addresses = await resolve(host, port)
    if not addresses:
        raise OSError(f"{host} has no address")
    if not private and (inner := [address for address in addresses if not is_public(address)]):
        raise InvalidInput(
            f"{host} is at {inner[0]}, which is not public: `private: true` allows it, if it is a"
            " receiver of yours"
        )
    return addresses[0]
