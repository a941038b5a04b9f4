"""Connections of a listener: how many there may be, of one address and in all, and which gives way.

A connection is *busy* while a request of it is under way, and *waiting* else: nothing was asked
yet, or again, or the head of a request is not complete. Whoever opens connections and asks nothing
must not lock others out. So once there are as many as there may be, a new one takes the place of
the one that has waited longest. Where none waits, a few places are kept for requests that are
answered at once: probes, and all others with the refusal that the listener is full.

Long answers that wait to be taken are bounded in bytes. Beyond it the connection gives way whose
answer has waited longest, among those of the address that has most.

Pure: no clock, no randomness, no I/O.
"""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import Generic, TypeVar

HEAD_BYTES_MAX = 32 * 1024
HEADERS_MAX = 100
"""How long the head of a request may be, and how many headers it may have."""
HEAD_SECONDS_MAX = 10.0
"""How long a head may take, from the start of its connection or from its first byte on."""
STALL_SECONDS_MAX = 30.0
"""How long a caller may take for a portion of an answer."""
UNTAKEN_BYTES_MAX = 64 * 1024 * 1024
"""How much of long answers may wait in all for callers to take them."""
PLACES_KEPT = 16
"""Places in all, and for each address, for requests that are answered at once."""
SUBNET_BITS = 64
"""Addresses of IPv6 count by their subnet: whoever has one address usually has all of it."""

Guest = TypeVar("Guest", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many connections there may be in all, and from one address."""

    in_all: int
    of_address: int


@dataclass(slots=True)
class _Group(Generic[Guest]):
    """Connections that share a bound; of those that wait the first has waited longest."""

    bound: int
    waiting: dict[Guest, None] = field(default_factory=dict)
    busy: set[Guest] = field(default_factory=set)

    @property
    def is_full(self) -> bool:
        return len(self.waiting) + len(self.busy) >= self.bound + PLACES_KEPT


class Connections(Generic[Guest]):
    """The open connections of one listener."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._all = _Group[Guest](bounds.in_all)
        self._of_address: dict[str, _Group[Guest]] = {}
        self._address_of: dict[Guest, str] = {}
        self._untaken: dict[Guest, int] = {}
        self._untaken_bytes = 0

    def all(self) -> list[Guest]:
        """Return all that are open."""
        return [*self._address_of]

    def address_of(self, guest: Guest) -> str | None:
        """Return that by which an open connection is counted."""
        return self._address_of.get(guest)

    def enter(self, guest: Guest, peer: str | None) -> list[Guest]:
        """Add a new connection from an address; return those that must be closed for it.

        It is itself among them, and not added, where all others are busy.
        """
        address = _counted_as(peer)
        group = self._of_address.get(address) or _Group[Guest](self._bounds.of_address)
        leaving: list[Guest] = []
        for crowd in (group, self._all):
            if crowd.is_full:
                oldest = next(iter(crowd.waiting), guest)
                leaving.append(oldest)
                self.leave(oldest)
        if guest not in leaving:
            self._of_address[address] = group
            self._address_of[guest] = address
            self.wait(guest)
        return leaving

    def wait(self, guest: Guest) -> None:
        """Note that nothing of a connection is under way any more."""
        for crowd in self._crowds(guest):
            crowd.busy.discard(guest)
            crowd.waiting[guest] = None

    def work(self, guest: Guest) -> bool:
        """Note that a request is under way; return whether there are too many to take it."""
        crowds = self._crowds(guest)
        for crowd in crowds:
            crowd.waiting.pop(guest, None)
            crowd.busy.add(guest)
        return any(len(crowd.busy) > crowd.bound for crowd in crowds)

    def owe(self, guest: Guest, size: int) -> list[Guest]:
        """Note that an answer waits to be taken; return those that must be closed for it."""
        self._untaken[guest] = self._untaken.pop(guest, 0) + size
        self._untaken_bytes += size
        leaving: list[Guest] = []
        while self._untaken_bytes > UNTAKEN_BYTES_MAX:
            of_address = Counter[str | None]()
            for other, bytes_ in self._untaken.items():
                of_address[self.address_of(other)] += bytes_
            (most, _), *_ = of_address.most_common(1)
            oldest = next(one for one in self._untaken if self.address_of(one) == most)
            leaving.append(oldest)
            self.leave(oldest)
        return leaving

    def take(self, guest: Guest, size: int) -> None:
        """Note that an answer was taken, of a connection that may be forgotten already."""
        if guest in self._untaken:
            self._untaken_bytes -= size
            self._untaken[guest] -= size
            if not self._untaken[guest]:
                del self._untaken[guest]

    def leave(self, guest: Guest) -> None:
        """Forget a connection, which may be forgotten already."""
        self._untaken_bytes -= self._untaken.pop(guest, 0)
        for crowd in self._crowds(guest):
            crowd.waiting.pop(guest, None)
            crowd.busy.discard(guest)
        address = self._address_of.pop(guest, None)
        if address is not None:
            group = self._of_address[address]
            if not group.waiting and not group.busy:
                del self._of_address[address]

    def _crowds(self, guest: Guest) -> tuple[_Group[Guest], ...]:
        address = self.address_of(guest)
        return () if address is None else (self._all, self._of_address[address])


def _counted_as(peer: str | None) -> str:
    """Return that by which connections from an address are counted."""
    try:
        address = ip_address((peer or "").partition("%")[0])
    except ValueError:  # a socket of this machine has no address
        return ""
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{int(address) >> SUBNET_BITS:x}"
