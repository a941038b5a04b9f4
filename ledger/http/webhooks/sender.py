"""Sending one event: signed, to an address that was checked, without redirects, again after waits.

::

    2xx ──────────────────────────────────── delivered
    410 ──────────────────────────────────── the receiver wants no more: the webhook is disabled
    else, or no answer ── wait, doubled ──── again, TRIES_MAX at most ── a dead letter

Which addresses a webhook may reach: none of this machine, its networks or its cloud.

A name is looked up once for a request, and the request goes to the address that was checked: one
that answers differently the next time (DNS rebinding) gains nothing.
"""

import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

import anyio
import httpx

from ledger.core.errors import InvalidInput
from ledger.core.http_times import retry_after_seconds
from ledger.http.webhooks.events import TRIES_MAX, WAIT_SECONDS_MAX, Ended, HookEvent, wait_after
from ledger.http.webhooks.hooks import Hook
from ledger.http.webhooks.signatures import headers_of
from ledger.runtime.services import Services
from ledger.runtime.threads import ThreadedCall

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


TRY_SECONDS_MAX = 20.0
"""For one request, whatever of it takes long."""
log = logging.getLogger("ledger.http.webhooks")


@dataclass(frozen=True, slots=True)
class Sent:
    """How sending ended, and what the receiver said last: a status, or why there is none."""

    ended: Ended
    said: str
    tries: int


class Counting(Protocol):
    """Counts tries by webhook and by what came of each."""

    def tried(self, hook: str, outcome: str) -> None:
        """Count one."""


class EventSender:
    """Sends the events of webhooks; for one event loop.

    The request goes to the address that was checked, and the receiver's certificate is that of the
    name in the URL. `http` keeps no connection, so that each name is checked at each try.
    """

    def __init__(
        self,
        http: httpx.AsyncClient,
        *,
        services: Services,
        metrics: Counting,
        resolve: Resolve = resolved,
    ) -> None:
        self._http = http
        self._clock = services.clock
        self._random = services.randomness
        self._metrics = metrics
        self._resolve = resolve
        self._secrets: dict[str, ThreadedCall[tuple[bytes, ...]]] = {}

    async def send(self, hook: Hook, event: HookEvent, *, tries_max: int = TRIES_MAX) -> Sent:
        """Post an event until it is taken, refused for good, or was tried often enough.

        Raises:
            SettingsError: the webhook's secret cannot be used.
        """
        tries, said = 0, ""
        while tries < tries_max:
            tries += 1
            status, said, again = await self._once(hook, event)
            self._metrics.tried(hook.name, said if status else "no answer")
            if status is not None and HTTPStatus(200) <= status < HTTPStatus(300):
                return Sent(Ended.DELIVERED, said, tries)
            if status == HTTPStatus.GONE:
                return Sent(Ended.GONE, said, tries)
            log.warning("webhook %s: try %d of %s: %s", hook.name, tries, event.id, said)
            if tries < tries_max:
                await self._clock.sleep(max(again, wait_after(tries, self._random.random())))
        return Sent(Ended.FAILED, said, tries)

    async def secrets(self, hook: Hook) -> tuple[bytes, ...]:
        """Return the keys by which a webhook's events are signed, as its file has them now.

        Raises:
            SettingsError: there is none, or one that is none.
            LedgerError: its file was not read within a bound.
        """
        if hook.name not in self._secrets:
            what = f"webhook {hook.name}: the read of its secret"
            self._secrets[hook.name] = ThreadedCall(hook.secrets, what=what)
        return await self._secrets[hook.name].result()

    async def _once(self, hook: Hook, event: HookEvent) -> tuple[int | None, str, float]:
        """Return status, what was said, and the seconds that Retry-After asks for."""
        now = int(self._clock.now().timestamp())
        headers = headers_of(await self.secrets(hook), event.id, now, event.body)
        try:
            url = httpx.URL(hook.url)
            port = url.port or (443 if url.scheme == "https" else 80)
            headers |= {
                "Content-Type": "application/json",
                "Host": url.netloc.decode("ascii"),
                "User-Agent": "ledger-webhooks",
            }
            with anyio.fail_after(TRY_SECONDS_MAX):
                address = await checked_address(
                    url.host, port, private=hook.private, resolve=self._resolve
                )
                request = self._http.build_request(
                    "POST",
                    url.copy_with(host=address),
                    content=event.body,
                    headers=headers,
                    extensions={"sni_hostname": url.raw_host.decode("ascii")},
                )
                # The body is not read: what a receiver says beside its status is of no use here.
                answer = await self._http.send(request, stream=True, follow_redirects=False)
                await answer.aclose()
                self._http.cookies.clear()
        except TimeoutError:
            return None, f"no answer within {TRY_SECONDS_MAX:g} s", 0.0
        except (httpx.HTTPError, httpx.InvalidURL, OSError, InvalidInput, UnicodeError) as error:
            return None, str(error) or type(error).__name__, 0.0
        asked = retry_after_seconds(answer.headers.get("retry-after"), now=self._clock.now())
        return answer.status_code, str(answer.status_code), min(WAIT_SECONDS_MAX, asked)
