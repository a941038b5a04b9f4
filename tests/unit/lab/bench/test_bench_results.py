"""From rounds to results: medians, ratios, what is not to be trusted, which cases are chosen."""

from collections.abc import Mapping

import pytest

from ledger.lab.bench.cases import ALL, LIMIT_BATCH, PUT, Case, chosen
from ledger.lab.bench.measuring import Measured
from ledger.lab.bench.report import CaseResult
from ledger.lab.bench.runner import results_of


def measured(work: int, *, cpu_seconds: float = 1.0, stub_cpu_seconds: float = 0.1) -> Measured:
    """Return a round of two seconds."""
    return Measured(
        work=work,
        calls=work,
        seconds=2.0,
        cpu_seconds=cpu_seconds,
        p50_seconds=0.001,
        p99_seconds=0.002,
        memory_bytes=0,
        requests=work,
        units=float(work),
        stub_cpu_seconds=stub_cpu_seconds,
    )


BASE = Case("base", "write", "plain:aiobotocore_put")
OURS = Case("ours", "write", "writes:record", "base", limit="limit")
LIMIT = Case("limit", "proof", "limit:stub_limit")


def results(rounds: Mapping[str, tuple[Measured, ...]], **reasons: str) -> dict[str, CaseResult]:
    """Return the results by name; `reasons` say why cases were skipped."""
    found = results_of((BASE, OURS, LIMIT), rounds, skipped=reasons, failed={})
    return {one.name: one for one in found}


def test_ratios_are_of_medians() -> None:
    """One slow round changes nothing; ratios by the clock and by processor time differ."""
    ours = measured(600, cpu_seconds=2.0)
    rounds = {
        "base": (measured(100), measured(1), measured(100)),
        "ours": (ours, measured(1), ours),
        "limit": (measured(6_000),),
    }
    found = results(rounds)["ours"]
    assert found.times_baseline == pytest.approx(6)
    assert found.times_baseline_cpu == pytest.approx(3)
    assert found.stub_limit_times == pytest.approx(10)
    assert found.is_trustworthy


def test_a_busy_stub_is_told() -> None:
    """A case in which the stub took over 80 % of its core is not to be trusted."""
    rounds = {"ours": (measured(600, stub_cpu_seconds=1.7),)}
    assert not results(rounds)["ours"].is_trustworthy
    assert results({"limit": (measured(600, stub_cpu_seconds=2.0),)})["limit"].is_trustworthy


def test_a_skipped_case_says_why() -> None:
    """No figures, no ratio, and the reason."""
    found = results({"base": (measured(100),)}, ours="not installed")["ours"]
    assert found.figures is None
    assert found.times_baseline is None
    assert found.skipped == "not installed"


def test_a_choice_brings_its_baselines_and_proofs() -> None:
    """What a case is compared with is measured in the same run."""
    names = {case.name for case in chosen(["combining, 1,0"])}
    assert {PUT, LIMIT_BATCH} < names
    assert "group commit, lean, asyncio loop" not in {
        case.name for case in chosen(["Group commit, lean"])
    }
    assert chosen(["nothing of the kind"]) == ()
    assert chosen(None) == ALL


def test_names_are_unique_and_baselines_exist() -> None:
    """Results are found by name."""
    names = {case.name for case in ALL}
    assert len(names) == len(ALL)
    assert {case.baseline for case in ALL if case.baseline} <= names
    assert {case.limit for case in ALL if case.limit} <= names
