"""`lab chaos` as a user runs it: right on every engine, and not blind to a wrong merge."""

import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from lab.chaos import run, strangers, writer_process
from lab.chaos.chaos_command import chaos
from lab.faults import fault_run
from lab.harness import command, compactor_process
from support import usual_merge
from support.engines import ENGINES, LONG_ON_DYNOXIDE
from support.faulty_runs import FOLD_AGE_SECONDS, SHORT_TIMES
from support.killing import all_ended, running
from support.mutant_process import mutant_words
from typer.testing import CliRunner, Result

from ledger.local.front.faults import PASSING, SLOW_SECONDS_MAX

SMALL_MINUTES = "0.1"
LONG_MINUTES = "2"
TESTS = Path(__file__).parent.parent
MERGING = {**fault_run.MERGING, "fold_age": FOLD_AGE_SECONDS}
PROCESS_FAULTS = {
    "kill compactor",
    "stall compactor",
    "kill writer",
    "suspend compactor",
    "suspend writer",
    "clock of a compactor",
    "clock of a writer",
}


def run_chaos(folder: Path, *options: str) -> tuple[Result, dict[str, Any]]:
    """Run the command; return how it ended and its report."""
    app = typer.Typer()
    app.command()(chaos)
    file = folder / "report.json"
    result = CliRunner().invoke(
        app, ["--json", str(file), *options], env={"COLUMNS": "120"}, catch_exceptions=False
    )
    return result, json.loads(file.read_text(encoding="utf-8"))


def check_held(result: Result, report: dict[str, Any], *, checks: int = 4) -> None:
    """Check that the run was exact, and that something went wrong in it."""
    assert result.exit_code == 0, result.output
    assert report["verdict"] == "held"
    assert report["wrong"] == []
    assert "every promise held: no wrong total in any region" in result.stdout
    assert len(report["checked"]) == checks
    assert report["obstacle"] == ""
    assert min(report["reads"][kind] for kind in ("fresh", "cached", "eventual")) > 0
    assert report["changes"]["acknowledged"] > 0
    assert report["merged"] > 0
    assert report["repeats"]["late"] > 0
    assert sum(report["faults"].values()) > 0
    assert sum(report["process_faults"].values()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("engine", LONG_ON_DYNOXIDE)
def test_a_small_run_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    """Seconds of chaos with real processes: every read right, all merged to rest, status 0.

    The seed is one whose six seconds hold many faulty requests.
    """
    monkeypatch.setattr(run, "TIMES", SHORT_TIMES)
    monkeypatch.setattr(run, "MERGING", MERGING)
    options = ["--seed", "17", "--minutes", SMALL_MINUTES, "--engine", engine]
    check_held(*run_chaos(tmp_path, *options))


@pytest.mark.slow
def test_every_history_of_a_short_run_has_each_change_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under kills, each change that calls share an item for is there, under its id, in all regions.

    Compactors that are killed leave the archive as complete as the totals.
    """
    monkeypatch.setattr(run, "TIMES", SHORT_TIMES)
    monkeypatch.setattr(run, "MERGING", MERGING)
    options = ["--seed", "17", "--minutes", "0.3", "--engine", "memory", "--archive"]
    result, report = run_chaos(tmp_path, *options)
    check_held(result, report, checks=5)
    said = re.fullmatch(
        r"history: ([\d,]+) changes once each in 3 regions, ([\d,]+) of them in items .*",
        report["checked"][-1],
    )
    assert said is not None, report["checked"]
    changes, parts = (int(number.replace(",", "")) for number in said.groups())
    assert changes >= 3 * report["changes"]["acknowledged"]
    assert parts > 100
    assert "kill writer" in report["process_faults"]


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("profile", "faults"),
    [
        ("suspension", {"suspend compactor", "suspend writer"}),
        ("skew", {"clock of a compactor", "clock of a writer"}),
    ],
)
def test_a_short_run_of_a_profile_is_exact(
    tmp_path: Path, engine: str, profile: str, faults: set[str]
) -> None:
    """Seconds with more faults of one kind: each was met, and every total right."""
    options = ["--seed", "3", "--minutes", "0.3", "--engine", engine, "--profile", profile]
    result, report = run_chaos(tmp_path, *options)
    check_held(result, report)
    assert faults & set(report["process_faults"])


@pytest.mark.slow
@pytest.mark.parametrize("engine", LONG_ON_DYNOXIDE)
def test_a_short_run_that_loses_the_home_is_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """It is taken over, and what the lost region alone had counts everywhere or nowhere."""
    monkeypatch.setattr(run, "TIMES", SHORT_TIMES)
    monkeypatch.setattr(run, "MERGING", MERGING)
    options = ["--seed", "1", "--minutes", "0.3", "--engine", engine, "--profile", "lost-home"]
    result, report = run_chaos(tmp_path, *options)
    check_held(result, report, checks=3)
    assert "the same in 2 regions after everything is merged" in report["checked"][-1]


@pytest.mark.slow
@pytest.mark.parametrize("engine", LONG_ON_DYNOXIDE)
def test_a_short_run_with_settings_that_disagree_is_exact(tmp_path: Path, engine: str) -> None:
    """Processes with other values are refused while an operator changes those of the contract."""
    options = ["--seed", "1", "--minutes", "0.3", "--engine", engine, "--profile", "settings"]
    result, report = run_chaos(tmp_path, *options)
    check_held(result, report)
    assert report["calls"]["strangers refused"] > 0
    assert report["calls"].get("strangers obeyed", 0) == 0
    assert report["calls"]["terms changed"] > 0


@pytest.mark.long
def test_a_process_that_obeys_its_own_settings_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it writes into shards of its own is read by no other: a total is wrong."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    monkeypatch.setattr(strangers, "DISAGREEMENTS", ({"shards": {"*": 8}},))
    monkeypatch.setattr(strangers, "COMPACTOR_SHARE", 0.0)
    words = mutant_words("own-terms")
    monkeypatch.setattr(
        strangers, "command_words", lambda *given: words("lab.harness.command", *given)
    )
    options = ["--seed", "1", "--minutes", "0.5", "--profile", "settings"]
    result, report = run_chaos(tmp_path, *options)
    assert result.exit_code == 1, result.output
    assert {one["rule"] for one in report["wrong"]} & {"P1", "P3"}, report["wrong"]


@pytest.mark.long
def test_without_its_guard_a_suspension_breaks_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that trusts a clock that stood still: status 1."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    monkeypatch.setattr(writer_process, "module_words", mutant_words("suspended-clock"))
    monkeypatch.setattr(command, "module_words", mutant_words("suspended-clock"))
    options = ["--seed", "3", "--minutes", "1", "--profile", "suspension"]
    result, report = run_chaos(tmp_path, *options)
    assert result.exit_code == 1, result.output
    assert report["verdict"] == "broken"
    assert "P1" in {one["rule"] for one in report["wrong"]}, report["wrong"]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", ["1", "2"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_longer_run_is_exact(tmp_path: Path, engine: str, seed: str) -> None:
    """Minutes of chaos: every kind of fault was met, and every promise held."""
    options = ["--seed", seed, "--minutes", LONG_MINUTES, "--engine", engine]
    result, report = run_chaos(tmp_path, *options)
    check_held(result, report)
    assert set(report["faults"]) == set(PASSING)
    assert set(report["process_faults"]) == PROCESS_FAULTS
    assert report["calls"]["without answer"] > 0
    assert report["leaders"] > 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine",
    ["memory", pytest.param("dynoxide", marks=[pytest.mark.engines("dynoxide"), pytest.mark.slow])],
)
def test_the_usual_merge_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """With entries and net in one transaction: status 1, the wrong read, and the way to repeat."""
    monkeypatch.setattr(run, "TIMES", SHORT_TIMES)
    monkeypatch.setattr(compactor_process, "compactor_words", usual_merge_words)
    options = ["--seed", "3", "--minutes", "1", "--engine", engine]
    result, report = run_chaos(tmp_path, *options)
    assert result.exit_code == 1, result.output
    assert report["verdict"] == "broken"
    assert report["wrong"][0]["rule"] in {"P1", "P5"}, report["wrong"]
    assert f"python -m lab chaos --seed 3 --minutes 1 --engine {engine}" in result.stdout
    assert "a promise was broken" in result.stdout
    assert any("~net#0001" in line for line in report["context"])


def usual_merge_words(config: Path, *, every: str) -> list[str]:
    """Return the words that start the merge as usually described."""
    del every
    return [sys.executable, usual_merge.__file__, str(config)]


@pytest.mark.slow
def test_a_compactor_that_ends_by_itself_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that no one killed and that is gone breaks the run, with its last words."""
    monkeypatch.setattr(
        compactor_process,
        "compactor_words",
        lambda _config, **_: [sys.executable, "-c", "raise SystemExit('no more')"],
    )
    result, report = run_chaos(tmp_path, "--minutes", "1")
    assert result.exit_code == 1, result.output
    assert report["wrong"][0]["rule"] == "processes"
    said = " ".join(result.stdout.split())
    assert re.search(r"compactor-\d ended by itself: no more", said), said  # whichever is first


@pytest.mark.slow
async def test_ctrl_c_ends_it_with_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the midst of it: what was checked so far, status 130, and no process left."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    words = [sys.executable, "-m", "lab", "chaos", "--minutes", "5"]
    async with running(words, tmp_path) as command:
        await command.says("process faults")
        command.process.send_signal(signal.SIGINT)
        assert await command.ends() == 130, command.said()
    assert "interrupted: what was checked so far held" in command.said()
    await all_ended(tmp_path)


def test_times_leave_room_for_what_is_slow() -> None:
    """A slow request lands before its entry may be folded, in tests as in the command."""
    for times in (run.TIMES, SHORT_TIMES):
        settle, horizon = float(times["settle"]), float(times["retry_horizon"])
        assert settle - horizon > SLOW_SECONDS_MAX + float(times["request_timeout"])
