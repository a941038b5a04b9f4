"""An earlier state of the code, out of this clone's history."""

import io
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
BEFORE_PARTS = "9143bb43b28639bfb71d82b3d27f563c8c880b06"
"""No change shares an item with another: combined calls become one entry of their sum."""

BEFORE_BOOKS = "b78bf5d4bb3ae3a14143f8275ad863f2937a5f91"
"""It knows tables of format 1 alone: no books, no metadata, and no credits."""


def is_there(commit: str) -> bool:
    """Return whether this clone has a commit; a shallow one has the latest alone."""
    words = ["git", "-C", str(ROOT), "cat-file", "-e", f"{commit}^{{commit}}"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def unpacked(commit: str, folder: Path) -> Path:
    """Return a folder, for PYTHONPATH, with the packages of a commit."""
    words = ["git", "-C", str(ROOT), "archive", commit, "ledger", "compactor"]
    packed = subprocess.run(words, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder
