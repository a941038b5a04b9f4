"""What a command may not do, whatever it is given."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from proof.fuzz.words import Case

STATUSES = {0, 1, 2, 75, 79, 126, 127, 130}
LINES_SHOWN = 12
_RUNS = ("ledger", "lease", "run")
"""What ends as the command does that it runs: `false` fails and says nothing."""
SECRET = "hunter2"  # noqa: S105 (the password that no message may show, and no word of one)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended; `status` None: not within its time, nor after an interrupt."""

    status: int | None
    out: str
    errors: str
    seconds: float


def problems(
    case: Case, ended: Ended, before: Mapping[str, bytes], after: Mapping[str, bytes]
) -> Iterator[str]:
    """Yield what is wrong with a run; `before` and `after` are the files of its folder."""
    if ended.status is None:
        yield "it did not end, not even after an interrupt"
    elif ended.status not in STATUSES:
        yield f"it ended with {ended.status}"
    if "Traceback" in ended.errors or "Traceback" in ended.out:
        yield "a traceback"
    elif (
        ended.status in {1, 2}
        and case.output == "file"
        and not (ended.errors + ended.out).strip()
        and case.words[: len(_RUNS)] != _RUNS
    ):
        yield "it failed and says nothing"
    if SECRET in ended.errors or SECRET in ended.out:
        yield "it shows a password"
    yield from _unprintable(ended)
    if case.wants_json and ended.status == 0:
        yield from _no_json(ended.out)
    if "--force" not in case.words:
        yield from (
            f"{name} was changed" for name, content in before.items() if after.get(name) != content
        )


def _unprintable(ended: Ended) -> Iterator[str]:
    for name, text in (("output", ended.out), ("errors", ended.errors)):
        signs = {sign for sign in text if not sign.isprintable() and sign not in "\n\xa0"}
        if signs:
            yield f"{name} with {', '.join(sorted(map(ascii, signs)))}"


def _no_json(out: str) -> Iterator[str]:
    for line in filter(None, out.split("\n")):
        try:
            json.loads(line)
        except ValueError:
            yield f"no JSON: {line[:80]!r}"
            return


def shown(case: Case, ended: Ended, problem: str) -> str:
    """Return a finding as lines: what was run, what is wrong, the end of what it said."""
    said = [*ended.out.splitlines()[-LINES_SHOWN:], *ended.errors.splitlines()[-LINES_SHOWN:]]
    under = f"{dict(case.environment)}, {case.encoding}, {case.output}"
    head = f"case {case.number}: {problem} (status {ended.status}, {ended.seconds:.1f} s)"
    return "\n".join(
        [
            head,
            f"  {list(case.words)!r} under {under}",
            *(f"  | {ascii(line)[1:-1]}" for line in said),
        ]
    )
