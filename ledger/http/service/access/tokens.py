"""Bearer tokens: what each allows, how it is stored, and how one that comes is recognized.

A token is `ldg_<id>_<secret>`. The id finds the record, and only the SHA-256 of the secret is in
it: who reads the file of tokens cannot use them. A slow hash would add nothing, since a secret is
256 random bits and not a password. Secrets are compared in constant time.

Pure: no clock, no randomness, no I/O.
"""

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from hmac import compare_digest
from typing import Literal, get_args
from urllib.parse import quote, unquote

from ledger.core.errors import InvalidInput

Scope = Literal["read", "write", "reverse", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
SECRET_BYTES = 32
ID_BYTES = 6
PREFIXES_MAX = 100
PREFIXES_SHOWN_MAX = 5
"""How many of them a refusal names."""
_SECRET = re.compile(r"(?<=ldg_)([0-9a-f]{12}_)[0-9A-Za-z_-]+", re.ASCII)
_TOKEN = re.compile(r"ldg_([0-9a-f]{12})_([0-9A-Za-z_-]{43})", re.ASCII)
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
_NO_HASH = "0" * 64


@dataclass(frozen=True, slots=True)
class TokenGrant:
    """What a caller may do: scopes, and the counters whose ids begin with one of the prefixes.

    `reverse` includes neither `read` nor `write`; `admin` is for the state of the fleet and, alone,
    for no counter. `rate` is in requests a second, `at_once` how many may be under way.
    """

    name: str
    scopes: frozenset[Scope]
    prefixes: tuple[str, ...] = ("",)
    rate: float | None = None
    at_once: int | None = None

    def lacks(self, scope: Scope, counters: Iterable[str] = ()) -> str:
        """Return what is missing for a request; empty if nothing is."""
        if scope not in self.scopes:
            return f"token {self.name!r} has not the scope {scope!r}"
        if "" in self.prefixes:
            return ""
        for counter in counters:
            if not counter.startswith(self.prefixes):
                allowed = ", ".join(map(repr, self.prefixes[:PREFIXES_SHOWN_MAX]))
                left = len(self.prefixes) - PREFIXES_SHOWN_MAX
                more = f" and {left} more" if left > 0 else ""
                return (
                    f"token {self.name!r} is for counters and prefixes that begin with"
                    f" {allowed}{more}, not for {counter!r}"
                )
        return ""


ANYONE = TokenGrant("anyone", frozenset(SCOPES))
"""What every caller may do where access is not checked."""


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token as it is stored."""

    id: str
    hash: str
    grant: TokenGrant
    made: datetime
    expires: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        """Return whether it may still be used."""
        return self.expires is None or now < self.expires


def checked_grant(
    name: str,
    scopes: Iterable[str],
    prefixes: Iterable[str] = (),
    *,
    rate: float | None = None,
    at_once: int | None = None,
) -> TokenGrant:
    """Return a grant whose parts keep the rules; without prefixes it is for every counter.

    Raises:
        InvalidInput: the message names the value and the rule.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"name must be 1 to 64 of a-z, 0-9, '.', '_' and '-', not first one of the last three,"
            f" got {name!r}"
        )
    chosen = frozenset(scopes)
    if unknown := sorted(chosen - set(SCOPES)):
        raise InvalidInput(f"scope must be one of {', '.join(SCOPES)}, got {unknown[0]!r}")
    if not chosen:
        raise InvalidInput(f"a token needs at least one scope of {', '.join(SCOPES)}")
    allowed = tuple(dict.fromkeys(prefixes)) or ("",)
    if len(allowed) > PREFIXES_MAX:
        raise InvalidInput(f"a token has up to {PREFIXES_MAX} prefixes, got {len(allowed)}")
    if rate is not None and not 0 < rate < float("inf"):
        raise InvalidInput(f"rate must be above 0 requests a second, got {rate}")
    if at_once is not None and at_once < 1:
        raise InvalidInput(f"at_once must be 1 or more, got {at_once}")
    return TokenGrant(
        name, frozenset(scope for scope in SCOPES if scope in chosen), allowed, rate, at_once
    )


def token_text(id_: str, secret: bytes) -> tuple[str, str]:
    """Return a token of this id and these random bytes, and the secret that is its last part."""
    text = urlsafe_b64encode(secret).rstrip(b"=").decode()
    return f"ldg_{id_}_{text}", text


def without_secrets(path: str) -> str:
    """Return a path with the secret of each token in it left out: more people read a log."""
    plain = unquote(path, errors="replace")
    return quote(_SECRET.sub(r"\1...", plain)) if _SECRET.search(plain) else path


def hash_of(secret: str) -> str:
    """Return what is stored of a secret."""
    return sha256(secret.encode()).hexdigest()


def grant_of(token: str, records: Mapping[str, TokenRecord], now: datetime) -> TokenGrant | None:
    """Return what a token allows; None if it is not one of these, or not valid any more.

    An id that is not known takes as long as a secret that is wrong.
    """
    found = _TOKEN.fullmatch(token)
    if found is None:
        return None
    record = records.get(found[1])
    stored = _NO_HASH if record is None else record.hash
    is_same = compare_digest(hash_of(found[2]), stored)
    return record.grant if record is not None and is_same and record.is_valid(now) else None


def grant_named(name: str, records: Mapping[str, TokenRecord], now: datetime) -> TokenGrant | None:
    """Return what the newest valid token of a name allows; None if there is none."""
    valid = [
        record for record in records.values() if record.grant.name == name and record.is_valid(now)
    ]
    return max(valid, key=lambda one: one.made).grant if valid else None


def bearer_in(authorization: str | None) -> str | None:
    """Return the token of an Authorization header; None if it has none (RFC 6750, 2.1)."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip(" ") or None if scheme.lower() == "bearer" else None
