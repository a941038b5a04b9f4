from pathlib import Path

import pytest
from proof.fuzz.judging import Ended, problems, shown
from proof.fuzz.running import commands, files_of, make_files
from proof.fuzz.words import Case, drawn

CASE = Case(3, ("ledger", "total", "a", "--json"), {}, "utf-8", "file")
FILES = {"good.csv": b"counter,change\n"}


def found(
    *,
    case: Case = CASE,
    status: int | None = 0,
    out: str = "",
    errors: str = "",
    after: dict[str, bytes] = FILES,
) -> list[str]:
    """Return what is wrong with a run."""
    return list(problems(case, Ended(status, out, errors, 0.1), FILES, after))


def test_a_command_that_behaves_has_no_problem() -> None:
    """JSON lines, one line of error, an interrupt, a replaced file where that was asked for."""
    assert found(out='{"a": "1"}\n{"b": "\\u202e"}\n') == []
    assert found(status=2, errors="error: wrong\n") == []
    assert found(status=130, errors="interrupted\n") == []
    forced = Case(3, ("deploy", "--force"), {}, "utf-8", "file")
    assert found(case=forced, after={"good.csv": b"x"}) == []
    assert found(case=Case(3, ("total",), {}, "utf-8", "closed"), status=1) == []
    runs = Case(3, ("ledger", "lease", "run", "a", "false"), {}, "utf-8", "file")
    assert found(case=runs, status=1) == []


@pytest.mark.parametrize(
    ("ran", "problem"),
    [
        ({"status": None}, "it did not end, not even after an interrupt"),
        ({"status": -11}, "it ended with -11"),
        ({"status": 1, "errors": "Traceback (most recent call last):"}, "a traceback"),
        ({"status": 1}, "it failed and says nothing"),
        ({"status": 1, "errors": "http://u:hunter2@h"}, "it shows a password"),
        ({"out": '{"a": "\x9b"}'}, r"output with '\x9b'"),
        ({"out": "a table"}, "no JSON: 'a table'"),
        ({"after": {"good.csv": b"x"}}, "good.csv was changed"),
        ({"after": {}}, "good.csv was changed"),
    ],
)
def test_a_command_that_misbehaves_is_found(ran: dict[str, object], problem: str) -> None:
    """Each rule by a run that breaks it alone."""
    assert found(**ran) == [problem]  # type: ignore[arg-type]
    lines = shown(CASE, Ended(1, "", "\x1b", 0.1), problem).splitlines()
    assert lines[0] == f"case 3: {problem} (status 1, 0.1 s)"
    assert lines[-1] == r"  | \x1b"


def test_cases_are_drawn_by_their_number(tmp_path: Path) -> None:
    """The same for the same seed; in a few thousand every command is drawn, with its options."""
    known = commands()
    cases = [drawn(number, known, 7) for number in range(3_000)]
    assert cases[:50] == [drawn(number, known, 7) for number in range(50)]
    for path, _ in known:
        assert any(case.words[: len(path)] == path for case in cases), path
    used = {word for case in cases for word in case.words if word.startswith("--")}
    assert {"--json", "--everywhere", "--config", "--force", "--region"} <= used
    make_files(tmp_path)
    assert "good.csv" in files_of(tmp_path)
