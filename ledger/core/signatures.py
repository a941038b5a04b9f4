"""Signatures of net changes: a keyed digest, which cannot be made without the key.

::

    signature    16 bytes of HMAC-SHA256 over partition key, sort key and every other attribute of
                 the net, then the name of the key

A signature covers one net, under its own key, in any table: a table restored under another name
remains readable. So each table needs keys of its own, or a net of one could be put in another. It
does not prove that a net is the newest: an older net of the same counter, put back whole, is signed
too.

The first key signs, and every key verifies, so keys can be rotated one after the other.

Source: RFC 2104; FIPS 198-1. A truncated HMAC of 128 bits: NIST SP 800-107, section 5.3.

Pure: no clock, no randomness, no I/O.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ledger.core import amounts
from ledger.core.entry import FAULT, Item
from ledger.core.errors import InvalidAmount, SettingsError
from ledger.core.keys import NET_PREFIX

SIGNATURE = "signature"
SIGNED = (
    *("pk", "sk", "change", "count", "merged", "version", "until", "home", "digest"),
    *("periods", "archive", "accounts"),
)
"""The attributes that a signature covers: all that a net change can have besides it."""
TAG_BYTES = 16
SECRET_BYTES_MIN = 32
"""As long as the hash, which a shorter key would weaken (RFC 2104, section 3)."""
KEYS_MAX = 8
_NAME = re.compile(r"[A-Za-z0-9._-]{1,16}", flags=re.ASCII)
_RULE = (
    "a line of the key file is NAME BASE64: a name of 1 to 16 of the characters a-z A-Z 0-9 . _ -,"
    f" and at least {SECRET_BYTES_MIN} random bytes"
)


@dataclass(frozen=True, slots=True)
class NetKey:
    """A key by its name; the secret is in no text."""

    name: str
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class NetKeys:
    """The keys of a table, the signing key first; `required` refuses unsigned nets."""

    keys: tuple[NetKey, ...]
    required: bool = False

    @classmethod
    def parse(cls, text: str, *, required: bool = False) -> "NetKeys":
        """Return the keys in the lines of a file; empty lines and comments (#) are skipped.

        Raises:
            SettingsError: a line is not a key, or two have the same name; no message shows a
                secret.
        """
        lines = [line.strip() for line in text.splitlines()]
        keys = tuple(_key(line) for line in lines if line and not line.startswith("#"))
        if not 1 <= len(keys) <= KEYS_MAX:
            raise SettingsError(f"a key file has 1 to {KEYS_MAX} keys, got {len(keys)}")
        if len({key.name for key in keys}) < len(keys):
            raise SettingsError("two keys of a key file have the same name")
        return cls(keys, required)

    def signed(self, item: Item) -> Item:
        """Return a net change with the signature of the first key."""
        first = self.keys[0]
        return {**item, SIGNATURE: {"B": _tag(first, item) + first.name.encode()}}

    def is_signed(self, item: Item) -> bool:
        """Return whether a net change has a valid signature of the first key."""
        return signer_of(item) == self.keys[0].name and self.fault(item) is None

    def fault(self, item: Item) -> str | None:
        """Return why a net change is not trusted; None if it is."""
        if SIGNATURE not in item:
            return "it has no signature" if self.required else None
        name = signer_of(item)
        key = next((key for key in self.keys if key.name == name), None)
        if key is None:
            return f"it is signed by a key that the key file does not have: {name!r:.40}"
        if not hmac.compare_digest(_tag(key, item), item[SIGNATURE]["B"][:TAG_BYTES]):
            return f"its signature by key {name!r} is wrong: written or changed without the key"
        return None

    def checked(self, item: Item, partition: str) -> Item:
        """Return a net change that was read, marked if it is not trusted.

        Only counting it is refused: a net that does not count because of a newer one may have any
        content.
        """
        whole = item if "pk" in item else {**item, "pk": {"S": partition}}
        why = self.fault(whole)
        return item if why is None else {**item, FAULT: {"S": why}}


def is_net(item: Item) -> bool:
    """Return whether an item has the key of a net change."""
    return str(item["sk"].get("S")).startswith(NET_PREFIX)


def signer_of(item: Item) -> str:
    """Return the name of the key that a net change says it is signed by; empty for none."""
    found = item.get(SIGNATURE, {}).get("B")
    return found[TAG_BYTES:].decode("ascii", "replace") if isinstance(found, bytes) else ""


def signed_text(nets: Mapping[str, int]) -> str:
    """Return how many net changes are signed by which key, and how many by none."""
    by_key = [f"{count:,} by {name!r}" for name, count in sorted(nets.items()) if name]
    return f"{', '.join(by_key) or 'none'} are signed, {nets.get('', 0):,} are not"


def _key(line: str) -> NetKey:
    name, _, text = line.partition(" ")
    try:
        secret = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not _NAME.fullmatch(name) or len(secret) < SECRET_BYTES_MIN:
        raise SettingsError(_RULE)
    return NetKey(name, secret)


def _tag(key: NetKey, item: Item) -> bytes:
    message = b"".join(_encoded(item))
    return hmac.new(key.secret, message, hashlib.sha256).digest()[:TAG_BYTES]


def _encoded(item: Item) -> Iterator[bytes]:
    """Yield each attribute, with its name, kind and length, so that no two nets read alike."""
    for name in SIGNED:
        for kind, content in item.get(name, {}).items():
            data = content if isinstance(content, bytes) else _text(kind, content).encode()
            yield b"%s\0%s\0%d\0" % (name.encode(), kind.encode(), len(data))
            yield data


def _text(kind: str, content: object) -> str:
    """Return the text of a value; numbers in one notation, as DynamoDB may return another."""
    if kind == "N":
        try:
            return amounts.to_text(amounts.parse(str(content)))
        except (InvalidAmount, ValueError):
            return str(content)  # it cannot be counted, signed or not
    return str(content)
