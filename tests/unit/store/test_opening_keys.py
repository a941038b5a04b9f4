"""Stores are opened with the keys that the settings name, or not at all."""

import base64
from pathlib import Path

import pytest
from support.ledgers import HOME, make_settings

from ledger.core.errors import SettingsError
from ledger.settings import Settings
from ledger.store.opening import net_keys, open_store
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
    found = net_keys(keyed(path, required=True))
    assert found is not None
    assert (found.required, [key.name for key in found.keys]) == (True, ["one"])
    assert net_keys(make_settings()) is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read (No such file or directory)"),
        (b"\xff\xfe", "cannot be read (UnicodeDecodeError)"),
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
    assert str(caught.value).startswith(f"signatures.keys {path}: {said}")
    assert SECRET not in str(caught.value)


def test_signatures_cannot_be_required_without_keys() -> None:
    """There would be nothing to check them by."""
    with pytest.raises(SettingsError, match=r"signatures.required needs signatures.keys"):
        make_settings(signatures={"required": True})
