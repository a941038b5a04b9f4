"""Callers whom a proxy names: by a header, from addresses that are the proxy's alone.

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from ledger.core.errors import InvalidInput

ADDRESSES_MAX = 100
_HEADER = re.compile(r"[a-z][a-z0-9-]{0,63}", re.ASCII)
_TAKEN = re.compile(
    r"authorization|host|cookie|origin|prefer|connection|x-request-id|content-.*|transfer-.*"
    r"|idempotency-.*|x-forwarded-(for|host|proto|port)|forwarded"
)
"""Headers that say something else, which any caller may choose."""


@dataclass(frozen=True, slots=True)
class ProxyHeader:
    """The header in which a proxy names who asks, and from which networks it comes."""

    name: str
    networks: tuple[IPv4Network | IPv6Network, ...]

    @classmethod
    def of(cls, name: str, addresses: Iterable[str]) -> "ProxyHeader":
        """Return a header and networks that keep the rules; an address is a network of one.

        Raises:
            InvalidInput: the message names the value and the rule.
        """
        header = name.lower()
        if not _HEADER.fullmatch(header) or _TAKEN.fullmatch(header):
            raise InvalidInput(
                "the proxy's header must be letters, digits and '-', at most 64, and no header that"
                f" says something else, as X-Caller, got {name!r:.100}"
            )
        networks = tuple(_network_of(address) for address in addresses)
        if not 1 <= len(networks) <= ADDRESSES_MAX:
            raise InvalidInput(
                f"a proxy's header needs 1 to {ADDRESSES_MAX} addresses that it comes from, got"
                f" {len(networks)}"
            )
        return cls(header, networks)

    def caller(self, values: Sequence[str], peer: str | None) -> str | None:
        """Return whom the header of a request names; None if it has none.

        `peer` is the address that the connection comes from.

        Raises:
            ValueError: the header comes from elsewhere, or is there twice.
        """
        if not values:
            return None
        if not self._is_proxy(peer):
            raise ValueError(f"header {self.name} is taken from the proxy alone")
        if len(values) > 1:
            raise ValueError(f"header {self.name} is there {len(values)} times")
        return values[0]

    def _is_proxy(self, peer: str | None) -> bool:
        try:
            address = ip_address(peer or "")
        except ValueError:  # a socket of this machine has no address
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self.networks)


def _network_of(text: str) -> IPv4Network | IPv6Network:
    try:
        network = ip_network(text)
    except ValueError:
        raise InvalidInput(
            "a proxy's address must be an IP address or a network, as 10.0.7.0/24, got"
            f" {text!r:.100}"
        ) from None
    if network.prefixlen == 0:
        raise InvalidInput(f"a proxy's address must not be every address, got {text}")
    return network
