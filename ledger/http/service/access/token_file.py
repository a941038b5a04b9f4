"""The file of tokens: read, changed, and replaced whole, so that no reader sees half of it."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ledger.core.errors import InvalidInput, LedgerError
from ledger.core.times import time_of
from ledger.http.service.access.proxies import ProxyHeader
from ledger.http.service.access.tokens import (
    ID_BYTES,
    SECRET_BYTES,
    TokenGrant,
    TokenRecord,
    checked_grant,
    hash_of,
    token_text,
)
from ledger.runtime.files import keep_access, read_bounded, replace_file
from ledger.settings.rules import rule_of

FORMAT = 1
FILE = "file of tokens"
FILE_BYTES_MAX = 4 * 1024 * 1024
"""Some 13,000 tokens."""
Value = TypeVar("Value")


@dataclass(slots=True)
class TokenFile:
    """What a file holds: tokens by their ids, and by which header a proxy names callers."""

    records: dict[str, TokenRecord] = field(default_factory=dict)
    proxy: ProxyHeader | None = None


def _aware(value: object) -> datetime:
    """Return an aware time that a clock can be compared with.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, str) or (read := time_of(value)).tzinfo is None:
        raise ValueError("must be a time with a zone, such as 2026-11-21T06:50:00Z")
    try:
        return read.astimezone(UTC)
    except OverflowError:
        raise ValueError("must be of the years 1 to 9999 in UTC") from None


_Aware = Annotated[datetime, BeforeValidator(_aware)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Token(_Part):
    id: Annotated[str, Field(pattern="^[0-9a-f]{12}$")]
    name: str
    hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    scopes: list[str]
    prefixes: list[str]
    rate: Annotated[float, Field(allow_inf_nan=False)] | None
    at_once: int | None
    made: _Aware
    expires: _Aware | None

    def record(self) -> TokenRecord:
        grant = checked_grant(
            self.name, self.scopes, self.prefixes, rate=self.rate, at_once=self.at_once
        )
        return TokenRecord(self.id, self.hash, grant, self.made, self.expires)


class _Proxy(_Part):
    header: str
    addresses: list[str]

    def checked(self) -> ProxyHeader:
        return ProxyHeader.of(self.header, self.addresses)


class _Content(_Part):
    format: int
    tokens: list[_Token]
    proxy: _Proxy | None = None


def read_tokens(path: Path) -> TokenFile:
    """Return what a file of tokens holds, all of it checked.

    Raises:
        LedgerError: it cannot be read, or breaks the form; the message says where.
    """
    text = read_bounded(path, FILE_BYTES_MAX, what=FILE)
    try:
        return _file_of(json.loads(text, object_pairs_hook=_each_once))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        why = f"{'.'.join(map(str, first['loc']))}: {rule_of(first)}"
    except RecursionError:
        why = "it is nested too deeply"
    except (ValueError, InvalidInput) as error:
        why = str(error)
    raise LedgerError(f"{path} is not a file of tokens: {why}")


def _file_of(content: Any) -> TokenFile:
    """Return what the content of a file says.

    Raises:
        ValueError, InvalidInput: it breaks the form.
    """
    if isinstance(content, dict) and content.get("format", FORMAT) != FORMAT:
        raise ValueError(f"it has format {content['format']!r:.40}, this release {FORMAT}")
    found = _Content.model_validate(content)
    records = _each_once((token.id, token.record()) for token in found.tokens)
    return TokenFile(records, None if found.proxy is None else found.proxy.checked())


def _each_once(pairs: Iterable[tuple[str, Value]]) -> dict[str, Value]:
    """Return pairs by their names.

    Raises:
        ValueError: one stands twice: of two tokens, or two dates, either could be meant.
    """
    found: dict[str, Value] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r:.100} stands twice")
        found[name] = value
    return found


def _fields_of(record: TokenRecord) -> dict[str, Any]:
    grant = record.grant
    return {
        "id": record.id,
        "name": grant.name,
        "hash": record.hash,
        "scopes": sorted(grant.scopes),
        "prefixes": list(grant.prefixes),
        "rate": grant.rate,
        "at_once": grant.at_once,
        "made": record.made.isoformat(),
        "expires": record.expires.isoformat() if record.expires else None,
    }


def _write_tokens(path: Path, content: TokenFile) -> None:
    """Replace the file; a crash leaves the old one or the new one.

    Raises:
        LedgerError: it would be larger than those who read it take; the old one stays.
        OSError: it cannot be written.
    """
    records = [_fields_of(record) for record in content.records.values()]
    fields: dict[str, Any] = {"format": FORMAT, "tokens": records}
    if (proxy := content.proxy) is not None:
        fields["proxy"] = {"header": proxy.name, "addresses": [*map(str, proxy.networks)]}
    content_bytes = (json.dumps(fields, indent=1) + "\n").encode()
    replace_file(path, content_bytes, bytes_max=FILE_BYTES_MAX, what=FILE)


@contextmanager
def _changed(path: Path) -> Iterator[TokenFile]:
    """Change what a file holds, one process at a time; an error in the body changes nothing."""
    import fcntl  # noqa: PLC0415 (not on Windows, where tokens cannot be changed)

    if path.is_dir():
        raise InvalidInput(f"--tokens {path} is a folder: name a file")
    target = path.resolve()
    lock = target.with_name(f".{target.name}.lock")
    try:
        with lock.open("a") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            if target.exists():
                with suppress(OSError):  # else it is root's, and the file's owner could not lock it
                    keep_access(target, lock)
            content = read_tokens(path) if path.exists() else TokenFile()
            yield content
            _write_tokens(path, content)
    except OSError as error:
        raise LedgerError(f"{path} cannot be written: {error.strerror or error}") from None


def create_token(
    path: Path, grant: TokenGrant, *, now: datetime, randomness: Random, expires: datetime | None
) -> str:
    """Add a token for a name that has none that is valid, and return it: it is shown once.

    Raises:
        InvalidInput: the name has one; `rotate_token` gives it another.
        LedgerError: the file cannot be read or written.
    """
    with _changed(path) as content:
        records = content.records
        if any(_is_of(record, grant.name, now) for record in records.values()):
            raise InvalidInput(f"{grant.name!r} has a valid token: rotate it, or revoke it before")
        record, token = _new(grant, now=now, randomness=randomness, expires=expires)
        records[record.id] = record
    return token


def rotate_token(
    path: Path, name: str, *, now: datetime, randomness: Random, overlap: timedelta
) -> str:
    """Give a name a new token and return it; those it has end after the overlap.

    The new one allows the same, and lasts as long as the newest that it replaces did when made.

    Raises:
        InvalidInput: the name has no valid token.
        LedgerError: the file cannot be read or written.
    """
    with _changed(path) as content:
        records = content.records
        valid = [record for record in records.values() if _is_of(record, name, now)]
        if not valid:
            raise InvalidInput(f"{name!r} has no valid token: create one")
        newest = max(valid, key=lambda record: record.made)
        life = None if newest.expires is None else newest.expires - newest.made
        for record in valid:
            end = min(filter(None, (record.expires, now + overlap)))
            records[record.id] = TokenRecord(record.id, record.hash, record.grant, record.made, end)
        expires = None if life is None else now + life
        record, token = _new(newest.grant, now=now, randomness=randomness, expires=expires)
        records[record.id] = record
    return token


def revoke_tokens(path: Path, name: str, *, now: datetime) -> int:
    """End every token of a name now, and forget those that have ended; return how many were valid.

    Raises:
        LedgerError: the file cannot be read or written.
    """
    with _changed(path) as content:
        records = content.records
        named = [record for record in records.values() if record.grant.name == name]
        for record in named:
            del records[record.id]
    return sum(record.is_valid(now) for record in named)


def set_proxy(path: Path, proxy: ProxyHeader | None) -> None:
    """Let a proxy name callers by a header from now on; None: by their tokens alone.

    Raises:
        LedgerError: the file cannot be read or written.
    """
    with _changed(path) as content:
        content.proxy = proxy


def _is_of(record: TokenRecord, name: str, now: datetime) -> bool:
    return record.grant.name == name and record.is_valid(now)


def _new(
    grant: TokenGrant, *, now: datetime, randomness: Random, expires: datetime | None
) -> tuple[TokenRecord, str]:
    id_ = randomness.randbytes(ID_BYTES).hex()
    token, secret = token_text(id_, randomness.randbytes(SECRET_BYTES))
    return TokenRecord(id_, hash_of(secret), grant, now, expires), token
