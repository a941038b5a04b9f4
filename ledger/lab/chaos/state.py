"""What a run knows while it goes on, and its report at the end."""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ledger.lab.chaos.judge import Wrong

EVENTS_KEPT = 40
Verdict = Literal["held", "broken", "interrupted", "unfinished"]
"""`unfinished`: nothing was wrong, but the end could not be checked whole."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a run goes; `lag` and `jitter` in seconds."""

    seed: int
    seconds: float
    engine: str
    compactors: int = 2
    lag: float = 0.05
    jitter: float = 0.3

    @property
    def command(self) -> str:
        """The command that makes this run again."""
        return (
            f"ledger chaos --seed {self.seed} --minutes {self.seconds / 60:g}"
            f" --engine {self.engine} --compactors {self.compactors}"
            f" --lag {self.lag:g} --jitter {self.jitter:g}"
        )


@dataclass(slots=True)
class Progress:
    """The live figures; `events` are the latest things that went wrong by plan.

    `monotonic` is the clock that elapsed time is measured on.
    """

    options: Options
    monotonic: Callable[[], float]
    phase: str = "starting"
    started: float | None = None
    ended: float | None = None
    changes: Mapping[str, int] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    repeats: Counter[str] = field(default_factory=Counter)
    reads: Mapping[str, int] = field(default_factory=dict)
    unread: int = 0
    wrong: list[Wrong] = field(default_factory=list)
    blows: Counter[str] = field(default_factory=Counter)
    planned: Counter[str] = field(default_factory=Counter)
    faults: Mapping[str, int] = field(default_factory=dict)
    paused: int = 0
    merged: int = 0
    entries: int = 0
    counters: int = 0
    leaders: int = 0
    checked: list[str] = field(default_factory=list)
    obstacle: str = ""
    events: deque[str] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT))

    @property
    def seconds(self) -> float:
        """How long it has been going on, and where it has ended how long it went on."""
        if self.started is None:
            return 0.0
        return (self.monotonic() if self.ended is None else self.ended) - self.started

    def note(self, text: str) -> None:
        """Keep something that happened, with its moment."""
        self.events.append(f"{self.seconds:7.2f} s  {text}")


@dataclass(frozen=True, slots=True)
class Report:
    """The end of a run: its verdict and all figures; `evidence` is about the first wrong."""

    options: Options
    verdict: Verdict
    seconds: float
    changes: Mapping[str, int]
    calls: Mapping[str, int]
    repeats: Mapping[str, int]
    reads: Mapping[str, int]
    unread: int
    wrong: tuple[Wrong, ...]
    blows: Mapping[str, int]
    planned: Mapping[str, int]
    faults: Mapping[str, int]
    merged: int
    counters: int
    leaders: int
    checked: tuple[str, ...]
    obstacle: str = ""
    evidence: tuple[str, ...] = ()

    @property
    def is_wrong(self) -> bool:
        """Whether a promise was broken, or could not be checked."""
        return self.verdict in {"broken", "unfinished"}

    def as_json(self) -> dict[str, Any]:
        """Return it for a file, with the command to run it again."""
        return {**asdict(self), "command": self.options.command}


def report_of(progress: Progress, verdict: Verdict, evidence: tuple[str, ...]) -> Report:
    """Return the report of a run that has ended."""
    return Report(
        options=progress.options,
        verdict="broken" if progress.wrong else verdict,
        seconds=round(progress.seconds, 3),
        changes=dict(progress.changes),
        calls=dict(progress.calls),
        repeats=dict(progress.repeats),
        reads=dict(progress.reads),
        unread=progress.unread,
        wrong=tuple(progress.wrong),
        blows=dict(progress.blows),
        planned=dict(progress.planned),
        faults=dict(progress.faults),
        merged=progress.merged,
        counters=progress.counters,
        leaders=progress.leaders,
        checked=tuple(progress.checked),
        obstacle=progress.obstacle,
        evidence=evidence,
    )
