"""Stores are opened with the keys that the settings name, or not at all."""

import base64
import os
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import Any

import pytest
from support.ledgers import HOME, make_settings

from ledger.core.errors import SettingsError
from ledger.runtime.files import read_bounded
from ledger.settings import Settings
from ledger.store import connections
from ledger.store.connections import net_keys, open_store
from ledger.store.wrappers.net_signatures import NetSigningStore

SECRET = base64.b64encode(b"k" * 32).decode()


def keyed(path: Path, *, required: bool = False) -> Settings:
    """Return settings with a file of keys."""
    return make_settings(signatures={"keys": str(path), "required": required})


async def test_a_store_signs_where_keys_are_named(tmp_path: Path) -> None:
    """And is none that signs otherwise."""
    path = tmp_path / "keys"
    path.write_text(f"one {SECRET}\n", encoding="utf-8")
    async with open_store(keyed(path, required=True), HOME) as store:
        assert isinstance(store, NetSigningStore)
    async with open_store(make_settings(), HOME) as store:
        assert not isinstance(store, NetSigningStore)
    found = net_keys(keyed(path, required=True).signatures)
    assert found is not None
    assert (found.required, [key.name for key in found.keys]) == (True, ["one"])
    assert net_keys(make_settings().signatures) is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "{path} cannot be read: No such file or directory"),
        (b"\xff\xfe", "it is not UTF-8"),
        (f"one {SECRET}x".encode(), "a line of the key file is NAME BASE64"),
    ],
)
async def test_a_file_that_cannot_be_used_opens_nothing(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    """One line names the file and the rule, and shows nothing of what is in it."""
    path = tmp_path / "keys"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        async with open_store(keyed(path), HOME):
            pass
    assert str(caught.value).startswith(f"signatures.keys {path}: {said.format(path=path)}")
    assert SECRET not in str(caught.value)


def test_keys_may_stand_in_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no file can be mounted; nothing of what is in it is shown."""
    settings = make_settings(signatures={"keys_env": "NET_KEYS", "required": True})
    monkeypatch.setenv("NET_KEYS", f"one {SECRET}\ntwo {SECRET}")
    found = net_keys(settings.signatures)
    assert found is not None
    assert (found.required, [key.name for key in found.keys]) == (True, ["one", "two"])
    assert SECRET not in repr(settings)
    monkeypatch.setenv("NET_KEYS", f"one {SECRET}x")
    with pytest.raises(SettingsError, match=r"^signatures.keys_env NET_KEYS: a line of") as caught:
        net_keys(settings.signatures)
    assert SECRET not in str(caught.value)
    monkeypatch.delenv("NET_KEYS")
    with pytest.raises(SettingsError, match="NET_KEYS: the variable is not set"):
        net_keys(settings.signatures)


@pytest.mark.parametrize(
    ("signatures", "said"),
    [
        ({"required": True}, "signatures.required needs signatures.keys"),
        ({"keys": "a", "keys_env": "B"}, "of signatures.keys and signatures.keys_env give one"),
        ({"keys_env": "LEDGER_KEYS"}, "must not begin with LEDGER_"),
    ],
)
def test_keys_that_cannot_be_found_are_refused(signatures: dict[str, Any], said: str) -> None:
    """Signatures that are required have something to check them by, in one place."""
    with pytest.raises(SettingsError, match=said):
        make_settings(signatures=signatures)


async def test_keys_are_read_on_a_thread_that_may_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service opens stores of other regions while it serves; a pipe is refused at once."""
    path, threads = tmp_path / "keys", list[Thread]()

    def noted(file: Path, bytes_max: int, *, what: str) -> bytes:
        threads.append(current_thread())
        return read_bounded(file, bytes_max, what=what)

    monkeypatch.setattr(connections, "read_bounded", noted)
    path.write_text(f"one {SECRET}\n", encoding="utf-8")
    async with open_store(keyed(path), HOME):
        assert main_thread() not in threads
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(SettingsError, match="it is no regular file"):
        async with open_store(keyed(path), HOME):
            pass
    assert len(threads) == 2
