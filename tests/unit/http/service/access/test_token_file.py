"""The file of tokens, and access by it."""

import json
import logging
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event

import anyio
import pytest
from support.commands import Ran, run_command_here
from support.ledgers import seeded

from ledger.core.errors import InvalidInput, LedgerError
from ledger.http.service.access import access as keeping
from ledger.http.service.access.access import LOOK_SECONDS, STALE_SECONDS, FileAccess
from ledger.http.service.access.proxies import ProxyHeader
from ledger.http.service.access.token_file import (
    TokenFile,
    create_token,
    read_tokens,
    revoke_tokens,
    rotate_token,
    set_proxy,
)
from ledger.http.service.access.tokens import checked_grant, token_text
from ledger.runtime.tasks import background_tasks
from ledger.testing.clock import ManualClock

NOW = datetime(2026, 11, 21, 6, 50, tzinfo=UTC)
MADE_UP, _ = token_text("0" * 12, bytes(32))
GRANT = checked_grant("shop", ["read", "write"], ["shop/"], rate=5.0, at_once=3)


def make(path: Path, *, seed: int = 7, expires: datetime | None = None) -> str:
    """Return a new token of `shop`."""
    return create_token(path, GRANT, now=NOW, randomness=seeded(seed), expires=expires)


def test_a_token_is_kept_by_its_hash_in_a_private_file(tmp_path: Path) -> None:
    """Everything that it allows comes back; the secret is nowhere."""
    path = tmp_path / "tokens.json"
    token = make(path, expires=NOW + timedelta(days=90))
    (record,) = read_tokens(path).records.values()
    assert (record.grant, record.made, record.expires) == (GRANT, NOW, NOW + timedelta(days=90))
    assert token.rpartition("_")[2] not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IRUSR | stat.S_IWUSR


def test_a_proxys_header_stays_while_tokens_change(tmp_path: Path) -> None:
    """Until it is taken away."""
    path = tmp_path / "tokens.json"
    proxy = ProxyHeader.of("X-Caller", ["10.0.7.0/24", "2001:db8::1"])
    set_proxy(path, proxy)
    make(path)
    rotate_token(path, "shop", now=NOW, randomness=seeded(8), overlap=timedelta(0))
    revoke_tokens(path, "shop", now=NOW)
    assert read_tokens(path).proxy == proxy
    set_proxy(path, None)
    assert read_tokens(path).proxy is None


def test_a_proxys_header_is_set_shown_and_taken_away(tmp_path: Path) -> None:
    """By the command; one without addresses is refused, and changes nothing."""

    def run(*words: str) -> Ran:
        return run_command_here("ledger", "token", "proxy", *words, folder=tmp_path)

    refused = run("X-Caller")
    assert (refused.status, "needs 1 to 100 addresses" in refused.errors) == (2, True)
    assert (
        run("X-Caller", "10.0.7.0/24", "10.0.8.1").out == "x-caller from 10.0.7.0/24, 10.0.8.1/32\n"
    )
    assert run("X-Caller", "0.0.0.0/0").status == 2
    assert json.loads(run("--json").out) == {
        "header": "x-caller", "addresses": ["10.0.7.0/24", "10.0.8.1/32"]
    }  # fmt: skip
    assert run("X-Caller", "--none").status == 2
    assert run("--none").out == "no header is taken\n"


def test_a_name_has_one_token(tmp_path: Path) -> None:
    """A second one is refused, and changes nothing."""
    path = tmp_path / "tokens.json"
    make(path)
    before = path.read_text()
    with pytest.raises(InvalidInput, match="'shop' has a valid token: rotate it"):
        make(path, seed=8)
    assert path.read_text() == before


def test_a_full_file_takes_no_more_and_tokens_in_it_can_be_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would be too long to read is not written; a revocation makes room, of what ended too."""
    path = tmp_path / "tokens.json"
    ends = NOW + timedelta(days=1)
    make(path, expires=ends)
    monkeypatch.setattr("ledger.http.service.access.token_file.FILE_BYTES_MAX", path.stat().st_size)
    other = checked_grant("other", ["read"], ["shop/"])
    adding: list[Callable[[], object]] = [
        partial(create_token, path, other, now=NOW, randomness=seeded(8), expires=None),
        partial(rotate_token, path, "shop", now=NOW, randomness=seeded(8), overlap=timedelta(1)),
        partial(set_proxy, path, ProxyHeader.of("X-Caller", ["10.0.7.0/24"])),
    ]
    for add in adding:
        with pytest.raises(LedgerError, match=r"a file of tokens may have up to [0-9]+ bytes"):
            add()
    assert [record.grant for record in read_tokens(path).records.values()] == [GRANT]
    assert revoke_tokens(path, "shop", now=ends) == 0
    assert adding[0]()


async def test_after_a_rotation_both_are_valid_for_a_while(tmp_path: Path) -> None:
    """The new one lives as long as the old one would have when it was made."""
    path = tmp_path / "tokens.json"
    first = make(path, expires=NOW + timedelta(days=90))
    later = NOW + timedelta(days=80)
    second = rotate_token(
        path, "shop", now=later, randomness=seeded(8), overlap=timedelta(hours=24)
    )
    clock = ManualClock(later)
    access = FileAccess(path, clock)
    assert access.grant(f"Bearer {first}") == access.grant(f"Bearer {second}") == GRANT
    await clock.advance(86_400.0)
    assert access.grant(f"Bearer {first}") is None
    await clock.advance(89 * 86_400.0 - 1)
    assert access.grant(f"Bearer {second}") == GRANT
    await clock.advance(1.0)
    assert access.grant(f"Bearer {second}") is None


def test_an_overlap_never_prolongs_a_token(tmp_path: Path) -> None:
    """One that ends before the overlap does ends then."""
    path = tmp_path / "tokens.json"
    first = make(path, expires=NOW + timedelta(hours=1))
    rotate_token(path, "shop", now=NOW, randomness=seeded(8), overlap=timedelta(days=7))
    clock = ManualClock(NOW + timedelta(hours=1))
    assert FileAccess(path, clock).grant(f"Bearer {first}") is None


async def test_what_is_revoked_ends_while_the_service_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a restart, at the next look at the file."""
    path = tmp_path / "tokens.json"
    token = make(path)
    clock = ManualClock(NOW)
    access = FileAccess(path, clock)
    assert access.grant(f"Bearer {token}") == GRANT
    assert revoke_tokens(path, "shop", now=NOW) == 1
    assert revoke_tokens(path, "shop", now=NOW) == 0
    assert access.grant(f"Bearer {token}") == GRANT  # no request looks at the file
    looked = anyio.Event()

    async def look() -> None:
        await FileAccess.look_again(access)
        looked.set()

    monkeypatch.setattr(access, "look_again", look)
    async with background_tasks() as tasks:
        tasks.start_soon(access.keep)
        await clock.advance(LOOK_SECONDS)
        await looked.wait()
    assert access.grant(f"Bearer {token}") is None


async def test_a_file_keeps_who_may_read_it(tmp_path: Path) -> None:
    """A service under a user of its own reads it on, whoever revokes; also behind a link."""
    target, path = tmp_path / "tokens", tmp_path / "link.json"
    path.symlink_to(target)
    make(path)
    target.chmod(0o644)
    rotate_token(path, "shop", now=NOW, randomness=seeded(8), overlap=timedelta(0))
    revoke_tokens(path, "shop", now=NOW)
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert path.is_symlink()


async def test_a_read_that_failed_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each try is counted, though nothing changes meanwhile; the log has the first and the end."""
    path = tmp_path / "tokens.json"
    token = make(path)
    clock = ManualClock(NOW)
    access, failed = FileAccess(path, clock), list[int]()
    access.tell_unread(lambda: failed.append(1))
    revoke_tokens(path, "shop", now=NOW)
    aside = path.rename(tmp_path / "aside")
    path.mkdir()  # as a descriptor that is missing, or a mode: it is there, and cannot be read
    for _ in range(int(STALE_SECONDS)):
        await access.look_again()
        assert not access.is_stale()
        assert access.grant(f"Bearer {token}") == GRANT
        await clock.advance(LOOK_SECONDS)
    assert len(failed) == STALE_SECONDS
    assert access.is_stale()
    path.rmdir()
    aside.rename(path)
    with caplog.at_level(logging.INFO):
        await access.look_again()
        assert not access.is_stale()
    assert access.grant(f"Bearer {token}") is None
    assert [record.levelname for record in caplog.records if "tokens" in record.message] == [
        "ERROR",
        "INFO",
    ]


async def test_what_is_read_is_tried_again_though_the_file_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who holds all descriptors for a moment keeps no revoked token alive."""
    path = tmp_path / "tokens.json"
    token = make(path)
    clock = ManualClock(NOW)
    access = FileAccess(path, clock)
    revoke_tokens(path, "shop", now=NOW)

    def refused(*_: object) -> TokenFile:
        raise LedgerError("too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(keeping, "read_tokens", refused)
        await access.look_again()
        assert access.grant(f"Bearer {token}") == GRANT
    await access.look_again()
    assert access.grant(f"Bearer {token}") is None


async def test_a_look_that_hangs_holds_up_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a mount that has gone: one at a time, each wait for it counted; then it is stale."""
    path = tmp_path / "tokens.json"
    token, clock = make(path), ManualClock(NOW)
    access, failed = FileAccess(path, clock, look_seconds_max=0.001), list[int]()
    access.tell_unread(lambda: failed.append(1))
    revoke_tokens(path, "shop", now=NOW)
    mount, looks = Event(), list[Path]()

    def hung(asked: Path) -> TokenFile:
        looks.append(asked)
        mount.wait()
        return read_tokens(asked)

    monkeypatch.setattr(keeping, "read_tokens", hung)
    try:
        for _ in range(2):
            await access.look_again()
            assert access.grant(f"Bearer {token}") == GRANT
            assert access.grant(f"Bearer {MADE_UP}") is None
            assert not access.is_stale()
        await clock.advance(STALE_SECONDS)
        assert access.is_stale()
        assert (len(looks), len(failed)) == (1, 2)
    finally:
        mount.set()
    while access.is_stale():
        await access.look_again()
    assert access.grant(f"Bearer {token}") is None


def test_a_file_that_is_mounted_by_itself_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What takes its place is not seen."""
    path = tmp_path / "tokens.json"
    make(path)
    monkeypatch.setattr(keeping, "is_mounted_alone", lambda _: True)
    FileAccess(path, ManualClock(NOW))
    assert "mount its folder" in caplog.text


PROXIES: tuple[object, ...] = (
    {},
    {"header": 7, "addresses": []},
    {"header": "X-Caller", "addresses": ["0.0.0.0/0"]},
)


def broken(old: str, new: str) -> str:
    """Return a file of one token with one of its values replaced."""
    fields = {
        "id": "0" * 12, "name": "shop", "hash": "0" * 64, "scopes": ["read"], "prefixes": [""],
        "rate": None, "at_once": None, "made": NOW.isoformat(), "expires": None,
    }  # fmt: skip
    whole = json.dumps({"format": 1, "tokens": [fields]})
    assert old in whole
    return whole.replace(old, new)


BROKEN = [
    *("", "{}", "[]", '{"format": 1, "tokens": [{}]}', "\x00"),
    *[json.dumps({"format": 1, "tokens": [], "proxy": proxy}) for proxy in PROXIES],
    "[" * 100_000,
    '{"tokens":' * 50_000,
    '{"format":' + "9" * 5_000 + ',"tokens":[]}',
    "null",
    '{"format": 1, "tokens": null}',
    '{"format": 1, "tokens": [1]}',
    '{"format": true, "tokens": []}',
    '{"format": 1, "tokens": [], "tokens": []}',
    broken('"expires": null', '"expires": "2026-11-28T00:00:00"'),
    broken('"expires": null', '"expires": "9999999-01-01"'),
    broken('"expires": null', '"expires": "0001-01-01T00:00:00+14:00"'),
    broken('"expires": null', '"expires": ""'),
    broken('"expires": null', '"expires": 0'),
    broken('"expires": null', '"expires": null, "expires": null'),
    broken('"expires": null', '"expires": null, "expire": null'),
    broken('"rate": null', '"rate": NaN'),
    broken('"rate": null', '"rate": 1e999'),
    broken('"rate": null', '"rate": true'),
    broken('"at_once": null', '"at_once": 1.5'),
    broken('"name": "shop"', '"name": "\\ud800"'),
    broken('"hash": "0', '"hash": "z'),
    broken('"id": "0', '"id": "Z'),
    broken('"scopes": ["read"]', '"scopes": "read"'),
    broken('"prefixes": [""]', '"prefixes": ""'),
]


@pytest.mark.parametrize("content", BROKEN)
async def test_a_file_is_checked_whole_when_it_is_read(tmp_path: Path, content: str) -> None:
    """What breaks a rule anywhere counts as a read that failed; a new process refuses it."""
    path = tmp_path / "tokens.json"
    token = make(path)
    clock = ManualClock(NOW)
    access, failed = FileAccess(path, clock), list[int]()
    access.tell_unread(lambda: failed.append(1))
    path.write_text(content)
    await access.look_again()
    assert access.grant(f"Bearer {token}") == GRANT
    assert failed == [1]
    await clock.advance(STALE_SECONDS)
    assert access.is_stale()
    with pytest.raises(LedgerError, match="is not a file of tokens"):
        FileAccess(path, clock)


def test_a_file_of_a_later_release_is_refused(tmp_path: Path) -> None:
    """By its format."""
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps({"format": 2, "tokens": []}))
    with pytest.raises(
        LedgerError, match="is not a file of tokens: it has format 2, this release 1"
    ):
        read_tokens(path)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    """With the reason of the operating system."""
    with pytest.raises(LedgerError, match=r"tokens\.json cannot be read: No such file"):
        FileAccess(tmp_path / "tokens.json", ManualClock(NOW))


def test_limits_are_those_of_a_name_not_of_a_token(tmp_path: Path) -> None:
    """A rotated token shares the share of the one before."""
    path = tmp_path / "tokens.json"
    make(path)
    access = FileAccess(path, ManualClock(NOW))
    assert [access.enter(GRANT) for _ in range(3)] == [0.0] * 3
    assert access.enter(GRANT) > 0  # three at once
    for _ in range(3):
        access.leave(GRANT)
    assert [access.enter(GRANT) for _ in range(2)] == [0.0] * 2
    for _ in range(2):
        access.leave(GRANT)
    assert access.enter(GRANT) > 0  # five a second


def test_a_folder_is_no_file_of_tokens(tmp_path: Path) -> None:
    """It is refused before anything is written beside it."""
    with pytest.raises(InvalidInput, match="is a folder: name a file"):
        make(tmp_path)
    assert list(tmp_path.parent.glob(".*.lock")) == []
