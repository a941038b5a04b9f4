"""The file of tokens: read, changed, and replaced whole, so that no reader sees half of it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from ledger.core.errors import InvalidInput, LedgerError
from ledger.core.times import time_of
from ledger.runtime.files import keep_access, read_bounded, replace_file
from ledger.service.access.proxies import ProxyHeader
from ledger.service.access.tokens import (
    ID_BYTES,
    SECRET_BYTES,
    Grant,
    TokenRecord,
    checked_grant,
    hash_of,
    token_text,
)

FORMAT = 1
FILE_BYTES_MAX = 4 * 1024 * 1024


@dataclass(slots=True)
class TokenFile:
    """What a file holds: tokens by their ids, and by which header a proxy names callers."""

    records: dict[str, TokenRecord] = field(default_factory=dict)
    proxy: ProxyHeader | None = None


def read_tokens(path: Path) -> TokenFile:
    """Return what a file of tokens holds.

    Raises:
        LedgerError: it cannot be read, or breaks the form; the message says where.
    """
    text = read_bounded(path, FILE_BYTES_MAX, what="file of tokens")
    try:
        content = json.loads(text)
        if content["format"] != FORMAT:
            raise LedgerError(f"{path} has format {content['format']!r}, this release {FORMAT}")
        records = [_record_of(fields) for fields in content["tokens"]]
        proxy = content.get("proxy")
        named = None if proxy is None else ProxyHeader.of(proxy["header"], proxy["addresses"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise LedgerError(f"{path} is not a file of tokens: {error}") from None
    return TokenFile({record.id: record for record in records}, named)


def _record_of(fields: Mapping[str, Any]) -> TokenRecord:
    expires = fields["expires"]
    grant = checked_grant(
        fields["name"],
        fields["scopes"],
        fields["prefixes"],
        rate=fields["rate"],
        at_once=fields["at_once"],
    )
    return TokenRecord(
        fields["id"],
        fields["hash"],
        grant,
        time_of(fields["made"]),
        time_of(expires) if expires else None,
    )


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
    """Replace the file; a crash leaves the old one or the new one."""
    records = [_fields_of(record) for record in content.records.values()]
    fields: dict[str, Any] = {"format": FORMAT, "tokens": records}
    if (proxy := content.proxy) is not None:
        fields["proxy"] = {"header": proxy.name, "addresses": [*map(str, proxy.networks)]}
    replace_file(path, (json.dumps(fields, indent=1) + "\n").encode())


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
    path: Path, grant: Grant, *, now: datetime, randomness: Random, expires: datetime | None
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
    """End every token of a name now; return how many were valid.

    Raises:
        LedgerError: the file cannot be read or written.
    """
    with _changed(path) as content:
        records = content.records
        valid = [record.id for record in records.values() if _is_of(record, name, now)]
        for id_ in valid:
            del records[id_]
    return len(valid)


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
    grant: Grant, *, now: datetime, randomness: Random, expires: datetime | None
) -> tuple[TokenRecord, str]:
    id_ = randomness.randbytes(ID_BYTES).hex()
    token, secret = token_text(id_, randomness.randbytes(SECRET_BYTES))
    return TokenRecord(id_, hash_of(secret), grant, now, expires), token
