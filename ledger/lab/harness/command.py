"""A command of ours as a process of its own, with settings that no file may hold.

`python -m ledger.lab.harness.command compactor run ...` is the command `compactor run ...`, but its
settings file may give the constants other values. A run of seconds needs smaller ones than
production, to meet within seconds what production meets within days.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from ledger.settings import Settings

MAINS = {"compactor": "compactor.cli", "ledger": "ledger.commands.main"}


def command_words(*words: str) -> list[str]:
    """Return the words that start a command so."""
    return [sys.executable, "-m", "ledger.lab.harness.command", *words]


def _load(path: str | Path | None = None, **overrides: Any) -> Settings:
    if path is None:
        raise ValueError("a command of the laboratory needs --config")
    return Settings(**yaml.safe_load(Path(path).read_text(encoding="utf-8")), **overrides)


if __name__ == "__main__":
    Settings.load = _load  # type: ignore[method-assign]
    name, sys.argv[:] = sys.argv[1], sys.argv[1:]
    import_module(MAINS[name]).main()
