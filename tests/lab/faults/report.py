"""What a run knows while it goes on, what is shown of it, and its report at the end."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
from pydantic_core import to_jsonable_python
from rich.text import Text

from lab.faults.options import FaultOptions
from ledger.demo.harness.checker import TaggedChecker, Violation
from ledger.demo.harness.display import DisplayView, checked
from ledger.demo.harness.report import RunReport, Section, Verdict, counts_text
from ledger.runtime.clock import Clock
from ledger.runtime.command_line import FAILED
from ledger.runtime.program import INTERRUPTED

FAULTS_KEPT = 40
FAULTS_SHOWN = 8
VIOLATIONS_SHOWN_MAX = 5
CONTEXT_SHOWN_MAX = 60

Ending = Literal["held", "broken", "interrupted", "unfinished"]
"""`unfinished`: nothing was wrong, but the end could not be checked completely."""
_VERDICTS: Mapping[Ending, Verdict] = {
    "held": Verdict("every promise held: no wrong total in any region", "bold green"),
    "interrupted": Verdict("interrupted: what was checked so far held", "bold yellow", INTERRUPTED),
    "unfinished": Verdict(
        "nothing was wrong, but the end could not be checked", "bold red", FAILED
    ),
    "broken": Verdict("a promise was broken", "bold red", FAILED),
}


@dataclass(slots=True)
class FaultProgress:
    """What is known of a run; `process_faults` and `faults` are those that were injected.

    `stop` ends the run: a promise was broken, or a signal received.
    """

    options: FaultOptions
    checker: TaggedChecker
    clock: Clock
    phase: str = "starting"
    started: float | None = None
    ended: float | None = None
    calls: Counter[str] = field(default_factory=Counter)
    repeats: Counter[str] = field(default_factory=Counter)
    unread: int = 0
    wrong: list[Violation] = field(default_factory=list)
    process_faults: Counter[str] = field(default_factory=Counter)
    faults: Mapping[str, int] = field(default_factory=dict)
    links_cut: int = 0
    merged: int = 0
    entries: int = 0
    leaders: int = 0
    checked: list[str] = field(default_factory=list)
    obstacle: str = ""
    events: deque[str] = field(default_factory=lambda: deque(maxlen=FAULTS_KEPT))
    """The latest faults."""
    stop: anyio.Event = field(default_factory=anyio.Event)

    @property
    def seconds(self) -> float:
        """How long it has been going on, and once it has ended how long it went on."""
        if self.started is None:
            return 0.0
        return (self.clock.monotonic() if self.ended is None else self.ended) - self.started

    def note(self, text: str) -> None:
        """Keep something that happened, with its moment."""
        self.events.append(f"{self.seconds:7.2f} s  {text}")

    def add(self, violation: Violation | None) -> None:
        """Keep a broken promise, which ends the run."""
        if violation is not None:
            self.wrong.append(violation)
            self.stop.set()

    def view(self) -> DisplayView:
        """Return what is shown now."""
        elapsed = f"{self.seconds:.0f} s, faults until {self.options.seconds:.0f} s"
        return DisplayView(
            title=f"ledger {self.options.program}, seed {self.options.seed}",
            phase=self.phase,
            figures=[
                ("elapsed", elapsed),
                ("changes", counts_text(self.checker.tally())),
                ("process faults", counts_text(self.process_faults)),
                ("links cut", str(self.links_cut)),
                ("request faults", f"{sum(self.faults.values()):,}"),
                ("merged", f"{self.merged:,}, entries left: {self.entries:,}"),
            ],
            status=checked(self.checker.reads.total(), len(self.wrong)),
            notes=[Text(event, style="dim") for event in list(self.events)[-FAULTS_SHOWN:]],
        )


@dataclass(frozen=True, slots=True)
class FaultReport(RunReport):
    """The end of a run; `context` is what each region showed of the first wrong counter."""

    progress: FaultProgress
    ended_as: Ending
    context: tuple[str, ...] = ()

    @property
    def ending(self) -> Ending:
        """How it ended: broken if any promise was."""
        return "broken" if self.progress.wrong else self.ended_as

    def verdict(self) -> Verdict:
        """Return the sentence and the status of the ending."""
        found = _VERDICTS[self.ending]
        if self.ending == "unfinished":
            return found._replace(text=f"{found.text}: {self.progress.obstacle}")
        return found

    def sections(self) -> Sequence[Section]:
        """Return all figures."""
        its, checker = self.progress, self.progress.checker
        rows = [
            ("time", f"{its.seconds:.0f} s"),
            ("changes", f"{counts_text(checker.tally())}, in {len(checker.counters):,} counters"),
            ("calls", counts_text(its.calls)),
            ("repeats", counts_text(its.repeats)),
            ("reads checked", f"{checker.reads.total():,}: {counts_text(checker.reads)}"),
            ("could not be read", f"{its.unread:,}"),
            ("request faults", f"{sum(its.faults.values()):,}: {counts_text(its.faults)}"),
            ("process faults", counts_text(its.process_faults)),
            ("merged", f"{its.merged:,} entries, under {its.leaders:,} leaders in turn"),
            *(("checked at rest", sentence) for sentence in its.checked),
            ("wrong", f"{len(its.wrong):,}"),
        ]
        return [Section(title=f"{its.options.program} on {its.options.engine}", rows=rows)]

    def remarks(self) -> Iterable[Text]:
        """Return the first violations, what is known of the very first, and the command."""
        wrong, options = self.progress.wrong, self.progress.options
        if not wrong:
            return []
        again = f"seed {options.seed}; the same schedule again: {options.command}"
        return [
            *(Text(str(violation), style="red") for violation in wrong[:VIOLATIONS_SHOWN_MAX]),
            *(Text(f"  {sentence}") for sentence in wrong[0].known),
            *(Text(f"  {line}", style="dim") for line in self.context[:CONTEXT_SHOWN_MAX]),
            Text(again, style="bold"),
        ]

    def as_json(self) -> dict[str, Any]:
        """Return all figures, with the command to run it again."""
        its, checker = self.progress, self.progress.checker
        names = "calls repeats unread wrong process_faults faults merged entries leaders checked"
        found: dict[str, Any] = to_jsonable_python(
            {
                "verdict": self.ending,
                "obstacle": its.obstacle,
                "options": its.options,
                "command": its.options.command,
                "seconds": round(its.seconds, 3),
                "changes": checker.tally(),
                "counters": len(checker.counters),
                "reads": checker.reads,
                **{name: getattr(its, name) for name in names.split()},
                "context": self.context,
            }
        )
        return found
