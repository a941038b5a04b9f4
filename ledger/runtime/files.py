"""Files that are read whole, within bounds, and replaced whole, for those who may read them."""

import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from ledger.core.errors import LedgerError


def read_bounded(
    path: Path, bytes_max: int, *, what: str, too_large: type[LedgerError] = LedgerError
) -> bytes:
    """Return the content of a file of at most `bytes_max` bytes; `what` names it in errors.

    Only a regular file is read: a pipe would hold the caller until somebody writes to it.

    Raises:
        LedgerError: it cannot be read, or is larger; the latter of the type `too_large`.
    """
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise LedgerError(f"{path} cannot be read: it is no regular file")
            content = file.read(bytes_max + 1)
    except OSError as error:
        raise LedgerError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(content) > bytes_max:
        raise too_large(f"{path} is not a {what}: over {bytes_max:,} bytes")
    return content


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # Windows has no such flag


def replace_file(path: Path, content: bytes, *, bytes_max: int, what: str) -> None:
    """Replace a file whole: a reader, and a crash, leaves the old one or the new one.

    `bytes_max` is that of those who read it, by `read_bounded`: it stays a file that they read.

    Owner, group, mode and access list stay those of the file that is there, also behind a symbolic
    link. A new file is its writer's alone.

    Raises:
        LedgerError: it would be larger than that; the old file stays.
        OSError: it cannot be written, or not with the same owner.
    """
    if len(content) > bytes_max:
        raise LedgerError(
            f"{path} is left as it was: a {what} may have up to {bytes_max:,} bytes, and this one"
            f" would have {len(content):,}"
        )
    target = path.resolve()
    with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as new:
        made = Path(new.name)
        try:
            new.write(content)
            new.flush()
            os.fsync(new.fileno())
            if target.exists():
                keep_access(target, made)
            made.replace(target)
        except BaseException:
            made.unlink(missing_ok=True)
            raise


def keep_access(old: Path, new: Path) -> None:
    """Let a new file be read and written by those who may do so with the old one.

    Raises:
        OSError: the owner cannot be kept: only the owner, or root, may write it.
    """
    was, made = old.stat(), new.stat()
    if (was.st_uid, was.st_gid) != (made.st_uid, made.st_gid):
        try:
            os.chown(new, was.st_uid, was.st_gid)
        except PermissionError:
            raise PermissionError(
                1, f"its owner (user {was.st_uid}, group {was.st_gid}) cannot be kept: run it as"
                " that user, or as root",
            ) from None  # fmt: skip
    new.chmod(stat.S_IMODE(was.st_mode))
    if hasattr(os, "listxattr"):  # Linux; an access list is among them
        with suppress(OSError):
            for name in os.listxattr(old):
                os.setxattr(new, name, os.getxattr(old, name))


_MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")


def is_mounted_alone(path: Path, mounts: Path = _MOUNTS) -> bool:
    r"""Return whether a file is mounted by itself, and not as a part of its folder.

    Such a mount keeps the file that was there, when another one takes its name (proc(5),
    `/proc/[pid]/mountinfo`: the fifth field is the mount point, with a space as `\040`). Where
    there is no such list, as on macOS, nothing is known to be.
    """
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
        name = str(path.resolve())
    except OSError:
        return False
    points = (line.split(" ")[4] for line in lines if line.count(" ") >= 4)  # noqa: PLR2004
    return name in {_OCTAL.sub(lambda found: chr(int(found[1], 8)), point) for point in points}
