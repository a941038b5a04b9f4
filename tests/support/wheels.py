"""The package as it is installed: a wheel, unpacked beside the repository's environment."""

import subprocess
import sys
import zipfile
from pathlib import Path

from support.commands import environment

ROOT = Path(__file__).parents[2]


def unpacked_wheel(folder: Path) -> Path:
    """Build the wheel in a folder and return where it is unpacked, for PYTHONPATH."""
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)],
        check=True, env=environment(folder),
    )  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    package = folder / "package"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(package)
    return package
