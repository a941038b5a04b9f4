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
IPV6 = 6
_UNICAST = ipaddress.ip_network("2000::/3")
"""All that IANA has given out of IPv6: what embeds an IPv4 address, and routers' segments, is not.

Source: https://www.iana.org/assignments/ipv6-unicast-address-assignments
"""
_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        (
            # Of the registries of special purposes, what Python 3.11 calls global.
            # https://www.iana.org/assignments/iana-ipv4-special-registry
            *("192.0.0.0/24", "192.88.99.0/24"),
            # https://www.iana.org/assignments/iana-ipv6-special-registry
            *("2001::/23", "2002::/16", "3fff::/20"),  # 2001::/32: Teredo, 2002::/16: 6to4
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
    is_special = any(found in network for network in _NOT_PUBLIC)
    is_unicast = found in _UNICAST if found.version == IPV6 else not found.is_multicast
    return found.is_global and is_unicast and not is_special


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
