"""A runbook run from its first command to its last, on a local global table of its own."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from support.commands import (
    COMMAND_SECONDS_MAX,
    Desk,
    Ran,
    command_line,
    environment,
    open_desk,
    run_command_here,
)
from support.replicas import client_of
from support.runbooks import (
    Block,
    Event,
    Expected,
    Section,
    filled_text,
    is_printed,
    read,
    words_of,
)

from compactor import Compactor
from ledger import Table
from ledger.core.entry import Item
from ledger.settings import Settings

HOME, AWAY, THIRD = REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1")
TIMES = {
    "settle": 4.0,
    "retry_horizon": 2.0,
    "observation_delay": 0.8,
    "read_deadline": 0.7,
    "contract_life": 4.0,
}
FOLDS = {"fold_min": 1, "lease": 6.0, "heartbeat": 2.0, "scan_every": 3600}
COUNTER = "shop"
PASSES_MAX = 30
POLL_SECONDS = 0.05
ENDED_SECTION = "Done when"


@dataclass(slots=True)
class Going:
    """A command that goes on beside the others, and the file that it prints to."""

    words: Sequence[str]
    process: subprocess.Popen[bytes]
    file: Path

    @property
    def is_service(self) -> bool:
        """Whether it never ends by itself."""
        return "--every" in self.words

    def stop(self) -> None:
        """End it as an operator does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(COMMAND_SECONDS_MAX)


@dataclass(slots=True)
class RunbookRun:
    """The table, the placeholders' values, and what the last block printed."""

    desk: Desk
    settings: Settings
    values: dict[str, str]
    expected: dict[str, Decimal] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    going: list[Going] = field(default_factory=list)
    printed: Callable[[], str] = str
    printing: Going | None = None
    undone: list[Callable[[], None]] = field(default_factory=list)
    items_then: list[Item] = field(default_factory=list)

    # --- What scenarios do ---

    def record(self, region: str, counter: str, *changes: int, counts: bool = True) -> None:
        """Record changes in a region; `counts` unless they are to be lost."""
        self.desk.portal.call(_record, self.settings, region, counter, changes)
        if counts:
            before = self.expected.get(counter, Decimal(0))
            self.expected[counter] = before + sum(changes)

    def settle(self) -> None:
        """Let what was written replicate and grow older than `settle`."""
        self.desk.wait_replicated()
        self.sleep(self.settings.settle)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self.desk.portal.call(anyio.sleep, seconds)

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so."""
        until = time.monotonic() + COMMAND_SECONDS_MAX
        while not is_so():
            assert time.monotonic() < until, f"{is_so} never came"
            self.sleep(POLL_SECONDS)

    def run_pass(self) -> None:
        """Run a pass of the compactor."""
        self.desk.portal.call(partial(Compactor(self.settings).run_once, search=True))

    def client(self, region: str) -> Any:
        """Return a boto3 client of a region."""
        return client_of(region, self.desk.world.endpoints[region])

    def items(self, region: str) -> list[Item]:
        """Return all items of a region."""
        return list(self.desk.items(region, self.settings).values())

    def write_settings(self, settings: Settings, name: str = "regions.yaml") -> None:
        """Write the settings that the commands read from now on."""
        self.desk.write_settings(settings, name)
        if name == "regions.yaml":
            self.settings = settings

    def command(self, line: str) -> Ran:
        """Run a command line of ours."""
        program, *arguments = words_of(line, self.values)
        return run_command_here(
            program, *arguments, folder=self.desk.folder, variables=self.variables
        )

    def start(self, *words: str) -> Going:
        """Start a command of ours that goes on beside the others."""
        file = self.desk.folder / f"output-{len(self.going)}"
        program, *arguments = words
        with file.open("wb") as output:
            process = subprocess.Popen(
                command_line(program, *arguments),
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.desk.folder,
                env=environment(self.desk.folder, PYTHONUNBUFFERED="1", **self.variables),
            )
        going = Going(words, process, file)
        self.going.append(going)
        return going

    def is_merged(self) -> bool:
        """Return whether every region shows the expected totals without entries."""
        return all(
            (total.value, total.entries) == (self.expected[total.counter], 0)
            for region in self.settings.regions
            for total in self.totals(region)
        )

    def totals(self, region: str) -> Sequence[Any]:
        """Return the totals of all counters in a region."""
        return self.desk.portal.call(_totals, self.settings, region, tuple(self.expected))

    def check_totals(self) -> None:
        """Check that every region shows the expected totals, and does so when all is merged."""
        self.desk.wait_replicated()
        for region in self.settings.regions:
            shown = {total.counter: total.value for total in self.totals(region)}
            assert shown == self.expected, region
        for _ in range(PASSES_MAX):
            if self.is_merged():
                return
            self.sleep(self.settings.observation_delay)
            self.run_pass()
            self.desk.wait_replicated()
        raise AssertionError(f"not merged after {PASSES_MAX} passes")

    # --- What a runbook does ---

    def run_section(self, section: Section, scenario: "Scenario") -> None:
        """Run what a section has, in order."""
        if section.title == ENDED_SECTION:
            self._join()
        for part in section.parts:
            match part:
                case Block():
                    self._run_block(part, scenario)
                case Expected(lines):
                    for line in lines:
                        self._wait_for(filled_text(line, self.values))
                case Event(text):
                    scenario.events[text](self)

    def _run_block(self, block: Block, scenario: "Scenario") -> None:
        outputs: list[str] = []
        self.printing = None
        for line in block.lines:
            if block.is_foreign:
                outputs.append(scenario.foreign[line](self) or "")
            elif block.is_background:
                self.printing = self.start(*words_of(line, self.values))
                self.printed = self.printing.file.read_text
                return
            else:
                ran = self.command(line)
                outputs.append(ran.out + ran.errors)
                assert ran.status == block.status, f"{line}: {ran}"
        text = "\n".join(outputs)
        self.printed = lambda: text

    def _wait_for(self, line: str) -> None:
        """Wait until the last block has printed a line: at once, but for one that goes on."""
        until = time.monotonic() + COMMAND_SECONDS_MAX
        while not is_printed(line, self.printed()):
            goes_on = self.printing is not None and self.printing.process.poll() is None
            in_time = goes_on and time.monotonic() < until
            assert in_time or is_printed(line, self.printed()), f"{line!r}: {self.printed()}"
            time.sleep(POLL_SECONDS)

    def _join(self) -> None:
        for going in self.going:
            if not going.is_service:
                status = going.process.wait(COMMAND_SECONDS_MAX)
                assert status == 0, going.file.read_text()

    def end(self) -> None:
        """End what still goes on, and undo what was patched."""
        for going in self.going:
            going.stop()
        while self.undone:
            self.undone.pop()()


Act = Callable[[RunbookRun], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """How a test makes a runbook's fault, and what it does in place of AWS and of people.

    `values` are those of placeholders; `prepare` may add others. `foreign` has each command of a
    block `sh aws`, and returns what it prints; `events` each place marked `then:`. `skipped` are
    sections that another scenario of the runbook runs. `given` are more values of the settings.
    """

    runbook: str
    name: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    prepare: Act
    foreign: Mapping[str, Act] = field(default_factory=dict)
    events: Mapping[str, Act] = field(default_factory=dict)
    check: Act = RunbookRun.check_totals
    skipped: frozenset[str] = frozenset()
    given: Callable[[Path], Mapping[str, Any]] = lambda _folder: {}

    @property
    def title(self) -> str:
        """Its name among all."""
        return f"{self.runbook}, {self.name}" if self.name else self.runbook


def run_scenario(scenario: Scenario, folder: Path) -> None:
    """Run a runbook in a scenario, and check what it leaves."""
    runbook = read(scenario.runbook)
    with _open_run(scenario, folder) as run:
        scenario.prepare(run)
        for section in runbook.sections:
            if section.title not in scenario.skipped:
                run.run_section(section, scenario)
        scenario.check(run)


@contextmanager
def _open_run(scenario: Scenario, folder: Path) -> Iterator[RunbookRun]:
    given = {**TIMES, "compactor": FOLDS, **scenario.given(folder)}
    with open_desk(folder, regions=REGIONS, lag=0.01, jitter=0.02, replica_seconds=0.1) as desk:
        run = RunbookRun(desk, desk.settings(**given), dict(scenario.values))
        run.write_settings(run.settings)
        try:
            yield run
        finally:
            run.end()


async def _record(settings: Settings, region: str, counter: str, changes: Sequence[int]) -> None:
    async with Table.open(settings, region=region) as table:
        await table.ledger.record_many([(counter, change) for change in changes])


async def _totals(settings: Settings, region: str, counters: Sequence[str]) -> Sequence[Any]:
    async with Table.open(settings, region=region) as table:
        found = await table.ledger.totals(counters, max_age=0)
        return [found[counter] for counter in counters]


def with_changes(run: RunbookRun) -> None:
    """Write in every region and leave it in the midst of merging: folded, not yet deleted."""
    for region in run.settings.regions:
        run.record(region, COUNTER, 3, -1)
    run.settle()
    run.run_pass()
    run.desk.wait_replicated()
    run.record(AWAY, COUNTER, 5)
    run.desk.wait_replicated()
