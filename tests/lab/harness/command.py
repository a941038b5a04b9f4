"""A command of ours as a process of its own, with settings that no file of a user may hold.

`python -m lab.harness.command compactor run ...` is the command `compactor run ...`, but
its settings come from `lab.harness.config`, and it ends with the run that started it,
however that ends.
"""

import os
import signal
import sys
import time
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

from lab.harness.config import read_config
from lab.harness.processes import module_words
from ledger.settings import Settings

ORPHAN_CHECK_SECONDS = 1.0
MAINS = {"compactor": "compactor.cli", "ledger": "ledger.commands.main"}


def command_words(*words: str) -> list[str]:
    """Return the words that start a command so."""
    return module_words("lab.harness.command", *words)


def end_with_parent() -> None:
    """Ask this process to end (SIGTERM) within a second of its parent's end."""
    Thread(target=_end_after, args=(os.getppid(),), name="parent", daemon=True).start()


def _end_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(ORPHAN_CHECK_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def _load(path: str | Path | None = None, **overrides: Any) -> Settings:
    if path is None:
        raise ValueError("a command of the laboratory needs --config")
    return read_config(path).replace(**overrides)


if __name__ == "__main__":
    end_with_parent()
    Settings.load = _load  # type: ignore[method-assign]
    name, sys.argv[:] = sys.argv[1], sys.argv[1:]
    import_module(MAINS[name]).main()
