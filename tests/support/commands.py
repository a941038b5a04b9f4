"""Commands with a settings file: in processes of their own, as a user runs them, or in this one."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from anyio.from_thread import BlockingPortal, start_blocking_portal
from typer.testing import CliRunner

import compactor.cli
import ledger.commands.main
from ledger.core.entry import Item, Key
from ledger.local import LocalGlobalTable
from ledger.settings import Settings
from ledger.settings.model import CONTRACTED
from ledger.store.connections import open_store
from ledger.store.reads import Scan

COMMAND_SECONDS_MAX = 90.0
SCAN_PAGES_MAX = 1_000
COLUMNS = 80
_OURS = ("LEDGER_", "AWS_", "XDG_")


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended."""

    status: int
    out: str
    errors: str


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return the environment of a user with neither AWS credentials nor settings."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return {
        **plain,
        "COLUMNS": str(COLUMNS),
        "HOME": str(folder),
        "AWS_EC2_METADATA_DISABLED": "true",
        **more,
    }


def command_line(command: str, *arguments: str) -> list[str]:
    """Return the words that start `ledger` or `compactor` with this very Python."""
    return [sys.executable, "-m", command, *arguments]


def run_command(
    command: str,
    *arguments: str,
    folder: Path,
    variables: Mapping[str, str] | None = None,
    stdin: str = "",
    seconds_max: float = COMMAND_SECONDS_MAX,
) -> Ran:
    """Run a command in a folder to its end."""
    ran = subprocess.run(
        command_line(command, *arguments),
        input=stdin,
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(folder, **(variables or {})),
        timeout=seconds_max,
        check=False,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


@contextmanager
def started(folder: Path, words: list[str], until: str) -> Iterator[str]:
    """Run a command until it has said something; yield that line; end it afterwards."""
    with subprocess.Popen(
        command_line(*words),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=environment(folder),
    ) as process:
        try:
            assert process.stdout is not None
            yield next(line for line in process.stdout if until in line)
        finally:
            # `ledger local` ends the processes that it has; of the others none needs to drain.
            process.send_signal(signal.SIGTERM if "local" in words else signal.SIGKILL)
            process.communicate()


def run_command_here(
    command: str, *arguments: str, folder: Path, variables: Mapping[str, str] | None = None
) -> Ran:
    """Run a command in this process, as its program would: for what a process adds nothing to."""
    unset: dict[str, str | None] = {name: None for name in os.environ if name.startswith(_OURS)}
    wanted = unset | environment(folder, **(variables or {}))
    main = {"ledger": ledger.commands.main.main, "compactor": compactor.cli.main}[command]
    with (
        chdir(folder),
        _without_log_handlers(),
        CliRunner().isolation(env=wanted) as (out, errors, _),
        patch.object(sys, "argv", [command, *arguments]),
        # Else usage begins with "python -m pytest.ledger" where the tests are run so.
        patch.object(sys.modules["__main__"], "__package__", None),
    ):
        status = _status_of(main)
        sys.stdout.flush()
        sys.stderr.flush()
        return Ran(status, out.getvalue().decode(), errors.getvalue().decode())


@contextmanager
def _without_log_handlers() -> Iterator[None]:
    """Let a program begin with no log handlers, as a process does, and take its own away."""
    root = logging.getLogger()
    kept = list(root.handlers)
    root.handlers.clear()
    try:
        yield
    finally:
        root.handlers[:] = kept


def _status_of(main: Callable[[], None]) -> int:
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    raise AssertionError("a program ends by its exit status")


@dataclass(frozen=True, slots=True)
class Desk:
    """A local global table, and a folder whose regions.yaml names it."""

    world: LocalGlobalTable
    portal: BlockingPortal
    folder: Path

    def settings(self, **overrides: Any) -> Settings:
        """Return settings of the table."""
        return self.world.settings(**overrides)

    def write_settings(self, settings: Settings, name: str = "regions.yaml") -> Path:
        """Write settings for the commands."""
        path = self.folder / name
        values = settings.model_dump(mode="json", exclude=set(CONTRACTED))  # the table has them
        content = yaml.safe_dump(values, sort_keys=False)
        path.write_text(content, encoding="utf-8")
        return path

    def run(self, command: str, *arguments: str, variables: Mapping[str, str] = {}) -> Ran:
        """Run a command in the folder, in this process: it starts in none of its own."""
        return run_command_here(command, *arguments, folder=self.folder, variables=variables)

    def run_process(
        self, command: str, *arguments: str, stdin: str = "", variables: Mapping[str, str] = {}
    ) -> Ran:
        """Run a command in the folder, in a process of its own."""
        return run_command(
            command, *arguments, folder=self.folder, stdin=stdin, variables=variables
        )

    def wait_replicated(self) -> None:
        """Wait until all has replicated."""
        self.portal.call(self.world.wait_replicated)

    def items(self, region: str, settings: Settings) -> dict[Key, Item]:
        """Return all that a region holds."""
        return self.portal.call(items_of, settings, region)


async def items_of(settings: Settings, region: str) -> dict[Key, Item]:
    """Return every item of a region's table."""
    found: dict[Key, Item] = {}
    scan = Scan()
    async with open_store(settings, region) as store:
        for _page in range(SCAN_PAGES_MAX):
            page = await store.scan(scan)
            found |= {(item["pk"]["S"], item["sk"]["S"]): item for item in page.items}
            if page.after is None:
                return found
            scan = scan.next(page)
    raise AssertionError(f"over {SCAN_PAGES_MAX} pages")


@contextmanager
def open_desk(folder: Path, **options: Any) -> Iterator[Desk]:
    """Start a local global table in a thread; options as for `LocalGlobalTable.start`."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(LocalGlobalTable.start(**options)) as world,
    ):
        yield Desk(world, portal, folder)
