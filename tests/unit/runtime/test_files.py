"""Files that are replaced whole, for those who may read them."""

import os
import stat
from pathlib import Path

import pytest

from ledger.core.errors import LedgerError
from ledger.runtime import files
from ledger.runtime.files import is_mounted_alone, keep_access, read_bounded, replace_file


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    """Nobody writes to it: a read would wait for ever."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(LedgerError, match="it is no regular file"):
        read_bounded(path, 10, what="file")


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o640])
def test_what_is_replaced_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    """And nothing is left beside it."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    replace_file(path, b"new", bytes_max=3, what="file")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", mode)
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("old", [b"old", None])
def test_what_nobody_would_read_is_not_written(tmp_path: Path, old: bytes | None) -> None:
    """A file beyond its readers' bound would hold them up, and stay: the error says how large."""
    path = tmp_path / "file"
    if old is not None:
        path.write_bytes(old)
    with pytest.raises(LedgerError, match=r"a thing may have up to 3 bytes, .* would have 4"):
        replace_file(path, b"long", bytes_max=3, what="thing")
    assert (path.read_bytes() if path.exists() else None) == old


def test_what_is_new_is_its_writers_alone(tmp_path: Path) -> None:
    """Who else may read it is said by its mode, once it is there."""
    path = tmp_path / "file"
    replace_file(path, b"new", bytes_max=3, what="file")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_a_link_leads_to_is_replaced(tmp_path: Path) -> None:
    """The link stays; readers by either name see the new file."""
    target, link = tmp_path / "folder" / "file", tmp_path / "link"
    target.parent.mkdir()
    target.write_bytes(b"old")
    link.symlink_to(target)
    replace_file(link, b"new", bytes_max=3, what="file")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_what_is_replaced_keeps_its_owner_and_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root replaces the file of the user that reads it."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"")
    new.write_bytes(b"")
    given: list[tuple[Path, int, int]] = []
    plain = Path.stat

    def of_another(path: Path, **options: bool) -> os.stat_result:
        found = plain(path, **options)
        owned = [*[*found][:4], 1234, 5678] if path == old else [*found][:6]
        return os.stat_result([*owned, *[*found][len(owned) :]])

    monkeypatch.setattr(Path, "stat", of_another)
    monkeypatch.setattr(os, "chown", lambda *words: given.append(words))
    keep_access(old, new)
    assert given == [(new, 1234, 5678)]

    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "chown", refused)
    with pytest.raises(PermissionError, match="user 1234, group 5678"):
        replace_file(old, b"new", bytes_max=3, what="file")
    assert old.read_bytes() == b""
    assert {*tmp_path.iterdir()} == {old, new}


def test_a_file_that_is_mounted_by_itself_is_told(tmp_path: Path) -> None:
    """One in a folder that is mounted is not; a name with a space is in the list as a code."""
    mounts = tmp_path / "mountinfo"
    alone, within = tmp_path / "a file", tmp_path / "folder" / "file"
    lines = [
        f"36 35 98:0 /a {str(alone).replace(' ', chr(92) + '040')} ro - ext4 /dev/sda ro",
        f"37 35 98:0 /b {within.parent} ro - ext4 /dev/sda ro",
        "what is no mount",
    ]
    mounts.write_text("\n".join(lines))
    assert is_mounted_alone(alone, mounts)
    assert not is_mounted_alone(within, mounts)
    assert not is_mounted_alone(alone, tmp_path / "none")
    assert Path("/proc/self/mountinfo") == files._MOUNTS
