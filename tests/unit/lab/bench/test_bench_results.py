"""From rounds to results: medians, ratios, what is not to be trusted, which cases are chosen."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from lab.bench.cases import ALL, ENTRY_SECONDS_MAX, PUT, ROUND_SECONDS_MAX, Case, chosen
from lab.bench.measurement import Measured
from lab.bench.options import BenchOptions
from lab.bench.report import BenchReport, CaseResult
from lab.bench.runner import Bench, results_of, run_cases
from lab.bench.scale import entries_of
from lab.bench.scale_stages import FIGURES, STAGES

from ledger.core.errors import LedgerError
from ledger.runtime.command_line import FAILED


def measured(work: int, *, cpu_seconds: float = 1.0, stub_cpu_seconds: float = 0.1) -> Measured:
    """Return a round of two seconds."""
    return Measured(
        work=work,
        calls=work,
        seconds=2.0,
        cpu_seconds=cpu_seconds,
        p50_seconds=0.001,
        p99_seconds=0.002,
        requests=work,
        units=float(work),
        stub_cpu_seconds=stub_cpu_seconds,
    )


BASE = Case("base", "write", "plain:put")
OURS = Case("ours", "write", "writes:record", "base")


def results(rounds: Mapping[str, tuple[Measured, ...]], **reasons: str) -> dict[str, CaseResult]:
    """Return the results by name; `reasons` say why cases were skipped."""
    found = results_of((BASE, OURS), rounds, skipped=reasons, failed={})
    return {result.name: result for result in found}


def test_ratios_are_of_medians() -> None:
    """One slow round changes nothing; ratios by the clock and by processor time differ."""
    ours = measured(600, cpu_seconds=2.0)
    rounds = {
        "base": (measured(100), measured(1), measured(100)),
        "ours": (ours, measured(1), ours),
    }
    figures = results(rounds)["ours"].figures
    assert figures["work_per_second"] == pytest.approx(300)
    assert figures["times_baseline"] == pytest.approx(6)
    assert figures["times_baseline_cpu"] == pytest.approx(3)


def test_a_busy_stub_is_marked() -> None:
    """A case in which the stub took over 80 % of its core is not to be trusted."""
    assert results({"ours": (measured(600, stub_cpu_seconds=1.5),)})["ours"].label == "ours"
    busy = results({"ours": (measured(600, stub_cpu_seconds=1.7),)})["ours"]
    assert busy.label == "ours (the stub was too busy)"


def test_a_skipped_case_says_why() -> None:
    """No figures, no ratio, and the reason; its row of CSV has empty cells."""
    found = results({"base": (measured(100),)}, ours="not installed")
    assert found["ours"].figures == {}
    assert found["ours"].label == "ours: skipped: not installed"
    report = BenchReport({}, BenchOptions(), tuple(found.values()))
    base, ours = report.as_rows()
    assert (base["case"], base["work_per_second"]) == ("base", 50.0)
    assert (ours["case"], ours["work_per_second"]) == ("ours", None)
    assert report.verdict() is None


def test_a_failed_case_ends_with_its_status() -> None:
    """What could not be measured is named, and the status is not 0."""
    found = results_of((BASE,), {}, skipped={}, failed={"base": "wrong sums"})
    verdict = BenchReport({}, BenchOptions(), found).verdict()
    assert verdict is not None
    assert (verdict.status, "base" in verdict.text) == (FAILED, True)
    assert found[0].label == "base: wrong sums"


def test_figures_of_one_case_are_rows_of_their_own() -> None:
    """What only one case has is shown below its table."""
    further = replace(measured(600), extra={"MB, last fifth": 12.5})
    found = results({"base": (measured(100),), "ours": (further,)})
    table, more = BenchReport({}, BenchOptions(), tuple(found.values())).sections()
    assert [row[0] for row in table.rows] == ["base", "ours"]
    assert more.rows == [("ours: MB, last fifth", "12.5")]


def test_a_choice_brings_its_baselines() -> None:
    """What a case is compared with is measured in the same run; a group is no part of a name."""
    assert PUT in {case.name for case in chosen(["combin"])}
    assert {case.group for case in chosen(["read"])} == {"read"}
    names = [case.name for case in chosen(["Group commit, AIO"])]
    assert names == [PUT, "group commit, aiobotocore"]
    assert chosen(["nothing of the kind"]) == ()
    assert [case.name for case in ALL if case not in chosen(None, full=True)] == [
        "10,000,000 counters"
    ]


def test_what_takes_minutes_is_asked_for() -> None:
    """The ladder and the large archives run with `--full`, or by name, one round of each.

    The highest rung, which takes hours, by name alone.
    """
    short = {case.name for case in chosen(None)}
    large = {case.name for case in chosen(["scale", "1,000,000 entries"])}
    assert {case.name for case in ALL} - short == large
    for name in ("1,000 counters", "10,000,000 counters"):
        assert [case.name for case in chosen([name], full=True)] == [name]


def test_names_are_unique_and_baselines_exist() -> None:
    """Results are found by name."""
    names = {case.name for case in ALL}
    assert len(names) == len(ALL)
    assert {case.baseline for case in ALL if case.baseline} <= names


def rung(counters: int, seconds: float) -> CaseResult:
    """Return a rung of the ladder each of whose stages handled as many as it has counters."""
    values = {"work": counters, "s": seconds, "CPU s": 1.0, "write units": 2 * counters}
    found = {**dict.fromkeys(FIGURES, 0.0), **values}
    extra = {f"{stage}: {name}": found[name] for stage in STAGES for name in FIGURES}
    case = Case(f"{counters:,} counters", "scale", "scale:ladder")
    rounds = {case.name: (replace(measured(counters), extra=extra),)}
    return results_of((case,), rounds, skipped={}, failed={})[0]


def test_a_rung_has_a_row_for_each_stage() -> None:
    """Stage by stage, with costs for each change, entry or total; in the table and in the file."""
    report = BenchReport({}, BenchOptions(), (rung(1_000, 2.0), rung(10_000, 25.0)))
    (table,) = report.sections()
    assert [row[1] for row in table.rows] == [*STAGES, *STAGES]
    assert table.rows[0] == ["1,000 counters", "write", "1,000", "2.0", "1,000", "2", "0", "0"]
    rows = report.as_rows()
    assert [row["write_units_per_work"] for row in rows] == [2.0] * len(rows)
    assert rows[-1]["seconds"] == 25.0


def test_a_rung_that_failed_says_why() -> None:
    """Its row has the reason in place of stages."""
    case = Case("1,000 counters", "scale", "scale:ladder")
    failed = results_of((case,), {}, skipped={}, failed={case.name: "wrong sums"})
    (table,) = BenchReport({}, BenchOptions(), failed).sections()
    assert table.rows == [["1,000 counters: wrong sums", *[""] * 7]]


@pytest.mark.tools("matplotlib")
def test_stages_are_drawn_as_curves() -> None:
    """A line for each stage: its seconds by its work, the rest by counters; zeros are left out."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (optional)

    figure = Figure()
    BenchReport({}, BenchOptions(), (rung(1_000, 2.0), rung(10_000, 25.0))).draw(figure)
    seconds, cpu, write_units = figure.axes
    assert lines(seconds) == {name: [[1_000.0, 10_000.0], [2.0, 25.0]] for name in STAGES}
    assert lines(cpu) == {name: [[1_000.0, 10_000.0], [1_000.0, 100.0]] for name in STAGES}
    assert lines(write_units) == {name: [[1_000.0, 10_000.0], [2.0, 2.0]] for name in STAGES}


def lines(axis: Any) -> dict[str, list[list[float]]]:
    """Return what is drawn on an axis: the points of each line by its name."""
    return {line.get_label(): [list(part) for part in line.get_data()] for line in axis.get_lines()}


def test_a_rung_may_take_as_long_as_its_entries_need() -> None:
    """The limit of a round grows with the entries of a rung; every other case has the usual one."""
    rungs = {case.options["counters"]: case for case in ALL if case.group == "scale"}
    for counters in (1_000, 10_000, 100_000):
        rung = rungs[counters]
        ranks = range(1, counters + 1)
        entries = sum(entries_of(rank, rung.options["hottest"]) for rank in ranks)
        assert 1 <= rung.seconds_max / (entries * ENTRY_SECONDS_MAX) < 1.1
    assert sorted(rungs.values(), key=lambda rung: rung.seconds_max) == [*rungs.values()]
    assert {case.seconds_max for case in ALL if case.group != "scale"} == {ROUND_SECONDS_MAX}


async def test_what_is_measured_is_known_after_each_round() -> None:
    """So a run of an hour that is interrupted has not been for nothing."""
    bench = cast("Bench", Rounds(BenchOptions(rounds=2)))
    found = [
        [(result.name, len(result.rounds), result.failed) for result in results]
        async for results in run_cases(bench, (BASE, OURS, Case("bad", "write", "a:b")))
    ]
    assert found[0] == [("base", 1, None)]
    assert found[2] == [("base", 1, None), ("ours", 1, None), ("bad", 0, "it failed")]
    assert found[-1] == [("base", 2, None), ("ours", 2, None), ("bad", 0, "it failed")]


@dataclass
class Rounds:
    """A bench whose rounds measure nothing."""

    options: BenchOptions

    def on_step(self, step: str) -> None:
        """Nobody looks."""

    async def round(self, case: Case) -> Measured:
        """Return what is measured of a case."""
        if case.name == "bad":
            raise LedgerError("it failed")
        return measured(10)
